//! The trace of a call: a span for the call, and a span for each request to its server.
//!
//! Clients and servers choose the length of names, ids and errors. The queue to the collector limits
//! only the number of calls. So each text is cut, to a length that still tells texts apart.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use mainstay_core::{
    era::Revision,
    ids::ServerName,
    message::{self, Method},
    record::{CallOrigin, TraceId},
    redact::{Redactor, Secrets},
    trace::SpanId,
};

/// Maximum length of a URI, a name or a request's id, in bytes.
const MAX_NAME: usize = 256;
/// Maximum length of a server's error text, in bytes.
const MAX_MESSAGE: usize = 1024;

/// The call that a span describes.
#[derive(Debug)]
pub struct Subject {
    pub server: ServerName,
    pub method: Method,
    /// The original name of the tool or prompt, or the resource's URI.
    pub name: Arc<str>,
    pub origin: Arc<CallOrigin>,
    /// The client's revision.
    pub revision: Revision,
    /// The client's id of its request, as JSON text.
    pub request_id: Box<str>,
    /// True if the server is a process (stdio).
    pub is_piped: bool,
    /// The secrets of the server, for redaction.
    pub secrets: Option<Arc<Secrets>>,
}

impl Subject {
    /// Limits the length of the texts.
    pub(super) fn bounded(mut self) -> Self {
        if self.name.len() > MAX_NAME {
            self.name = Arc::from(start(&self.name, MAX_NAME));
        }
        if self.request_id.len() > MAX_NAME {
            // Cut the decoded text, because a JSON text that is cut is invalid.
            let text = message::text(&self.request_id).map(String::from);
            let text = text.as_deref().unwrap_or(&self.request_id);
            self.request_id = Box::from(start(text, MAX_NAME));
        }
        self
    }
}

/// The error of a failed call, for its span.
#[derive(Debug)]
pub struct SpanError {
    /// The JSON-RPC code of a server's error, `tool_error`, or the code of a failure's kind.
    pub kind: Cow<'static, str>,
    pub message: Option<String>,
    /// True if `kind` is a JSON-RPC code.
    pub is_rpc: bool,
}

impl SpanError {
    pub(super) const CANCELLED: Self = Self {
        kind: Cow::Borrowed("cancelled"),
        message: None,
        is_rpc: false,
    };

    /// Limits the length of the texts.
    pub(super) fn bounded(self) -> Self {
        let Self {
            kind,
            message,
            is_rpc,
        } = self;
        Self {
            kind: match kind {
                Cow::Owned(code) if code.len() > MAX_NAME => {
                    start(&code, MAX_NAME).to_owned().into()
                }
                kind => kind,
            },
            message: message.map(|message| match start(&message, MAX_MESSAGE) {
                whole if whole.len() == message.len() => message,
                start => start.to_owned(),
            }),
            is_rpc,
        }
    }
}

/// The beginning of a text, with at most this number of bytes.
fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The start and the end of a span.
#[derive(Clone, Copy, Debug)]
pub struct SpanTimes {
    pub started: SystemTime,
    pub ended: SystemTime,
}

/// The span of one request to the server.
#[derive(Debug)]
pub struct Hop {
    pub id: SpanId,
    pub times: SpanTimes,
    /// The server's revision.
    pub revision: Revision,
    /// `None` if the server answered, with a result or an error.
    pub failed: Option<&'static str>,
}

/// The spans of an ended call.
#[derive(Debug)]
pub struct CallTrace {
    pub subject: Subject,
    pub trace: TraceId,
    pub parent: Option<SpanId>,
    pub state: Option<String>,
    pub id: SpanId,
    pub times: SpanTimes,
    pub hops: Vec<Hop>,
    pub error: Option<SpanError>,
}

impl CallTrace {
    pub fn spans(&self) -> u64 {
        1 + self.hops.len() as u64
    }

    /// Redacts the name, the client and the error.
    pub fn redact(&mut self, redactor: &Redactor) {
        let secrets = self.subject.secrets.as_deref();
        if let Cow::Owned(name) = redactor.redact(&self.subject.name, secrets) {
            self.subject.name = name.into();
        }
        let client = self.subject.origin.client.as_ref();
        if let Some(client) = client.and_then(|client| client.redacted(redactor)) {
            Arc::make_mut(&mut self.subject.origin).client = Some(client);
        }
        let Some(error) = &mut self.error else {
            return;
        };
        if let Cow::Owned(kind) = redactor.redact(&error.kind, secrets) {
            error.kind = kind.into();
        }
        if let Some(message) = &mut error.message
            && let Cow::Owned(redacted) = redactor.redact(message, secrets)
        {
            *message = redacted;
        }
    }
}
