//! [`Gateway`]: the whole engine as one value, with its start and its ordered stop.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mainstay_core::{config::Config, switches::ClientSwitches};
use mainstay_platform::lineage::Lineage;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessControl,
    alerts::Alerts,
    calls::Calls,
    client_sessions::ClientSessions,
    metrics::Readings,
    options::GatewayOptions,
    owners::FoundOwners,
    registry::{Announcement, Registry},
    reload::Reloader,
    stateless_clients::StatelessClients,
    switches::SwitchBoard,
    traces::Traces,
};

/// Time limit at shutdown for all servers to end, after the calls have ended.
pub const SERVERS_LIMIT: Duration = Duration::from_secs(4);

/// Time limit at shutdown for cancelled calls to end, and for cancellations to reach the servers.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Interval at which a shutdown checks for running calls.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The engine: the servers of a configuration, and the calls to them.
///
/// The engine knows no door. `examples/embed.rs` is a program without doors.
#[derive(Debug)]
pub struct Gateway {
    /// The servers, and their catalogs.
    pub registry: Arc<Registry>,
    /// The calls to the servers.
    pub calls: Calls,
    /// The switches of clients: the servers and tools that are off for each client.
    pub switches: SwitchBoard,
    /// Reloads the configuration. `None` if the configuration cannot be read again.
    pub reloader: Option<Arc<Reloader>>,
    /// The Mainstays above this one, and the marks of its servers' processes.
    pub lineage: Lineage,
    pub(crate) found_owners: FoundOwners,
    /// Decides who may use what.
    pub access: Arc<AccessControl>,
    /// Number of open client sessions.
    pub session_count: SessionCount,
    /// The open client sessions, as the doors report them.
    pub client_sessions: ClientSessions,
    /// The clients without a session (2026-07-28).
    pub stateless_clients: StatelessClients,
    /// `None` after `stop`.
    telemetry: Mutex<Option<Telemetry>>,
    grace: Duration,
}

/// The parts that report the servers and the calls to people. They are stopped last.
#[derive(Debug)]
struct Telemetry {
    readings: Readings,
    alerts: Alerts,
    traces: Option<Traces>,
}

/// The number of open client sessions. The doors set it, and the metrics show it.
#[derive(Debug, Default)]
pub struct SessionCount(AtomicUsize);

impl SessionCount {
    pub fn set(&self, count: usize) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Gateway {
    /// Starts every server of a configuration, and returns without waiting for them. Must be called
    /// within a tokio runtime.
    pub fn start(config: &Config, options: GatewayOptions) -> Arc<Self> {
        let (origin, lineage) = (options.origin.clone(), options.lineage.clone());
        let (journal, history) = (options.journal.clone(), options.config_history.clone());
        let switches = SwitchBoard::open(options.switches.clone());
        let token_limits = options.token_limits.clone();
        let access = Arc::new(AccessControl::new(config.access.clone(), token_limits));
        let traces = config.telemetry.as_ref();
        let traces = traces.and_then(|settings| Traces::start(settings, &config.journal.redact));
        let registry = Registry::start(config, options);
        let alerts = Alerts::start(&config.alerts, registry.events());
        // Weak, because a gateway may be dropped without being stopped.
        let all = Arc::downgrade(&registry);
        let readings = Readings::start(move || {
            let servers = all.upgrade()?.servers();
            Some(
                servers
                    .iter()
                    .map(|server| Arc::clone(&server.figures))
                    .collect(),
            )
        });
        let reloader = origin.map(|origin| {
            let (registry, alerts) = (Arc::clone(&registry), alerts.choice());
            let (access, current) = (Arc::clone(&access), config.clone());
            Arc::new(Reloader::new(
                origin, history, registry, access, alerts, current,
            ))
        });
        Arc::new(Self {
            registry,
            calls: Calls::new(journal, traces.as_ref().map(Traces::tracer)),
            switches,
            reloader,
            lineage,
            found_owners: FoundOwners::default(),
            access,
            session_count: SessionCount::default(),
            client_sessions: ClientSessions::default(),
            stateless_clients: StatelessClients::default(),
            telemetry: Mutex::new(Some(Telemetry {
                readings,
                alerts,
                traces,
            })),
            grace: config.shutdown_grace,
        })
    }

    /// Changes the switches of clients, and announces the changed clients
    /// ([`Announcement::Switched`]). If the change cannot be saved, the switches stay unchanged.
    pub async fn switch(&self, change: impl FnOnce(&mut ClientSwitches)) -> io::Result<()> {
        let changed_clients = self.switches.change(change).await?;
        self.registry
            .announce(Announcement::Switched(changed_clients));
        Ok(())
    }

    /// Maximum duration of [`Gateway::stop`]: the grace for calls, and the limits for servers and
    /// for draining.
    pub fn stop_limit(&self) -> Duration {
        self.grace + SERVERS_LIMIT + DRAIN_LIMIT
    }

    /// Refuses new calls, and waits up to the configured grace for running calls. Then cancels the
    /// calls that still run. Their outcome is unknown if they were sent. If `haste` is cancelled, the
    /// grace ends at once.
    pub async fn end_calls(&self, haste: &CancellationToken) {
        self.calls.closing().begin();
        tokio::select! {
            () = self.calls_ended(self.grace) => {}
            () = haste.cancelled() => {}
        }
        // Do not report the consequences of the shutdown as events.
        self.registry.events().close();
        self.registry.history().close();
        self.calls.closing().end();
        self.calls_ended(DRAIN_LIMIT).await;
    }

    /// Stops the calls, then the servers, then the journal and the reporting parts. Returns when all
    /// of them have ended.
    pub async fn stop(&self) {
        let end = Instant::now() + self.grace + SERVERS_LIMIT;
        let never = CancellationToken::new();
        self.end_calls(&never).await;
        self.stop_servers(end, &never).await;
    }

    /// Stops the servers, then the journal, the readings, the traces and the alerts. Returns when all
    /// of them have ended. Kills servers that have not ended at `end`, or when `haste` is cancelled.
    pub async fn stop_servers(&self, end: Instant, haste: &CancellationToken) {
        self.calls.drain(DRAIN_LIMIT).await;
        let mut stopping = pin!(self.registry.stop());
        let in_time = timeout_at(end, haste.run_until_cancelled(stopping.as_mut()));
        if !matches!(in_time.await, Ok(Some(()))) {
            self.registry.kill().await;
            stopping.await;
        }
        if let Some(journal) = self.calls.journal() {
            journal.close().await;
        }
        let telemetry = self.telemetry.lock().take();
        if let Some(Telemetry {
            readings,
            alerts,
            traces,
        }) = telemetry
        {
            readings.stop().await;
            if let Some(traces) = traces {
                traces.stop().await;
            }
            alerts.stop().await;
        }
    }

    /// Returns when no call is running, or after `limit`.
    async fn calls_ended(&self, limit: Duration) {
        let has_calls = || {
            let servers = self.registry.servers();
            let mut figures = servers.iter().map(|server| &server.figures);
            figures.any(|figures| figures.waiting() + figures.in_flight() > 0)
        };
        if !has_calls() {
            return;
        }
        let end = Instant::now() + limit;
        while has_calls() && Instant::now() < end {
            sleep(CHECK_INTERVAL).await;
        }
        // Give the doors time to send the last answers.
        sleep(CHECK_INTERVAL).await;
    }
}
