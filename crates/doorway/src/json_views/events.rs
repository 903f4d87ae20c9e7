//! Events in the format of REST.

use std::time::{Duration, UNIX_EPOCH};

use mainstay_api as api;
use mainstay_core::event::ServerEvent;
use mainstay_platform::utc;
use serde_json::{Map, Value};

/// Converts an event. The server's name becomes a member of the data.
pub fn wire(event: &ServerEvent) -> api::Event {
    let kind = serde_json::to_value(&event.kind).unwrap_or_default();
    let server = event.server.as_ref().map(ToString::to_string);
    let mut data = Map::new();
    if let Some(name) = &server {
        data.insert("name".to_owned(), name.as_str().into());
    }
    if let Some(Value::Object(members)) = kind.get("data") {
        data.extend(members.clone());
    }
    let time = UNIX_EPOCH + Duration::from_millis(event.id.unix_millis());
    api::Event {
        id: event.id.to_string(),
        kind: kind["type"].as_str().unwrap_or_default().to_owned(),
        server,
        created_at: utc::rfc3339(time),
        data,
    }
}
