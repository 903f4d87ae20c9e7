//! Reads a daemon's streams of server-sent events.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use mainstay_platform::event_stream::{self, EventParser};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    ANSWER, Client, ClientError, EVENTS, Event, LOG_MESSAGE, LOGS, LogEvent, MISSED, PROGRESS,
    Progress, RECENT_EVENTS, Raw, SNAPSHOT, Servers,
    client::{Connection, drive},
};

/// The maximum size of an event. The largest is a snapshot of very many servers.
const MAX_EVENT: usize = 16 * 1024 * 1024;

/// Time without any data after which a stream counts as broken. A daemon sends a keep-alive at
/// least every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// One open stream.
struct OpenStream<'c> {
    client: &'c Client,
    method: Method,
    body: Incoming,
    parser: EventParser,
    connection: Connection,
}

impl Client {
    /// The last lines of a server's log, then each new line.
    pub async fn follow_logs(
        &self,
        server: &str,
        tail: usize,
    ) -> Result<LogEvents<'_>, ClientError> {
        let path = LOGS.replace("{name}", server);
        let path = format!("{path}?follow=true&tail={tail}");
        Ok(LogEvents(self.stream(&path).await?))
    }

    /// A snapshot of the servers and all events from now on, or the events after the event id
    /// `after`.
    pub async fn follow_events(&self, after: Option<&str>) -> Result<EventStream<'_>, ClientError> {
        Ok(EventStream {
            stream: self.stream(&with_event_id(EVENTS, after)).await?,
            last_event_id: after.map(str::to_owned),
        })
    }

    /// The latest events, or the events after the event id `after`.
    pub async fn recent_events(&self, after: Option<&str>) -> Result<super::Events, ClientError> {
        self.get(&with_event_id(RECENT_EVENTS, after)).await
    }

    /// Makes a call at this path, and passes progress and log messages of its server to `on_news`.
    /// Dropping the future cancels the call; the daemon then notifies the server.
    pub async fn follow_call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        mut on_news: impl FnMut(CallNews),
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreachable(error))?;
        let mut request = self.request(Method::POST, path, body.into())?;
        let events = HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(header::ACCEPT, events);
        // The size of a result is not limited here.
        let mut stream = self.open(request, usize::MAX).await?;
        while let Some(event) = stream.next().await? {
            match event.name.as_deref() {
                // Skip progress and log messages that do not parse.
                Some(PROGRESS) => {
                    if let Ok(progress) = stream.read(&event) {
                        on_news(CallNews::Progress(progress));
                    }
                }
                Some(LOG_MESSAGE) => {
                    if let Ok(params) = stream.read(&event) {
                        on_news(CallNews::Log(params));
                    }
                }
                Some(ANSWER) => {
                    let answer: FollowedAnswer = stream.read(&event)?;
                    let status = StatusCode::from_u16(answer.status)
                        .map_err(|_| self.foreign(StatusCode::OK))?;
                    let body = answer.body.get();
                    return match status {
                        StatusCode::OK => {
                            serde_json::from_str(body).map_err(|_| self.foreign(status))
                        }
                        _ => Err(self.refusal(status, body.as_bytes())),
                    };
                }
                // Events of a later version are ignored.
                _ => {}
            }
        }
        Err(stream.broken(io::ErrorKind::UnexpectedEof.into()))
    }

    async fn stream(&self, path: &str) -> Result<OpenStream<'_>, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        self.open(request, MAX_EVENT).await
    }

    async fn open(
        &self,
        request: Request<Full<Bytes>>,
        max_event: usize,
    ) -> Result<OpenStream<'_>, ClientError> {
        let (mut sender, mut connection) = self.handshake().await?;
        let method = request.method().clone();
        let response = drive(&mut connection, sender.send_request(request))
            .await
            .map_err(|error| self.broken(&method, error.into()))?;
        let (status, body) = (response.status(), response.into_body());
        if status != StatusCode::OK {
            let body = drive(&mut connection, body.collect())
                .await
                .map_err(|error| self.broken(&method, error.into()))?;
            return Err(self.refusal(status, &body.to_bytes()));
        }
        Ok(OpenStream {
            client: self,
            method,
            body,
            parser: EventParser::new(max_event),
            connection,
        })
    }
}

/// A message of a server during a call.
#[derive(Clone, Debug)]
pub enum CallNews {
    Progress(Progress),
    /// The `params` of a log message.
    Log(Value),
}

#[derive(Deserialize)]
struct FollowedAnswer {
    status: u16,
    body: Raw,
}

fn with_event_id(path: &str, after: Option<&str>) -> String {
    after.map_or_else(|| path.to_owned(), |after| format!("{path}?after={after}"))
}

impl OpenStream<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    async fn next(&mut self) -> Result<Option<event_stream::ServerSentEvent>, ClientError> {
        loop {
            match self.parser.next_event() {
                Some(Ok(event)) => return Ok(Some(event)),
                // The daemon sends no event above the limit.
                Some(Err(_)) => continue,
                None => {}
            }
            let frame = drive(&mut self.connection, timeout(SILENCE, self.body.frame())).await;
            let silent = |_| self.broken(io::ErrorKind::TimedOut.into());
            let Some(frame) = frame.map_err(silent)? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| self.broken(io::Error::other(error)))?;
            // Trailers have no data.
            if let Ok(data) = frame.into_data() {
                self.parser.push(data);
            }
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        self.client.broken(&self.method, error.into())
    }

    fn read<T: DeserializeOwned>(
        &self,
        event: &event_stream::ServerSentEvent,
    ) -> Result<T, ClientError> {
        let data = event.data.as_deref().unwrap_or_default();
        serde_json::from_slice(data).map_err(|_| self.client.foreign(StatusCode::OK))
    }
}

/// The events of a followed log.
pub struct LogEvents<'c>(OpenStream<'c>);

impl LogEvents<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, ClientError> {
        while let Some(event) = self.0.next().await? {
            return Ok(Some(match event.name.as_deref() {
                Some(LogEvent::LINE) => LogEvent::Line(self.0.read(&event)?),
                Some(LogEvent::TAIL_END) => LogEvent::TailEnd(self.0.read(&event)?),
                Some(LogEvent::MISSED) => LogEvent::Missed(self.0.read(&event)?),
                // Events of a later version are ignored.
                _ => continue,
            }));
        }
        Ok(None)
    }
}

/// The events of a daemon.
pub struct EventStream<'c> {
    stream: OpenStream<'c>,
    last_event_id: Option<String>,
}

/// A message of the event stream.
#[derive(Debug)]
pub enum Told {
    Snapshot(Servers),
    Missed,
    Event(Event),
}

impl EventStream<'_> {
    /// The id of the last event. Another stream can continue after it.
    pub fn place(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// The next message; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        while let Some(event) = self.stream.next().await? {
            let message = match event.name.as_deref() {
                Some(MISSED) => Told::Missed,
                Some(SNAPSHOT) => Told::Snapshot(self.stream.read(&event)?),
                Some(_) => Told::Event(self.stream.read(&event)?),
                None => continue,
            };
            self.last_event_id = event.id.or(self.last_event_id.take());
            return Ok(Some(message));
        }
        Ok(None)
    }
}
