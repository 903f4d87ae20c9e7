//! The operations of a client with a server, one after the other.

use http::StatusCode;
use serde_json::{Value, json};

use super::client::{Exchange, MODERN, MatrixClient};
use crate::{backend::Backend, client::text, gateway::until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    List,
    Call,
    Progress,
    Log,
    Cancel,
    ListChanged,
    Subscribe,
    Read,
    Prompt,
    Complete,
    Sample,
    Elicit,
    Roots,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellVerdict {
    Works,
    /// The client got an error that names the missing capability.
    Refused,
    /// The server's revision does not have the feature.
    Absent,
}

impl Primitive {
    pub const ALL: [Self; 13] = [
        Self::List,
        Self::Call,
        Self::Progress,
        Self::Log,
        Self::ListChanged,
        Self::Subscribe,
        Self::Read,
        Self::Prompt,
        Self::Complete,
        Self::Sample,
        Self::Elicit,
        Self::Roots,
        // Cancel last, because a process may assign its next question to the cancelled call.
        Self::Cancel,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Call => "call",
            Self::Progress => "progress",
            Self::Log => "log",
            Self::Cancel => "cancel",
            Self::ListChanged => "list_changed",
            Self::Subscribe => "subscribe",
            Self::Read => "read",
            Self::Prompt => "prompt",
            Self::Complete => "complete",
            Self::Sample => "sample",
            Self::Elicit => "elicit",
            Self::Roots => "roots",
        }
    }

    /// The expected verdict. Elicitation needs revision 2025-06-18 or later. All other operations
    /// work in all revisions (docs/dev/wire.md, "What differs").
    pub fn expected(self, client: &str, server: &str) -> CellVerdict {
        const ELICITATION: &str = "2025-06-18";
        match self {
            Self::Elicit if server < ELICITATION => CellVerdict::Absent,
            Self::Elicit if client < ELICITATION => CellVerdict::Refused,
            _ => CellVerdict::Works,
        }
    }
}

/// One client that is connected to one server.
pub struct Cell<'a> {
    pub client: &'a MatrixClient,
    pub backend: &'a Backend,
    /// The prefix in the names of tools and prompts.
    pub prefix: &'static str,
}

impl Cell<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Exchange {
        let params = json!({"name": self.name(tool), "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.ask("tools/call", params).await
    }

    /// Sends a request. Asserts that the answer has the form of the client's revision.
    async fn ask(&self, method: &str, params: Value) -> Exchange {
        let outcome = self.client.ask(method, params).await;
        let result = outcome.result();
        if result.is_object() {
            assert_eq!(outcome.status, StatusCode::OK, "{outcome:?}");
            let is_modern = result["resultType"] == "complete";
            assert_eq!(is_modern, self.client.is_modern(), "{method}: {outcome:?}");
            let is_cacheable = ["tools/list", "resources/read"].contains(&method);
            let has_hints = result["ttlMs"].is_number() && result["cacheScope"].is_string();
            assert_eq!(
                has_hints,
                self.client.is_modern() && is_cacheable,
                "{method}: {outcome:?}"
            );
        }
        outcome
    }

    pub async fn observe(&self, primitive: Primitive) -> CellVerdict {
        match primitive {
            Primitive::List => self.list().await,
            Primitive::Call => {
                let result = self.call("echo", json!({"text": "hello"})).await;
                assert_eq!(text(result.result()), "hello");
            }
            Primitive::Progress => {
                let result = self.call("progress", json!({"steps": 3})).await;
                let progress = result.messages_of("notifications/progress");
                assert_eq!(progress.len(), 3, "{result:?}");
                assert!(
                    progress
                        .iter()
                        .all(|message| message["params"]["progressToken"] == "p"),
                    "{result:?}"
                );
            }
            Primitive::Log => self.log().await,
            Primitive::Cancel => self.cancel().await,
            Primitive::ListChanged => self.list_changed().await,
            Primitive::Subscribe => self.subscribe().await,
            Primitive::Read => {
                let result = self
                    .ask("resources/read", json!({"uri": "fake://text"}))
                    .await;
                assert!(
                    result.result()["contents"][0]["text"].is_string(),
                    "{result:?}"
                );
                self.missing_resource().await;
            }
            Primitive::Prompt => {
                let params = json!({"name": self.name("greet"), "arguments": {"name": "Ada"}});
                let result = self.ask("prompts/get", params).await;
                let prompt_text = &result.result()["messages"][0]["content"]["text"];
                assert_eq!(prompt_text, "Please greet Ada.", "{result:?}");
            }
            Primitive::Complete => {
                let params = json!({
                    "ref": {"type": "ref/prompt", "name": self.name("greet")},
                    "argument": {"name": "name", "value": "A"},
                });
                let result = self.ask("completion/complete", params).await;
                assert_eq!(
                    result.result()["completion"]["values"],
                    json!(["Ada", "Alan"]),
                    "{result:?}"
                );
            }
            Primitive::Sample => {
                return self
                    .ask_client("ask_sampling", "sampling/createMessage")
                    .await;
            }
            Primitive::Elicit => {
                return self
                    .ask_client("ask_elicitation", "elicitation/create")
                    .await;
            }
            Primitive::Roots => return self.ask_client("ask_roots", "roots/list").await,
        }
        CellVerdict::Works
    }

    async fn list(&self) {
        for (method, member) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let result = self.client.ask(method, json!({})).await;
            let items = result.result()[member].as_array();
            assert!(
                items.is_some_and(|items| !items.is_empty()),
                "{method}: {result:?}"
            );
        }
        let result = self.ask("tools/list", json!({})).await;
        let tools = result.result()["tools"].as_array().expect("a list");
        let echo = self.name("echo");
        assert!(
            tools.iter().any(|tool| tool["name"] == echo.as_str()),
            "{result:?}"
        );
    }

    async fn log(&self) {
        if !self.client.is_modern() {
            let result = self.ask("logging/setLevel", json!({"level": "info"})).await;
            assert_eq!(*result.result(), json!({}), "{result:?}");
        }
        let result = self.call("log", json!({"level": "warning"})).await;
        assert_eq!(
            result.messages_of("notifications/message").len(),
            1,
            "{result:?}"
        );
    }

    async fn cancel(&self) {
        let calls = self.backend.calls_of("sleep").len();
        let cancels_before = self.backend.cancelled_count();
        let params = json!({"name": self.name("sleep"), "arguments": {"ms": 60_000}});
        let reached_count = until("the call", || self.backend.calls_of("sleep").len() > calls);
        self.client
            .cancel("tools/call", params, reached_count)
            .await;
        until("its cancellation", || {
            self.backend.cancelled_count() > cancels_before
        })
        .await;
    }

    async fn list_changed(&self) {
        let mut stream = self.client.listen(None).await;
        self.call("change_tools", json!({})).await;
        let message = stream.message().await;
        assert_eq!(
            message["method"], "notifications/tools/list_changed",
            "{message}"
        );
    }

    async fn subscribe(&self) {
        const URI: &str = "fake://text";
        if !self.client.is_modern() {
            let result = self.ask("resources/subscribe", json!({"uri": URI})).await;
            assert_eq!(*result.result(), json!({}), "{result:?}");
        }
        let mut stream = self.client.listen(Some(URI)).await;
        self.call("touch", json!({"uri": URI})).await;
        loop {
            let message = stream.message().await;
            // Skip a late notification about an earlier change.
            if message["method"] == "notifications/tools/list_changed" {
                continue;
            }
            assert_eq!(
                message["method"], "notifications/resources/updated",
                "{message}"
            );
            assert_eq!(message["params"]["uri"], URI, "{message}");
            break;
        }
        if !self.client.is_modern() {
            self.ask("resources/unsubscribe", json!({"uri": URI})).await;
        }
    }

    /// Reads a resource that does not exist. The code of the error depends on the era.
    async fn missing_resource(&self) {
        let result = self
            .client
            .ask("resources/read", json!({"uri": "fake://missing"}))
            .await;
        let error = &result.response["error"];
        let code = if self.client.is_modern() {
            -32602
        } else {
            -32002
        };
        assert_eq!(error["code"], code, "{result:?}");
        assert_eq!(error["data"]["uri"], "fake://missing", "{result:?}");
    }

    /// Calls a tool whose server asks the client a question.
    async fn ask_client(&self, tool: &str, method: &str) -> CellVerdict {
        let outcome = self.call(tool, json!({})).await;
        let (result, error) = (outcome.result(), &outcome.response["error"]);
        if result.is_object() && result["isError"] != true {
            assert_eq!(outcome.messages_of(method).len(), 1, "{outcome:?}");
            assert!(text(result).contains("matrix"), "{outcome:?}");
            return CellVerdict::Works;
        }
        assert!(outcome.messages_of(method).is_empty(), "{outcome:?}");
        let message = if result.is_object() {
            text(result)
        } else {
            error["message"].to_string()
        };
        if message.to_lowercase().contains("unknown tool") {
            assert_eq!(error["code"], -32602, "{outcome:?}");
            return CellVerdict::Absent;
        }
        // The error names the missing capability, and says whether the client or the server lacks
        // it.
        assert!(
            message.contains("client") || message.contains("elicitation"),
            "{outcome:?}"
        );
        CellVerdict::Refused
    }
}

/// True if the client and the server belong to different eras.
pub fn is_translated(client: &str, server: &str) -> bool {
    (client == MODERN) != (server == MODERN)
}
