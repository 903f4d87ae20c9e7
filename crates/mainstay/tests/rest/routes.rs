//! The routes of REST: who may use them, what they answer, and what they refuse.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Router, body::Body};
use fake_server::{Fake, Script, WEIRD_RESULT};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use insta::assert_snapshot;
use mainstay::daemon::Daemon;
use mainstay_core::{
    config::{Config, HttpLaunch, Launch, Secret, ServerConfig, StdioLaunch},
    event::EventKind,
    ids::ServerName,
    lifecycle::Preset,
};
use mainstay_gateway::GatewayOptions;
use mainstay_platform::utc;
use mainstay_testkit::{found, limits::PROGRAMS, within};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::TOKEN;

const MAX_BODY: usize = 4096;

/// A daemon with the servers `fake` and `down`. The program of `down` does not exist.
struct World {
    daemon: Daemon,
    router: Router,
    fake: Fake,
}

struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

fn server(name: &str, launch: Launch) -> ServerConfig {
    ServerConfig::new(ServerName::new(name).expect("a legal name"), launch)
}

impl World {
    async fn new() -> Self {
        let fake = Fake::http(Script::default()).await.expect("a fake");
        let http = HttpLaunch {
            url: fake.url(),
            ..HttpLaunch::default()
        };
        let stdio = StdioLaunch {
            command: "no-such-tool-anywhere".to_owned(),
            ..StdioLaunch::default()
        };
        let mut reachable_server = server("fake", Launch::Http(http));
        reachable_server.call_timeout = Duration::from_secs(1);
        reachable_server.withheld.disabled = ["count".to_owned()].into();
        let mut down_server = server("down", Launch::Stdio(stdio));
        // Without retries, the status does not change during the test.
        down_server.policy = Preset::Manual.policy();
        let config = Config {
            servers: vec![reachable_server, down_server],
            max_body_bytes: MAX_BODY,
            ..Config::default()
        };
        let daemon = Daemon::start(&config, GatewayOptions::default());
        let router = daemon.rest(Secret::new(TOKEN));
        within(daemon.gateway.registry.settled()).await;
        Self {
            daemon,
            router,
            fake,
        }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = within(self.router.clone().call(request))
            .await
            .expect("infallible");
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.into()).expect("UTF-8"),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(
            request(Method::GET, path)
                .body(Body::empty())
                .expect("a request"),
        )
        .await
    }

    async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        let request = request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/json; charset=utf-8");
        self.send(request.body(Body::from(body.into())).expect("a request"))
            .await
    }

    async fn end(self) {
        within(self.daemon.stop(None)).await;
    }
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
}

#[tokio::test]
async fn nothing_under_api_opens_without_the_token() {
    let world = World::new().await;
    for (method, path) in [
        (Method::GET, "/api/mcp-clients"),
        (Method::GET, "/api/servers"),
        (Method::POST, "/api/mcp-tools/call"),
        (Method::DELETE, "/api/mcp-tools"),
        (Method::GET, "/api/no-such-route"),
        (Method::GET, "/api/events"),
        (Method::GET, "/api/events/recent"),
        (Method::GET, "/api"),
    ] {
        for token in [
            None,
            Some("Bearer "),
            Some("Bearer 0123"),
            Some("Basic 0123456789abcdef0123456789abcdef"),
        ] {
            let mut request = Request::builder().method(method.clone()).uri(path);
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, token);
            }
            let answer = world
                .send(request.body(Body::empty()).expect("a request"))
                .await;
            assert_eq!(
                answer.status,
                StatusCode::UNAUTHORIZED,
                "{method} {path} {token:?}"
            );
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
            assert_eq!(answer.json()["error"], "unauthorized");
        }
    }
    for path in ["/healthz", "/readyz"] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        assert_eq!(world.send(request).await.status, StatusCode::OK, "{path}");
    }
    world.end().await;
}

/// The list of clients has the form of document 002 (M1, Y3).
#[tokio::test]
async fn clients_are_told_of_as_002_has_it() {
    let world = World::new().await;
    let clients = world.get("/api/mcp-clients").await.json()["clients"].clone();
    let fake = &clients["fake"];
    assert_eq!(
        (&fake["status"], &fake["transport"]),
        (&json!("connected"), &json!("http"))
    );
    assert!(
        fake["connected_at"].is_f64() && fake.get("error").is_none(),
        "{fake}"
    );
    let tools = fake["tools"].as_array().expect("tools");
    assert!(
        tools.contains(&json!("fake/echo")) && !tools.contains(&json!("fake/count")),
        "{fake}"
    );
    let down_client = &clients["down"];
    assert_eq!(
        (&down_client["status"], &down_client["tools"]),
        (&json!("error"), &json!([]))
    );
    assert!(
        down_client.get("connected_at").is_none()
            && down_client["error"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
        "{down_client}"
    );
    world.end().await;
}

#[tokio::test]
async fn the_lists_have_their_members() {
    let world = World::new().await;
    let tools = world.get("/api/mcp-tools").await.json();
    assert_eq!(
        tools["tools"][0],
        json!({
            "name": "fake/echo",
            "server": "fake",
            "original_name": "echo",
            "description": "returns its text, and its arguments as structured content",
            "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        })
    );
    let lists = [
        "/api/mcp-resources",
        "/api/mcp-resource-templates",
        "/api/mcp-prompts?server=fake",
        "/api/mcp-tools?server=down",
        "/api/mcp-tools?server=nobody",
    ];
    let mut answers = String::new();
    for path in lists {
        let answer = world.get(path).await;
        let _ = writeln!(
            answers,
            "GET {path} -> {}\n{:#}",
            answer.status,
            answer.json()
        );
    }
    assert_snapshot!(answers);
    world.end().await;
}

/// Arguments and results pass unchanged (M3, M5, K1, K3).
#[tokio::test]
async fn requests_get_the_servers_answers() {
    let world = World::new().await;
    let answer = world
        .post("/api/mcp-tools/call", r#"{"tool":"fake/weird"}"#)
        .await;
    assert_eq!(
        (answer.status, answer.text),
        (StatusCode::OK, format!(r#"{{"result":{WEIRD_RESULT}}}"#))
    );

    let arguments =
        r#"{"z":1e3,  "text":"caf\u00e9","a":12345678901234567890123,"n":{"x":[1.0,-0]}}"#;
    let body = format!("{{\n  \"tool\": \"fake/echo\",\n  \"arguments\": {arguments}\n}}");
    let answer = world.post("/api/mcp-tools/call", body).await;
    assert!(answer.text.contains(arguments), "{}", answer.text);

    let answer = world
        .post("/api/mcp-tools/call", r#"{"tool":"fake/error"}"#)
        .await;
    assert_eq!(
        (answer.status, &answer.json()["result"]["isError"]),
        (StatusCode::OK, &json!(true))
    );

    let mut answers = String::new();
    for (path, body) in [
        (
            "/api/mcp-resources/read",
            r#"{"server":"fake","uri":"fake://text"}"#,
        ),
        (
            "/api/mcp-resources/read",
            r#"{"server":"fake","uri":"fake://blob"}"#,
        ),
        ("/api/resources/read", r#"{"uri":"fake://item/7"}"#),
        (
            "/api/mcp-prompts/get",
            r#"{"prompt":"fake/greet","arguments":{"name":"Ada"}}"#,
        ),
        ("/api/mcp-prompts/get", r#"{"prompt":"fake/plain"}"#),
    ] {
        let answer = world.post(path, body).await;
        let _ = writeln!(
            answers,
            "POST {path} {body} -> {}\n{}",
            answer.status, answer.text
        );
    }
    assert_snapshot!(answers);
    world.end().await;
}

/// Every refusal has the form `{"error": CODE, …}` (M13).
#[tokio::test]
async fn refusals_have_one_shape() {
    let world = World::new().await;
    let mut answers = String::new();
    for (path, body) in [
        ("/api/mcp-tools/call", "{"),
        ("/api/mcp-tools/call", "{}"),
        ("/api/mcp-tools/call", r#"{"tool":7}"#),
        (
            "/api/mcp-tools/call",
            r#"{"tool":"fake/echo","arguments":[]}"#,
        ),
        ("/api/mcp-tools/call", r#"{"tool":"no slash"}"#),
        ("/api/mcp-tools/call", r#"{"tool":"nobody/echo"}"#),
        ("/api/mcp-tools/call", r#"{"tool":"fake/nothing"}"#),
        ("/api/mcp-tools/call", r#"{"tool":"fake/count"}"#),
        ("/api/mcp-tools/call", r#"{"tool":"fake/rpc_error"}"#),
        ("/api/mcp-tools/call", r#"{"tool":"fake/hang"}"#),
        ("/api/mcp-resources/read", r#"{"uri":"fake://text"}"#),
        ("/api/mcp-resources/read", r#"{"server":"fake"}"#),
        (
            "/api/mcp-resources/read",
            r#"{"server":"nobody","uri":"fake://text"}"#,
        ),
        (
            "/api/mcp-resources/read",
            r#"{"server":"fake","uri":"fake://nothing"}"#,
        ),
        ("/api/resources/read", r#"{"uri":"other://nothing"}"#),
        ("/api/mcp-prompts/get", "{}"),
        ("/api/mcp-prompts/get", r#"{"prompt":"fake/nothing"}"#),
        ("/api/mcp-prompts/get", r#"{"prompt":"fake/greet"}"#),
        ("/api/no-such-route", "{}"),
        ("/api/servers", "{}"),
    ] {
        let answer = world.post(path, body).await;
        let _ = writeln!(
            answers,
            "POST {path} {body} -> {}\n{}",
            answer.status,
            answer.json()
        );
    }
    assert_snapshot!(answers);

    let broken_result = world
        .post("/api/mcp-tools/call", r#"{"tool":"down/echo"}"#)
        .await;
    assert_eq!(broken_result.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        (
            &broken_result.json()["error"],
            &broken_result.json()["server"]
        ),
        (&json!("server_not_connected"), &json!("down"))
    );

    let large_text = format!(
        r#"{{"tool":"fake/echo","arguments":{{"text":"{}"}}}}"#,
        "x".repeat(MAX_BODY)
    );
    let answer = world.post("/api/mcp-tools/call", large_text).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("request_too_large"))
    );

    let answer = world.get("/nowhere").await;
    assert_eq!(
        (answer.status, &answer.json()["error"]),
        (StatusCode::NOT_FOUND, &json!("not_found"))
    );
    world.end().await;
}

/// A write must have the content type of JSON, because browsers then send a preflight first (Q1).
#[tokio::test]
async fn writes_say_that_they_are_json() {
    let world = World::new().await;
    for (method, path) in [
        (Method::POST, "/api/mcp-tools/call"),
        (Method::POST, "/api/mcp-resources/read"),
        (Method::POST, "/api/resources/read"),
        (Method::POST, "/api/mcp-prompts/get"),
        (Method::POST, "/api/mcp-clients/fake/reconnect"),
        (Method::POST, "/api/mcp-clients/fake/disconnect"),
        (Method::POST, "/api/servers/fake/stop"),
        (Method::POST, "/api/reload"),
        (Method::POST, "/api/server-requests/1"),
        (Method::POST, "/api/tokens"),
        (Method::POST, "/api/token/rotate"),
        (Method::DELETE, "/api/tokens/nobody"),
    ] {
        for content_type in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data"),
            Some("application/json-seq"),
        ] {
            let mut request = request(method.clone(), path);
            if let Some(content_type) = content_type {
                request = request.header(header::CONTENT_TYPE, content_type);
            }
            let request = request.body(Body::from("{}")).expect("a request");
            let answer = world.send(request).await;
            assert_eq!(
                answer.status,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "{method} {path} {content_type:?}"
            );
            assert_eq!(answer.json()["error"], "unsupported_media_type");
        }
    }
    // None of these writes had an effect. A request without a body needs no content type.
    let servers = world.get("/api/servers").await.json();
    assert_eq!(servers["servers"][0]["status"], "connected");
    let bare_request = request(Method::POST, "/api/servers/fake/stop");
    let answer = world
        .send(bare_request.body(Body::empty()).expect("a request"))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    world.end().await;
}

/// If the body is optional, it may be empty, whatever the headers are.
#[tokio::test]
async fn an_empty_body_is_none() {
    let world = World::new().await;
    for (path, status) in [
        ("/api/mcp-clients/fake/reconnect", StatusCode::OK),
        ("/api/servers/fake/tools/echo/call", StatusCode::OK),
        ("/api/servers/fake/disable", StatusCode::OK),
        ("/api/servers/fake/enable", StatusCode::OK),
        ("/api/servers/fake/approve", StatusCode::CONFLICT),
        // The request is accepted, but the configuration has no file.
        ("/api/reload", StatusCode::BAD_REQUEST),
        ("/api/mcp-tools/call", StatusCode::BAD_REQUEST),
    ] {
        let answer = world.post(path, "").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let expected = match path {
            "/api/reload" => json!("not_reloadable"),
            "/api/mcp-tools/call" => json!("invalid_request"),
            "/api/servers/fake/approve" => json!("not_pending"),
            _ => Value::Null,
        };
        assert_eq!(answer.json()["error"], expected, "{path}: {}", answer.text);
    }
    world.end().await;
}

/// If the caller disconnects, the call continues.
#[tokio::test]
async fn a_dropped_request_goes_on() {
    let world = World::new().await;
    let body = Body::from(r#"{"tool":"fake/sleep","arguments":{"ms":300}}"#);
    let request = request(Method::POST, "/api/mcp-tools/call")
        .header(header::CONTENT_TYPE, "application/json");
    let call = world
        .router
        .clone()
        .call(request.body(body).expect("a request"));
    let request_sent = world.fake.until(|requests| {
        requests
            .iter()
            .any(|request| request.method().as_deref() == Some("tools/call"))
    });
    tokio::select! {
        _ = call => panic!("it was answered before it was dropped"),
        () = request_sent => {}
    }
    let World { daemon, fake, .. } = world;
    // The stop waits until the call has ended.
    within(daemon.stop(None)).await;
    assert_eq!(fake.runs("sleep"), 1);
    assert_eq!(fake.count("notifications/cancelled"), 0);
}

/// Id, name and data of a server-sent event.
type EventParts = (String, String, Value);

/// A stream of server-sent events.
struct Stream(Body, String);

impl Stream {
    async fn open(world: &World, path: &str, last_id: Option<&str>) -> Self {
        let mut request = request(Method::GET, path);
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = within(world.router.clone().call(request))
            .await
            .expect("infallible");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        Self(response.into_body(), String::new())
    }

    async fn next(&mut self) -> Option<EventParts> {
        loop {
            if let Some((block, rest)) = self.1.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.1 = rest;
                let field = |name: &str| {
                    let mut lines = block.lines();
                    lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
                };
                if let Some(data) = field("data: ") {
                    let data = serde_json::from_str(&data).expect("JSON");
                    let name = field("event: ").expect("a name");
                    return Some((field("id: ").expect("an id"), name, data));
                }
                continue;
            }
            let frame = within(self.0.frame()).await?.expect("a frame");
            let data = frame.into_data().expect("data");
            self.1.push_str(std::str::from_utf8(&data).expect("UTF-8"));
        }
    }
}

/// A stream of events begins with a snapshot. It can be resumed after an event (I8, I13).
#[tokio::test]
async fn a_stream_of_events_begins_with_a_snapshot_and_goes_on_from_a_place() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, "/api/events", None).await;
    let (place, name, snapshot) = stream.next().await.expect("a snapshot");
    assert_eq!(name, "snapshot");
    let mut servers = world.get("/api/servers").await.json();
    assert_eq!(snapshot["servers"][0]["name"], "fake");
    // The uptime has changed in between.
    servers["servers"][0]["uptimeMs"] = snapshot["servers"][0]["uptimeMs"].clone();
    assert_eq!(snapshot, servers);

    let events = world.daemon.gateway.registry.events().clone();
    let fake = ServerName::new("fake").expect("a name");
    let publish = |reason: &str| {
        let reason = reason.to_owned();
        events.publish(Some(&fake), EventKind::ConfigRejected { reason });
    };
    publish("one");
    publish("two");
    let (first, name, event) = stream.next().await.expect("an event");
    assert!(first > place);
    assert_eq!(name, "config_rejected");
    let created_text = event["createdAt"].as_str().expect("a time").to_owned();
    assert_eq!(
        event,
        json!({
            "id": first, "type": name, "server": "fake", "createdAt": created_text,
            "data": {"name": "fake", "reason": "one"},
        })
    );
    drop(stream);

    for (path, last_id) in [
        ("/api/events".to_owned(), Some(first.as_str())),
        (format!("/api/events?after={first}"), None),
        // `Last-Event-ID` overrides the parameter of the URL.
        (format!("/api/events?after={place}"), Some(first.as_str())),
    ] {
        let mut stream = Stream::open(&world, &path, last_id).await;
        let (_, _, event) = stream.next().await.expect("an event");
        assert_eq!(event["data"]["reason"], "two", "{path}");
    }
    let recent_events = world
        .get(&format!("/api/events/recent?after={place}"))
        .await;
    let recent_events = recent_events.json();
    assert_eq!(recent_events["missed"], false);
    assert_eq!(recent_events["events"].as_array().map(Vec::len), Some(2));
    assert_eq!(recent_events["events"][1]["id"], recent_events["last"]);
    let wrong_response = world.get("/api/events?after=x").await;
    assert_eq!(wrong_response.status, StatusCode::BAD_REQUEST);

    // If events are missing, the stream says so and begins with a snapshot.
    let mut stream = Stream::open(&world, "/api/events", Some("00000000000000001")).await;
    let (_, name, _) = stream.next().await.expect("an event");
    assert_eq!(name, "missed");
    let (_, name, _) = stream.next().await.expect("an event");
    assert_eq!(name, "snapshot");

    // A stream ends when the daemon stops (T2).
    let end = async { while stream.next().await.is_some() {} };
    within(async { tokio::join!(world.end(), end) }).await;
}

#[tokio::test]
async fn streams_of_events_are_bounded() {
    let world = World::new().await;
    let mut open_streams = Vec::new();
    let refusal = loop {
        let request = request(Method::GET, "/api/events")
            .body(Body::empty())
            .expect("a request");
        let response = within(world.router.clone().call(request))
            .await
            .expect("infallible");
        if response.status() != StatusCode::OK {
            break response;
        }
        open_streams.push(response);
        assert!(open_streams.len() < 10_000, "there is no bound");
    };
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    open_streams.pop();
    Stream::open(&world, "/api/events", None).await;
    world.end().await;
}

/// The served schema is the file in the repository.
#[tokio::test]
async fn the_schema_of_the_configuration_is_served() {
    let world = World::new().await;
    let answer = world.get("/api/config/schema").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "application/schema+json"
    );
    assert_eq!(
        answer.text,
        include_str!("../../../../docs/config.schema.json")
    );
    let unauthorized_request = Request::get("/api/config/schema").body(Body::empty());
    let refused_response = world.send(unauthorized_request.expect("a request")).await;
    assert_eq!(refused_response.status, StatusCode::UNAUTHORIZED);
    world.end().await;
}

/// The figures count calls that have ended. The daemon itself samples the counters.
#[tokio::test]
async fn figures_are_of_all_calls_that_ended() {
    let world = World::new().await;
    let figures = async || {
        let all_response = world.get("/api/figures").await.json();
        assert_eq!(all_response["seriesStepMs"], 5000);
        let down_figures = &all_response["servers"][1];
        assert_eq!(
            (&down_figures["name"], &down_figures["calls"]),
            (&"down".into(), &0.into())
        );
        for name in ["processes", "series", "answeredAt"] {
            assert_eq!(down_figures.get(name), None);
        }
        all_response["servers"][0].clone()
    };
    for tool in ["fake/weird", "fake/error"] {
        let body = json!({"tool": tool}).to_string();
        world.post("/api/mcp-tools/call", body).await;
    }
    let first = figures().await;
    assert_eq!(first["name"], "fake");
    assert_eq!((&first["calls"], &first["errors"]), (&2.into(), &1.into()));
    let recent_figures = &first["recent"];
    assert_eq!(
        (&recent_figures["calls"], &recent_figures["errors"]),
        (&2.into(), &1.into())
    );
    let number = |name: &str| recent_figures[name].as_f64().unwrap_or_default();
    // The figures cover at least five seconds.
    assert!(
        (0.0..=0.4).contains(&number("callsPerSecond")),
        "{recent_figures}"
    );
    assert!(
        (1.0..60_000.0).contains(&number("spanMs")),
        "{recent_figures}"
    );
    assert!(
        number("p50Ms") > 0.0 && number("p95Ms") >= number("p50Ms"),
        "{recent_figures}"
    );
    let read_series = async || figures().await.get("series").cloned();
    let series = found(PROGRAMS, "the counters to be read", read_series).await;
    let counts = series["calls"].as_array().expect("a list").iter();
    assert_eq!(counts.filter_map(Value::as_u64).sum::<u64>(), 2, "{series}");
    let p95 = series["p95Ms"].as_array().expect("a list");
    assert!(p95[0].as_f64() > Some(0.0), "{series}");
    world.end().await;
}

/// The time of the last message is exact. It does not depend on a check by the supervisor.
#[tokio::test]
async fn a_server_that_answers_a_call_was_heard_just_now() {
    let world = World::new().await;
    let body = json!({"tool": "fake/weird"}).to_string();
    let previous_time = SystemTime::now();
    world.post("/api/mcp-tools/call", body).await;
    // The answer has milliseconds, so allow for rounding.
    let previous_time = previous_time - Duration::from_millis(2);
    let server = world.get("/api/servers").await.json()["servers"][0].clone();
    let last_success = server["lastSuccessAt"].as_str().expect("a time");
    assert!(*last_success >= *utc::rfc3339(previous_time), "{server}");
    let figures = world.get("/api/figures").await.json()["servers"][0].clone();
    let answered_at = figures["answeredAt"].as_u64().map(Duration::from_millis);
    assert!(
        answered_at >= previous_time.duration_since(UNIX_EPOCH).ok(),
        "{figures}"
    );
    world.end().await;
}
