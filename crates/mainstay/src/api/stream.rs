//! A daemon's streams of server-sent events, from the side of whoever asks.

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sse_stream::SseStream;

use super::{
    Client, ClientError, LOGS, LogEvent,
    client::{Connection, drive},
};

/// What a server's log has, and then what comes.
pub struct LogEvents<'c> {
    client: &'c Client,
    stream: SseStream<Incoming>,
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
            stream: SseStream::new(body),
            connection,
        })
    }
}

impl LogEvents<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, ClientError> {
        loop {
            let event = drive(&mut self.connection, self.stream.next()).await;
            let Some(event) = event else { return Ok(None) };
            let event = event.map_err(|error| self.client.unreachable(error))?;
            let data = event.data.unwrap_or_default();
            let foreign = |_| self.client.foreign(StatusCode::OK);
            let event = match event.event.as_deref() {
                Some(LogEvent::LINE) => serde_json::from_str(&data).map(LogEvent::Line),
                Some(LogEvent::MISSED) => serde_json::from_str(&data).map(LogEvent::Missed),
                // Of a later version.
                _ => continue,
            };
            return event.map(Some).map_err(foreign);
        }
    }
}
