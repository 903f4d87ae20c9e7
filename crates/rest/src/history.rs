//! `GET /api/history`: the history of servers from the journal.

use std::time::{Duration, SystemTime};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::header;
use mainstay_core::ids::ServerName;
use mainstay_doorway::json_views::{
    history::wire,
    records::{failure, journal},
};
use mainstay_gateway::registry::unknown_server;
use mainstay_journal::{JournalHistory, Period};
use mainstay_platform::blocking::off_the_runtime;
use serde::Deserialize;

use super::{
    RestDoor,
    address::{Path, Query},
    filter::time,
    refusal::Refusal,
    via::RequestView,
};

/// Number of transitions of each server in the answer: the default and the maximum.
const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 1000;

/// The length of the period if the request has no `since`.
const LAST_DAY: Duration = Duration::from_hours(24);

/// The parameters `?since=&until=&limit=`.
#[derive(Debug, Deserialize)]
pub struct HistoryQuery {
    since: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
}

impl HistoryQuery {
    fn period(&self, server: Option<String>) -> Result<Period, Refusal> {
        let until = time("until", self.until.as_deref())?.unwrap_or_else(SystemTime::now);
        let since = time("since", self.since.as_deref())?;
        Ok(Period {
            server,
            since: since.unwrap_or_else(|| until.checked_sub(LAST_DAY).unwrap_or(until)),
            until,
            limit: self.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
        })
    }
}

/// Answers `GET /api/history`.
pub async fn all_servers(
    State(door): State<RestDoor>,
    Query(query): Query<HistoryQuery>,
) -> Result<Response, Refusal> {
    let history = read(&door, query.period(None)?).await?;
    Ok(answer(history).await)
}

/// Answers `GET /api/servers/{name}/history`. A removed server has a history, too.
pub async fn one_server(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(query): Query<HistoryQuery>,
) -> Result<Response, Refusal> {
    let history = read(&door, query.period(Some(name.clone()))?).await?;
    let is_hidden = ServerName::new(&name).is_ok_and(|name| !client_view.has_server(&name));
    let is_unknown = history.servers.is_empty() && door.gateway.registry.server(&name).is_err();
    if is_hidden || is_unknown {
        return Err(unknown_server(&name).into());
    }
    Ok(answer(history).await)
}

async fn read(door: &RestDoor, period: Period) -> Result<JournalHistory, Refusal> {
    let history = journal(&door.gateway.calls)?.history(period).await;
    Ok(history.map_err(failure)?)
}

/// Serializes on a blocking thread, because ten thousand transitions have megabytes of JSON.
async fn answer(history: JournalHistory) -> Response {
    let written = off_the_runtime(move || serde_json::to_vec(&wire(history))).await;
    // Structs of texts and numbers always serialize.
    let json = written.unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
