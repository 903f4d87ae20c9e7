//! Moves plain secrets of entries into the vault. The entry then contains `${keyring:SERVER-KEY}`
//! instead.

use std::{collections::BTreeSet, sync::Arc};

use clap::ValueEnum;
use mainstay_command_line::CommandError;
use mainstay_config::{Environment as _, edit::Entry, is_secret_name, masking};
use mainstay_core::{config::Secret, ids::ServerName};
use mainstay_platform::{
    blocking::off_the_runtime,
    environment::Process,
    state::StateDir,
    vault::{self, EntryKind, MAX_SECRET, Vault},
};
use serde_json::Value;

use crate::person::Person;

/// The place of secrets that stand in clear in the files of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SecretsPlace {
    /// In the configuration, as they are
    Keep,
    /// In the vault, encrypted; the configuration names them
    Store,
}

/// A secret that moves into the vault.
#[derive(Clone, Debug)]
pub struct MovedSecret {
    pub name: String,
    value: Secret,
}

/// The authentication schemes at the beginning of a header's value. They are not secret.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Replaces the plain secrets of an entry by references with new names. Adds the names to `used`.
pub fn moved(
    server: &ServerName,
    entry: &Entry,
    used: &mut BTreeSet<String>,
) -> (Entry, Vec<MovedSecret>) {
    let mut entry = entry.clone();
    let mut secrets = Vec::new();
    let mut replace = |key: &str, value: &mut Value| {
        let Some(text) = value.as_str() else { return };
        // Skip a text with references, because it is not a plain secret.
        let is_whole = !text.contains("${") && text.len() <= MAX_SECRET;
        if !is_whole || text.trim().is_empty() || !masking::is_secret_pair(key, text) {
            return;
        }
        let scheme = SCHEMES.iter().find(|scheme| text.starts_with(**scheme));
        let scheme = scheme.copied().unwrap_or_default();
        let secret = Secret::new(&text[scheme.len()..]);
        let name = free_name(&format!("{server}-{key}"), &secret, used);
        *value = format!("{scheme}${{keyring:{name}}}").into();
        secrets.push(MovedSecret {
            name,
            value: secret,
        });
    };
    for object in ["env", "headers"] {
        if let Some(Value::Object(members)) = entry.get_mut(object) {
            members
                .iter_mut()
                .for_each(|(key, value)| replace(key, value));
        }
    }
    if let Some(value) = entry.get_mut("bearerToken") {
        replace("bearerToken", value);
    }
    for object in ["oauth", "auth"] {
        if let Some(Value::Object(members)) = entry.get_mut(object) {
            members
                .iter_mut()
                .filter(|(key, _)| masking::SECRET_TEXTS.contains(&key.as_str()))
                .for_each(|(key, value)| replace(key, value));
        }
    }
    if let Some(value) = entry.get_mut("proxy")
        && let Some((before, password, after)) = value.as_str().and_then(proxy_password)
    {
        let (before, after) = (before.to_owned(), after.to_owned());
        let mut reference = Value::from(password);
        replace("proxy-password", &mut reference);
        if let Some(reference) = reference.as_str() {
            *value = format!("{before}{reference}{after}").into();
        }
    }
    (entry, secrets)
}

/// The password in the URL of a proxy, with the text before and after it.
fn proxy_password(url: &str) -> Option<(&str, &str, &str)> {
    let (credentials, after) = url.split_at(url.rfind('@')?);
    let start = credentials.find("://").map_or(0, |scheme| scheme + 3);
    let colon = start + credentials[start..].find(':')?;
    let (before, password) = credentials.split_at(colon + 1);
    Some((before, password, after))
}

/// A legal name that no other secret uses. A secret that the vault already holds under the name keeps
/// it.
fn free_name(readable: &str, secret: &Secret, used: &mut BTreeSet<String>) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let legal = |c: char| if is_legal(c) { c } else { '-' };
    let base: String = readable.chars().map(legal).take(120).collect();
    let base = base.trim_start_matches(['-', '.']);
    let names = (1..).map(|number| match number {
        1 => base.to_owned(),
        _ => format!("{base}-{number}"),
    });
    let mut free = names.filter(|name| {
        is_secret_name(name)
            && (!used.contains(name) || Process.secret(name).as_ref() == Ok(secret))
    });
    let name = free.next().unwrap_or_default();
    used.insert(name.clone());
    name
}

/// Replaces references to secrets by their values, so that the entries can be compared with those
/// of clients.
pub fn with_values(entries: Vec<(ServerName, Entry)>) -> Vec<(ServerName, Entry)> {
    let resolved = entries.into_iter().map(|(name, mut entry)| {
        entry.values_mut().for_each(resolve);
        (name, entry)
    });
    resolved.collect()
}

fn resolve(value: &mut Value) {
    match value {
        Value::String(text) => {
            let Some((before, rest)) = text.split_once("${keyring:") else {
                return;
            };
            let Some((name, after)) = rest.split_once('}') else {
                return;
            };
            if is_secret_name(name)
                && let Ok(secret) = Process.secret(name)
            {
                *text = format!("{before}{}{after}", secret.expose());
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(resolve),
        Value::Object(members) => members.values_mut().for_each(resolve),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The vault that gets the secrets.
#[derive(Debug)]
pub struct SecretsTarget(Arc<Vault>);

impl SecretsTarget {
    pub fn open() -> Result<Self, CommandError> {
        Ok(Self(vault::shared(&StateDir::locate(&Process)?)))
    }

    /// The names of secrets in the vault.
    pub fn names(&self) -> Result<BTreeSet<String>, CommandError> {
        Ok(self.0.names(EntryKind::Secrets)?.into_iter().collect())
    }

    /// Stores the secrets. Returns the names of those that are new, for [`SecretsTarget::remove`].
    pub async fn store(&self, secrets: &[MovedSecret]) -> Result<Vec<String>, CommandError> {
        let before = self.names()?;
        let (vault, secrets) = (Arc::clone(&self.0), secrets.to_vec());
        off_the_runtime(move || {
            for MovedSecret { name, value } in &secrets {
                vault.write(EntryKind::Secrets, name, value.expose().as_bytes())?;
            }
            let names = secrets.into_iter().map(|secret| secret.name);
            Ok(names.filter(|name| !before.contains(name)).collect())
        })
        .await
    }

    /// Removes secrets again after the change that would refer to them has failed.
    pub fn remove(&self, names: &[String]) {
        for name in names {
            // Ignore this error. The error that prevented the change is reported.
            self.0.remove(EntryKind::Secrets, name).ok();
        }
    }
}

/// The place that the command line or the person chooses. The default is to leave the secrets where they
/// are.
pub async fn choice(
    stated: Option<SecretsPlace>,
    secrets: &[MovedSecret],
    may_ask: bool,
) -> Result<SecretsPlace, CommandError> {
    if let Some(place) = stated {
        return Ok(place);
    }
    let mut person = Person::new()?;
    if secrets.is_empty() || !may_ask || !person.is_there() {
        return Ok(SecretsPlace::Keep);
    }
    let answer = person.ask(&question(secrets)).await?.unwrap_or_default();
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    Ok(if is_yes {
        SecretsPlace::Store
    } else {
        SecretsPlace::Keep
    })
}

/// The text of the question that offers to store these secrets in the vault.
pub fn question(secrets: &[MovedSecret]) -> String {
    format!(
        "keep {} encrypted in the vault, and not in the configuration? [y/n]",
        names(secrets)
    )
}

/// The names of the secrets, for people.
pub fn names(secrets: &[MovedSecret]) -> String {
    let names: Vec<&str> = secrets.iter().map(|secret| secret.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_secrets_become_references_and_the_rest_stays() {
        let entry = json!({
            "command": "x",
            "args": ["--token", "in-args"],
            "env": {"API_KEY": "s3cret-one", "REGION": "eu", "TOKEN": "${TOKEN}", "PASSWORD": "", "MY.TOKEN": "s3cret-two"},
            "headers": {"Authorization": "Bearer s3cret-three", "x-team": "a"},
            "bearerToken": "s3cret-four",
            "oauth": {"clientId": "me", "clientSecret": "s3cret-five", "scopes": ["a"]},
            "proxy": "http://me:s3cret-six@proxy:8080",
        });
        let Value::Object(entry) = entry else {
            panic!("no entry")
        };
        let server = ServerName::new("x").expect("a legal name");
        let mut used = BTreeSet::new();
        let (entry, secrets) = moved(&server, &entry, &mut used);
        let expected = json!({
            "command": "x",
            "args": ["--token", "in-args"],
            "env": {"API_KEY": "${keyring:x-API_KEY}", "REGION": "eu", "TOKEN": "${TOKEN}", "PASSWORD": "", "MY.TOKEN": "${keyring:x-MY.TOKEN}"},
            "headers": {"Authorization": "Bearer ${keyring:x-Authorization}", "x-team": "a"},
            "bearerToken": "${keyring:x-bearerToken}",
            "oauth": {"clientId": "me", "clientSecret": "${keyring:x-clientSecret}", "scopes": ["a"]},
            "proxy": "http://me:${keyring:x-proxy-password}@proxy:8080",
        });
        assert_eq!(Value::Object(entry), expected);
        assert_eq!(
            names(&secrets),
            "x-API_KEY, x-MY.TOKEN, x-Authorization, x-bearerToken, x-clientSecret, x-proxy-password"
        );
        assert_eq!(secrets[2].value.expose(), "s3cret-three");
        assert!(!format!("{secrets:?}").contains("s3cret"));
    }
}
