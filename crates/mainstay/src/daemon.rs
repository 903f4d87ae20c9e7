//! Wires everything, and owns the order of start and stop.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

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
    descriptors,
    front::{
        connections::{Connections, Limits as ConnectionLimits},
        entrance::Entrance,
        guard::Guard,
        http::{self, Door},
        mcp::{self, BodyLimits, Hub, Limits, Seal, SessionLimits},
        rest,
        unread::Unread,
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
    max_unread: usize,
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
                reserve: descriptors::operator(),
            },
            max_unread: config.max_unread_bytes,
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

    /// Serves HTTP on a listener bound to `address`, until the daemon stops, to clients with one of
    /// these tokens: the REST door, and where a token is demanded the MCP paths. A [`Secret`] alone is
    /// a control token.
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
            connections: Connections::new(self.connections.within(descriptors::limit())),
            unread: Unread::new(self.max_unread),
            look: self.look,
        };
        tokio::spawn(http::serve(listener, Arc::new(door), self.stop.clone()))
    }

    /// The REST door, open to the control token.
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

    /// Serves one client of a profile on stdio, until it has gone or the daemon stops. An error is one of
    /// writing to it while it was there.
    pub fn serve_stdio<I, O>(
        &self,
        profile: Arc<Profile>,
        input: I,
        output: O,
    ) -> impl Future<Output = io::Result<()>> + Send + use<I, O>
    where
        I: AsyncRead + Unpin + Send,
        O: AsyncWrite + Unpin + Send + 'static,
    {
        let (hub, stop) = (Arc::clone(&self.hub), self.stop.clone());
        let max_body = self.max_body;
        async move {
            // A client that does not read its last answers delays no end.
            let too_late = async {
                stop.cancelled().await;
                sleep(DRAIN_LIMIT).await;
            };
            tokio::select! {
                served = mcp::stdio::serve(hub, profile, input, output, max_body, stop.clone()) => served,
                () = too_late => Ok(()),
            }
        }
    }

    /// What [`Daemon::stop`] may take, and a little more.
    pub fn stop_limit(&self) -> Duration {
        self.grace + SERVERS_LIMIT + DRAIN_LIMIT
    }

    /// Stops in order: calls, sessions, the doors, the servers; returns when nothing is left. Calls at work
    /// have `shutdown.graceMs` to end; what becomes of those that do not is unknown. Servers that do not end
    /// in time are killed.
    pub async fn stop(self, doors: Option<JoinHandle<()>>) {
        self.stop_in_haste(doors, CancellationToken::new()).await;
    }

    /// Stops in the same order; once `haste` is cancelled, calls have no more time, and servers are
    /// killed.
    pub async fn stop_in_haste(self, doors: Option<JoinHandle<()>>, haste: CancellationToken) {
        let end = Instant::now() + self.grace + SERVERS_LIMIT;
        let calls = &self.hub.calls;
        calls.closing().begin();
        self.hub.end_waiting();
        tokio::select! {
            () = self.calls_ended(self.grace) => {}
            () = haste.cancelled() => {}
        }
        // What ends because Mainstay ends is no event.
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
        let in_time = timeout_at(end, haste.run_until_cancelled(stopping.as_mut()));
        if !matches!(in_time.await, Ok(Some(()))) {
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
