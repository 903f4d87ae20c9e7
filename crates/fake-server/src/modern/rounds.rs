//! Multi round-trip requests: what a question becomes where the server may send
//! no requests. The state is remembered only to tell what became of it on its way.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::pending::Pending;
use super::result::typed;
use crate::action::Action;
use crate::message::{self, RpcError, quote};
use crate::questions::{Question, Rounds, Subject, object};
use crate::request::Request;

#[derive(Deserialize)]
struct Retry<'a> {
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<BTreeMap<String, &'a RawValue>>,
    #[serde(rename = "requestState")]
    state: Option<String>,
}

/// Asks the next round, or what is missing of it; in the end answers with all.
pub(crate) fn interview(
    request: &Request,
    subject: &Subject,
    rounds: &Rounds,
) -> Result<Vec<Action>, RpcError> {
    let retry: Retry = request.read()?;
    let has_state = subject.name() != "ask_without_state";
    let fresh = Pending {
        id: request.id.to_owned(),
        asked: asked(request)?,
        round: 0,
        answers: Vec::new(),
    };
    let mut pending = match (&retry.state, &retry.responses) {
        (None, None) => return Ok(vec![ask(request, fresh, &rounds[0], has_state)]),
        (None, Some(_)) if has_state => return Err(lost(request, "requestState is missing")),
        (None, Some(_)) => fresh,
        (Some(_), _) if !has_state => return Err(lost(request, "no requestState was given")),
        (Some(state), _) => resume(request, &fresh, state)?,
    };
    let responses = retry.responses.unwrap_or_default();
    let known = rounds.iter().flatten().map(|it| it.key);
    let answers = known.filter_map(|key| Some((key, responses.get(key)?.get().to_owned())));
    for (key, answer) in answers {
        if !pending.answers.iter().any(|(known, _)| *known == key) {
            pending.answers.push((key, answer));
        }
    }
    let open: Vec<Question> = rounds[pending.round]
        .iter()
        .filter(|it| !pending.answers.iter().any(|(key, _)| *key == it.key))
        .cloned()
        .collect();
    if !open.is_empty() {
        return Ok(vec![ask(request, pending, &open, has_state)]);
    }
    pending.round += 1;
    if let Some(next) = rounds.get(pending.round) {
        // A round may ask what an earlier one asked.
        pending
            .answers
            .retain(|(key, _)| next.iter().all(|it| it.key != *key));
        return Ok(vec![ask(request, pending, next, has_state)]);
    }
    let answers: Vec<_> = pending
        .answers
        .iter()
        .map(|(key, answer)| (*key, answer.as_str()))
        .collect();
    let answer = request.answer(&subject.result(&object(&answers)));
    Ok(vec![Action::Finish(subject.name().to_owned()), answer])
}

/// Answers `input_required`.
fn ask(request: &Request, pending: Pending, questions: &[Question], has_state: bool) -> Action {
    let mut members = Vec::new();
    if !questions.is_empty() {
        let questions: Vec<(&str, String)> = questions
            .iter()
            .map(|it| {
                let (method, params) = (quote(&it.method), &it.params);
                (
                    it.key,
                    format!(r#"{{"method":{method},"params":{params}}}"#),
                )
            })
            .collect();
        let questions: Vec<_> = questions
            .iter()
            .map(|(key, it)| (*key, it.as_str()))
            .collect();
        members.push(format!(r#""inputRequests":{}"#, object(&questions)));
    }
    if has_state {
        // Everything that is easily lost on the way.
        let serial = request.service.serial();
        let state = format!(" {serial}/{:x}\t\"\\/\u{1}é🦀%2B+= ", std::process::id());
        members.push(format!(r#""requestState":{}"#, quote(&state)));
        request.service.shared().pending.insert(state, pending);
    }
    let result = format!("{{{}}}", members.join(","));
    let result = typed("input_required", request.script, request.method, &result);
    Action::Send(message::result(request.id, &result))
}

/// Finds out what the state stands for, and that the request is otherwise the one that got it.
fn resume(request: &Request, retry: &Pending, state: &str) -> Result<Pending, RpcError> {
    let known = request.service.shared().pending.get(state).cloned();
    let mut pending = known.ok_or_else(|| lost(request, "requestState is not what was given"))?;
    if pending.asked != retry.asked {
        return Err(lost(
            request,
            "method or params are not those of the request",
        ));
    }
    if pending.id == retry.id {
        return Err(lost(request, "the retry has the id of the request"));
    }
    pending.id.clone_from(&retry.id);
    Ok(pending)
}

fn asked(request: &Request) -> Result<(String, Value), RpcError> {
    let mut params: Value = request.read()?;
    if let Some(params) = params.as_object_mut() {
        params
            .retain(|key, _| !["_meta", "inputResponses", "requestState"].contains(&key.as_str()));
    }
    Ok((request.method.to_owned(), params))
}

/// Fails loudly, with what came.
fn lost(request: &Request, why: &str) -> RpcError {
    let came: Value = serde_json::from_str(request.params).unwrap_or_default();
    let given: Vec<_> = request.service.shared().pending.keys().cloned().collect();
    RpcError {
        data: Some(json!({"came": came["requestState"], "given": given})),
        ..RpcError::invalid_params(format!("broken retry: {why}"))
    }
}
