//! One call, end to end: find the session, send, await, and report how it ended.
//!
//! A call is one future. It never passes through a supervisor's task. What the server says before the
//! result goes to the caller's [`CallSink`], in the order in which it was written.

mod account;
mod attempt;
mod bridge;
mod client;
mod closing;
mod large;
mod names;
mod owner;
mod poison;
mod receipt;
mod repeat;
mod rounds;
mod sink;
mod subscribe;
mod tasks;

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mainstay_core::{
    era::{Caller, Era, LogLevel, request},
    failure::Failure,
    message::{self, Kind, Method, Span, Text},
};
use mainstay_journal::Journal;
use mainstay_transport::{Exchange, Frame, Session};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use self::{
    account::Account,
    attempt::{Attempt, Call},
    owner::Searches,
};
pub use self::{
    client::{Client, Questions, origin},
    closing::{Closing, SHUTTING_DOWN},
    names::{Bound, Kind as NameKind, Names, Reopened},
    receipt::{Answering, Closed, Receipt, Refused, Wanted},
    sink::{CallSink, CallStream},
};
use crate::{
    metrics::Failures,
    supervisor::{IsolatedSession, Server, Use},
    traces::Tracer,
};

/// The limit of requests without a time limit: longer than any machine stays up.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// How a request's text is changed on its way to the server.
#[derive(Debug)]
pub struct Request {
    pub frame: Frame,
    id: Span,
    /// The server's own name, where it is known already.
    original: Option<Arc<str>>,
    /// The exposed name or URI, and what comes in its place, as JSON text.
    rename: Option<(Span, String)>,
    progress_token: Option<Span>,
}

impl Request {
    /// `None` unless the frame is a request.
    pub fn new(frame: Frame, progress_token: Option<Span>) -> Option<Self> {
        let Kind::Request { id, .. } = frame.envelope().kind else {
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

    /// This request, for what the server knows as `original` and the client as `exposed`.
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

    /// Whether it opens a stream that lasts until one side ends it.
    fn is_listening(&self) -> bool {
        self.frame.method() == Some(Method::Listen)
    }

    /// What the server itself calls that which is asked of it: a tool, a prompt, or a resource by its URI.
    fn subject(&self) -> Option<Arc<str>> {
        if let Some(original) = &self.original {
            return Some(Arc::clone(original));
        }
        let of_resource = matches!(
            self.frame.method()?,
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        );
        let member = if of_resource { "uri" } else { "name" };
        self.frame.text_param(member).map(Arc::from)
    }

    /// The request under our id, which is also its progress token: only where the client asked for
    /// progress, and never the client's own.
    fn render(&self, id: &str) -> String {
        let token = self.progress_token.map(|span| (span, id));
        self.spliced(id, token)
    }

    /// The request of a modern client, for a legacy server.
    fn render_legacy(&self, id: &str) -> String {
        let (text, envelope) = (self.frame.text(), self.frame.envelope());
        match request::edit_to_legacy(text, envelope, self.token(id)) {
            Some((span, meta)) => self.spliced(id, Some((span, &meta))),
            None => request::to_legacy(&self.render(id)),
        }
    }

    /// The request of a legacy client, for a modern server.
    fn render_modern(&self, id: &str, caller: &Caller) -> String {
        let (text, envelope) = (self.frame.text(), self.frame.envelope());
        match request::edit_to_modern(text, envelope, caller, self.token(id)) {
            Some((span, meta)) => self.spliced(id, Some((span, &meta))),
            None => request::to_modern(&self.render(id), caller),
        }
    }

    fn token<'a>(&self, id: &'a str) -> Option<&'a str> {
        self.progress_token.map(|_| id)
    }

    fn spliced(&self, id: &str, of_meta: Option<(Span, &str)>) -> String {
        let mut edits = Vec::with_capacity(3);
        edits.push((self.id, id));
        if let Some((span, original)) = &self.rename {
            edits.push((*span, original.as_str()));
        }
        edits.extend(of_meta);
        message::splice(self.frame.text(), &mut edits)
    }
}

/// Which session answers a call.
#[derive(Clone, Debug)]
pub enum Upstream {
    Shared(Arc<Server>),
    IsolatedSession(Arc<IsolatedSession>),
}

impl Upstream {
    pub fn server(&self) -> &Arc<Server> {
        match self {
            Self::Shared(server) => server,
            Self::IsolatedSession(isolated_session) => &isolated_session.server,
        }
    }

    /// Keeps a client's own session from making room for another while the guard is there.
    fn begin(&self) -> Option<Use> {
        match self {
            Self::Shared(_) => None,
            Self::IsolatedSession(isolated_session) => Some(isolated_session.begin()),
        }
    }

    /// The session that a caller of this era uses, if it is open and there is nothing to wait for.
    fn live_session(&self, era: Era) -> Option<Arc<Session>> {
        match self {
            Self::Shared(server) => {
                let session = server.live_session()?;
                (era == Era::Modern || !session.is_stateless()).then_some(session)
            }
            // Its use is noted where it is taken.
            Self::IsolatedSession(_) => None,
        }
    }

    /// The session for a caller of this era.
    async fn session(&self, era: Era, deadline: Instant) -> Result<Arc<Session>, Failure> {
        match self {
            Self::Shared(server) => server.session(era, deadline).await,
            Self::IsolatedSession(isolated_session) => isolated_session.session(deadline).await,
        }
    }
}

/// The server's response to a call.
#[derive(Debug)]
pub struct Answer {
    pub frame: Frame,
    /// Whether the server answered by a stream of events.
    pub streamed: bool,
}

/// Ends a call early; dropping it lets the call go on.
pub type Cancel = oneshot::Sender<String>;

/// What all calls share.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Calls whose client has gone, and cancellations on their way.
    background: TaskTracker,
    journal: Option<Arc<Journal>>,
    tracer: Option<Arc<Tracer>>,
    /// Calls for which no server was asked.
    refused: Arc<Failures>,
    searches: Searches,
    closing: Arc<Closing>,
}

impl Calls {
    /// With a journal and with traces, where there are any.
    pub fn new(journal: Option<Arc<Journal>>, tracer: Option<Arc<Tracer>>) -> Self {
        Self {
            background: TaskTracker::new(),
            journal,
            tracer,
            refused: Arc::default(),
            searches: Searches::default(),
            closing: Arc::default(),
        }
    }

    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// How many calls there were for which no server was asked, by the kind of failure.
    pub fn refused(&self) -> &Failures {
        &self.refused
    }

    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    /// How far the end of Mainstay has come.
    pub fn closing(&self) -> &Closing {
        &self.closing
    }

    /// Calls the server and returns its response, whether result or error. `cancel` ends the call
    /// with [`FailureKind::Cancelled`].
    pub async fn call(
        &self,
        receipt: &Receipt,
        upstream: Upstream,
        request: Request,
        sink: CallSink,
        cancel: oneshot::Receiver<String>,
    ) -> Result<Answer, Failure> {
        if self.closing.has_begun() {
            return Err(Closing::refusal().of_server(&upstream.server().name));
        }
        let (limit, hard_limit) = if request.is_listening() {
            (FOREVER, FOREVER)
        } else {
            // Not held for the time of the call: each thread has places for a few.
            let config = upstream.server().config();
            (config.call_timeout, config.max_call_timeout)
        };
        let started = Instant::now();
        let _use = upstream.begin();
        let account = Account::open(self, receipt, &upstream, &request, &sink);
        let mut call = Call {
            calls: self,
            upstream: &upstream,
            request: &request,
            sink,
            deadline: started + limit,
            limit,
            hard_deadline: started + hard_limit,
            progressed: false,
            account,
        };
        let mut cancel = pin!(async {
            tokio::select! {
                biased;
                // Otherwise it could not be cancelled any more.
                Ok(reason) = cancel => reason,
                () = self.closing.over() => SHUTTING_DOWN.to_owned(),
            }
        });
        // Once more on a new session, and only if nothing of the call can have run, or running it
        // twice is as good as once (invariant 6). The second attempt of a call that was lost may be the
        // first to learn that its session is gone, too, and then was not sent.
        let (mut not_sent_before, mut lost_before) = (false, false);
        let outcome = loop {
            match call.attempt(cancel.as_mut()).await {
                Err(Attempt::NotSent(_)) if !not_sent_before && !self.closing.is_over() => {
                    not_sent_before = true
                }
                Err(Attempt::Lost(_))
                    if !lost_before
                        && !self.closing.is_over()
                        && repeat::is_repeatable(&request, upstream.server()) =>
                {
                    lost_before = true;
                }
                other => break other.map_err(Attempt::into_failure),
            }
        };
        let answer = call.account.close(outcome).await?;
        let client = &call.sink.client;
        Ok(self.fitted(&upstream, &request, client, answer).await)
    }

    /// A future that runs to its end even if it is dropped by the task that awaits it: a dropped HTTP
    /// stream does not cancel a call (specification, transports, "Sending Messages").
    pub fn detachable<F>(&self, future: F) -> Detachable<F>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        Detachable {
            future: Some(Box::pin(future)),
            background: self.background.clone(),
        }
    }

    /// Waits for calls whose client has gone and for cancellations on their way, up to `limit`.
    pub async fn drain(&self, limit: Duration) {
        self.background.close();
        if tokio::time::timeout(limit, self.background.wait())
            .await
            .is_err()
        {
            tracing::warn!("calls were still in flight at the end");
        }
    }

    /// Runs a future in the background. Only shutdown waits for it.
    pub fn in_background(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(future);
    }

    /// The background tasks. Only shutdown waits for them.
    pub fn background(&self) -> &TaskTracker {
        &self.background
    }

    fn cancel(&self, session: &Arc<Session>, exchange: Exchange, reason: String) {
        let session = Arc::clone(session);
        self.background
            .spawn(async move { session.cancel(exchange, &reason).await });
    }
}

/// The level of a log message, where it is one of the specification's.
pub fn log_level(frame: &Frame) -> Option<LogLevel> {
    frame
        .text_param("level")
        .and_then(|level| LogLevel::parse(&level))
}

/// See [`Calls::detachable`].
pub struct Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    future: Option<Pin<Box<F>>>,
    background: TaskTracker,
}

impl<F> Future for Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = self
            .future
            .as_mut()
            .expect("a finished future is not polled again");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<F> Drop for Detachable<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn drop(&mut self) {
        let Some(future) = self.future.take() else {
            return;
        };
        // Outside a runtime there is nothing left to run it on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.background
                .spawn_on(async move { drop(future.await) }, &runtime);
        }
    }
}
