//! A server's log: its last lines, and new lines as server-sent events.

use std::{
    fmt::Write as _,
    io,
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderValue};
use mainstay_api::{self as api, LogEvent};
use mainstay_platform::blocking::try_off_the_runtime;
use mainstay_transport::logs::{Batch, Followed, MAX_TAIL};
use serde::Deserialize;
use tokio::{sync::broadcast::error::RecvError, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    RestDoor,
    address::{Path, Query},
    event_stream,
    refusal::Refusal,
    via::RequestView,
};
use mainstay_doorway::json_views;

/// Number of lines if the request has no `tail`.
const DEFAULT_TAIL: usize = 50;

/// Interval of keep-alive comments. Proxies close a stream that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: &str = "last-event-id";

/// The parameters `?tail=N&follow=true`.
#[derive(Debug, Deserialize)]
pub struct LogsQuery {
    tail: Option<u32>,
    #[serde(default)]
    follow: bool,
}

pub async fn logs(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(query): Query<LogsQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let log = Arc::clone(&door.gateway.server(&client_view, &name)?.log);
    let tail = query
        .tail
        .map_or(DEFAULT_TAIL, |tail| MAX_TAIL.min(tail as usize));
    let after = headers
        .get(LAST_EVENT_ID)
        .filter(|_| query.follow)
        .and_then(number);
    let followed = try_off_the_runtime(move || match after {
        Some(after) => log.after(after),
        None => log.last(tail),
    });
    let followed = followed
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(Refusal::Unreadable)?;
    if !query.follow {
        let lines = json_views::logs::lines(followed.lines);
        return Ok(Json(api::Logs { lines }).into_response());
    }
    Ok(event_stream::response(events(followed, door.stop)))
}

/// Marks the event ids of this run. Each run numbers its lines from the start.
static RUN: LazyLock<u128> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
});

/// The line number in an event id; `None` for an id of another run.
fn number(id: &HeaderValue) -> Option<u64> {
    let (run, number) = id.to_str().ok()?.split_once('-')?;
    (run == RUN.to_string()).then(|| number.parse().ok())?
}

/// Sends the existing lines, then new lines, until the daemon stops.
fn events(followed: Followed, stop: CancellationToken) -> impl Stream<Item = String> {
    let Followed {
        lines,
        is_all: complete,
        last,
        batches,
    } = followed;
    let first = (last + 1).saturating_sub(lines.len() as u64);
    let mut begin = String::from(":\n\n");
    for (number, line) in (first..).zip(lines) {
        event(
            &mut begin,
            number,
            &LogEvent::Line(json_views::logs::line(line)),
        );
    }
    event(
        &mut begin,
        last,
        &LogEvent::TailEnd(api::TailEnd { complete }),
    );
    stream::unfold(
        (Some(begin), last, batches, stop),
        |(begin, last, mut batches, stop)| async move {
            if let Some(begin) = begin {
                return Some((begin, (None, last, batches, stop)));
            }
            let (text, last) = tokio::select! {
                () = stop.cancelled() => return None,
                () = sleep(KEEP_ALIVE) => (":\n\n".to_owned(), last),
                batch = batches.recv() => match batch {
                    Ok(batch) => (batch_events(&batch, last), batch.last),
                    // The next batch tells how many lines were missed.
                    Err(RecvError::Lagged(_)) => (":\n\n".to_owned(), last),
                    Err(RecvError::Closed) => return None,
                },
            };
            Some((text, (None, last, batches, stop)))
        },
    )
}

fn batch_events(batch: &Batch, last: u64) -> String {
    let mut text = String::new();
    let missed = batch.first().saturating_sub(last + 1);
    if missed > 0 {
        event(
            &mut text,
            batch.first() - 1,
            &LogEvent::Missed(api::Missed { lines: missed }),
        );
    }
    for (number, line) in batch.lines() {
        event(
            &mut text,
            number,
            &LogEvent::Line(json_views::logs::line(line)),
        );
    }
    text
}

fn event(text: &mut String, number: u64, event: &LogEvent) {
    let (name, data) = match event {
        LogEvent::Line(line) => (LogEvent::LINE, serde_json::to_string(line)),
        LogEvent::TailEnd(end) => (LogEvent::TAIL_END, serde_json::to_string(end)),
        LogEvent::Missed(missed) => (LogEvent::MISSED, serde_json::to_string(missed)),
    };
    // Texts and numbers always serialize.
    let data = data.unwrap_or_default();
    // A write to a `String` always succeeds.
    let _ = write!(
        text,
        "id: {}-{number}\nevent: {name}\ndata: {data}\n\n",
        *RUN
    );
}
