//! Takes one server from the files of another MCP client.

use mainstay_client_files::{ClientKind, FoundServer, find, servers};
use mainstay_command_line::{CommandError, screen::complain, suggest};
use mainstay_core::display::word;

use super::{super::import, prepared::Prepared, preview::LaunchPreview};

/// Finds the server of this client with this name in the client's file.
pub fn prepare(client: ClientKind, label: &str) -> Result<Prepared, CommandError> {
    let machine = import::this_machine().ok_or_else(|| CommandError::Usage {
        message: "the home folder is unknown, where clients keep their files".to_owned(),
        hint: Some("set HOME".to_owned()),
    })?;
    let mut servers_of_client = Vec::new();
    let found = find(&machine)
        .into_iter()
        .filter(|found| found.client == client);
    for file in found.flat_map(|found| found.files) {
        let path = file.file.path.display();
        let read = match &file.text {
            Ok(text) => servers(&file.file, text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(servers) => servers_of_client.extend(servers),
            Err(error) => complain(&format!("warning: {path} is left out: {error}")),
        }
    }
    let chosen = servers_of_client
        .iter()
        .filter(|server| server.label == label || server.name.as_str() == label)
        // Prefer a server for all projects.
        .min_by_key(|server| server.project().is_some());
    let server = chosen.ok_or_else(|| absent(client, label, &servers_of_client))?;
    if let Some(reason) = &server.left_out {
        return Err(CommandError::Unusable {
            server: label.to_owned(),
            reasons: vec![reason.to_string()],
            hint: None,
        });
    }
    for note in server.reports() {
        complain(&format!("warning: {}: {}", note.key, note.text));
    }
    let from = format!("from {} ({})", client.name(), server.file.display());
    Ok(Prepared {
        name: server.name.to_string(),
        preview: LaunchPreview::from_entry(&server.entry).with_line(from),
        entry: server.entry.clone(),
        unpacked: None,
        in_clear: Vec::new(),
    })
}

fn absent(client: ClientKind, label: &str, servers: &[FoundServer]) -> CommandError {
    let labels: Vec<_> = servers.iter().map(|server| server.label.as_str()).collect();
    CommandError::NotFound {
        subject: format!("server {label} of {}", client.name()),
        hint: match suggest::nearest(label, labels.iter().copied()) {
            Some(near) => format!("did you mean {}?", word(near)),
            None if labels.is_empty() => format!("no file of {} has servers", client.name()),
            None => {
                let labels: Vec<_> = labels.iter().map(|label| word(label)).collect();
                format!("it has {}", labels.join(", "))
            }
        },
    }
}
