//! Checks the daemon: whether a daemon runs, and whether another program uses its port.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use mainstay_api::{Client, ClientError};
use mainstay_command_line::{CommandError, connect, listen::ListenAddress};
use mainstay_core::failure::with_causes;
use mainstay_platform::{
    blocking::off_the_runtime,
    loopback,
    port_holder::PortHolder,
    state::{StateDir, StateError},
};

use super::finding::{DoctorFinding, quoted};

/// A client of the daemon if the daemon answers, and the findings about the daemon.
pub async fn find(
    state: Option<&StateDir>,
    listen: ListenAddress,
) -> (Option<Client>, Vec<DoctorFinding>) {
    match connect::running(None) {
        Ok(client) => match client.servers().await {
            Ok(_) => {
                let daemon_file = state.and_then(|state| state.daemon().ok().flatten());
                let message = daemon_file.map_or_else(
                    || "a daemon answers".to_owned(),
                    |daemon| format!("a daemon runs: {}, pid {}", daemon.client_url(), daemon.pid),
                );
                let mut findings = vec![DoctorFinding::ok("daemon.running", message)];
                findings.extend(other_family_of_running(&client).await);
                (Some(client), findings)
            }
            Err(error) => (None, vec![silent(state, &error)]),
        },
        Err(CommandError::Client(ClientError::NotRunning { .. })) => {
            let mut findings = vec![
                DoctorFinding::note("daemon.stopped", "no daemon runs")
                    .consequence("clients cannot use its URL")
                    .mend("mainstay service install"),
            ];
            findings.extend(ports(listen).await);
            (None, findings)
        }
        Err(CommandError::State(StateError::Untrusted { .. })) => (None, Vec::new()),
        Err(error) => (
            None,
            vec![
                DoctorFinding::error("daemon.not_believed", with_causes(&error))
                    .consequence("the token is sent to no program that may not be the daemon")
                    .mend(forget(state)),
            ],
        ),
    }
}

/// A command that makes clients forget the address of a daemon.
fn forget(state: Option<&StateDir>) -> String {
    match state {
        Some(state) => format!(
            "rm {}  # once the daemon has stopped",
            quoted(&state.path().join("daemon.json"))
        ),
        None => "unset MAINSTAY_URL MAINSTAY_TOKEN".to_owned(),
    }
}

fn silent(state: Option<&StateDir>, error: &ClientError) -> DoctorFinding {
    let daemon_file = state.and_then(|state| state.daemon().ok().flatten());
    let finding = DoctorFinding::error("daemon.silent", with_causes(error))
        .consequence("it runs, and commands and clients do not reach it");
    match daemon_file {
        Some(daemon) => finding.mend(format!("kill {} && mainstay serve", daemon.pid)),
        None => finding.mend("unset MAINSTAY_URL MAINSTAY_TOKEN"),
    }
}

/// Findings about the addresses that a daemon would use, and about another program at the other
/// loopback family.
async fn ports(listen: ListenAddress) -> Vec<DoctorFinding> {
    let addresses = listen.addresses();
    let Some(first) = addresses.first().copied() else {
        return Vec::new();
    };
    match TcpListener::bind(first) {
        Err(error) => vec![port(listen, first, &error).await],
        Ok(_) => other_family(first).into_iter().collect(),
    }
}

/// A finding with the reason why the daemon cannot listen on the first of these addresses.
async fn port(listen: ListenAddress, first: SocketAddr, error: &io::Error) -> DoctorFinding {
    let other = listen.at_port(listen.port().wrapping_add(1).max(1024));
    let mend = format!("mainstay serve --listen {other}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return DoctorFinding::error(
            "port.unusable",
            format!("cannot listen on {listen}: {error}"),
        )
        .consequence("the daemon cannot start")
        .mend(mend);
    }
    // Find the process before the request, because its program may accept only one connection.
    let holder = off_the_runtime(move || PortHolder::find(first)).await;
    if is_mainstay(first).await {
        DoctorFinding::error(
            "port.other_mainstay",
            format!("another Mainstay, with another state directory, listens on {first}"),
        )
        .consequence(
            "clients that use that address get its servers, and the daemon cannot start there",
        )
        .mend(format!("{mend}  # or stop the other one"))
    } else {
        let (holder_words, mend) = match holder {
            Some(PortHolder { pid, program }) => (
                format!("{program}, pid {pid},"),
                format!("kill {pid}  # ends {program}; or {mend}, and that URL in the clients"),
            ),
            None => (
                "another program".to_owned(),
                format!("{mend}  # and that URL in the clients"),
            ),
        };
        DoctorFinding::error("port.taken", format!("{holder_words} listens on {first}"))
            .consequence("the daemon cannot start there")
            .mend(mend)
    }
}

/// A finding about another program at the same port of the other IP family. `localhost` may lead to
/// that program.
fn other_family(ours: SocketAddr) -> Option<DoctorFinding> {
    let other_address = loopback::taken_beside(ours)?;
    let free = ListenAddress::Localhost(ours.port().wrapping_add(1).max(1024));
    Some(
        DoctorFinding::warning("port.other_family", loopback::taken_words(other_address))
            .consequence(
                "a client's programming language decides which of the two addresses localhost is",
            )
            .mend(format!(
                "mainstay serve --listen {free}  # or write {ours} into the clients' URLs"
            )),
    )
}

/// A finding about another program at the daemon's port on the loopback address of the other IP
/// family.
async fn other_family_of_running(client: &Client) -> Option<DoctorFinding> {
    // The daemon of an older version does not report its addresses.
    let about = client.about().await.ok()?;
    match about.listen.as_slice() {
        [only] => other_family(only.parse().ok()?),
        _ => None,
    }
}

/// True if Mainstay listens at this address. The listener must answer a request for the list of
/// servers, either with the list or with 401.
async fn is_mainstay(listen: SocketAddr) -> bool {
    let Ok(client) = Client::new(&format!("http://{listen}"), None) else {
        return false;
    };
    match client.servers().await {
        Ok(_) | Err(ClientError::Unauthorized { .. }) => true,
        Err(_) => false,
    }
}
