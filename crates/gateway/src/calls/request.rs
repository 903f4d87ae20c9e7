//! A request to a server, the session that answers it, and the answer.

use std::sync::Arc;

use mainstay_core::{
    era::{Caller, Era, request},
    failure::Failure,
    message::{self, MessageKind, Method, Span, Text},
};
use mainstay_transport::{Frame, UpstreamSession};
use tokio::time::Instant;

use crate::supervisor::{HeldRequests, IsolatedSession, ServerHandle, UseGuard};

/// The session that answers a call.
#[derive(Clone, Debug)]
pub enum Upstream {
    Shared(Arc<ServerHandle>),
    IsolatedSession(Arc<IsolatedSession>),
}

impl Upstream {
    pub fn server(&self) -> &Arc<ServerHandle> {
        match self {
            Self::Shared(server) => server,
            Self::IsolatedSession(isolated_session) => &isolated_session.server,
        }
    }

    /// The server's requests that wait for a call. Only during a call can they be passed to the
    /// client.
    pub(super) fn held_requests(&self) -> Option<&Arc<HeldRequests>> {
        match self {
            Self::Shared(server) => server.held_requests(),
            Self::IsolatedSession(isolated_session) => Some(&isolated_session.held_requests),
        }
    }

    /// Marks an isolated session as in use. While the guard exists, the session is not closed to make
    /// room.
    pub(super) fn begin(&self) -> Option<UseGuard> {
        match self {
            Self::Shared(_) => None,
            Self::IsolatedSession(isolated_session) => Some(isolated_session.begin()),
        }
    }

    /// The session for a caller of this era, if it can be used without waiting.
    pub(super) fn live_session(&self, era: Era) -> Option<Arc<UpstreamSession>> {
        match self {
            Self::Shared(server) => {
                let session = server.live_session()?;
                (era == Era::Modern || !session.is_stateless()).then_some(session)
            }
            // `IsolatedSession::session` marks the session as used.
            Self::IsolatedSession(_) => None,
        }
    }

    /// The session for a caller of this era. Waits until `deadline` for it to open.
    pub(super) async fn session(
        &self,
        era: Era,
        deadline: Instant,
    ) -> Result<Arc<UpstreamSession>, Failure> {
        match self {
            Self::Shared(server) => server.session(era, deadline).await,
            Self::IsolatedSession(isolated_session) => isolated_session.session(deadline).await,
        }
    }
}

/// A client's request, with the edits for the server.
#[derive(Debug)]
pub struct CallRequest {
    pub frame: Frame,
    id: Span,
    /// The original name, if the request was resolved in a catalog.
    pub(super) original: Option<Arc<str>>,
    /// The span of the exposed name or URI, and its replacement as JSON text.
    rename: Option<(Span, String)>,
    pub(super) progress_token: Option<Span>,
}

impl CallRequest {
    /// A request without a new name. `None` if the frame is not a request.
    pub fn new(frame: Frame, progress_token: Option<Span>) -> Option<Self> {
        let MessageKind::Request { id, .. } = frame.envelope().kind else {
            return None;
        };
        Some(Self {
            frame,
            id,
            original: None,
            rename: None,
            progress_token,
        })
    }

    /// This request with the server's name `original` in place of the client's name `exposed`.
    #[must_use]
    pub fn renamed(mut self, exposed: &Text<'_>, original: &Arc<str>) -> Self {
        if *exposed.value != **original {
            self.rename = Some((exposed.span, message::quote(original)));
        }
        self.original = Some(Arc::clone(original));
        self
    }

    /// The client's id, as JSON text.
    pub fn id(&self) -> &str {
        self.frame.get(self.id)
    }

    /// True if the request opens a stream that lasts until one side ends it.
    pub(super) fn is_listening(&self) -> bool {
        self.frame.method() == Some(Method::Listen)
    }

    /// The original name of the requested tool or prompt, or the URI of the resource.
    pub(super) fn subject(&self) -> Option<Arc<str>> {
        if let Some(original) = &self.original {
            return Some(Arc::clone(original));
        }
        let is_resource = matches!(
            self.frame.method()?,
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        );
        let member = if is_resource { "uri" } else { "name" };
        self.frame.text_param(member).map(Arc::from)
    }

    /// The request with an id of Mainstay. If the client requested progress, the id is also the
    /// progress token. The client's own token is never sent.
    pub(super) fn render(&self, id: &str) -> String {
        let token = self.progress_token.map(|span| (span, id));
        self.spliced(id, token)
    }

    /// The request of a modern client, for a legacy server.
    pub(super) fn render_legacy(&self, id: &str) -> String {
        let (text, envelope) = (self.frame.text(), self.frame.envelope());
        match request::edit_to_legacy(text, envelope, self.token(id)) {
            Some((span, meta)) => self.spliced(id, Some((span, &meta))),
            None => request::to_legacy(&self.render(id)),
        }
    }

    /// The request of a legacy client, for a modern server.
    pub(super) fn render_modern(&self, id: &str, caller: &Caller) -> String {
        let (text, envelope) = (self.frame.text(), self.frame.envelope());
        match request::edit_to_modern(text, envelope, caller, self.token(id)) {
            Some((span, meta)) => self.spliced(id, Some((span, &meta))),
            None => request::to_modern(&self.render(id), caller),
        }
    }

    fn token<'a>(&self, id: &'a str) -> Option<&'a str> {
        self.progress_token.map(|_| id)
    }

    fn spliced(&self, id: &str, meta_edit: Option<(Span, &str)>) -> String {
        let mut edits = Vec::with_capacity(3);
        edits.push((self.id, id));
        if let Some((span, original)) = &self.rename {
            edits.push((*span, original.as_str()));
        }
        edits.extend(meta_edit);
        message::splice(self.frame.text(), &mut edits)
    }
}

/// The server's response to a call.
#[derive(Debug)]
pub struct CallAnswer {
    pub frame: Frame,
    /// True if the server answered with a stream of events.
    pub streamed: bool,
}
