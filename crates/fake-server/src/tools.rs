//! The behaviour of the tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::action::{ServiceAction, finishing};
use crate::bend::Bend;
use crate::catalog::{self, WEIRD_RESULT};
use crate::flood::{self, Flood, FloodText, Pipe};
use crate::interview;
use crate::message::{self, RpcError};
use crate::modern::listen;
use crate::questions::{ClientQuestion, Subject};
use crate::request::ReceivedRequest;
use crate::revision::RevisionEra;
use crate::service::{Service, append};
use crate::session::Outgoing;
use crate::tools_of_eras;

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

/// Runs a tool and counts the run.
pub(crate) fn call(request: &ReceivedRequest) -> Result<Vec<ServiceAction>, RpcError> {
    let params: CallParams = request.read()?;
    let ReceivedRequest {
        service,
        session,
        script,
        id,
        client,
        ..
    } = *request;
    let name = params.name.as_str();
    let has_extra_tool = service.shared().extra_tool;
    if !catalog::has_tool(name, script, has_extra_tool, &client.revision) {
        return Err(RpcError::invalid_params(format!("unknown tool: {name}")));
    }
    let raw_arguments = params.arguments.map_or("{}", RawValue::get);
    // Only tool `echo` needs the raw arguments.
    let arguments: Value = serde_json::from_str(raw_arguments).unwrap_or_default();
    let runs = service.shared().count_run(name);
    if script.hang_after.is_some_and(|limit| runs >= limit) {
        service.turn_deaf();
    }
    if let Some(path) = &script.count_file {
        let key = arguments["key"].as_str();
        let key = key.map_or_else(String::new, |key| format!(" {key}"));
        append(path, &format!("{name} {id}{key}"));
    }
    let number = |key: &str| arguments[key].as_u64().unwrap_or_default();
    let text_argument = |key: &str| arguments[key].as_str().unwrap_or_default();
    let answer = |result: &str| request.answer(result);
    let text_answer = |text: &str| vec![answer(&message::text(text))];

    if let Some(actions) = tools_of_eras::run(request, name, &arguments)? {
        return Ok(actions);
    }
    let actions = match name {
        "echo" => vec![answer(&echo(raw_arguments)?)],
        "add" => text_answer(&sum(&arguments["a"], &arguments["b"])?.to_string()),
        "sleep" => {
            let ms = number("ms");
            vec![
                ServiceAction::Wait(Duration::from_millis(ms)),
                answer(&message::text(&format!("slept {ms} ms"))),
            ]
        }
        "progress" => {
            let steps = number("steps").max(1);
            let pause = Duration::from_millis(number("intervalMs"));
            let token = params.meta.and_then(|meta| meta.progress_token);
            let mut actions = Vec::new();
            for step in 1..=steps {
                actions.push(ServiceAction::Wait(pause));
                if let Some(token) = token {
                    let is_flat = script.bends(Bend::FlatProgress);
                    let step = if is_flat { 1 } else { step };
                    actions.push(ServiceAction::Send(progress(
                        request,
                        token.get(),
                        step,
                        steps,
                    )));
                }
            }
            actions.push(answer(&message::text(&format!("{steps} steps done"))));
            actions
        }
        "log" => {
            let level = arguments["level"].as_str().unwrap_or("info");
            let severity = catalog::level_index(level)?;
            let is_logged = client
                .level
                .is_some_and(|min_severity| severity >= min_severity);
            let count = if is_logged { number("n").max(1) } else { 0 };
            let mut actions: Vec<ServiceAction> = (1..=count)
                .map(|n| {
                    let data = json!(script.tainted(&format!("line {n}")));
                    let text = message::notification(
                        "notifications/message",
                        &format!(r#"{{"level":"{level}","logger":"fake","data":{data}}}"#),
                    );
                    if arguments["outside"] == json!(true) && !request.is_modern() {
                        ServiceAction::Publish(Arc::clone(session), text)
                    } else {
                        ServiceAction::Send(text)
                    }
                })
                .collect();
            actions.extend(text_answer(&format!("{count} lines logged")));
            actions
        }
        "big" => text_answer(&"x".repeat(number("bytes") as usize)),
        "error" => {
            let mut result = json!({"content": [{"type": "text"}], "isError": true});
            result["content"][0]["text"] = script.tainted("the tool failed").into();
            vec![answer(&result.to_string())]
        }
        "rpc_error" => {
            // 2026-07-28 reserves an error code that legacy servers may use.
            let code = match client.era {
                RevisionEra::Legacy => -32050,
                RevisionEra::Modern => -31050,
            };
            let error = RpcError {
                data: Some(json!({"reason": "asked for"})),
                ..RpcError::new(code, script.tainted("the request failed"))
            };
            vec![ServiceAction::Send(message::error(id, &error))]
        }
        "env" => text_answer(&std::env::var(text_argument("name")).unwrap_or_default()),
        "pid" => text_answer(&std::process::id().to_string()),
        "cwd" => text_answer(
            &std::env::current_dir()
                .map_or_else(|error| error.to_string(), |path| path.display().to_string()),
        ),
        "count" => vec![answer(&message::structured(&counts(service)))],
        "crash" => vec![ServiceAction::Exit(3)],
        "hang" => vec![ServiceAction::Hang],
        "hang_server" => {
            service.hang(true);
            vec![ServiceAction::Hang]
        }
        "busy" => {
            let ms = number("ms");
            vec![
                ServiceAction::Burn(Duration::from_millis(ms)),
                answer(&message::text(&format!("busy for {ms} ms"))),
            ]
        }
        "flood" => {
            let bytes = number("bytes") as usize;
            let text = flood_text(&arguments)?;
            let mut actions = match (arguments["to"].as_str(), text) {
                (Some("answer"), FloodText::Line(line)) => (0..bytes / line.len())
                    .map(|_| ServiceAction::Send(line.clone()))
                    .collect(),
                (to, text) => vec![ServiceAction::Flood(Flood {
                    to: match to {
                        None | Some("stdout") => Pipe::Stdout,
                        Some("stderr") => Pipe::Stderr,
                        Some(_) => {
                            return Err(RpcError::invalid_params("stdout, stderr or answer"));
                        }
                    },
                    begin: if arguments["as_message"] == json!(true) {
                        r#"{"jsonrpc":"2.0","id":0,"result":""#
                    } else {
                        ""
                    },
                    bytes,
                    text,
                    time: arguments["ms"].as_u64().map(Duration::from_millis),
                })],
            };
            actions.push(answer(&message::text("flooded")));
            actions
        }
        "break_off" => vec![ServiceAction::BreakOff(
            request.response(&message::text("half")),
        )],
        "drop_streams" => {
            for session in service.sessions() {
                session.break_stream(Outgoing::Cut);
            }
            listen::cut(&mut service.shared().listens);
            text_answer("streams dropped")
        }
        "forget_sessions" => {
            service.close_sessions();
            text_answer("sessions forgotten")
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
            text_answer("unavailable from now on")
        }
        "twice" => [text_answer("first answer"), text_answer("second answer")]
            .into_iter()
            .flatten()
            .collect(),
        "wrong_id" => vec![
            ServiceAction::Send(message::result(
                r#""nobody-asked""#,
                &message::text("wrong id"),
            )),
            answer(&message::text("right id")),
        ],
        "ask" => {
            let AskArguments { method, params } = serde_json::from_str(raw_arguments)
                .map_err(|error| RpcError::invalid_params(error.to_string()))?;
            let question = match method {
                None => ClientQuestion::sampling(),
                Some(method) => ClientQuestion {
                    key: "ask",
                    method,
                    params: params.map_or("{}", RawValue::get).to_owned(),
                },
            };
            if request.is_modern() {
                let subject = Subject::Tool(name.to_owned());
                return interview::interview(request, subject, vec![vec![question]]);
            }
            vec![ask(request, &question.method, &question.params)]
        }
        // A violation of the protocol: modern servers must not send requests.
        "ping_client" => vec![ask(request, "ping", "{}")],
        "change_tools" => {
            service.shared().extra_tool = arguments["remove"] != json!(true);
            changed(service, "tools");
            text_answer("tools changed")
        }
        "change_resources" => {
            changed(service, "resources");
            text_answer("resources changed")
        }
        "change_prompts" => {
            changed(service, "prompts");
            text_answer("prompts changed")
        }
        "touch" => {
            let uri = text_argument("uri");
            let count = touch(service, uri);
            text_answer(&format!("{count} sessions told"))
        }
        "subscriptions" => {
            let mut counts = Map::new();
            for session in service.sessions() {
                for (uri, count) in &session.state().subscriptions {
                    let total = counts.get(uri).and_then(Value::as_u64).unwrap_or_default();
                    counts.insert(uri.clone(), json!(total + count));
                }
            }
            for uri in listen::resources(&service.shared().listens) {
                let total = counts.get(&uri).and_then(Value::as_u64).unwrap_or_default();
                counts.insert(uri, json!(total + 1));
            }
            vec![answer(&message::structured(&Value::Object(counts)))]
        }
        "cancelled" => {
            let ids = service.shared().cancelled.join(",");
            text_answer(&format!("[{ids}]"))
        }
        "client" => text_answer(&client.words),
        "out_of_order" => {
            let mut shared_state = service.shared();
            if let Some(first) = shared_state.parked.take().filter(|call| !call.is_closed()) {
                vec![
                    answer(&message::text("called second")),
                    ServiceAction::Release(first),
                ]
            } else {
                let (sender, second_answer) = oneshot::channel();
                shared_state.parked = Some(sender);
                vec![
                    ServiceAction::Park(second_answer),
                    answer(&message::text("called first")),
                ]
            }
        }
        "stderr" => {
            flood::complain(text_argument("text"));
            text_answer("printed")
        }
        "weird" => vec![answer(WEIRD_RESULT)],
        // Tool `extra` and the numbered tools return their names.
        _ => text_answer(name),
    };
    Ok(finishing(name, actions))
}

/// Returns the text that a flood repeats. Messages are at least as long as `lineBytes`.
fn flood_text(arguments: &Value) -> Result<FloodText, RpcError> {
    let pad = |begin: &str, end: &str| {
        let length = arguments["lineBytes"].as_u64().unwrap_or_default() as usize;
        let padding = length.saturating_sub(begin.len() + end.len());
        FloodText::Line(format!("{begin}{}{end}", "x".repeat(padding)))
    };
    Ok(match arguments["of"].as_str() {
        None if arguments["endless"] == json!(true) => FloodText::Endless,
        None => FloodText::Junk,
        Some("tools_changed") => pad(
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"x":""#,
            r#""}}}"#,
        ),
        Some("log") => pad(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"fake","data":"flood"#,
            r#""}}"#,
        ),
        Some("broken") => pad(r#"{"jsonrpc":"2.0","method":"notifica"#, ""),
        Some(_) => {
            return Err(RpcError::invalid_params("tools_changed, log or broken"));
        }
    })
}

/// Returns the text with the raw arguments.
fn echo(raw_arguments: &str) -> Result<String, RpcError> {
    let EchoArguments { text } = serde_json::from_str(raw_arguments)
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let text = text.map(RawValue::get);
    let text = text.filter(|text| text.starts_with('"')).unwrap_or(r#""""#);
    Ok(format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{raw_arguments}}}"#
    ))
}

/// Returns the sum of two numbers. A missing number is zero, and integers stay integers.
fn sum(a: &Value, b: &Value) -> Result<Value, RpcError> {
    if [a, b]
        .iter()
        .any(|number| !number.is_number() && !number.is_null())
    {
        return Err(RpcError::invalid_params("a and b must be numbers"));
    }
    Ok(match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => json!(a.saturating_add(b)),
        _ => json!(a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default()),
    })
}

fn progress(request: &ReceivedRequest, token: &str, step: u64, steps: u64) -> String {
    let message = if request.client.revision.as_str() >= "2025-03-26" {
        let message = request.script.tainted(&format!("step {step}"));
        format!(r#","message":{}"#, json!(message))
    } else {
        String::new()
    };
    message::notification(
        "notifications/progress",
        &format!(r#"{{"progressToken":{token},"progress":{step},"total":{steps}{message}}}"#),
    )
}

/// Asks the client, even without its capability. The answer is the text of the result.
fn ask(request: &ReceivedRequest, method: &str, params: &str) -> ServiceAction {
    let id = request.id.to_owned();
    ServiceAction::Ask {
        rounds: vec![vec![interview::client_request(request, method, params)]],
        then: Box::new(move |answers| vec![message::result(&id, &message::text(&answers[0]))]),
    }
}

/// Announces a changed list to every session and subscription.
pub(crate) fn changed(service: &Service, list: &str) {
    let method = format!("notifications/{list}/list_changed");
    let text = message::notification(&method, "{}");
    for session in service.sessions() {
        // A modern client on the pipe gets only subscribed changes.
        let is_legacy = session.state().revision.is_some() || !service.script().is_modern();
        if is_legacy {
            session.publish(text.clone());
        }
    }
    listen::list_changed(&service.shared().listens, list);
}

/// Notifies the subscribers of a resource. Returns their number.
fn touch(service: &Service, uri: &str) -> usize {
    let text = message::notification(
        "notifications/resources/updated",
        &json!({"uri": uri}).to_string(),
    );
    let mut sessions = service.sessions();
    sessions.retain(|session| session.state().subscriptions.contains_key(uri));
    for session in &sessions {
        session.publish(text.clone());
    }
    sessions.len() + listen::updated(&service.shared().listens, uri)
}

fn counts(service: &Service) -> Value {
    let shared_state = service.shared();
    let total: u64 = shared_state.runs.values().sum();
    let mut counts = json!(shared_state.runs);
    counts["total"] = json!(total);
    counts
}
