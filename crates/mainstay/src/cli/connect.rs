//! How a command finds its daemon: the owner of the state directory, a daemon at a URL, or a daemon
//! that the command starts for itself.

use std::{
    env,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use clap::Args;
use mainstay_api::{Client, ClientError};
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{
    environment::{self, Loaded, Origin, Process},
    lineage::Lineage,
    state::{self, StateDir},
};

use super::{CommandError, instance::Kept, serve, signals::Signals, suggest};
use crate::daemon::{self, Daemon};

/// The options of commands that change the configuration.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Change this configuration file, without a daemon; no server is started
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// Do without a daemon: start the servers of this configuration for the occasion
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "url")]
    config: Option<PathBuf>,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
}

/// Where the list of servers is known.
#[derive(Debug)]
pub enum ServerSource {
    Daemon(Client),
    File(Origin),
}

impl DaemonArgs {
    /// Whether the daemon is one for the occasion, which does not come back.
    pub fn starts_servers(&self) -> bool {
        self.config.is_some()
    }

    /// Does `work` with a daemon.
    pub async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        match &self.config {
            Some(config) => for_the_occasion(config, |_, _| Ok(Kept::default()), work).await,
            None => {
                let client = running(self.url.clone())?;
                suggest::completed(&client, work(&client).await).await
            }
        }
    }

    /// Does work that calls servers and is recorded.
    pub async fn recorded<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        match &self.config {
            Some(config) => for_the_occasion(config, Kept::open, work).await,
            None => self.with(work).await,
        }
    }
}

impl ChangeArgs {
    /// Where a change of the servers goes: to the daemon, or without one to the file itself, which
    /// starts nothing.
    pub fn place(&self) -> Result<ServerSource, CommandError> {
        if self.config.is_none() {
            match running(self.url.clone()) {
                Err(CommandError::Client(ClientError::NotRunning { .. })) => {}
                found => return Ok(ServerSource::Daemon(found?)),
            }
        }
        Ok(ServerSource::File(Origin {
            flag: self.config.clone(),
            ..Origin::default()
        }))
    }
}

/// The daemon at this URL, or else of the environment, or of the state directory.
pub fn running(url: Option<String>) -> Result<Client, CommandError> {
    let var = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let state = StateDir::locate(&Process);
    let url = url.or_else(|| var("MAINSTAY_URL"));
    let daemon = match (state.as_ref().map(StateDir::daemon), &url) {
        (Ok(Ok(daemon)), _) => daemon,
        // The daemon is another one's, and its token is not there.
        (_, Some(_)) | (Err(_), None) => None,
        (Ok(Err(error)), None) => return Err(error.into()),
    };
    let (url, token_file) = match (url, daemon) {
        // The token of the state directory is sent to its own daemon only.
        (Some(url), Some(daemon)) if url.trim_end_matches('/') == daemon.url => {
            (url, Some(daemon.token_file))
        }
        (Some(url), _) => (url, None),
        // The file may be wrong; a URL that the operator names is the operator's decision.
        (None, Some(daemon)) if !daemon.is_loopback() => {
            return Err(CommandError::Elsewhere(daemon.url));
        }
        (None, Some(daemon)) => (daemon.url, Some(daemon.token_file)),
        (None, None) => {
            return Err(ClientError::NotRunning {
                dir: state?.path().to_owned(),
            }
            .into());
        }
    };
    let token = match (var("MAINSTAY_TOKEN"), token_file) {
        (Some(token), _) => Some(Secret::new(token)),
        (None, Some(path)) => Some(state::read_token(&path)?),
        (None, None) => None,
    };
    Ok(Client::new(&url, token)?)
}

/// Starts a daemon on a port of its own, with a token that is not shown, and stops it at the end. It
/// touches nothing of the state directory but what `keep` opens.
async fn for_the_occasion<T>(
    config: &Path,
    keep: impl FnOnce(&Loaded, &Lineage) -> Result<Kept, CommandError>,
    work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let loaded = environment::load(Some(config))?;
    serve::tell_findings(&loaded);
    let lineage = Lineage::begin(loaded.path.as_deref())?;
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let unbound = |source| CommandError::Listen {
        address: any,
        source,
    };
    let listener = daemon::bind(any).map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    let token = state::random_token()?;
    let client = Client::new(&format!("http://{address}"), Some(token.clone()))?;
    let kept = keep(&loaded, &lineage)?;

    let daemon = Daemon::start(
        &loaded.config,
        GatewayOptions {
            journal: kept.journal.clone(),
            lineage,
            ..GatewayOptions::default()
        },
    );
    let doors = daemon.serve_http(listener, address, token);
    let outcome = tokio::select! {
        outcome = async {
            daemon.gateway.registry.settled().await;
            suggest::completed(&client, work(&client).await).await
        } => outcome,
        signal = signals.next() => Err(CommandError::Interrupted { name: signal.name, exit: signal.exit_code() }),
    };
    let stopped = serve::stop(daemon, Some(doors), &mut signals).await;
    outcome.and_then(|done| stopped.map(|_| done))
}
