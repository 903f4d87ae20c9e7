//! Requests to the client: sampling, elicitation and roots. Since 2026-07-28 they are an
//! `InputRequiredResult`, answered by the retry of the call (SEP-2322). Up to 2025-11-25 they are requests of
//! the server while the call runs. Tools and prompts use only the newer way, and [`put`] translates it to the
//! older.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientResult, InputRequest,
        InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, ServerRequest,
    },
    service::{RequestContext, ServiceError},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::{failure, text};

/// A form of `properties`, which is a JSON Schema `properties` object.
pub fn elicitation(message: &str, properties: &Value, required: &[&str]) -> InputRequest {
    InputRequest::Elicitation(typed(json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object", "properties": properties, "required": required,
            },
        },
    })))
}

pub fn sampling(prompt: &str) -> InputRequest {
    InputRequest::CreateMessage(typed(json!({
        "method": "sampling/createMessage",
        "params": {
            "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
            "maxTokens": 100,
        },
    })))
}

pub fn roots() -> InputRequest {
    InputRequest::ListRoots(typed(json!({ "method": "roots/list" })))
}

/// Number of rounds in which a client with a session is asked: a client that declines is asked again.
pub const MAX_ROUNDS: usize = 5;

pub fn unanswered() -> ErrorData {
    ErrorData::internal_error("the client gave no answer that would do", None)
}

/// Sends the questions to a client with a session, on the stream of the running request. Returns the answers
/// in the form of a retry.
pub async fn put(
    context: &RequestContext<RoleServer>,
    asked: InputRequiredResult,
) -> Result<(Option<InputResponses>, Option<String>), ErrorData> {
    let mut answers = InputResponses::new();
    for (key, request) in asked.input_requests.unwrap_or_default() {
        let answer = ask(context, request).await.map_err(|error| {
            ErrorData::internal_error(format!("the client did not answer: {error}"), None)
        })?;
        answers.insert(key, json!(answer));
    }
    Ok((Some(answers), asked.request_state))
}

async fn ask(
    context: &RequestContext<RoleServer>,
    request: InputRequest,
) -> Result<ClientResult, ServiceError> {
    let request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        other => unreachable!("no constructor here makes {other:?}"),
    };
    context.peer.send_request(request).await
}

/// Returns the questions to the client, unless it has not declared that it can answer them.
pub fn required<const N: usize>(
    context: &RequestContext<RoleServer>,
    requests: [(&str, InputRequest); N],
    state: Option<String>,
) -> Result<InputRequiredResult, ErrorData> {
    let declared = context.client_capabilities().unwrap_or_default();
    if let Some((_, request)) = requests
        .iter()
        .find(|(_, request)| !can_answer(&declared, request))
    {
        return Err(ErrorData::missing_required_client_capability(needed(
            request,
        )));
    }
    let requests = requests.map(|(key, request)| (key.to_owned(), request));
    Ok(InputRequiredResult::new(Some(requests.into()), state))
}

fn can_answer(declared: &ClientCapabilities, request: &InputRequest) -> bool {
    match request {
        InputRequest::CreateMessage(_) => declared.sampling.is_some(),
        InputRequest::Elicitation(_) => declared.elicitation.is_some(),
        InputRequest::ListRoots(_) => declared.roots.is_some(),
        _ => false,
    }
}

fn needed(request: &InputRequest) -> ClientCapabilities {
    match request {
        InputRequest::CreateMessage(_) => typed(json!({ "sampling": {} })),
        InputRequest::Elicitation(_) => typed(json!({ "elicitation": {} })),
        InputRequest::ListRoots(_) => typed(json!({ "roots": {} })),
        _ => ClientCapabilities::default(),
    }
}

/// The client's answers, which may be invalid.
pub struct Answers<'a>(Option<&'a InputResponses>);

impl<'a> Answers<'a> {
    pub fn new(responses: Option<&'a InputResponses>) -> Self {
        Self(responses)
    }

    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.0?.get(key)
    }

    /// One field of an accepted form.
    pub fn elicited(&self, key: &str, field: &str) -> Option<&'a Value> {
        let form = self
            .get(key)
            .filter(|answer| answer["action"] == "accept")?;
        form.get("content")?.get(field)
    }

    fn sampled(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.get("content")?.get("text")?.as_str()
    }

    fn roots(&self, key: &str) -> Option<&'a Vec<Value>> {
        self.get(key)?.get("roots")?.as_array()
    }
}

/// Calls a tool that needs input. `None` for an unknown tool.
pub fn call(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    seal: &RequestStateCodec,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let answers = Answers::new(params.input_responses.as_ref());
    let outcome = match params.name.as_ref() {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            ask_name(context, &answers)
        }
        "test_input_required_result_sampling" | "test_missing_capability" => {
            ask_model(context, &answers)
        }
        "test_input_required_result_list_roots" => ask_roots(context, &answers),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => ask_with_state(params, context, seal),
        "test_input_required_result_multiple_inputs" => ask_all(params, context, seal),
        "test_input_required_result_multi_round" => ask_in_turn(params, context, seal),
        "test_input_required_result_capabilities" => Ok(ask_what_is_declared(context, &answers)),
        _ => return None,
    };
    Some(outcome)
}

type Outcome = Result<CallToolResponse, ErrorData>;

fn ask_name(context: &RequestContext<RoleServer>, answers: &Answers) -> Outcome {
    match answers
        .elicited("user_name", "name")
        .and_then(Value::as_str)
    {
        Some(name) => Ok(text(format!("Hello, {name}!"))),
        None => Ok(required(context, [("user_name", name_form())], None)?.into()),
    }
}

fn ask_model(context: &RequestContext<RoleServer>, answers: &Answers) -> Outcome {
    if let Some(answer) = answers.sampled("capital_question") {
        return Ok(text(answer));
    }
    let question = sampling("What is the capital of France?");
    Ok(required(context, [("capital_question", question)], None)?.into())
}

fn ask_roots(context: &RequestContext<RoleServer>, answers: &Answers) -> Outcome {
    match answers.roots("client_roots") {
        Some(roots) => Ok(text(Value::Array(roots.clone()).to_string())),
        None => Ok(required(context, [("client_roots", roots())], None)?.into()),
    }
}

fn ask_with_state(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    seal: &RequestStateCodec,
) -> Outcome {
    let state = open_state(params, seal)?;
    let answers = Answers::new(params.input_responses.as_ref());
    if state.is_some() && answers.elicited("confirm", "ok").is_some() {
        return Ok(text("state-ok"));
    }
    let properties = json!({ "ok": { "type": "boolean" } });
    let confirm = elicitation("Please confirm", &properties, &["ok"]);
    let state = seal.seal(b"asked");
    Ok(required(context, [("confirm", confirm)], Some(state))?.into())
}

fn ask_all(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    seal: &RequestStateCodec,
) -> Outcome {
    let state = open_state(params, seal)?;
    let answers = Answers::new(params.input_responses.as_ref());
    let given = (
        answers
            .elicited("user_name", "name")
            .and_then(Value::as_str),
        answers.sampled("greeting"),
        answers.roots("client_roots"),
    );
    if let (Some(_), (Some(name), Some(greeting), Some(roots))) = (state, given) {
        return Ok(text(format!("{greeting} {name}, {} root(s)", roots.len())));
    }
    let requests = [
        ("user_name", name_form()),
        ("greeting", sampling("Generate a greeting")),
        ("client_roots", roots()),
    ];
    Ok(required(context, requests, Some(seal.seal(b"asked")))?.into())
}

fn ask_in_turn(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    seal: &RequestStateCodec,
) -> Outcome {
    let answers = Answers::new(params.input_responses.as_ref());
    let state = open_state(params, seal)?;
    let (asked_name, asked_color) = match state.as_deref() {
        Some(b"step1") => (true, false),
        Some(b"step2") => (true, true),
        _ => (false, false),
    };
    if asked_color && answers.elicited("step2", "color").is_some() {
        return Ok(text("Both steps are done"));
    }
    let (key, question) =
        if asked_color || asked_name && answers.elicited("step1", "name").is_some() {
            let properties = json!({ "color": { "type": "string" } });
            let message = "Step 2: What is your favorite color?";
            ("step2", elicitation(message, &properties, &["color"]))
        } else {
            let properties = json!({ "name": { "type": "string" } });
            let message = "Step 1: What is your name?";
            ("step1", elicitation(message, &properties, &["name"]))
        };
    let state = seal.seal(key.as_bytes());
    Ok(required(context, [(key, question)], Some(state))?.into())
}

fn ask_what_is_declared(
    context: &RequestContext<RoleServer>,
    answers: &Answers,
) -> CallToolResponse {
    if answers.0.is_some() {
        return text("The client answered");
    }
    let declared = context.client_capabilities().unwrap_or_default();
    let mut requests = InputRequests::from([
        ("user_name".to_owned(), name_form()),
        ("greeting".to_owned(), sampling("Generate a greeting")),
        ("client_roots".to_owned(), roots()),
    ]);
    requests.retain(|_, request| can_answer(&declared, request));
    if requests.is_empty() {
        return failure("the client declares nothing to ask for");
    }
    InputRequiredResult::from_input_requests(requests).into()
}

pub fn name_form() -> InputRequest {
    let properties = json!({ "name": { "type": "string" } });
    elicitation("What is your name?", &properties, &["name"])
}

/// Returns the state of the previous round. Fails if the client has changed it.
fn open_state(
    params: &CallToolRequestParams,
    seal: &RequestStateCodec,
) -> Result<Option<Vec<u8>>, ErrorData> {
    let sealed = params.request_state.as_deref();
    sealed
        .map(|sealed| seal.open(sealed))
        .transpose()
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

/// rmcp's models of requests are long to build in code and short as JSON.
fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the literal matches the model")
}
