//! `POST /api/servers/try`: starts the server of an entry once and saves nothing, as `mainstay add`
//! does first. The server is stopped before the answer, or when the caller disconnects.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, response::IntoResponse, routing::MethodRouter};
use http::{HeaderValue, Method, header};
use mainstay_api as api;
use mainstay_config::{Runtime, edit::Entry, masking};
use mainstay_core::{
    catalog::{CatalogItem, ListKind, ServerCatalog},
    redact,
};
use mainstay_gateway::{
    calls::Closing,
    registry::NewServer,
    supervisor::ServerView,
    trial::{Trial, Tried},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    RestDoor,
    address::{Path, Query},
    body::Body,
    entries::{self, Persist},
    refusal::Refusal,
    routing,
    servers::millis,
    via::{Author, RequestView},
};

/// Maximum number of trials at the same time.
pub const MAX_TRIALS: usize = 4;

/// The name of a server if the request has none.
const NAMELESS: &str = "trial";

/// Maximum length of a tool's description, in characters.
const MAX_DESCRIPTION: usize = 4096;

/// Permits for running trials, shared by all requests.
#[derive(Clone, Debug)]
pub struct Trials(Arc<Semaphore>);

impl Default for Trials {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_TRIALS)))
    }
}

pub async fn run(
    State(door): State<RestDoor>,
    Extension(Trials(permits)): Extension<Trials>,
    Body(mut body): Body<Map<String, Value>>,
) -> Result<Json<api::TrialRun>, Refusal> {
    for option in ["persist", "replace"] {
        body.shift_remove(option);
    }
    let name = match body.shift_remove("name") {
        None | Some(Value::Null) => NAMELESS.to_owned(),
        Some(Value::String(name)) if name.is_empty() => NAMELESS.to_owned(),
        Some(Value::String(name)) => name,
        Some(_) => return Err(Refusal::Malformed("\"name\" must be a string".to_owned())),
    };
    let permit = permits.try_acquire_owned();
    let permit = permit.map_err(|_| Refusal::TooManyTrials(MAX_TRIALS))?;
    let NewServer { runtime, warnings } = entries::read(&door, &name, &body).await?;
    let Runtime { config, entry, .. } = runtime;
    let lineage = door.gateway.lineage.apart();
    let gone = CancellationToken::new();
    let _cancel_on_drop = gone.clone().drop_guard();
    let tried = door.gateway.registry.run_to_end(async move {
        let trial = Trial::begin(config, lineage);
        let settled = gone.run_until_cancelled(trial.settled()).await;
        let tried = settled.map(|()| trial_run(&trial));
        trial.end().await;
        drop(permit);
        tried
    });
    let tried = tried.await.ok_or_else(Closing::refusal)?;
    Ok(Json(api::TrialRun {
        name,
        target: masked_target(&entry),
        warnings,
        ..tried
    }))
}

/// The operations of a server that is named `try`, because its path is the same.
pub fn routes_of_server_try() -> MethodRouter<RestDoor> {
    let name = || Path("try".to_owned());
    let put = move |door: State<RestDoor>, author: Author, body: Body<Map<String, Value>>| {
        entries::put(door, name(), author, body)
    };
    let delete =
        move |door: State<RestDoor>, view: RequestView, author: Author, persist: Query<Persist>| {
            entries::delete(door, view, name(), author, persist)
        };
    routing::get(move |door: State<RestDoor>, view: RequestView| entries::get(door, view, name()))
        .merge(routing::put(put))
        .merge(routing::delete(delete))
        .fallback(wrong_method)
}

/// Refuses a wrong method. `Allow` has only the method of trials, not those of a server named
/// `try`.
async fn wrong_method(method: Method) -> impl IntoResponse {
    let allow = HeaderValue::from_static("POST");
    ([(header::ALLOW, allow)], Refusal::WrongMethod(method))
}

/// The result of a trial. The caller sets the name, the target and the warnings.
fn trial_run(trial: &Trial) -> api::TrialRun {
    let common = api::TrialRun {
        success: false,
        name: String::new(),
        target: api::ShownTarget::default(),
        handshake_ms: None,
        server: None,
        protocol_version: None,
        tools: Vec::new(),
        resource_count: 0,
        prompt_count: 0,
        error: None,
        next_step: None,
        stderr: trial.stderr(),
        warnings: Vec::new(),
    };
    match trial.outcome() {
        Tried::Up { view, catalog } => up(trial, &view, &catalog, common),
        Tried::Down { reason } => api::TrialRun {
            next_step: Some(trial.next_step(&reason).to_owned()),
            error: Some(reason),
            ..common
        },
    }
}

fn up(
    trial: &Trial,
    view: &ServerView,
    catalog: &ServerCatalog,
    common: api::TrialRun,
) -> api::TrialRun {
    let greeting = view.session.as_ref().map(|session| &session.greeting);
    let info = greeting.and_then(|greeting| greeting.server_info.clone());
    let count = |kind| trial.visible_items(catalog, kind, |_| ()).len();
    api::TrialRun {
        success: true,
        handshake_ms: view.handshake.map(millis),
        server: info.map(|(name, version)| api::ServerInfo {
            name: trial.redacted(&name),
            version: trial.redacted(&version),
        }),
        protocol_version: greeting.map(|greeting| greeting.revision.as_str().to_owned()),
        tools: trial.visible_items(catalog, ListKind::Tools, tool),
        resource_count: count(ListKind::Resources) + count(ListKind::Templates),
        prompt_count: count(ListKind::Prompts),
        ..common
    }
}

fn tool(item: &CatalogItem) -> api::TrialTool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ToolTexts {
        description: Option<Value>,
        title: Option<Value>,
    }
    let texts: ToolTexts = serde_json::from_str(&item.raw).unwrap_or_default();
    let text = |value: Option<Value>| {
        let text = value?.as_str()?.chars().take(MAX_DESCRIPTION).collect();
        Some(text)
    };
    api::TrialTool {
        name: item.key.to_string(),
        description: text(texts.description),
        title: text(texts.title),
    }
}

/// The target of an entry, to show to people. Secrets become `***`.
pub fn masked_target(entry: &Entry) -> api::ShownTarget {
    // The pointer does not matter: the placeholders that contain it are replaced below.
    let masked = masking::masked_entry(entry, "");
    let text = |value: &Value| match value.as_str() {
        Some(text) => match text.find(masking::START) {
            Some(at) => format!("{}***", &text[..at]),
            // An argument may be a script or JSON with secrets.
            None => redact::redact(text).replace(redact::HIDDEN, "***"),
        },
        None => value.to_string(),
    };
    let text_of_first = |keys: &[&str]| keys.iter().find_map(|key| masked.get(*key)).map(text);
    let names = |value: Option<&Value>| {
        let members = value.and_then(Value::as_object).into_iter().flatten();
        members.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let args = masked.get("args").and_then(Value::as_array);
    let command = text_of_first(&["command"]);
    let is_process = command.is_some();
    let mut headers = names(masked.get("headers"));
    headers.extend(names(
        masked
            .get("requestInit")
            .and_then(|init| init.get("headers")),
    ));
    if masked.contains_key("bearerToken") {
        headers.push("Authorization".to_owned());
    }
    api::ShownTarget {
        command: command
            .into_iter()
            .chain(args.into_iter().flatten().map(text).filter(|_| is_process))
            .collect(),
        cwd: text_of_first(&["cwd"]),
        url: text_of_first(&["url", "serverUrl", "httpUrl", "remoteUrl"]).filter(|_| !is_process),
        env: names(masked.get("env")),
        headers,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_shown_without_secrets() {
        let entry = json!({
            "command": "npx", "args": ["-y", "thing", "--token", "s3cret", "--api-key=s3cret", 7], "cwd": "/x",
            "env": {"API_KEY": "s3cret"},
        });
        let target = masked_target(entry.as_object().expect("an entry"));
        assert_eq!(
            target,
            api::ShownTarget {
                command: ["npx", "-y", "thing", "--token", "***", "--api-key=***", "7"]
                    .map(str::to_owned)
                    .to_vec(),
                cwd: Some("/x".to_owned()),
                env: vec!["API_KEY".to_owned()],
                ..api::ShownTarget::default()
            }
        );
        let entry = json!({
            "url": "https://h/mcp?key=s3cret", "headers": {"X-Key": "s3cret"}, "bearerToken": "s3cret",
        });
        let target = masked_target(entry.as_object().expect("an entry"));
        assert_eq!(target.url.as_deref(), Some("https://h/mcp?***"));
        assert_eq!(target.headers, ["X-Key", "Authorization"]);
        assert!(target.command.is_empty());
    }
}
