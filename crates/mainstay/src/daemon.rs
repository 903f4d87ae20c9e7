//! Wires everything, and owns the order of start and stop.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use mainstay_core::config::{Config, Plan};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::Alerts,
    calls::Calls,
    front::{
        connections::{Connections, Limits as ConnectionLimits, open_files},
        entrance::Entrance,
        guard::Guard,
        http::{self, Door},
        mcp::{self, BodyLimits, Hub, Limits, Seal, SessionLimits},
        rest,
    },
    registry::{Profile, Registry},
    reload::Reloader,
    setting::{Pauses, Setting},
    surroundings::LoadError,
    switches::SwitchBoard,
    tokens::Tokens,
    traces::Traces,
};

pub use crate::front::http::bind;

/// What calls that were ended and cancellations on their way may take at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// What servers may take to end, after the calls.
const SERVERS_LIMIT: Duration = Duration::from_secs(4);

/// How often it is looked whether calls are still at work.
const LOOK: Duration = Duration::from_millis(20);

/// A running Mainstay, without its doors.
pub struct Daemon {
    pub hub: Arc<Hub>,
    max_body: usize,
    connections: ConnectionLimits,
    /// How often a connection is looked at.
    look: Duration,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Whether the MCP paths ask for a token; `None` leaves it to the address and the tokens.
    require_token: Option<bool>,
    reloader: Option<Arc<Reloader>>,
    /// How long calls at work may take at the end.
    grace: Duration,
    /// Cancelled to close the doors and stop the hub.
    stop: CancellationToken,
    telling: JoinHandle<()>,
    alerts: Alerts,
    traces: Option<Traces>,
}

impl Daemon {
    /// Starts the servers of a configuration; returns at once.
    pub fn start(config: &Config, setting: Setting) -> Self {
        let origin = setting.origin.clone();
        let lineage = setting.lineage.clone();
        let session_key = setting.session_key.clone();
        // Without a key no session is revived.
        let state = setting.state.clone().filter(|_| session_key.is_some());
        let journal = setting.journal.clone();
        let pauses = setting.pauses;
        let switches = SwitchBoard::open(setting.switches.clone());
        let insecure = setting.insecure.then_some(false);
        let traces = config.telemetry.as_ref();
        let traces = traces.and_then(|settings| Traces::start(settings, &config.journal.redact));
        let registry = Registry::start(config, setting);
        let alerts = Alerts::start(&config.alerts, registry.events());
        let reloader = origin.map(|origin| {
            let (registry, alerts) = (Arc::clone(&registry), alerts.choice());
            Arc::new(Reloader::new(origin, registry, alerts, config.clone()))
        });
        let hub = Arc::new(Hub::new(
            registry,
            Calls::new(journal, traces.as_ref().map(Traces::tracer)),
            lineage,
            Seal::new(session_key),
            switches,
            state,
            limits(config, pauses),
        ));
        let stop = CancellationToken::new();
        let telling = tokio::spawn({
            let (hub, stop) = (Arc::clone(&hub), stop.clone());
            async move { hub.run(stop).await }
        });
        Self {
            hub,
            max_body: config.max_body_bytes,
            connections: ConnectionLimits {
                all: config.max_connections,
                of_address: config.max_connections_per_address,
            },
            look: pauses.look,
            hosts: config.allowed_hosts.clone(),
            origins: config.allowed_origins.clone(),
            require_token: config.require_token.or(insecure),
            grace: config.shutdown_grace,
            reloader,
            stop,
            telling,
            alerts,
            traces,
        }
    }

    /// A token whose cancellation closes the doors.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Serves HTTP on a listener bound to `address`, until the daemon stops, to whoever has one of these
    /// tokens: the REST door, and where it is asked for the MCP paths. A [`Secret`] alone is a control
    /// token.
    ///
    /// [`Secret`]: mainstay_core::config::Secret
    pub fn serve_http(
        &self,
        listener: TcpListener,
        address: SocketAddr,
        tokens: impl Into<Tokens>,
    ) -> JoinHandle<()> {
        let tokens = tokens.into();
        let exposed = !address.ip().is_loopback();
        let door = Door {
            hub: Arc::clone(&self.hub),
            rest: self.rest(tokens.clone()),
            guard: Guard::new(address, &self.hosts, &self.origins),
            entrance: Entrance::new(tokens, self.require_token, exposed),
            connections: Connections::new(self.connections.within(open_files())),
            look: self.look,
        };
        tokio::spawn(http::serve(listener, Arc::new(door), self.stop.clone()))
    }

    /// The REST door, open to whoever has the control token.
    pub fn rest(&self, tokens: impl Into<Tokens>) -> axum::Router {
        rest::router(rest::Door {
            hub: Arc::clone(&self.hub),
            reloader: self.reloader.clone(),
            tokens: tokens.into(),
            max_body: self.max_body,
            stop: self.stop.clone(),
        })
    }

    /// Reads the configuration again, where it can be.
    pub fn reloader(&self) -> Option<&Arc<Reloader>> {
        self.reloader.as_ref()
    }

    /// Reloads whenever the configuration's file changes; ends with the daemon.
    pub async fn watch(&self, tell: impl Fn(Result<Plan, LoadError>)) {
        match &self.reloader {
            Some(reloader) => reloader.watch(self.stop.clone(), tell).await,
            None => self.stop.cancelled().await,
        }
    }

    /// Serves one client of a profile on stdio; returns when it has gone.
    pub async fn serve_stdio(
        &self,
        profile: Arc<Profile>,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) {
        mcp::stdio::serve(
            Arc::clone(&self.hub),
            profile,
            input,
            output,
            self.max_body,
            self.stop.clone(),
        )
        .await;
    }

    /// What [`Daemon::stop`] may take, and a little more.
    pub fn stop_limit(&self) -> Duration {
        self.grace + SERVERS_LIMIT + DRAIN_LIMIT
    }

    /// Stops in order: calls, sessions, the doors, the servers; returns when nothing is left. Calls at work
    /// have `shutdown.graceMs` to end; what becomes of those that do not is unknown. Servers that do not end
    /// in time are killed.
    pub async fn stop(self, doors: Option<JoinHandle<()>>) {
        let end = Instant::now() + self.grace + SERVERS_LIMIT;
        let calls = &self.hub.calls;
        calls.closing().begin();
        self.hub.end_waiting();
        self.calls_ended(self.grace).await;
        // I11: what ends from here on is no event.
        self.hub.registry.events().close();
        calls.closing().end();
        self.calls_ended(DRAIN_LIMIT).await;
        self.hub.end_all();
        self.stop.cancel();
        for task in doors.into_iter().chain([self.telling]) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a door failed");
            }
        }
        calls.drain(DRAIN_LIMIT).await;
        let mut stopping = pin!(self.hub.registry.stop());
        if timeout_at(end, stopping.as_mut()).await.is_err() {
            self.hub.registry.kill().await;
            stopping.await;
        }
        if let Some(journal) = calls.journal() {
            journal.close().await;
        }
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        self.alerts.stop().await;
    }

    /// Returns when no call is at work, or after `limit`.
    async fn calls_ended(&self, limit: Duration) {
        let is_at_work = || {
            let servers = self.hub.registry.servers();
            let mut figures = servers.iter().map(|server| &server.figures);
            figures.any(|figures| figures.waiting() + figures.in_flight() > 0)
        };
        if !is_at_work() {
            return;
        }
        let end = Instant::now() + limit;
        while is_at_work() && Instant::now() < end {
            sleep(LOOK).await;
        }
        // The last answers are on their way to the doors.
        sleep(LOOK).await;
    }
}

/// What the configuration lets clients take.
fn limits(config: &Config, pauses: Pauses) -> Limits {
    Limits {
        page_size: config.page_size,
        sessions: SessionLimits {
            all: config.max_sessions,
            of_one: config.max_sessions_per_client,
        },
        bodies: BodyLimits {
            of_body: config.max_body_bytes,
            of_all: config.max_bodies_bytes,
            time: config.body_timeout,
            pause: pauses.body,
        },
    }
}
