//! The message of an alert to its receiver.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay_core::{
    alert::{Alarm, AlarmContent},
    event::EventId,
    ids::ServerName,
};
use mainstay_platform::utc;
use serde::Serialize;

/// An alarm with its id and its JSON text for receivers.
#[derive(Clone, Debug)]
pub struct AlertMessage {
    pub id: EventId,
    pub alarm: Alarm,
    /// The body of a POST, or the stdin of a command.
    pub json: String,
}

/// The JSON object of a message. Its member `text` has the name that chat services display.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    id: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a ServerName>,
    text: String,
    #[serde(flatten)]
    details: &'a AlarmContent,
}

impl AlertMessage {
    /// A message with a new id, which replaces `last`. Ids are unique, so that receivers recognise
    /// repeated messages.
    pub fn new(last: &mut EventId, alarm: Alarm) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = now.unwrap_or_default().as_millis();
        *last = last.next(u64::try_from(millis).unwrap_or(u64::MAX));
        let at = UNIX_EPOCH + Duration::from_millis(last.unix_millis());
        let body = Body {
            id: last.to_string(),
            created_at: utc::rfc3339(at),
            server: alarm.server.as_ref(),
            text: alarm.to_string(),
            details: &alarm.content,
        };
        // Serialization cannot fail: all keys are strings, and all values are plain.
        let json = serde_json::to_string(&body).unwrap_or_default();
        Self {
            id: *last,
            alarm,
            json,
        }
    }
}
