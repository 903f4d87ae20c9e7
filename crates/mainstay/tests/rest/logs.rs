//! The log of a server over REST: its last lines, and a stream that can be resumed (M12).

use axum::{Router, body::Body};
use fake_server::binary;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use mainstay::daemon::Daemon;
use mainstay_core::{
    config::{Config, Launch, Secret, ServerConfig, StdioLaunch},
    ids::ServerName,
};
use mainstay_gateway::GatewayOptions;
use mainstay_testkit::within;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower_service::Service as _;

use crate::TOKEN;

/// A daemon with one server. Tests make it write lines to its log.
struct LogDaemon {
    daemon: Daemon,
    router: Router,
    _state: TempDir,
}

impl LogDaemon {
    async fn new() -> Self {
        let state = tempfile::tempdir().expect("a temporary folder");
        let launch = StdioLaunch {
            command: binary().to_str().expect("UTF-8").to_owned(),
            args: ["--stderr", "one"].map(str::to_owned).to_vec(),
            ..StdioLaunch::default()
        };
        let name = ServerName::new("fake").expect("a legal name");
        let config = Config {
            servers: vec![ServerConfig::new(name, Launch::Stdio(launch))],
            ..Config::default()
        };
        let options = GatewayOptions {
            state: Some(state.path().to_owned()),
            ..GatewayOptions::default()
        };
        let daemon = Daemon::start(&config, options);
        let router = daemon.rest(Secret::new(TOKEN));
        within(daemon.gateway.registry.settled()).await;
        Self {
            daemon,
            router,
            _state: state,
        }
    }

    async fn get(&self, query: &str, after: Option<&str>) -> Response<Body> {
        let mut request = Request::get(format!("/api/servers/{query}"))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let request = request.body(Body::empty()).expect("a request");
        within(self.router.clone().call(request))
            .await
            .expect("infallible")
    }

    async fn json(&self, query: &str) -> (StatusCode, Value) {
        let response = self.get(query, None).await;
        let status = response.status();
        let body = within(response.into_body().collect())
            .await
            .expect("a body");
        let json = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        (status, json)
    }

    /// Adds this text to the server's log.
    fn print(&self, text: &str) {
        let server = self.daemon.gateway.registry.server("fake").expect("known");
        server.log.note(text);
    }
}

/// A reader of an event stream.
struct Events {
    body: Body,
    unread: String,
}

impl Events {
    async fn open(world: &LogDaemon, query: &str, after: Option<&str>) -> Self {
        let response = world.get(query, after).await;
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        Self {
            body: response.into_body(),
            unread: String::new(),
        }
    }

    /// The id and the text of the next line. `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            let (name, id, data) = self.event().await?;
            if name == "line" {
                return Some((id, data["text"].as_str().expect("a text").to_owned()));
            }
        }
    }

    /// The name, the id and the data of the next event. `None` at the end of the stream.
    async fn event(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some(end) = self.unread.find("\n\n") {
                let event: String = self.unread.drain(..end + 2).collect();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let Some(name) = field("event: ") else {
                    continue;
                };
                let (id, data) = field("id: ").zip(field("data: ")).expect("an event");
                let data = serde_json::from_str(data).expect("JSON");
                return Some((name.to_owned(), id.to_owned(), data));
            }
            let frame = within(self.body.frame()).await?.expect("no error");
            let bytes = frame.into_data().expect("data");
            self.unread += std::str::from_utf8(&bytes).expect("UTF-8");
        }
    }
}

#[tokio::test]
async fn the_last_lines_are_told() {
    let world = LogDaemon::new().await;
    let (status, all_lines) = world.json("fake/logs").await;
    assert_eq!(status, StatusCode::OK);
    let lines = all_lines["lines"].as_array().expect("lines");
    let stderr = lines.iter().find(|line| line["source"] == "stderr");
    assert_eq!(stderr.expect("a line")["text"], "one", "{all_lines}");
    let (_, last_lines) = world.json("fake/logs?tail=1").await;
    assert_eq!(last_lines["lines"], Value::from(&lines[lines.len() - 1..]));
    for (query, status, error) in [
        ("nobody/logs", StatusCode::NOT_FOUND, "server_not_found"),
        (
            "fake/logs?tail=x",
            StatusCode::BAD_REQUEST,
            "invalid_request",
        ),
    ] {
        let (actual_status, body) = world.json(query).await;
        assert_eq!(
            (actual_status, &body["error"]),
            (status, &Value::from(error)),
            "{body}"
        );
    }
    let request = Request::get("/api/servers/fake/logs").body(Body::empty());
    let answer = world.router.clone().call(request.expect("a request")).await;
    assert_eq!(
        answer.expect("infallible").status(),
        StatusCode::UNAUTHORIZED
    );
    within(world.daemon.stop(None)).await;
}

/// A resumed stream has each line once. The stream ends when the daemon stops.
#[tokio::test]
async fn a_stream_is_resumed_where_it_broke_off() {
    let world = LogDaemon::new().await;
    world.print("two");
    let mut first = Events::open(&world, "fake/logs?follow=true&tail=1", None).await;
    let (id, text) = first.next().await.expect("a line");
    assert_eq!(text, "two");
    let (name, _, end) = first.event().await.expect("an event");
    assert_eq!((&*name, end), ("tail_end", json!({"complete": false})));
    world.print("three");
    let (_, text) = first.next().await.expect("a line");
    assert_eq!(text, "three");
    drop(first);
    world.print("four");
    let mut repeated_events = Events::open(&world, "fake/logs?follow=true", Some(&id)).await;
    world.print("five");
    for expected in ["three", "four", "five"] {
        assert_eq!(repeated_events.next().await.expect("a line").1, expected);
    }
    drop(repeated_events);
    // The stream has the stored lines first, and then new ones.
    let mut resumed_events = Events::open(&world, "fake/logs?follow=true", Some(&id)).await;
    for expected in ["line", "line", "line", "tail_end"] {
        let (name, _, data) = resumed_events.event().await.expect("an event");
        assert_eq!(name, expected, "{data}");
        assert!(name == "line" || data["complete"] == true, "{data}");
    }
    // Request exactly the number of lines, one line less, and none.
    let (_, all_lines) = world.json("fake/logs?tail=100").await;
    let count = all_lines["lines"].as_array().expect("a list").len();
    for (tail, is_complete) in [(count, true), (count - 1, false), (0, false)] {
        let query = format!("fake/logs?follow=true&tail={tail}");
        let mut events = Events::open(&world, &query, None).await;
        for _ in 0..tail {
            assert_eq!(events.event().await.expect("an event").0, "line");
        }
        let (name, event_id, end) = events.event().await.expect("an event");
        assert_eq!(
            (&*name, end),
            ("tail_end", json!({"complete": is_complete}))
        );
        // The stream can be resumed from this event.
        let mut later_events = Events::open(&world, "fake/logs?follow=true", Some(&event_id)).await;
        assert_eq!(later_events.event().await.expect("an event").0, "tail_end");
    }
    // The id comes from another run, so it is ignored.
    let mut other_events = Events::open(&world, "fake/logs?follow=true&tail=1", Some("1-1")).await;
    assert_eq!(other_events.next().await.expect("a line").1, "five");
    let LogDaemon { daemon, .. } = world;
    let (last_event, ()) = tokio::join!(other_events.next(), within(daemon.stop(None)));
    assert_eq!(last_event, None);
}
