//! A source of credentials that runs a command (`headersHelper`). The output of the command becomes header
//! lines.
//!
//! Requests share the lines until the server refuses them or `ttl` has passed. The command runs once, however
//! many requests wait. If one of these requests is dropped, the run continues for the others.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use mainstay_config::{check_header, is_ours};
use mainstay_core::{
    config::{HeadersHelper, HttpLaunch, Launch, ServerConfig, SignIn},
    ids::ServerName,
};
use mainstay_platform::lineage::Lineage;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    http::credentials::{
        CredentialSource, HeaderLines, NoCredentials, RefusedCredentials, RenewedLines,
    },
    logs::ServerLog,
    process::helper_command::{self, HelperFailed, HelperSurroundings},
};

/// If a run has printed the same lines as the run before, refusals do not run the command for this time.
/// Requests with the same lines are refused one after the other.
const REPEATED: Duration = Duration::from_secs(2);

/// The time after a failure in which the command does not run again. Otherwise each call would run it.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// The helpers of all servers, and their runs.
#[derive(Debug)]
pub struct HeadersHelpers {
    lineage: Lineage,
    /// The sources that open sessions use. Locked for one operation.
    sources: Mutex<HashMap<ServerName, Weak<HelperSource>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl HeadersHelpers {
    pub fn new(lineage: Lineage) -> Self {
        Self {
            lineage,
            sources: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns the source of a server whose entry has a helper. Sessions that are open at the same time share
    /// it.
    pub fn source(&self, server: &ServerConfig, log: &Arc<ServerLog>) -> Option<Arc<HelperSource>> {
        let Launch::Http(HttpLaunch {
            url,
            sign_in: SignIn::Helper(helper),
            ..
        }) = &server.launch
        else {
            return None;
        };
        let mut sources = self.sources.lock();
        let present = sources.get(&server.name).and_then(Weak::upgrade);
        if let Some(source) = present.filter(|source| source.is_of(helper, url)) {
            return Some(source);
        }
        let surroundings = HelperSurroundings {
            server: server.name.to_string(),
            url: url.clone(),
            lineage: self.lineage.clone(),
            log: Arc::clone(log),
            stop: self.stop.clone(),
        };
        let source = Arc::new(HelperSource::new(
            helper.clone(),
            surroundings,
            self.tasks.clone(),
        ));
        sources.retain(|_, source| source.strong_count() > 0);
        sources.insert(server.name.clone(), Arc::downgrade(&source));
        Some(source)
    }

    /// Ends all runs, and returns when their processes have ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

type Run = Shared<BoxFuture<'static, Result<HeaderLines, NoCredentials>>>;

/// The helper of one server.
pub struct HelperSource {
    helper: HeadersHelper,
    surroundings: HelperSurroundings,
    tasks: TaskTracker,
    /// Locked for one operation.
    state: Arc<Mutex<HelperState>>,
}

#[derive(Default)]
struct HelperState {
    /// The lines of the last run that succeeded, and the time of its end.
    lines: Option<(HeaderLines, Instant)>,
    /// The time at which the last run ended, if it printed the same lines as the run before.
    repeated: Option<Instant>,
    /// The error of the last run and the time of its end, if the run failed.
    failure: Option<(NoCredentials, Instant)>,
    /// The run under way.
    run: Option<Run>,
}

impl fmt::Debug for HelperSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperSource")
            .field("server", &self.surroundings.server)
            .field("helper", &self.helper)
            .finish_non_exhaustive()
    }
}

impl HelperSource {
    /// `tasks` tracks the runs.
    pub fn new(
        helper: HeadersHelper,
        surroundings: HelperSurroundings,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            helper,
            surroundings,
            tasks,
            state: Arc::default(),
        }
    }

    fn is_of(&self, helper: &HeadersHelper, url: &str) -> bool {
        self.helper == *helper && self.surroundings.url == url
    }

    /// The stored lines, unless they are older than `ttl`.
    fn kept_lines(&self, state: &HelperState) -> Option<HeaderLines> {
        let (lines, since) = state.lines.as_ref()?;
        let is_valid = self.helper.ttl.is_none_or(|ttl| since.elapsed() < ttl);
        is_valid.then(|| lines.clone())
    }

    /// Joins the run under way, or starts one. After a recent failure, returns its error instead.
    fn run(&self, state: &mut HelperState) -> Run {
        if let Some(run) = &state.run {
            return run.clone();
        }
        if let Some((error, since)) = &state.failure
            && since.elapsed() < FAILURE_PAUSE
        {
            let error = error.clone();
            return async { Err(error) }.boxed().shared();
        }
        let (helper, surroundings) = (self.helper.clone(), self.surroundings.clone());
        let shared = Arc::clone(&self.state);
        let work = async move {
            let outcome = lines_of_run(&helper, &surroundings).await;
            let mut state = shared.lock();
            state.run = None;
            state.failure = None;
            match outcome {
                Ok(lines) => {
                    let now = Instant::now();
                    let former = state.lines.replace((lines.clone(), now));
                    let is_repeated = former.is_some_and(|(former, _)| former == lines);
                    state.repeated = is_repeated.then_some(now);
                    Ok(lines)
                }
                Err(error) => {
                    state.lines = None;
                    let error = unavailable(&helper, &error.to_string());
                    state.failure = Some((error.clone(), Instant::now()));
                    Err(error)
                }
            }
        };
        let task = self.tasks.spawn(work.boxed());
        let helper = self.helper.clone();
        let run = async move {
            let joined = task.await;
            joined.unwrap_or_else(|error| Err(unavailable(&helper, &error.to_string())))
        };
        let run = run.boxed().shared();
        state.run = Some(run.clone());
        run
    }
}

impl CredentialSource for HelperSource {
    fn ready_lines(&self) -> Option<HeaderLines> {
        self.kept_lines(&self.state.lock())
    }

    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async {
            let run = {
                let mut state = self.state.lock();
                if let Some(lines) = self.kept_lines(&state) {
                    return Ok(lines);
                }
                self.run(&mut state)
            };
            run.await
        })
    }

    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_> {
        Box::pin(async move {
            if refused.status != 401 {
                // A permission is missing. Another run would print the same credentials.
                return Err(NoCredentials::Unknown);
            }
            let run = {
                let mut state = self.state.lock();
                if let Some((lines, _)) = &state.lines {
                    if *lines != refused.lines {
                        return Ok(lines.clone());
                    }
                    let is_useless = |at: Instant| at.elapsed() < REPEATED;
                    if state.run.is_none() && state.repeated.is_some_and(is_useless) {
                        return Err(NoCredentials::Unknown);
                    }
                }
                self.run(&mut state)
            };
            match run.await {
                // The same lines would be refused again.
                Ok(lines) if lines == refused.lines => Err(NoCredentials::Unknown),
                outcome => outcome,
            }
        })
    }
}

fn unavailable(helper: &HeadersHelper, reason: &str) -> NoCredentials {
    NoCredentials::Unavailable(format!("headersHelper {}: {reason}", name(&helper.command)))
}

/// The program of a command line: its first word that sets no variable. All other words may contain secrets,
/// and so may a variable whose value contains blanks.
fn name(command: &str) -> &str {
    let mut words = command.split_whitespace();
    let word = words.find(|word| !word.contains('='));
    let is_after_quotes = word.is_some_and(|word| {
        let start = word.as_ptr().addr() - command.as_ptr().addr();
        command[..start].contains(['\'', '"', '\\', '`', '$'])
    });
    word.filter(|_| !is_after_quotes).unwrap_or("it")
}

async fn lines_of_run(
    helper: &HeadersHelper,
    surroundings: &HelperSurroundings,
) -> Result<HeaderLines, HelperFailed> {
    /// The number of the next run, which makes its tag unique.
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let tag = format!("{}:helper-{number}", surroundings.server);
    let output = helper_command::run(helper, surroundings, &tag).await?;
    parse(&output)
}

/// Reads the output of a helper: a JSON object of strings.
fn parse(output: &[u8]) -> Result<HeaderLines, HelperFailed> {
    let object: Map<String, Value> =
        serde_json::from_slice(output).map_err(|_| HelperFailed::NotHeaders)?;
    let mut headers: Vec<(String, &str)> = Vec::new();
    for (name, value) in &object {
        let value = value.as_str().ok_or(HelperFailed::NotHeaders)?;
        // An invalid name may be a secret, because keys and values are easily swapped. Hide it.
        let wrong = |reason: String| HelperFailed::Header {
            name: if check_header(name, "").is_ok() {
                name.clone()
            } else {
                "***".to_owned()
            },
            reason,
        };
        let lowercase = check_header(name, value).map_err(|fault| wrong(fault.to_string()))?;
        if is_ours(&lowercase) {
            return Err(wrong("Mainstay sets it itself".to_owned()));
        }
        if headers.iter().any(|(earlier, _)| *earlier == lowercase) {
            return Err(wrong("it is there twice".to_owned()));
        }
        headers.push((lowercase, value));
    }
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), *value));
    Ok(HeaderLines::new(pairs))
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, path::Path};

    use mainstay_testkit::{limits::IN_PROCESS, soon, until};
    use rustix::process::{Pid, test_kill_process};

    use super::*;
    use crate::logs::ServerLogs;

    /// A helper that counts its runs in a file.
    struct TestHelper {
        folder: tempfile::TempDir,
        helpers: HeadersHelpers,
        source: Arc<HelperSource>,
        log: Arc<ServerLog>,
    }

    impl TestHelper {
        /// `script` runs with the folder of the test as its working folder.
        fn new(script: &str) -> Self {
            Self::with(script, Duration::from_secs(10), None)
        }

        fn with(script: &str, time_limit: Duration, ttl: Option<Duration>) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().display().to_string();
            let command = format!("cd '{path}'; echo run >> runs; {script}");
            let launch = HttpLaunch {
                url: "http://h.example.com/mcp".to_owned(),
                sign_in: SignIn::Helper(HeadersHelper {
                    command,
                    time_limit,
                    ttl,
                }),
                ..HttpLaunch::default()
            };
            let name = ServerName::new("x").expect("a legal name");
            let server = ServerConfig::new(name.clone(), Launch::Http(launch));
            let log = ServerLogs::default().server(&name);
            let helpers = HeadersHelpers::new(Lineage::default());
            let source = helpers.source(&server, &log).expect("a helper");
            let same = helpers.source(&server, &log).expect("a helper");
            assert!(Arc::ptr_eq(&source, &same), "sessions share the source");
            Self {
                folder,
                helpers,
                source,
                log,
            }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.folder.path().join(name)
        }

        fn runs(&self) -> usize {
            let text = fs::read_to_string(self.path("runs")).unwrap_or_default();
            text.lines().count()
        }

        async fn lines(&self) -> Result<String, NoCredentials> {
            let lines = soon(IN_PROCESS, "the lines", self.source.lines()).await?;
            Ok(String::from_utf8(lines.as_bytes().to_vec()).expect("UTF-8"))
        }

        async fn failure(&self) -> String {
            let error = self.lines().await.expect_err("a reason");
            assert!(matches!(error, NoCredentials::Unavailable(_)), "{error:?}");
            error.to_string()
        }

        async fn refresh(&self, lines: &[(&str, &str)]) -> Result<HeaderLines, NoCredentials> {
            let refused = RefusedCredentials {
                status: 401,
                challenges: Vec::new(),
                lines: HeaderLines::new(lines.iter().copied()),
            };
            soon(IN_PROCESS, "other lines", self.source.refresh(refused)).await
        }
    }

    /// The process whose id a helper has written to this file.
    fn process(path: &Path) -> Option<Pid> {
        let text = fs::read_to_string(path).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    async fn until_gone(pid: Pid) {
        until(IN_PROCESS, "its end", || test_kill_process(pid).is_err()).await;
    }

    #[tokio::test]
    async fn the_output_becomes_lines_and_is_kept() {
        let helper =
            TestHelper::new(r#"echo '{"X-Token": "t", "x-run": "'$(wc -l < runs | tr -d " ")'"}'"#);
        assert_eq!(
            helper.lines().await.expect("lines"),
            "x-token: t\r\nx-run: 1\r\n"
        );
        assert_eq!(
            helper.lines().await.expect("lines"),
            "x-token: t\r\nx-run: 1\r\n"
        );
        assert_eq!(helper.runs(), 1);
        assert!(!format!("{:?}", helper.source).contains("X-Token"));
    }

    #[tokio::test]
    async fn the_helper_has_the_environment_of_claude_code() {
        let helper = TestHelper::new(
            r#"echo '{"a": "'$CLAUDE_CODE_MCP_SERVER_NAME' '$CLAUDE_CODE_MCP_SERVER_URL' '${MAINSTAY_SERVER%%:*}' '$MAINSTAY_TOKEN'"}'"#,
        );
        let lines = helper.lines().await.expect("lines");
        assert_eq!(lines, "a: x http://h.example.com/mcp x \r\n");
    }

    #[tokio::test]
    async fn many_requests_cause_one_run_and_a_dropped_one_ends_none() {
        let helper =
            TestHelper::new("while ! test -e go; do sleep 0.01; done; echo '{\"a\": \"b\"}'");
        let mut waiting: Vec<_> = (0..50).map(|_| helper.source.lines()).collect();
        for lines in &mut waiting {
            assert!(futures_util::poll!(lines).is_pending());
        }
        waiting.truncate(20);
        until(IN_PROCESS, "the run", || helper.runs() == 1).await;
        drop(waiting.swap_remove(0));
        fs::write(helper.path("go"), "").expect("written");
        for lines in waiting {
            let lines = soon(IN_PROCESS, "the lines", lines).await.expect("lines");
            assert_eq!(lines.as_bytes(), b"a: b\r\n");
        }
        assert_eq!(helper.runs(), 1);
    }

    #[tokio::test]
    async fn a_refusal_runs_it_again_unless_the_lines_are_others_already() {
        let helper = TestHelper::new(r#"echo '{"run": "'$(wc -l < runs | tr -d " ")'"}'"#);
        assert_eq!(helper.lines().await.expect("lines"), "run: 1\r\n");
        // A request with older lines gets the current lines.
        let present = helper.refresh(&[("run", "0")]).await.expect("lines");
        assert_eq!(present.as_bytes(), b"run: 1\r\n");
        assert_eq!(helper.runs(), 1);
        let next = helper.refresh(&[("run", "1")]).await.expect("lines");
        assert_eq!(next.as_bytes(), b"run: 2\r\n");

        let same = TestHelper::new(r#"echo '{"a": "b"}'"#);
        same.lines().await.expect("lines");
        // The command prints the same lines again. All requests that were refused together keep the server's
        // answer.
        for runs in [2, 2] {
            let refused = same.refresh(&[("a", "b")]).await;
            assert_eq!((refused, same.runs()), (Err(NoCredentials::Unknown), runs));
        }
        if let Some(repeated) = &mut same.source.state.lock().repeated {
            *repeated -= REPEATED;
        }
        same.refresh(&[("a", "b")])
            .await
            .expect_err("the same lines");
        assert_eq!(same.runs(), 3);
    }

    #[tokio::test]
    async fn the_time_of_the_lines_ends() {
        let minute = Duration::from_mins(1);
        let script = r#"echo '{"run": "'$(wc -l < runs | tr -d " ")'"}'"#;
        let helper = TestHelper::with(script, Duration::from_secs(10), Some(minute));
        assert_eq!(helper.lines().await.expect("lines"), "run: 1\r\n");
        assert_eq!(helper.lines().await.expect("lines"), "run: 1\r\n");
        if let Some((_, since)) = helper.source.state.lock().lines.as_mut() {
            *since -= minute;
        }
        assert_eq!(helper.lines().await.expect("lines"), "run: 2\r\n");
    }

    #[tokio::test]
    async fn a_failure_names_the_program_and_the_reason_and_never_the_output() {
        const SECRET: &str = "s3cret-of-the-helper";
        let endless = format!("yes {SECRET}");
        for (script, reason) in [
            (format!("echo {SECRET}; exit 3"), "it ended with code 3"),
            (format!("echo {SECRET}"), "no JSON object of strings"),
            (
                format!("echo '[\"{SECRET}\"]'"),
                "no JSON object of strings",
            ),
            (
                format!("echo '{{\"a\": [\"{SECRET}\"]}}'"),
                "no JSON object of strings",
            ),
            (
                format!("echo '{{\"a b\": \"{SECRET}\"}}'"),
                "header \"***\" cannot be sent: not a header name",
            ),
            (
                format!("printf %s '{{\"a\": \"{SECRET}\\r\\nb: c\"}}'"),
                "header \"a\" cannot be sent: a header's value",
            ),
            (
                format!("echo '{{\"Host\": \"{SECRET}\"}}'"),
                "header \"Host\" cannot be sent: Mainstay sets it",
            ),
            (
                format!("echo '{{\"a\": \"{SECRET}\", \"A\": \"b\"}}'"),
                "header \"A\" cannot be sent: it is there twice",
            ),
            (endless, "more than 64 KiB"),
            (
                "no-such-program-anywhere".to_owned(),
                "it ended with code 127",
            ),
        ] {
            let helper = TestHelper::new(&script);
            let failure = helper.failure().await;
            assert!(failure.starts_with("headersHelper cd: "), "{failure}");
            assert!(failure.contains(reason), "{script}: {failure}");
            assert!(!failure.contains(SECRET), "{failure}");
            let log = helper.log.tail.texts().join("\n");
            assert!(!log.contains(SECRET), "{log}");
        }
        assert_eq!(name("TOKEN=s3cret ./get --x"), "./get");
    }

    #[tokio::test]
    async fn a_helper_that_has_failed_is_not_run_for_each_call() {
        let helper = TestHelper::new("exit 1");
        for _ in 0..5 {
            helper.lines().await.expect_err("an error");
        }
        assert_eq!(helper.runs(), 1);
        if let Some((_, since)) = &mut helper.source.state.lock().failure {
            *since -= FAILURE_PAUSE;
        }
        helper.lines().await.expect_err("an error");
        assert_eq!(helper.runs(), 2);
    }

    #[tokio::test]
    async fn its_stderr_goes_to_the_log() {
        let helper = TestHelper::new("echo 'no ticket' >&2; exit 1");
        helper.failure().await;
        assert_eq!(helper.log.tail.texts(), ["no ticket"]);
    }

    /// A helper that hangs is killed at its time limit, with its children and the processes that left its
    /// group.
    #[tokio::test]
    async fn no_process_outlives_the_limit() {
        let script =
            "sleep 60 & echo $! > child; setsid sh -c 'echo $$ > apart; sleep 60' & sleep 60";
        let limit = Duration::from_millis(500);
        let helper = TestHelper::with(script, limit, None);
        let failure = helper.failure().await;
        assert!(failure.contains("not done within 500 ms"), "{failure}");
        for name in ["child", "apart"] {
            until_gone(process(&helper.path(name)).expect(name)).await;
        }
    }

    /// A child that keeps the pipe open does not delay the lines, and is ended with the run.
    #[tokio::test]
    async fn a_child_that_stays_is_ended_with_the_run() {
        let helper = TestHelper::new("sleep 60 & echo $! > child; echo '{\"a\": \"b\"}'");
        assert_eq!(helper.lines().await.expect("lines"), "a: b\r\n");
        until_gone(process(&helper.path("child")).expect("a child")).await;
    }

    #[tokio::test]
    async fn a_stop_ends_the_run() {
        let helper = TestHelper::new("echo $$ > own; sleep 60");
        let mut lines = helper.source.lines();
        assert!(futures_util::poll!(&mut lines).is_pending());
        let pid_file = helper.path("own");
        until(IN_PROCESS, "the run", || process(&pid_file).is_some()).await;
        soon(IN_PROCESS, "the stop", helper.helpers.stop()).await;
        let error = lines.await.expect_err("a reason").to_string();
        assert!(error.contains("Mainstay is stopping"), "{error}");
        until_gone(process(&pid_file).expect("a process")).await;
    }
}
