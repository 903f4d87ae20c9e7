//! Clients that still start servers of their own.

use std::env;

use mainstay_client_files as client_files;
use mainstay_command_line::output;

use super::super::import;
use super::finding::{Finding, quoted};

pub fn check() -> Vec<Finding> {
    let Some(machine) = import::this_machine() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let here = machine.clone().with_project(env::current_dir().ok());
    for found in client_files::find_in_project(&here) {
        let (client, path) = (found.file.client, found.file.path.display());
        let what = format!(
            "{client} starts servers of the project here: {} ({path})",
            found.labels.join(", ")
        );
        findings.push(
            Finding::note("client.project_servers", what)
                .why("nobody restarts them, and other clients start them again")
                .mend(format!("mainstay setup --project --client {}", client.id())),
        );
    }
    for found in client_files::find(&machine) {
        let mut own = Vec::new();
        for it in &found.files {
            let path = it.file.path.display();
            let read = match &it.text {
                Ok(text) => {
                    client_files::servers(&it.file, text).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(servers) => {
                    let servers = servers
                        .into_iter()
                        .filter(client_files::FoundServer::is_movable);
                    own.extend(servers.map(|server| server.label));
                }
                Err(error) => findings.push(
                    Finding::note(
                        "client.unreadable",
                        format!("{path} of {} cannot be read: {error}", found.client),
                    )
                    .why("its servers can neither be taken over nor be told")
                    .mend(format!("\"${{EDITOR:-vi}}\" {}", quoted(&it.file.path))),
                ),
            }
        }
        if !own.is_empty() {
            let count = output::count(own.len(), "server");
            let what = format!(
                "{} starts {count} of its own: {}",
                found.client,
                own.join(", ")
            );
            findings.push(
                Finding::note("client.own_servers", what)
                    .why("nobody restarts them, and other clients start them again")
                    .mend(format!("mainstay setup --client {}", found.client.id())),
            );
        }
    }
    findings
}
