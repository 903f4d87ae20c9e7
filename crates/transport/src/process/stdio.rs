//! Servers that are child processes: JSON-RPC on stdin and stdout, and log lines on stderr.

use std::{
    ffi::OsStr,
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use mainstay_core::{config::StdioLaunch, era::Era, lifecycle::Loss};
use mainstay_platform::{
    blocking::try_off_the_runtime,
    descriptors::{self, Descriptors},
    lineage::{self, Marks},
};
use tokio::{
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Approach, Opening, Resolution, RunningConnection, Stop, Unopened, UpstreamSession,
    exchanges::multiplexed::LineOwner,
    lines::line_session::{self, Duplex, LineTasks},
    logs::LineSource,
    process::{self, command, environment},
    sessions::initialize::Initialize,
};

/// The file descriptors of a server: its three pipes, a handle of its process, and its log.
const DESCRIPTORS: usize = 5;

/// Time limit for a server to exit by itself after its stdin was closed.
const EOF_GRACE: Duration = Duration::from_secs(1);

/// The time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// The time limit for reading the last output of an exited server. Its children may hold the pipe open.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// Starts the process and opens a session with it. A process that fails after `server/discover` is started
/// once more and gets `initialize` only. A process that ends because of the revision in `initialize` is
/// started again with another revision.
pub async fn open(
    opening: &Opening,
    launch: &StdioLaunch,
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    let mut initialize = Initialize::for_opening(opening);
    let mut approach = opening.approach;
    let mut first_refusal = None;
    loop {
        let attempt = Opening {
            approach,
            initialize: initialize.params().into(),
            // A refused process is stopped. This must not stop the next process.
            stop: opening.stop.child(),
            ..opening.clone()
        };
        let unopened = match start(&attempt, launch).await {
            Ok((mut session, running)) => {
                session.avoids_probe = approach != opening.approach;
                return Ok((session, running));
            }
            Err(unopened) => unopened,
        };
        let is_stopped = opening.stop.close.is_cancelled();
        if !is_stopped && approach == Approach::Detect(None) && may_be_spoiled(&unopened) {
            opening.log.note(&format!(
                "it failed after server/discover, and is started again without: {}; \"protocol\": \"legacy\" in its entry spares it that",
                unopened.loss
            ));
            approach = Approach::Detect(Some(Era::Legacy));
            continue;
        }
        let is_crash = matches!(unopened.loss, Loss::Crashed { .. });
        let last_words = || opening.log.tail.texts().join("\n");
        if !is_stopped && is_crash && initialize.step_down(&last_words()) {
            opening
                .log
                .note("it ended because of its protocol revision, and is started for another");
            first_refusal.get_or_insert(unopened);
            continue;
        }
        return Err(first_refusal.unwrap_or(unopened));
    }
}

/// True if `server/discover` may be the reason that no session was opened.
fn may_be_spoiled(unopened: &Unopened) -> bool {
    let is_reason = matches!(
        unopened.loss,
        Loss::Crashed { .. } | Loss::Rejected(_) | Loss::Unresponsive(_)
    );
    is_reason && unopened.eras.modern != Some(true)
}

async fn start(
    opening: &Opening,
    launch: &StdioLaunch,
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    let descriptors = descriptors::take(DESCRIPTORS)
        .map_err(|exhausted| Loss::CannotSpawn(exhausted.to_string()))?;
    let marks = opening.lineage.marks(&opening.tag);
    // The output of an earlier process does not explain the end of this attempt.
    opening.log.forget();
    let mut child = spawn(opening, launch, &marks).await?;
    let (pid, log) = (child.id(), Arc::clone(&opening.log));
    opening.signs.started(pid);
    if let Some(pid) = pid {
        log.note(&format!("started pid {pid}: {}", launch.command));
    }
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Loss::CannotSpawn("its pipes are missing".to_owned()).into());
    };
    let exited = CancellationToken::new();
    let log_output = LogOutput {
        task: tokio::spawn({
            let signs = Arc::clone(&opening.signs);
            let count_bytes = move |bytes| signs.stderr(bytes);
            let stream = log.stream(LineSource::Stderr);
            stream.drain(stderr, count_bytes, exited.clone())
        }),
        exited,
        _descriptors: descriptors,
    };
    let duplex = Duplex {
        transport: "stdio",
        owner: LineOwner::Process { pid },
        reader: stdout,
        writer: stdin,
    };
    let (stop, span) = (opening.stop.clone(), opening.span());
    line_session::open(opening, duplex, |line| {
        run(child, line, log_output, stop, marks).instrument(span)
    })
    .await
}

/// Starts the process. A blocking thread finds the program and builds the environment.
async fn spawn(opening: &Opening, launch: &StdioLaunch, marks: &Marks) -> Result<Child, Loss> {
    let prepared = try_off_the_runtime({
        let (launch, span) = (launch.clone(), opening.span());
        move || {
            let _entered = span.entered();
            let environment = environment::of_child(&launch);
            let path = environment.get(OsStr::new("PATH")).cloned();
            let path = path.unwrap_or_default();
            let resolution = command::resolve(&launch.command, &path);
            (environment, path, resolution)
        }
    });
    let (environment, path, resolution) = prepared
        .await
        .map_err(|error| Loss::CannotSpawn(error.to_string()))?;
    let mut command = Command::new(resolution.program());
    command
        .args(&launch.args)
        .env_clear()
        .envs(environment)
        .env(lineage::CHAIN, opening.lineage.chain())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Only needed if a panic or an abort prevented an orderly stop.
        .kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let error = match process::spawn(command, Some(marks)).await {
        Ok(child) => return Ok(child),
        Err(error) => error,
    };
    if matches!(resolution, Resolution::NotFound(_)) {
        opening.log.note(&command::looked_in(&path, usize::MAX));
    }
    let launch = launch.clone();
    // This reads files, which may be on a slow network.
    let loss = try_off_the_runtime(move || cannot_spawn(&launch, &resolution, &path, &error));
    Err(loss
        .await
        .unwrap_or_else(|error| Loss::CannotSpawn(error.to_string())))
}

/// The loss if a process cannot be started. A missing program or folder may appear later: programs are
/// replaced while servers run. An invalid argument stays invalid.
fn cannot_spawn(
    launch: &StdioLaunch,
    resolution: &Resolution,
    path: &OsStr,
    error: &io::Error,
) -> Loss {
    let command = &launch.command;
    let reason = match (error.kind(), &launch.cwd, resolution) {
        (io::ErrorKind::InvalidInput, _, _) => {
            return Loss::Misconfigured(format!("{command}: {error}"));
        }
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, Some(cwd), _) if !cwd.is_dir() => {
            format!(
                "working directory {} does not exist; create it, or correct `cwd`",
                cwd.display()
            )
        }
        (io::ErrorKind::NotFound, _, Resolution::NotFound(_)) => command::not_found(command, path),
        (io::ErrorKind::NotFound, _, _) if resolution.program().is_file() => {
            format!("{command} cannot be run: the interpreter that its first line names is missing")
        }
        (io::ErrorKind::NotFound, _, _) => {
            format!("command not found: there is no file {command}")
        }
        (io::ErrorKind::PermissionDenied, _, _) => format!(
            "{command}: permission denied; check that the file is executable: chmod +x {}",
            resolution.program().display()
        ),
        _ => format!("{command}: {error}"),
    };
    Loss::CannotSpawn(reason)
}

/// The task that reads the stderr of a process into the server's log.
struct LogOutput {
    task: JoinHandle<()>,
    /// Cancelled once the process has ended.
    exited: CancellationToken,
    _descriptors: Descriptors,
}

/// The first sign that a connection ends. Exit, end of output and failed writes often come together, and
/// count as one loss.
enum Cause {
    Stopped,
    Exited(io::Result<ExitStatus>),
    OutputClosed,
    InputClosed,
}

/// Runs a process to its end. Returns when the process, its pipes and all processes that it started are gone.
async fn run(
    mut child: Child,
    mut line: LineTasks,
    mut log_output: LogOutput,
    stop: Stop,
    marks: Marks,
) -> Loss {
    let group = process::group(&child);
    let cause = tokio::select! {
        () = stop.close.cancelled() => Cause::Stopped,
        status = child.wait() => Cause::Exited(status),
        _ = &mut line.read => Cause::OutputClosed,
        _ = &mut line.write => Cause::InputClosed,
    };
    let is_stopped = matches!(cause, Cause::Stopped);
    let status = match cause {
        Cause::Exited(status) => {
            // Answers that were written before the end still count.
            timeout(DRAIN_GRACE, &mut line.read).await.ok();
            status
        }
        Cause::Stopped | Cause::OutputClosed | Cause::InputClosed => {
            // Break off the calls now, so that they do not wait for the end of the process.
            line.break_off();
            end(&mut child, &stop).await
        }
    };
    group.kill_rest();
    // Processes that have left the group must end, too. A second process never starts before that (invariant
    // 9).
    process::end_marked(&marks).await;
    line.break_off();
    log_output.exited.cancel();
    timeout(DRAIN_GRACE, &mut log_output.task).await.ok();
    for task in [&line.read, &log_output.task] {
        task.abort();
    }
    line.write.abort();
    match status {
        _ if is_stopped => Loss::Disconnected("stopped".to_owned()),
        Ok(status) => {
            let (code, signal) = process::exit(status);
            Loss::Crashed { code, signal }
        }
        Err(error) => Loss::Disconnected(format!("its end could not be observed: {error}")),
    }
}

/// Ends a process whose stdin was closed: waits 1 s, sends SIGTERM, waits 5 s, sends SIGKILL. Reaps the
/// process.
async fn end(child: &mut Child, stop: &Stop) -> io::Result<ExitStatus> {
    for (grace, act) in [
        (EOF_GRACE, process::terminate as fn(&Child)),
        (TERM_GRACE, process::kill),
    ] {
        tokio::select! {
            status = child.wait() => return status,
            () = tokio::time::sleep(grace) => act(child),
            () = stop.kill.cancelled() => break,
        }
    }
    process::kill(child);
    child.wait().await
}
