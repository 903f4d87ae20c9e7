//! Multi round-trip requests: questions in the results of requests. The state is stored to check
//! that the client returns it unchanged.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::pending::PendingRequest;
use super::result::typed;
use crate::action::ServiceAction;
use crate::message::{self, RpcError, quote};
use crate::questions::{ClientQuestion, Rounds, Subject, object};
use crate::request::ReceivedRequest;

#[derive(Deserialize)]
struct Retry<'a> {
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<BTreeMap<String, &'a RawValue>>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

/// Asks the questions of the next round, or the open questions of this round. Answers the request
/// after the last round.
pub(crate) fn interview(
    request: &ReceivedRequest,
    subject: &Subject,
    rounds: &Rounds,
) -> Result<Vec<ServiceAction>, RpcError> {
    let retry: Retry = request.read()?;
    let has_state = subject.name() != "ask_without_state";
    let new_request = PendingRequest {
        id: request.id.to_owned(),
        request: request_key(request)?,
        round: 0,
        answers: Vec::new(),
    };
    let mut pending_request = match (&retry.state, &retry.responses) {
        (None, None) => return Ok(vec![ask(request, new_request, &rounds[0], has_state)]),
        (None, Some(_)) if has_state => return Err(lost(request, "requestState is missing")),
        (None, Some(_)) => new_request,
        (Some(_), _) if !has_state => return Err(lost(request, "no requestState was given")),
        (Some(state), _) => resume(request, &new_request, state)?,
    };
    let responses = retry.responses.unwrap_or_default();
    let keys = rounds.iter().flatten().map(|question| question.key);
    let answers = keys.filter_map(|key| Some((key, responses.get(key)?.get().to_owned())));
    for (key, answer) in answers {
        if !pending_request
            .answers
            .iter()
            .any(|(earlier_key, _)| *earlier_key == key)
        {
            pending_request.answers.push((key, answer));
        }
    }
    let open: Vec<ClientQuestion> = rounds[pending_request.round]
        .iter()
        .filter(|question| {
            !pending_request
                .answers
                .iter()
                .any(|(key, _)| *key == question.key)
        })
        .cloned()
        .collect();
    if !open.is_empty() {
        return Ok(vec![ask(request, pending_request, &open, has_state)]);
    }
    pending_request.round += 1;
    if let Some(next_round) = rounds.get(pending_request.round) {
        // A round may repeat an earlier question.
        pending_request
            .answers
            .retain(|(key, _)| next_round.iter().all(|question| question.key != *key));
        return Ok(vec![ask(request, pending_request, next_round, has_state)]);
    }
    let answers: Vec<_> = pending_request
        .answers
        .iter()
        .map(|(key, answer)| (*key, answer.as_str()))
        .collect();
    let answer = request.answer(&subject.result(&object(&answers)));
    Ok(vec![
        ServiceAction::Finish(subject.name().to_owned()),
        answer,
    ])
}

/// Answers with `input_required` and these questions.
fn ask(
    request: &ReceivedRequest,
    pending_request: PendingRequest,
    questions: &[ClientQuestion],
    has_state: bool,
) -> ServiceAction {
    let mut members = Vec::new();
    if !questions.is_empty() {
        let questions: Vec<(&str, String)> = questions
            .iter()
            .map(|question| {
                let (method, params) = (quote(&question.method), &question.params);
                (
                    question.key,
                    format!(r#"{{"method":{method},"params":{params}}}"#),
                )
            })
            .collect();
        let questions: Vec<_> = questions
            .iter()
            .map(|(key, text)| (*key, text.as_str()))
            .collect();
        members.push(format!(r#""inputRequests":{}"#, object(&questions)));
    }
    if has_state {
        // The state contains characters that clients often lose.
        let serial = request.service.serial();
        let state = format!(" {serial}/{:x}\t\"\\/\u{1}é🦀%2B+= ", std::process::id());
        members.push(format!(r#""requestState":{}"#, quote(&state)));
        request
            .service
            .shared()
            .pending
            .insert(state, pending_request);
    }
    let result = format!("{{{}}}", members.join(","));
    let result = typed("input_required", request.script, request.method, &result);
    ServiceAction::Send(message::result(request.id, &result))
}

/// Finds the request of the state. A retry must have the same method and params, and another id.
fn resume(
    request: &ReceivedRequest,
    retry: &PendingRequest,
    state: &str,
) -> Result<PendingRequest, RpcError> {
    let earlier_request = request.service.shared().pending.get(state).cloned();
    let mut pending_request =
        earlier_request.ok_or_else(|| lost(request, "requestState is not what was given"))?;
    if pending_request.request != retry.request {
        return Err(lost(
            request,
            "method or params are not those of the request",
        ));
    }
    if pending_request.id == retry.id {
        return Err(lost(request, "the retry has the id of the request"));
    }
    pending_request.id.clone_from(&retry.id);
    Ok(pending_request)
}

fn request_key(request: &ReceivedRequest) -> Result<(String, Value), RpcError> {
    let mut params: Value = request.read()?;
    if let Some(params) = params.as_object_mut() {
        params
            .retain(|key, _| !["_meta", "inputResponses", "requestState"].contains(&key.as_str()));
    }
    Ok((request.method.to_owned(), params))
}

/// The error for a wrong retry, with the received state and all issued states.
fn lost(request: &ReceivedRequest, reason: &str) -> RpcError {
    let params: Value = serde_json::from_str(request.params).unwrap_or_default();
    let states: Vec<_> = request.service.shared().pending.keys().cloned().collect();
    RpcError {
        data: Some(json!({"came": params["requestState"], "given": states})),
        ..RpcError::invalid_params(format!("broken retry: {reason}"))
    }
}
