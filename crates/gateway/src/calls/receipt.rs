//! Receipts, which ensure that every call is recorded. A forwarded call is recorded by its account.
//! A refused call is counted and recorded when its [`Receipt`] is closed.
//!
//! The doors can write only [`Closed`] answers, and only a receipt creates them. [`Calls::call`]
//! needs a receipt. So a door that does not record a call does not compile.

use std::{
    borrow::Cow,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytestring::ByteString;
use mainstay_core::{
    failure::{Failure, FailureKind},
    ids::ServerName,
    message::{self, Malformed, Method},
    names,
    record::{CallOrigin, Target, TraceId},
    trace,
};
use mainstay_journal::{Begun, Finished};
use mainstay_transport::{Frame, UnreadableMessage};

use super::{
    outcome::{failed, is_recorded, payload_part},
    shared::Calls,
};

/// Maximum number of bytes of a refused call's name in its record. A client may send a name of any
/// length.
const MAX_NAME: usize = 256;

/// A received request that has no answer yet.
#[derive(Debug)]
#[must_use = "a request is answered by closing its receipt"]
pub struct Receipt {
    received_at: Instant,
    /// True if the call was forwarded, so that its account records it.
    is_forwarded: AtomicBool,
}

impl Default for Receipt {
    fn default() -> Self {
        Self {
            received_at: Instant::now(),
            is_forwarded: AtomicBool::new(false),
        }
    }
}

impl Receipt {
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn received_at(&self) -> Instant {
        self.received_at
    }

    pub(super) fn set_forwarded(&self) {
        self.is_forwarded.store(true, Ordering::Relaxed);
    }

    /// Closes the receipt. If the answer refuses a call that was not forwarded, counts and records
    /// the call first. `origin` and `requested` return the client and the requested call for the
    /// record.
    pub async fn close<A: Answering>(
        self,
        calls: &Calls,
        answer: A,
        origin: impl FnOnce() -> Arc<CallOrigin>,
        requested: impl FnOnce() -> Option<RequestedCall>,
    ) -> Closed<A> {
        if !self.is_forwarded.load(Ordering::Relaxed)
            && let Some(refused) = answer.refused()
            && let Some(requested) = refused.requested.clone().or_else(requested)
        {
            calls
                .refuse(self.received_at, origin(), requested, &refused.failure)
                .await;
        }
        Closed(answer)
    }

    /// Closes the receipt of a request that is not a call, or was refused before its message was
    /// read.
    pub fn no_call<A>(self, answer: A) -> Closed<A> {
        Closed(answer)
    }
}

/// An answer whose receipt is closed.
#[derive(Clone, Debug)]
pub struct Closed<A>(A);

impl<A> Closed<A> {
    /// Wraps an additional answer for a call whose receipt is held elsewhere, for example an answer
    /// with the questions of a call that continues.
    pub fn of_the_same_call(answer: A) -> Self {
        Self(answer)
    }

    pub fn into_inner(self) -> A {
        self.0
    }
}

impl<A> Deref for Closed<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

/// An answer of a door, which may be the refusal of a call.
pub trait Answering {
    /// The refusal of the call. `None` if the answer is not a refusal.
    fn refused(&self) -> Option<Cow<'_, CallRefusal>>;
}

impl<A: Answering> Answering for &A {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        A::refused(self)
    }
}

/// The refusal of a call.
#[derive(Clone, Debug)]
pub struct CallRefusal {
    pub failure: Failure,
    /// The refused call, if it differs from the request: the request called an own tool, which should
    /// have made this call.
    pub requested: Option<RequestedCall>,
}

impl From<Failure> for CallRefusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            requested: None,
        }
    }
}

/// The call that a request asks for, with the names that the client has sent.
#[derive(Clone, Debug)]
pub struct RequestedCall {
    /// The server, if the address of the request names it.
    pub server: Option<ServerName>,
    pub method: Method,
    /// The name or URI that the client sent. Empty if the request has none.
    pub name: String,
    /// The text of `arguments`.
    pub arguments: Option<ByteString>,
    pub trace: Option<TraceId>,
}

impl RequestedCall {
    pub fn new(method: Method, name: impl Into<String>) -> Self {
        Self {
            server: None,
            method,
            name: name.into(),
            arguments: None,
            trace: None,
        }
    }

    /// The call that a message requests. `None` if it requests no call.
    pub fn from_frame(frame: &Frame) -> Option<Self> {
        let method = frame.method().filter(|method| is_recorded(*method))?;
        let (text, envelope) = (frame.text(), frame.envelope());
        let member = match method {
            Method::ResourcesRead => "uri",
            _ => "name",
        };
        let name = message::text_param(text, envelope, member);
        let meta = message::meta::raw(text, envelope).ok().flatten();
        Some(Self {
            arguments: envelope
                .arguments()
                .map(|span| payload_part(frame, frame.get(span))),
            trace: meta
                .and_then(trace::from_meta)
                .map(|(context, _)| context.trace),
            ..Self::new(method, name.as_deref().map_or("", cut))
        })
    }

    /// The call that a [`Malformed::Dangerous`] message requests. Its name is empty if it cannot be
    /// read. `None` for any other error, and if calls of the method are not recorded.
    pub fn from_unreadable(error: &UnreadableMessage) -> Option<Self> {
        let UnreadableMessage::Malformed(Malformed::Dangerous {
            asked: Some((method, name)),
            ..
        }) = error
        else {
            return None;
        };
        let name = message::shown_text(name).unwrap_or_default();
        is_recorded(*method).then(|| Self::new(*method, cut(&name)))
    }

    #[must_use]
    pub fn at(self, server: Option<&ServerName>) -> Self {
        Self {
            server: server.cloned(),
            ..self
        }
    }

    #[must_use]
    pub fn with(self, arguments: Option<&str>) -> Self {
        Self {
            arguments: arguments.map(ByteString::from),
            ..self
        }
    }
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
}

impl Calls {
    /// Counts and records a call that is not forwarded.
    async fn refuse(
        &self,
        received_at: Instant,
        origin: Arc<CallOrigin>,
        requested: RequestedCall,
        failure: &Failure,
    ) {
        self.refused.add(failure.kind);
        let Some(journal) = &self.journal else { return };
        let now = Instant::now();
        let server = server(failure);
        let tool = match (&server, requested.method) {
            // An address with a server's name is transparent: the name is the original name.
            (Some(server), Method::ToolsCall | Method::PromptsGet)
                if requested.server.is_none() =>
            {
                names::without_server(&requested.name, server)
            }
            _ => &requested.name,
        };
        let entry = journal.begin(Begun {
            origin,
            target: Target {
                tool: cut(tool).into(),
                server: server.or(requested.server),
                method: Cow::Borrowed(requested.method.name()),
            },
            is_listed: false,
            arguments: requested.arguments,
            since: received_at,
            trace: requested.trace,
            secrets: failure.secrets.clone(),
        });
        let recording = entry.finish(Finished {
            outcome: failed(failure, false),
            attempts: 0,
            earlier: Vec::new(),
            at: now,
            queue: now.saturating_duration_since(received_at),
            upstream: Duration::ZERO,
            secrets: None,
        });
        // Only log the error: the call has not run, so the missing record does no harm.
        if let Err(error) = recording.await {
            tracing::warn!(%error, "a refused call is not on record");
        }
    }
}

/// The server that a failure names. `None` if there is no such server.
fn server(failure: &Failure) -> Option<ServerName> {
    if failure.kind == FailureKind::ServerNotFound {
        return None;
    }
    ServerName::new(failure.details.get("server")?.as_str()?).ok()
}
