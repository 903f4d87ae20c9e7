//! A Mainstay in the test's process, and functions that wait for a condition.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay::daemon::{Daemon, DaemonOptions};
use mainstay_config::{ConfigSource, Environment, Syntax, UnreadableFile, UnreadableSecret};
use mainstay_core::{
    config::{Config, Secret},
    ids::ProfileName,
};
use mainstay_gateway::{GatewayOptions, registry::Registry};
use mainstay_testkit::limits::IN_PROCESS;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    backend::Backend,
    client::{Http, LATEST},
    pipe::Pipe,
    rest_client::{Rest, TOKEN},
};

/// Waits for the future. Panics after a time limit.
pub fn soon<'f, T: 'f>(
    description: &'f str,
    future: impl Future<Output = T> + 'f,
) -> impl Future<Output = T> {
    mainstay_testkit::soon(IN_PROCESS, description, future)
}

/// Waits until the condition is true. Polls it, because no event announces it.
pub async fn until(description: &str, condition: impl Fn() -> bool) {
    mainstay_testkit::until(IN_PROCESS, description, condition).await;
}

/// Calls `attempt` until it returns a result.
pub async fn found<T>(description: &str, attempt: impl AsyncFnMut() -> Option<T>) -> T {
    mainstay_testkit::found(IN_PROCESS, description, attempt).await
}

/// An environment without variables, files and a home folder.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, _: &Path) -> Result<String, UnreadableFile> {
        Err(UnreadableFile::Absent)
    }

    fn secret(&self, _: &str) -> Result<Secret, UnreadableSecret> {
        Err(UnreadableSecret::Absent)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        None
    }
}

pub fn parse(text: &str) -> Config {
    let source = ConfigSource {
        syntax: Syntax::Json,
        path: Path::new("/config.json"),
        is_of_clients: false,
    };
    let parsed_config =
        mainstay_config::parse(text, &source, &Nothing).expect("a valid configuration");
    assert_eq!(parsed_config.config.problems().count(), 0, "{text}");
    parsed_config.config
}

/// A configuration with these servers in this order, and with other settings.
pub fn config(servers: &[(&str, &Backend)], mut settings: Value) -> Value {
    let entries = servers
        .iter()
        .map(|(name, backend)| ((*name).to_owned(), backend.entry.clone()));
    settings["mcpServers"] = Value::Object(entries.collect());
    settings
}

/// A running Mainstay with its HTTP door. The end of the test's runtime ends it.
pub struct Gateway {
    daemon: Arc<Daemon>,
    door: JoinHandle<()>,
    pub address: SocketAddr,
}

impl Gateway {
    pub async fn start(config: &Value) -> Self {
        Self::with_options(config, GatewayOptions::default()).await
    }

    /// Starts a gateway with these options of the daemon.
    pub async fn with_options(config: &Value, options: impl Into<DaemonOptions>) -> Self {
        Self::guarded(config, options, Secret::new(TOKEN), |address| address).await
    }

    /// Starts a gateway with these tokens. Its access rules use the address that `apparent_address`
    /// returns.
    pub async fn guarded(
        config: &Value,
        options: impl Into<DaemonOptions>,
        tokens: impl Into<Tokens>,
        apparent_address: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Self {
        Self::run(
            &parse(&config.to_string()),
            options,
            tokens,
            apparent_address,
        )
        .await
    }

    /// Like [`Gateway::guarded`], with a parsed configuration.
    pub async fn run(
        config: &Config,
        options: impl Into<DaemonOptions>,
        tokens: impl Into<Tokens>,
        apparent_address: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Self {
        let daemon = Daemon::start(config, options);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let door = daemon.serve_http(listener, apparent_address(address), tokens);
        Self {
            daemon: Arc::new(daemon),
            door,
            address,
        }
    }

    /// Starts a gateway with these servers, in this order.
    pub async fn with_servers(servers: &[(&str, &Backend)]) -> Self {
        Self::with_settings(servers, json!({})).await
    }

    /// Starts a gateway with these servers and settings.
    pub async fn with_settings(servers: &[(&str, &Backend)], settings: Value) -> Self {
        Self::start(&config(servers, settings)).await
    }

    /// A client of the REST door.
    pub fn rest(&self) -> Rest {
        Rest::new(self.address)
    }

    /// Connects a client to `/mcp` and completes its handshake.
    pub async fn client(&self) -> Http {
        self.client_at("/mcp").await
    }

    /// Connects a client to this path and completes its handshake.
    pub async fn client_at(&self, path: &str) -> Http {
        let mut client = self.stranger(path);
        client.initialize(LATEST).await;
        client
    }

    /// A client that has no session yet.
    pub fn stranger(&self, path: &str) -> Http {
        Http::new(self.address, path)
    }

    /// Connects a client on stdio and completes its handshake.
    pub async fn pipe(&self) -> Pipe {
        self.pipe_for_profile(ProfileName::DEFAULT).await
    }

    /// Connects a client of this profile on stdio and completes its handshake.
    pub async fn pipe_for_profile(&self, profile: &str) -> Pipe {
        let mut pipe = Pipe::open(Arc::clone(&self.daemon), profile);
        pipe.initialize(LATEST).await;
        pipe
    }

    /// A client on stdio that has made no handshake.
    pub fn silent_pipe(&self) -> Pipe {
        Pipe::open(Arc::clone(&self.daemon), ProfileName::DEFAULT)
    }

    /// The registry of servers. Tests use it for state that no door shows.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.daemon.gateway.registry
    }

    /// The number of client sessions.
    pub fn sessions(&self) -> usize {
        self.daemon.gateway.session_count.get()
    }

    /// Stops the gateway. All pipes must be closed first.
    pub async fn stop(self) {
        let Ok(daemon) = Arc::try_unwrap(self.daemon) else {
            panic!("a pipe is still open");
        };
        soon("the daemon to stop", daemon.stop(Some(self.door))).await;
    }
}
