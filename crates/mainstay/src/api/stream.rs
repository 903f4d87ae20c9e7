//! A daemon's streams of server-sent events, from the side of whoever asks.

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::{
    Client, ClientError, LOGS, LogEvent,
    client::{Connection, drive},
};
use crate::event_stream::EventParser;

/// The longest event that a daemon sends: one line of a log, cut long before.
const MAX_EVENT: usize = 1024 * 1024;

/// What a server's log has, and then what comes.
pub struct LogEvents<'c> {
    client: &'c Client,
    body: Incoming,
    parser: EventParser,
    connection: Connection,
}

impl Client {
    /// The last lines of a server's log, and those to come.
    pub async fn follow_logs(
        &self,
        server: &str,
        tail: usize,
    ) -> Result<LogEvents<'_>, ClientError> {
        let path = LOGS.replace("{name}", server);
        let path = format!("{path}?follow=true&tail={tail}");
        let request = self.request(Method::GET, &path, Bytes::new())?;
        let (mut sender, mut connection) = self.handshake().await?;
        let response = drive(&mut connection, sender.send_request(request))
            .await
            .map_err(|error| self.unreachable(error))?;
        let (status, body) = (response.status(), response.into_body());
        if status != StatusCode::OK {
            let body = drive(&mut connection, body.collect())
                .await
                .map_err(|error| self.unreachable(error))?;
            return Err(self.refusal(status, &body.to_bytes()));
        }
        Ok(LogEvents {
            client: self,
            body,
            parser: EventParser::new(MAX_EVENT),
            connection,
        })
    }
}

impl LogEvents<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, ClientError> {
        loop {
            let Some(event) = self.parser.next_event() else {
                let Some(frame) = drive(&mut self.connection, self.body.frame()).await else {
                    return Ok(None);
                };
                let frame = frame.map_err(|error| self.client.unreachable(error))?;
                // Trailers say nothing.
                if let Ok(data) = frame.into_data() {
                    self.parser.push(data);
                }
                continue;
            };
            // One that is too large is not ours.
            let Ok(event) = event else { continue };
            let data = event.data.unwrap_or_default();
            let foreign = |_| self.client.foreign(StatusCode::OK);
            let event = match event.name.as_deref() {
                Some(LogEvent::LINE) => serde_json::from_slice(&data).map(LogEvent::Line),
                Some(LogEvent::MISSED) => serde_json::from_slice(&data).map(LogEvent::Missed),
                // Of a later version.
                _ => continue,
            };
            return event.map(Some).map_err(foreign);
        }
    }
}
