//! `subscriptions/listen`: the changes that a client subscribes to, and the notifications for them
//! (2026-07-28, "Subscriptions").

use serde_json::{Map, Value, json};

use super::{
    Caller, Capabilities, request,
    result::{COMPLETE, RESULT_TYPE},
};
use crate::message::{self, InvalidParams, JsonObjectEditor, Method, meta::SUBSCRIPTION_ID};

/// Limits for one stream: the number of resources and tasks, and the total size of their names in
/// bytes. The names are stored until the stream ends.
const MAX_NAMED: usize = 1000;
const MAX_NAMED_BYTES: usize = 1024 * 1024;

/// The member of a filter with the ids of tasks.
pub(super) const TASKS: &str = "taskIds";

/// The notifications that a listen stream carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenFilter {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    /// Resources whose updates are requested.
    pub uris: Vec<String>,
    /// Tasks whose changes are requested. This needs the tasks extension.
    pub tasks: Vec<String>,
}

impl ListenFilter {
    /// Reads the `params` (JSON text) of the request. Ignores unknown kinds of notifications.
    pub fn read(params: &str) -> Result<Self, InvalidParams> {
        let missing_filter = InvalidParams("\"notifications\" must be an object");
        let notifications =
            message::member(params, "notifications").ok_or(missing_filter.clone())?;
        let notifications: Map<String, Value> =
            serde_json::from_str(notifications).map_err(|_| missing_filter)?;
        let flag = |name: &str| notifications.get(name) == Some(&Value::Bool(true));
        let strings = |name: &str, refusal| match notifications.get(name) {
            None => Ok(Vec::new()),
            Some(list) => serde_json::from_value(list.clone()).map_err(|_| InvalidParams(refusal)),
        };
        let uris = strings(
            "resourceSubscriptions",
            "\"resourceSubscriptions\" must be an array of strings",
        )?;
        let tasks = strings(TASKS, "\"taskIds\" must be an array of strings")?;
        let bytes = uris.iter().chain(&tasks).map(String::len).sum::<usize>();
        if uris.len() + tasks.len() > MAX_NAMED || bytes > MAX_NAMED_BYTES {
            return Err(InvalidParams("too many resources and tasks for one stream"));
        }
        Ok(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            uris,
            tasks,
        })
    }

    /// Returns the part of this filter that a legacy server with these capabilities supports.
    #[must_use]
    pub fn supported_by(self, server: &Capabilities) -> Self {
        Self {
            tools: self.tools && server.tools_changed,
            prompts: self.prompts && server.prompts_changed,
            resources: self.resources && server.resources_changed,
            uris: if server.subscribe {
                self.uris
            } else {
                Vec::new()
            },
            // Legacy servers do not have the tasks of the extension (SEP-2663).
            tasks: Vec::new(),
        }
    }

    /// True if the filter includes this change of a list.
    pub fn includes(&self, notification: Method) -> bool {
        match notification {
            Method::ToolsChanged => self.tools,
            Method::PromptsChanged => self.prompts,
            Method::ResourcesChanged => self.resources,
            _ => false,
        }
    }

    /// Returns the first notification of the stream, which names the accepted filter. `id` is the
    /// request's id (JSON text).
    pub fn acknowledged(&self, id: &str) -> String {
        let mut honoured = Map::new();
        for (name, is_requested) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if is_requested {
                honoured.insert(name.to_owned(), true.into());
            }
        }
        if !self.uris.is_empty() {
            honoured.insert("resourceSubscriptions".to_owned(), json!(self.uris));
        }
        if !self.tasks.is_empty() {
            honoured.insert(TASKS.to_owned(), json!(self.tasks));
        }
        let params = json!({ "notifications": honoured }).to_string();
        tagged(Method::Acknowledged, &params, id)
    }
}

/// Returns a request for changes of these tasks of one server (JSON text), on behalf of a client.
/// `id` is JSON text.
pub fn to_tasks(id: &str, tasks: &[&str], caller: &Caller) -> String {
    let params = json!({"notifications": {TASKS: tasks}});
    let method = message::quote(Method::Listen.name());
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#);
    request::to_modern(&text, caller)
}

/// Returns the tasks in the accepted filter. `acknowledged` is the `params` of the first
/// notification (JSON text).
pub fn honoured_tasks(acknowledged: &str) -> Vec<String> {
    message::member(acknowledged, "notifications")
        .and_then(|honoured| message::member(honoured, TASKS))
        .and_then(|tasks| serde_json::from_str(tasks).ok())
        .unwrap_or_default()
}

/// Returns a notification of the stream, with the id of the stream's request in `_meta`. `params`
/// and `id` are JSON text.
pub fn tagged(method: Method, params: &str, id: &str) -> String {
    let mut params = JsonObjectEditor::read(params).unwrap_or_default();
    let meta = params.get("_meta").map(str::to_owned);
    let mut meta = meta
        .as_deref()
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    meta.set(SUBSCRIPTION_ID, id);
    let meta = meta.to_string();
    params.set("_meta", &meta);
    message::request(None, method.name(), Some(&params.to_string()))
}

/// The result that ends a stream without an error. `id` is JSON text.
pub fn completed(id: &str) -> String {
    let mut result = JsonObjectEditor::default();
    result.set_text(RESULT_TYPE, COMPLETE);
    let mut meta = JsonObjectEditor::default();
    meta.set(SUBSCRIPTION_ID, id);
    result.set("_meta", &meta.to_string());
    result.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_parts_of_a_filter_are_not_acknowledged() {
        let params = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,"moonChanged":true,"resourceSubscriptions":["x://a"]}}"#;
        let filter = ListenFilter::read(params).expect("a filter");
        let server = Capabilities {
            tools_changed: true,
            prompts_changed: true,
            ..Capabilities::default()
        };
        assert!(
            filter.includes(Method::ResourcesChanged) && !filter.includes(Method::PromptsChanged)
        );
        let honoured = filter.clone().supported_by(&server);
        assert!(
            honoured.tools && !honoured.prompts && !honoured.resources && honoured.uris.is_empty()
        );
        assert_eq!(
            filter.acknowledged("\"l\""),
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x://a"]},"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#
        );
    }

    #[test]
    fn a_request_without_a_filter_is_refused() {
        for params in [
            "{}",
            r#"{"notifications":[]}"#,
            r#"{"notifications":{"resourceSubscriptions":[1]}}"#,
            r#"{"notifications":{"taskIds":"t"}}"#,
        ] {
            assert!(ListenFilter::read(params).is_err(), "{params}");
        }
        assert_eq!(
            ListenFilter::read(r#"{"notifications":{}}"#),
            Ok(ListenFilter::default())
        );
    }

    #[test]
    fn a_tag_replaces_another_and_keeps_other_members() {
        assert_eq!(
            tagged(
                Method::ResourceUpdated,
                r#"{"uri":"a","_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":9}}"#,
                "7"
            ),
            r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a","_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":7}}}"#
        );
    }
}
