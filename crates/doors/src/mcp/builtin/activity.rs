//! Group `activity`: events, and questions of servers, for clients that can be neither notified nor
//! asked.

use std::{sync::Arc, time::Duration};

use mainstay_api as api;
use mainstay_core::{
    catalog::ListKind::{Prompts, Resources, Templates, Tools},
    event::{Event, EventId, EventKind, Settled},
    failure::{Failure, FailureKind},
    message::Method,
};
use mainstay_gateway::{
    events::{EventOrGap, Subscription},
    supervisor::{Queued, Server},
};
use mainstay_platform::utc;
use mainstay_transport::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio::time::{Instant, timeout_at};

use super::{
    browse,
    context::Context,
    outcome::{Outcome, ToolOutput, here},
    refusal::Refusal,
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

/// How long to wait, in milliseconds.
const DEFAULT_WAIT: u64 = 30_000;
const MIN_WAIT: u64 = 100;
const MAX_WAIT: u64 = 900_000;

/// Events in one answer; the rest follows after the last of them.
const MAX_EVENTS: usize = 100;

/// The client refused (JSON-RPC leaves the code to us; specification, client/sampling).
const REFUSED: i64 = -1;

pub async fn answer(tool: Tool, asked: RequestContext<'_>) -> Outcome {
    let context = &Context::of(&asked);
    match tool {
        Tool::AwaitActivity => here(asked.cancelled, await_activity(context)).await,
        Tool::GetSamplingRequests => Ok(requests(context, Method::CreateMessage)),
        Tool::RespondToSampling => respond_to_sampling(context),
        Tool::CancelSamplingRequest => refuse(context, Method::CreateMessage),
        Tool::GetElicitations => Ok(requests(context, Method::Elicit)),
        Tool::RespondToElicitation => respond_to_elicitation(context),
        Tool::CancelElicitationRequest => refuse(context, Method::Elicit),
        Tool::ListTools => here(asked.cancelled, browse::list(Tools, context)).await,
        Tool::ListResources => here(asked.cancelled, browse::list(Resources, context)).await,
        Tool::ListResourceTemplates => {
            here(asked.cancelled, browse::list(Templates, context)).await
        }
        Tool::ListPrompts => here(asked.cancelled, browse::list(Prompts, context)).await,
        Tool::ReadResource => browse::read_resource(context, asked.cancelled).await,
        Tool::GetPrompt => browse::get_prompt(context, asked.cancelled).await,
        Tool::GetLogs => here(asked.cancelled, browse::logs(context)).await,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Await {
    timeout_ms: Option<u64>,
    last_event_id: Option<String>,
}

/// What ended the wait.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Trigger {
    Event,
    /// A server waits for an answer.
    Pending,
    Timeout,
}

/// What `await_activity` says.
#[derive(Serialize)]
struct Activity {
    triggered_by: Trigger,
    /// Oldest first.
    events: Vec<api::Event>,
    /// To go on after.
    last_event_id: String,
    /// Whether events are gone that came before these.
    missed: bool,
    /// Calls that servers have not answered yet.
    pending_server: u32,
    pending_client: PendingClient,
}

/// How many requests of servers wait for an answer.
#[derive(Serialize)]
struct PendingClient {
    sampling: usize,
    elicitation: usize,
}

impl PendingClient {
    fn of(context: &Context<'_>) -> Self {
        Self {
            sampling: waiting(context, Method::CreateMessage).count(),
            elicitation: waiting(context, Method::Elicit).count(),
        }
    }

    fn is_empty(&self) -> bool {
        self.sampling + self.elicitation == 0
    }
}

/// Returns at once where something waits already: a server does, too.
async fn await_activity(context: &Context<'_>) -> Outcome {
    let Await {
        timeout_ms,
        last_event_id,
    } = context.arguments()?;
    let after = last_event_id.map(|id| read_id(&id)).transpose()?;
    let wait = timeout_ms.unwrap_or(DEFAULT_WAIT).clamp(MIN_WAIT, MAX_WAIT);
    let until = Instant::now() + Duration::from_millis(wait);
    let registry = &context.gateway().registry;
    let mut happened = registry.events().subscribe(after);
    let mut asked = registry.queue().changes();
    let (mut events, mut missed) = (Vec::new(), false);
    let triggered_by = loop {
        // Before looking, so that what comes after the look wakes.
        asked.mark_unchanged();
        missed |= gather(context, &mut happened, &mut events);
        if !events.is_empty() {
            break Trigger::Event;
        }
        if !PendingClient::of(context).is_empty() {
            break Trigger::Pending;
        }
        let readable = async {
            tokio::select! {
                open = happened.readable() => open,
                // The queue lives as long as the registry.
                asked = asked.changed() => asked.is_ok(),
            }
        };
        match timeout_at(until, readable).await {
            Ok(true) => {}
            // The time is over, or Mainstay is shutting down.
            Ok(false) | Err(_) => break Trigger::Timeout,
        }
    };
    let calls = |server: &Arc<Server>| {
        let session = server.view().session;
        session.map_or(0, |session| session.liveness.in_flight())
    };
    Ok(ToolOutput::json(&Activity {
        triggered_by,
        events,
        last_event_id: happened.position().to_string(),
        missed,
        pending_server: context.servers().iter().map(calls).sum(),
        pending_client: PendingClient::of(context),
    }))
}

fn read_id(text: &str) -> Result<EventId, Refusal> {
    let unreadable = |error| Refusal::Arguments(format!("\"last_event_id\": {error}"));
    text.parse().map_err(unreadable)
}

/// Takes what has happened to the profile's servers; says whether something was missed.
fn gather(
    context: &Context<'_>,
    happened: &mut Subscription,
    events: &mut Vec<api::Event>,
) -> bool {
    let mut missed = false;
    while events.len() < MAX_EVENTS
        && let Some(heard) = happened.now()
    {
        match heard {
            EventOrGap::Event(event) => events.extend(shown(context, &event).as_ref().map(wire)),
            EventOrGap::Gap(_) => missed = true,
        }
    }
    missed
}

/// The part of an event that concerns the profile's servers; `None` if there is none.
fn shown(context: &Context<'_>, event: &Event) -> Option<Event> {
    // The requests themselves are shown, those of this client alone.
    if event.kind.is_of_requests() {
        return None;
    }
    // An attempt that begins is nothing to act on: its end is an event as well.
    if matches!(event.kind, EventKind::ServerStarting {}) {
        return None;
    }
    context.visible_event(event)
}

/// Requests of this method that the profile's servers have made, because of calls that are not those of
/// another bearer of a token, and that wait.
fn waiting(context: &Context<'_>, method: Method) -> impl Iterator<Item = Queued> {
    let waiting = context.gateway().registry.queue().list();
    let is_own =
        |queued: &Queued| context.is_own(queued.cause.as_ref().map(|cause| &cause.principal));
    waiting.into_iter().filter(move |queued| {
        queued.method == method.name() && context.has_server(&queued.server) && is_own(queued)
    })
}

fn requests(context: &Context<'_>, method: Method) -> ToolOutput {
    let shown = |queued: Queued| {
        json!({
            "request_id": queued.id.to_string(),
            "server": queued.server.as_str(),
            "asked_at": utc::rfc3339(queued.asked_at),
            "params": raw(&queued.params),
        })
    };
    let requests: Vec<Value> = waiting(context, method).map(shown).collect();
    ToolOutput::json(&json!({"requests": requests}))
}

/// A request's id: text, though models like to write numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum RequestId {
    Text(String),
    Number(u64),
}

impl RequestId {
    /// Takes the request out, to be answered.
    fn take(
        &self,
        context: &Context<'_>,
        method: Method,
        outcome: Settled,
    ) -> Result<(u64, Question), Refusal> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        };
        let known = waiting(context, method).find(|queued| queued.id.to_string() == text);
        let taken = known.and_then(|queued| {
            let question = context
                .gateway()
                .registry
                .queue()
                .take(queued.id, outcome)?;
            Some((queued.id, question))
        });
        taken.ok_or_else(|| {
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

fn respond_to_sampling(context: &Context<'_>) -> Outcome {
    let sampled: Sampled = context.arguments()?;
    let blocks = match sampled.content {
        Value::String(text) => json!({"type": "text", "text": text}),
        block @ (Value::Object(_) | Value::Array(_)) => block,
        _ => {
            let reason = "\"content\" must be a text or a content block";
            return Err(Refusal::Arguments(reason.to_owned()));
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
    action: Action,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// What the user did (specification, client/elicitation).
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

fn respond_to_elicitation(context: &Context<'_>) -> Outcome {
    let elicited: Elicited<'_> = context.arguments()?;
    let mut result = json!({"action": elicited.action}).to_string();
    if let (Action::Accept, Some(content)) = (elicited.action, elicited.content) {
        if !content.get().starts_with('{') {
            let reason = "\"content\" must be an object";
            return Err(Refusal::Arguments(reason.to_owned()));
        }
        // The values as they were written.
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

fn refuse(context: &Context<'_>, method: Method) -> Outcome {
    let Refuse { request_id, reason } = context.arguments()?;
    let (id, question) = request_id.take(context, method, Settled::Refused)?;
    question.refuse(REFUSED, reason.as_deref().unwrap_or("the user refused"));
    Ok(answered(id))
}
