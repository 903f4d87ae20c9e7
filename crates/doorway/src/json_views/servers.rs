//! The status and details of a server in the format of REST.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_api as api;
use mainstay_config::{Requested, Runtime, ServerStanding, ServerTarget, edit::Entry};
use mainstay_core::{
    catalog::ListKind, config::Launch, event::listed_names, lifecycle::SessionState,
    principal::Principal, redact, trouble::NextStep,
};
use mainstay_gateway::{
    registry::Registry,
    supervisor::{Answerer, KeptDown, OpenQuestion, ServerHandle, ServerView},
};
use mainstay_platform::utc;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The status word of a server that waits for approval.
pub const PENDING: &str = KeptDown::Unapproved.as_str();

/// The reader of a server's details. It limits them, because a pending server's entry may contain
/// secrets in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure {
    /// The bearer of the control token. It sees pending entries in full.
    Operator,
    Client,
}

/// Status and settings of a server. For a pending server, the settings are those to approve.
pub fn details(registry: &Registry, server: &ServerHandle, disclosure: Disclosure) -> api::Server {
    let view = server.view();
    let server_standing = registry.standing(&server.name);
    let pending = match &server_standing {
        ServerStanding::Pending(runtime) => Some(Arc::clone(runtime)),
        ServerStanding::Configured | ServerStanding::Ephemeral(_) => None,
    };
    let stored_config = server.config();
    let config = pending
        .as_ref()
        .map_or(&**stored_config, |runtime| &runtime.config);
    let (command, url) = match (&pending, &config.launch) {
        // The references of a pending server are not expanded yet.
        (Some(runtime), _) => (
            text(&runtime.entry, "command"),
            text(&runtime.entry, "url").as_deref().map(shown_url),
        ),
        (None, Launch::Stdio(launch)) => {
            (Some(config.without_vault_secrets(&launch.command)), None)
        }
        (None, Launch::Http(launch)) => {
            let url = config.without_vault_secrets(&shown_url(&launch.url));
            (None, Some(url))
        }
        (None, Launch::Broken(_) | Launch::Unapproved) => (None, None),
    };
    let status = &view.status;
    let is_connected = status.state == SessionState::Connected;
    let is_degraded = view.is_degraded();
    let catalog = view.catalog.as_deref();
    let count = |kind| {
        catalog.map_or(0, |catalog| {
            catalog.visible_items(kind, &config.withheld).count()
        })
    };
    let refused_items = || {
        catalog
            .into_iter()
            .flat_map(|catalog| catalog.refused_names(&config.withheld))
    };
    let health = status.health.as_ref();
    let age = |time: std::time::Instant| Instant::now().into_std().saturating_duration_since(time);
    let crash = view.crashes.last;
    let step = server.next_step(&view);
    let (stderr, stdout) = server.last_words(&view);
    api::Server {
        name: server.name.to_string(),
        transport: match &pending {
            Some(_) => config.transport(),
            None => server.transport(),
        }
        .to_owned(),
        command,
        url,
        enabled: config.enabled,
        auto_start: config.auto_start,
        ephemeral: server_standing != ServerStanding::Configured,
        pending: pending
            .as_deref()
            .map(|runtime| pending_entry(runtime, disclosure)),
        wanted: view.is_desired_up,
        status: if pending.is_some() {
            PENDING
        } else {
            status.state.as_str()
        }
        .to_owned(),
        connected: is_connected,
        connected_at: view.connected_at.map(utc::rfc3339),
        uptime_ms: view
            .connected_at
            .and_then(|start_time| start_time.elapsed().ok())
            .map(millis),
        down_since: view.down_since.filter(|_| !is_connected).map(utc::rfc3339),
        degraded_since: view.degraded_since.map(utc::rfc3339),
        handshake_ms: view.handshake.map(millis),
        health_status: is_connected
            .then(|| if is_degraded { "degraded" } else { "healthy" }.to_owned()),
        consecutive_health_failures: health.map(|health| health.failures),
        failing_calls: health.and_then(|health| health.failing_calls).map(|calls| {
            api::FailingCalls {
                failed: calls.failed,
                of: calls.total,
                since: utc::rfc3339(SystemTime::now() - age(calls.since)),
            }
        }),
        last_ping_ms: health.and_then(|health| health.last_ping).map(millis),
        last_success_at: view
            .last_message_at()
            .and_then(|time| SystemTime::now().checked_sub(age(time)))
            .map(utc::rfc3339),
        last_error: last_error(&view).map(|reason| server.with_foreign_ids(reason, &view)),
        listening: listening(&view),
        advice: view.avoids_probe.then(|| SPARE_PROBE.to_owned()),
        starting: server.start_words(),
        next_step: step
            .as_ref()
            .and_then(|step| step.words(server.name.as_str())),
        next_action: step.as_ref().map(action),
        // `view.state()` includes a loss that the supervisor has not handled yet.
        retried: view.is_desired_up
            && (status.retried || view.state() == SessionState::Reconnecting)
            && !matches!(step, Some(NextStep::CorrectEntry(_))),
        reconnect_attempt: Some(status.attempt).filter(|attempt| *attempt > 0 && !is_connected),
        next_retry_ms: status
            .next_retry
            .map(|time| millis(time.saturating_duration_since(Instant::now().into_std()))),
        crash_count: view.crashes.count,
        last_crash_at: crash.map(|crash| utc::rfc3339(crash.at)),
        exit_code: crash.and_then(|crash| crash.code),
        exit_signal: crash.and_then(|crash| crash.signal),
        pid: view.session.as_ref().and_then(|session| session.pid),
        calls_in_flight: view
            .session
            .as_ref()
            .map_or(0, |session| session.liveness.in_flight()),
        asked_at: view
            .session
            .as_ref()
            .and_then(|session| session.liveness.waiting_since())
            .and_then(|start_time| SystemTime::now().checked_sub(start_time.elapsed()))
            .map(unix_millis),
        open_question: server
            .open_question()
            .map(|(oldest_time, count)| api::OpenQuestion {
                count: Some(count),
                ..open_question(oldest_time, disclosure)
            }),
        tools_ready: view.catalog.is_some(),
        lists_stale: view.catalog.is_some() && view.listed.is_none(),
        tool_count: count(ListKind::Tools),
        unmatched_tools: catalog
            .filter(|_| view.listed.is_some())
            .map_or_else(Vec::new, |catalog| catalog.unmatched(&config.withheld)),
        hidden_tools: listed_names(refused_items()),
        hidden_tool_count: refused_items().count(),
        resource_count: count(ListKind::Resources) + count(ListKind::Templates),
        prompt_count: count(ListKind::Prompts),
        stderr,
        stdout,
    }
}

/// An open question in the format of REST. Only the operator sees the client.
pub fn open_question(question: OpenQuestion, disclosure: Disclosure) -> api::OpenQuestion {
    let (client, principal) = match (&question.answerer, disclosure) {
        (Answerer::Client { name, principal }, Disclosure::Operator) => {
            let name = name
                .as_deref()
                .map(|name| redact::redact(name).into_owned());
            let principal = (*principal != Principal::Anonymous).then(|| principal.to_string());
            (name, principal)
        }
        (Answerer::Client { .. } | Answerer::Operator, _) => (None, None),
    };
    api::OpenQuestion {
        server: question.server.to_string(),
        method: question.method,
        asked_at: utc::rfc3339(question.asked_at),
        by_hand: question.answerer == Answerer::Operator,
        client,
        principal,
        count: None,
    }
}

/// The machine-readable code of a next step.
fn action(step: &NextStep) -> api::NextAction {
    match step {
        NextStep::Approve => api::NextAction::Approve,
        NextStep::Enable => api::NextAction::Enable,
        NextStep::CorrectEntry(_) => api::NextAction::CorrectEntry,
        NextStep::Start | NextStep::TryAgain => api::NextAction::Start,
        NextStep::SeeLogAndStart => api::NextAction::SeeLogAndStart,
        NextStep::SeeLog => api::NextAction::SeeLog,
        NextStep::SetCredentials => api::NextAction::SetCredentials,
        NextStep::LogIn => api::NextAction::LogIn,
        NextStep::Wait => api::NextAction::Wait,
    }
}

/// Advice for a server that breaks when it gets `server/discover`.
const SPARE_PROBE: &str = "it fails after server/discover, and is spoken to without; \"protocol\": \"legacy\" in its entry spares it that at every start";

/// The state of the server's stream for messages outside of calls.
fn listening(view: &ServerView) -> Option<api::Listening> {
    let state = view.session.as_ref()?.stream_state()?;
    Some(api::Listening {
        open: state.is_open(),
        reason: state.reason().map(str::to_owned),
    })
}

/// The reason for the server's trouble, or a note about its lists. Bad lists come first.
fn last_error(view: &ServerView) -> Option<String> {
    let is_connected = view.status.state == SessionState::Connected;
    let note = || view.list_note().filter(|_| is_connected);
    let reason = || {
        let reason = view.status.reason.clone();
        reason.filter(|_| !is_connected || view.is_degraded())
    };
    if view.has_bad_lists() {
        note().or_else(reason)
    } else {
        reason().or_else(note)
    }
}

/// The entry that waits for approval. The operator sees it exactly as it will be stored, with
/// unexpanded references.
fn pending_entry(runtime: &Runtime, disclosure: Disclosure) -> api::Pending {
    let entry = &*runtime.entry;
    let command = text(entry, "command").into_iter();
    let url = text(entry, "url");
    match disclosure {
        Disclosure::Client => api::Pending {
            digest: None,
            command: command.collect(),
            cwd: None,
            env: Map::new(),
            url: url.as_deref().map(shown_url),
            entry: Map::new(),
            formerly: None,
            requested_by: None,
            requested_at: None,
        },
        Disclosure::Operator => {
            let args = entry.get("args").and_then(Value::as_array);
            let arg = |arg: &Value| arg.as_str().map_or_else(|| arg.to_string(), str::to_owned);
            let env = entry.get("env").and_then(Value::as_object);
            api::Pending {
                digest: Some(runtime.digest()),
                command: command.chain(args.into_iter().flatten().map(arg)).collect(),
                cwd: text(entry, "cwd"),
                env: env.cloned().unwrap_or_default(),
                url,
                entry: entry.clone(),
                formerly: runtime.formerly.clone().map(formerly),
                requested_by: runtime.requested.as_ref().map(requested_by),
                requested_at: runtime
                    .requested
                    .as_ref()
                    .map(|requester| unix_millis(requester.at)),
            }
        }
    }
}

fn requested_by(requester: &Requested) -> api::RequestedBy {
    let origin = &requester.origin;
    let client = origin.client.as_ref();
    api::RequestedBy {
        client: client.map(|client| redact::redact(&client.name).into_owned()),
        door: origin.door.to_string(),
        principal: origin.principal.clone(),
    }
}

fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, millis)
}

fn formerly(target: ServerTarget) -> api::Formerly {
    let ServerTarget {
        command,
        url,
        env,
        headers,
        ..
    } = target;
    api::Formerly {
        command,
        url,
        env,
        headers,
    }
}

fn text(entry: &Entry, key: &str) -> Option<String> {
    entry.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The URL without query and fragment, because these may contain secrets.
fn shown_url(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// The duration in whole milliseconds, the unit of REST.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
