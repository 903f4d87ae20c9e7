//! What a client and a server do with each other, one thing after the other.

use http::StatusCode;
use serde_json::{Value, json};

use super::client::{Client, MODERN, Outcome};
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

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Works,
    /// The client was told in so many words that it cannot be had.
    Refused,
    /// The server's revision has no such thing.
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
        // Last: a call that is given up leaves a process in doubt whose its next questions are.
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

    /// What protocol.md, section 2, asks for.
    pub fn expected(self, client: &str, server: &str) -> Verdict {
        const ELICITATION: &str = "2025-06-18";
        match self {
            Self::Elicit if server < ELICITATION => Verdict::Absent,
            Self::Elicit if client < ELICITATION => Verdict::Refused,
            _ => Verdict::Works,
        }
    }
}

/// One client of one server.
pub struct Cell<'a> {
    pub client: &'a Client,
    pub backend: &'a Backend,
    /// Before the names of tools and prompts.
    pub prefix: &'static str,
}

impl Cell<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let params = json!({"name": self.name(tool), "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.ask("tools/call", params).await
    }

    /// Asks, and looks whether the answer is one of the client's revision.
    async fn ask(&self, method: &str, params: Value) -> Outcome {
        let outcome = self.client.ask(method, params).await;
        let result = outcome.result();
        if result.is_object() {
            assert_eq!(outcome.status, StatusCode::OK, "{outcome:?}");
            let is_modern = result["resultType"] == "complete";
            assert_eq!(is_modern, self.client.is_modern(), "{method}: {outcome:?}");
            let cacheable = ["tools/list", "resources/read"].contains(&method);
            let has_hints = result["ttlMs"].is_number() && result["cacheScope"].is_string();
            assert_eq!(
                has_hints,
                self.client.is_modern() && cacheable,
                "{method}: {outcome:?}"
            );
        }
        outcome
    }

    pub async fn observe(&self, primitive: Primitive) -> Verdict {
        match primitive {
            Primitive::List => self.list().await,
            Primitive::Call => {
                let outcome = self.call("echo", json!({"text": "hello"})).await;
                assert_eq!(text(outcome.result()), "hello");
            }
            Primitive::Progress => {
                let outcome = self.call("progress", json!({"steps": 3})).await;
                let heard = outcome.heard("notifications/progress");
                assert_eq!(heard.len(), 3, "{outcome:?}");
                assert!(
                    heard.iter().all(|it| it["params"]["progressToken"] == "p"),
                    "{outcome:?}"
                );
            }
            Primitive::Log => self.log().await,
            Primitive::Cancel => self.cancel().await,
            Primitive::ListChanged => self.list_changed().await,
            Primitive::Subscribe => self.subscribe().await,
            Primitive::Read => {
                let outcome = self
                    .ask("resources/read", json!({"uri": "fake://text"}))
                    .await;
                assert!(
                    outcome.result()["contents"][0]["text"].is_string(),
                    "{outcome:?}"
                );
                self.missing_resource().await;
            }
            Primitive::Prompt => {
                let params = json!({"name": self.name("greet"), "arguments": {"name": "Ada"}});
                let outcome = self.ask("prompts/get", params).await;
                let said = &outcome.result()["messages"][0]["content"]["text"];
                assert_eq!(said, "Please greet Ada.", "{outcome:?}");
            }
            Primitive::Complete => {
                let params = json!({
                    "ref": {"type": "ref/prompt", "name": self.name("greet")},
                    "argument": {"name": "name", "value": "A"},
                });
                let outcome = self.ask("completion/complete", params).await;
                assert_eq!(
                    outcome.result()["completion"]["values"],
                    json!(["Ada", "Alan"]),
                    "{outcome:?}"
                );
            }
            Primitive::Sample => return self.asks("ask_sampling", "sampling/createMessage").await,
            Primitive::Elicit => return self.asks("ask_elicitation", "elicitation/create").await,
            Primitive::Roots => return self.asks("ask_roots", "roots/list").await,
        }
        Verdict::Works
    }

    async fn list(&self) {
        for (method, member) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let outcome = self.client.ask(method, json!({})).await;
            let items = outcome.result()[member].as_array();
            assert!(
                items.is_some_and(|items| !items.is_empty()),
                "{method}: {outcome:?}"
            );
        }
        let outcome = self.ask("tools/list", json!({})).await;
        let tools = outcome.result()["tools"].as_array().expect("a list");
        let echo = self.name("echo");
        assert!(
            tools.iter().any(|tool| tool["name"] == echo.as_str()),
            "{outcome:?}"
        );
    }

    async fn log(&self) {
        if !self.client.is_modern() {
            let outcome = self.ask("logging/setLevel", json!({"level": "info"})).await;
            assert_eq!(*outcome.result(), json!({}), "{outcome:?}");
        }
        let outcome = self.call("log", json!({"level": "warning"})).await;
        assert_eq!(
            outcome.heard("notifications/message").len(),
            1,
            "{outcome:?}"
        );
    }

    async fn cancel(&self) {
        let calls = self.backend.calls_of("sleep").len();
        let before = self.backend.given_up();
        let params = json!({"name": self.name("sleep"), "arguments": {"ms": 60_000}});
        let reached = until("the call", || self.backend.calls_of("sleep").len() > calls);
        self.client.cancel("tools/call", params, reached).await;
        until("its cancellation", || self.backend.given_up() > before).await;
    }

    async fn list_changed(&self) {
        let mut stream = self.client.listen(None).await;
        self.call("change_tools", json!({})).await;
        let told = stream.message().await;
        assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    }

    async fn subscribe(&self) {
        const URI: &str = "fake://text";
        if !self.client.is_modern() {
            let outcome = self.ask("resources/subscribe", json!({"uri": URI})).await;
            assert_eq!(*outcome.result(), json!({}), "{outcome:?}");
        }
        let mut stream = self.client.listen(Some(URI)).await;
        self.call("touch", json!({"uri": URI})).await;
        loop {
            let told = stream.message().await;
            // What was changed before may be told late.
            if told["method"] == "notifications/tools/list_changed" {
                continue;
            }
            assert_eq!(told["method"], "notifications/resources/updated", "{told}");
            assert_eq!(told["params"]["uri"], URI, "{told}");
            break;
        }
        if !self.client.is_modern() {
            self.ask("resources/unsubscribe", json!({"uri": URI})).await;
        }
    }

    /// Each era has its code for it.
    async fn missing_resource(&self) {
        let outcome = self
            .client
            .ask("resources/read", json!({"uri": "fake://missing"}))
            .await;
        let error = &outcome.response["error"];
        let code = if self.client.is_modern() {
            -32602
        } else {
            -32002
        };
        assert_eq!(error["code"], code, "{outcome:?}");
        assert_eq!(error["data"]["uri"], "fake://missing", "{outcome:?}");
    }

    /// Calls a tool that asks its client.
    async fn asks(&self, tool: &str, method: &str) -> Verdict {
        let outcome = self.call(tool, json!({})).await;
        let (result, error) = (outcome.result(), &outcome.response["error"]);
        if result.is_object() && result["isError"] != true {
            assert_eq!(outcome.heard(method).len(), 1, "{outcome:?}");
            assert!(text(result).contains("matrix"), "{outcome:?}");
            return Verdict::Works;
        }
        assert!(outcome.heard(method).is_empty(), "{outcome:?}");
        let words = if result.is_object() {
            text(result)
        } else {
            error["message"].to_string()
        };
        if words.to_lowercase().contains("unknown tool") {
            assert_eq!(error["code"], -32602, "{outcome:?}");
            return Verdict::Absent;
        }
        // It says what is missing, and whose it is.
        assert!(
            words.contains("client") || words.contains("elicitation"),
            "{outcome:?}"
        );
        Verdict::Refused
    }
}

/// Whether client and server need a translator.
pub fn is_translated(client: &str, server: &str) -> bool {
    (client == MODERN) != (server == MODERN)
}
