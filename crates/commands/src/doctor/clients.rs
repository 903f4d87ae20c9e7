//! Finds clients that still start servers themselves.

use std::env;

use mainstay_client_files as client_files;
use mainstay_command_line::output;

use super::super::import;
use super::finding::{DoctorFinding, quoted};

pub fn check() -> Vec<DoctorFinding> {
    let Some(machine) = import::this_machine() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let here = machine.clone().with_project(env::current_dir().ok());
    for found in client_files::find_in_project(&here) {
        let (client, path) = (found.file.client, found.file.path.display());
        let message = format!(
            "{client} starts servers of the project here: {} ({path})",
            found.labels.join(", ")
        );
        findings.push(
            DoctorFinding::note("client.project_servers", message)
                .consequence("nobody restarts them, and other clients start them again")
                .mend(format!("mainstay setup --project --client {}", client.id())),
        );
    }
    for found in client_files::find(&machine) {
        let mut movable = Vec::new();
        for file in &found.files {
            let path = file.file.path.display();
            let read = match &file.text {
                Ok(text) => {
                    client_files::servers(&file.file, text).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(servers) => {
                    movable.extend(
                        servers
                            .into_iter()
                            .filter(client_files::FoundServer::is_movable)
                            .map(|server| server.label),
                    );
                }
                Err(error) => findings.push(
                    DoctorFinding::note(
                        "client.unreadable",
                        format!("{path} of {} cannot be read: {error}", found.client),
                    )
                    .consequence("its servers can neither be taken over nor be told")
                    .mend(format!("\"${{EDITOR:-vi}}\" {}", quoted(&file.file.path))),
                ),
            }
        }
        if !movable.is_empty() {
            let count = output::count(movable.len(), "server");
            let message = format!(
                "{} starts {count} of its own: {}",
                found.client,
                movable.join(", ")
            );
            findings.push(
                DoctorFinding::note("client.own_servers", message)
                    .consequence("nobody restarts them, and other clients start them again")
                    .mend(format!("mainstay setup --client {}", found.client.id())),
            );
        }
    }
    findings
}
