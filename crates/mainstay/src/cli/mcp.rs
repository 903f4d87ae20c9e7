//! `mainstay mcp`: the aggregate for one client on stdin and stdout: a front for the daemon that serves the
//! same configuration, or else a Mainstay with servers of its own, which the other commands can ask.

use std::{net::Ipv4Addr, path::PathBuf, time::Duration};

use clap::Args;
use mainstay_core::ids::ProfileName;
use mainstay_doorway::tokens::Tokens;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{
    environment::{Loaded, Origin},
    lineage::Lineage,
    state::{Ownership, StateDir, StateError},
};
use tokio::{net::TcpListener, sync::oneshot};

use super::{
    CommandError, Exit,
    clients::ClientsArgs,
    front::{self, Finder, Starter},
    instance::Kept,
    screen::{self, complain},
    serve,
    signals::Signals,
};
use crate::daemon::{self, Daemon, DaemonOptions};

/// How long a daemon that was there a moment ago is waited for.
const WAIT: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  claude mcp add mainstay -- mainstay mcp
  mainstay mcp --config servers.json
  mainstay mcp --profile meta
  mainstay mcp --standalone";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mcp {
    /// The configuration [default: $MAINSTAY_CONFIG, or config.json in $MAINSTAY_HOME or ~/.config/mainstay]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The profile of the configuration that the client sees
    #[arg(long, value_name = "NAME", default_value = ProfileName::DEFAULT)]
    profile: String,
    #[command(flatten)]
    clients: ClientsArgs,
    #[command(flatten)]
    health: serve::HealthInterval,
    /// Start servers of its own, even if a daemon serves the same configuration
    #[arg(long)]
    standalone: bool,
}

/// What makes the servers known to the other commands: the state directory, and an address for them.
struct Announced {
    state: Ownership,
    listener: TcpListener,
    url: String,
    tokens: Tokens,
}

impl Announced {
    /// `None` if another Mainstay has the directory, or it cannot be used: the client is served all the
    /// same.
    fn new(state: Option<&StateDir>, config: Option<String>) -> Option<Self> {
        let unseen = |why: &dyn std::fmt::Display| {
            complain(&format!(
                "the other commands do not see these servers: {why}"
            ));
        };
        let mut state = match state?.clone().own() {
            Ok(state) => state,
            Err(StateError::Taken { daemon, .. }) => {
                let pid =
                    daemon.map_or_else(String::new, |daemon| format!(" (pid {})", daemon.pid));
                unseen(&format!("another Mainstay{pid} has the state directory"));
                return None;
            }
            Err(error) => {
                unseen(&error);
                return None;
            }
        };
        state.config = config;
        let listener = daemon::bind((Ipv4Addr::LOCALHOST, 0).into());
        let bound = listener.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, format!("http://{address}")))
        });
        let (listener, url) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                unseen(&error);
                return None;
            }
        };
        let tokens = match Tokens::open(state.dir().clone(), &state.token) {
            Ok(tokens) => tokens,
            Err(error) => {
                unseen(&error);
                return None;
            }
        };
        Some(Self {
            state,
            listener,
            url,
            tokens,
        })
    }
}

impl Mcp {
    /// Serves the client by the daemon that serves the same configuration, if there is one.
    async fn attach(&self, origin: &Origin, loaded: &Loaded) -> Option<Result<Exit, CommandError>> {
        let config = serve::shareable(origin, loaded).filter(|_| !self.standalone)?;
        let finder = Finder {
            url: None,
            path: front::path(Some(&self.profile), None).ok()?,
            config: Some(config.clone()),
        };
        // A URL in the environment is for the commands.
        if std::env::var_os("MAINSTAY_URL").is_some() || finder.find(0).is_err() {
            return None;
        }
        let starter = Starter::new(config.into());
        Some(Box::pin(front::run(finder, WAIT, Some(starter))).await)
    }

    /// Ends when the client has closed its end and is answered, or reads no more. Only the protocol is
    /// written to stdout.
    pub async fn run(self) -> Result<Exit, CommandError> {
        let origin = self
            .health
            .origin(self.config.clone(), self.clients.clone().into());
        let loaded = origin.load()?;
        serve::tell_findings(&loaded);
        let profiles = loaded.config.profiles.iter();
        let known: Vec<&str> = profiles.map(|profile| profile.name.as_str()).collect();
        if !known.contains(&self.profile.as_str()) {
            return Err(CommandError::Usage {
                message: format!(
                    "there is no profile {:?} in the configuration",
                    self.profile
                ),
                hint: Some(format!("it has {}", known.join(", "))),
            });
        }
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        if let Some(served) = Box::pin(self.attach(&origin, &loaded)).await {
            return served;
        }
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let Kept {
            state,
            instance,
            journal,
        } = Kept::open(&loaded, &lineage)?;
        let announced = Announced::new(state.as_ref(), serve::shareable(&origin, &loaded));
        let session_key = announced.as_ref().map(|it| it.state.session_key.clone());
        let daemon = Daemon::start(
            &loaded.config,
            DaemonOptions {
                gateway: GatewayOptions {
                    state: instance.as_ref().map(|instance| instance.path().to_owned()),
                    catalogs: state.as_ref().map(StateDir::catalogs),
                    journal,
                    switches: state.as_ref().map(StateDir::switches),
                    origin: Some(origin),
                    lineage,
                    sole_client: true,
                    ..GatewayOptions::default()
                },
                session_key,
                ..DaemonOptions::default()
            },
        );
        // The directory is ours until the servers have stopped.
        let (directory, http) = match announced {
            None => (None, None),
            Some(announced) => {
                let Announced {
                    state,
                    listener,
                    url,
                    tokens,
                } = announced;
                let address = listener
                    .local_addr()
                    .map_err(|source| CommandError::Listen {
                        address: (Ipv4Addr::LOCALHOST, 0).into(),
                        source,
                    })?;
                let http = daemon.serve_http(listener, address, tokens);
                serve::announce(&state, &url);
                complain(&format!(
                    "started the servers here; other commands find them at {url}"
                ));
                (Some((state, url)), Some(http))
            }
        };
        let registry = &daemon.gateway.registry;
        let profile = registry.profile(&self.profile);
        let profile = profile.expect("the configuration has it, and is not read again");
        let (stdout, shown) = screen::protocol();
        let serving = daemon.serve_stdio(profile, tokio::io::stdin(), stdout);
        let (tell, mut told) = oneshot::channel();
        // A door like others: the client is heard while calls have their time to end.
        let door = tokio::spawn(async move {
            let (served, ()) = tokio::join!(serving, shown);
            // The receiver is gone if the time limit has passed.
            tell.send(served).ok();
        });
        let mut served = None;
        tokio::select! {
            ended = &mut told => {
                served = Some(ended);
                signals.asked_otherwise();
            }
            () = screen::gone() => signals.asked_otherwise(),
            _ = signals.next() => {}
        }
        if let Some((state, url)) = &directory
            && let Err(error) = state.announce_stop(url, daemon.stop_limit())
        {
            tracing::warn!(%error, "others are not told that this Mainstay is stopping");
        }
        let doors = tokio::spawn(async move {
            if let Some(http) = http
                && let Err(error) = http.await
            {
                tracing::error!(%error, "the HTTP door failed");
            }
            if let Err(error) = door.await {
                tracing::error!(%error, "the client's door failed");
            }
        });
        let exit = serve::stop(daemon, Some(doors), &mut signals).await?;
        let served = match served {
            Some(served) => served,
            None => told.await,
        };
        // Without a word of it, its time has run out.
        let served = served.unwrap_or(Ok(()));
        served.map(|()| exit).map_err(CommandError::Output)
    }
}
