//! Sends a request to servers with a plain URL before they move from their client. If a server refuses the
//! request, only its client may know how to sign in.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use mainstay_client_files::{self as client_files, ClientKind, FoundClient, FoundServer};
use mainstay_config::{References, edit::Entry};
use mainstay_core::ids::ServerName;
use mainstay_gateway::trial::{Trial, Tried};
use mainstay_platform::{environment::entry_alone, lineage::Lineage};
use mainstay_transport::asks_for_login;
use serde_json::Value;
use tokio::time::timeout;

/// The time limit of an answer. All servers are probed at the same time.
const LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of servers that are probed. Further servers are moved without a probe.
const MAX_SERVERS: usize = 64;

/// The refusal of a request without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeRefusal {
    /// A person can log in to the server.
    NeedsLogin,
    /// The reason of another refusal.
    Refused(String),
}

/// The URLs that refuse a request without credentials.
pub type Refusals = BTreeMap<String, ProbeRefusal>;

/// Probes the servers of the chosen clients.
pub async fn refusals(found: &[FoundClient], is_chosen: impl Fn(ClientKind) -> bool) -> Refusals {
    let chosen = found.iter().filter(|found| is_chosen(found.client));
    let files = chosen.flat_map(|found| &found.files);
    let read =
        files.filter_map(|file| client_files::servers(&file.file, file.text.as_ref().ok()?).ok());
    let servers: Vec<FoundServer> = read.flatten().filter(FoundServer::is_movable).collect();
    refusals_of(servers.iter().map(|server| &server.entry)).await
}

/// Probes the servers of these entries.
pub async fn refusals_of(entries: impl Iterator<Item = &Entry>) -> Refusals {
    let plain = entries.filter_map(|entry| Some((plain_url(entry)?, entry)));
    let plain: BTreeMap<&str, &Entry> = plain.collect();
    let answers = plain
        .into_iter()
        .take(MAX_SERVERS)
        .map(async |(url, entry)| {
            let refusal = refusal(entry).await?;
            Some((url.to_owned(), refusal))
        });
    join_all(answers).await.into_iter().flatten().collect()
}

/// The URL of a server, if its entry has no credentials and no references. Before a person has agreed,
/// Mainstay must not read a variable or a file and send its value.
pub fn plain_url(entry: &Entry) -> Option<&str> {
    let keys_of_others = ["command", "headers", "bearerToken"];
    let url = entry.get("url").and_then(Value::as_str)?;
    let is_off = entry.get("enabled") == Some(&Value::Bool(false));
    let is_plain =
        !is_off && !url.contains('$') && keys_of_others.iter().all(|key| !entry.contains_key(*key));
    is_plain.then_some(url)
}

/// The server's refusal of a client without credentials, or `None` if it does not refuse.
async fn refusal(entry: &Entry) -> Option<ProbeRefusal> {
    let name = ServerName::new("asked").ok()?;
    let server = entry_alone(&name, entry, References::Replaced).ok()?.config;
    if server.problems().next().is_some() {
        return None;
    }
    let trial = Trial::begin(server, Lineage::begin(None).ok()?);
    // A server that does not answer in time counts as one that does not refuse.
    timeout(LIMIT, trial.settled()).await.ok();
    let is_refused = trial.server().view().status.unauthorized;
    let outcome = trial.outcome();
    trial.end().await;
    match outcome {
        Tried::Down { reason } if asks_for_login(&reason) => Some(ProbeRefusal::NeedsLogin),
        Tried::Down { reason } if is_refused => Some(ProbeRefusal::Refused(reason)),
        Tried::Down { .. } | Tried::Up { .. } => None,
    }
}
