//! Events of servers, as a stream of server-sent events or as a list.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{Extension, Json, extract::State, response::Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue};
use mainstay_api as api;
use mainstay_core::{
    event::{EventId, ServerEvent},
    ids::ServerName,
};
use mainstay_gateway::{
    View,
    events::{EventOrGap, Subscription},
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{RestDoor, address::Query, event_stream, refusal::Refusal, servers, via::RequestView};
use mainstay_doorway::json_views::events::wire;

/// Maximum number of open streams. A stream takes little more memory than its connection.
const MAX_STREAMS: usize = 256;

/// Interval of keep-alive comments. Proxies close a stream that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The delay after which a browser reconnects.
const RETRY: &str = "retry: 2000\n\n";

/// The parameters `?after=ID`.
#[derive(Debug, Deserialize)]
pub struct EventsQuery {
    after: Option<String>,
}

impl EventsQuery {
    fn read(text: &str) -> Result<EventId, Refusal> {
        text.parse()
            .map_err(|error| Refusal::Malformed(format!("{text:?}: {error}")))
    }
}

/// The parameters `?after=ID&before=ID&type=WORD,WORD&server=NAME&limit=N`.
#[derive(Debug, Deserialize)]
pub struct RecentQuery {
    after: Option<String>,
    before: Option<String>,
    #[serde(rename = "type")]
    kinds: Option<String>,
    server: Option<String>,
    limit: Option<usize>,
}

pub async fn recent(
    State(door): State<RestDoor>,
    RequestView(view): RequestView,
    Query(query): Query<RecentQuery>,
) -> Result<Json<api::Events>, Refusal> {
    let event_log = door.gateway.registry.events();
    let read = |place: Option<&str>| place.map(EventsQuery::read).transpose();
    let before = read(query.before.as_deref())?;
    let mut subscription = match read(query.after.as_deref())? {
        Some(after) => event_log.subscribe(Some(after)),
        None => event_log.remembered(),
    };
    let kinds: Option<Vec<&str>> = query
        .kinds
        .as_deref()
        .map(|kinds| kinds.split(',').collect());
    let limit = query.limit.unwrap_or(usize::MAX);
    let fits = |event: &ServerEvent| {
        let server = event.server.as_ref().map(ServerName::as_str);
        before.is_none_or(|before| event.id < before)
            && query
                .server
                .as_deref()
                .is_none_or(|name| server == Some(name))
    };
    let (mut found, mut missed) = (Vec::new(), false);
    while let Some(entry) = subscription.now() {
        match entry {
            EventOrGap::Event(event) if fits(&event) => found.extend(view.visible_event(&event)),
            EventOrGap::Event(_) => {}
            EventOrGap::Gap(_) => missed = true,
        }
    }
    // Convert only the newest events to JSON. One event beyond the limit shows whether events are
    // left out.
    let has_requested_kind = |event: &api::Event| {
        let kinds = kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.contains(&event.kind.as_str()))
    };
    let fitting = found.iter().rev().map(wire).filter(has_requested_kind);
    let mut events: Vec<_> = fitting.take(limit.saturating_add(1)).collect();
    let truncated = events.len() > limit;
    events.truncate(limit);
    events.reverse();
    Ok(Json(api::Events {
        events,
        missed,
        truncated,
        last: subscription.position().to_string(),
    }))
}

/// Permits for open streams, shared by all requests.
#[derive(Clone, Debug)]
pub struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_STREAMS)))
    }
}

pub async fn stream(
    State(door): State<RestDoor>,
    Extension(Streams(permits)): Extension<Streams>,
    RequestView(view): RequestView,
    Query(place): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    // A browser that reconnects sends the id of its last event in this header. It is newer than the
    // id in the URL.
    let last = headers.get("last-event-id").map(HeaderValue::to_str);
    let after = match last {
        Some(Ok(last)) => Some(EventsQuery::read(last)?),
        Some(Err(error)) => return Err(Refusal::Malformed(error.to_string())),
        None => place.after.as_deref().map(EventsQuery::read).transpose()?,
    };
    let permit = permits
        .try_acquire_owned()
        .map_err(|_| Refusal::TooManyStreams(MAX_STREAMS))?;
    let mut open_stream = OpenEventStream {
        subscription: door.gateway.registry.events().subscribe(after),
        door,
        view,
        due: VecDeque::from([RETRY.to_owned()]),
        _permit: permit,
    };
    if after.is_none() {
        open_stream.push_snapshot();
    }
    let texts = stream::unfold(open_stream, |mut open_stream| async move {
        Some((open_stream.next().await?, open_stream))
    });
    Ok(event_stream::response(texts))
}

/// One open stream of events.
struct OpenEventStream {
    subscription: Subscription,
    door: RestDoor,
    view: View,
    /// Texts to send next.
    due: VecDeque<String>,
    _permit: OwnedSemaphorePermit,
}

impl OpenEventStream {
    /// The next text of the stream; `None` when the daemon stops.
    async fn next(&mut self) -> Option<String> {
        if let Some(text) = self.due.pop_front() {
            return Some(text);
        }
        loop {
            let Ok(entry) = timeout(KEEP_ALIVE, self.subscription.next()).await else {
                return Some(": keep-alive\n\n".to_owned());
            };
            match entry? {
                EventOrGap::Event(event) => {
                    if let Some(event) = self.view.visible_event(&event).as_ref().map(wire) {
                        return Some(frame(&event.id, &event.kind, &event));
                    }
                }
                EventOrGap::Gap(place) => {
                    self.push_snapshot();
                    let data = serde_json::json!({"last": place.to_string()});
                    return Some(frame(&place.to_string(), api::MISSED, &data));
                }
            }
        }
    }

    /// Queues the state of all servers. It is at least as new as the subscription's position.
    fn push_snapshot(&mut self) {
        let place = self.subscription.position().to_string();
        let servers = servers::all(&self.door, &self.view);
        self.due.push_back(frame(&place, api::SNAPSHOT, &servers));
    }
}

fn frame(id: &str, kind: &str, data: &impl Serialize) -> String {
    // Maps with text keys always serialize. JSON has no line breaks.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("id: {id}\nevent: {kind}\ndata: {data}\n\n")
}
