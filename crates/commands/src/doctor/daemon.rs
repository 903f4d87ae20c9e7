//! The daemon: whether one runs, and whether another Mainstay is in its way.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use mainstay_api::{Client, ClientError};
use mainstay_command_line::{CommandError, connect};
use mainstay_platform::state::{StateDir, StateError};

use super::finding::{Finding, quoted};

/// The daemon that can be asked, and what is found about it.
pub async fn find(state: Option<&StateDir>, listen: SocketAddr) -> (Option<Client>, Vec<Finding>) {
    match connect::running(None) {
        Ok(client) => match client.servers().await {
            Ok(_) => {
                let told = state.and_then(|state| state.daemon().ok().flatten());
                let what = told.map_or_else(
                    || "a daemon answers".to_owned(),
                    |daemon| format!("a daemon runs: {}, pid {}", daemon.url, daemon.pid),
                );
                (Some(client), vec![Finding::ok("daemon.running", what)])
            }
            Err(error) => (None, vec![silent(state, &error)]),
        },
        Err(CommandError::Client(ClientError::NotRunning { .. })) => {
            let mut findings = vec![
                Finding::note("daemon.stopped", "no daemon runs")
                    .why("clients cannot use its URL")
                    .mend("mainstay service install"),
            ];
            findings.extend(port(listen).await);
            (None, findings)
        }
        Err(CommandError::State(StateError::Untrusted { .. })) => (None, Vec::new()),
        Err(error) => (
            None,
            vec![
                Finding::error("daemon.not_believed", super::sentence(&error))
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
    let finding = Finding::error("daemon.silent", super::sentence(error))
        .why("it runs, and commands and clients do not reach it");
    match told {
        Some(daemon) => finding.mend(format!("kill {} && mainstay serve", daemon.pid)),
        None => finding.mend("unset MAINSTAY_URL MAINSTAY_TOKEN"),
    }
}

/// Whether the daemon could listen there.
async fn port(listen: SocketAddr) -> Option<Finding> {
    let Err(error) = TcpListener::bind(listen) else {
        return None;
    };
    let other = SocketAddr::new(listen.ip(), listen.port().wrapping_add(1).max(1024));
    let mend = format!("mainstay serve --listen {other}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return Some(
            Finding::error(
                "port.unusable",
                format!("cannot listen on {listen}: {error}"),
            )
            .why("the daemon cannot start")
            .mend(mend),
        );
    }
    Some(if is_mainstay(listen).await {
        Finding::error(
            "port.other_mainstay",
            format!("another Mainstay, with another state directory, listens on {listen}"),
        )
        .why("clients that use that address get its servers, and the daemon cannot start there")
        .mend(format!("{mend}  # or stop the other one"))
    } else {
        Finding::error("port.taken", format!("another program listens on {listen}"))
            .why("the daemon cannot start there")
            .mend(mend)
    })
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
