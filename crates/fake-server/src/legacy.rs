//! The legacy era: sessions that `initialize` opens.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::ServiceAction;
use crate::bend::Bend;
use crate::bent;
use crate::catalog;
use crate::message::{self, RpcError, RpcMessage};
use crate::methods;
use crate::request::{ClientDescription, ReceivedRequest, string};
use crate::revision::{REVISIONS, Revision, RevisionEra};
use crate::script::{Probed, Script};
use crate::service::Service;
use crate::session::FakeSession;

/// Methods that require `initialize`.
const SESSION_METHODS: [&str; 11] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
];

/// Returns the actions for one message.
pub(crate) fn receive(
    service: &Arc<Service>,
    session: &Arc<FakeSession>,
    message: RpcMessage,
) -> Vec<ServiceAction> {
    if let RpcMessage::Request { id, .. } = &message
        && let Some(bent_answer) = bent::act(service, &service.script(), &message)
    {
        return bent_answer
            .unwrap_or_else(|error| vec![ServiceAction::Send(message::error(id, &error))]);
    }
    match message {
        RpcMessage::Request { id, method, params } => {
            let (script, client) = (service.script(), ClientDescription::from_session(session));
            let request = ReceivedRequest {
                service,
                session,
                script: &script,
                id,
                method: &method,
                params,
                client: &client,
            };
            answer(&request)
                .unwrap_or_else(|error| vec![ServiceAction::Send(message::error(id, &error))])
        }
        RpcMessage::Notification { method, params } => {
            let mut actions = notified(service, session, &method, params);
            if service.script().bends(Bend::AnswersNotifications) {
                let error = RpcError::method_not_found(&method);
                actions.push(ServiceAction::Send(message::error("null", &error)));
            }
            actions
        }
        RpcMessage::Response { id, answer } => {
            session.answered(id, answer);
            Vec::new()
        }
    }
}

pub(crate) fn notified(
    service: &Service,
    session: &FakeSession,
    method: &str,
    params: &str,
) -> Vec<ServiceAction> {
    match method {
        "notifications/initialized" if service.script().exit_after_initialize => {
            return vec![ServiceAction::Exit(1)];
        }
        "notifications/cancelled" => {
            let params: Value = serde_json::from_str(params).unwrap_or_default();
            let id = params["requestId"].to_string();
            if !service.script().ignore_cancel {
                session.cancel(&id);
            }
            service.shared().cancelled.push(id);
        }
        _ => {}
    }
    Vec::new()
}

fn answer(request: &ReceivedRequest) -> Result<Vec<ServiceAction>, RpcError> {
    let (script, session, method) = (request.script, request.session, request.method);
    if catalog::is_absent(script, method) {
        return Err(RpcError::method_not_found(method));
    }
    let is_early = session.state().revision.is_none() && !script.stateless;
    if is_early && SESSION_METHODS.contains(&method) {
        return Err(RpcError::new(-32600, "not initialized"));
    }
    match method {
        "initialize" => return methods::greet(request, || initialize(request)),
        "server/discover" => match script.on_discover {
            Some(Probed::Silence) => return Ok(vec![ServiceAction::Hang]),
            Some(Probed::Exit) => return Ok(vec![ServiceAction::Exit(1)]),
            Some(Probed::Empty) => {}
            None => return Err(RpcError::method_not_found(method)),
        },
        "ping" if script.no_ping => return Err(RpcError::method_not_found(method)),
        "ping" if script.ignore_ping => return Ok(vec![ServiceAction::Hang]),
        "ping" => {}
        "resources/subscribe" => {
            let params: Value = request.read()?;
            let uri = string(&params, "uri")?;
            catalog::read(script, uri)?;
            let mut state = session.state();
            *state.subscriptions.entry(uri.to_owned()).or_default() += 1;
        }
        "resources/unsubscribe" => {
            let params: Value = request.read()?;
            let uri = string(&params, "uri")?;
            session.state().subscriptions.remove(uri);
        }
        "logging/setLevel" => {
            let params: Value = request.read()?;
            session.state().level = catalog::level_index(string(&params, "level")?)?;
        }
        _ => {
            let actions = methods::answer(request)?;
            return actions.ok_or_else(|| RpcError::method_not_found(method));
        }
    }
    Ok(vec![request.answer("{}")])
}

fn initialize(request: &ReceivedRequest) -> Result<Value, RpcError> {
    let script = request.script;
    let params: Value = request.read()?;
    let revision = negotiate(script, string(&params, "protocolVersion")?);
    {
        let mut state = request.session.state();
        state.revision = Some(revision.clone());
        state.client = Some(request.params.to_owned());
        state.spoiled = script.bends(Bend::SpoiledLists)
            && std::mem::take(&mut request.service.shared().probed);
    }
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": catalog::capabilities(script, &revision),
        "serverInfo": catalog::server_info(script),
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    Ok(result)
}

/// Returns the requested revision if it is supported, else the newest. `--revision` overrides both.
fn negotiate(script: &Script, requested_revision: &str) -> String {
    if let Some(revision) = &script.revision {
        return revision.clone();
    }
    let pinned_revisions = script
        .pinned()
        .into_iter()
        .filter(|revision| revision.era() == RevisionEra::Legacy);
    let mut supported: Vec<&str> = pinned_revisions.map(Revision::as_str).collect();
    if supported.is_empty() {
        supported.extend(REVISIONS);
    }
    let newest_revision = supported[supported.len() - 1];
    let same_revision = supported
        .into_iter()
        .find(|revision| *revision == requested_revision);
    same_revision.unwrap_or(newest_revision).to_owned()
}
