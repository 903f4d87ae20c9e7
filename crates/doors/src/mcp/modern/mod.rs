//! Clients without a session (2026-07-28). `_meta` of each request describes its client, and each
//! request is a scope of its own. A request is cancelled when the stream of its answer is closed.

mod call;
mod discovery;
pub mod http;
mod listening;
pub mod pipe;
mod task_news;

use std::sync::Arc;

use mainstay_core::{
    era::{
        Caller, Era, code,
        headers::Inbound,
        listen::completed,
        modern::{self, Refused},
        questions::{self, Answers},
    },
    message::{self, InvalidParams, Kind, Method},
    principal::Principal,
    record::{Door, Origin},
};
use mainstay_gateway::View;
use mainstay_gateway::{
    calls::{CallSink, Client, Closed, Receipt, RequestedCall, Upstream},
    registry::Profile,
    supervisor::Server,
};
use mainstay_transport::Frame;
use tokio::{sync::oneshot, time::Instant};

pub use self::call::Call;
use super::{
    aggregate::{self, Asked},
    hub::Hub,
    isolated,
    pool::{Lease, Seat},
    reply::Reply,
    session::{Scope, client_key},
    suspended::{self, InputRounds, Parts},
    transparent,
};

/// The client of this request, if it may be served.
pub fn admit(frame: &Frame, headers: Option<&Inbound<'_>>) -> Result<Caller, Refused> {
    let method = frame.method_name();
    let (meta, _) = modern::admit(frame.text(), frame.envelope(), &method, headers)?;
    Ok(Caller::modern(&meta)?)
}

/// Why a request was not let in, as its answer.
pub fn refusal(id: &str, refused: &Refused) -> Reply {
    let text = refusal_text(id, refused);
    Reply::of_error(text, refused.code(), &refused.to_string())
}

fn refusal_text(id: &str, refused: &Refused) -> String {
    message::error_response(
        Some(id),
        refused.code(),
        &refused.to_string(),
        refused.data().as_ref(),
    )
}

/// Closes the receipt of a request to this endpoint.
async fn close(
    hub: &Hub,
    scope: &Scope,
    origin: impl FnOnce() -> Arc<Origin>,
    frame: &Frame,
    receipt: Receipt,
    reply: Reply,
) -> Closed<Reply> {
    let wanted = || Some(RequestedCall::of(frame)?.at(scope.server()));
    receipt.close(&hub.calls, reply, origin, wanted).await
}

/// The id of a request, as JSON text.
pub fn id(frame: &Frame) -> &str {
    match frame.envelope().kind {
        Kind::Request { id, .. } | Kind::Response { id, .. } => frame.get(id),
        Kind::Notification { .. } => "null",
    }
}

/// Begins to answer a request that was let in.
pub fn answer(
    hub: &Arc<Hub>,
    scope: Scope,
    door: Door,
    principal: Principal,
    frame: Frame,
    caller: Caller,
) -> Call {
    let receipt = Receipt::new();
    if let Some(sole) = hub.registry.sole() {
        sole.hear(&caller.capabilities);
    }
    let level = caller.log_level;
    let origin = scope.origin(door, &caller, &principal);
    let refuse = |scope: Scope, frame: Frame, origin, receipt, why: &str| {
        let reply = Reply::error(id(&frame), code::INVALID_PARAMS, why);
        let hub = Arc::clone(hub);
        Call::silent(async move {
            close(&hub, &scope, || Arc::new(origin), &frame, receipt, reply).await
        })
    };
    let answers = match answers(&frame) {
        Ok(answers) => answers,
        Err(error) => return refuse(scope, frame, origin, receipt, &error.to_string()),
    };
    let state = answers
        .as_ref()
        .and_then(|answers| answers.state.as_deref());
    let is_ours = state.is_some_and(|state| hub.suspended.knows(state));
    // A modern server's own: it knows nothing of our principals.
    let (frame, state_of) = match state.filter(|_| !is_ours) {
        None => (frame, None),
        Some(state) => match hub.names.reopened(&principal, &frame, state) {
            Some(reopened) => (reopened.frame, Some(reopened.server)),
            None => return refuse(scope, frame, origin, receipt, UNKNOWN_STATE),
        },
    };
    if let Some(answers) = answers.filter(|_| is_ours) {
        let (sink, messages) =
            CallSink::new(Arc::new(Client::unasked(caller, principal, origin)), level);
        let (hub, origin) = (Arc::clone(hub), Arc::clone(&sink.client.origin));
        let resumed = hub
            .suspended
            .resume(scope.clone(), frame.clone(), answers, sink);
        let reply = async move {
            match resumed.await {
                Ok(reply) => reply,
                Err(unknown) => close(&hub, &scope, || origin, &frame, receipt, unknown).await,
            }
        };
        return Call::joining(reply, messages);
    }
    let may_ask = frame.method().is_some_and(questions::may_ask);
    let (cancel, cancelled) = oneshot::channel();
    let request = |sink| Request {
        hub: Arc::clone(hub),
        scope: scope.clone(),
        frame: frame.clone(),
        sink,
        state_of: state_of.clone(),
    };
    let bound = scope.bound(&hub.names, &principal);
    if !may_ask || !caller.capabilities.can_be_asked() {
        let client = Client::unasked(caller, principal, origin).bound(bound);
        let (sink, messages) = CallSink::new(Arc::new(client), level);
        let reply = request(sink).reply(receipt, cancelled, Arc::default());
        return Call::new(&hub.calls, reply, messages, cancel);
    }
    let (asks, questions) = suspended::questions();
    // What the call says is translated once, on its way to the interview.
    let heard = Client::unasked(caller.clone(), principal.clone(), origin.clone());
    let (sink, messages) = CallSink::new(Arc::new(heard), level);
    let client = Client::in_rounds(caller, principal.clone(), origin, asks).bound(bound);
    let (inner, said) = CallSink::new(Arc::new(client), level);
    let (end, ended) = oneshot::channel();
    let seat = Arc::<Seat>::default();
    let reply = request(inner).reply(receipt, ended, Arc::clone(&seat));
    let rounds = InputRounds::new(
        reply,
        Parts {
            messages: said,
            questions,
            cancel: end,
            scope,
            principal,
            frame,
            seat,
        },
    );
    let begun = hub
        .suspended
        .begin(hub.calls.clone(), rounds, sink, cancelled);
    Call::new(&hub.calls, begun, messages, cancel)
}

/// What a request brings from earlier attempts at it.
fn answers(frame: &Frame) -> Result<Option<Answers>, InvalidParams> {
    if !frame.envelope().brings_answers() || !frame.method().is_some_and(questions::may_ask) {
        return Ok(None);
    }
    questions::answers(frame.params().unwrap_or("{}"))
}

/// One request on its way.
struct Request {
    hub: Arc<Hub>,
    scope: Scope,
    frame: Frame,
    sink: CallSink,
    /// The modern server that gave the `requestState` that it brings, if it brings one.
    state_of: Option<Box<str>>,
}

impl Request {
    async fn reply(
        self,
        receipt: Receipt,
        cancelled: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> Closed<Reply> {
        let reply = self.forward(&receipt, cancelled, seat).await;
        let origin = || Arc::clone(&self.sink.client.origin);
        close(&self.hub, &self.scope, origin, &self.frame, receipt, reply).await
    }

    async fn forward(
        &self,
        receipt: &Receipt,
        cancelled: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> Reply {
        let id = id(&self.frame);
        let address = match message::address(self.frame.text(), self.frame.envelope()) {
            Ok(address) => address,
            Err(error) => return Reply::error(id, code::INVALID_PARAMS, &error.to_string()),
        };
        if let (Scope::Profile(_), Some(level)) = (&self.scope, self.sink.client.caller.log_level) {
            self.hub.want_logs(level).await;
        }
        let method = self.frame.method().unwrap_or(Method::Other);
        let reply = match &self.scope {
            Scope::Profile(profile) if method == Method::Discover => {
                self.hub.registry.profile_settled(profile).await;
                let view = self.view(profile);
                Reply::result(id, &discovery::of_profile(&self.hub, &view))
            }
            Scope::Profile(profile) if method == Method::Listen => {
                let view = self.view(profile);
                listening::of_profile(self.listening(cancelled), &view).await
            }
            Scope::Profile(profile) => {
                let asked = Asked {
                    hub: &self.hub,
                    view: self.view(profile),
                    frame: &self.frame,
                    address: &address,
                    cancelled,
                    sink: self.sink.clone(),
                    receipt,
                    state_of: self.state_of.as_deref(),
                    place: isolated::Place::Pool(&seat),
                };
                aggregate::answer(asked).await
            }
            Scope::One(server) => {
                let upstream = match self.upstream(server, method).await {
                    Ok(Place::Server) => Upstream::Shared(Arc::clone(server)),
                    Ok(Place::Shared) if method == Method::Listen => {
                        return listening::of_shared(self.listening(cancelled), server).await;
                    }
                    Ok(Place::Shared) => Upstream::Shared(Arc::clone(server)),
                    Ok(Place::Pool(lease)) if method == Method::Listen => {
                        return listening::of_pooled(self.listening(cancelled), lease).await;
                    }
                    Ok(Place::Pool(lease)) => {
                        let isolated_session = lease.isolated_session();
                        // There is no other before it.
                        drop(seat.take(lease));
                        Upstream::IsolatedSession(isolated_session)
                    }
                    Err(reply) => return reply,
                };
                let asked = transparent::Asked {
                    hub: &self.hub,
                    frame: &self.frame,
                    id,
                    address: &address,
                    cancelled,
                    sink: self.sink.clone(),
                    receipt,
                };
                transparent::answer(upstream, asked).await
            }
        };
        if method == Method::Listen && reply.error.is_none() {
            return Reply::result(id, &completed(id));
        }
        reply.with_modern_code(id, method)
    }

    fn view(&self, profile: &Arc<Profile>) -> View {
        let client = &self.sink.client;
        let key = || client_key(&client.principal, &client.caller);
        self.hub.view(profile, key)
    }

    /// The session that answers for one server: a modern server's shared one; for a legacy server one
    /// for clients like this one. Or the answer, if it is Mainstay's own.
    async fn upstream(&self, server: &Arc<Server>, method: Method) -> Result<Place, Reply> {
        let id = id(&self.frame);
        self.hub.registry.attempted(server).await;
        let limit = server.config().longest_start();
        let failed = |failure| Reply::failure(id, &failure);
        let (session, known) = (server.view().session, server.eras().modern);
        let is_modern = match (&session, known) {
            (Some(session), _) => session.era() == Era::Modern,
            (None, Some(is_modern)) => is_modern,
            (None, None) => {
                let found = server.session(Era::Modern, Instant::now() + limit).await;
                found.map_err(failed)?.era() == Era::Modern
            }
        };
        if is_modern
            && self
                .state_of
                .as_deref()
                .is_none_or(|it| it == server.name.as_str())
        {
            return Ok(Place::Server);
        }
        if self.state_of.is_some() {
            return Err(Reply::error(id, code::INVALID_PARAMS, UNKNOWN_STATE));
        }
        let client = &self.sink.client;
        let lease = (!server.shares_its_session()).then(|| self.hub.pool.lease(server, client));
        if method == Method::Discover {
            let deadline = Instant::now() + limit;
            let session = match (session, &lease) {
                (Some(session), _) => Ok(session),
                (None, Some(lease)) => lease.isolated_session().session(deadline).await,
                (None, None) => server.session(Era::Legacy, deadline).await,
            };
            let session = session.map_err(failed)?;
            let greeting = session.initialize_answer.result().unwrap_or("{}");
            return Err(Reply::result(id, &discovery::of_legacy(greeting)));
        }
        if modern::is_removed(method) {
            return Err(Reply::unknown_method(id, &self.frame.method_name()));
        }
        let level = client.caller.log_level;
        let Some(lease) = lease else {
            if let Some(level) = level {
                self.hub.want_logs(level).await;
            }
            return Ok(Place::Shared);
        };
        if let Some(level) = level {
            let wanted = lease.want_logs(level).await;
            wanted.map_err(failed)?;
        }
        Ok(Place::Pool(lease))
    }

    fn listening(&self, cancelled: oneshot::Receiver<String>) -> listening::Asked<'_> {
        listening::Asked {
            hub: &self.hub,
            frame: &self.frame,
            sink: &self.sink,
            cancelled,
        }
    }
}

/// What serves a request to one server.
enum Place {
    /// A modern one itself.
    Server,
    /// A legacy one, in the session that it has for all.
    Shared,
    /// A legacy one, in a session for clients like this one.
    Pool(Lease),
}

/// Never run anew what may have run already.
pub const UNKNOWN_STATE: &str =
    "\"requestState\" belongs to no call of this kind that is in progress";
