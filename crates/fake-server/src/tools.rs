//! What the tools do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::catalog::{self, WEIRD_RESULT};
use crate::message::{self, RpcError};
use crate::process::{Flood, Pipe};
use crate::script::Script;
use crate::service::{Service, append, level_index};
use crate::session::{Action, Outgoing, Session};

#[derive(Deserialize)]
pub(crate) struct CallParams<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AskArguments<'a> {
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

const SAMPLING: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"Who are you?"}}],"maxTokens":100}"#;

pub(crate) fn call(
    service: &Arc<Service>,
    session: &Arc<Session>,
    script: &Script,
    id: &str,
    params: CallParams,
) -> Result<Vec<Action>, RpcError> {
    let name = params.name.as_str();
    if !catalog::has_tool(name, script, service.shared().extra_tool) {
        return Err(RpcError::invalid_params(format!("unknown tool: {name}")));
    }
    let raw = params.arguments.map_or("{}", RawValue::get);
    // Only echo must bear what `Value` cannot hold.
    let arguments: Value = serde_json::from_str(raw).unwrap_or_default();
    let runs = service.shared().ran(name);
    if script.hang_after.is_some_and(|limit| runs >= limit) {
        service.turn_deaf();
    }
    if let Some(path) = &script.count_file {
        let key = arguments["key"].as_str();
        let key = key.map_or_else(String::new, |key| format!(" {key}"));
        append(path, &format!("{name} {id}{key}"));
    }
    let number = |key: &str| arguments[key].as_u64().unwrap_or_default();
    let word = |key: &str| arguments[key].as_str().unwrap_or_default();
    let answer = |result: &str| Action::Send(message::result(id, result));
    let say = |text: &str| vec![answer(&message::text(text))];

    Ok(match name {
        "echo" => vec![answer(&echo(raw)?)],
        "add" => say(&sum(&arguments["a"], &arguments["b"]).to_string()),
        "sleep" => {
            let ms = number("ms");
            vec![
                Action::Wait(Duration::from_millis(ms)),
                answer(&message::text(&format!("slept {ms} ms"))),
            ]
        }
        "progress" => {
            let steps = number("steps").max(1);
            let pause = Duration::from_millis(number("intervalMs"));
            let token = params.meta.and_then(|meta| meta.progress_token);
            let mut actions = Vec::new();
            for step in 1..=steps {
                actions.push(Action::Wait(pause));
                if let Some(token) = token {
                    actions.push(Action::Send(progress(session, token.get(), step, steps)));
                }
            }
            actions.push(answer(&message::text(&format!("{steps} steps done"))));
            actions
        }
        "log" => {
            let level = arguments["level"].as_str().unwrap_or("info");
            let wanted = level_index(level)? >= session.state().level;
            let count = if wanted { number("n").max(1) } else { 0 };
            let mut actions: Vec<Action> = (1..=count)
                .map(|n| {
                    let text = message::notification(
                        "notifications/message",
                        &format!(r#"{{"level":"{level}","logger":"fake","data":"line {n}"}}"#),
                    );
                    if arguments["outside"] == json!(true) {
                        Action::Publish(Arc::clone(session), text)
                    } else {
                        Action::Send(text)
                    }
                })
                .collect();
            actions.extend(say(&format!("{count} lines logged")));
            actions
        }
        "big" => say(&"x".repeat(number("bytes") as usize)),
        "error" => vec![answer(
            r#"{"content":[{"type":"text","text":"the tool failed"}],"isError":true}"#,
        )],
        "rpc_error" => {
            let error = RpcError {
                data: Some(json!({"reason": "asked for"})),
                ..RpcError::new(-32050, "the request failed")
            };
            vec![Action::Send(message::error(id, &error))]
        }
        "env" => say(&std::env::var(word("name")).unwrap_or_default()),
        "pid" => say(&std::process::id().to_string()),
        "cwd" => say(&std::env::current_dir()
            .map_or_else(|error| error.to_string(), |path| path.display().to_string())),
        "count" => vec![answer(&message::structured(&counts(service)))],
        "crash" => vec![Action::Exit(3)],
        "hang" => vec![Action::Hang],
        "hang_server" => {
            service.hang(true);
            vec![Action::Hang]
        }
        "busy" => {
            let ms = number("ms");
            vec![
                Action::Burn(Duration::from_millis(ms)),
                answer(&message::text(&format!("busy for {ms} ms"))),
            ]
        }
        "flood" => {
            let flood = Flood {
                to: match arguments["to"].as_str() {
                    None | Some("stdout") => Pipe::Stdout,
                    Some("stderr") => Pipe::Stderr,
                    Some(_) => return Err(RpcError::invalid_params("stdout or stderr")),
                },
                begin: if arguments["as_message"] == json!(true) {
                    r#"{"jsonrpc":"2.0","id":0,"result":""#
                } else {
                    ""
                },
                bytes: number("bytes") as usize,
                in_lines: arguments["endless"] != json!(true),
            };
            vec![Action::Flood(flood), answer(&message::text("flooded"))]
        }
        "break_off" => vec![Action::BreakOff(message::result(
            id,
            &message::text("half"),
        ))],
        "drop_streams" => {
            for session in service.sessions() {
                session.break_stream(Outgoing::Cut);
            }
            say("streams dropped")
        }
        "forget_sessions" => {
            service.close_sessions();
            say("sessions forgotten")
        }
        "unavailable" => {
            let time = arguments["ms"].as_u64().map(Duration::from_millis);
            service.edit(|script| {
                script.status = Some(arguments["status"].as_u64().unwrap_or(503) as u16);
                script.status_on_all = true;
                script.status_times = arguments["times"].as_u64();
                script.status_until = time.map(|time| Instant::now() + time);
                script.retry_after = arguments["retryAfter"].as_str().map(str::to_owned);
            });
            say("unavailable from now on")
        }
        "twice" => [say("first answer"), say("second answer")]
            .into_iter()
            .flatten()
            .collect(),
        "wrong_id" => vec![
            Action::Send(message::result(
                r#""nobody-asked""#,
                &message::text("wrong id"),
            )),
            answer(&message::text("right id")),
        ],
        "ask" => {
            let AskArguments { method, params } = serde_json::from_str(raw)
                .map_err(|error| RpcError::invalid_params(error.to_string()))?;
            match method.as_deref() {
                None => vec![ask(
                    service,
                    session,
                    id,
                    "sampling/createMessage",
                    SAMPLING,
                )],
                Some(method) => {
                    let params = params.map_or("{}", RawValue::get);
                    vec![ask(service, session, id, method, params)]
                }
            }
        }
        "ping_client" => vec![ask(service, session, id, "ping", "{}")],
        "change_tools" => {
            service.shared().extra_tool = arguments["remove"] != json!(true);
            changed(service, "tools", say("tools changed"))
        }
        "change_resources" => changed(service, "resources", say("resources changed")),
        "change_prompts" => changed(service, "prompts", say("prompts changed")),
        "touch" => {
            let uri = word("uri");
            let text = message::notification(
                "notifications/resources/updated",
                &json!({"uri": uri}).to_string(),
            );
            let told = service
                .sessions()
                .into_iter()
                .filter(|session| session.state().subscriptions.contains_key(uri));
            let mut actions: Vec<Action> = told
                .map(|session| Action::Publish(session, text.clone()))
                .collect();
            let count = actions.len();
            actions.extend(say(&format!("{count} sessions told")));
            actions
        }
        "subscriptions" => {
            let mut counts = Map::new();
            for session in service.sessions() {
                for (uri, count) in &session.state().subscriptions {
                    let total = counts.get(uri).and_then(Value::as_u64).unwrap_or_default();
                    counts.insert(uri.clone(), json!(total + count));
                }
            }
            vec![answer(&message::structured(&Value::Object(counts)))]
        }
        "cancelled" => {
            let ids = service.shared().cancelled.join(",");
            say(&format!("[{ids}]"))
        }
        "client" => say(session.state().client.as_deref().unwrap_or_default()),
        "out_of_order" => {
            let mut shared = service.shared();
            if let Some(first) = shared.parked.take().filter(|it| !it.is_closed()) {
                vec![
                    answer(&message::text("called second")),
                    Action::Release(first),
                ]
            } else {
                let (sender, second) = oneshot::channel();
                shared.parked = Some(sender);
                vec![Action::Park(second), answer(&message::text("called first"))]
            }
        }
        "stderr" => {
            crate::process::complain(word("text"));
            say("printed")
        }
        "weird" => vec![answer(WEIRD_RESULT)],
        // `extra` and the numbered tools.
        _ => say(name),
    })
}

/// The text and the arguments as the bytes that came.
fn echo(raw: &str) -> Result<String, RpcError> {
    let EchoArguments { text } =
        serde_json::from_str(raw).map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let text = text.map(RawValue::get);
    let text = text.filter(|it| it.starts_with('"')).unwrap_or(r#""""#);
    Ok(format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{raw}}}"#
    ))
}

/// Integers stay integers.
fn sum(a: &Value, b: &Value) -> Value {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => json!(a.saturating_add(b)),
        _ => json!(a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default()),
    }
}

fn progress(session: &Session, token: &str, step: u64, steps: u64) -> String {
    let explains = session.state().revision.as_deref() >= Some("2025-03-26");
    let message = if explains {
        format!(r#","message":"step {step}""#)
    } else {
        String::new()
    };
    message::notification(
        "notifications/progress",
        &format!(r#"{{"progressToken":{token},"progress":{step},"total":{steps}{message}}}"#),
    )
}

fn ask(service: &Service, session: &Session, call: &str, method: &str, params: &str) -> Action {
    let id = format!(r#""fake-{}""#, service.serial());
    Action::Ask {
        call: call.to_owned(),
        request: message::request(&id, method, params),
        answer: session.expect_answer(&id),
    }
}

/// Tells every session that a list has changed, then answers.
fn changed(service: &Service, list: &str, answer: Vec<Action>) -> Vec<Action> {
    let method = format!("notifications/{list}/list_changed");
    let text = message::notification(&method, "{}");
    let mut actions: Vec<Action> = service
        .sessions()
        .into_iter()
        .map(|session| Action::Publish(session, text.clone()))
        .collect();
    actions.extend(answer);
    actions
}

fn counts(service: &Service) -> Value {
    let shared = service.shared();
    let total: u64 = shared.runs.values().sum();
    let mut counts = json!(shared.runs);
    counts["total"] = json!(total);
    counts
}
