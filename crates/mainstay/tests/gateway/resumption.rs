//! Event streams that break or are closed, and continue (specification 2025-11-25, transports, "Resumability
//! and Redelivery"; SEP-1699): streams of clients, and streams of servers.

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

/// Calls `progress` with this number of steps.
async fn count(client: &Http, tool: &str, steps: u64, interval_ms: u64) -> Stream {
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

/// The steps up to the result, which ends the stream.
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

async fn resumed(client: &Http, last_event: &str) -> Stream {
    let stream = client.resume(last_event).await;
    assert_eq!(stream.status, StatusCode::OK);
    stream
}

/// The first event has the place and the time for a resumption, and each event has a unique id. Clients of
/// earlier revisions do not expect an event without a message.
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
                let mut stream = count(&client, &format!("{prefix}progress"), 3, 0).await;
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
    /// The messages after the client's last event: all of them, once, in order.
    async fn a_call_whose_stream_broke_is_resumed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let tool = format!("{prefix}progress");
            let mut stream = count(&client, &tool, 6, 100).await;
            let primer = event(&mut stream).await.id();
            assert_eq!(event(&mut stream).await.json()["params"]["progress"], 1);
            let last = event(&mut stream).await.id();
            drop(stream);
            let mut rest = resumed(&client, &last).await;
            assert_eq!(steps(&mut rest).await, [3, 4, 5, 6]);
            // The call ran once. The client may have missed messages that were sent to it.
            let mut whole = resumed(&client, &primer).await;
            assert_eq!(steps(&mut whole).await, [1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(backend.runs("progress"), 2);
    }

    /// The result waits for a client that is away.
    async fn a_result_is_kept_for_a_client_that_was_away(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let mut other = count(&client, &format!("{prefix}progress"), 2, 100).await;
            let mut stream = count(&client, &format!("{prefix}progress"), 1, 100).await;
            let primer = event(&mut stream).await.id();
            drop(stream);
            // Once the later call is answered, both are.
            assert_eq!(steps(&mut other).await, [1, 2]);
            let mut rest = resumed(&client, &primer).await;
            // No messages of the other stream.
            assert_eq!(steps(&mut rest).await, [1]);
        }
    }

    /// The stream of messages outside of calls continues where it was.
    async fn a_sessions_own_stream_is_resumed(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = gateway.client_at(path).await;
            let mut stream = client.listen().await;
            let primer = event(&mut stream).await;
            assert!(primer.retry.is_some() && primer.data.as_deref() == Some(""), "{primer:?}");
            client.call(&format!("{prefix}change_tools"), json!({})).await;
            let changed = event(&mut stream).await;
            assert_eq!(changed.json()["method"], "notifications/tools/list_changed");
            drop(stream);
            client.call(&format!("{prefix}change_prompts"), json!({})).await;
            let mut rest = resumed(&client, &changed.id()).await;
            assert_eq!(rest.message().await["method"], "notifications/prompts/list_changed");
            drop(rest);
            let mut whole = resumed(&client, &primer.id()).await;
            assert_eq!(event(&mut whole).await.id(), primer.id());
            assert_eq!(event(&mut whole).await, changed);
            assert_eq!(whole.message().await["method"], "notifications/prompts/list_changed");
        }
    }
}

/// A client may notice a dead connection before Mainstay does. The old connection ends.
#[tokio::test]
async fn a_connection_that_resumes_takes_the_place_of_the_one_before() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let mut stream = count(&client, "x__progress", 8, 100).await;
    let primer = event(&mut stream).await.id();
    let mut rest = resumed(&client, &primer).await;
    while stream.event().await.is_some() {}
    assert_eq!(steps(&mut rest).await, [1, 2, 3, 4, 5, 6, 7, 8]);

    let mut listening = client.listen().await;
    let primer = event(&mut listening).await.id();
    let mut again = resumed(&client, &primer).await;
    assert_eq!(listening.event().await, None);
    client.call("x__change_tools", json!({})).await;
    assert_eq!(
        again.message().await["method"],
        "notifications/tools/list_changed"
    );
}

/// Events that are no longer stored are not replayed, and the client gets an error. No session can replay
/// another session's events.
#[tokio::test]
async fn what_is_kept_no_longer_is_said_to_be_gone() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (client, other) = (gateway.client().await, gateway.client().await);
    let mut stream = count(&client, "x__progress", 1, 0).await;
    let primer = event(&mut stream).await.id();
    assert_eq!(steps(&mut stream).await, [1]);
    for (asker, id) in [
        (&other, primer.clone()),
        (&client, primer.replace("-c1-", "-c7-")),
        (&client, primer.replace("-c1-0", "-c1-9")),
    ] {
        let answer = asker.resume(&id).await.whole().await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{id}");
        let reason = answer.json()["error"]["message"].clone();
        assert!(
            reason
                .as_str()
                .is_some_and(|words| words.contains("no longer")),
            "{reason}"
        );
    }
    // Without events to wait for, the stream is an ordinary one.
    for id in ["", "x", "1", "-", "00000000-s1-0", "00000000-x1-0"] {
        let mut fresh = resumed(&client, id).await;
        assert_ne!(event(&mut fresh).await.id(), id);
    }
    assert!(client.delete().await.is_success());
    assert_eq!(client.resume(&primer).await.status, StatusCode::NOT_FOUND);
}

/// A server that closes its streams with an id. It records each request and its time.
struct Polling {
    entry: Value,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Polling {
    /// `answer` gets the call's id and the number of the requested event. 0 is the call.
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

    /// The requested events, each with the time since the last request.
    fn requests(&self) -> Vec<(String, Duration)> {
        let requests = self.requests.lock().expect("no panic");
        let mut before = None;
        let since = |(at, event): &(Instant, String)| {
            let pause = before.replace(*at).map(|before| *at - before);
            (event.clone(), pause.unwrap_or_default())
        };
        requests.iter().map(since).collect()
    }
}

fn closing(number: u64, retry: u64) -> String {
    let body = format!("id: e{number}\nretry: {retry}\ndata: \n\n");
    rogue::http("text/event-stream", &body)
}

fn done(id: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "resumed"}]});
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
    rogue::http("text/event-stream", &rogue::event(&response))
}

/// A server's stream that ends early is requested again at the time that the server named, as often as
/// necessary (conformance: `sse-retry`).
#[tokio::test]
async fn a_servers_stream_is_resumed_when_it_says() {
    const RETRIES: [u128; 2] = [500, 300];
    // A busy machine makes a pause longer, and never shorter. The shortest of several counts.
    let mut shortest = [u128::MAX; 2];
    for _ in 0..5 {
        let server = Polling::start(|id, event| match event {
            0 => closing(1, 500),
            1 => closing(2, 300),
            _ => done(id),
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
            shortest[place] = shortest[place].min(pause);
        }
        let in_time = |(pause, retry): (&u128, &u128)| *pause < retry + 200;
        if shortest.iter().zip(&RETRIES).all(in_time) {
            return;
        }
    }
    panic!("{shortest:?} ms for {RETRIES:?}");
}

/// A busy server is asked again. If a server refuses, the answer is lost, and the call may have run.
#[tokio::test]
async fn a_stream_that_cannot_be_resumed_ends_its_call() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    const NO: &str = "HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let server = Polling::start(|_, event| {
        if event == 0 {
            closing(1, 100)
        } else {
            BUSY.to_owned()
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
            closing(1, 100)
        } else {
            NO.to_owned()
        }
    });
    let server = server.await;
    let gateway = server.gateway().await;
    let client = gateway.client().await;
    let result = client.call("x__act", json!({})).await;
    assert_eq!(failure(&result)["kind"], "outcome_unknown", "{result}");
    assert_eq!(server.requests().len(), 2);
}

/// SEP-1699: if a server closes the connection of a call, Mainstay does the same for the client at the
/// transparent endpoint, with the same pause. On `/mcp` Mainstay resumes by itself.
#[tokio::test]
async fn a_server_that_has_its_client_poll_has_it_poll_us() {
    let server = Polling::start(|id, event| {
        if event == 0 {
            closing(1, 700)
        } else {
            done(id)
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
            stream = resumed(&client, &primer.id()).await;
        }
        assert_eq!(text(&stream.message().await["result"]), "resumed");
        assert_eq!(stream.next().await, None);
    }
}

/// A client that returns for the rest makes Mainstay ask the server at once: the server's pause is for clients
/// that wait.
#[tokio::test]
async fn a_client_that_returns_has_the_server_asked_at_once() {
    let server = Polling::start(|id, event| {
        if event == 0 {
            closing(1, 3_600_000)
        } else {
            done(id)
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
        // On `/mcp` a client does not notice that the server's stream is closed. The client's own stream may
        // break repeatedly.
        drop(stream);
        let mut rest = found("the server to be asked", async || {
            let rest = resumed(&client, &primer.id()).await;
            (server.requests().len() >= calls + 2).then_some(rest)
        })
        .await;
        assert_eq!(text(&rest.message().await["result"]), "resumed");
    }
}

/// If a network breaks a stream during a call, the call loses nothing, provided that the server's events have
/// ids.
#[tokio::test]
async fn a_servers_stream_that_breaks_off_is_resumed() {
    let server = Polling::start(|id, event| {
        if event > 0 {
            return done(id);
        }
        // The header announces more bytes than arrive.
        "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\ncontent-type: text/event-stream\r\n\r\nid: e1\nretry: 100\ndata: \n\n".to_owned()
    })
    .await;
    let gateway = server.gateway().await;
    let client = gateway.client().await;
    assert_eq!(client.call_text("x__act", json!({})).await, "resumed");
}

/// Without resumption nothing changes for a call that is dropped (cancellation.rs). A client that reads slowly
/// still gets its result.
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
            // Messages that belong to no call are dropped beyond a rate, and a message reports that.
            Some(text) => lines.extend(text.strip_prefix("line ").map(|line| {
                let number: u64 = line.parse().expect("a number");
                number
            })),
            None => break assert!(message["result"].is_object(), "{message}"),
        }
    }
    assert!(lines.is_sorted(), "{lines:?}");
}
