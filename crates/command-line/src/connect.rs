//! Finds a command's daemon: the owner of the state directory, a daemon at a URL, or a daemon that the
//! command starts for itself.

use std::{
    env,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args;
use mainstay_api::{Client, ClientError};
use mainstay_core::config::Secret;
use mainstay_platform::{
    environment::{ConfigurationSource, Process},
    state::{self, DaemonFile, StateDir},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    CommandError, fate,
    host::Host,
    news::{self, ProgressLine},
    output, progress,
    signals::Signals,
    suggest,
};

/// The options of commands that change the configuration.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Change this configuration file, without a daemon
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
    /// The daemon, if it is known already.
    #[arg(skip)]
    client: Option<Client>,
}

#[derive(Clone, Debug, Args)]
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
    /// The daemon, if it is known already.
    #[arg(skip)]
    client: Option<Client>,
    /// The line on which progress of calls is shown.
    #[arg(skip)]
    news: Option<ProgressLine>,
}

/// The source of the list of servers.
#[derive(Debug)]
pub enum ServerSource {
    Daemon(Client),
    File(ConfigurationSource),
}

impl ServerSource {
    /// The file of this configuration; or else the daemon at this URL, of the environment or of the state
    /// directory; or else the usual file.
    pub fn find(config: Option<PathBuf>, url: Option<String>) -> Result<Self, CommandError> {
        if config.is_none() {
            match running(url) {
                Err(CommandError::Client(ClientError::NotRunning { .. })) => {}
                found => return Ok(Self::Daemon(found?)),
            }
        }
        Ok(Self::File(ConfigurationSource {
            flag: config,
            ..ConfigurationSource::default()
        }))
    }
}

impl DaemonArgs {
    /// The daemon at this URL; or else of the environment, or of the state directory.
    pub fn at(url: Option<String>, json: bool) -> Self {
        Self {
            config: None,
            url,
            json,
            client: None,
            news: None,
        }
    }

    /// The arguments for this daemon.
    pub fn for_client(client: Client, json: bool) -> Self {
        Self {
            client: Some(client),
            ..Self::at(None, json)
        }
    }

    /// Shows progress of calls on this line.
    #[must_use]
    pub fn showing(self, news: Option<ProgressLine>) -> Self {
        Self { news, ..self }
    }

    /// Returns the client that was given, or else a client of the running daemon.
    pub fn find(&self) -> Result<Client, CommandError> {
        match &self.client {
            Some(client) => Ok(client.clone()),
            None => running(self.url.clone()),
        }
    }

    /// The same daemon, for a command that changes the configuration.
    pub fn to_change(&self) -> ChangeArgs {
        ChangeArgs {
            config: None,
            url: self.url.clone(),
            json: self.json,
            client: self.client.clone(),
        }
    }

    /// Calls `subject` by this path and shows its progress. Dropping the future cancels the call. So does a
    /// signal, unless another part of the command listens for signals.
    pub async fn call<T: DeserializeOwned>(
        &self,
        client: &Client,
        subject: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CommandError> {
        if let Some(news) = &self.news {
            return Ok(client
                .follow_call(path, body, |message| news.handle(message))
                .await?);
        }
        let started_at = SystemTime::now();
        let news = ProgressLine::new(&output::one_line(subject));
        let call = async {
            let handle = |message| {
                if !self.json {
                    news.handle(message);
                }
            };
            let call = client.follow_call(path, body, handle);
            if self.json {
                call.await
            } else {
                progress::ticking(call, |_| news.tick()).await
            }
        };
        if self.starts_servers() {
            return Ok(call.await?);
        }
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let signal = tokio::select! {
            answer = call => return Ok(answer?),
            signal = signals.next() => signal,
        };
        let fate = fate::of_cancelled(client, subject, started_at);
        Err(CommandError::Cancelled {
            subject: subject.to_owned(),
            signal: signal.name,
            exit: signal.exit_code(),
            fate: fate.await,
        })
    }

    /// True if the daemon is started for this command, and stops after it.
    pub fn starts_servers(&self) -> bool {
        self.config.is_some()
    }

    /// Runs `work` with a daemon.
    pub async fn with<T>(
        &self,
        host: &dyn Host,
        work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        match &self.config {
            Some(config) => for_the_occasion(host, config, false, work).await,
            None => {
                let client = self.find()?;
                suggest::completed(&client, work(&client).await).await
            }
        }
    }

    /// Runs work that calls servers and is recorded.
    pub async fn recorded<T>(
        &self,
        host: &dyn Host,
        work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        match &self.config {
            Some(config) => for_the_occasion(host, config, true, work).await,
            None => self.with(host, work).await,
        }
    }
}

impl ChangeArgs {
    /// The place of a change: the daemon, or without one the file itself, which starts no server.
    pub fn place(&self) -> Result<ServerSource, CommandError> {
        match &self.client {
            Some(client) if self.config.is_none() => Ok(ServerSource::Daemon(client.clone())),
            _ => ServerSource::find(self.config.clone(), self.url.clone()),
        }
    }

    /// The configuration file without a daemon.
    pub fn origin(&self) -> ConfigurationSource {
        ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        }
    }
}

/// A daemon that was found.
#[derive(Clone, Debug)]
pub struct LocatedDaemon {
    /// The address for commands: `http://HOST:PORT`.
    pub url: String,
    pub token: Option<Secret>,
    /// The content of its `daemon.json`, if that was read.
    pub file: Option<DaemonFile>,
}

impl LocatedDaemon {
    /// The address for browsers.
    pub fn page_url(&self) -> &str {
        match &self.file {
            Some(file) => file.client_url(),
            None => self.url.trim_end_matches('/'),
        }
    }
}

/// A client of the daemon at this URL; or else of the environment, or of the state directory.
pub fn running(url: Option<String>) -> Result<Client, CommandError> {
    let LocatedDaemon { url, token, .. } = locate(url)?;
    Ok(Client::new(&url, token)?)
}

/// The address of the daemon at this URL; or else of the environment, or of the state directory.
pub fn locate(url: Option<String>) -> Result<LocatedDaemon, CommandError> {
    let var = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let state = StateDir::locate(&Process);
    let url = url.or_else(|| var("MAINSTAY_URL"));
    let daemon = match (state.as_ref().map(StateDir::daemon), &url) {
        (Ok(Ok(daemon)), _) => daemon,
        // The daemon belongs to another user or machine, so this directory has no token for it.
        (_, Some(_)) | (Err(_), None) => None,
        (Ok(Err(error)), None) => return Err(error.into()),
    };
    let (url, file) = match (url, daemon) {
        // The token of the state directory is sent to its own daemon only.
        (Some(url), Some(daemon))
            if [daemon.url.as_str(), daemon.client_url()].contains(&url.trim_end_matches('/')) =>
        {
            (daemon.url.clone(), Some(daemon))
        }
        (Some(url), _) => (url, None),
        // The file may be wrong. A URL that the operator names is the operator's decision.
        (None, Some(daemon)) if !daemon.is_loopback() => {
            return Err(CommandError::Elsewhere(daemon.url));
        }
        (None, Some(daemon)) => (daemon.url.clone(), Some(daemon)),
        (None, None) => {
            return Err(ClientError::NotRunning {
                dir: state?.path().to_owned(),
            }
            .into());
        }
    };
    let token = match (var("MAINSTAY_TOKEN"), &file) {
        (Some(token), _) => Some(Secret::new(token)),
        (None, Some(file)) => Some(state::read_token(&file.token_file)?),
        (None, None) => None,
    };
    Ok(LocatedDaemon { url, token, file })
}

/// Runs work with a daemon that is started for it.
async fn for_the_occasion<T>(
    host: &dyn Host,
    config: &Path,
    recorded: bool,
    work: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let origin = ConfigurationSource {
        flag: Some(config.to_owned()),
        ..ConfigurationSource::default()
    };
    let occasion = host.start(&origin, recorded)?;
    let outcome = tokio::select! {
        outcome = async {
            let client = occasion.client();
            news::during("starting the servers", occasion.settled()).await;
            suggest::completed(client, work(client).await).await
        } => outcome,
        signal = signals.next() => Err(CommandError::Interrupted { name: signal.name, exit: signal.exit_code() }),
    };
    let stopped = occasion.stop(&mut signals).await;
    outcome.and_then(|done| stopped.map(|_| done))
}
