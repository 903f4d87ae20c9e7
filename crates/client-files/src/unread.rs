//! A configuration that is the file of a client: the rules of the client that the daemon does not read in it.

use std::path::Path;

use mainstay_core::config::ConfigError;
use mainstay_platform::{environment::Loaded, files};
use serde_json::Value;

use crate::{
    choices::with_choices,
    client::Client,
    document,
    machine::Machine,
    places::ClientFile,
    read::{FoundServer, restrict, unrestricted},
};

/// Adds a warning for each server that its client restricts by rules beside the entries, where the daemon has the
/// server without them. Reads the client's files.
pub fn warn_of_unread_rules(loaded: &mut Loaded, machine: &Machine) {
    let path = loaded.path.as_deref();
    let servers = path.and_then(|path| with_and_without_rules(path, machine));
    let mut warnings = Vec::new();
    for (plain, restricted) in servers.into_iter().flatten() {
        let mut known = loaded.config.servers.iter();
        let known = known.find(|server| server.name == restricted.name);
        if !known.is_some_and(|server| server.enabled) {
            continue;
        }
        let new = restricted.notes[plain.notes.len()..].iter();
        let mut keys: Vec<&str> = new
            .filter(|note| note.fate.is_told())
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

/// The servers of a client's file, each as its entry has it and as the client's rules restrict it. Other files than
/// those of a known client have no rules that the daemon does not read.
fn with_and_without_rules(
    path: &Path,
    machine: &Machine,
) -> Option<Vec<(FoundServer, FoundServer)>> {
    let path = std::path::absolute(path).ok()?;
    let text = files::configuration(&path).ok()?;
    let file = ClientFile::recognize(&path, &text, machine)?;
    if file.client == Client::Unknown {
        return None;
    }
    let file = with_choices(file, machine);
    let whole: Value = document::value(file.format, &text).ok()?;
    let plain = unrestricted(&file, &whole, &text).ok()?;
    let mut restricted = plain.clone();
    restrict(&file, &whole, &mut restricted);
    Some(plain.into_iter().zip(restricted).collect())
}
