//! Answers requests of clients without a session.

use std::sync::Arc;

use mainstay_core::{
    era::{
        Caller, code,
        headers::InboundHeaders,
        modern::{self, RequestRefusal},
        questions::{self, QuestionAnswers},
    },
    message::{self, InvalidParams},
    principal::Principal,
    record::{CallOrigin, Door},
};
use mainstay_gateway::calls::{self, CallClient, CallSink, CallStream, Receipt};
use mainstay_transport::Frame;
use tokio::sync::oneshot;

use super::{
    call::StatelessCall,
    context::Stateless,
    request::{StatelessRequest, close},
    suspended::{self, InputRounds, Parts},
};
use crate::mcp::{
    reply::{RpcReply, UNKNOWN_STATE, id},
    sessions::{pool::Seat, session::EndpointScope},
};

/// Checks a request's headers and `_meta`, and returns the client that they describe.
pub fn admit(
    frame: &Frame,
    headers: Option<&InboundHeaders<'_>>,
) -> Result<Caller, RequestRefusal> {
    let method = frame.method_name();
    let (meta, _) = modern::admit(frame.text(), frame.envelope(), &method, headers)?;
    Ok(Caller::modern(&meta)?)
}

/// The reply to a request that was not admitted.
pub fn refusal(id: &str, request_refusal: &RequestRefusal) -> RpcReply {
    let text = refusal_text(id, request_refusal);
    RpcReply::of_error(text, request_refusal.code(), &request_refusal.to_string())
}

pub fn refusal_text(id: &str, request_refusal: &RequestRefusal) -> String {
    message::error_response(
        Some(id),
        request_refusal.code(),
        &request_refusal.to_string(),
        request_refusal.data().as_ref(),
    )
}

/// An admitted request, with its client.
struct AdmittedRequest<'a> {
    stateless: &'a Arc<Stateless>,
    scope: EndpointScope,
    principal: Principal,
    frame: Frame,
    caller: Caller,
    origin: CallOrigin,
    receipt: Receipt,
}

/// Starts to answer an admitted request.
pub fn answer(
    stateless: &Arc<Stateless>,
    scope: EndpointScope,
    door: Door,
    principal: Principal,
    frame: Frame,
    caller: Caller,
) -> StatelessCall {
    let receipt = Receipt::new();
    if let (Some(sole_client), Door::McpStdio) = (stateless.shared.gateway.registry.sole(), door) {
        sole_client.note_request(&caller.capabilities);
    }
    let origin = scope.origin(door, &caller, &principal);
    // A retry with answers is the same call as its first attempt, which was counted.
    let is_call =
        frame.method().is_some_and(calls::is_recorded) && !frame.envelope().brings_answers();
    let clients = &stateless.shared.gateway.stateless_clients;
    clients.note(&origin, caller.revision, is_call);
    let mut request = AdmittedRequest {
        stateless,
        scope,
        principal,
        frame,
        caller,
        origin,
        receipt,
    };
    let answers = match answers(&request.frame) {
        Ok(answers) => answers,
        Err(error) => return request.refuse(&error.to_string()),
    };
    let mut state_server = None;
    if let Some(answers) = answers
        && let Some(state) = answers.state.as_deref()
    {
        if stateless.suspended.knows(state) {
            return request.resume(answers);
        }
        // Not a state of a suspended call, so a modern server has issued it.
        let names = &stateless.shared.names;
        match names.reopened(&request.principal, &request.frame, state) {
            Some(reopened) => {
                request.frame = reopened.frame;
                state_server = Some(reopened.server);
            }
            None => return request.refuse(UNKNOWN_STATE),
        }
    }
    let may_ask = request.frame.method().is_some_and(questions::may_ask);
    if may_ask && request.caller.capabilities.can_be_asked() {
        request.forward_in_rounds(state_server)
    } else {
        request.forward(state_server)
    }
}

impl AdmittedRequest<'_> {
    fn refuse(self, reason: &str) -> StatelessCall {
        let reply = RpcReply::error(id(&self.frame), code::INVALID_PARAMS, reason);
        let shared_state = Arc::clone(&self.stateless.shared);
        let (scope, frame, origin, receipt) = (self.scope, self.frame, self.origin, self.receipt);
        StatelessCall::silent(async move {
            close(
                &shared_state,
                &scope,
                || Arc::new(origin),
                &frame,
                receipt,
                reply,
            )
            .await
        })
    }

    /// Continues the suspended call to which these answers belong.
    fn resume(self, answers: QuestionAnswers) -> StatelessCall {
        let (sink, messages) = plain_sink(self.caller, self.principal, self.origin);
        let shared_state = Arc::clone(&self.stateless.shared);
        let (scope, frame, receipt) = (self.scope, self.frame, self.receipt);
        let origin = Arc::clone(&sink.client.origin);
        let suspended_calls = &self.stateless.suspended;
        let reply_future = suspended_calls.resume(scope.clone(), frame.clone(), answers, sink);
        let reply = async move {
            match reply_future.await {
                Ok(reply) => reply,
                Err(unknown) => {
                    close(&shared_state, &scope, || origin, &frame, receipt, unknown).await
                }
            }
        };
        StatelessCall::joining(reply, messages)
    }

    /// Forwards a request whose server cannot ask its client.
    fn forward(self, state_server: Option<Box<str>>) -> StatelessCall {
        let shared_state = &self.stateless.shared;
        let bound = self.scope.bound(&shared_state.names, &self.principal);
        let log_level = self.caller.log_level;
        let client =
            CallClient::without_questions(self.caller, self.principal, self.origin).bound(bound);
        let (sink, messages) = CallSink::new(Arc::new(client), log_level);
        let (cancel, cancel_signal) = oneshot::channel();
        let request = StatelessRequest {
            stateless: Arc::clone(self.stateless),
            scope: self.scope,
            frame: self.frame,
            sink,
            state_server,
        };
        let reply = request.reply(self.receipt, cancel_signal, Arc::default());
        StatelessCall::new(&shared_state.gateway.calls, reply, messages, cancel)
    }

    /// Forwards a request whose server may ask its client. Each question starts a round.
    fn forward_in_rounds(self, state_server: Option<Box<str>>) -> StatelessCall {
        let shared_state = &self.stateless.shared;
        let bound = self.scope.bound(&shared_state.names, &self.principal);
        let (question_sender, questions) = suspended::questions();
        let log_level = self.caller.log_level;
        // `InputRounds` passes messages from the inner sink to the outer one.
        let (outer_sink, messages) = plain_sink(
            self.caller.clone(),
            self.principal.clone(),
            self.origin.clone(),
        );
        let client = CallClient::in_rounds(
            self.caller,
            self.principal.clone(),
            self.origin,
            question_sender,
        );
        let (sink, call_messages) = CallSink::new(Arc::new(client.bound(bound)), log_level);
        let (cancel, cancel_signal) = oneshot::channel();
        let (cancel_call, call_cancelled) = oneshot::channel();
        let seat = Arc::<Seat>::default();
        let request = StatelessRequest {
            stateless: Arc::clone(self.stateless),
            scope: self.scope.clone(),
            frame: self.frame.clone(),
            sink,
            state_server,
        };
        let reply = request.reply(self.receipt, call_cancelled, Arc::clone(&seat));
        let parts = Parts {
            messages: call_messages,
            questions,
            cancel: cancel_call,
            scope: self.scope,
            principal: self.principal,
            frame: self.frame,
            seat,
        };
        let rounds = InputRounds::new(reply, parts);
        let calls = &shared_state.gateway.calls;
        let suspended_calls = &self.stateless.suspended;
        let reply = suspended_calls.begin(calls.clone(), rounds, outer_sink, cancel_signal);
        StatelessCall::new(calls, reply, messages, cancel)
    }
}

/// Creates a sink for a client that cannot answer questions, and the stream to read its messages.
fn plain_sink(caller: Caller, principal: Principal, origin: CallOrigin) -> (CallSink, CallStream) {
    let log_level = caller.log_level;
    CallSink::new(
        Arc::new(CallClient::without_questions(caller, principal, origin)),
        log_level,
    )
}

/// The client's answers in a request, with the `requestState`; `None` if it has none.
fn answers(frame: &Frame) -> Result<Option<QuestionAnswers>, InvalidParams> {
    if !frame.envelope().brings_answers() || !frame.method().is_some_and(questions::may_ask) {
        return Ok(None);
    }
    questions::answers(frame.params().unwrap_or("{}"))
}
