//! `mainstay serve`: the daemon.

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use mainstay_api::{Client, HandOver};
use mainstay_command_line::{
    CommandError, Exit,
    clients::ClientsArgs,
    host::Host,
    listen::{self, ListenAddress},
    output,
    run_command::{CommandFacts, Guard, Role, RunCommand},
    screen::{complain, stderr_is_terminal},
    signals::{Signal, Signals},
    starting::HealthInterval,
};
use mainstay_commands::{own_entry, warn_of_unread_rules};
use mainstay_core::config::Config;
use mainstay_doors::tls::ServerTls;
use mainstay_doorway::token_limits::LimitsOfTokens;
use mainstay_gateway::{
    GatewayOptions,
    reload::{Reloaded, Reloader},
};
use mainstay_platform::{
    environment::{ClientsFlags, ConfigurationSource, LoadError, Loaded, Process},
    lineage::Lineage,
    listener_tls, loopback,
    state::{self, Ownership, StateDir, StateError},
};
use mainstay_tokens::{self as tokens, Tokens};
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{status::ServerReporters, store};
use crate::{
    daemon::{self, CommandListener, Daemon, DaemonOptions, Listeners},
    demo, logins,
};

/// The interval of checks that the previous daemon has stopped.
const LOOK: Duration = Duration::from_millis(20);

/// The time limit for a `mainstay mcp` to hand over the state directory. Its calls and servers have to end
/// first.
const HAND_OVER_LIMIT: Duration = Duration::from_mins(2);

/// The interval between attempts to write the daemon's address for the commands.
const ANNOUNCE_EVERY: Duration = Duration::from_mins(1);

/// The time limit of an immediate stop. In this time calls get their failure and the journal is closed.
const HASTE_LIMIT: Duration = Duration::from_secs(4);

const EXAMPLES: &str = "\
Examples:
  mainstay serve --demo
  mainstay serve --config servers.json
  mainstay serve --listen 127.0.0.1:8000

Endpoints:
  /mcp                  every server's tools, resources and prompts
  /servers/NAME/mcp     one server, nothing renamed
  /                     the web page; `mainstay ui` opens it
  /api/…                for the other commands; it takes the control token
  /healthz, /readyz     for machines";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// The configuration [default: $MAINSTAY_CONFIG, or config.json in $MAINSTAY_HOME or ~/.config/mainstay]
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one, localhost is IPv4 and IPv6
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420", value_parser = listen::address)]
    listen: ListenAddress,
    /// Start three small servers that are part of Mainstay, and no others
    #[arg(long, conflicts_with = "ClientsArgs")]
    demo: bool,
    #[command(flatten)]
    clients: ClientsArgs,
    #[command(flatten)]
    health: HealthInterval,
    /// Ask nobody for a token, not even at an address that others can reach
    #[arg(long)]
    insecure: bool,
    /// Print where it listens as JSON on stdout
    #[arg(long)]
    pub json: bool,
    /// Stop when stdin ends: for a `mainstay mcp` that starts a daemon
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

impl RunCommand for Serve {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            role: Role::Daemon,
            guard: Guard::Always,
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let origin = self
            .health
            .origin(self.config.clone(), self.clients.clone().into());
        let loaded = self.load(&origin)?;
        let tls = server_tls(&loaded)?;
        let state = StateDir::locate(&Process)?;
        self.check_exposure(&loaded.config, &state)?;
        // Problems of an entry are printed with the lines about its server.
        loaded
            .told_warnings()
            .for_each(|warning| complain(&warning));
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let config = shareable(&origin, &loaded);
        // A daemon that a front has started does not take the directory from another front.
        let wish = (!self.until_stdin_ends).then(|| HandOver {
            config: config.clone(),
        });
        let mut state = take_state_dir(state, wish, &mut signals).await?;
        state.config = config;
        state.hands_over = self.until_stdin_ends;
        let (hand_over, mut hand_over_requests) = mpsc::channel(1);
        let tokens = Tokens::open(state.dir().clone(), &state.token)?;
        let unbound = |source| CommandError::Listen {
            address: self.listen,
            source,
        };
        let bound = match self.listen {
            ListenAddress::Address(address) => daemon::bind(address).map(Listeners::from),
            ListenAddress::Localhost(port) => Listeners::localhost(port),
        };
        let listeners = bound.map_err(unbound)?;
        let address = listeners.local_addr().map_err(unbound)?;
        let commands = match &tls {
            Some(_) => Some(
                CommandListener::bind().map_err(|source| CommandError::Listen {
                    address: ListenAddress::Address((Ipv4Addr::LOCALHOST, 0).into()),
                    source,
                })?,
            ),
            None => None,
        };
        let (url, command_url) = urls(address, commands.as_ref());
        state.client_url = commands.is_some().then(|| url.clone());
        let is_announced = announce(&state, &command_url);

        let journal = store::open_if_enabled(state.path(), &loaded.config.journal)?;
        let daemon = Daemon::start(
            &loaded.config,
            DaemonOptions {
                gateway: GatewayOptions {
                    state: Some(state.path().to_owned()),
                    catalogs: Some(state.catalogs()),
                    switches: Some(state.switches()),
                    journal,
                    origin: (!self.demo).then_some(origin),
                    config_history: Some(state.dir().clone()),
                    lineage,
                    token_limits: Some(Arc::new(LimitsOfTokens(tokens.clone()))),
                    ..GatewayOptions::default()
                },
                session_key: Some(state.session_key.clone()),
                insecure: self.insecure,
                hand_over: self.until_stdin_ends.then_some(hand_over),
                logins: Some(logins::in_state_dir(state.dir())),
                // Without this path, entries name the program without a path, and clients find it in PATH.
                connect: own_entry::connect().ok(),
                ..DaemonOptions::default()
            },
        );
        let reporters = ServerReporters::start(Arc::clone(&daemon.gateway.registry));
        let other_address = other_listener(&listeners);
        let doors = match tls.zip(commands) {
            Some((tls, commands)) => {
                daemon.serve_https(listeners, address, tokens.clone(), tls, commands)
            }
            None => daemon.serve_http(listeners, address, tokens.clone()),
        };
        self.greet(&url, &loaded, state.path())?;
        if let Some(other_address) = other_address {
            complain(&format!(
                "warning: {}",
                loopback::taken_words(other_address)
            ));
        }
        if loaded.config.page {
            name_page(&url, &tokens)?;
        }
        let welcome = async {
            daemon.gateway.registry.tried().await;
            reporters.print_summary();
            if self.demo {
                let tour = demo::tour(&url, &daemon.gateway.registry.servers());
                tour.lines().for_each(complain);
            }
            std::future::pending().await
        };
        let announcing = announce_again(&state, &command_url, is_announced);
        let watching = daemon.watch(|outcome| print_reload(&outcome));
        let following = reporters.follow();
        let signal = tokio::select! {
            signal = ending(&mut signals, daemon.reloader()) => signal.name,
            () = end_of_stdin(self.until_stdin_ends) => "stdin has ended",
            Some(_) = hand_over_requests.recv() => "another daemon takes over",
            never = welcome => never,
            () = watching => unreachable!("it ends with the daemon"),
            () = following => unreachable!("it never ends"),
            never = announcing => never,
        };
        if let Err(error) = state.announce_stop(&command_url, daemon.stop_limit()) {
            tracing::warn!(%error, "the next daemon is not told to wait for this one");
        }
        complain(&format!("{signal}: stopping; once more stops at once"));
        let exit = stop(daemon, Some(doors), &mut signals).await?;
        reporters.end().await;
        Ok(exit)
    }
}

/// The TLS of the listeners, if the configuration has it.
fn server_tls(loaded: &Loaded) -> Result<Option<Arc<ServerTls>>, LoadError> {
    let usable = listener_tls::of_loaded(loaded)?;
    let files = loaded.config.tls.clone().zip(usable);
    Ok(files.map(|(files, (usable, digest))| ServerTls::new(files, usable, digest)))
}

/// The address for clients and browsers, and the address for commands.
fn urls(address: SocketAddr, commands: Option<&CommandListener>) -> (String, String) {
    let address = loopback::reachable(address);
    match commands {
        Some(commands) => (
            format!("https://{address}"),
            format!("http://{}", commands.address),
        ),
        None => (format!("http://{address}"), format!("http://{address}")),
    }
}

impl Serve {
    /// Returns an error if others can reach the address without tokens. The operator may override this by
    /// `--insecure`.
    fn check_exposure(&self, config: &Config, state: &StateDir) -> Result<(), CommandError> {
        if self.listen.is_loopback() || self.insecure {
            return Ok(());
        }
        let exposed = |reason: &str, remedy: &str| CommandError::Usage {
            message: format!("{} can be reached by others, and {reason}", self.listen),
            hint: Some(format!(
                "{remedy}, or listen on 127.0.0.1; --insecure is for where something else keeps others out"
            )),
        };
        if config.require_token == Some(false) {
            let reason = "http.requireToken lets everyone call every tool";
            return Err(exposed(reason, "take it out of the configuration"));
        }
        if tokens::read(state)?.is_empty() {
            let make = "make one for each with `mainstay token add NAME`";
            return Err(exposed("no client has a token", make));
        }
        Ok(())
    }

    fn load(&self, origin: &ConfigurationSource) -> Result<Loaded, CommandError> {
        if self.demo {
            let servers = demo::servers().map_err(|source| CommandError::Read {
                path: "our own path".to_owned(),
                source,
            })?;
            let config = Config {
                servers,
                ..Config::default()
            };
            return Ok(Loaded {
                config,
                path: None,
                warnings: Vec::new(),
            });
        }
        let mut loaded = origin.load()?;
        warn_of_unread_rules(&mut loaded);
        Ok(loaded)
    }

    fn greet(
        &self,
        url: &str,
        loaded: &Loaded,
        state: &std::path::Path,
    ) -> Result<(), CommandError> {
        let asks_nobody = self.insecure && loaded.config.require_token != Some(true);
        if asks_nobody && !self.listen.is_loopback() {
            complain("warning: everyone who reaches this address can call every tool");
        }
        complain(&format!(
            "Mainstay {} serves {url}/mcp",
            env!("CARGO_PKG_VERSION")
        ));
        match (&loaded.path, loaded.config.servers.len()) {
            (Some(path), count) => complain(&format!(
                "{} from {}",
                output::count(count, "server"),
                path.display()
            )),
            (None, 0) => {
                complain("no configuration found, so no servers; try --config FILE or --demo");
            }
            (None, _) => {}
        }
        if self.json {
            let started = json!({
                "url": url,
                "mcp": format!("{url}/mcp"),
                "pid": std::process::id(),
                "stateDir": state,
            });
            output::json(&started)?;
        }
        Ok(())
    }
}

/// Prints how to open the web page. Prints the one-time code only on a terminal, because logs are stored.
fn name_page(url: &str, tokens: &Tokens) -> Result<(), CommandError> {
    if stderr_is_terminal() {
        let link = mainstay_rest::link(tokens)?;
        complain(&format!(
            "web page: {url}{} (once; later `mainstay ui`)",
            link.path
        ));
    } else {
        complain("web page: `mainstay ui` opens it");
    }
    Ok(())
}

/// The path of a configuration that `mainstay mcp` may share. `None` if the command line adds to the file.
pub fn shareable(origin: &ConfigurationSource, loaded: &Loaded) -> Option<String> {
    let ClientsFlags {
        usual,
        file,
        inline,
    } = &origin.clients;
    let is_plain =
        !usual && file.is_none() && inline.is_empty() && origin.health_interval.is_none();
    let path = loaded.path.as_ref().filter(|_| is_plain)?;
    let path = std::fs::canonicalize(path).ok()?;
    path.to_str().map(str::to_owned)
}

/// Resolves when stdin ends. Never resolves if `matters` is false.
async fn end_of_stdin(matters: bool) {
    if !matters {
        return std::future::pending().await;
    }
    // A read error counts as the end.
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink())
        .await
        .ok();
}

/// Takes the state directory. If another daemon is stopping, waits as long as that daemon may need. With a
/// `wish`, requests the directory from a `mainstay mcp` that owns it.
async fn take_state_dir(
    state: StateDir,
    wish: Option<HandOver>,
    signals: &mut Signals,
) -> Result<Ownership, CommandError> {
    let error = match state.clone().take_ownership() {
        Err(error @ StateError::Taken { .. }) => error,
        owned => return Ok(owned?),
    };
    let (asked_pid, limit) = if let Some((pid, limit)) = stopping(&error) {
        complain(&format!(
            "waiting for the daemon that is stopping (pid {pid})"
        ));
        (None, limit)
    } else if let Some(pid) = hands_over(&error, wish).await {
        complain(&format!("taking over from `mainstay mcp` (pid {pid})"));
        (Some(pid), HAND_OVER_LIMIT)
    } else {
        return Err(error.into());
    };
    let freed = async {
        loop {
            sleep(LOOK).await;
            match state.clone().take_ownership() {
                // A stopping daemon removes its file just before it releases its lock. Try again.
                Err(StateError::Taken { daemon: None, .. }) => {}
                Err(StateError::Taken {
                    daemon: Some(daemon),
                    ..
                }) if daemon.stops_within().is_some() || asked_pid == Some(daemon.pid) => {}
                owned => return owned,
            }
        }
    };
    tokio::select! {
        owned = timeout(limit, freed) => Ok(owned.unwrap_or(Err(error))?),
        signal = signals.next() => Err(CommandError::Interrupted { name: signal.name, exit: signal.exit_code() }),
    }
}

/// Requests the directory from its owner, if the owner supports that. Returns the owner's process id.
async fn hands_over(error: &StateError, wish: Option<HandOver>) -> Option<u32> {
    let StateError::Taken {
        daemon: Some(daemon),
        ..
    } = error
    else {
        return None;
    };
    // Do not send the token to another machine.
    let wish = wish.filter(|_| daemon.hands_over && daemon.is_loopback())?;
    let token = state::read_token(&daemon.token_file).ok()?;
    let client = Client::new(&daemon.url, Some(token)).ok()?;
    match client.hand_over(wish.config).await {
        Ok(_) => Some(daemon.pid),
        Err(error) => {
            tracing::debug!(%error, "the state directory is not handed over");
            None
        }
    }
}

/// The process id of a stopping owner, and the time limit of its stop.
fn stopping(error: &StateError) -> Option<(u32, Duration)> {
    match error {
        StateError::Taken {
            daemon: Some(daemon),
            ..
        } => Some((daemon.pid, daemon.stops_within()?)),
        _ => None,
    }
}

/// The second address of `localhost`, if another program listens there.
fn other_listener(listeners: &Listeners) -> Option<SocketAddr> {
    let mut addresses = listeners.addresses();
    match (addresses.next(), addresses.next()) {
        (Some(only), None) => loopback::taken_beside(only),
        _ => None,
    }
}

/// Writes the daemon's address for commands. A failure does not stop the daemon, because clients do not need
/// the file.
pub fn announce(state: &Ownership, url: &str) -> bool {
    let announced = state.announce(url);
    if let Err(error) = &announced {
        let error = error as &dyn Error;
        tracing::error!(error, "commands cannot find this daemon without --url");
    }
    announced.is_ok()
}

/// Retries the write of the daemon's address until it succeeds.
async fn announce_again<T>(state: &Ownership, url: &str, mut is_announced: bool) -> T {
    while !is_announced {
        sleep(ANNOUNCE_EVERY).await;
        is_announced = state.announce(url).is_ok();
    }
    std::future::pending().await
}

/// Returns the signal that stops the daemon. SIGHUP reloads the configuration instead, if there is a file.
async fn ending(signals: &mut Signals, reloader: Option<&Arc<Reloader>>) -> Signal {
    loop {
        let signal = signals.next().await;
        match reloader {
            Some(reloader) if signal.is_hangup() => {
                print_reload(&reloader.reload().await);
                signals.was_no_end();
            }
            _ => return signal,
        }
    }
}

fn print_reload(outcome: &Result<Reloaded, LoadError>) {
    match outcome {
        Ok(Reloaded { plan, warnings, .. }) => {
            // Problems of an entry are printed with the lines about its server.
            for warning in warnings {
                complain(warning);
            }
            if plan.is_empty() {
                return complain(&format!("reloaded: {plan}"));
            }
            complain("reloaded:");
            for line in plan.to_string().lines() {
                complain(&format!("  {line}"));
            }
        }
        Err(error) => {
            complain("not reloaded: the configuration stays as it was");
            for finding in error.findings() {
                complain(&format!("  {finding}"));
            }
        }
    }
}

/// Stops in order. After a second signal it stops calls at once, but still reports and records their outcome.
/// After a third signal it only waits for the end of the servers. No process remains in any case.
pub async fn stop(
    daemon: Daemon,
    doors: Option<JoinHandle<()>>,
    signals: &mut Signals,
) -> Result<Exit, CommandError> {
    let registry = Arc::clone(&daemon.gateway.registry);
    let limit = daemon.stop_limit();
    let haste = CancellationToken::new();
    let mut stopping = pin!(timeout(limit, daemon.stop_in_haste(doors, haste.clone())));
    let error = tokio::select! {
        stopped = stopping.as_mut() => match stopped {
            Ok(()) => return Ok(Exit::DONE),
            Err(_) => CommandError::StillRunning { seconds: limit.as_secs() },
        },
        signal = signals.next_end() => {
            haste.cancel();
            tokio::select! {
                _ = timeout(HASTE_LIMIT, stopping) => {}
                _ = signals.next_end() => {}
            }
            CommandError::Interrupted { name: signal.name, exit: signal.exit_code() }
        }
    };
    registry.kill().await;
    Err(error)
}
