//! Open subscriptions and their filters.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::action::SubscriptionEvent;
use crate::message;

/// One open subscription. It ends on drop, or when its request is cancelled.
pub(crate) struct ListenStream {
    /// Raw id of its request.
    pub(super) id: String,
    pub(super) filter: ListenFilter,
    pub(super) events: mpsc::UnboundedSender<SubscriptionEvent>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenFilter {
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

impl ListenStream {
    pub fn is_open(&self) -> bool {
        !self.events.is_closed()
    }

    fn tell(&self, method: &str, params: &Value) {
        let text = notification(&self.id, method, params);
        // The subscription may have been cancelled.
        let _ = self.events.send(SubscriptionEvent::Message(text));
    }
}

pub(crate) fn list_changed(listens: &[ListenStream], list: &str) {
    let method = format!("notifications/{list}/list_changed");
    for listen in listens {
        let is_subscribed = match list {
            "tools" => listen.filter.tools_list_changed,
            "prompts" => listen.filter.prompts_list_changed,
            _ => listen.filter.resources_list_changed,
        };
        if is_subscribed {
            listen.tell(&method, &json!({}));
        }
    }
}

/// Reports a changed resource. Returns the number of notified streams.
pub(crate) fn updated(listens: &[ListenStream], uri: &str) -> usize {
    let mut count = 0;
    for listen in listens.iter().filter(|listen| listen.is_open()) {
        if listen
            .filter
            .resource_subscriptions
            .iter()
            .any(|subscribed_uri| subscribed_uri == uri)
        {
            listen.tell("notifications/resources/updated", &json!({"uri": uri}));
            count += 1;
        }
    }
    count
}

pub(crate) fn task_changed(listens: &[ListenStream], id: &str, task: &Value) {
    for listen in listens {
        if listen
            .filter
            .task_ids
            .iter()
            .any(|subscribed_id| subscribed_id == id)
        {
            listen.tell("notifications/tasks", task);
        }
    }
}

/// Returns the resources of all subscriptions, with duplicates.
pub(crate) fn resources(listens: &[ListenStream]) -> Vec<String> {
    let open_listens = listens.iter().filter(|listen| listen.is_open());
    open_listens
        .flat_map(|listen| listen.filter.resource_subscriptions.clone())
        .collect()
}

/// Ends all streams with a response.
pub(crate) fn end(listens: &mut Vec<ListenStream>) {
    listens.clear();
}

/// Breaks all streams that have their own connection.
pub(crate) fn cut(listens: &mut Vec<ListenStream>) {
    for listen in listens.drain(..) {
        // The subscription may have been cancelled.
        let _ = listen.events.send(SubscriptionEvent::Cut);
    }
}

pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) fn notification(id: &str, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({SUBSCRIPTION: raw(id)});
    message::notification(method, &params.to_string())
}

/// Parses a raw id, which is a string or an integer.
pub(super) fn raw(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_default()
}
