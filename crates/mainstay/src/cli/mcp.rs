//! `mainstay mcp`: the aggregate for one client on stdin and stdout: a front for the daemon that serves the
//! same configuration, or else a Mainstay with servers of its own, which the other commands can ask.

use std::{
    convert::Infallible, future::pending, net::Ipv4Addr, path::PathBuf, pin::pin, time::Duration,
};

use clap::Args;
use mainstay_api::HandOver;
use mainstay_core::ids::ProfileName;
use mainstay_doorway::tokens::Tokens;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{
    lineage::Lineage,
    state::{Ownership, StateDir, StateError},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    time::sleep,
};

use super::{
    CommandError, Exit,
    clients::ClientsArgs,
    front::{self, ClientInput, Finder, Leaving, Starter},
    instance::Kept,
    screen::{self, complain},
    serve,
    signals::Signals,
    suggest,
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
        state.hands_over = true;
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
    /// Finds the daemon that serves this configuration, if the client may be served by one.
    fn finder(&self, config: Option<&str>) -> Option<(Finder, Starter)> {
        let config = config.filter(|_| !self.standalone)?;
        // A URL in the environment is for the commands.
        if std::env::var_os("MAINSTAY_URL").is_some() {
            return None;
        }
        let finder = Finder {
            url: None,
            path: front::path(Some(&self.profile), None).ok()?,
            config: Some(config.to_owned()),
        };
        Some((finder, Starter::new(config.into())))
    }

    /// Serves the client by the daemon that serves the same configuration, if there is one.
    async fn attach(&self, config: Option<&str>) -> Option<Result<Exit, CommandError>> {
        let (finder, starter) = self.finder(config)?;
        finder.find(0).ok()?;
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
                hint: Some(suggest::among(&self.profile, &known)),
            });
        }
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let config = serve::shareable(&origin, &loaded);
        if let Some(served) = Box::pin(self.attach(config.as_deref())).await {
            return served;
        }
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let Kept {
            state,
            instance,
            journal,
        } = Kept::open(&loaded, &lineage)?;
        let announced = Announced::new(state.as_ref(), config.clone());
        let session_key = announced.as_ref().map(|it| it.state.session_key.clone());
        let (hand_over, mut wanted) = mpsc::channel(1);
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
                hand_over: Some(hand_over),
                ..DaemonOptions::default()
            },
        );
        // The directory is ours until the servers have stopped.
        let (mut directory, http) = match announced {
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
        let mut client = ClientInput::new(tokio::io::stdin(), daemon.max_message());
        let (feed, input) = front::door_input();
        let leaving = Leaving::default();
        let serving = daemon.serve_stdio(profile, input, stdout, leaving.leave.clone());
        let (tell, mut told) = oneshot::channel();
        // A door like others: the client is heard while calls have their time to end.
        let door = tokio::spawn(async move {
            let (served, ()) = tokio::join!(serving, shown);
            // The receiver is gone if the time limit has passed.
            tell.send(served).ok();
        });
        let ending = async {
            let mut served = None;
            let mut gone = pin!(screen::gone());
            let mut successor = loop {
                tokio::select! {
                    ended = &mut told => {
                        served = Some(ended);
                        signals.asked_otherwise();
                        break None;
                    }
                    () = &mut gone => {
                        signals.asked_otherwise();
                        break None;
                    }
                    _ = signals.next() => break None,
                    Some(HandOver { config: theirs }) = wanted.recv() => {
                        let same = config.as_deref().filter(|_| config == theirs);
                        let successor = self.finder(same);
                        if successor.is_some() {
                            break successor;
                        }
                        give_up(&mut directory);
                    }
                }
            };
            let announce_stop = |limit| {
                if let Some((state, url)) = &directory
                    && let Err(error) = state.announce_stop(url, limit)
                {
                    tracing::warn!(%error, "others are not told that this Mainstay is stopping");
                }
            };
            if successor.is_some() {
                complain("handing the client and the servers over to `mainstay serve`");
                announce_stop(daemon.grace() + daemon.stop_limit());
                leaving.asked.cancel();
                // Calls that take longer get the same time again, as all calls do when a daemon stops.
                tokio::select! {
                    ended = &mut told => served = Some(ended),
                    () = sleep(daemon.grace()) => {}
                    _ = signals.next() => successor = None,
                }
            } else {
                announce_stop(daemon.stop_limit());
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
            served.unwrap_or(Ok(())).map_err(CommandError::Output)?;
            Ok::<_, CommandError>((exit, successor))
        };
        let feeding = async {
            client.feed(feed, &leaving).await;
            pending::<Infallible>().await
        };
        let (exit, successor) = tokio::select! {
            ended = ending => ended,
            never = feeding => match never {},
        }?;
        let Some((finder, starter)) = successor else {
            return Ok(exit);
        };
        // They are the successor's now.
        drop((directory, instance));
        Box::pin(front::serve(client, finder, WAIT, Some(starter), signals)).await
    }
}

/// Gives the state directory to a daemon that serves something else. The client keeps its servers.
fn give_up(directory: &mut Option<(Ownership, String)>) {
    if directory.take().is_some() {
        complain(
            "another Mainstay takes the state directory: the other commands do not see these servers any more",
        );
    }
}
