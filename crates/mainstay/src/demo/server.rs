//! A small MCP server on stdin and stdout. It shares no code with the gateway, so that the demo has two
//! independent programs.
#![expect(
    clippy::disallowed_methods,
    reason = "its stdout and stderr are Mainstay's pipes"
)]

use std::{
    collections::HashMap,
    io::{self, BufRead as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::tools::{self, DemoTool};

/// Supported revisions, newest first. A client that requests another revision gets the newest one.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const RESOURCE_NOT_FOUND: i64 = -32002;

/// A JSON-RPC error for the client.
struct Refused {
    code: i64,
    message: String,
}

fn refused(code: i64, message: impl Into<String>) -> Refused {
    Refused {
        code,
        message: message.into(),
    }
}

struct Server {
    name: String,
    /// True if the next call of `flaky` fails.
    unlucky: AtomicBool,
    /// Senders that end a sleeping call early, by the id of its request.
    sleeping: Mutex<HashMap<String, Sender<()>>>,
}

/// Serves until stdin ends.
pub fn run(name: &str) -> io::Result<()> {
    let server = Arc::new(Server {
        name: name.to_owned(),
        unlucky: AtomicBool::new(true),
        sleeping: Mutex::default(),
    });
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            answer(&Value::Null, Err(refused(PARSE_ERROR, "not JSON")))?;
            continue;
        };
        server.take(&message)?;
    }
    Ok(())
}

fn answer(id: &Value, outcome: Result<Value, Refused>) -> io::Result<()> {
    let message = match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(Refused { code, message }) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{message}")?;
    stdout.flush()
}

impl Server {
    fn take(self: &Arc<Self>, message: &Value) -> io::Result<()> {
        let params = message["params"].clone();
        let (id, method) = (message.get("id").cloned(), message["method"].as_str());
        match (id, method) {
            (None, Some("notifications/cancelled")) => {
                if let Some(call) = self.sleeping().remove(&params["requestId"].to_string()) {
                    // Ignore the error: the call may have ended meanwhile.
                    call.send(()).ok();
                }
                Ok(())
            }
            // Ignore other notifications, and answers, because this server sends no requests.
            (None, _) | (Some(_), None) if message.is_object() => Ok(()),
            (Some(id), Some("tools/call")) if params["name"] == "sleep" => {
                let server = Arc::clone(self);
                // The thread is not joined. It ends with the process.
                thread::spawn(move || match server.sleep(&id, &params["arguments"]) {
                    Some(outcome) => answer(&id, outcome),
                    None => Ok(()),
                });
                Ok(())
            }
            (Some(id), Some(method)) => answer(&id, self.reply(method, &params)),
            _ => answer(
                &Value::Null,
                Err(refused(INVALID_REQUEST, "not a JSON-RPC message")),
            ),
        }
    }

    fn reply(&self, method: &str, params: &Value) -> Result<Value, Refused> {
        let name = params["name"].as_str().unwrap_or_default();
        match method {
            "initialize" => {
                Ok(self.greeting(params["protocolVersion"].as_str().unwrap_or_default()))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": tools::list()})),
            "tools/call" => match DemoTool::named(name) {
                Some(tool) => Ok(self.call(tool, &params["arguments"])),
                None => Err(refused(INVALID_PARAMS, format!("Unknown tool: {name}"))),
            },
            "resources/list" => Ok(json!({"resources": [{
                "uri": self.uri(),
                "name": "about",
                "description": "What this server is",
                "mimeType": "text/plain",
            }]})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" if params["uri"] == self.uri() => Ok(json!({"contents": [{
                "uri": self.uri(),
                "mimeType": "text/plain",
                "text": format!("I am {}, a demo server (pid {}).", self.name, std::process::id()),
            }]})),
            "resources/read" => Err(refused(RESOURCE_NOT_FOUND, "Resource not found")),
            "prompts/list" => Ok(json!({"prompts": [{
                "name": "greeting",
                "description": "A greeting for somebody",
                "arguments": [{"name": "name", "description": "Who is greeted", "required": true}],
            }]})),
            "prompts/get" if name == "greeting" => match params["arguments"]["name"].as_str() {
                Some(person) => Ok(json!({"messages": [{
                    "role": "user",
                    "content": {"type": "text", "text": format!("Greet {person} warmly.")},
                }]})),
                None => Err(refused(INVALID_PARAMS, "\"name\" is missing")),
            },
            "prompts/get" => Err(refused(INVALID_PARAMS, format!("Unknown prompt: {name}"))),
            _ => Err(refused(
                METHOD_NOT_FOUND,
                format!("Unknown method: {method}"),
            )),
        }
    }

    fn uri(&self) -> String {
        format!("demo://{}/about", self.name)
    }

    fn greeting(&self, requested: &str) -> Value {
        let revision = REVISIONS
            .into_iter()
            .find(|revision| *revision == requested)
            .unwrap_or(REVISIONS[0]);
        json!({
            "protocolVersion": revision,
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": format!("mainstay-demo-{}", self.name), "version": env!("CARGO_PKG_VERSION")},
        })
    }

    fn call(&self, tool: DemoTool, arguments: &Value) -> Value {
        if let Some(fault) = tool.fault(arguments) {
            return tools::failed(&fault);
        }
        match tool {
            DemoTool::Crash => {
                // Ignore the error, because there is no other place to report it.
                writeln!(io::stderr(), "{} crashes, as asked", self.name).ok();
                std::process::exit(3);
            }
            DemoTool::Flaky if self.unlucky.fetch_xor(true, Ordering::Relaxed) => {
                tools::failed("no luck this time; call again")
            }
            tool => tools::text(&tool.run(arguments)),
        }
    }

    /// Sleeps for the requested time. `None` if the call was cancelled, because the client then expects
    /// no answer.
    fn sleep(&self, id: &Value, arguments: &Value) -> Option<Result<Value, Refused>> {
        if let Some(fault) = DemoTool::Sleep.fault(arguments) {
            return Some(Ok(tools::failed(&fault)));
        }
        let (cancel, cancelled) = mpsc::channel();
        self.sleeping().insert(id.to_string(), cancel);
        let ms = arguments["ms"].as_u64().unwrap_or_default();
        match cancelled.recv_timeout(Duration::from_millis(ms)) {
            Err(RecvTimeoutError::Timeout) => {
                self.sleeping().remove(&id.to_string());
                Some(Ok(tools::text(&DemoTool::Sleep.run(arguments))))
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn sleeping(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Sender<()>>> {
        self.sleeping.lock()
    }
}
