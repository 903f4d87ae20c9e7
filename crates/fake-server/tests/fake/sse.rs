//! Tests of HTTP+SSE (2024-11-05), in-process and as a program.

use std::process::Stdio;

use fake_server::{Fake, Script};
use hyper::StatusCode;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::common::{Stream, call, initialize, request, send, text, within};

async fn open(url: &str) -> (Stream, String) {
    let response = send(url, "GET", &[], String::new()).await;
    let mut stream = Stream::new(response.expect("answered"));
    let endpoint = stream.next().await.expect("unbroken").expect("an event");
    assert!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
    let base = url.strip_suffix("/sse").expect("the transport's path");
    (stream, format!("{base}{endpoint}"))
}

async fn post(endpoint: &str, body: String) -> StatusCode {
    let response = send(endpoint, "POST", &[], body).await;
    response.expect("answered").status()
}

#[tokio::test]
async fn answers_come_on_the_stream_in_order() {
    within(async {
        let fake = Fake::sse(Script::default()).await.expect("starts");
        let (mut stream, endpoint) = open(&fake.url()).await;
        let hello = initialize("2024-11-05");
        assert_eq!(post(&endpoint, hello).await, StatusCode::ACCEPTED);
        let answer = stream.message().await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        post(&endpoint, call(1, "progress", &json!({"steps": 2}))).await;
        assert_eq!(stream.message().await["params"]["progress"], 1);
        assert_eq!(stream.message().await["params"]["progress"], 2);
        assert_eq!(text(&stream.message().await), "2 steps done");
        let missing_request = request(2, "resources/read", &json!({"uri": "fake://nowhere"}));
        post(&endpoint, missing_request).await;
        let refusal = stream.message().await;
        assert_eq!(refusal["error"]["code"], -32002);
        assert_eq!(refusal["error"]["data"]["uri"], "fake://nowhere");
        fake.stop().await.expect("stops");
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_with_its_stream() {
    within(async {
        let fake = Fake::sse(Script::default()).await.expect("starts");
        let (mut stream, endpoint) = open(&fake.url()).await;
        fake.drop_streams();
        assert!(stream.next().await.is_err());
        let late_response = post(&endpoint, initialize("2024-11-05")).await;
        assert_eq!(late_response, StatusCode::NOT_FOUND);
        assert_eq!(fake.sessions(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_program_announces_its_port() {
    within(async {
        for (transport, path) in [("sse", "/sse"), ("http", "/mcp")] {
            let mut child = Command::new(fake_server::binary())
                .args([transport, "--port", "0"])
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .expect("starts");
            let stdout = child.stdout.take().expect("piped");
            let line = BufReader::new(stdout).lines().next_line().await;
            let line = line.expect("read").expect("a line");
            let address = line.strip_prefix("listening on ").expect("the port");
            let url = format!("http://{address}{path}");
            let verb = if transport == "sse" { "GET" } else { "DELETE" };
            let answer = send(&url, verb, &[], String::new())
                .await
                .expect("answered");
            let expected = match transport {
                "sse" => StatusCode::OK,
                _ => StatusCode::BAD_REQUEST,
            };
            assert_eq!(answer.status(), expected);
            child.kill().await.expect("ends");
        }
    })
    .await;
}
