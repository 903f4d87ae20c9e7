//! The daemon: whether one runs, and whether another Mainstay is in its way.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use mainstay_api::{Client, ClientError};
use mainstay_command_line::{CommandError, connect, listen::Listen};
use mainstay_core::failure::with_causes;
use mainstay_platform::{
    blocking::off_the_runtime,
    loopback,
    port_holder::PortHolder,
    state::{StateDir, StateError},
};

use super::finding::{Finding, quoted};

/// The daemon that can be asked, and what is found about it.
pub async fn find(state: Option<&StateDir>, listen: Listen) -> (Option<Client>, Vec<Finding>) {
    match connect::running(None) {
        Ok(client) => match client.servers().await {
            Ok(_) => {
                let told = state.and_then(|state| state.daemon().ok().flatten());
                let what = told.map_or_else(
                    || "a daemon answers".to_owned(),
                    |daemon| format!("a daemon runs: {}, pid {}", daemon.url, daemon.pid),
                );
                let mut findings = vec![Finding::ok("daemon.running", what)];
                findings.extend(beside_running(&client).await);
                (Some(client), findings)
            }
            Err(error) => (None, vec![silent(state, &error)]),
        },
        Err(CommandError::Client(ClientError::NotRunning { .. })) => {
            let mut findings = vec![
                Finding::note("daemon.stopped", "no daemon runs")
                    .why("clients cannot use its URL")
                    .mend("mainstay service install"),
            ];
            findings.extend(ports(listen).await);
            (None, findings)
        }
        Err(CommandError::State(StateError::Untrusted { .. })) => (None, Vec::new()),
        Err(error) => (
            None,
            vec![
                Finding::error("daemon.not_believed", with_causes(&error))
                    .why("the token is sent to no program that may not be the daemon")
                    .mend(forget(state)),
            ],
        ),
    }
}

/// Removes what is said of a daemon.
fn forget(state: Option<&StateDir>) -> String {
    match state {
        Some(state) => format!(
            "rm {}  # once the daemon has stopped",
            quoted(&state.path().join("daemon.json"))
        ),
        None => "unset MAINSTAY_URL MAINSTAY_TOKEN".to_owned(),
    }
}

fn silent(state: Option<&StateDir>, error: &ClientError) -> Finding {
    let told = state.and_then(|state| state.daemon().ok().flatten());
    let finding = Finding::error("daemon.silent", with_causes(error))
        .why("it runs, and commands and clients do not reach it");
    match told {
        Some(daemon) => finding.mend(format!("kill {} && mainstay serve", daemon.pid)),
        None => finding.mend("unset MAINSTAY_URL MAINSTAY_TOKEN"),
    }
}

/// Whether the daemon could listen there, and who listens beside it.
async fn ports(listen: Listen) -> Vec<Finding> {
    let addresses = listen.addresses();
    let Some(first) = addresses.first().copied() else {
        return Vec::new();
    };
    match TcpListener::bind(first) {
        Err(error) => vec![port(listen, first, &error).await],
        Ok(_) => beside(first).into_iter().collect(),
    }
}

/// Why the daemon cannot listen at the first address of these.
async fn port(listen: Listen, first: SocketAddr, error: &io::Error) -> Finding {
    let other = listen.at_port(listen.port().wrapping_add(1).max(1024));
    let mend = format!("mainstay serve --listen {other}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return Finding::error(
            "port.unusable",
            format!("cannot listen on {listen}: {error}"),
        )
        .why("the daemon cannot start")
        .mend(mend);
    }
    // Before it is asked: a program may serve one connection only.
    let holder = off_the_runtime(move || PortHolder::find(first)).await;
    if is_mainstay(first).await {
        Finding::error(
            "port.other_mainstay",
            format!("another Mainstay, with another state directory, listens on {first}"),
        )
        .why("clients that use that address get its servers, and the daemon cannot start there")
        .mend(format!("{mend}  # or stop the other one"))
    } else {
        let (who, mend) = match holder {
            Some(PortHolder { pid, program }) => (
                format!("{program}, pid {pid},"),
                format!("kill {pid}  # ends {program}; or {mend}, and that URL in the clients"),
            ),
            None => (
                "another program".to_owned(),
                format!("{mend}  # and that URL in the clients"),
            ),
        };
        Finding::error("port.taken", format!("{who} listens on {first}"))
            .why("the daemon cannot start there")
            .mend(mend)
    }
}

/// Whether another program listens where `localhost` leads as well.
fn beside(ours: SocketAddr) -> Option<Finding> {
    let taken = loopback::taken_beside(ours)?;
    let free = Listen::Localhost(ours.port().wrapping_add(1).max(1024));
    Some(
        Finding::warning("port.other_family", loopback::taken_words(taken))
            .why("a client's programming language decides which of the two addresses localhost is")
            .mend(format!(
                "mainstay serve --listen {free}  # or write {ours} into the clients' URLs"
            )),
    )
}

/// Whether another program listens beside the daemon that runs.
async fn beside_running(client: &Client) -> Option<Finding> {
    // An older daemon may not tell.
    let about = client.about().await.ok()?;
    match about.listen.as_slice() {
        [only] => beside(only.parse().ok()?),
        _ => None,
    }
}

/// Only Mainstay refuses to show its servers in this way.
async fn is_mainstay(listen: SocketAddr) -> bool {
    let Ok(client) = Client::new(&format!("http://{listen}"), None) else {
        return false;
    };
    match client.servers().await {
        Ok(_) | Err(ClientError::Unauthorized { .. }) => true,
        Err(_) => false,
    }
}
