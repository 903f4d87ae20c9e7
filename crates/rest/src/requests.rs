//! Requests of servers that wait for a person's answer.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::{
    event::Settled,
    failure::{Failure, FailureKind},
    principal::Principal,
    redact,
};
use mainstay_doorway::json_views::servers::{Disclosure, open_question};
use mainstay_gateway::supervisor::{Cause, Queued};
use mainstay_platform::utc;

use super::{RestDoor, address::Path, body::Body, lists, refusal::Refusal};

/// The error code for a request that a person refuses. JSON-RPC leaves the code to the
/// implementation (specification, client/sampling).
const REFUSED_BY_HAND: i64 = -1;

pub async fn list(State(door): State<RestDoor>) -> Json<api::ServerRequests> {
    let to_api = |queued: Queued| api::ServerRequest {
        id: queued.id,
        server: queued.server.to_string(),
        method: queued.method,
        params: lists::raw(&queued.params),
        asked_at: utc::rfc3339(queued.asked_at),
        cause: queued.cause.map(cause),
    };
    let queue = door.gateway.registry.queue();
    let client_questions = queue.open_questions().of_clients().into_iter();
    Json(api::ServerRequests {
        requests: queue.list().into_iter().map(to_api).collect(),
        clients: client_questions
            .map(|open| open_question(open, Disclosure::Operator))
            .collect(),
    })
}

/// The client and the call that caused a request. The client's name is redacted.
fn cause(cause: Cause) -> api::RequestCause {
    api::RequestCause {
        name: cause.name.map(|name| name.to_string()),
        client: cause.client.map(|name| redact::redact(&name).into_owned()),
        principal: (cause.principal != Principal::Anonymous).then(|| cause.principal.to_string()),
    }
}

pub async fn answer(
    State(door): State<RestDoor>,
    Path(id): Path<u64>,
    Body(reply): Body<api::Reply>,
) -> Result<Json<api::Replied>, Refusal> {
    let is_object = |raw: &api::Raw| raw.get().starts_with('{');
    let reply = match (reply.result, reply.error) {
        (Some(result), None) if is_object(&result) => Ok(result),
        (Some(_), None) => {
            let reason = "\"result\" must be an object, as the specification has it for the method";
            return Err(Refusal::Malformed(reason.to_owned()));
        }
        (None, Some(reason)) => Err(reason),
        (Some(_), Some(_)) => {
            let reason = "\"result\" and \"error\" exclude each other";
            return Err(Refusal::Malformed(reason.to_owned()));
        }
        (None, None) => return Err(Refusal::MissingParameter("result")),
    };
    let outcome = match &reply {
        Ok(_) => Settled::Answered,
        Err(_) => Settled::Refused,
    };
    let removed = door.gateway.registry.queue().take(id, outcome);
    let question = removed.ok_or_else(|| {
        let message = format!("no request {id} is waiting: it was answered, its time is over, or its server has disconnected");
        Failure::new(FailureKind::RequestNotFound, message).with("id", id)
    })?;
    match reply {
        Ok(result) => question.result(result.get()),
        Err(reason) => question.refuse(REFUSED_BY_HAND, &reason),
    }
    Ok(Json(api::Replied { success: true, id }))
}
