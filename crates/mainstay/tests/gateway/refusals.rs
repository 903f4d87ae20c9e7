//! Every refused call has one record and is counted once, for each door and each reason.

use std::sync::Arc;

use http::Method;
use mainstay_core::{config, record::Record};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Journal, RecordFilter};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::Backend,
    client::{Http, LATEST, cancelled, initialize},
    gateway::{Gateway, soon, until},
    modern::Modern,
    rest_client::{Rest, never_retry},
    sse::Sse,
};

/// The client for which `y` is switched off.
const LIMITED_CLIENT: &str = "limited";

/// The door through which a call is made.
#[derive(Clone, Copy, Debug)]
enum CallDoor {
    /// A client with a session over HTTP, at this path.
    Mcp(&'static str),
    /// Like `Mcp`, as the client [`LIMITED_CLIENT`].
    Limited,
    /// Like `Mcp`, in a batch.
    Batch,
    /// Like `Mcp`, without an id.
    Notification(&'static str),
    SseNotification,
    StdioNotification,
    ModernNotification,
    /// Like `Modern` at `/mcp`, with a `mainstay-chain` header that lists 100 Mainstays.
    Loop,
    /// A request with an unknown session id, or without a session id.
    UnknownSession,
    NoSession,
    /// HTTP+SSE.
    Sse,
    Stdio,
    /// Stdio, before the client has sent `initialize`.
    StdioUngreeted,
    /// A client without a session, at this path.
    Modern(&'static str),
    /// Like `Modern`, with headers that contradict the body.
    Mismatched,
    /// Like `Modern`, over stdio.
    ModernStdio,
    /// A REST request to this path. The content is the body.
    Rest(&'static str),
}

/// A call that is refused.
struct Case {
    door: CallDoor,
    method: &'static str,
    /// `params` or the body, as JSON.
    content: &'static str,
    server: Option<&'static str>,
    name: &'static str,
    kind: &'static str,
    arguments: Option<&'static str>,
}

/// A table of cases. Each row has the door, the method and the params. After `=>` it has the
/// server, name, kind and arguments that the record must have.
macro_rules! cases {
    ($($door:expr, $method:literal, $content:literal => $server:expr, $name:literal, $kind:literal, $arguments:expr;)*) => {
        [$(Case {
            door: $door, method: $method, content: $content, server: $server, name: $name, kind: $kind,
            arguments: $arguments,
        },)*]
    };
}

/// A gateway with six servers: `x` and `y` are connected, `down` is stopped, `failed` cannot start,
/// `off` is disabled, and `wait` is pending.
struct Refusing {
    gateway: Gateway,
    journal: Arc<Journal>,
    rest: Rest,
    _backends: Vec<Backend>,
    _folder: TempDir,
}

impl Refusing {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default());
        let journal = Arc::new(journal.expect("a journal"));
        let (first_backend, second_backend, down_backend) = (
            Backend::http()
                .await
                .option("disabledTools", json!(["add"])),
            Backend::http().await,
            Backend::http().await,
        );
        let settings = json!({
            "mcpServers": {
                "x": first_backend.entry, "y": second_backend.entry, "down": down_backend.entry,
                "failed": {"command": "/nonexistent/mainstay-test", "reconnect": never_retry()},
                "off": {"command": "/nonexistent/mainstay-test", "disabled": true},
            },
            "ownTools": ["meta", "external", "activity", "records", "control"],
            "profiles": {
                "some": {"servers": ["x"], "tools": {"deny": ["x/sleep"]}, "ownTools": ["meta"]},
            },
        });
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&settings, options).await;
        let rest = gateway.rest();
        for server in ["x", "y", "down"] {
            rest.until_status(server, "connected").await;
        }
        rest.done("down", "stop").await;
        let switch_body = json!({"server": "y", "enabled": false});
        rest.put(&format!("/api/switches/{LIMITED_CLIENT}"), switch_body)
            .await;
        let operator = operator(&gateway).await;
        let added_server = operator
            .call("add_server", json!({"name": "wait", "command": "true"}))
            .await;
        assert_ne!(added_server["isError"], true, "{added_server}");
        Self {
            gateway,
            journal,
            rest,
            _backends: vec![first_backend, second_backend, down_backend],
            _folder: folder,
        }
    }

    /// All records, the newest first.
    async fn records(&self) -> Vec<Record> {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(RecordFilter::default(), 500).await;
        page.expect("it reads").calls
    }

    /// The sum of the counters of calls and of refused calls.
    async fn call_count(&self) -> f64 {
        let door = self.gateway.stranger("/metrics");
        let answer = door.send(Method::GET, door.headers("text/plain"), "").await;
        let text = answer.whole().await.text;
        let counters = ["mainstay_calls_total{", "mainstay_refused_calls_total{"];
        let is_call_counter = |line: &&str| counters.iter().any(|name| line.starts_with(name));
        let values = text.lines().filter(is_call_counter);
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        values.map(|line| value(line).expect("a value")).sum()
    }

    /// Makes the call of a case.
    async fn make(&self, case: &Case) {
        let Case {
            method, content, ..
        } = *case;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{content}}}"#);
        match case.door {
            CallDoor::Mcp(path) => drop(self.gateway.client_at(path).await.post(request).await),
            CallDoor::Limited => {
                let mut client = self.gateway.stranger("/mcp");
                let greeting_text =
                    initialize(LATEST).replace("\"tests\"", &format!("\"{LIMITED_CLIENT}\""));
                client.greet(&greeting_text).await;
                client.post(request).await;
            }
            CallDoor::Batch => {
                let mut client = self.gateway.stranger("/mcp");
                client.initialize("2025-03-26").await;
                client.post(format!("[{request}]")).await;
            }
            CallDoor::Notification(path) => {
                let client = self.gateway.client_at(path).await;
                client.post(request.replace(r#""id":7,"#, "")).await;
            }
            CallDoor::SseNotification => {
                let client = Sse::greeted(&self.gateway, "/sse").await;
                client.tell(&request.replace(r#""id":7,"#, "")).await;
            }
            CallDoor::StdioNotification => {
                let mut pipe = self.gateway.pipe().await;
                pipe.send(request.replace(r#""id":7,"#, "")).await;
                pipe.close().await;
            }
            CallDoor::ModernNotification => {
                let client = Modern::at(&self.gateway, "/mcp");
                let content = serde_json::from_str(content).expect("JSON");
                let (headers, mut request) = client.request(method, content);
                request.as_object_mut().expect("a message").remove("id");
                client.send((headers, request)).await.whole().await;
            }
            CallDoor::Loop => {
                let client = Modern::at(&self.gateway, "/mcp");
                let content = serde_json::from_str(content).expect("JSON");
                let (mut headers, request) = client.request(method, content);
                let chain = ["a"; 100].join(",");
                headers.insert("mainstay-chain", chain.parse().expect("ASCII"));
                client.send((headers, request)).await.whole().await;
            }
            CallDoor::UnknownSession => {
                let mut client = self.gateway.stranger("/mcp");
                client.session = Some("nobody".to_owned());
                client.post(request).await;
            }
            CallDoor::NoSession => drop(self.gateway.stranger("/mcp").post(request).await),
            CallDoor::Sse => {
                let mut client = Sse::greeted(&self.gateway, "/sse").await;
                client.ask(&request).await;
            }
            CallDoor::Stdio => {
                let mut pipe = self.gateway.pipe().await;
                pipe.send(request).await;
                pipe.message().await;
                pipe.close().await;
            }
            CallDoor::StdioUngreeted => {
                let mut pipe = self.gateway.silent_pipe();
                pipe.send(request).await;
                pipe.message().await;
                pipe.close().await;
            }
            CallDoor::Modern(path) => {
                let client = Modern::at(&self.gateway, path);
                let content = serde_json::from_str(content).expect("JSON");
                client.ask(method, content).await;
            }
            CallDoor::Mismatched => {
                let client = Modern::at(&self.gateway, "/mcp");
                let content = serde_json::from_str(content).expect("JSON");
                let (mut headers, request) = client.request(method, content);
                headers.insert("mcp-name", "another".parse().expect("ASCII"));
                client.send((headers, request)).await.whole().await;
            }
            CallDoor::ModernStdio => {
                let client = Modern::at(&self.gateway, "/mcp");
                let content = serde_json::from_str(content).expect("JSON");
                let mut pipe = self.gateway.silent_pipe();
                let (_, request) = client.request(method, content);
                pipe.send(request.to_string()).await;
                pipe.message().await;
                pipe.close().await;
            }
            CallDoor::Rest(path) => {
                self.rest.raw(path, content).await;
            }
        }
    }

    /// Makes a call. Returns an error if its record or its count is wrong.
    async fn check(&self, case: &Case) -> Result<(), String> {
        let (records_before, counts_before) = (self.records().await, self.call_count().await);
        soon("an answer", self.make(case)).await;
        let mut after = self.records().await;
        after.truncate(after.len() - records_before.len());
        let counts_before = self.call_count().await - counts_before;
        let [record] = after.as_slice() else {
            return Err(format!("{} records, counted {counts_before}", after.len()));
        };
        let error = record.error.as_ref();
        let actual_target = (
            record.target.server.as_ref().map(ToString::to_string),
            &*record.target.method,
            &*record.target.tool,
            error.map_or("", |error| &*error.kind),
            record.arguments_text.as_deref(),
            (
                record.state.as_str(),
                record.status.as_str(),
                record.attempts,
            ),
        );
        let expected = (
            case.server.map(str::to_owned),
            case.method,
            case.name,
            case.kind,
            case.arguments,
            ("not_sent", "refused", 0),
        );
        if actual_target != expected {
            return Err(format!("{actual_target:?}\n    expected {expected:?}"));
        }
        if (counts_before - 1.0).abs() > f64::EPSILON {
            return Err(format!("counted {counts_before} times"));
        }
        Ok(())
    }

    async fn check_all(&self, cases: &[Case]) {
        let mut mismatches = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            if let Err(reason) = self.check(case).await {
                mismatches.push(format!(
                    "{number}: {:?} {} {}\n    {reason}",
                    case.door, case.method, case.content
                ));
            }
        }
        assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    }
}

/// Connects a client with the control token.
async fn operator(gateway: &Gateway) -> Http {
    let mut client = gateway.stranger("/mcp");
    client.token = Some(crate::rest_client::TOKEN.to_owned());
    client.initialize(LATEST).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_doors_record_refused_calls() {
    let fixture = Refusing::start().await;
    let args = Some(r#"{"a":1}"#);
    fixture.check_all(&cases![
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"nope","arguments":{"a":1}}"# => None, "nope", "tool_not_found", args;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"x__nope","arguments":{"a":1}}"# => Some("x"), "nope", "tool_not_found", args;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"x__add"}"# => Some("x"), "add", "tool_not_found", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"echo"}"# => None, "echo", "tool_not_found", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"down__nope"}"# => Some("down"), "nope", "tool_not_found", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"failed__echo"}"# => Some("failed"), "echo", "tool_not_found", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"wait__echo"}"# => Some("wait"), "echo", "tool_not_found", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"arguments":{"a":1}}"# => None, "", "invalid_request", args;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":7,"arguments":{"a":1}}"# => None, "", "invalid_request", args;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"x__echo","name":"y__echo"}"# => None, "y__echo", "invalid_request", None;
        CallDoor::Mcp("/mcp"), "tools/call", r#"{"name":"x__echo","_meta":{"progressToken":[]}}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Mcp("/mcp"), "prompts/get", r#"{"name":"x__nope"}"# => Some("x"), "nope", "prompt_not_found", None;
        CallDoor::Mcp("/mcp"), "prompts/get", "{}" => None, "", "invalid_request", None;
        CallDoor::Mcp("/mcp"), "resources/read", "{}" => None, "", "invalid_request", None;
        CallDoor::Mcp("/mcp"), "resources/read", r#"{"uri":"fake://nothing"}"# => None, "fake://nothing", "resource_not_found", None;
        CallDoor::Modern("/mcp"), "resources/read", r#"{"uri":"fake://nothing"}"# => None, "fake://nothing", "resource_not_found", None;
        CallDoor::Mcp("/mcp/some"), "tools/call", r#"{"name":"y__echo"}"# => None, "y__echo", "tool_not_found", None;
        CallDoor::Mcp("/mcp/some"), "tools/call", r#"{"name":"x__sleep"}"# => Some("x"), "sleep", "tool_not_found", None;
        CallDoor::Limited, "tools/call", r#"{"name":"y__echo","arguments":{"a":1}}"# => Some("y"), "echo", "tool_not_found", args;
        CallDoor::Mcp("/servers/x/mcp"), "tools/call", r#"{"name":"add","arguments":{"a":1}}"# => Some("x"), "add", "tool_not_found", args;
        CallDoor::Mcp("/servers/x/mcp"), "tools/call", r#"{"name":[]}"# => Some("x"), "", "invalid_request", None;
        CallDoor::Batch, "tools/call", r#"{"name":"nope"}"# => None, "nope", "tool_not_found", None;
        CallDoor::Notification("/mcp"), "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Notification("/servers/x/mcp"), "tools/call", r#"{"name":"echo"}"# => Some("x"), "echo", "invalid_request", None;
        CallDoor::SseNotification, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::StdioNotification, "prompts/get", r#"{"name":"x__plain"}"# => None, "x__plain", "invalid_request", None;
        CallDoor::ModernNotification, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Loop, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::UnknownSession, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::NoSession, "prompts/get", r#"{"name":"x__plain"}"# => None, "x__plain", "invalid_request", None;
        CallDoor::Sse, "tools/call", r#"{"name":"nope"}"# => None, "nope", "tool_not_found", None;
        CallDoor::Stdio, "tools/call", r#"{"name":"nope"}"# => None, "nope", "tool_not_found", None;
        CallDoor::StdioUngreeted, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Modern("/mcp"), "tools/call", r#"{"name":"nope"}"# => None, "nope", "tool_not_found", None;
        CallDoor::Modern("/mcp"), "resources/read", r#"{"uri":7}"# => None, "", "invalid_request", None;
        CallDoor::Modern("/mcp"), "tools/call", r#"{"name":"x__echo","requestState":"none of ours"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Modern("/mcp"), "tools/call", r#"{"name":"x__echo","inputResponses":7}"# => None, "x__echo", "invalid_request", None;
        CallDoor::Modern("/servers/x/mcp"), "tools/call", r#"{"name":"add"}"# => Some("x"), "add", "tool_not_found", None;
        CallDoor::Modern("/servers/failed/mcp"), "tools/call", r#"{"name":"echo"}"# => Some("failed"), "echo", "server_not_connected", None;
        CallDoor::Mismatched, "tools/call", r#"{"name":"x__echo"}"# => None, "x__echo", "invalid_request", None;
        CallDoor::ModernStdio, "tools/call", r#"{"name":"nope"}"# => None, "nope", "tool_not_found", None;
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rest_records_refused_calls() {
    let fixture = Refusing::start().await;
    let args = Some(r#"{"a":1}"#);
    let call = CallDoor::Rest("/api/mcp-tools/call");
    let get = CallDoor::Rest("/api/mcp-prompts/get");
    let read_door = CallDoor::Rest("/api/mcp-resources/read");
    let full_door = CallDoor::Rest("/api/resources/read");
    fixture.check_all(&cases![
        call, "tools/call", r#"{"tool":"nobody/echo","arguments":{"a":1}}"# => None, "nobody/echo", "server_not_found", args;
        call, "tools/call", r#"{"tool":"x/nope"}"# => Some("x"), "nope", "tool_not_found", Some("{}");
        call, "tools/call", r#"{"tool":"echo"}"# => None, "echo", "tool_not_found", Some("{}");
        call, "tools/call", r#"{"tool":"nope"}"# => None, "nope", "tool_not_found", Some("{}");
        call, "tools/call", r#"{"tool":"failed/echo"}"# => Some("failed"), "echo", "server_not_connected", Some("{}");
        call, "tools/call", r#"{"tool":"wait/echo"}"# => Some("wait"), "echo", "server_not_connected", Some("{}");
        call, "tools/call", r#"{"tool":"x/echo","arguments":[]}"# => None, "x/echo", "invalid_request", None;
        call, "tools/call", r#"{"arguments":{"a":1}}"# => None, "", "invalid_request", args;
        call, "tools/call", r#"{"tool":"#  => None, "", "invalid_request", None;
        get, "prompts/get", r#"{"prompt":"x/nope"}"# => Some("x"), "nope", "prompt_not_found", None;
        get, "prompts/get", r#"{"prompt":"nobody/plain"}"# => None, "nobody/plain", "server_not_found", None;
        get, "prompts/get", "{}" => None, "", "invalid_request", None;
        read_door, "resources/read", r#"{"server":"nobody","uri":"fake://text"}"# => None, "fake://text", "server_not_found", None;
        read_door, "resources/read", r#"{"uri":"fake://text"}"# => None, "fake://text", "invalid_request", None;
        read_door, "resources/read", r#"{"server":"down","uri":"fake://text"}"# => Some("down"), "fake://text", "server_not_connected", None;
        full_door, "resources/read", r#"{"uri":"fake://nothing"}"# => None, "fake://nothing", "resource_not_found", None;
        full_door, "resources/read", "{}" => None, "", "invalid_request", None;
        full_door, "resources/read", "7" => None, "", "invalid_request", None;
        CallDoor::Rest("/api/servers/nobody/tools/echo/call"), "tools/call", r#"{"arguments":{"a":1}}"# => None, "nobody/echo", "server_not_found", args;
        CallDoor::Rest("/api/servers/down/tools/echo/call"), "tools/call", r#"{"arguments":{"a":1}}"# => Some("down"), "echo", "server_not_connected", args;
        CallDoor::Rest("/api/servers/failed/tools/echo/call"), "tools/call", "{}" => Some("failed"), "echo", "server_not_connected", Some("{}");
        CallDoor::Rest("/api/servers/wait/tools/echo/call"), "tools/call", "{}" => Some("wait"), "echo", "server_not_connected", Some("{}");
        CallDoor::Rest("/api/servers/off/tools/echo/call"), "tools/call", "{}" => Some("off"), "echo", "server_not_connected", Some("{}");
        CallDoor::Rest("/api/servers/x/tools/add/call"), "tools/call", "{}" => Some("x"), "add", "tool_not_found", Some("{}");
        CallDoor::Rest("/api/servers/x/tools/echo/call"), "tools/call", r#"{"arguments":7}"# => Some("x"), "echo", "invalid_request", None;
        CallDoor::Rest("/api/servers/x/tools/echo/call"), "tools/call", r#"{"argum"# => Some("x"), "echo", "invalid_request", None;
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_tools_record_refused_calls() {
    let fixture = Refusing::start().await;
    let args = Some(r#"{"a":1}"#);
    let mcp = CallDoor::Mcp("/mcp");
    fixture.check_all(&cases![
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"nope","arguments":{"a":1}}}"# => None, "nope", "tool_not_found", args;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"x__nope","arguments":{"a":1}}}"# => Some("x"), "nope", "tool_not_found", args;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"echo"}}"# => None, "echo", "tool_not_found", None;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"nobody/echo"}}"# => None, "nobody/echo", "server_not_found", None;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"wait__echo"}}"# => Some("wait"), "echo", "server_not_connected", None;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"name":"x__echo","arguments":7}}"# => None, "x__echo", "invalid_request", None;
        mcp, "tools/call", r#"{"name":"execute_tool","arguments":{"nome":"x__echo"}}"# => None, "execute_tool", "invalid_request", Some(r#"{"nome":"x__echo"}"#);
        mcp, "tools/call", r#"{"name":"external_call_tool","arguments":{"tool":"nope","arguments":{"a":1}}}"# => None, "nope", "tool_not_found", args;
        mcp, "tools/call", r#"{"name":"external_call_tool","arguments":{"tool":"nobody/echo"}}"# => None, "nobody/echo", "server_not_found", None;
        mcp, "tools/call", r#"{"name":"external_call_tool","arguments":{"tool":"failed/echo"}}"# => Some("failed"), "echo", "server_not_connected", None;
    ])
    .await;
    // Own tools that read a resource or get a prompt.
    for (content, method, server, name, kind) in [
        (
            r#"{"name":"external_read_resource","arguments":{"server":"nobody","uri":"a:b"}}"#,
            "resources/read",
            None,
            "a:b",
            "server_not_found",
        ),
        (
            r#"{"name":"external_read_resource","arguments":{"server":"down","uri":"a:b"}}"#,
            "resources/read",
            Some("down"),
            "a:b",
            "server_not_connected",
        ),
        (
            r#"{"name":"read_resource","arguments":{"server":"nobody","uri":"a:b"}}"#,
            "resources/read",
            None,
            "a:b",
            "server_not_found",
        ),
        (
            r#"{"name":"get_prompt","arguments":{"name":"x/nope"}}"#,
            "prompts/get",
            Some("x"),
            "nope",
            "prompt_not_found",
        ),
    ] {
        let previous_count = fixture.records().await.len();
        let client = fixture.gateway.client().await;
        client.ask("tools/call", content).await;
        let all_records = fixture.records().await;
        assert_eq!(all_records.len(), previous_count + 1, "{content}");
        let target = &all_records[0].target;
        let actual_call = (
            &*target.method,
            target.server.as_ref().map(ToString::to_string),
            &*target.tool,
        );
        assert_eq!(
            actual_call,
            (method, server.map(str::to_owned), name),
            "{content}"
        );
        let error = all_records[0].error.as_ref().expect("an error");
        assert_eq!(
            (all_records[0].status.as_str(), &*error.kind),
            ("refused", kind),
            "{content}"
        );
    }
    // Own tools that call no server leave no record.
    let previous_count = fixture.records().await.len();
    let client = fixture.gateway.client().await;
    client.call("search_tools", json!({"query": "echo"})).await;
    client.call("search_tools", json!({"quary": "echo"})).await;
    client.call("read_object", json!({"cid": "nope"})).await;
    let object = json!({"uri": "mainstay://objects/nope"});
    client.error("resources/read", object).await;
    assert_eq!(fixture.records().await.len(), previous_count);
}

/// REST records, statistics, and the client's own tools show refused calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_calls_are_readable_at_every_door() {
    let fixture = Refusing::start().await;
    let client = fixture.gateway.client_at("/mcp/some").await;
    for number in 0..20 {
        let name = format!("x__nope_{number}");
        client.request("tools/call", json!({"name": name})).await;
    }
    client
        .request("tools/call", json!({"name": "y__echo"}))
        .await;
    let long_text = "n".repeat(100_000);
    client
        .request("tools/call", json!({"name": long_text}))
        .await;
    let page = fixture.rest.get("/api/call-records?status=refused").await;
    assert_eq!(page["total_count"], 22, "{page}");
    let newest_call = &page["calls"][0];
    let name = newest_call["tool"].as_str().expect("a name");
    assert!(
        name.len() <= 260 && name.starts_with("nnn"),
        "{}",
        name.len()
    );
    for (member, expected) in [
        ("status", json!("refused")),
        ("state", json!("not_sent")),
        ("door", json!("mcp_http")),
    ] {
        assert_eq!(newest_call[member], expected, "{newest_call}");
    }
    // Invented names share one series for each server, and one series without a server.
    fixture.journal.close().await;
    let statistics = fixture.rest.get("/api/statistics").await;
    let series = statistics["tools"].as_array().expect("a list");
    let calls = series
        .iter()
        .filter_map(|sample| sample["total"]["calls"].as_u64());
    let calls: u64 = calls.sum();
    assert_eq!((series.len(), calls), (2, 22), "{statistics}");
}

/// A client can read its own refused calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reads_its_own_refused_calls() {
    let fixture = Refusing::start().await;
    let (first_client, other_client) = (
        fixture.gateway.client_at("/mcp").await,
        fixture.gateway.client_at("/mcp").await,
    );
    let limited_client = async || {
        let mut client = fixture.gateway.stranger("/mcp");
        let greeting_text =
            initialize(LATEST).replace("\"tests\"", &format!("\"{LIMITED_CLIENT}\""));
        client.greet(&greeting_text).await;
        client
    };
    let (limited_client, second_client) = (limited_client().await, limited_client().await);
    for (client, name) in [
        (&first_client, "one"),
        (&limited_client, "y__echo"),
        (&limited_client, "nobody"),
    ] {
        client.request("tools/call", json!({"name": name})).await;
    }
    let own_calls = async |client: &Http| {
        let text = client
            .call_text("get_call_records", json!({"status": "refused"}))
            .await;
        let text: Value = serde_json::from_str(&text).expect("JSON");
        let calls = text["calls"].as_array().expect("a list").iter();
        let names = calls.map(|call| call["tool"].as_str().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(own_calls(&limited_client).await, ["nobody", "echo"]);
    assert_eq!(
        own_calls(&second_client).await,
        [""; 0],
        "they are another session's"
    );
    assert_eq!(own_calls(&other_client).await, ["nobody", "echo", "one"]);
}

/// If a batch is refused, each of its calls is recorded, up to the limit of a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_refused_batches_are_recorded() {
    const MAX_MESSAGES: usize = 100;
    let fixture = Refusing::start().await;
    let batch = |calls: usize| {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x__echo"}}"#;
        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        format!("[{}{ping}]", format!("{call},").repeat(calls))
    };
    let mut expected = 0;
    let mut old_client = fixture.gateway.stranger("/mcp");
    old_client.initialize("2025-03-26").await;
    old_client.post(batch(MAX_MESSAGES)).await;
    expected += MAX_MESSAGES;
    assert_eq!(fixture.records().await.len(), expected, "too many messages");
    fixture.gateway.client().await.post(batch(2)).await;
    expected += 2;
    assert_eq!(fixture.records().await.len(), expected, "a later revision");
    fixture.gateway.stranger("/mcp").post(batch(3)).await;
    expected += 3;
    assert_eq!(fixture.records().await.len(), expected, "without a session");
    let mut pipe = fixture.gateway.pipe().await;
    pipe.send(batch(4)).await;
    pipe.message().await;
    pipe.close().await;
    expected += 4;
    let records = fixture.records().await;
    assert_eq!(records.len(), expected, "over stdio");
    assert!(
        records
            .iter()
            .all(|record| record.status.as_str() == "refused")
    );
}

/// Calls above the limit of requests in flight are recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_conversation_limit_are_recorded() {
    const MAX_UNANSWERED: usize = 1024;
    let fixture = Refusing::start().await;
    let mut pipe = fixture.gateway.pipe().await;
    let call = r#"{"name":"x__sleep","arguments":{"ms":60000}}"#;
    let mut ids = Vec::new();
    for _ in 0..=MAX_UNANSWERED {
        ids.push(pipe.begin("tools/call", call).await);
    }
    let refused_message = pipe.message().await;
    assert!(refused_message["error"].is_object(), "{refused_message}");
    let records = fixture.records().await;
    let refused_message = records
        .iter()
        .filter(|record| record.status.as_str() == "refused");
    assert_eq!(refused_message.count(), 1);
    for id in ids {
        pipe.send(cancelled(&id)).await;
    }
    drop(pipe.close().await);
    until("the end of all calls", || fixture.journal.depth().0 == 0).await;
}
