//! `subscriptions/listen`: which stream wants to hear of which changes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{missing_capability, tasks, typed};
use crate::catalog;
use crate::message::{self, RpcError};
use crate::request::Request;
use crate::session::{Action, Heard};

/// One open subscription. It ends when it is dropped, or its request is cancelled.
pub(crate) struct Listen {
    /// Raw id of its request.
    id: String,
    wanted: Filter,
    events: mpsc::UnboundedSender<Heard>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_ids: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Listen {
    pub fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    fn tell(&self, method: &str, params: &Value) {
        let text = notification(&self.id, method, params);
        // It may have been cancelled just now.
        let _ = self.events.send(Heard::Message(text));
    }
}

/// Acknowledges what the fake can tell of what is wanted, then tells it.
pub(super) fn open(request: &Request) -> Result<Vec<Action>, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        notifications: Filter,
    }
    let Params { notifications } = request.read()?;
    let script = request.script;
    if !notifications.task_ids.is_empty() && !tasks::is_declared(request) {
        return Err(missing_capability(&tasks::capability()));
    }
    let mut shared = request.service.shared();
    let mut wanted = notifications;
    wanted.tools_list_changed &= !script.no_tools;
    wanted.prompts_list_changed &= !script.no_prompts;
    wanted.resources_list_changed &= !script.no_resources;
    wanted
        .resource_subscriptions
        .retain(|uri| !script.no_resources && catalog::read(script, uri).is_ok());
    wanted.task_ids.retain(|id| shared.tasks.contains_key(id));

    let acknowledged = notification(
        request.id,
        "notifications/subscriptions/acknowledged",
        &json!({"notifications": wanted}),
    );
    let meta = json!({"_meta": {SUBSCRIPTION: raw(request.id)}});
    let end = typed("complete", script, request.method, &meta.to_string());
    let (events, heard) = mpsc::unbounded_channel();
    shared.listens.retain(Listen::is_open);
    shared.listens.push(Listen {
        id: request.id.to_owned(),
        wanted,
        events,
    });
    Ok(vec![
        Action::Send(acknowledged),
        Action::Listen(heard, message::result(request.id, &end)),
    ])
}

pub(crate) fn list_changed(listens: &[Listen], list: &str) {
    let method = format!("notifications/{list}/list_changed");
    for listen in listens {
        let wanted = match list {
            "tools" => listen.wanted.tools_list_changed,
            "prompts" => listen.wanted.prompts_list_changed,
            _ => listen.wanted.resources_list_changed,
        };
        if wanted {
            listen.tell(&method, &json!({}));
        }
    }
}

/// Tells of a resource; returns how many are told.
pub(crate) fn updated(listens: &[Listen], uri: &str) -> usize {
    let mut told = 0;
    for listen in listens.iter().filter(|it| it.is_open()) {
        if listen
            .wanted
            .resource_subscriptions
            .iter()
            .any(|it| it == uri)
        {
            listen.tell("notifications/resources/updated", &json!({"uri": uri}));
            told += 1;
        }
    }
    told
}

pub(super) fn task_changed(listens: &[Listen], id: &str, task: &Value) {
    for listen in listens {
        if listen.wanted.task_ids.iter().any(|it| it == id) {
            listen.tell("notifications/tasks", task);
        }
    }
}

/// The resources that are listened to, each as often as it is.
pub(crate) fn resources(listens: &[Listen]) -> Vec<String> {
    let open = listens.iter().filter(|it| it.is_open());
    open.flat_map(|it| it.wanted.resource_subscriptions.clone())
        .collect()
}

/// Ends all in good order: with a response.
pub(crate) fn end(listens: &mut Vec<Listen>) {
    listens.clear();
}

/// Breaks the streams of all that have one of their own.
pub(crate) fn cut(listens: &mut Vec<Listen>) {
    for listen in listens.drain(..) {
        // Cancelled already.
        let _ = listen.events.send(Heard::Cut);
    }
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn notification(id: &str, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({SUBSCRIPTION: raw(id)});
    message::notification(method, &params.to_string())
}

/// An id is a string or an integer.
fn raw(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_default()
}
