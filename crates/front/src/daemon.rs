//! The daemon as a front sees it: its address, and the HTTP requests to its endpoint.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use http::Uri;
use mainstay_command_line::{
    CommandError,
    connect::{LocatedDaemon, locate},
};
use mainstay_core::{
    era::{headers, modern},
    message::{self, MessageKind},
};
use mainstay_platform::lineage::{CHAIN, CHAIN_HEADER};
use mainstay_transport::{
    Frame,
    http1::{Error, HttpClient, Responding, Response},
};

/// Time to wait for the reset of a connection that has ended. The daemon closes a connection right
/// after its last byte, but a busy machine may deliver the reset late.
const RESET_WAIT: Duration = Duration::from_secs(1);

/// True if the daemon refused this request because it is stopping. The status is 503. In a session,
/// the status is 200, and `Retry-After` marks the refusal.
pub fn is_put_off(response: &Response) -> bool {
    let head = &response.head;
    head.status == 503
        || head.status == 200 && !head.is_event_stream && head.get("retry-after").is_some()
}

/// Locates the daemon. A front calls it before each connection, because the address may change.
#[derive(Clone, Debug)]
pub struct Finder {
    /// The URL from an option or the environment.
    pub url: Option<String>,
    /// The path of the endpoint.
    pub path: String,
    /// The configuration file that the daemon must serve; `None` accepts any.
    pub config: Option<String>,
}

/// A daemon that was located, with an HTTP client for its endpoint.
#[derive(Debug)]
pub struct AttachedDaemon {
    /// The number of the front's attempt to attach. It tells a new daemon from a lost one.
    pub epoch: u64,
    /// The daemon's process id; `None` if only its URL is known.
    pub pid: Option<u32>,
    client: Arc<HttpClient>,
    url: String,
    path: String,
    /// Header lines of each request, including the token.
    common: Common,
    /// True if connections end at the daemon itself, not at a proxy.
    is_direct: bool,
    /// The client's session at the daemon; `None` before `initialize`.
    pub session: Option<DaemonSession>,
}

/// A session that the daemon has opened.
#[derive(Clone, Debug)]
pub struct DaemonSession {
    pub id: String,
    /// The value of `MCP-Protocol-Version`.
    pub version: Option<String>,
}

/// Header lines. `Debug` hides them, because they contain the token.
#[derive(Clone)]
struct Common(String);

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The reason that no daemon was found.
#[derive(Debug, thiserror::Error)]
pub enum NoDaemon {
    #[error(transparent)]
    NotFound(Box<CommandError>),
    #[error("the daemon (pid {0}) is stopping")]
    Stopping(u32),
    #[error("the daemon that runs serves another configuration")]
    OtherConfiguration,
    #[error("{0} cannot be used: {1}")]
    Unusable(String, String),
}

impl From<CommandError> for NoDaemon {
    fn from(error: CommandError) -> Self {
        Self::NotFound(Box::new(error))
    }
}

impl Finder {
    /// Locates the daemon. `epoch` is the number of this attempt.
    pub fn find(&self, epoch: u64) -> Result<AttachedDaemon, NoDaemon> {
        let located_daemon = locate(self.url.clone())?;
        if let Some(file) = &located_daemon.file {
            if file.stops_within().is_some() {
                return Err(NoDaemon::Stopping(file.pid));
            }
            if self.config.is_some() && self.config != file.config {
                return Err(NoDaemon::OtherConfiguration);
            }
        }
        AttachedDaemon::new(located_daemon, &self.path, epoch)
    }
}

impl AttachedDaemon {
    fn new(located_daemon: LocatedDaemon, path: &str, epoch: u64) -> Result<Self, NoDaemon> {
        let unusable_daemon =
            |reason: String| NoDaemon::Unusable(located_daemon.url.clone(), reason);
        let base = located_daemon.url.trim_end_matches('/');
        let uri: Uri = format!("{base}{path}")
            .parse()
            .map_err(|error: http::uri::InvalidUri| unusable_daemon(error.to_string()))?;
        let client = HttpClient::waiting_for_reset(&uri, RESET_WAIT)
            .map_err(|error| unusable_daemon(error.to_string()))?;
        let mut common = format!(
            "host: {}\r\nuser-agent: mainstay/{}\r\n{}: 1\r\n",
            client.authority(),
            env!("CARGO_PKG_VERSION"),
            headers::FRONT,
        );
        if let Some(token) = &located_daemon.token {
            let is_plain = token.expose().bytes().all(|byte| byte.is_ascii_graphic());
            if !is_plain {
                return Err(unusable_daemon(
                    "the token has characters that no token has".to_owned(),
                ));
            }
            let _ = write!(common, "authorization: Bearer {}\r\n", token.expose());
        }
        // By this header, the daemon detects a loop of Mainstays.
        let chain = std::env::var(CHAIN).unwrap_or_default();
        if !chain.is_empty() && chain.bytes().all(|byte| byte.is_ascii_graphic()) {
            let _ = write!(common, "{CHAIN_HEADER}: {chain}\r\n");
        }
        Ok(Self {
            epoch,
            pid: located_daemon.file.as_ref().map(|file| file.pid),
            client,
            url: base.to_owned(),
            path: path.to_owned(),
            common: Common(common),
            is_direct: located_daemon.file.is_some_and(|file| file.is_loopback()),
            session: None,
        })
    }

    /// A copy for the same daemon with another session.
    pub fn with_session(&self, session: Option<DaemonSession>) -> Self {
        Self {
            epoch: self.epoch,
            pid: self.pid,
            client: Arc::clone(&self.client),
            url: self.url.clone(),
            path: self.path.clone(),
            common: self.common.clone(),
            is_direct: self.is_direct,
            session,
        }
    }

    /// True if both are known to be the same process.
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.pid.is_some() && self.pid == other.pid
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// True if the daemon itself announces possible list changes when it revives a session. A
    /// transparent endpoint does not.
    pub fn tells_changes(&self) -> bool {
        !self.path.starts_with("/servers/")
    }

    fn head(&self, method: &str) -> String {
        format!("{method} {} HTTP/1.1\r\n{}", self.path, self.common.0)
    }

    /// Adds the header lines of the session, if there is one.
    fn session_lines(&self, head: &mut String) {
        let Some(session) = &self.session else {
            return;
        };
        let _ = write!(head, "mcp-session-id: {}\r\n", session.id);
        if let Some(version) = &session.version {
            let _ = write!(head, "{}: {version}\r\n", headers::VERSION);
        }
    }

    /// Posts a message of the session, or an `initialize`.
    pub fn post(&self, text: &str) -> Responding {
        let mut head = self.head("POST");
        self.session_lines(&mut head);
        self.client.send(whole(head, text))
    }

    /// Posts a request without a session (2026-07-28).
    pub fn post_modern(&self, frame: &Frame) -> Responding {
        let mut head = self.head("POST");
        let meta = modern::request_meta(frame.text(), frame.envelope());
        // A message without valid `_meta` gets no such headers. The daemon refuses it.
        if let (Ok(meta), MessageKind::Request { .. }) = (meta, frame.envelope().kind) {
            let named_text = |member| message::text_param(frame.text(), frame.envelope(), member);
            let method = frame.method_name();
            for (name, value) in headers::standard(&method, named_text, &meta.protocol_version) {
                if value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                    let _ = write!(head, "{name}: {value}\r\n");
                }
            }
        }
        self.client.send(whole(head, frame.text()))
    }

    /// Opens the stream of messages that belong to no call, or resumes it after `last_event`.
    pub fn get(&self, last_event: Option<&str>) -> Responding {
        let mut head = self.head("GET");
        self.session_lines(&mut head);
        head.push_str("accept: text/event-stream\r\n");
        if let Some(id) = last_event {
            let _ = write!(head, "last-event-id: {id}\r\n");
        }
        head.push_str("\r\n");
        self.client.send_afresh(head.into_bytes())
    }

    /// Ends the session at the daemon.
    pub fn delete(&self) -> Responding {
        let mut head = self.head("DELETE");
        self.session_lines(&mut head);
        head.push_str("\r\n");
        self.client.send(head.into_bytes())
    }

    /// True if the daemon cannot have accepted the request. It accepts a request only after it has
    /// read all of it. When it exits with unread bytes, Linux resets the connection. A reset by a
    /// proxy may have other reasons, so it does not count.
    pub fn has_not_taken(&self, error: &Error) -> bool {
        match error {
            Error::Connect(_) | Error::NotWritten(_) => true,
            Error::Broken(error) => {
                let is_reset = error.kind() == std::io::ErrorKind::ConnectionReset;
                cfg!(target_os = "linux") && self.is_direct && is_reset
            }
            Error::Malformed(_)
            | Error::OverBudget(_)
            | Error::Unauthorized(_)
            | Error::Forbidden(_)
            | Error::CredentialsUnavailable(_) => false,
        }
    }
}

/// Builds a request from this head and body.
fn whole(mut head: String, text: &str) -> Vec<u8> {
    let _ = write!(
        head,
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n\r\n",
        text.len()
    );
    let mut request = Vec::with_capacity(head.len() + text.len());
    request.extend_from_slice(head.as_bytes());
    request.extend_from_slice(text.as_bytes());
    request
}
