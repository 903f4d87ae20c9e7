//! One run: servers, Mainstay, callers, strikes, and checks throughout.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{interval, sleep, sleep_until},
};

use crate::{
    account::Account,
    caller::{CallLine, Caller, Door, Ledger},
    daemon::MainstayProcess,
    fleet::{self, FleetServer},
    peer::PeerTarget,
    plan::{Fault, Strike, UNCALLED},
    processes::{self, SERVED},
    report::{Recovery, RunReport},
    standing::Standing,
    usage::{self, Usage},
};

/// Time limit until all servers are up.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Time of the first calls, which open sessions and are slower.
const WARM_UP: Duration = Duration::from_secs(2);

/// Pause between two checks of a condition.
const GLANCE: Duration = Duration::from_millis(50);

/// Pause between two checks of processes and sessions.
const COUNT: Duration = Duration::from_millis(500);

/// Time limit for ending the leftovers of a process.
const REAP_LIMIT: Duration = Duration::from_secs(3);

/// Maximum wait for a server that misses its bound. Then the run continues.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time over which the minimum of the resource figures is taken, because calls in flight are not a leak.
const QUIET: Duration = Duration::from_secs(3);

/// Every fifth server also has a client on its own endpoint. That is an isolated session, and for a process
/// a second instance.
const TRANSPARENT_EVERY: usize = 5;

/// The period from the start of a fault to the server's recovery.
#[derive(Debug, Clone, Copy)]
pub struct FaultWindow {
    pub server: usize,
    pub fault: Fault,
    pub from: Instant,
    pub to: Option<Instant>,
}

pub struct ChaosRun {
    name: String,
    servers: Vec<FleetServer>,
    daemon: MainstayProcess,
    /// The line for faults and checks.
    hand: CallLine,
    // The locks are held only for a push or a copy.
    windows: Mutex<Vec<FaultWindow>>,
    recoveries: Mutex<Vec<Recovery>>,
    failures: Mutex<Vec<String>>,
}

impl ChaosRun {
    /// Starts everything, performs the rounds, and cleans up in any case. Growth is measured from the end of
    /// the first `warm_up` rounds.
    pub async fn perform(
        program: &Path,
        rounds: &[Vec<Strike>],
        warm_up: usize,
        length: Duration,
        folder: &Path,
    ) -> anyhow::Result<RunReport> {
        let name = format!("chaos-{}", std::process::id());
        let outcome = Self::named(name.clone(), program, rounds, warm_up, length, folder).await;
        for process in processes::of_run(&name) {
            processes::send(process.pid, rustix::process::Signal::KILL);
        }
        outcome
    }

    async fn named(
        name: String,
        program: &Path,
        rounds: &[Vec<Strike>],
        warm_up: usize,
        length: Duration,
        folder: &Path,
    ) -> anyhow::Result<RunReport> {
        let servers = fleet::start(&name, folder).await?;
        let daemon =
            MainstayProcess::start(program, fleet::configuration(&servers), folder).await?;
        let run = Arc::new(Self {
            name,
            hand: CallLine::new(PeerTarget::Http(format!("{}/mcp", daemon.url))),
            servers,
            daemon,
            windows: Mutex::default(),
            recoveries: Mutex::default(),
            failures: Mutex::default(),
        });
        run.start().await?;

        let ledger = Arc::<Ledger>::default();
        let (stop, stopped) = watch::channel(false);
        let mut callers = run.callers(&ledger, &stopped);
        sleep(WARM_UP).await;
        let warm = Instant::now();
        let watching = tokio::spawn(Arc::clone(&run).watch(stopped));
        let mut figures = Vec::new();
        for (number, strikes) in rounds.iter().enumerate() {
            run.round(strikes, length).await?;
            let usage = run.quiet_usage().await?;
            tell(&format!("round {}: {usage:?}", number + 1));
            figures.push(usage);
        }
        stop.send_replace(true);
        while let Some(ended) = callers.join_next().await {
            ended?;
        }
        watching.await?;
        let run = Arc::try_unwrap(run).ok().context("a task is still there")?;
        let after_warm_up = figures.get(warm_up.saturating_sub(1)..);
        for growth in usage::growth(after_warm_up.unwrap_or_default()) {
            run.fail(growth);
        }
        run.end(figures, &ledger, warm).await
    }

    async fn start(&self) -> anyhow::Result<()> {
        let started_at = Instant::now();
        loop {
            let states = self.daemon.states().await?;
            let down: Vec<_> = states
                .values()
                .filter(|state| state["connected"] != true)
                .collect();
            if states.len() == self.servers.len() && down.is_empty() {
                tell(&format!(
                    "{} servers up after {:?}",
                    states.len(),
                    started_at.elapsed()
                ));
                return Ok(());
            }
            anyhow::ensure!(
                started_at.elapsed() < START_LIMIT,
                "servers do not start: {down:?}"
            );
            sleep(GLANCE).await;
        }
    }

    fn callers(&self, ledger: &Arc<Ledger>, stopped: &watch::Receiver<bool>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let http = Arc::new(CallLine::new(self.hand.target.clone()));
        let sse = Arc::new(CallLine::new(PeerTarget::Sse(format!(
            "{}/sse",
            self.daemon.url
        ))));
        for (number, server) in self.servers.iter().enumerate().take(UNCALLED) {
            let named = format!("{}__echo", server.name);
            let mut call = |door, tool: &str, line: &Arc<CallLine>| {
                let caller = Caller {
                    server: number,
                    door,
                    tool: tool.to_owned(),
                    line: Arc::clone(line),
                    ledger: Arc::clone(ledger),
                };
                tasks.spawn(caller.run(stopped.clone()));
            };
            call(Door::Http, &named, &http);
            call(Door::Sse, &named, &sse);
            call(Door::Direct, "echo", &server.direct);
            if is_transparent(number) {
                let url = format!("{}/servers/{}/mcp", self.daemon.url, server.name);
                let transparent = Arc::new(CallLine::new(PeerTarget::Http(url)));
                call(Door::Transparent, "echo", &transparent);
            }
        }
        tasks
    }

    /// Performs the faults of a round, and waits until every server has recovered.
    async fn round(self: &Arc<Self>, strikes: &[Strike], length: Duration) -> anyhow::Result<()> {
        let started_at = tokio::time::Instant::now();
        let mut tasks = JoinSet::new();
        for strike in strikes.iter().cloned() {
            let run = Arc::clone(self);
            tasks.spawn(async move {
                sleep_until(started_at + strike.at).await;
                run.strike(&strike).await
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        sleep_until(started_at + length).await;
        Ok(())
    }

    /// Performs one fault, and waits for the server's recovery.
    async fn strike(&self, strike: &Strike) -> anyhow::Result<()> {
        let server = &self.servers[strike.server];
        let window = self.open_window(strike);
        server
            .strike(strike, &self.hand, &self.daemon)
            .await
            .with_context(|| format!("{:?} of {}", strike.fault, server.name))?;
        let ended = Instant::now();
        let bound = server.bound(strike.fault);
        while !self.is_back(server).await {
            if ended.elapsed() > bound + PATIENCE {
                anyhow::bail!("{} never came back after {:?}", server.name, strike.fault);
            }
            sleep(GLANCE).await;
        }
        let duration = ended.elapsed();
        self.windows.lock()[window].to = Some(Instant::now());
        if duration > bound {
            self.fail(format!(
                "{} ({:?}) took {duration:?} to come back after {:?}, more than {bound:?}",
                server.name, server.transport, strike.fault
            ));
        }
        let recovery = Recovery::new(server.transport, strike.fault, duration, bound);
        self.recoveries.lock().push(recovery);
        Ok(())
    }

    /// True if REST says that the server is connected and healthy, and a call succeeds.
    async fn is_back(&self, server: &FleetServer) -> bool {
        let states = self.daemon.states().await.unwrap_or_default();
        let well = states
            .get(&server.name)
            .is_some_and(|state| state["healthStatus"] == "healthy");
        let tool = format!("{}__add", server.name);
        let sum = serde_json::json!({"a": 1, "b": 2});
        well && self
            .hand
            .call(&tool, &sum, fleet::CALL_TIMEOUT)
            .await
            .is_ok()
    }

    fn open_window(&self, strike: &Strike) -> usize {
        let mut windows = self.windows.lock();
        windows.push(FaultWindow {
            server: strike.server,
            fault: strike.fault,
            from: Instant::now(),
            to: None,
        });
        windows.len() - 1
    }

    fn fail(&self, failure: String) {
        tell(&format!("FAILED: {failure}"));
        self.failures.lock().push(failure);
    }

    /// Checks continuously that no two processes serve one session, that no process outlives its parent, and
    /// that servers without their own fault do not change.
    async fn watch(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut orphans: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut reported = HashSet::new();
        let mut standing = Standing::new();
        let mut glance = interval(COUNT);
        loop {
            tokio::select! {
                _ = glance.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let all = processes::of_run(&self.name);
            for (number, server) in self.servers.iter().enumerate() {
                let serves = |process: &&processes::Process| {
                    process.is_fake && process.role == SERVED && process.server == server.name
                };
                let count = all.iter().filter(serves).count();
                let allowed = 1 + usize::from(is_transparent(number));
                if count > allowed && reported.insert(server.name.clone()) {
                    self.fail(format!("{count} processes of {} at once", server.name));
                }
            }
            let now = processes::orphans(&all);
            orphans.retain(|pid, _| now.contains_key(pid));
            for (pid, owner) in now {
                let since = *orphans.entry(pid).or_insert_with(Instant::now);
                if since.elapsed() > REAP_LIMIT && reported.insert(pid.to_string()) {
                    self.fail(format!("process {pid} of {owner} outlived its parent"));
                }
            }
            self.look(&mut standing).await;
        }
    }

    async fn look(&self, standing: &mut Standing) {
        // Faults that ended since the last check count, too.
        let since = std::mem::replace(&mut standing.looked_at, Instant::now());
        // A slow REST API is noticed by other checks.
        let states = self.daemon.states().await.unwrap_or_default();
        let windows = self.windows.lock().clone();
        for (number, server) in self.servers.iter().enumerate() {
            let struck = |window: &FaultWindow| {
                window.server == number && window.to.is_none_or(|to| to >= since)
            };
            if windows.iter().any(struck) {
                standing.forget(&server.name);
            } else if let Some(state) = states.get(&server.name)
                && let Some(trouble) = standing.look(&server.name, state)
            {
                self.fail(trouble);
            }
        }
    }

    async fn quiet_usage(&self) -> anyhow::Result<Usage> {
        let mut least = self.daemon.usage()?;
        let started_at = Instant::now();
        while started_at.elapsed() < QUIET {
            sleep(GLANCE).await;
            least = least.least(self.daemon.usage()?);
        }
        Ok(least)
    }

    /// Stops everything, and checks for leftovers.
    async fn end(
        self,
        figures: Vec<Usage>,
        ledger: &Ledger,
        warm: Instant,
    ) -> anyhow::Result<RunReport> {
        let mut failures = self.failures.into_inner();
        let records = self.daemon.records("echo").await?;
        match self.daemon.stop().await {
            Ok(status) if status.success() => {}
            Ok(status) => failures.push(format!("Mainstay ended with {status}")),
            Err(error) => failures.push(error.to_string()),
        }
        let left = processes::of_run(&self.name);
        failures.extend(
            left.iter()
                .filter(|process| process.role == SERVED)
                .map(|orphan| {
                    let processes::Process { pid, server, .. } = orphan;
                    format!("process {pid} of {server} was left behind")
                }),
        );
        let runs: Vec<u64> = self.servers.iter().flat_map(FleetServer::runs).collect();
        let calls = ledger.take();
        let name = |server: usize| self.servers[server].name.clone();
        Ok(RunReport::new(
            &calls,
            warm,
            &self.windows.into_inner(),
            self.recoveries.into_inner(),
            Account::from_views(&calls, &records, &runs, name),
            figures,
            failures,
        ))
    }
}

fn is_transparent(server: usize) -> bool {
    server.is_multiple_of(TRANSPARENT_EVERY)
}

/// Prints progress on stderr, because the figures go to stdout.
#[expect(clippy::print_stderr, reason = "a run takes minutes")]
pub fn tell(text: &str) {
    eprintln!("{text}");
}
