//! Event streams of clients and servers are interrupted and resumed (specification 2025-11-25,
//! "Transports", "Resumability and Redelivery"; SEP-1699).

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, SseEvent, Stream, failure, text},
    gateway::{Gateway, found, until},
    rogue::{self, RogueRequest},
};

const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// Calls the tool `progress`, which reports this number of steps.
async fn call_progress(client: &Http, tool: &str, steps: u64, interval_ms: u64) -> Stream {
    let params = json!({
        "name": tool,
        "arguments": {"steps": steps, "intervalMs": interval_ms},
        "_meta": {"progressToken": "t"},
    });
    let text = client.request_text("tools/call", &params.to_string());
    let stream = client.begin(text).await;
    assert_eq!(stream.status, StatusCode::OK);
    stream
}

async fn event(stream: &mut Stream) -> SseEvent {
    stream.event().await.expect("the stream goes on")
}

/// Reads the stream to the result. Returns the steps in the progress notifications.
async fn steps(stream: &mut Stream) -> Vec<u64> {
    let mut steps = Vec::new();
    loop {
        let message = stream.message().await;
        match message["params"]["progress"].as_u64() {
            Some(step) => steps.push(step),
            None => {
                assert!(
                    text(&message["result"]).ends_with("steps done"),
                    "{message}"
                );
                assert_eq!(stream.next().await, None);
                return steps;
            }
        }
    }
}

async fn resume_stream(client: &Http, last_event: &str) -> Stream {
    let stream = client.resume(last_event).await;
    assert_eq!(stream.status, StatusCode::OK);
    stream
}

/// The first event has an id and a retry time, and all ids are unique. Clients of earlier revisions
/// do not get this event.
#[tokio::test]
async fn streams_are_primed_where_the_revision_knows_it() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        for revision in ["2025-03-26", "2025-06-18", LATEST] {
            let mut client = gateway.stranger(path);
            client.initialize(revision).await;
            let mut ids = HashSet::new();
            for _ in 0..2 {
                let mut stream = call_progress(&client, &format!("{prefix}progress"), 3, 0).await;
                let mut events = Vec::new();
                while let Some(event) = stream.event().await {
                    events.push(event);
                }
                if revision == LATEST {
                    let primer = events.remove(0);
                    assert_eq!(primer.data.as_deref(), Some(""), "{primer:?}");
                    assert!(primer.retry.is_some());
                    assert!(ids.insert(primer.id()), "{primer:?}");
                    assert!(
                        events.iter().all(|event| ids.insert(event.id())),
                        "{events:?}"
                    );
                } else {
                    assert!(events.iter().all(|event| event.id.is_none()), "{events:?}");
                }
                assert_eq!(events.len(), 4, "{events:?}");
            }
        }
    }
}

over_every_transport! {
    /// A resumed stream sends each missed message once and in order.
    async fn a_call_whose_stream_broke_is_resumed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let tool = format!("{prefix}progress");
            let mut stream = call_progress(&client, &tool, 6, 100).await;
            let primer = event(&mut stream).await.id();
            assert_eq!(event(&mut stream).await.json()["params"]["progress"], 1);
            let last_id = event(&mut stream).await.id();
            drop(stream);
            let mut rest = resume_stream(&client, &last_id).await;
            assert_eq!(steps(&mut rest).await, [3, 4, 5, 6]);
            // A client that resumes from the first event gets all messages again.
            let mut full_stream = resume_stream(&client, &primer).await;
            assert_eq!(steps(&mut full_stream).await, [1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(backend.runs("progress"), 2);
    }

    /// If the client is disconnected, its result is stored.
    async fn a_result_is_kept_for_a_client_that_was_away(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let mut other_stream = call_progress(&client, &format!("{prefix}progress"), 2, 100).await;
            let mut stream = call_progress(&client, &format!("{prefix}progress"), 1, 100).await;
            let primer = event(&mut stream).await.id();
            drop(stream);
            // The earlier call ended before this answer.
            assert_eq!(steps(&mut other_stream).await, [1, 2]);
            let mut rest = resume_stream(&client, &primer).await;
            // The resumed stream has only its own messages.
            assert_eq!(steps(&mut rest).await, [1]);
        }
    }

    /// The GET stream of a session can be resumed.
    async fn a_sessions_own_stream_is_resumed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let mut stream = client.listen().await;
            let primer = event(&mut stream).await;
            assert!(primer.retry.is_some() && primer.data.as_deref() == Some(""), "{primer:?}");
            client.call(&format!("{prefix}change_tools"), json!({})).await;
            let change_event = event(&mut stream).await;
            assert_eq!(change_event.json()["method"], "notifications/tools/list_changed");
            drop(stream);
            client.call(&format!("{prefix}change_prompts"), json!({})).await;
            let mut rest = resume_stream(&client, &change_event.id()).await;
            assert_eq!(rest.message().await["method"], "notifications/prompts/list_changed");
            drop(rest);
            let mut full_stream = resume_stream(&client, &primer.id()).await;
            assert_eq!(event(&mut full_stream).await.id(), primer.id());
            assert_eq!(event(&mut full_stream).await, change_event);
            assert_eq!(full_stream.message().await["method"], "notifications/prompts/list_changed");
        }
    }
}

/// A client may resume a stream before Mainstay notices that the connection is dead. The old
/// connection then ends.
#[tokio::test]
async fn a_connection_that_resumes_takes_the_place_of_the_one_before() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let mut stream = call_progress(&client, "x__progress", 8, 100).await;
    let primer = event(&mut stream).await.id();
    let mut rest = resume_stream(&client, &primer).await;
    while stream.event().await.is_some() {}
    assert_eq!(steps(&mut rest).await, [1, 2, 3, 4, 5, 6, 7, 8]);

    let mut listen_stream = client.listen().await;
    let primer = event(&mut listen_stream).await.id();
    let mut resumed_stream = resume_stream(&client, &primer).await;
    assert_eq!(listen_stream.event().await, None);
    client.call("x__change_tools", json!({})).await;
    assert_eq!(
        resumed_stream.message().await["method"],
        "notifications/tools/list_changed"
    );
}

/// Events that were dropped, or that belong to other sessions, cannot be resumed. The client gets
/// an error.
#[tokio::test]
async fn dropped_events_cannot_be_resumed() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, other_client) = (gateway.client().await, gateway.client().await);
    let mut stream = call_progress(&client, "x__progress", 1, 0).await;
    let primer = event(&mut stream).await.id();
    assert_eq!(steps(&mut stream).await, [1]);
    for (asking_client, id) in [
        (&other_client, primer.clone()),
        (&client, primer.replace("-c1-", "-c7-")),
        (&client, primer.replace("-c1-0", "-c1-9")),
    ] {
        let answer = asking_client.resume(&id).await.whole().await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{id}");
        let reason = answer.json()["error"]["message"].clone();
        assert!(
            reason
                .as_str()
                .is_some_and(|text| text.contains("no longer")),
            "{reason}"
        );
    }
    // With an id that has never existed, the client gets a new stream.
    for id in ["", "x", "1", "-", "00000000-s1-0", "00000000-x1-0"] {
        let mut fresh_stream = resume_stream(&client, id).await;
        assert_ne!(event(&mut fresh_stream).await.id(), id);
    }
    assert!(client.delete().await.is_success());
    assert_eq!(client.resume(&primer).await.status, StatusCode::NOT_FOUND);
}

/// A server that closes its streams. It records the event ids from which Mainstay resumes, with the
/// times.
struct Polling {
    entry: Value,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Polling {
    /// Starts the server. `answer` gets the id of the call and the number of the event to resume
    /// from. The number is 0 for the call itself.
    async fn start(answer: fn(&Value, u64) -> String) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let call = Mutex::new(Value::Null);
        let entry = rogue::start_resumable({
            let requests = Arc::clone(&requests);
            move |description| {
                let event = match description {
                    RogueRequest::Call(id) => {
                        *call.lock().expect("no panic") = id.clone();
                        "e0"
                    }
                    RogueRequest::Rest(event) => event,
                };
                let mut requests = requests.lock().expect("no panic");
                requests.push((Instant::now(), event.to_owned()));
                let number = event[1..].parse().expect("an id of ours");
                answer(&call.lock().expect("no panic"), number)
            }
        })
        .await;
        Self { entry, requests }
    }

    async fn gateway(&self) -> Gateway {
        Gateway::start(&json!({"mcpServers": {"x": self.entry}})).await
    }

    /// The event ids from which Mainstay resumed, each with the time since the request before.
    fn requests(&self) -> Vec<(String, Duration)> {
        let requests = self.requests.lock().expect("no panic");
        let mut previous_time = None;
        let pause_before = |(time, event): &(Instant, String)| {
            let pause = previous_time
                .replace(*time)
                .map(|previous_time| *time - previous_time);
            (event.clone(), pause.unwrap_or_default())
        };
        requests.iter().map(pause_before).collect()
    }
}

fn closing_response(number: u64, retry: u64) -> String {
    let body = format!("id: e{number}\nretry: {retry}\ndata: \n\n");
    rogue::http("text/event-stream", &body)
}

fn final_response(id: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "resumed"}]});
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
    rogue::http("text/event-stream", &rogue::event(&response))
}

/// If a server's stream ends early, Mainstay resumes it after the server's retry time, as often as
/// needed (conformance: `sse-retry`).
#[tokio::test]
async fn a_servers_stream_is_resumed_when_it_says() {
    const RETRIES: [u128; 2] = [500, 300];
    // Measure several pauses and take the shortest, because load can only lengthen a pause.
    let mut shortest_pauses = [u128::MAX; 2];
    for _ in 0..5 {
        let server = Polling::start(|id, event| match event {
            0 => closing_response(1, 500),
            1 => closing_response(2, 300),
            _ => final_response(id),
        })
        .await;
        let gateway = server.gateway().await;
        let client = gateway.client().await;
        assert_eq!(client.call_text("x__act", json!({})).await, "resumed");
        let requests = server.requests();
        let events: Vec<_> = requests.iter().map(|(event, _)| event.as_str()).collect();
        assert_eq!(events, ["e0", "e1", "e2"]);
        for (place, (_, pause)) in requests.iter().skip(1).enumerate() {
            let (pause, retry) = (pause.as_millis(), RETRIES[place]);
            assert!(pause >= retry - 50, "{pause} ms for {retry}");
            shortest_pauses[place] = shortest_pauses[place].min(pause);
        }
        let is_in_time = |(pause, retry): (&u128, &u128)| *pause < retry + 200;
        if shortest_pauses.iter().zip(&RETRIES).all(is_in_time) {
            return;
        }
    }
    panic!("{shortest_pauses:?} ms for {RETRIES:?}");
}

/// After a 503, Mainstay tries again to resume. After a refusal, the outcome of the call is
/// unknown.
#[tokio::test]
async fn a_stream_that_cannot_be_resumed_ends_its_call() {
    const BUSY_RESPONSE: &str =
        "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    const REFUSAL_RESPONSE: &str =
        "HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let server = Polling::start(|_, event| {
        if event == 0 {
            closing_response(1, 100)
        } else {
            BUSY_RESPONSE.to_owned()
        }
    });
    let server = server.await;
    let gateway = server.gateway().await;
    let client = gateway.client().await;
    let (_, ()) = tokio::join!(
        client.begin(client.request_text("tools/call", r#"{"name":"x__act"}"#)),
        async {
            until("three attempts", || server.requests().len() >= 4).await;
        }
    );
    let server = Polling::start(|_, event| {
        if event == 0 {
            closing_response(1, 100)
        } else {
            REFUSAL_RESPONSE.to_owned()
        }
    });
    let server = server.await;
    let gateway = server.gateway().await;
    let client = gateway.client().await;
    let result = client.call("x__act", json!({})).await;
    assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
    assert_eq!(server.requests().len(), 2);
}

/// If the server closes the stream of a call, Mainstay does the same at the transparent endpoint,
/// with the same retry time. At `/mcp` only Mainstay reconnects (SEP-1699).
#[tokio::test]
async fn a_server_that_has_its_client_poll_has_it_poll_us() {
    let server = Polling::start(|id, event| {
        if event == 0 {
            closing_response(1, 700)
        } else {
            final_response(id)
        }
    })
    .await;
    let gateway = server.gateway().await;
    for (path, tool, parts) in [("/servers/x/mcp", "act", true), ("/mcp", "x__act", false)] {
        let client = gateway.client_at(path).await;
        let call = json!({"name": tool}).to_string();
        let mut stream = client.begin(client.request_text("tools/call", &call)).await;
        let primer = event(&mut stream).await;
        if parts {
            assert_eq!(event(&mut stream).await.retry, Some(700));
            assert_eq!(stream.event().await, None);
            stream = resume_stream(&client, &primer.id()).await;
        }
        assert_eq!(text(&stream.message().await["result"]), "resumed");
        assert_eq!(stream.next().await, None);
    }
}

/// If the client resumes early, Mainstay resumes the upstream stream early as well.
#[tokio::test]
async fn a_client_that_returns_has_the_server_asked_at_once() {
    let server = Polling::start(|id, event| {
        if event == 0 {
            closing_response(1, 3_600_000)
        } else {
            final_response(id)
        }
    })
    .await;
    let gateway = server.gateway().await;
    for (path, tool, parts) in [("/servers/x/mcp", "act", true), ("/mcp", "x__act", false)] {
        let client = gateway.client_at(path).await;
        let call = json!({"name": tool}).to_string();
        let calls = server.requests().len();
        let mut stream = client.begin(client.request_text("tools/call", &call)).await;
        let primer = event(&mut stream).await;
        if parts {
            assert_eq!(event(&mut stream).await.retry, Some(3_600_000));
            assert_eq!(stream.event().await, None);
        }
        // At `/mcp` the stream of the client stays open, but the client may disconnect and resume.
        drop(stream);
        let mut rest = found("the server to be asked", async || {
            let rest = resume_stream(&client, &primer.id()).await;
            (server.requests().len() >= calls + 2).then_some(rest)
        })
        .await;
        assert_eq!(text(&rest.message().await["result"]), "resumed");
    }
}

/// If the network fails during a call, nothing is lost, provided that the server's events have ids.
#[tokio::test]
async fn a_servers_stream_that_breaks_off_is_resumed() {
    let server = Polling::start(|id, event| {
        if event > 0 {
            return final_response(id);
        }
        // `content-length` is larger than the body, so the response breaks off.
        "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\ncontent-type: text/event-stream\r\n\r\nid: e1\nretry: 100\ndata: \n\n".to_owned()
    })
    .await;
    let gateway = server.gateway().await;
    let client = gateway.client().await;
    assert_eq!(client.call_text("x__act", json!({})).await, "resumed");
}

/// A client that reads slowly gets its result from a stream that can be resumed.
#[tokio::test]
async fn a_slow_reader_of_a_resumable_stream_gets_its_result() {
    let backend = Backend::start(BackendKind::Stdio, &[]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let params = json!({"name": "x__log", "arguments": {"n": 5000}}).to_string();
    let mut stream = client
        .begin(client.request_text("tools/call", &params))
        .await;
    client.assert_echo("x__echo").await;
    let mut lines = Vec::new();
    loop {
        let message = stream.message().await;
        match message["params"]["data"].as_str() {
            // Above a rate, notifications outside of calls are dropped. A message has their number.
            Some(text) => lines.extend(text.strip_prefix("line ").map(|line| {
                let number: u64 = line.parse().expect("a number");
                number
            })),
            None => break assert!(message["result"].is_object(), "{message}"),
        }
    }
    assert!(lines.is_sorted(), "{lines:?}");
}
