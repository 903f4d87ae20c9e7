//! Group `activity`: events of servers, and the requests that servers make of clients. It serves
//! clients that support neither notifications nor such requests.

use std::{sync::Arc, time::Duration};

use mainstay_api as api;
use mainstay_core::{
    catalog::ListKind::{Prompts, Resources, Templates, Tools},
    event::{EventId, EventKind, ServerEvent, Settled},
    failure::{Failure, FailureKind},
    message::Method,
};
use mainstay_gateway::{
    events::{EventOrGap, Subscription},
    supervisor::{Queued, ServerHandle},
};
use mainstay_platform::utc;
use mainstay_transport::ServerQuestion;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, timeout_at};

use super::{
    browse,
    context::Context,
    outcome::{ToolOutcome, ToolOutput, here},
    refusal::ToolRefusal,
};
use crate::mcp::endpoint::request::RequestContext;
use mainstay_doorway::json_views::{events::wire, lists::raw};

tools! {
    AwaitActivity "await_activity",
    GetSamplingRequests "get_sampling_requests",
    RespondToSampling "respond_to_sampling",
    CancelSamplingRequest "cancel_sampling_request",
    GetElicitations "get_elicitations",
    RespondToElicitation "respond_to_elicitation",
    CancelElicitationRequest "cancel_elicitation_request",
    ListTools "list_tools",
    ListResources "list_resources",
    ListResourceTemplates "list_resource_templates",
    ListPrompts "list_prompts",
    ReadResource "read_resource",
    GetPrompt "get_prompt",
    GetLogs "get_logs",
}

/// Default duration of `await_activity`, in milliseconds.
const DEFAULT_WAIT: u64 = 30_000;
const MIN_WAIT: u64 = 100;
const MAX_WAIT: u64 = 900_000;

/// Maximum number of events in one answer. The next call continues with the id of the last event.
const MAX_EVENTS: usize = 100;

/// The error code for a sampling request that the client refuses. JSON-RPC leaves the code to the
/// implementation (specification, client/sampling).
const REFUSED_CODE: i64 = -1;

pub async fn answer(tool: GroupTool, request: RequestContext<'_>) -> ToolOutcome {
    let context = &Context::new(&request);
    match tool {
        GroupTool::AwaitActivity => here(request.cancelled, await_activity(context)).await,
        GroupTool::GetSamplingRequests => Ok(requests(context, Method::CreateMessage)),
        GroupTool::RespondToSampling => respond_to_sampling(context),
        GroupTool::CancelSamplingRequest => refuse(context, Method::CreateMessage),
        GroupTool::GetElicitations => Ok(requests(context, Method::Elicit)),
        GroupTool::RespondToElicitation => respond_to_elicitation(context),
        GroupTool::CancelElicitationRequest => refuse(context, Method::Elicit),
        GroupTool::ListTools => here(request.cancelled, browse::list(Tools, context)).await,
        GroupTool::ListResources => here(request.cancelled, browse::list(Resources, context)).await,
        GroupTool::ListResourceTemplates => {
            here(request.cancelled, browse::list(Templates, context)).await
        }
        GroupTool::ListPrompts => here(request.cancelled, browse::list(Prompts, context)).await,
        GroupTool::ReadResource => browse::read_resource(context, request.cancelled).await,
        GroupTool::GetPrompt => browse::get_prompt(context, request.cancelled).await,
        GroupTool::GetLogs => here(request.cancelled, browse::logs(context)).await,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Await {
    timeout_ms: Option<u64>,
    last_event_id: Option<String>,
}

/// The reason that `await_activity` returned.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Trigger {
    Event,
    /// A request of a server waits for the client.
    Pending,
    Timeout,
}

/// The output of `await_activity`.
#[derive(Serialize)]
struct Activity {
    triggered_by: Trigger,
    /// Oldest first.
    events: Vec<api::Event>,
    /// The id to pass to the next call.
    last_event_id: String,
    /// True if events between the last call and these are no longer available.
    missed: bool,
    /// Number of calls in flight at servers.
    pending_server: u32,
    pending_client: PendingClient,
}

/// Number of open requests of servers, by kind.
#[derive(Serialize)]
struct PendingClient {
    sampling: usize,
    elicitation: usize,
}

impl PendingClient {
    fn count(context: &Context<'_>) -> Self {
        Self {
            sampling: waiting(context, Method::CreateMessage).count(),
            elicitation: waiting(context, Method::Elicit).count(),
        }
    }

    fn is_empty(&self) -> bool {
        self.sampling + self.elicitation == 0
    }
}

/// Waits for an event. Returns at once if a request of a server is open, because that server waits
/// for an answer.
async fn await_activity(context: &Context<'_>) -> ToolOutcome {
    let Await {
        timeout_ms,
        last_event_id,
    } = context.arguments()?;
    let after = last_event_id.map(|id| read_id(&id)).transpose()?;
    let wait = timeout_ms.unwrap_or(DEFAULT_WAIT).clamp(MIN_WAIT, MAX_WAIT);
    let deadline = Instant::now() + Duration::from_millis(wait);
    let registry = &context.gateway().registry;
    let mut subscription = registry.events().subscribe(after);
    let mut queue_changes = registry.queue().changes();
    let (mut events, mut has_missed) = (Vec::new(), false);
    let triggered_by = loop {
        // Mark the queue as seen before reading it, so that a later change ends the wait.
        queue_changes.mark_unchanged();
        has_missed |= gather(context, &mut subscription, &mut events);
        if !events.is_empty() {
            break Trigger::Event;
        }
        if !PendingClient::count(context).is_empty() {
            break Trigger::Pending;
        }
        let next_event = async {
            tokio::select! {
                open = subscription.readable() => open,
                // The queue closes only with the registry.
                changed = queue_changes.changed() => changed.is_ok(),
            }
        };
        match timeout_at(deadline, next_event).await {
            Ok(true) => {}
            // The time limit is over, or Mainstay stops.
            Ok(false) | Err(_) => break Trigger::Timeout,
        }
    };
    let calls = |server: &Arc<ServerHandle>| {
        let session = server.view().session;
        session.map_or(0, |session| session.liveness.in_flight())
    };
    Ok(ToolOutput::json(&Activity {
        triggered_by,
        events,
        last_event_id: subscription.position().to_string(),
        missed: has_missed,
        pending_server: context.servers().iter().map(calls).sum(),
        pending_client: PendingClient::count(context),
    }))
}

fn read_id(text: &str) -> Result<EventId, ToolRefusal> {
    let unreadable_id = |error| ToolRefusal::Arguments(format!("\"last_event_id\": {error}"));
    text.parse().map_err(unreadable_id)
}

/// Collects the next events that the client may see. Returns true if events were missed.
fn gather(
    context: &Context<'_>,
    subscription: &mut Subscription,
    events: &mut Vec<api::Event>,
) -> bool {
    let mut has_missed = false;
    while events.len() < MAX_EVENTS
        && let Some(entry) = subscription.now()
    {
        match entry {
            EventOrGap::Event(event) => {
                events.extend(visible_part(context, &event).as_ref().map(wire))
            }
            EventOrGap::Gap(_) => has_missed = true,
        }
    }
    has_missed
}

/// The part of an event that the client may see. `None` if the event is hidden, or if it is
/// reported in another way.
fn visible_part(context: &Context<'_>, event: &ServerEvent) -> Option<ServerEvent> {
    // Requests of servers are listed by other tools.
    if event.kind.is_about_request() {
        return None;
    }
    // The end of an attempt is an event of its own.
    if matches!(event.kind, EventKind::ServerStarting {}) {
        return None;
    }
    context.visible_event(event)
}

/// Open requests of visible servers with this method. Requests that the client may not answer are
/// left out.
fn waiting(context: &Context<'_>, method: Method) -> impl Iterator<Item = Queued> {
    let waiting_questions = context.gateway().registry.queue().list();
    let is_own =
        |question: &Queued| context.is_own(question.cause.as_ref().map(|cause| &cause.principal));
    waiting_questions.into_iter().filter(move |question| {
        question.method == method.name() && context.has_server(&question.server) && is_own(question)
    })
}

fn requests(context: &Context<'_>, method: Method) -> ToolOutput {
    let to_json = |question: Queued| {
        json!({
            "request_id": question.id.to_string(),
            "server": question.server.as_str(),
            "asked_at": utc::rfc3339(question.asked_at),
            "params": raw(&question.params),
        })
    };
    let requests: Vec<Value> = waiting(context, method).map(to_json).collect();
    ToolOutput::json(&json!({"requests": requests}))
}

/// The id of a request. The schema has a string, but models often send numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum RequestId {
    Text(String),
    Number(u64),
}

impl RequestId {
    /// Removes the request from the queue, to answer it.
    fn take(
        &self,
        context: &Context<'_>,
        method: Method,
        outcome: Settled,
    ) -> Result<(u64, ServerQuestion), ToolRefusal> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        };
        let matching_question = waiting(context, method)
            .find(|waiting_question| waiting_question.id.to_string() == text);
        let removed_question = matching_question.and_then(|waiting_question| {
            let question = context
                .gateway()
                .registry
                .queue()
                .take(waiting_question.id, outcome)?;
            Some((waiting_question.id, question))
        });
        removed_question.ok_or_else(|| {
            let message =
                format!("no request {text} is waiting: it was answered, its time is over, or its server has disconnected");
            Failure::new(FailureKind::RequestNotFound, message)
                .with("request_id", text)
                .into()
        })
    }
}

fn answered(id: u64) -> ToolOutput {
    ToolOutput::json(&json!({"success": true, "request_id": id.to_string()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sampled {
    request_id: RequestId,
    content: Value,
    model: String,
    role: Option<String>,
    stop_reason: Option<String>,
}

fn respond_to_sampling(context: &Context<'_>) -> ToolOutcome {
    let sampled: Sampled = context.arguments()?;
    let blocks = match sampled.content {
        Value::String(text) => json!({"type": "text", "text": text}),
        block @ (Value::Object(_) | Value::Array(_)) => block,
        _ => {
            let reason = "\"content\" must be a text or a content block";
            return Err(ToolRefusal::Arguments(reason.to_owned()));
        }
    };
    let (id, question) =
        sampled
            .request_id
            .take(context, Method::CreateMessage, Settled::Answered)?;
    let result = json!({
        "role": sampled.role.as_deref().unwrap_or("assistant"),
        "content": blocks,
        "model": sampled.model,
        "stopReason": sampled.stop_reason.as_deref().unwrap_or("endTurn"),
    });
    question.result(&result.to_string());
    Ok(answered(id))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elicited<'a> {
    request_id: RequestId,
    action: ElicitationAction,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The user's action (specification, client/elicitation).
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}

fn respond_to_elicitation(context: &Context<'_>) -> ToolOutcome {
    let elicited: Elicited<'_> = context.arguments()?;
    let mut result = json!({"action": elicited.action}).to_string();
    if let (ElicitationAction::Accept, Some(content)) = (elicited.action, elicited.content) {
        if !content.get().starts_with('{') {
            let reason = "\"content\" must be an object";
            return Err(ToolRefusal::Arguments(reason.to_owned()));
        }
        // Pass the values on as they came.
        result = format!(r#"{{"action":"accept","content":{content}}}"#);
    }
    let (id, question) = elicited
        .request_id
        .take(context, Method::Elicit, Settled::Answered)?;
    question.result(&result);
    Ok(answered(id))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refuse {
    request_id: RequestId,
    reason: Option<String>,
}

fn refuse(context: &Context<'_>, method: Method) -> ToolOutcome {
    let Refuse { request_id, reason } = context.arguments()?;
    let (id, question) = request_id.take(context, method, Settled::Refused)?;
    question.refuse(
        REFUSED_CODE,
        reason.as_deref().unwrap_or("the user refused"),
    );
    Ok(answered(id))
}
