//! Connects all parts, and owns the order in which they start and stop.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use mainstay_api::HandOver;
use mainstay_client_files::OwnEntry;
use mainstay_core::config::{AddressRange, Config, Secret};
pub use mainstay_doors::listen::{Listeners, bind};
use mainstay_doors::{
    connections::{ConnectionLimits, Connections},
    http::{self, HttpServer},
    mcp::{ClientLimits, Limits, Mcp, Seal, SessionLimits, wire::stdio},
    tls::{self, ServerTls},
    unread::UnreadAnswers,
};
use mainstay_doorway::{authenticator::Authenticator, bodies::BodyLimits, guard::Guard};
use mainstay_gateway::{
    DRAIN_LIMIT, Gateway, GatewayOptions, SERVERS_LIMIT,
    registry::PublishedProfile,
    reload::{Reloaded, Reloader},
};
use mainstay_login::logins::Logins;
use mainstay_platform::{descriptors, environment::LoadError};
use mainstay_rest::McpEndpoint;
use mainstay_tokens::Tokens;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::logins::{self, LoginSources};

/// The options of a daemon that are not in its configuration.
#[derive(Clone, Debug, Default)]
pub struct DaemonOptions {
    pub gateway: GatewayOptions,
    /// The key that seals the ids of client sessions, so that a later run recognises them. Without a key, no
    /// later run recognises them.
    pub session_key: Option<Secret>,
    /// True if no token is demanded, unless the configuration demands one (`serve --insecure`).
    pub insecure: bool,
    /// Time limits for clients that make no progress.
    pub pauses: Pauses,
    /// Receives the requests of other Mainstays for the state directory. `None` if this daemon never hands it
    /// over.
    pub hand_over: Option<mpsc::Sender<HandOver>>,
    /// The logins to remote servers. Without them, requests only have the credentials of the configuration.
    pub logins: Option<Arc<Logins>>,
    /// The command by which clients start `mainstay connect`, for the entries that REST shows.
    pub connect: Option<OwnEntry>,
}

impl From<GatewayOptions> for DaemonOptions {
    fn from(gateway: GatewayOptions) -> Self {
        Self {
            gateway,
            ..Self::default()
        }
    }
}

/// A listener on loopback for the commands of this machine, beside one that speaks HTTPS.
#[derive(Debug)]
pub struct CommandListener {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl CommandListener {
    /// Binds a free port of loopback.
    pub fn bind() -> io::Result<Self> {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// Time limits for clients that make no progress.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// The maximum time between two pieces of a request's body.
    pub body: Duration,
    /// The interval of checks of a connection. A connection that has read too little of an answer is closed
    /// at the second check.
    pub look: Duration,
    /// Interval of the looks at the files of the certificate.
    pub certificate: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            // Allow for a busy machine and lost packets.
            body: Duration::from_secs(10),
            look: Duration::from_secs(30),
            certificate: tls::LOOK,
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
    /// The connections of all listeners, and what their clients have not read.
    shared: OnceLock<(Arc<Connections>, Arc<UnreadAnswers>)>,
    pauses: Pauses,
    trusted_proxies: Vec<AddressRange>,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// True if the MCP paths demand a token. If `None`, this depends on the address and on the existence of
    /// tokens.
    require_token: Option<bool>,
    /// The address at which browsers reach Mainstay, if it differs from the listener's address.
    public_url: Option<String>,
    /// True if the web page is served.
    page: bool,
    /// Time limit for calls in flight at shutdown.
    grace: Duration,
    /// Cancelled to close the doors and stop the tasks.
    stop: CancellationToken,
    mcp_task: JoinHandle<()>,
    logins: Option<DaemonLogins>,
    hand_over: Option<mpsc::Sender<HandOver>>,
    /// The facts that REST shows about this daemon.
    about: mainstay_rest::about::DaemonFacts,
    connect: Option<OwnEntry>,
}

/// The logins, and the task that refreshes them.
struct DaemonLogins {
    logins: Arc<Logins>,
    task: JoinHandle<()>,
}

impl Daemon {
    /// Starts the servers of a configuration. Returns at once.
    pub fn start(config: &Config, options: impl Into<DaemonOptions>) -> Self {
        let DaemonOptions {
            gateway: mut options,
            session_key,
            insecure,
            pauses,
            hand_over,
            logins,
            connect,
        } = options.into();
        if let Some(logins) = &logins {
            let sources = LoginSources(Arc::clone(logins));
            options.credential_sources = Some(Arc::new(sources));
        }
        let about = mainstay_rest::about::DaemonFacts {
            external_tools: config.external_tools,
            ..mainstay_rest::about::DaemonFacts::now(options.state.clone())
        };
        // Load no earlier sessions without a key: no session could be revived.
        let state = options.state.clone().filter(|_| session_key.is_some());
        let limits = limits(config, pauses);
        let gateway = Gateway::start(config, options);
        let logins = logins.map(|logins| {
            let running = logins::run(Arc::clone(&logins), Arc::clone(&gateway.registry));
            DaemonLogins {
                logins,
                task: tokio::spawn(running.boxed()),
            }
        });
        let mcp = Arc::new(Mcp::new(
            Arc::clone(&gateway),
            Seal::new(session_key),
            state,
            &limits,
        ));
        // Bind the concrete type first. The call converts it to a `dyn`.
        let doors = Arc::downgrade(&mcp);
        gateway.client_sessions.set_doors(doors);
        let stop = CancellationToken::new();
        let mcp_task = tokio::spawn({
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
            shared: OnceLock::new(),
            pauses,
            trusted_proxies: config.trusted_proxies.clone(),
            hosts: config.allowed_hosts.clone(),
            origins: config.allowed_origins.clone(),
            require_token: config.require_token.or(insecure.then_some(false)),
            public_url: config.public_url.clone(),
            page: config.page,
            grace: config.shutdown_grace,
            stop,
            mcp_task,
            logins,
            hand_over,
            about,
            connect,
        }
    }

    /// Serves HTTP on these listeners until the daemon stops. The first listener is bound to `address`. REST
    /// demands one of these tokens. MCP paths demand one too, if tokens are demanded there. A single
    /// [`Secret`] is a control token.
    ///
    /// [`Secret`]: mainstay_core::config::Secret
    pub fn serve_http(
        &self,
        listeners: impl Into<Listeners>,
        address: SocketAddr,
        tokens: impl Into<Tokens>,
    ) -> JoinHandle<()> {
        let (listeners, tokens) = (listeners.into(), tokens.into());
        let door = self.open_door(&listeners, address, &tokens, None);
        tokio::spawn(http::serve(listeners, Arc::new(door), self.stop.clone()))
    }

    /// Like [`Daemon::serve_http`], but these listeners speak HTTPS. `commands` is a listener on loopback for
    /// the commands of this machine: it speaks plain HTTP, and demands a token at every path.
    pub fn serve_https(
        &self,
        listeners: impl Into<Listeners>,
        address: SocketAddr,
        tokens: impl Into<Tokens>,
        tls: Arc<ServerTls>,
        commands: CommandListener,
    ) -> JoinHandle<()> {
        let (listeners, tokens) = (listeners.into(), tokens.into());
        let door = self.open_door(&listeners, address, &tokens, Some(Arc::clone(&tls)));
        let command_door = HttpServer {
            mcp: Arc::clone(&door.mcp),
            rest: door.rest.clone(),
            guard: Guard::new(commands.address, &[], &[]),
            // This listener asks for no certificate. So it demands a token, whatever the settings say.
            authenticator: Authenticator::new(tokens, Some(true), true),
            connections: Arc::clone(&door.connections),
            unread: Arc::clone(&door.unread),
            tls: None,
            trusted_proxies: Vec::new(),
            look: door.look,
        };
        let requests = match &self.gateway.reloader {
            Some(reloader) => reloader.requests(),
            None => watch::channel(0).1,
        };
        let events = self.gateway.registry.events().clone();
        let (pause, stop) = (self.pauses.certificate, self.stop.clone());
        let serving = async move {
            tokio::join!(
                http::serve(listeners, Arc::new(door), stop.clone()),
                http::serve(
                    commands.listener.into(),
                    Arc::new(command_door),
                    stop.clone()
                ),
                tls.keep(pause, requests, events, stop),
            );
        };
        tokio::spawn(serving.boxed())
    }

    /// The door of these listeners.
    fn open_door(
        &self,
        listeners: &Listeners,
        address: SocketAddr,
        tokens: &Tokens,
        tls: Option<Arc<ServerTls>>,
    ) -> HttpServer {
        // A test may pass an `address` at which the daemon does not listen.
        let other_addresses = listeners.addresses().skip(1);
        let listen = std::iter::once(address).chain(other_addresses);
        let listen = listen.map(|address| address.to_string()).collect();
        let callback = logins::callback(self.public_url.as_deref(), address, tls.is_some());
        if let (Some(logins), Some(callback)) = (&self.logins, callback) {
            logins.logins.set_callback(callback);
        }
        if let Some(logins) = &self.logins {
            let keeping = logins::keep_clients(Arc::clone(&logins.logins), tokens.clone());
            tokio::spawn(self.stop.clone().run_until_cancelled_owned(keeping));
        }
        let exposed = !address.ip().is_loopback();
        let authenticator = Authenticator::new(tokens.clone(), self.require_token, exposed);
        let endpoint = McpEndpoint {
            address,
            is_tls: tls.is_some(),
            demand: authenticator.mcp,
        };
        let (connections, unread) = self.shared.get_or_init(|| {
            let limits = self.connections.within(descriptors::limit());
            (
                Connections::new(limits),
                UnreadAnswers::new(self.max_unread),
            )
        });
        HttpServer {
            mcp: Arc::clone(&self.mcp),
            rest: self.rest_at(Some(endpoint), listen, tokens.clone()),
            guard: Guard::new(address, &self.hosts, &self.origins),
            authenticator,
            connections: Arc::clone(connections),
            unread: Arc::clone(unread),
            tls,
            trusted_proxies: self.trusted_proxies.clone(),
            look: self.pauses.look,
        }
    }

    /// The REST door, which demands the control token, and the web page.
    pub fn rest(&self, tokens: impl Into<Tokens>) -> axum::Router {
        self.rest_at(None, Vec::new(), tokens.into())
    }

    /// The REST door with this MCP endpoint, if there is one. `listen` has the addresses at which the daemon
    /// listens.
    fn rest_at(
        &self,
        endpoint: Option<McpEndpoint>,
        listen: Vec<String>,
        tokens: Tokens,
    ) -> axum::Router {
        let rest = mainstay_rest::router(mainstay_rest::RestDoor {
            gateway: Arc::clone(&self.gateway),
            tokens,
            logins: self
                .logins
                .as_ref()
                .map(|logins| Arc::clone(&logins.logins)),
            daemon: mainstay_rest::about::DaemonFacts {
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

    /// Reloads the configuration. `None` if the daemon has no configuration to reload.
    pub fn reloader(&self) -> Option<&Arc<Reloader>> {
        self.gateway.reloader.as_ref()
    }

    /// Reloads the configuration when its file changes. Ends with the daemon.
    pub async fn watch(&self, tell: impl Fn(Result<Reloaded, LoadError>)) {
        match &self.gateway.reloader {
            Some(reloader) => reloader.watch(self.stop.clone(), tell).await,
            None => self.stop.cancelled().await,
        }
    }

    /// Serves one client of a profile on stdio. Ends when the client has gone, when the daemon stops, or when
    /// `leave` is cancelled and all requests are answered. Fails if a write fails while the client is
    /// connected.
    pub fn serve_stdio<I, O>(
        &self,
        profile: Arc<PublishedProfile>,
        input: I,
        output: O,
        leave: CancellationToken,
    ) -> impl Future<Output = io::Result<()>> + Send + use<I, O>
    where
        I: AsyncRead + Unpin + Send,
        O: AsyncWrite + Unpin + Send + 'static,
    {
        let (mcp, stop) = (Arc::clone(&self.mcp), self.stop.clone());
        let max_body = self.bodies.body_bytes;
        let ends = stdio::Ends {
            stop: stop.clone(),
            leave,
        };
        async move {
            // Do not let a client delay the stop by not reading its last answers.
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

    /// The maximum length of a client's message on stdio, in bytes.
    pub fn max_message(&self) -> usize {
        self.bodies.body_bytes
    }

    /// Time limit for calls in flight at shutdown.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The time limit of [`Daemon::stop`], with a reserve.
    pub fn stop_limit(&self) -> Duration {
        self.gateway.stop_limit()
    }

    /// Stops in order: calls, sessions, the doors, the servers. Returns when all have ended. Calls in flight
    /// may end within `shutdown.graceMs`. The outcome of later calls is unknown. Servers that exceed their
    /// time limit are killed.
    pub async fn stop(self, doors: Option<JoinHandle<()>>) {
        self.stop_in_haste(doors, CancellationToken::new()).await;
    }

    /// Like [`Daemon::stop`]. After `haste` is cancelled, calls get no more time, and servers are killed.
    pub async fn stop_in_haste(self, doors: Option<JoinHandle<()>>, haste: CancellationToken) {
        let end = Instant::now() + self.grace + SERVERS_LIMIT;
        // End calls that wait for answers of their clients first, so that they do not use up the grace
        // period.
        self.gateway.calls.closing().begin();
        self.mcp.end_waiting();
        self.gateway.end_calls(&haste).await;
        self.mcp.end_all();
        self.stop.cancel();
        for task in doors.into_iter().chain([self.mcp_task]) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a door failed");
            }
        }
        self.gateway.stop_servers(end, &haste).await;
        if let Some(DaemonLogins { logins, task }) = self.logins {
            logins.stop().await;
            if let Err(error) = task.await {
                tracing::error!(%error, "the task of the logins failed");
            }
        }
    }
}

/// The limits that the configuration sets for clients.
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
            body_bytes: config.max_body_bytes,
            total_bytes: config.max_bodies_bytes,
            time: config.body_timeout,
            pause: pauses.body,
        },
    }
}
