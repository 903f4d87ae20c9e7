//! Warns about client rules that the daemon ignores when its configuration is a client's file.

use std::path::Path;

use mainstay_core::config::ConfigError;
use mainstay_platform::{environment::Loaded, files};
use serde_json::Value;

use crate::{
    choices::with_choices,
    client::ClientKind,
    document,
    machine::Machine,
    places::ClientFile,
    read::{FoundServer, restrict, unrestricted},
};

/// Adds a warning for each server that its client restricts by rules outside of the entries, if the server
/// is enabled in the daemon. Reads the client's files.
pub fn warn_of_unread_rules(loaded: &mut Loaded, machine: &Machine) {
    let path = loaded.path.as_deref();
    let servers = path.and_then(|path| with_and_without_rules(path, machine));
    let mut warnings = Vec::new();
    for (plain, restricted) in servers.into_iter().flatten() {
        let mut enabled = loaded.config.servers.iter().filter(|server| server.enabled);
        if !enabled.any(|server| server.name == restricted.name) {
            continue;
        }
        let new = restricted.notes[plain.notes.len()..].iter();
        let mut keys: Vec<&str> = new
            .filter(|note| note.fate.is_reported())
            .map(|note| note.key.as_str())
            .collect();
        keys.dedup();
        if !keys.is_empty() {
            warnings.push(warning(&restricted, &keys));
        }
    }
    loaded.warnings.extend(warnings);
}

fn warning(server: &FoundServer, keys: &[&str]) -> ConfigError {
    let (client, file) = (server.client, server.file.display());
    ConfigError {
        path: format!("{}.{}", server.section.keys.join("."), server.label),
        message: format!(
            "{client} restricts it by `{}`, which does not hold here",
            keys.join("`, `")
        ),
        hint: Some(format!(
            "`mainstay import --from {file}` restricts it here or says what it cannot"
        )),
        position: None,
        awaits_file: false,
    }
}

/// Reads the servers of a client's file twice: from their entries alone, and restricted by the client's
/// rules. Only files of known clients have rules that the daemon ignores.
fn with_and_without_rules(
    path: &Path,
    machine: &Machine,
) -> Option<Vec<(FoundServer, FoundServer)>> {
    let path = std::path::absolute(path).ok()?;
    let text = files::configuration(&path).ok()?;
    let file = ClientFile::recognize(&path, &text, machine)?;
    if file.client == ClientKind::Unknown {
        return None;
    }
    let file = with_choices(file, machine);
    let whole: Value = document::value(file.format, &text).ok()?;
    let plain = unrestricted(&file, &whole, &text).ok()?;
    let mut restricted = plain.clone();
    restrict(&file, &whole, &mut restricted);
    Some(plain.into_iter().zip(restricted).collect())
}
