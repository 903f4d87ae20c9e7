//! Every request is answered through a [`Receipt`]. Either the call is with a server, and its account
//! is its record; or the call is refused, and closing the receipt counts and records it.
//!
//! The doors can write [`Closed`] answers only, and only a receipt makes them. [`Calls::call`] takes a
//! receipt. So a door that forgets the record of a call does not compile.

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
    record::{Origin, Target, TraceId},
    trace,
};
use mainstay_journal::{Begun, Finished};
use mainstay_transport::{Frame, Unreadable};

use super::{
    outcome::{failed, is_recorded, kept},
    shared::Calls,
};

/// Bytes of the name that a refused call is recorded with. Clients can make up names of any length.
const MAX_NAME: usize = 256;

/// A request that has come in and has no answer yet.
#[derive(Debug)]
#[must_use = "a request is answered by closing its receipt"]
pub struct Receipt {
    came: Instant,
    /// A server is asked: that call has an account of its own.
    is_forwarded: AtomicBool,
}

impl Default for Receipt {
    fn default() -> Self {
        Self {
            came: Instant::now(),
            is_forwarded: AtomicBool::new(false),
        }
    }
}

impl Receipt {
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn came(&self) -> Instant {
        self.came
    }

    pub(super) fn forwarded(&self) {
        self.is_forwarded.store(true, Ordering::Relaxed);
    }

    /// Closes the receipt. If the answer refuses a call that was never forwarded, the call is counted and
    /// recorded first; `origin` and `wanted` say whose it was and what it asked for.
    pub async fn close<A: Answering>(
        self,
        calls: &Calls,
        answer: A,
        origin: impl FnOnce() -> Arc<Origin>,
        wanted: impl FnOnce() -> Option<RequestedCall>,
    ) -> Closed<A> {
        if !self.is_forwarded.load(Ordering::Relaxed)
            && let Some(refused) = answer.refused()
            && let Some(wanted) = refused.wanted.clone().or_else(wanted)
        {
            calls
                .refuse(self.came, origin(), wanted, &refused.failure)
                .await;
        }
        Closed(answer)
    }

    /// Closes the receipt of a request that is no call, or was refused before its message was read.
    pub fn no_call<A>(self, answer: A) -> Closed<A> {
        Closed(answer)
    }
}

/// An answer whose receipt is closed.
#[derive(Clone, Debug)]
pub struct Closed<A>(A);

impl<A> Closed<A> {
    /// An answer to one of several requests for the same call, whose receipt is that of the first.
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

/// An answer of a door.
pub trait Answering {
    /// Why nothing was done, if the answer says so.
    fn refused(&self) -> Option<Cow<'_, CallRefusal>>;
}

impl<A: Answering> Answering for &A {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        A::refused(self)
    }
}

/// Why a call was refused.
#[derive(Clone, Debug)]
pub struct CallRefusal {
    pub failure: Failure,
    /// The refused call, where the request itself is not that call: one of our own tools was to make it.
    pub wanted: Option<RequestedCall>,
}

impl From<Failure> for CallRefusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            wanted: None,
        }
    }
}

/// The call that a request asks for, in the client's words.
#[derive(Clone, Debug)]
pub struct RequestedCall {
    /// The server, where the address of the request names it.
    pub server: Option<ServerName>,
    pub method: Method,
    /// Empty where the request has none.
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

    /// The call that a message asks for; `None` if it asks for none.
    pub fn of(frame: &Frame) -> Option<Self> {
        let method = frame.method().filter(|method| is_recorded(*method))?;
        let (text, envelope) = (frame.text(), frame.envelope());
        let member = match method {
            Method::ResourcesRead => "uri",
            _ => "name",
        };
        let name = message::named(text, envelope, member);
        let meta = message::meta::of(text, envelope).ok().flatten();
        Some(Self {
            arguments: envelope
                .arguments()
                .map(|span| kept(frame, frame.get(span))),
            trace: meta
                .and_then(trace::of_meta)
                .map(|(context, _)| context.trace),
            ..Self::new(method, name.as_deref().map_or("", cut))
        })
    }

    /// The call that a message asks for which could be read but is not passed on; `None` for any other.
    pub fn of_unreadable(error: &Unreadable) -> Option<Self> {
        let Unreadable::Malformed(Malformed::Dangerous {
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
    /// Counts and records a call that is sent to no server.
    async fn refuse(
        &self,
        came: Instant,
        origin: Arc<Origin>,
        wanted: RequestedCall,
        failure: &Failure,
    ) {
        self.refused.add(failure.kind);
        let Some(journal) = &self.journal else { return };
        let now = Instant::now();
        let server = server(failure);
        let tool = match (&server, wanted.method) {
            // Where the address names the server, the name is its own already.
            (Some(server), Method::ToolsCall | Method::PromptsGet) if wanted.server.is_none() => {
                names::without_server(&wanted.name, server)
            }
            _ => &wanted.name,
        };
        let entry = journal.begin(Begun {
            origin,
            target: Target {
                tool: cut(tool).into(),
                server: server.or(wanted.server),
                method: Cow::Borrowed(wanted.method.name()),
            },
            is_listed: false,
            arguments: wanted.arguments,
            since: came,
            trace: wanted.trace,
            secrets: failure.secrets.clone(),
        });
        let on_record = entry.finish(Finished {
            outcome: failed(failure, false),
            attempts: 0,
            earlier: Vec::new(),
            at: now,
            queue: now.saturating_duration_since(came),
            upstream: Duration::ZERO,
        });
        // It has not run, whether or not that is on record.
        if let Err(error) = on_record.await {
            tracing::warn!(%error, "a refused call is not on record");
        }
    }
}

/// The server that a failure is about, if there is such a server.
fn server(failure: &Failure) -> Option<ServerName> {
    if failure.kind == FailureKind::ServerNotFound {
        return None;
    }
    ServerName::new(failure.details.get("server")?.as_str()?).ok()
}
