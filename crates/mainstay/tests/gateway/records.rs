//! The records of calls, for every door and every outcome (docs/dev/requirements.md, "Records").

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mainstay::daemon::DaemonOptions;
use mainstay_api as api;
use mainstay_core::{
    config::{self, Durability, Secret},
    record::{Cid, Door, Record, State, Status},
};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Journal, RecordFilter};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::{cancelled, failure, text, value},
    gateway::{Gateway, config, soon},
    modern::Modern,
    rest_client::TOKEN,
    sse::Sse,
};

/// A gateway, and the journal with its records.
pub struct Recorded {
    pub gateway: Gateway,
    pub journal: Arc<Journal>,
    _folder: TempDir,
}

impl Recorded {
    pub async fn with_backend(backend: &Backend) -> Self {
        Self::with(backend, config::Journal::default()).await
    }

    pub async fn with(backend: &Backend, settings: config::Journal) -> Self {
        Self::with_journal(backend, json!({}), settings).await
    }

    /// Starts a gateway with a journal, and with these top-level settings.
    async fn with_journal(
        backend: &Backend,
        settings_json: Value,
        settings: config::Journal,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let journal = mainstay_journal_store::open(folder.path(), &settings).expect("a journal");
        let journal = Arc::new(journal);
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            ..GatewayOptions::default()
        };
        let gateway =
            Gateway::with_options(&config(&[("x", backend)], settings_json), options).await;
        Self {
            gateway,
            journal,
            _folder: folder,
        }
    }

    /// All records, the newest first.
    async fn all(&self) -> Vec<Record> {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(RecordFilter::default(), 100).await;
        page.expect("it reads").calls
    }

    /// The newest record.
    pub async fn latest(&self) -> Record {
        self.all().await.swap_remove(0)
    }

    /// The only record. Fails if there are more.
    pub async fn one(&self) -> Record {
        let mut all_records = self.all().await;
        assert_eq!(all_records.len(), 1, "{all_records:?}");
        all_records.remove(0)
    }

    pub async fn object(&self, cid: Cid) -> String {
        let object = self.journal.object(cid).await.expect("it is kept");
        String::from_utf8(object).expect("UTF-8")
    }

    /// Asserts that the only record is of a successful `echo` call through this door and path.
    async fn check(&self, door: Door, path: &str) {
        let record = self.one().await;
        assert_eq!(record.origin.door, door, "{path}");
        assert_eq!(record.target.name(), "x/echo");
        assert_eq!(record.target.method, "tools/call");
        assert_eq!((record.state, record.status), (State::Answered, Status::Ok));
        assert_eq!((record.attempts, &record.error), (1, &None));
        let arguments = record
            .arguments
            .and_then(|object| object.cid)
            .expect("arguments");
        assert_eq!(self.object(arguments).await, r#"{"text":"hé"}"#);
        let result = record
            .result
            .and_then(|object| object.cid)
            .expect("a result");
        assert_eq!(text(&value(&self.object(result).await)), "hé");
        let duration = record.duration.expect("it has ended");
        assert!(record.queue + record.upstream <= duration, "{record:?}");
        assert!(record.upstream > Duration::ZERO);
    }
}

const ECHO: &str = r#"{"name":"NAME","arguments":{"text":"hé"}}"#;

async fn echo() -> Backend {
    Backend::start(BackendKind::Stdio, &[]).await
}

/// A call through MCP over HTTP, with a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_a_session_is_recorded() {
    for (path, name) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let backend = echo().await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client_at(path).await;
        client.ask("tools/call", &ECHO.replace("NAME", name)).await;
        fixture.check(Door::McpHttp, path).await;
        let origin = fixture.one().await.origin;
        let session = origin.session.as_deref().expect("a session");
        assert_eq!(session.len(), 12, "not the id itself: {session}");
        assert!(origin.client.is_some(), "{origin:?}");
    }
}

/// The record of a call has the client's profile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_a_profile_is_recorded() {
    let backend = echo().await;
    let settings = json!({"profiles": {"some": {"servers": ["x"]}}});
    let fixture = Recorded::with_journal(&backend, settings, config::Journal::default()).await;
    let client = fixture.gateway.client_at("/mcp/some").await;
    client
        .ask("tools/call", &ECHO.replace("NAME", "x__echo"))
        .await;
    fixture.check(Door::McpHttp, "/mcp/some").await;
    let profile = fixture.one().await.origin.profile;
    assert_eq!(profile.as_deref(), Some("some"));
}

/// A call through MCP over HTTP, without a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_without_a_session_is_recorded() {
    for (path, name) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let backend = echo().await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = Modern::at(&fixture.gateway, path);
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let client = client.with("traceparent", trace);
        let params: Value = value(&ECHO.replace("NAME", name));
        let final_result = client.result("tools/call", params).await;
        assert_eq!(text(&final_result), "hé");
        let record = fixture.one().await;
        assert_eq!(record.origin.door, Door::McpHttp, "{path}");
        assert_eq!((record.state, record.status), (State::Answered, Status::Ok));
        let trace = record.trace.expect("a trace").to_string();
        assert_eq!(trace, "0af7651916cd43dd8448eb211c80319c");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_stdio_are_recorded() {
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let mut pipe = fixture.gateway.pipe().await;
    let id = pipe
        .begin("tools/call", &ECHO.replace("NAME", "x__echo"))
        .await;
    pipe.answer(&id).await;
    fixture.check(Door::McpStdio, "stdio").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_http_sse_are_recorded() {
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let mut client = Sse::greeted(&fixture.gateway, "/sse").await;
    client
        .call("x__echo", json!({"arguments": {"text": "hé"}}))
        .await;
    fixture.check(Door::McpSse, "/sse").await;
}

/// REST returns the record of a call (L7, M13).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rest_tells_of_calls() {
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let rest = fixture.gateway.rest();
    let call = json!({"tool": "x/echo", "arguments": {"text": "hé"}});
    let (status, _) = rest.post("/api/mcp-tools/call", call).await;
    assert_eq!(status, StatusCode::OK);
    let page = rest.get("/api/call-records?server=x&tool=echo").await;
    assert_eq!(
        (&page["total_count"], &page["truncated"]),
        (&json!(1), &json!(false))
    );
    let record = &page["calls"][0];
    for (member, expected) in [
        ("source", json!("mcp_client")),
        ("door", json!("rest")),
        ("server", json!("x")),
        ("tool", json!("echo")),
        ("name", json!("x/echo")),
        ("arguments", json!({"text": "hé"})),
        ("arguments_bytes", json!(14)),
        ("state", json!("answered")),
        ("status", json!("ok")),
        ("attempt", json!(1)),
    ] {
        assert_eq!(record[member], expected, "{member}: {record}");
    }
    for member in ["started_at", "completed_at", "duration_ms", "result_cid"] {
        assert!(!record[member].is_null(), "{member}: {record}");
    }
    let id = record["id"].as_str().expect("an id");
    let full_response = rest.get(&format!("/api/call-records/{id}")).await;
    assert_eq!(full_response["call"], *record);
    assert_eq!(full_response["arguments"], json!({"text": "hé"}));
    assert_eq!(text(&full_response["result"]), "hé");
    let cid = record["result_cid"].as_str().expect("a CID");
    assert_eq!(
        rest.get(&format!("/api/objects/{cid}")).await,
        full_response["result"]
    );
}

/// A REST caller finds its calls by trace id. This includes refused calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_rest_are_of_their_callers_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let rest = fixture.gateway.rest();
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", parent.parse().expect("a header"));
    headers.insert("tracestate", HeaderValue::from_static("a=b"));
    for (tool, expected) in [
        ("x/echo", StatusCode::OK),
        ("x/nope", StatusCode::NOT_FOUND),
    ] {
        let call = json!({"tool": tool, "arguments": {"text": "hé"}});
        let path = "/api/mcp-tools/call";
        let (status, answer) = rest.post_of(headers.clone(), path, call.clone()).await;
        assert_eq!(status, expected, "{answer}");
        let (status, _) = rest.post(path, call).await;
        assert_eq!(status, expected);
        let page = rest.get("/api/call-records").await;
        let calls = page["calls"].as_array().expect("a list");
        assert_eq!(calls[0].get("trace_id"), None, "{page}");
        assert_eq!(calls[1]["trace_id"], TRACE, "{page}");
        assert_eq!(calls[1]["name"], tool, "{page}");
    }
    let trace_records = rest
        .get(&format!("/api/call-records?trace_id={TRACE}"))
        .await;
    let names = ["/calls/0/name", "/calls/1/name"].map(|path| trace_records.pointer(path));
    assert_eq!(names, [Some(&json!("x/nope")), Some(&json!("x/echo"))]);
    assert_eq!(trace_records["total_count"], 2, "{trace_records}");
    let (status, refusal_body) = rest
        .try_get("/api/call-records?trace_id=0af7651916cd43dd")
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refusal_body}");
    let sent_result = backend.of_method("tools/call");
    let meta = json!({"traceparent": parent, "tracestate": "a=b"});
    assert_eq!(sent_result[0]["params"]["_meta"], meta);
    assert_eq!(sent_result[1]["params"].get("_meta"), None);
}

/// Calls with unknown names are recorded, for each kind of name and for each door (L1).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_unknown_names_are_recorded() {
    let arguments = r#"{"text":"hé"}"#;
    for (path, method, params, name) in [
        (
            "/mcp",
            "tools/call",
            r#"{"name":"x__nope","arguments":ARGS}"#,
            "nope",
        ),
        (
            "/mcp",
            "prompts/get",
            r#"{"name":"nope","arguments":ARGS}"#,
            "nope",
        ),
    ] {
        let backend = echo().await;
        let fixture = Recorded::with_backend(&backend).await;
        let client = fixture.gateway.client_at(path).await;
        client.ask(method, &params.replace("ARGS", arguments)).await;
        let record = fixture.all().await.remove(0);
        assert_eq!(
            (&*record.target.method, &*record.target.tool),
            (method, name)
        );
        assert_eq!(
            (record.state, record.status),
            (State::NotSent, Status::Refused)
        );
        assert_eq!(record.attempts, 0);
        assert_eq!(record.origin.door, Door::McpHttp);
        assert!(record.error.is_some());
        assert_eq!(record.arguments_text.is_some(), params.contains("ARGS"));
    }
    for (path, body, status, name) in [
        (
            "/api/mcp-tools/call",
            json!({"tool": "x/nope"}),
            404,
            "nope",
        ),
        (
            "/api/mcp-tools/call",
            json!({"tool": "no/echo"}),
            404,
            "no/echo",
        ),
        (
            "/api/mcp-prompts/get",
            json!({"prompt": "x/nope"}),
            404,
            "nope",
        ),
        (
            "/api/mcp-resources/read",
            json!({"server": "no", "uri": "a:b"}),
            404,
            "a:b",
        ),
    ] {
        let backend = echo().await;
        let fixture = Recorded::with_backend(&backend).await;
        let (actual_status, answer) = fixture.gateway.rest().post(path, body).await;
        assert_eq!(actual_status, status, "{answer}");
        let record = fixture.one().await;
        assert_eq!(
            (&*record.target.tool, record.status),
            (name, Status::Refused)
        );
        assert_eq!(record.origin.door, Door::Rest);
    }
}

/// Calls over REST are recorded (L5). Those of commands are recognised by their user agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_rest_and_commands_are_recorded() {
    for (agent, door) in [("curl/8", Door::Rest), (api::USER_AGENT, Door::Cli)] {
        let backend = echo().await;
        let fixture = Recorded::with_backend(&backend).await;
        let http = fixture.gateway.stranger("/api/mcp-tools/call");
        let mut headers = http.headers("application/json");
        let bearer = format!("Bearer {TOKEN}");
        for (name, text) in [
            (header::AUTHORIZATION, &*bearer),
            (header::USER_AGENT, agent),
        ] {
            headers.insert(name, HeaderValue::from_str(text).expect("ASCII"));
        }
        let body = r#"{"tool":"x/echo","arguments":{"text":"hé"}}"#;
        let answer = http.send(Method::POST, headers, body).await.whole().await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        fixture.check(door, agent).await;
        let principal = fixture.one().await.origin.principal;
        assert_eq!(principal.as_deref(), Some("operator"));
    }
}

/// `resources/read` and `prompts/get` are recorded as calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_reads_and_prompt_gets_are_recorded() {
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    client
        .result("resources/read", json!({"uri": "fake://text"}))
        .await;
    let missing_params = json!({"uri": "fake://nothing"});
    client.error("resources/read", missing_params.clone()).await;
    let transparent_client = fixture.gateway.client_at("/servers/x/mcp").await;
    transparent_client
        .error("resources/read", missing_params)
        .await;
    let all_records = fixture.all().await;
    let [missing_record, unknown_record, read_record] = all_records.as_slice() else {
        panic!("{all_records:?}");
    };
    assert_eq!(read_record.target.method, "resources/read");
    assert_eq!(&*read_record.target.tool, "fake://text");
    assert_eq!(
        (read_record.status, read_record.state),
        (Status::Ok, State::Answered)
    );
    assert_eq!(
        (missing_record.status, missing_record.state),
        (Status::Error, State::Answered)
    );
    let error = missing_record.error.as_ref().expect("an error");
    assert!(error.text.contains("-32002"), "{error:?}");
    // No server has the resource. The requests that look for it have no records.
    assert_eq!(
        (unknown_record.status, unknown_record.state),
        (Status::Refused, State::NotSent)
    );
    let error = unknown_record.error.as_ref().expect("an error");
    assert_eq!(error.kind, "resource_not_found");
}

/// The record of a tool result with `isError` has the status of an error (L2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_tool_results_are_recorded() {
    let backend = echo().await;
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    let result = client.call("x__error", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let record = fixture.one().await;
    assert_eq!(
        (record.status, record.state),
        (Status::Error, State::Answered)
    );
    let error = record.error.expect("an error");
    assert_eq!(error.kind, "tool_error");
    assert_eq!(error.text, text(&result));
}

/// A timeout, a cancellation and a lost server each have a record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_calls_are_recorded() {
    let backend = echo().await.option("timeout", 1000);
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client().await;
    let late_result = client.call("x__sleep", json!({"ms": 60_000})).await;
    assert_eq!(
        failure(&late_result)["kind"],
        "call_timeout",
        "{late_result}"
    );

    let params = json!({"name": "x__sleep", "arguments": {"ms": 60_000}}).to_string();
    let request = client.request_text("tools/call", &params);
    let id = value(&request)["id"].clone();
    let sleep_count = backend.calls_of("sleep").len();
    let cancel = async {
        crate::gateway::until("a call", || backend.calls_of("sleep").len() > sleep_count).await;
        client.post(cancelled(&id)).await;
    };
    soon("a cancelled call", async {
        tokio::join!(client.post(request), cancel)
    })
    .await;

    let lost_result = client.call("x__crash", json!({})).await;
    assert_eq!(
        failure(&lost_result)["kind"],
        "outcome_unknown",
        "{lost_result}"
    );
    let all_records = fixture.all().await;
    let ends: Vec<_> = all_records
        .iter()
        .map(|record| (record.state, record.status))
        .collect();
    let expected = [
        (State::Sent, Status::Unknown),
        (State::Sent, Status::Cancelled),
        (State::Sent, Status::Timeout),
    ];
    assert_eq!(ends, expected, "the newest first: {all_records:?}");
    let kinds = all_records
        .iter()
        .map(|record| record.error.as_ref().map(|error| &*error.kind));
    let kinds: Vec<_> = kinds.flatten().collect();
    assert_eq!(kinds, ["outcome_unknown", "cancelled", "call_timeout"]);
}

/// If the server cannot start, the call's record says that it was not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_calls_are_recorded() {
    let backend = Backend::start(BackendKind::Http, &[]).await;
    backend.fake().refuse(true).await.expect("the fake runs");
    let fixture = Recorded::with_backend(&backend).await;
    let client = fixture.gateway.client_at("/mcp").await;
    let (status, _) = fixture
        .gateway
        .rest()
        .post("/api/servers/x/tools/echo/call", json!({}))
        .await;
    drop(client);
    assert_eq!(status, StatusCode::OK, "[003] says it in the answer");
    let record = fixture.one().await;
    assert_eq!(
        (record.state, record.status),
        (State::NotSent, Status::Refused)
    );
    assert_eq!(record.upstream, Duration::ZERO, "{record:?}");
    assert!(record.error.is_some());
}

/// In strict mode, the record is written before the call is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_records_precede_the_answer() {
    let backend = echo().await;
    let settings = config::Journal {
        durability: Durability::Strict,
        ..config::Journal::default()
    };
    let fixture = Recorded::with(&backend, settings).await;
    let client = fixture.gateway.client().await;
    for number in 1..=5 {
        client.call("x__echo", json!({"text": "a"})).await;
        let page = fixture.journal.records(RecordFilter::default(), 10).await;
        assert_eq!(page.expect("it reads").total_count, number);
    }
    fixture.journal.close().await;
    let refused_result = client.call("x__echo", json!({"text": "a"})).await;
    assert_eq!(
        failure(&refused_result)["kind"],
        "not_recorded",
        "{refused_result}"
    );
    assert!(
        text(&refused_result).contains("was not sent"),
        "{refused_result}"
    );
    assert_eq!(
        backend.runs("echo"),
        5,
        "what cannot be recorded is not sent"
    );
}

/// Records of a revived session have the name of the client (L7).
#[tokio::test]
async fn a_session_that_goes_on_says_whose_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let backend = Backend::http().await;
    let settings = config::Journal::default();
    let journal =
        Arc::new(mainstay_journal_store::open(folder.path(), &settings).expect("a journal"));
    let run = async |journal: Option<&Arc<Journal>>| {
        let options = DaemonOptions {
            gateway: GatewayOptions {
                journal: journal.cloned(),
                ..GatewayOptions::default()
            },
            session_key: Some(Secret::new("a key that is kept")),
            ..DaemonOptions::default()
        };
        Gateway::with_options(&config(&[("x", &backend)], json!({})), options).await
    };
    let gateway = run(None).await;
    let client = gateway.client().await;
    gateway.stop().await;
    let gateway = run(Some(&journal)).await;
    let mut revived_client = gateway.stranger("/mcp");
    revived_client.session.clone_from(&client.session);
    revived_client.assert_echo("x__echo").await;
    journal.flush().await.expect("it writes");
    let page = journal.records(RecordFilter::default(), 1).await;
    let record = page.expect("readable").calls.remove(0);
    let client = record.origin.client.expect("it said who it is");
    assert_eq!((&*client.name, &*client.version), ("tests", "1"));
}
