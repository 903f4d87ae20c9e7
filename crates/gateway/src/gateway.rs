//! The engine as one value.

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

/// Time limit for the end of all servers, after the calls.
pub const SERVERS_LIMIT: Duration = Duration::from_secs(4);

/// Time limit for calls that were cancelled and for cancellations that are being sent, at shutdown.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Interval of checks for running calls.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The engine: the servers of a configuration, and the calls to them.
///
/// It has no knowledge of doors. See `examples/embed.rs` for a program without any.
#[derive(Debug)]
pub struct Gateway {
    /// The servers, and their catalogs.
    pub registry: Arc<Registry>,
    /// The calls to the servers.
    pub calls: Calls,
    /// The switches of clients.
    pub switches: SwitchBoard,
    /// Reloads the configuration, if it has an origin that can be read again.
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
    /// Clients without a session.
    pub stateless_clients: StatelessClients,
    /// Taken by `stop`.
    telemetry: Mutex<Option<Telemetry>>,
    grace: Duration,
}

/// Reports to others, until the end.
#[derive(Debug)]
struct Telemetry {
    readings: Readings,
    alerts: Alerts,
    traces: Option<Traces>,
}

/// The number of open client sessions. The doors set it, the metrics show it.
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
    /// Starts every server of a configuration, and returns at once. Needs a tokio runtime.
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

    /// Changes the switches of clients. [`Announcement::Switched`] names the clients whose switches
    /// have changed. If the change cannot be saved, nothing is changed.
    pub async fn switch(&self, change: impl FnOnce(&mut ClientSwitches)) -> io::Result<()> {
        let changed_clients = self.switches.change(change).await?;
        self.registry
            .announce(Announcement::Switched(changed_clients));
        Ok(())
    }

    /// Maximum duration of [`Gateway::stop`], with a reserve.
    pub fn stop_limit(&self) -> Duration {
        self.grace + SERVERS_LIMIT + DRAIN_LIMIT
    }

    /// Refuses new calls, and gives running calls the configured grace. The outcome of calls that
    /// do not end in time is unknown. When `haste` is cancelled, the grace ends at once.
    pub async fn end_calls(&self, haste: &CancellationToken) {
        self.calls.closing().begin();
        tokio::select! {
            () = self.calls_ended(self.grace) => {}
            () = haste.cancelled() => {}
        }
        // Consequences of the shutdown are no events.
        self.registry.events().close();
        self.registry.history().close();
        self.calls.closing().end();
        self.calls_ended(DRAIN_LIMIT).await;
    }

    /// Stops in order: calls, servers, the journal. Returns when all servers have ended.
    pub async fn stop(&self) {
        let end = Instant::now() + self.grace + SERVERS_LIMIT;
        let never = CancellationToken::new();
        self.end_calls(&never).await;
        self.stop_servers(end, &never).await;
    }

    /// Stops the servers, then the journal, the traces and the alerts, and returns when all have
    /// ended. Kills servers that have not ended at `end`, or when `haste` is cancelled.
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
