//! Answers requests of clients without a session.

use std::sync::Arc;

use mainstay_core::{
    era::{
        Caller, Era, code,
        headers::Inbound,
        listen::completed,
        modern::{self, RequestRefusal},
        questions::{self, Answers},
    },
    message::{self, InvalidParams, Method},
    principal::Principal,
    record::{Door, Origin},
};
use mainstay_gateway::{
    Gateway, View,
    calls::{self, CallSink, Client, Closed, Receipt, RequestedCall, Upstream},
    registry::Profile,
    supervisor::Server,
};
use mainstay_transport::Frame;
use tokio::{sync::oneshot, time::Instant};

use super::{
    call::StatelessCall,
    context::Stateless,
    discovery,
    listening::{self, ListenRequest},
    suspended::{self, InputRounds, Parts},
};
use crate::mcp::{
    endpoint::{
        aggregate, isolation,
        request::RequestContext,
        transparent::{self, Forwarded},
    },
    reply::{RpcReply, UNKNOWN_STATE, id},
    sessions::{
        pool::{Lease, Seat},
        session::EndpointScope,
    },
    shared::SharedState,
};

/// The client that a request describes, if its headers and `_meta` are valid.
pub fn admit(frame: &Frame, headers: Option<&Inbound<'_>>) -> Result<Caller, RequestRefusal> {
    let method = frame.method_name();
    let (meta, _) = modern::admit(frame.text(), frame.envelope(), &method, headers)?;
    Ok(Caller::modern(&meta)?)
}

/// The reply to a request that was not admitted.
pub fn refusal(id: &str, refused: &RequestRefusal) -> RpcReply {
    let text = refusal_text(id, refused);
    RpcReply::of_error(text, refused.code(), &refused.to_string())
}

pub fn refusal_text(id: &str, refused: &RequestRefusal) -> String {
    message::error_response(
        Some(id),
        refused.code(),
        &refused.to_string(),
        refused.data().as_ref(),
    )
}

/// Closes the receipt of a request.
pub async fn close(
    shared: &SharedState,
    scope: &EndpointScope,
    origin: impl FnOnce() -> Arc<Origin>,
    frame: &Frame,
    receipt: Receipt,
    reply: RpcReply,
) -> Closed<RpcReply> {
    let requested_call = || Some(RequestedCall::of(frame)?.at(scope.server()));
    receipt
        .close(&shared.gateway.calls, reply, origin, requested_call)
        .await
}

/// Begins to answer a request that was admitted.
pub fn answer(
    stateless: &Arc<Stateless>,
    scope: EndpointScope,
    door: Door,
    principal: Principal,
    frame: Frame,
    caller: Caller,
) -> StatelessCall {
    let receipt = Receipt::new();
    if let (Some(sole), Door::McpStdio) = (stateless.shared.gateway.registry.sole(), door) {
        sole.hear(&caller.capabilities);
    }
    let level = caller.log_level;
    let origin = scope.origin(door, &caller, &principal);
    // A request that brings answers was counted at its first attempt.
    let is_call =
        frame.method().is_some_and(calls::is_recorded) && !frame.envelope().brings_answers();
    let clients = &stateless.shared.gateway.stateless_clients;
    clients.note(&origin, caller.revision, is_call);
    let refuse = |scope: EndpointScope, frame: Frame, origin, receipt, reason: &str| {
        let reply = RpcReply::error(id(&frame), code::INVALID_PARAMS, reason);
        let shared = Arc::clone(&stateless.shared);
        StatelessCall::silent(async move {
            close(&shared, &scope, || Arc::new(origin), &frame, receipt, reply).await
        })
    };
    let answers = match answers(&frame) {
        Ok(answers) => answers,
        Err(error) => return refuse(scope, frame, origin, receipt, &error.to_string()),
    };
    let state = answers
        .as_ref()
        .and_then(|answers| answers.state.as_deref());
    let is_ours = state.is_some_and(|state| stateless.suspended.knows(state));
    // A state that a modern server issued: it is sealed for one principal.
    let (frame, state_server) = match state.filter(|_| !is_ours) {
        None => (frame, None),
        Some(state) => match stateless.shared.names.reopened(&principal, &frame, state) {
            Some(reopened) => (reopened.frame, Some(reopened.server)),
            None => return refuse(scope, frame, origin, receipt, UNKNOWN_STATE),
        },
    };
    if let Some(answers) = answers.filter(|_| is_ours) {
        let (sink, messages) =
            CallSink::new(Arc::new(Client::unasked(caller, principal, origin)), level);
        let (shared, origin) = (
            Arc::clone(&stateless.shared),
            Arc::clone(&sink.client.origin),
        );
        let resumed = stateless
            .suspended
            .resume(scope.clone(), frame.clone(), answers, sink);
        let reply = async move {
            match resumed.await {
                Ok(reply) => reply,
                Err(unknown) => close(&shared, &scope, || origin, &frame, receipt, unknown).await,
            }
        };
        return StatelessCall::joining(reply, messages);
    }
    let may_ask = frame.method().is_some_and(questions::may_ask);
    let (cancel, cancelled) = oneshot::channel();
    let request = |sink| Request {
        stateless: Arc::clone(stateless),
        scope: scope.clone(),
        frame: frame.clone(),
        sink,
        state_server: state_server.clone(),
    };
    let bound = scope.bound(&stateless.shared.names, &principal);
    if !may_ask || !caller.capabilities.can_be_asked() {
        let client = Client::unasked(caller, principal, origin).bound(bound);
        let (sink, messages) = CallSink::new(Arc::new(client), level);
        let reply = request(sink).reply(receipt, cancelled, Arc::default());
        return StatelessCall::new(&stateless.shared.gateway.calls, reply, messages, cancel);
    }
    let (question_sender, questions) = suspended::questions();
    // Messages of the call are translated once, between the two sinks.
    let outer_client = Client::unasked(caller.clone(), principal.clone(), origin.clone());
    let (sink, messages) = CallSink::new(Arc::new(outer_client), level);
    let client = Client::in_rounds(caller, principal.clone(), origin, question_sender).bound(bound);
    let (inner, call_messages) = CallSink::new(Arc::new(client), level);
    let (cancel_call, call_cancelled) = oneshot::channel();
    let seat = Arc::<Seat>::default();
    let reply = request(inner).reply(receipt, call_cancelled, Arc::clone(&seat));
    let rounds = InputRounds::new(
        reply,
        Parts {
            messages: call_messages,
            questions,
            cancel: cancel_call,
            scope,
            principal,
            frame,
            seat,
        },
    );
    let reply = stateless.suspended.begin(
        stateless.shared.gateway.calls.clone(),
        rounds,
        sink,
        cancelled,
    );
    StatelessCall::new(&stateless.shared.gateway.calls, reply, messages, cancel)
}

/// The answers and the state that a request brings from earlier attempts.
fn answers(frame: &Frame) -> Result<Option<Answers>, InvalidParams> {
    if !frame.envelope().brings_answers() || !frame.method().is_some_and(questions::may_ask) {
        return Ok(None);
    }
    questions::answers(frame.params().unwrap_or("{}"))
}

/// One request that is being answered.
struct Request {
    stateless: Arc<Stateless>,
    scope: EndpointScope,
    frame: Frame,
    sink: CallSink,
    /// The modern server that issued the `requestState` of the request, if it has one.
    state_server: Option<Box<str>>,
}

impl Request {
    fn gateway(&self) -> &Gateway {
        &self.stateless.shared.gateway
    }

    async fn reply(
        self,
        receipt: Receipt,
        cancelled: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> Closed<RpcReply> {
        let reply = self.forward(&receipt, cancelled, seat).await;
        let origin = || Arc::clone(&self.sink.client.origin);
        close(
            &self.stateless.shared,
            &self.scope,
            origin,
            &self.frame,
            receipt,
            reply,
        )
        .await
    }

    async fn forward(
        &self,
        receipt: &Receipt,
        cancelled: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> RpcReply {
        let id = id(&self.frame);
        let address = match message::address(self.frame.text(), self.frame.envelope()) {
            Ok(address) => address,
            Err(error) => return RpcReply::error(id, code::INVALID_PARAMS, &error.to_string()),
        };
        if let (EndpointScope::Profile(_), Some(level)) =
            (&self.scope, self.sink.client.caller.log_level)
        {
            self.stateless.shared.request_log_level(level).await;
        }
        let method = self.frame.method().unwrap_or(Method::Other);
        let reply = match &self.scope {
            EndpointScope::Profile(profile) if method == Method::Discover => {
                self.gateway().registry.profile_settled(profile).await;
                let view = self.view(profile);
                RpcReply::result(id, &discovery::profile_result(self.gateway(), &view))
            }
            EndpointScope::Profile(profile) if method == Method::Listen => {
                let view = self.view(profile);
                listening::listen_to_profile(self.listening(cancelled), &view).await
            }
            EndpointScope::Profile(profile) => {
                let context = RequestContext {
                    shared: &self.stateless.shared,
                    view: self.view(profile),
                    frame: &self.frame,
                    address: &address,
                    cancelled,
                    sink: self.sink.clone(),
                    receipt,
                    state_server: self.state_server.as_deref(),
                    session_source: isolation::SessionSource::Pool(&seat),
                };
                aggregate::answer(context).await
            }
            EndpointScope::One(server) => {
                let principal = &self.sink.client.principal;
                let view = self.gateway().view_of_server(server, principal);
                let upstream = match self.upstream(server, method).await {
                    Ok(Serves::Server) => Upstream::Shared(Arc::clone(server)),
                    Ok(Serves::Shared) if method == Method::Listen => {
                        return listening::listen_to_shared_session(
                            self.listening(cancelled),
                            server,
                            &view,
                        )
                        .await;
                    }
                    Ok(Serves::Shared) => Upstream::Shared(Arc::clone(server)),
                    Ok(Serves::Pool(lease)) if method == Method::Listen => {
                        return listening::listen_to_pooled_session(
                            self.listening(cancelled),
                            lease,
                            &view,
                        )
                        .await;
                    }
                    Ok(Serves::Pool(lease)) => {
                        let isolated_session = lease.isolated_session();
                        // The seat is empty, because a request to one server leases only once.
                        drop(seat.take(lease));
                        Upstream::IsolatedSession(isolated_session)
                    }
                    Err(reply) => return reply,
                };
                let forwarded = Forwarded {
                    shared: &self.stateless.shared,
                    view,
                    frame: &self.frame,
                    id,
                    address: &address,
                    cancelled,
                    sink: self.sink.clone(),
                    receipt,
                };
                transparent::answer(upstream, forwarded).await
            }
        };
        if method == Method::Listen && reply.error.is_none() {
            return RpcReply::result(id, &completed(id));
        }
        reply.with_modern_code(id, method)
    }

    fn view(&self, profile: &Arc<Profile>) -> View {
        let client = &self.sink.client;
        self.gateway()
            .view(profile, &client.principal, &client.caller)
    }

    /// Selects the session that answers for one server: the shared session of a modern server, or a
    /// session of a legacy server for clients like this one. Returns the reply if Mainstay answers
    /// itself.
    async fn upstream(&self, server: &Arc<Server>, method: Method) -> Result<Serves, RpcReply> {
        let id = id(&self.frame);
        self.gateway().registry.attempted(server).await;
        let limit = server.config().longest_start();
        let failed = |failure| RpcReply::failure(id, &failure);
        let (session, is_known_modern) = (server.view().session, server.eras().modern);
        let is_modern = match (&session, is_known_modern) {
            (Some(session), _) => session.era() == Era::Modern,
            (None, Some(is_modern)) => is_modern,
            (None, None) => {
                let found = server.session(Era::Modern, Instant::now() + limit).await;
                found.map_err(failed)?.era() == Era::Modern
            }
        };
        if is_modern
            && self
                .state_server
                .as_deref()
                .is_none_or(|issuer| issuer == server.name.as_str())
        {
            return Ok(Serves::Server);
        }
        if self.state_server.is_some() {
            return Err(RpcReply::error(id, code::INVALID_PARAMS, UNKNOWN_STATE));
        }
        let client = &self.sink.client;
        let lease = (!server.shares_its_session())
            .then(|| self.stateless.shared.pool.lease(server, client));
        if method == Method::Discover {
            let deadline = Instant::now() + limit;
            let session = match (session, &lease) {
                (Some(session), _) => Ok(session),
                (None, Some(lease)) => lease.isolated_session().session(deadline).await,
                (None, None) => server.session(Era::Legacy, deadline).await,
            };
            let session = session.map_err(failed)?;
            let greeting = session.initialize_answer.result().unwrap_or("{}");
            return Err(RpcReply::result(id, &discovery::legacy_result(greeting)));
        }
        if modern::is_removed(method) {
            return Err(RpcReply::unknown_method(id, &self.frame.method_name()));
        }
        let level = client.caller.log_level;
        let Some(lease) = lease else {
            if let Some(level) = level {
                self.stateless.shared.request_log_level(level).await;
            }
            return Ok(Serves::Shared);
        };
        if let Some(level) = level {
            lease.request_log_level(level).await.map_err(failed)?;
        }
        Ok(Serves::Pool(lease))
    }

    fn listening(&self, cancelled: oneshot::Receiver<String>) -> ListenRequest<'_> {
        ListenRequest {
            stateless: &self.stateless,
            frame: &self.frame,
            sink: &self.sink,
            cancelled,
        }
    }
}

/// The session that serves a request to one server.
enum Serves {
    /// The shared session of a modern server.
    Server,
    /// The shared session of a legacy server.
    Shared,
    /// A pooled session of a legacy server.
    Pool(Lease),
}
