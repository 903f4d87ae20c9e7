//! The open subscriptions: which stream wants to hear of which changes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::action::Heard;
use crate::message;

/// One open subscription. It ends when it is dropped, or its request is cancelled.
pub(crate) struct Listen {
    /// Raw id of its request.
    pub(super) id: String,
    pub(super) wanted: Filter,
    pub(super) events: mpsc::UnboundedSender<Heard>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    pub tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
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

pub(crate) fn task_changed(listens: &[Listen], id: &str, task: &Value) {
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

pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn notification(id: &str, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({SUBSCRIPTION: raw(id)});
    message::notification(method, &params.to_string())
}

/// An id is a string or an integer.
pub(super) fn raw(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_default()
}
