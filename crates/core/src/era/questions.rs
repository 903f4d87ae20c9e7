//! Questions that a server asks its client during a call. A legacy server sends requests. A modern
//! server ends the call with a result that asks for input, and the client repeats the call with the
//! answers ("Multi Round-Trip Requests", SEP-2322).

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Revision, code,
    result::{RESULT_TYPE, error_code},
};
use crate::{
    config::Root,
    message::{self, JsonObjectEditor, Method, array, items, quote},
};

pub(super) const INPUT_REQUIRED: &str = "input_required";
pub(super) const REQUESTS: &str = "inputRequests";
pub(super) const RESPONSES: &str = message::ANSWERS[0];
const STATE: &str = message::ANSWERS[1];

/// True if a server may ask questions during this method.
pub fn may_ask(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead
    )
}

/// Time limit for questions that a client answers without a person.
pub const PATIENCE_WITH_PROGRAMS: Duration = Duration::from_secs(10);

/// True if a person may have to answer. A client answers `roots/list` by itself.
pub fn needs_person(question: Method) -> bool {
    question != Method::RootsList
}

/// A question in the form of modern revisions: `sampling/createMessage`, `elicitation/create` or
/// `roots/list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    pub method: Method,
    /// JSON text.
    pub params: Box<str>,
}

impl InputRequest {
    /// Returns a question that asks a person to open a URL ("URL Mode Elicitation").
    pub fn to_open(url: &str, message: &str) -> Self {
        let mut params = JsonObjectEditor::default();
        params.set_text("mode", "url");
        params.set_text("message", message);
        params.set_text("url", url);
        Self {
            method: Method::Elicit,
            params: params.to_string().into(),
        }
    }

    /// Reads the request of a legacy server (JSON text). `None` if the request is not a question.
    pub fn from_request(request: &str) -> Option<Self> {
        let mut question = Self::read(request)?;
        if let Some(mut params) = JsonObjectEditor::read(&question.params) {
            // The elicitation's id and the progress token belong to notifications that modern
            // clients do not get.
            let mut has_changed = params.remove("elicitationId");
            if let Some(mut meta) = params.get("_meta").and_then(JsonObjectEditor::read)
                && meta.remove("progressToken")
            {
                has_changed = true;
                let meta = meta.to_string();
                params.set("_meta", &meta);
            }
            if has_changed {
                question.params = params.to_string().into();
            }
        }
        Some(question)
    }

    /// Reads an object with `method` and `params`. `None` if the object is not a question.
    fn read(text: &str) -> Option<Self> {
        let method = Method::from_name(&message::text_member(text, "method")?);
        let params = message::member(text, "params").unwrap_or("{}");
        let is_question = matches!(
            method,
            Method::CreateMessage | Method::Elicit | Method::RootsList
        );
        (is_question && params.starts_with('{')).then(|| Self {
            method,
            params: message::one_line(params).into(),
        })
    }

    /// True if the question asks a person to open a URL.
    pub fn is_url(&self) -> bool {
        self.method == Method::Elicit
            && message::text_member(&self.params, "mode").as_deref() == Some("url")
    }

    /// Returns the request for a legacy client. `id` is JSON text. A question that opens a URL gets
    /// `elicitation_id` if it has no id.
    pub fn to_request(&self, id: &str, revision: Revision, elicitation_id: &str) -> String {
        let params = self.legacy_params(revision, elicitation_id);
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#,
            quote(self.method.name())
        )
    }

    fn legacy_params(&self, revision: Revision, elicitation_id: &str) -> String {
        let Some(mut params) = JsonObjectEditor::read(&self.params) else {
            return self.params.to_string();
        };
        match self.method {
            Method::Elicit if self.is_url() && !params.has("elicitationId") => {
                params.set_text("elicitationId", elicitation_id);
            }
            Method::Elicit if !revision.has_url_elicitation() => drop(params.remove("mode")),
            Method::CreateMessage if !revision.has_sampling_tools() => {
                if let Some(messages) = single_blocks(&params) {
                    params.set("messages", &messages);
                }
            }
            _ => {}
        }
        params.to_string()
    }

    /// The entry in `inputResponses` after the client answered with an error. `inputResponses`
    /// cannot hold an error. `None` if the question has no entry for a refusal. The call then
    /// fails.
    pub fn unanswered(&self) -> Option<&'static str> {
        (self.method == Method::Elicit).then_some(r#"{"action":"cancel"}"#)
    }

    fn entry(&self) -> String {
        format!(
            r#"{{"method":{},"params":{}}}"#,
            quote(self.method.name()),
            self.params
        )
    }
}

/// Before 2025-11-25, a message has a single block. Splits a message with several blocks into
/// several messages.
fn single_blocks(params: &JsonObjectEditor<'_>) -> Option<String> {
    let messages = params.get("messages").and_then(items)?;
    let mut single_block_messages = Vec::new();
    for text in messages {
        match message::member(text, "content").and_then(items) {
            None => single_block_messages.push(text.to_owned()),
            Some(blocks) => {
                for block in blocks {
                    let mut message = JsonObjectEditor::read(text)?;
                    message.set("content", block);
                    single_block_messages.push(message.to_string());
                }
            }
        }
    }
    Some(array(&single_block_messages))
}

/// A result that asks for input (`input_required`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRequired {
    /// The questions with the server's keys, in the server's order.
    pub requests: Vec<(String, InputRequest)>,
    /// `requestState` as JSON text, with quotes. Its content is opaque to everyone but the server.
    pub state: Option<Box<str>>,
}

/// The error of an `input_required` result that violates the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadInputRequired {
    #[error("the result has neither inputRequests nor requestState")]
    Empty,
    #[error("inputRequests has what is neither sampling, elicitation nor roots")]
    InputRequest,
    #[error("requestState is not a string")]
    State,
}

impl InputRequired {
    /// Reads a result (JSON text). `None` if the result is not `input_required`.
    pub fn read(result: &str) -> Result<Option<Self>, BadInputRequired> {
        if message::text_member(result, RESULT_TYPE).as_deref() != Some(INPUT_REQUIRED) {
            return Ok(None);
        }
        let state = message::member(result, STATE);
        if state.is_some_and(|state| !state.starts_with('"')) {
            return Err(BadInputRequired::State);
        }
        let requests = message::member(result, REQUESTS);
        if requests.is_none() && state.is_none() {
            return Err(BadInputRequired::Empty);
        }
        let requests = JsonObjectEditor::read(requests.unwrap_or("{}"))
            .ok_or(BadInputRequired::InputRequest)?;
        let requests = requests
            .iter()
            .map(|(key, question)| {
                let question =
                    InputRequest::read(question).ok_or(BadInputRequired::InputRequest)?;
                Ok((key.to_owned(), question))
            })
            .collect::<Result<_, _>>()?;
        Ok(Some(Self {
            requests,
            state: state.map(Into::into),
        }))
    }

    /// Returns the `input_required` result as JSON text.
    pub fn result(&self) -> String {
        let mut requests = JsonObjectEditor::default();
        for (key, question) in &self.requests {
            requests.set(key, &question.entry());
        }
        let mut result = JsonObjectEditor::default();
        result.set_text(RESULT_TYPE, INPUT_REQUIRED);
        if !self.requests.is_empty() {
            result.set(REQUESTS, &requests.to_string());
        }
        if let Some(state) = &self.state {
            result.set(STATE, state);
        }
        result.to_string()
    }

    /// Reads a legacy `error` −32042 (JSON text), which lists URLs to open before the call is
    /// repeated. The id of each elicitation becomes its key.
    pub fn from_error(error: &str) -> Option<Self> {
        if error_code(error) != Some(code::URL_ELICITATION_REQUIRED) {
            return None;
        }
        let elicitations = message::member(message::member(error, "data")?, "elicitations")?;
        let mut required = Self::default();
        for (index, elicitation) in items(elicitations)?.into_iter().enumerate() {
            let mut params = JsonObjectEditor::read(elicitation)?;
            let key = message::text_member(elicitation, "elicitationId").map_or_else(
                || format!("elicitation-{index}"),
                std::borrow::Cow::into_owned,
            );
            params.remove("elicitationId");
            params.set_text("mode", "url");
            let question = InputRequest {
                method: Method::Elicit,
                params: params.to_string().into(),
            };
            required.requests.push((key, question));
        }
        (!required.requests.is_empty()).then_some(required)
    }

    /// Returns the questions as an `error` −32042 (JSON text) for a client of 2025-11-25, with ids
    /// from `mint`. `None` if a question does not ask to open a URL, or if there is a state, which
    /// such a client would not send back.
    pub fn to_error(&self, mut mint: impl FnMut() -> String) -> Option<String> {
        let urls = self.requests.iter().all(|(_, question)| question.is_url());
        if !urls || self.requests.is_empty() || self.state.is_some() {
            return None;
        }
        let elicitations: Vec<String> = self
            .requests
            .iter()
            .map(|(_, question)| question.legacy_params(Revision::LATEST_LEGACY, &mint()))
            .collect();
        Some(format!(
            r#"{{"code":{},"message":"this request needs a URL to be opened","data":{{"elicitations":{}}}}}"#,
            code::URL_ELICITATION_REQUIRED,
            array(&elicitations),
        ))
    }
}

/// Returns the next attempt of a request (JSON text), with the answers (JSON text, by key) and the
/// state (JSON text) in its params. The caller replaces the id.
pub fn answer(request: &str, responses: &[(String, Box<str>)], state: Option<&str>) -> String {
    let Some(mut message) = JsonObjectEditor::read(request) else {
        return request.to_owned();
    };
    let mut params = message
        .get("params")
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    strip(&mut params);
    if !responses.is_empty() {
        let mut answers = JsonObjectEditor::default();
        for (key, answer) in responses {
            answers.set(key, answer);
        }
        params.set(RESPONSES, &answers.to_string());
    }
    if let Some(state) = state {
        params.set(STATE, state);
    }
    let params = params.to_string();
    message.set("params", &params);
    message.to_string()
}

/// Writes the result of `roots/list` (JSON text).
pub fn roots(roots: &[Root]) -> String {
    let roots: Vec<Value> = roots
        .iter()
        .map(|root| match &root.name {
            Some(name) => json!({"uri": root.uri, "name": name}),
            None => json!({"uri": root.uri}),
        })
        .collect();
    json!({ "roots": roots }).to_string()
}

/// The answers in the next attempt of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionAnswers {
    /// The answers (JSON text) by key.
    pub responses: Vec<(String, Box<str>)>,
    pub state: Option<String>,
}

impl QuestionAnswers {
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut matching_responses = self.responses.iter().filter(|(name, _)| name == key);
        matching_responses.next_back().map(|(_, answer)| &**answer)
    }
}

/// Reads the answers in a request's `params` (JSON text). `None` for the first attempt.
pub fn answers(params: &str) -> Result<Option<QuestionAnswers>, message::InvalidParams> {
    let responses = message::member(params, RESPONSES);
    let state = message::member(params, STATE);
    if responses.is_none() && state.is_none() {
        return Ok(None);
    }
    let invalid = || message::InvalidParams("\"inputResponses\" must be an object");
    let responses = JsonObjectEditor::read(responses.unwrap_or("{}")).ok_or_else(invalid)?;
    let state = state.map(|_| {
        message::text_member(params, STATE)
            .map(std::borrow::Cow::into_owned)
            .ok_or(message::InvalidParams("\"requestState\" must be a string"))
    });
    Ok(Some(QuestionAnswers {
        responses: responses
            .iter()
            .map(|(key, answer)| (key.to_owned(), answer.into()))
            .collect(),
        state: state.transpose()?,
    }))
}

/// Replaces the state of an `input_required` result (JSON text). `None` if there is no state.
pub fn restated(result: &str, rename: impl Fn(&str) -> Option<String>) -> Option<String> {
    // Search before parsing, because most results have no state and some are large.
    memchr::memmem::find(result.as_bytes(), STATE.as_bytes())?;
    if message::text_member(result, RESULT_TYPE).as_deref() != Some(INPUT_REQUIRED) {
        return None;
    }
    let name = rename(&message::text_member(result, STATE)?)?;
    let mut editor = JsonObjectEditor::read(result)?;
    editor.set_text(STATE, &name);
    Some(editor.to_string())
}

/// Replaces the state in the `params` (JSON text) of a next attempt.
pub fn with_state(params: &str, state: &str) -> Option<String> {
    let mut editor = JsonObjectEditor::read(params)?;
    editor.set_text(STATE, state);
    Some(editor.to_string())
}

/// Removes answers and state from a request's params.
pub(super) fn strip(params: &mut JsonObjectEditor<'_>) {
    params.remove(RESPONSES);
    params.remove(STATE);
}
