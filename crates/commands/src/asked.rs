//! Asks servers with a plain URL once before they are taken from their client. Many sign their client in
//! (OAuth) when they have refused its first request, and Mainstay cannot sign in.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use mainstay_client_files::{self as client_files, Client, FoundClient, FoundServer};
use mainstay_config::{References, edit::Entry};
use mainstay_core::ids::ServerName;
use mainstay_gateway::trial::{Trial, Tried};
use mainstay_platform::{environment::entry_alone, lineage::Lineage};
use serde_json::Value;
use tokio::time::timeout;

/// The longest wait for an answer. All servers are asked at the same time.
const LIMIT: Duration = Duration::from_secs(5);

/// Servers beyond these are not asked, and taken as they are.
const MAX_ASKED: usize = 64;

/// The URLs that refuse a request without credentials, each with what was answered.
pub type Refusals = BTreeMap<String, String>;

/// Asks the servers of these clients.
pub async fn refusals(found: &[FoundClient], is_chosen: impl Fn(Client) -> bool) -> Refusals {
    let chosen = found.iter().filter(|found| is_chosen(found.client));
    let files = chosen.flat_map(|found| &found.files);
    let read = files.filter_map(|it| client_files::servers(&it.file, it.text.as_ref().ok()?).ok());
    let servers: Vec<FoundServer> = read.flatten().filter(FoundServer::is_movable).collect();
    refusals_of(servers.iter().map(|server| &server.entry)).await
}

/// Asks the servers of these entries.
pub async fn refusals_of(entries: impl Iterator<Item = &Entry>) -> Refusals {
    let plain = entries.filter_map(|entry| Some((plain_url(entry)?, entry)));
    let plain: BTreeMap<&str, &Entry> = plain.collect();
    let asked = plain.into_iter().take(MAX_ASKED).map(async |(url, entry)| {
        let refusal = refusal(entry).await?;
        Some((url.to_owned(), refusal))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The URL of a server that is reached without credentials and without values from elsewhere: before a
/// person has agreed, no variable and no file is read and sent.
pub fn plain_url(entry: &Entry) -> Option<&str> {
    let brings = ["command", "headers", "bearerToken"];
    let url = entry.get("url").and_then(Value::as_str)?;
    let is_off = entry.get("enabled") == Some(&Value::Bool(false));
    let is_plain =
        !is_off && !url.contains('$') && brings.iter().all(|key| !entry.contains_key(*key));
    is_plain.then_some(url)
}

/// The reason for which the server refuses a client without credentials, if it does.
async fn refusal(entry: &Entry) -> Option<String> {
    let name = ServerName::new("asked").ok()?;
    let server = entry_alone(&name, entry, References::Replaced).ok()?.config;
    if server.problems().next().is_some() {
        return None;
    }
    let trial = Trial::begin(server, Lineage::begin(None).ok()?);
    // A server that is silent refuses nobody.
    timeout(LIMIT, trial.settled()).await.ok();
    let is_refused = trial.server().view().status.unauthorized;
    let outcome = trial.outcome();
    trial.end().await;
    match outcome {
        Tried::Down { reason } if is_refused => Some(reason),
        Tried::Down { .. } | Tried::Up { .. } => None,
    }
}
