//! OTLP traces. Each call has a span in the client's trace. The request to the server has a child span.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_core::trace::TraceContext;
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpListener,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, found, soon},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that answers with these statuses.
struct Collector {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<(HeaderMap, Value)>,
    serving: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    async fn start(status: StatusCode) -> Self {
        Self::start_with_statuses(&[status]).await
    }

    /// Starts a collector. It repeats the last status. A refusal has a `Retry-After` of an hour.
    async fn start_with_statuses(statuses: &[StatusCode]) -> Self {
        let (statuses, answered_count) = (statuses.to_vec(), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("a bound socket");
        let (sender, requests) = mpsc::unbounded_channel();
        let serve_task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (sender, statuses, answered_count) = (
                    sender.clone(),
                    statuses.clone(),
                    Arc::clone(&answered_count),
                );
                let service = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    let number = answered_count.fetch_add(1, Relaxed).min(statuses.len() - 1);
                    let status = statuses[number];
                    async move {
                        assert_eq!(request.uri().path(), "/v1/traces");
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        let body = serde_json::from_slice(&body).expect("JSON");
                        // Ignore the error: the test may have ended.
                        sender.send((head.headers, body)).ok();
                        let mut response = Response::new(Full::new(Bytes::from("{}")));
                        *response.status_mut() = status;
                        if status == StatusCode::SERVICE_UNAVAILABLE {
                            let hour = HeaderValue::from_static("3600");
                            response.headers_mut().insert("retry-after", hour);
                        }
                        Ok::<_, hyper::Error>(response)
                    }
                });
                connections
                    .spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            address,
            requests,
            serving: serve_task,
        }
    }

    fn settings(&self, extra_settings: &Value) -> Value {
        let mut telemetry = json!({"endpoint": format!("http://{}", self.address)});
        let telemetry = telemetry.as_object_mut().expect("an object");
        telemetry.extend(extra_settings.as_object().cloned().unwrap_or_default());
        json!({"telemetry": telemetry})
    }

    async fn request(&mut self) -> (HeaderMap, Value) {
        soon("spans", self.requests.recv()).await.expect("it runs")
    }

    /// Waits for the spans of the next calls. `calls` is their number.
    async fn spans(&mut self, calls: usize) -> Vec<Value> {
        let mut spans = Vec::<Value>::new();
        while spans.iter().filter(|span| span["kind"] == 2).count() < calls {
            let (_, request) = self.request().await;
            let scope = &request["resourceSpans"][0]["scopeSpans"][0];
            assert_eq!(scope["scope"]["name"], "mainstay");
            spans.extend(scope["spans"].as_array().expect("spans").clone());
        }
        spans
    }
}

/// The value of a span's attribute. Null if there is none.
fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let matching_attribute = attributes.iter().find(|attribute| attribute["key"] == key);
    matching_attribute.map_or(Value::Null, |matching_attribute| {
        matching_attribute["value"]["stringValue"].clone()
    })
}

fn span_of_kind(spans: &[Value], kind: u8) -> &Value {
    let mut matching_spans = spans.iter().filter(|span| span["kind"] == kind);
    let matching_span = matching_spans.next().expect("a span");
    assert!(matching_spans.next().is_none(), "more than one: {spans:?}");
    matching_span
}

fn nanos(span: &Value, member: &str) -> u128 {
    let text = span[member].as_str().expect("a text");
    text.parse().expect("a number")
}

/// The `_meta` of the call that the server has received. Fails if there are several.
fn received_meta(backend: &Backend) -> Value {
    let calls = backend.of_method("tools/call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0]["params"]["_meta"].clone()
}

over_every_transport! {
    /// Each span is the parent of the next: client, call, request to the server. The server gets the id of
    /// the request's span (SEP-414).
    async fn a_call_is_part_of_its_clients_trace(kind) {
        let mut collector = Collector::start(StatusCode::OK).await;
        let backend = Backend::start(kind, &[]).await;
        let settings = collector.settings(&json!({"headers": {"x-key": "s3cret"}, "serviceName": "gate"}));
        let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
        let client = gateway.client().await;
        let meta = json!({"traceparent": TRACEPARENT, "tracestate": "a=b", "baggage": "k=v", "own": [1]});
        let params = json!({"name": "x__echo", "arguments": {"text": "hi"}, "_meta": meta});
        client.result("tools/call", params).await;

        let (headers, request) = collector.request().await;
        assert_eq!(headers["x-key"], "s3cret");
        assert_eq!(headers["content-type"], "application/json");
        let resource = &request["resourceSpans"][0]["resource"];
        assert_eq!(attribute(resource, "service.name"), "gate");
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
        let (call, hop) = (span_of_kind(spans, 2), span_of_kind(spans, 3));
        for span in [call, hop] {
            assert_eq!(span["traceId"], TRACE);
            assert_eq!(span["name"], "tools/call echo");
            assert_eq!(span["traceState"], "a=b");
            assert_eq!(attribute(span, "mcp.method.name"), "tools/call");
            assert_eq!(attribute(span, "gen_ai.tool.name"), "echo");
            assert_eq!(attribute(span, "gen_ai.operation.name"), "execute_tool");
            assert_eq!(attribute(span, "mainstay.server"), "x");
            assert_eq!(span["status"], Value::Null);
        }
        assert_eq!(call["parentSpanId"], PARENT);
        assert_eq!(hop["parentSpanId"], call["spanId"]);
        assert_eq!(attribute(call, "mcp.protocol.version"), "2025-11-25");
        assert_eq!(attribute(call, "mainstay.door"), "mcp_http");
        let transport = if kind == BackendKind::Stdio { "pipe" } else { "tcp" };
        assert_eq!(attribute(hop, "network.transport"), transport);
        let bounds = |span| (nanos(span, "startTimeUnixNano"), nanos(span, "endTimeUnixNano"));
        let ((from, call_end), (hop_start, hop_end)) = (bounds(call), bounds(hop));
        assert!(from <= hop_start && hop_start < hop_end && hop_end <= call_end, "{call} {hop}");

        let span = hop["spanId"].as_str().expect("an id");
        let expected = json!({
            "traceparent": format!("00-{TRACE}-{span}-01"),
            "tracestate": "a=b", "baggage": "k=v", "own": [1],
        });
        assert_eq!(received_meta(&backend), expected);
        gateway.stop().await;
    }

    /// If `_meta` has no trace, the trace headers count. If traces are off, they are forwarded.
    async fn without_traces_the_clients_context_goes_on(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let other_text = "00-11111111111111111111111111111111-2222222222222222-00";
        let mut headers = client.headers("application/json, text/event-stream");
        headers.insert("traceparent", HeaderValue::from_static(TRACEPARENT));
        headers.insert("tracestate", HeaderValue::from_static("a=b"));
        for (meta, expected) in [
            (json!({"own": 1, "traceparent": other_text}), json!({"own": 1, "traceparent": other_text})),
            (json!({"own": 1}), json!({"own": 1, "traceparent": TRACEPARENT, "tracestate": "a=b"})),
        ] {
            let params = json!({"name": "x__echo", "arguments": {"text": "hi"}, "_meta": meta});
            let call = client.request_text("tools/call", &params.to_string());
            let answer = client.send(Method::POST, headers.clone(), call).await.whole().await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            let calls = backend.of_method("tools/call");
            assert_eq!(calls.last().expect("a call")["params"]["_meta"], expected);
        }
        gateway.stop().await;
    }
}

/// HTTP headers can set the parent of a span. Without a parent, a new trace begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_headers_set_the_parent() {
    let mut collector = Collector::start(StatusCode::OK).await;
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_settings(&[("x", &backend)], collector.settings(&json!({}))).await;
    let client = gateway.client().await;
    let call = || {
        client.request_text(
            "tools/call",
            r#"{"name":"x__echo","arguments":{"text":"hi"}}"#,
        )
    };
    let mut headers = client.headers("application/json, text/event-stream");
    headers.insert("traceparent", HeaderValue::from_static(TRACEPARENT));
    client
        .send(Method::POST, headers, call())
        .await
        .whole()
        .await;
    let spans = collector.spans(1).await;
    assert_eq!(span_of_kind(&spans, 2)["parentSpanId"], PARENT);

    client.post(call()).await;
    let spans = collector.spans(1).await;
    let (begin, hop) = (span_of_kind(&spans, 2), span_of_kind(&spans, 3));
    assert_eq!(begin["parentSpanId"], Value::Null);
    assert_ne!(begin["traceId"], TRACE);
    let calls = backend.of_method("tools/call");
    let carried_text = calls[1]["params"]["_meta"]["traceparent"]
        .as_str()
        .expect("told");
    let carried_text = TraceContext::parse(carried_text).expect("valid");
    assert_eq!(json!(carried_text.trace.to_string()), begin["traceId"]);
    assert_eq!(json!(carried_text.span.to_string()), hop["spanId"]);
    gateway.stop().await;
}

/// The span of a failed call has an error status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_the_status() {
    let mut collector = Collector::start(StatusCode::OK).await;
    let backend = Backend::http().await.option("timeout", 1000);
    let gateway = Gateway::with_settings(&[("x", &backend)], collector.settings(&json!({}))).await;
    let client = gateway.client().await;
    client.call("x__error", json!({})).await;
    client
        .error("tools/call", json!({"name": "x__rpc_error"}))
        .await;
    client.call("x__sleep", json!({"ms": 60_000})).await;
    let spans = collector.spans(3).await;
    let span = |name: &str, kind: u8| {
        let is_named =
            |span: &&Value| span["name"] == format!("tools/call {name}") && span["kind"] == kind;
        spans.iter().find(is_named).expect("a span")
    };
    for (tool, error) in [("error", "tool_error"), ("sleep", "call_timeout")] {
        assert_eq!(span(tool, 2)["status"]["code"], 2, "{tool}");
        assert_eq!(attribute(span(tool, 2), "error.type"), error);
    }
    let refused_span = span("rpc_error", 2);
    let code = attribute(refused_span, "rpc.response.status_code");
    assert!(
        code.as_str().is_some_and(|code| code.starts_with('-')),
        "{refused_span}"
    );
    assert_eq!(attribute(refused_span, "error.type"), code);
    // An error from the server is an answer, so the span of the request has no error status. A timeout is an
    // error.
    assert_eq!(span("error", 3)["status"], Value::Null);
    assert_eq!(attribute(span("sleep", 3), "error.type"), "call_timeout");
    gateway.stop().await;
}

/// The sampling flag of the parent decides. Without a parent, `sampleRatio` decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsampled_traces_are_not_exported() {
    let mut collector = Collector::start(StatusCode::OK).await;
    let backend = Backend::http().await;
    let settings = collector.settings(&json!({"sampleRatio": 0}));
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let client = gateway.client().await;
    let unsampled_text = TRACEPARENT.replace("-01", "-00");
    let call = |meta: Value| json!({"name": "x__echo", "arguments": {"text": "hi"}, "_meta": meta});
    client
        .result("tools/call", call(json!({"traceparent": unsampled_text})))
        .await;
    assert_eq!(received_meta(&backend)["traceparent"], unsampled_text);
    client.assert_echo("x__echo").await;
    // The parent of this call is sampled.
    client
        .result("tools/call", call(json!({"traceparent": TRACEPARENT})))
        .await;
    // The shutdown sends the remaining spans.
    gateway.stop().await;
    let spans = collector.spans(1).await;
    assert_eq!(span_of_kind(&spans, 2)["parentSpanId"], PARENT);
    assert!(collector.requests.try_recv().is_err());
}

/// If the collector is down or refuses spans, calls are not delayed. `/metrics` counts the lost spans.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_collector_costs_no_call() {
    let refusing_collector = Collector::start(StatusCode::BAD_REQUEST).await;
    let refusing_settings = refusing_collector.settings(&json!({}));
    // Nothing listens at this port any more.
    let idle_listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let dead_text = format!("http://{}", idle_listener.local_addr().expect("an address"));
    drop(idle_listener);
    for (settings, is_dead) in [
        (json!({"telemetry": {"endpoint": dead_text}}), true),
        (refusing_settings, false),
    ] {
        let backend = Backend::http().await;
        let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
        let client = gateway.client().await;
        for _ in 0..20 {
            client.assert_echo("x__echo").await;
        }
        if !is_dead {
            let door = gateway.stranger("/metrics");
            found("the spans to be dropped", async || {
                let answer = door.send(Method::GET, door.headers("*/*"), "").await;
                let text = answer.whole().await.text;
                text.contains("mainstay_dropped_spans_total 40\n")
                    .then_some(())
            })
            .await;
        }
        let start = Instant::now();
        gateway.stop().await;
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}

/// If the collector never answers, calls are not delayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_costs_no_call() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let backend = Backend::http().await;
    let settings = json!({"telemetry": {"endpoint": endpoint}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let (mut collector, _) = soon("a connection", listener.accept()).await.expect("one");
    let mut request = vec![0; 64 * 1024];
    let mut filled_bytes = 0;
    // `resourceSpans` is an array of objects with nested arrays, so a request ends with these brackets.
    while !request[..filled_bytes].ends_with(b"]}]}]}") {
        let length = soon("spans", collector.read(&mut request[filled_bytes..]))
            .await
            .expect("some");
        assert_ne!(length, 0, "the connection was closed");
        filled_bytes += length;
    }
    for _ in 0..20 {
        client.assert_echo("x__echo").await;
    }
    // The shutdown waits for the collector, at most ten seconds. Calls have not waited.
    let read_attempt = collector.try_read(&mut request);
    let read_attempt = read_attempt.expect_err("nothing was said, and it is open");
    assert_eq!(read_attempt.kind(), io::ErrorKind::WouldBlock);
    let start = Instant::now();
    gateway.stop().await;
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

/// The shutdown sends refused spans once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_spans_are_sent_once_more_at_shutdown() {
    let answers = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK];
    let mut collector = Collector::start_with_statuses(&answers).await;
    let backend = Backend::http().await;
    let gateway = Gateway::with_settings(&[("x", &backend)], collector.settings(&json!({}))).await;
    gateway.client().await.assert_echo("x__echo").await;
    let (_, refused_spans) = collector.request().await;
    gateway.stop().await;
    let (_, repeated_spans) = collector.requests.try_recv().expect("it was told again");
    assert_eq!(repeated_spans, refused_spans);
}

/// Spans of a call are redacted in the same way as its record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_hide_what_records_hide() {
    let mut collector = Collector::start(StatusCode::OK).await;
    let backend = Backend::start(BackendKind::Http, &[]).await;
    let backend = backend.option("bearerToken", "top/secret1");
    let mut settings = collector.settings(&json!({}));
    settings["journal"] = json!({"redact": {"patterns": ["[0-9]{3}-[0-9]{4}"]}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let client = gateway.client_at("/servers/x/mcp").await;
    let uri = "no:such?call=555-1234&said=top%2Fsecret1&token=hunter2";
    client.error("resources/read", json!({"uri": uri})).await;
    let spans = collector.spans(1).await;
    let text = serde_json::to_string(&spans).expect("JSON");
    assert!(
        text.contains("no:such?call=[redacted]&said=[redacted]&token=[redacted]"),
        "{text}"
    );
    for secret in ["hunter2", "555-1234", "secret1"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    gateway.stop().await;
}
