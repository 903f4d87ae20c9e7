//! Events: as a stream of server-sent events, or on request.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{Extension, Json, extract::State, response::Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue};
use mainstay_api as api;
use mainstay_core::{
    event::{Event, EventId},
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

/// Streams at once. Each holds a connection, and little else.
const MAX_STREAMS: usize = 256;

/// Intermediaries cut off a stream that is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// When a browser that lost the stream asks again.
const RETRY: &str = "retry: 2000\n\n";

/// `?after=ID`
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

/// `?after=ID&before=ID&type=WORD,WORD&server=NAME&limit=N`
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
    Query(wanted): Query<RecentQuery>,
) -> Result<Json<api::Events>, Refusal> {
    let known = door.gateway.registry.events();
    let read = |place: Option<&str>| place.map(EventsQuery::read).transpose();
    let before = read(wanted.before.as_deref())?;
    let mut subscription = match read(wanted.after.as_deref())? {
        Some(after) => known.subscribe(Some(after)),
        None => known.remembered(),
    };
    let kinds: Option<Vec<&str>> = wanted.kinds.as_deref().map(|it| it.split(',').collect());
    let limit = wanted.limit.unwrap_or(usize::MAX);
    let fits = |event: &Event| {
        let server = event.server.as_ref().map(ServerName::as_str);
        before.is_none_or(|before| event.id < before)
            && wanted.server.as_deref().is_none_or(|it| server == Some(it))
    };
    let (mut found, mut missed) = (Vec::new(), false);
    while let Some(heard) = subscription.now() {
        match heard {
            EventOrGap::Event(event) if fits(&event) => found.extend(view.visible_event(&event)),
            EventOrGap::Event(_) => {}
            EventOrGap::Gap(_) => missed = true,
        }
    }
    // The newest, and one more that tells whether any is left out. No others are written as JSON.
    let is_wanted = |event: &api::Event| {
        let kinds = kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.contains(&event.kind.as_str()))
    };
    let fitting = found.iter().rev().map(wire).filter(is_wanted);
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

/// The streams that may still be opened.
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
    // What a browser sends when it asks again is newer than the URL it first asked.
    let last = headers.get("last-event-id").map(HeaderValue::to_str);
    let after = match last {
        Some(Ok(last)) => Some(EventsQuery::read(last)?),
        Some(Err(error)) => return Err(Refusal::Malformed(error.to_string())),
        None => place.after.as_deref().map(EventsQuery::read).transpose()?,
    };
    let permit = permits
        .try_acquire_owned()
        .map_err(|_| Refusal::TooManyStreams(MAX_STREAMS))?;
    let mut telling = Telling {
        subscription: door.gateway.registry.events().subscribe(after),
        door,
        view,
        due: VecDeque::from([RETRY.to_owned()]),
        _permit: permit,
    };
    if after.is_none() {
        telling.show();
    }
    let texts = stream::unfold(telling, |mut telling| async move {
        Some((telling.next().await?, telling))
    });
    Ok(event_stream::response(texts))
}

/// One open stream.
struct Telling {
    subscription: Subscription,
    door: RestDoor,
    view: View,
    /// Written, and not yet sent.
    due: VecDeque<String>,
    _permit: OwnedSemaphorePermit,
}

impl Telling {
    /// What to send next; `None` when the daemon stops.
    async fn next(&mut self) -> Option<String> {
        if let Some(text) = self.due.pop_front() {
            return Some(text);
        }
        loop {
            let Ok(heard) = timeout(KEEP_ALIVE, self.subscription.next()).await else {
                return Some(": keep-alive\n\n".to_owned());
            };
            match heard? {
                EventOrGap::Event(event) => {
                    if let Some(event) = self.view.visible_event(&event).as_ref().map(wire) {
                        return Some(frame(&event.id, &event.kind, &event));
                    }
                }
                EventOrGap::Gap(place) => {
                    self.show();
                    let data = serde_json::json!({"last": place.to_string()});
                    return Some(frame(&place.to_string(), api::MISSED, &data));
                }
            }
        }
    }

    /// Sends a snapshot that is not older than the position that it has.
    fn show(&mut self) {
        let place = self.subscription.position().to_string();
        let servers = servers::all(&self.door, &self.view);
        self.due.push_back(frame(&place, api::SNAPSHOT, &servers));
    }
}

fn frame(id: &str, kind: &str, data: &impl Serialize) -> String {
    // Maps with text keys cannot fail; JSON text has no line breaks.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("id: {id}\nevent: {kind}\ndata: {data}\n\n")
}
