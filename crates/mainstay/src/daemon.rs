//! Wires everything, and owns the order of start and stop.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use mainstay_api::HandOver;
use mainstay_client_files::Front;
use mainstay_core::config::{Config, Secret};
pub use mainstay_doors::listen::{Listeners, bind};
use mainstay_doors::{
    connections::{Connections, Limits as ConnectionLimits},
    http::{self, HttpServer},
    mcp::{ClientLimits, Limits, Mcp, Seal, SessionLimits, wire::stdio},
    unread::Unread,
};
use mainstay_doorway::{authenticator::Authenticator, bodies::Limits as BodyLimits, guard::Guard};
use mainstay_gateway::{
    DRAIN_LIMIT, Gateway, GatewayOptions, SERVERS_LIMIT,
    registry::Profile,
    reload::{Reloaded, Reloader},
};
use mainstay_platform::{descriptors, environment::LoadError};
use mainstay_rest::Endpoint;
use mainstay_tokens::Tokens;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// What a daemon is told beside its configuration.
#[derive(Clone, Debug, Default)]
pub struct DaemonOptions {
    pub gateway: GatewayOptions,
    /// Seals the ids of clients' sessions, so that a later run knows them; without one none does.
    pub session_key: Option<Secret>,
    /// Demands no token, unless the configuration says otherwise (`serve --insecure`).
    pub insecure: bool,
    /// How long clients may stand still.
    pub pauses: Pauses,
    /// Gets the wish of another Mainstay for the state directory; `None` where the directory is kept.
    pub hand_over: Option<mpsc::Sender<HandOver>>,
    /// How clients start `mainstay connect`, for the entries that REST shows.
    pub connect: Option<Front>,
}

impl From<GatewayOptions> for DaemonOptions {
    fn from(gateway: GatewayOptions) -> Self {
        Self {
            gateway,
            ..Self::default()
        }
    }
}

/// How long clients may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Between two pieces of a request's body.
    pub body: Duration,
    /// How often a connection is looked at. One that reads too little of an answer is ended at the second
    /// look.
    pub look: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            // A machine may be busy, a network may lose packets.
            body: Duration::from_secs(10),
            look: Duration::from_secs(30),
        }
    }
}

/// A running Mainstay, without its doors.
pub struct Daemon {
    pub gateway: Arc<Gateway>,
    mcp: Arc<Mcp>,
    bodies: BodyLimits,
    connections: ConnectionLimits,
    max_unread: usize,
    /// How often a connection is looked at.
    look: Duration,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Whether the MCP paths ask for a token; `None` leaves it to the address and the tokens.
    require_token: Option<bool>,
    /// Whether the web page is served.
    page: bool,
    /// How long calls at work may take at the end.
    grace: Duration,
    /// Cancelled to close the doors and stop the tasks.
    stop: CancellationToken,
    telling: JoinHandle<()>,
    hand_over: Option<mpsc::Sender<HandOver>>,
    /// What it tells of itself.
    about: mainstay_rest::about::Daemon,
    connect: Option<Front>,
}

impl Daemon {
    /// Starts the servers of a configuration; returns at once.
    pub fn start(config: &Config, options: impl Into<DaemonOptions>) -> Self {
        let DaemonOptions {
            gateway: options,
            session_key,
            insecure,
            pauses,
            hand_over,
            connect,
        } = options.into();
        let about = mainstay_rest::about::Daemon {
            external_tools: config.external_tools,
            ..mainstay_rest::about::Daemon::now(options.state.clone())
        };
        // Without a key no session is revived.
        let state = options.state.clone().filter(|_| session_key.is_some());
        let limits = limits(config, pauses);
        let gateway = Gateway::start(config, options);
        let mcp = Arc::new(Mcp::new(
            Arc::clone(&gateway),
            Seal::new(session_key),
            state,
            &limits,
        ));
        // First a name, for it is this type that becomes a `dyn`.
        let doors = Arc::downgrade(&mcp);
        gateway.client_sessions.are_of(doors);
        let stop = CancellationToken::new();
        let telling = tokio::spawn({
            let (mcp, stop) = (Arc::clone(&mcp), stop.clone());
            async move { mcp.run(stop).await }
        });
        Self {
            gateway,
            mcp,
            bodies: limits.bodies,
            connections: ConnectionLimits {
                all: config.max_connections,
                of_address: config.max_connections_per_address,
                reserve: descriptors::operator(),
            },
            max_unread: config.max_unread_bytes,
            look: pauses.look,
            hosts: config.allowed_hosts.clone(),
            origins: config.allowed_origins.clone(),
            require_token: config.require_token.or(insecure.then_some(false)),
            page: config.page,
            grace: config.shutdown_grace,
            stop,
            telling,
            hand_over,
            about,
            connect,
        }
    }

    /// Serves HTTP on listeners, the first of which is bound to `address`, until the daemon stops, to clients with one of
    /// these tokens: the REST door, and where a token is demanded the MCP paths. A [`Secret`] alone is
    /// a control token.
    ///
    /// [`Secret`]: mainstay_core::config::Secret
    pub fn serve_http(
        &self,
        listeners: impl Into<Listeners>,
        address: SocketAddr,
        tokens: impl Into<Tokens>,
    ) -> JoinHandle<()> {
        let (listeners, tokens) = (listeners.into(), tokens.into());
        // Tests may have it seem to listen elsewhere.
        let beside = listeners.addresses().skip(1);
        let listen = std::iter::once(address).chain(beside);
        let listen = listen.map(|it| it.to_string()).collect();
        let exposed = !address.ip().is_loopback();
        let authenticator = Authenticator::new(tokens.clone(), self.require_token, exposed);
        let endpoint = Endpoint {
            address,
            demand: authenticator.mcp,
        };
        let door = HttpServer {
            mcp: Arc::clone(&self.mcp),
            rest: self.rest_at(Some(endpoint), listen, tokens),
            guard: Guard::new(address, &self.hosts, &self.origins),
            authenticator,
            connections: Connections::new(self.connections.within(descriptors::limit())),
            unread: Unread::new(self.max_unread),
            look: self.look,
        };
        tokio::spawn(http::serve(listeners, Arc::new(door), self.stop.clone()))
    }

    /// The REST door, open to the control token, and the web page.
    pub fn rest(&self, tokens: impl Into<Tokens>) -> axum::Router {
        self.rest_at(None, Vec::new(), tokens.into())
    }

    /// The REST door at this endpoint, if it has one, which listens at these addresses.
    fn rest_at(
        &self,
        endpoint: Option<Endpoint>,
        listen: Vec<String>,
        tokens: Tokens,
    ) -> axum::Router {
        let rest = mainstay_rest::router(mainstay_rest::RestDoor {
            gateway: Arc::clone(&self.gateway),
            tokens,
            daemon: mainstay_rest::about::Daemon {
                listen,
                ..self.about.clone()
            },
            bodies: self.bodies,
            stop: self.stop.clone(),
            connect: self.connect.clone(),
            endpoint,
            hand_over: self.hand_over.clone(),
            page: self.page,
        });
        if self.page {
            rest.merge(mainstay_page::router())
        } else {
            rest
        }
    }

    /// Reads the configuration again, where it can be.
    pub fn reloader(&self) -> Option<&Arc<Reloader>> {
        self.gateway.reloader.as_ref()
    }

    /// Reloads whenever the configuration's file changes; ends with the daemon.
    pub async fn watch(&self, tell: impl Fn(Result<Reloaded, LoadError>)) {
        match &self.gateway.reloader {
            Some(reloader) => reloader.watch(self.stop.clone(), tell).await,
            None => self.stop.cancelled().await,
        }
    }

    /// Serves one client of a profile on stdio, until it has gone, the daemon stops, or all is answered after
    /// `leave`. An error is one of writing to it while it was there.
    pub fn serve_stdio<I, O>(
        &self,
        profile: Arc<Profile>,
        input: I,
        output: O,
        leave: CancellationToken,
    ) -> impl Future<Output = io::Result<()>> + Send + use<I, O>
    where
        I: AsyncRead + Unpin + Send,
        O: AsyncWrite + Unpin + Send + 'static,
    {
        let (mcp, stop) = (Arc::clone(&self.mcp), self.stop.clone());
        let max_body = self.bodies.of_body;
        let ends = stdio::Ends {
            stop: stop.clone(),
            leave,
        };
        async move {
            // A client that does not read its last answers delays no end.
            let too_late = async {
                stop.cancelled().await;
                sleep(DRAIN_LIMIT).await;
            };
            tokio::select! {
                served = stdio::serve(mcp, profile, input, output, max_body, ends) => served,
                () = too_late => Ok(()),
            }
        }
    }

    /// The longest message of a client on stdio.
    pub fn max_message(&self) -> usize {
        self.bodies.of_body
    }

    /// How long calls at work may take at the end.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// What [`Daemon::stop`] may take, and a little more.
    pub fn stop_limit(&self) -> Duration {
        self.gateway.stop_limit()
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
        // Calls that wait for their clients do not take the grace of the others.
        self.gateway.calls.closing().begin();
        self.mcp.end_waiting();
        self.gateway.end_calls(&haste).await;
        self.mcp.end_all();
        self.stop.cancel();
        for task in doors.into_iter().chain([self.telling]) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a door failed");
            }
        }
        self.gateway.stop_servers(end, &haste).await;
    }
}

/// What the configuration lets clients take.
fn limits(config: &Config, pauses: Pauses) -> Limits {
    Limits {
        clients: ClientLimits {
            page_size: config.page_size,
            sessions: SessionLimits {
                all: config.max_sessions,
                of_one: config.max_sessions_per_client,
            },
        },
        bodies: BodyLimits {
            of_body: config.max_body_bytes,
            of_all: config.max_bodies_bytes,
            time: config.body_timeout,
            pause: pauses.body,
        },
    }
}
