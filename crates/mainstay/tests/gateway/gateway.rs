//! A Mainstay in this process, and how these tests wait.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay::daemon::{Daemon, DaemonOptions};
use mainstay_config::{ConfigSource, Environment, Syntax, UnreadableFile};
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

/// The future's value; fails the test if it takes too long.
pub fn soon<'f, T: 'f>(
    what: &'f str,
    future: impl Future<Output = T> + 'f,
) -> impl Future<Output = T> {
    mainstay_testkit::soon(IN_PROCESS, what, future)
}

/// Waits for a condition that is not announced.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    mainstay_testkit::until(IN_PROCESS, what, condition).await;
}

/// The first thing that `look` finds, of what is not announced.
pub async fn found<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    mainstay_testkit::found(IN_PROCESS, what, look).await
}

/// An environment without variables, files and home.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, _: &Path) -> Result<String, UnreadableFile> {
        Err(UnreadableFile::Absent)
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
    let parsed = mainstay_config::parse(text, &source, &Nothing).expect("a valid configuration");
    assert_eq!(parsed.config.problems().count(), 0, "{text}");
    parsed.config
}

/// A configuration of these servers, in this order, beside other settings.
pub fn config(servers: &[(&str, &Backend)], mut settings: Value) -> Value {
    let entries = servers
        .iter()
        .map(|(name, backend)| ((*name).to_owned(), backend.entry.clone()));
    settings["mcpServers"] = Value::Object(entries.collect());
    settings
}

/// A running Mainstay with its HTTP door; it goes with the test's runtime.
pub struct Gateway {
    daemon: Arc<Daemon>,
    door: JoinHandle<()>,
    pub address: SocketAddr,
}

impl Gateway {
    pub async fn start(config: &Value) -> Self {
        Self::set(config, GatewayOptions::default()).await
    }

    /// With what a daemon is told beside its configuration.
    pub async fn set(config: &Value, options: impl Into<DaemonOptions>) -> Self {
        Self::guarded(config, options, Secret::new(TOKEN), |address| address).await
    }

    /// With these tokens, as if it listened where `seen` says.
    pub async fn guarded(
        config: &Value,
        options: impl Into<DaemonOptions>,
        tokens: impl Into<Tokens>,
        seen: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Self {
        Self::run(&parse(&config.to_string()), options, tokens, seen).await
    }

    /// The same with a configuration that has been read.
    pub async fn run(
        config: &Config,
        options: impl Into<DaemonOptions>,
        tokens: impl Into<Tokens>,
        seen: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Self {
        let daemon = Daemon::start(config, options);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let door = daemon.serve_http(listener, seen(address), tokens);
        Self {
            daemon: Arc::new(daemon),
            door,
            address,
        }
    }

    /// In front of these servers, in this order.
    pub async fn of(servers: &[(&str, &Backend)]) -> Self {
        Self::with(servers, json!({})).await
    }

    /// The same with settings at the top of the configuration.
    pub async fn with(servers: &[(&str, &Backend)], settings: Value) -> Self {
        Self::start(&config(servers, settings)).await
    }

    /// The REST door.
    pub fn rest(&self) -> Rest {
        Rest::new(self.address)
    }

    /// A client that has greeted at `/mcp`.
    pub async fn client(&self) -> Http {
        self.client_at("/mcp").await
    }

    /// A client that has greeted.
    pub async fn client_at(&self, path: &str) -> Http {
        let mut client = self.stranger(path);
        client.initialize(LATEST).await;
        client
    }

    /// A client that has not greeted.
    pub fn stranger(&self, path: &str) -> Http {
        Http::new(self.address, path)
    }

    /// A client on stdio that has greeted.
    pub async fn pipe(&self) -> Pipe {
        self.pipe_of(ProfileName::DEFAULT).await
    }

    /// The same of a profile.
    pub async fn pipe_of(&self, profile: &str) -> Pipe {
        let mut pipe = Pipe::open(Arc::clone(&self.daemon), profile);
        pipe.initialize(LATEST).await;
        pipe
    }

    /// A client on stdio that has not greeted.
    pub fn silent_pipe(&self) -> Pipe {
        Pipe::open(Arc::clone(&self.daemon), ProfileName::DEFAULT)
    }

    /// The servers, for what no door offers.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.daemon.gateway.registry
    }

    /// How many clients have a session.
    pub fn sessions(&self) -> usize {
        self.daemon.gateway.session_count.get()
    }

    /// Stops everything, in order. No pipe may be open any more.
    pub async fn stop(self) {
        let Ok(daemon) = Arc::try_unwrap(self.daemon) else {
            panic!("a pipe is still open");
        };
        soon("the daemon to stop", daemon.stop(Some(self.door))).await;
    }
}
