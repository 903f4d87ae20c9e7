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

/// The longest event that a daemon sends: how a great many servers are.
const MAX_EVENT: usize = 16 * 1024 * 1024;

/// A daemon says at least that it is there every 15 s; one that is silent for longer is not.
const SILENCE: Duration = Duration::from_secs(45);

/// One open stream.
struct Stream<'c> {
    client: &'c Client,
    method: Method,
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
        Ok(LogEvents(self.stream(&path).await?))
    }

    /// How the servers are and what happens from now on, or what happens after a place (the id of an
    /// event).
    pub async fn follow_events(&self, after: Option<&str>) -> Result<EventStream<'_>, ClientError> {
        Ok(EventStream {
            stream: self.stream(&with_place(EVENTS, after)).await?,
            place: after.map(str::to_owned),
        })
    }

    /// What happened lately, or after a place.
    pub async fn recent_events(&self, after: Option<&str>) -> Result<super::Events, ClientError> {
        self.get(&with_place(RECENT_EVENTS, after)).await
    }

    /// Makes a call over this path, and hears what its server says meanwhile. Dropped, the future cancels the
    /// call, and the server is told.
    pub async fn follow_call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        mut hear: impl FnMut(CallNews),
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreachable(error))?;
        let mut request = self.request(Method::POST, path, body.into())?;
        let events = HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(header::ACCEPT, events);
        // A result may be as long as a server may make it.
        let mut stream = self.open(request, usize::MAX).await?;
        while let Some(event) = stream.next().await? {
            match event.name.as_deref() {
                // What a server says in another form is not shown.
                Some(PROGRESS) => drop(stream.read(&event).map(|it| hear(CallNews::Progress(it)))),
                Some(LOG_MESSAGE) => drop(stream.read(&event).map(|it| hear(CallNews::Log(it)))),
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
                // Of a later version.
                _ => {}
            }
        }
        Err(stream.broken(io::ErrorKind::UnexpectedEof.into()))
    }

    async fn stream(&self, path: &str) -> Result<Stream<'_>, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        self.open(request, MAX_EVENT).await
    }

    async fn open(
        &self,
        request: Request<Full<Bytes>>,
        max_event: usize,
    ) -> Result<Stream<'_>, ClientError> {
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
        Ok(Stream {
            client: self,
            method,
            body,
            parser: EventParser::new(max_event),
            connection,
        })
    }
}

/// What a server says during a call.
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

fn with_place(path: &str, after: Option<&str>) -> String {
    after.map_or_else(|| path.to_owned(), |after| format!("{path}?after={after}"))
}

impl Stream<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    async fn next(&mut self) -> Result<Option<event_stream::Event>, ClientError> {
        loop {
            match self.parser.next_event() {
                Some(Ok(event)) => return Ok(Some(event)),
                // One that is too large is not ours.
                Some(Err(_)) => continue,
                None => {}
            }
            let frame = drive(&mut self.connection, timeout(SILENCE, self.body.frame())).await;
            let silent = |_| self.broken(io::ErrorKind::TimedOut.into());
            let Some(frame) = frame.map_err(silent)? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| self.broken(io::Error::other(error)))?;
            // Trailers say nothing.
            if let Ok(data) = frame.into_data() {
                self.parser.push(data);
            }
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        self.client.broken(&self.method, error.into())
    }

    fn read<T: DeserializeOwned>(&self, event: &event_stream::Event) -> Result<T, ClientError> {
        let data = event.data.as_deref().unwrap_or_default();
        serde_json::from_slice(data).map_err(|_| self.client.foreign(StatusCode::OK))
    }
}

/// What a server's log has, and then what comes.
pub struct LogEvents<'c>(Stream<'c>);

impl LogEvents<'_> {
    /// The next event; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, ClientError> {
        while let Some(event) = self.0.next().await? {
            return Ok(Some(match event.name.as_deref() {
                Some(LogEvent::LINE) => LogEvent::Line(self.0.read(&event)?),
                Some(LogEvent::TAIL_END) => LogEvent::TailEnd(self.0.read(&event)?),
                Some(LogEvent::MISSED) => LogEvent::Missed(self.0.read(&event)?),
                // Of a later version.
                _ => continue,
            }));
        }
        Ok(None)
    }
}

/// How the servers are, and then what happens.
pub struct EventStream<'c> {
    stream: Stream<'c>,
    place: Option<String>,
}

/// What a daemon tells.
#[derive(Debug)]
pub enum Told {
    Snapshot(Servers),
    Missed,
    Event(Event),
}

impl EventStream<'_> {
    /// Where another stream goes on.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// What comes next; `None` when the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        while let Some(event) = self.stream.next().await? {
            let told = match event.name.as_deref() {
                Some(MISSED) => Told::Missed,
                Some(SNAPSHOT) => Told::Snapshot(self.stream.read(&event)?),
                Some(_) => Told::Event(self.stream.read(&event)?),
                None => continue,
            };
            self.place = event.id.or(self.place.take());
            return Ok(Some(told));
        }
        Ok(None)
    }
}
