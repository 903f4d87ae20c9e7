//! A `mainstay mcp` with its own servers: its state directory, its address, its client's door, and its stop.

use std::{convert::Infallible, env, future::pending, io, net::Ipv4Addr, pin::pin, time::Duration};

use mainstay_api::HandOver;
use mainstay_command_line::{
    CommandError, Exit,
    listen::ListenAddress,
    screen::{self, complain},
    signals::Signals,
};
use mainstay_front::{self as front, ClientInput, Finder, Leaving, Starter};
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{
    environment::{ConfigurationSource, Loaded},
    lineage::Lineage,
    state::{Instance, Ownership, StateDir, StateError},
};
use mainstay_tokens::Tokens;
use tokio::{
    io::Stdin,
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::sleep,
};

use super::{
    super::{instance::LocalState, serve},
    Mcp,
};
use crate::{
    daemon::{self, Daemon, DaemonOptions},
    logins,
};

/// The state directory, and the address at which other commands reach the servers.
struct Announced {
    state: Ownership,
    listener: TcpListener,
    url: String,
    tokens: Tokens,
}

impl Announced {
    /// Takes the state directory. `None` if another Mainstay has it, or if it cannot be used. The client is
    /// served in both cases.
    fn new(state: Option<&StateDir>, config: Option<String>) -> Option<Self> {
        let warn_hidden = |reason: &dyn std::fmt::Display| {
            complain(&format!(
                "the other commands do not see these servers: {reason}"
            ));
        };
        let mut state = match state?.clone().take_ownership() {
            Ok(state) => state,
            Err(StateError::Taken { daemon, .. }) => {
                let pid =
                    daemon.map_or_else(String::new, |daemon| format!(" (pid {})", daemon.pid));
                warn_hidden(&format!("another Mainstay{pid} has the state directory"));
                return None;
            }
            Err(error) => {
                warn_hidden(&error);
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
                warn_hidden(&error);
                return None;
            }
        };
        let tokens = match Tokens::open(state.dir().clone(), &state.token) {
            Ok(tokens) => tokens,
            Err(error) => {
                warn_hidden(&error);
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

    /// Opens the HTTP door, and writes its address to the state directory.
    fn open(self, daemon: &Daemon) -> Result<((Ownership, String), JoinHandle<()>), CommandError> {
        let Self {
            state,
            listener,
            url,
            tokens,
        } = self;
        let address = listener
            .local_addr()
            .map_err(|source| CommandError::Listen {
                address: ListenAddress::Address((Ipv4Addr::LOCALHOST, 0).into()),
                source,
            })?;
        let http = daemon.serve_http(listener, address, tokens);
        serve::announce(&state, &url);
        complain(&match env::var("MAINSTAY_URL") {
            Ok(other) if !other.is_empty() => format!(
                "started the servers here, at {url}; other commands ask {other}, as MAINSTAY_URL says"
            ),
            _ => format!("started the servers here; other commands find them at {url}"),
        });
        Ok(((state, url), http))
    }
}

/// A Mainstay with its own servers for one client.
pub struct Standalone {
    daemon: Daemon,
    /// The path of the configuration, if a daemon may serve the same configuration.
    config: Option<String>,
    /// The state directory, and the address for other commands. Held until the servers have stopped.
    directory: Option<(Ownership, String)>,
    /// The HTTP door, if it is open.
    http: Option<JoinHandle<()>>,
    /// The lock of the instance. Dropping it releases the lock.
    instance: Option<Instance>,
    /// Requests of daemons for the state directory.
    hand_over_requests: mpsc::Receiver<HandOver>,
}

/// The finder of the daemon that serves the client from now on, and a starter in case that daemon has gone.
pub type Successor = (Finder, Starter);

/// The reason why this process stopped serving the client.
pub enum McpEnd {
    Over(Exit),
    /// A daemon serves the client from now on.
    HandedOver(Box<Successor>),
}

/// The task of the client's door.
struct Door {
    task: JoinHandle<()>,
    ending: oneshot::Receiver<io::Result<()>>,
    /// The result, after the client has gone or nothing more can be written.
    ended: Option<io::Result<()>>,
}

impl Door {
    async fn end(&mut self) {
        if self.ended.is_none() {
            // The sender was dropped without a result, because the time limit has passed.
            self.ended = Some((&mut self.ending).await.unwrap_or(Ok(())));
        }
    }
}

impl Standalone {
    /// Starts the servers, and publishes their address for other commands.
    pub fn start(
        loaded: &Loaded,
        origin: ConfigurationSource,
        lineage: Lineage,
        config: Option<String>,
    ) -> Result<Self, CommandError> {
        let LocalState {
            state,
            instance,
            journal,
        } = LocalState::open(loaded, &lineage)?;
        let announced = Announced::new(state.as_ref(), config.clone());
        let session_key = announced
            .as_ref()
            .map(|announced| announced.state.session_key.clone());
        let (hand_over, hand_over_requests) = mpsc::channel(1);
        let daemon = Daemon::start(
            &loaded.config,
            DaemonOptions {
                gateway: GatewayOptions {
                    state: instance.as_ref().map(|instance| instance.path().to_owned()),
                    catalogs: state.as_ref().map(StateDir::catalogs),
                    journal,
                    switches: state.as_ref().map(StateDir::switches),
                    origin: Some(origin),
                    config_history: state.clone(),
                    lineage,
                    sole_client: true,
                    ..GatewayOptions::default()
                },
                session_key,
                hand_over: Some(hand_over),
                logins: state.as_ref().map(logins::in_state_dir),
                ..DaemonOptions::default()
            },
        );
        let (directory, http) = match announced {
            None => (None, None),
            Some(announced) => {
                let (directory, http) = announced.open(&daemon)?;
                (Some(directory), Some(http))
            }
        };
        Ok(Self {
            daemon,
            config,
            directory,
            http,
            instance,
            hand_over_requests,
        })
    }

    pub fn max_message(&self) -> usize {
        self.daemon.max_message()
    }

    /// Serves the client until it ends, a signal arrives, or a daemon takes over.
    pub async fn serve(
        mut self,
        client: &mut ClientInput<Stdin>,
        mcp: &Mcp,
        signals: &mut Signals,
    ) -> Result<McpEnd, CommandError> {
        let (feed, input) = front::door_input();
        let leaving = Leaving::default();
        let mut door = self.open_door(mcp, input, &leaving);
        let ending = async {
            let successor = self.until_end(&mut door, mcp, signals).await;
            let successor = match successor {
                Some(successor) => {
                    self.hand_over(&mut door, successor, &leaving, signals)
                        .await
                }
                None => {
                    self.announce_stop(self.daemon.stop_limit());
                    None
                }
            };
            let exit = self.stop(door, signals).await?;
            Ok(match successor {
                Some(successor) => McpEnd::HandedOver(Box::new(successor)),
                None => McpEnd::Over(exit),
            })
        };
        let feeding = async {
            client.feed(feed, &leaving).await;
            pending::<Infallible>().await
        };
        tokio::select! {
            ended = ending => ended,
            never = feeding => match never {},
        }
    }

    fn open_door(&self, mcp: &Mcp, input: front::DoorInput, leaving: &Leaving) -> Door {
        let profile = self.daemon.gateway.registry.profile(&mcp.profile);
        let profile = profile.expect("the configuration has it, and is not read again");
        let (stdout, writing) = screen::protocol();
        let leave = leaving.leave.clone();
        let serving = self.daemon.serve_stdio(profile, input, stdout, leave);
        let (tell, ending) = oneshot::channel();
        // Use a task, as the other doors do. The door must read from the client while calls may still finish.
        let task = tokio::spawn(async move {
            let (served, ()) = tokio::join!(serving, writing);
            // Ignore the error: nobody receives the result after the time limit.
            tell.send(served).ok();
        });
        Door {
            task,
            ending,
            ended: None,
        }
    }

    /// Waits until the client ends, a signal arrives, or a daemon takes over. Returns the successor if a
    /// daemon takes over.
    async fn until_end(
        &mut self,
        door: &mut Door,
        mcp: &Mcp,
        signals: &mut Signals,
    ) -> Option<Successor> {
        let mut gone = pin!(screen::gone());
        loop {
            tokio::select! {
                () = door.end() => {
                    signals.ended_without_signal();
                    return None;
                }
                () = &mut gone => {
                    signals.ended_without_signal();
                    return None;
                }
                _ = signals.next() => return None,
                Some(HandOver { config: theirs }) = self.hand_over_requests.recv() => {
                    let same = self.config.as_deref().filter(|_| self.config == theirs);
                    let successor = mcp.finder(same);
                    if successor.is_some() {
                        return successor;
                    }
                    self.release_directory();
                }
            }
        }
    }

    /// Releases the state directory to a daemon with another configuration. The client keeps its servers.
    fn release_directory(&mut self) {
        if self.directory.take().is_some() {
            complain(
                "another Mainstay takes the state directory: the other commands do not see these servers any more",
            );
        }
    }

    /// Waits until the calls in flight end or their time limit passes. A signal during the wait ends
    /// everything.
    async fn hand_over(
        &self,
        door: &mut Door,
        successor: Successor,
        leaving: &Leaving,
        signals: &mut Signals,
    ) -> Option<Successor> {
        complain("handing the client and the servers over to `mainstay serve`");
        self.announce_stop(self.daemon.grace() + self.daemon.stop_limit());
        leaving.requested.cancel();
        // Calls get the grace period here, and again when the daemon stops.
        tokio::select! {
            () = door.end() => Some(successor),
            () = sleep(self.daemon.grace()) => Some(successor),
            _ = signals.next() => None,
        }
    }

    fn announce_stop(&self, limit: Duration) {
        if let Some((state, url)) = &self.directory
            && let Err(error) = state.announce_stop(url, limit)
        {
            tracing::warn!(%error, "others are not told that this Mainstay is stopping");
        }
    }

    /// Stops the servers and the doors, and then releases the state directory.
    async fn stop(self, door: Door, signals: &mut Signals) -> Result<Exit, CommandError> {
        let Self {
            daemon,
            directory,
            http,
            instance,
            ..
        } = self;
        let Door {
            task,
            ending,
            ended,
        } = door;
        let doors = tokio::spawn(async move {
            if let Some(http) = http
                && let Err(error) = http.await
            {
                tracing::error!(%error, "the HTTP door failed");
            }
            if let Err(error) = task.await {
                tracing::error!(%error, "the client's door failed");
            }
        });
        let exit = serve::stop(daemon, Some(doors), signals).await?;
        let served = match ended {
            Some(served) => served,
            // The sender was dropped without a result, because the time limit has passed.
            None => ending.await.unwrap_or(Ok(())),
        };
        served.map_err(CommandError::Output)?;
        // A successor may use these from now on.
        drop((directory, instance));
        Ok(exit)
    }
}
