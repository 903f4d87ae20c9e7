//! Questions of tools, prompts and resources, and results from the answers.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::message::{self, RpcError, quote};
use crate::revision::RevisionEra;

/// A question for the client.
#[derive(Debug, Clone)]
pub(crate) struct ClientQuestion {
    /// The key in `inputRequests` and in the result.
    pub key: &'static str,
    pub method: String,
    /// The raw params.
    pub params: String,
}

/// Rounds of questions. Questions of one round are asked together.
pub(crate) type Rounds = Vec<Vec<ClientQuestion>>;

/// The tool, prompt or resource that asks.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Tool(String),
    Prompt(String),
    Resource(String),
}

impl ClientQuestion {
    pub fn sampling() -> Self {
        Self::new(
            "sampling",
            "sampling/createMessage",
            &json!({
                "messages": [{"role": "user", "content": {"type": "text", "text": "Who are you?"}}],
                "maxTokens": 100,
            }),
        )
    }

    pub fn form() -> Self {
        Self::new(
            "form",
            "elicitation/create",
            &json!({
                "message": "What is your name?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                },
            }),
        )
    }

    /// Requests that the user visits a URL. In the legacy era, the question has an `elicitationId`.
    pub fn url(era: RevisionEra, id: &str) -> Self {
        let mut params = json!({
            "mode": "url",
            "message": "Please sign in.",
            "url": "https://example.org/sign-in",
        });
        if era == RevisionEra::Legacy {
            params["elicitationId"] = json!(id);
        }
        Self::new("url", "elicitation/create", &params)
    }

    pub fn roots() -> Self {
        Self::new("roots", "roots/list", &json!({}))
    }

    fn new(key: &'static str, method: &str, params: &Value) -> Self {
        Self {
            key,
            method: method.to_owned(),
            params: params.to_string(),
        }
    }

    pub fn is_url(&self) -> bool {
        let params: Value = serde_json::from_str(&self.params).unwrap_or_default();
        params["mode"] == json!("url")
    }

    /// Returns the capability that this question requires, if the client lacks it.
    pub fn lacks(&self, capabilities: &Value) -> Option<Value> {
        let elicitation = &capabilities["elicitation"];
        let (is_declared, required_capability) = match self.method.as_str() {
            "sampling/createMessage" => (
                capabilities["sampling"].is_object(),
                json!({"sampling": {}}),
            ),
            "elicitation/create" if self.is_url() => (
                elicitation["url"].is_object(),
                json!({"elicitation": {"url": {}}}),
            ),
            "elicitation/create" => (
                // Elicitation without modes allows forms.
                elicitation["form"].is_object() || *elicitation == json!({}),
                json!({"elicitation": {"form": {}}}),
            ),
            "roots/list" => (capabilities["roots"].is_object(), json!({"roots": {}})),
            _ => return None,
        };
        (!is_declared).then_some(required_capability)
    }
}

impl Subject {
    pub fn name(&self) -> &str {
        let (Self::Tool(name) | Self::Prompt(name) | Self::Resource(name)) = self;
        name
    }

    /// Returns a result whose text is the answers.
    pub fn result(&self, answers: &str) -> String {
        let text = quote(answers);
        match self {
            Self::Tool(_) => message::text(answers),
            Self::Prompt(_) => format!(
                r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{text}}}}}]}}"#
            ),
            Self::Resource(uri) => format!(
                r#"{{"contents":[{{"uri":{},"mimeType":"application/json","text":{text}}}]}}"#,
                quote(uri)
            ),
        }
    }

    /// Returns the failure: a result for a tool, an error otherwise.
    pub fn failure(&self, id: &str, text: &str) -> String {
        match self {
            Self::Tool(_) => {
                let text = quote(text);
                message::result(
                    id,
                    &format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#),
                )
            }
            Self::Prompt(_) | Self::Resource(_) => message::error(id, &RpcError::new(-32603, text)),
        }
    }
}

/// Returns all required capabilities that the client lacks.
pub(crate) fn missing(capabilities: &Value, rounds: &Rounds) -> Option<Value> {
    let mut all_required = json!({});
    for capability in rounds
        .iter()
        .flatten()
        .filter_map(|question| question.lacks(capabilities))
    {
        for (name, modes) in capability.as_object().into_iter().flatten() {
            match (all_required[name].as_object_mut(), modes.as_object()) {
                (Some(all_modes), Some(modes)) => all_modes.extend(modes.clone()),
                _ => all_required[name] = modes.clone(),
            }
        }
    }
    (all_required != json!({})).then_some(all_required)
}

/// Returns the notification that the user has visited the URL (legacy era).
pub(crate) fn visited(page: &ClientQuestion, answers: &str) -> Option<String> {
    let answers: Value = serde_json::from_str(answers).ok()?;
    let params: Value = serde_json::from_str(&page.params).ok()?;
    let id = json!({"elicitationId": params["elicitationId"]});
    (answers[page.key]["action"] == json!("accept"))
        .then(|| message::notification("notifications/elicitation/complete", &id.to_string()))
}

/// Returns the raw results by key, or the first error.
pub(crate) fn collect<'a>(keys: &[&str], answers: &'a [String]) -> Result<String, &'a str> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    let mut results = Vec::new();
    for (key, answer) in keys.iter().zip(answers) {
        let result = serde_json::from_str(answer)
            .ok()
            .and_then(|Answer { result }| result);
        results.push((*key, result.ok_or(answer.as_str())?.get()));
    }
    Ok(object(&results))
}

/// Returns a JSON object of raw values.
pub(crate) fn object(members: &[(&str, &str)]) -> String {
    let texts = members
        .iter()
        .map(|(key, value)| format!("{}:{value}", quote(key)));
    format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
}
