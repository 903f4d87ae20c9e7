//! Limits for the connections of clients: their number, and the time without progress.

use std::{cell::Cell, net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, StatusCode};
use mainstay::daemon::{DaemonOptions, Pauses};
use mainstay_core::config::Journal;
use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::{
    backend::Backend,
    client::{Http, LATEST, Stream},
    gateway::{Gateway, config, found, soon, until},
    rest_client::TOKEN,
};

/// A gateway with short time limits for connections that make no progress.
async fn start_impatient(backend: &Backend, http: Value) -> Gateway {
    let pauses = Pauses {
        body: Duration::from_millis(300),
        look: Duration::from_millis(300),
        ..Pauses::default()
    };
    let options = DaemonOptions {
        pauses,
        ..DaemonOptions::default()
    };
    Gateway::with_options(&config(&[("x", backend)], json!({"http": http})), options).await
}

/// After a restart, the listen backlog has room for the connections of all clients.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn hundreds_of_connections_may_wait_to_be_accepted() {
    let max_text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("readable");
    let max_text: usize = max_text.trim().parse().expect("a number");
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = mainstay::daemon::bind(address).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let mut waiting_connections = Vec::new();
    for number in 0..max_text.min(500) {
        let description = format!("connection {number}");
        let connection = soon(&description, TcpStream::connect(address)).await;
        waiting_connections.push(connection.expect("connected"));
    }
}

/// Sends a request from this address. Returns the connection and the head of the response.
async fn ask(gateway: &Gateway, from: [u8; 4], request: &str) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("a loopback address");
    let mut stream = socket.connect(gateway.address).await.expect("it listens");
    let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = soon("the head of an answer", stream.read_u8()).await;
        head.push(byte.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("ASCII");
    (stream, head.to_ascii_lowercase())
}

/// Opens the stream of a session. Retries until a connection is free.
async fn listen(client: &Http) -> Stream {
    found("a stream", async || {
        let headers = client.headers("text/event-stream");
        let stream = client.send(Method::GET, headers, "").await;
        (stream.status == StatusCode::OK).then_some(stream)
    })
    .await
}

async fn is_refused(gateway: &Gateway, from: [u8; 4]) -> bool {
    let (_stream, head) = ask(gateway, from, "GET /mcp").await;
    let is_refused = head.starts_with("http/1.1 503");
    if is_refused {
        assert!(head.contains("\r\nretry-after: 5\r\n"), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    }
    is_refused
}

/// Some connections are reserved for the operator, so clients cannot use all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_shut_the_operator_out() {
    const LOCAL_ADDRESS: [u8; 4] = [127, 0, 0, 1];
    let backend = Backend::http().await;
    let http = json!({"maxConnections": 6, "maxConnectionsPerAddress": 4});
    let gateway = Gateway::with_settings(&[("x", &backend)], json!({"http": http})).await;
    let client = gateway.client().await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(listen(&client).await);
    }
    assert!(is_refused(&gateway, LOCAL_ADDRESS).await);
    // Other addresses can still connect, because one address cannot use all client connections.
    let other_address = [127, 0, 0, 2];
    assert!(cfg!(not(target_os = "linux")) || !is_refused(&gateway, other_address).await);
    // Connections that send nothing cannot use up the reserve.
    let mut silent_connections = Vec::new();
    for _ in 0..600 {
        silent_connections.push(TcpStream::connect(gateway.address).await.expect("accepted"));
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (_stream, head) = ask(&gateway, LOCAL_ADDRESS, &format!("GET {path}")).await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{path}: {head}");
    }
    assert_eq!(gateway.rest().names().await, ["x"]);
    assert!(is_refused(&gateway, LOCAL_ADDRESS).await);
    drop((silent_connections, streams));
    found("room", async || {
        let has_refused = is_refused(&gateway, LOCAL_ADDRESS).await;
        (!has_refused).then_some(())
    })
    .await;
    gateway.client().await;
}

/// Calls on refused connections are recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_on_connections_beyond_the_limit_are_on_record() {
    let backend = Backend::http().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = mainstay_journal_store::open(folder.path(), &Journal::default());
    let options = GatewayOptions {
        journal: Some(Arc::new(journal.expect("a journal"))),
        ..GatewayOptions::default()
    };
    let settings = json!({"http": {"maxConnections": 2}});
    let gateway = Gateway::with_options(&config(&[("x", &backend)], settings), options).await;
    let client = gateway.client().await;
    let streams = [listen(&client).await, listen(&client).await];
    let long_text = "a".repeat(100_000);
    for text in ["short", &long_text] {
        let call = json!({"name": "x__echo", "arguments": {"text": text}}).to_string();
        let response = client.post(client.request_text("tools/call", &call)).await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers["retry-after"], "5");
        assert_eq!(response.headers["connection"], "close");
        assert!(
            response.text.contains("too many connections"),
            "{}",
            response.text
        );
    }
    drop(streams);
    let records = found("a record", async || {
        let page = gateway.rest().get("/api/call-records").await;
        let records = page["calls"].as_array().expect("a list").clone();
        (!records.is_empty()).then_some(records)
    })
    .await;
    // Beyond the limit, Mainstay reads only short bodies, so the long call has no record.
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["status"], "refused");
    assert_eq!(
        records[0]["error"]["kind"], "too_many_connections",
        "{records:?}"
    );
    assert_eq!(backend.of_method("tools/call").len(), 0);
}

/// A body that arrives too slowly is not waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_stands_still_is_not_waited_for() {
    let backend = Backend::http().await;
    let gateway = start_impatient(&backend, json!({})).await;
    for (path, status) in [
        ("/mcp", "408"),
        ("/servers/x/mcp", "408"),
        ("/api/reload", "400"),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.expect("accepted");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             authorization: Bearer {TOKEN}\r\ncontent-length: 2000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("written");
        let partial_body = vec![b' '; 1_000_000];
        stream.write_all(&partial_body).await.expect("written");
        let mut answer = Vec::new();
        soon(path, stream.read_to_end(&mut answer)).await.ok();
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{path}: {answer}");
    }
}

/// A client may close its sending side after a request (RFC 9112, section 9.6), as `nc -N` does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_close_their_side_get_their_answers() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let session = client.session.as_deref().expect("a session");
    let call = json!({"name": "x__sleep", "arguments": {"ms": 300}});
    let session_call = client.request_text("tools/call", &call.to_string());
    // The response becomes a stream before the call ends.
    let call = json!({"name": "x__sleep", "arguments": {"ms": 1500}});
    let slow_result = client.request_text("tools/call", &call.to_string());
    let large_text = "a".repeat(3_000_000);
    let echo = json!({"name": "x__echo", "arguments": {"text": large_text}}).to_string();
    let echo = client.request_text("tools/call", &echo);
    let rest = json!({"tool": "x/sleep", "arguments": {"ms": 300}}).to_string();
    let accept = "accept: application/json, text/event-stream\r\n";
    let mcp = format!("{accept}mcp-session-id: {session}\r\nmcp-protocol-version: {LATEST}\r\n");
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    for (request, body, expected) in [
        ("POST /mcp HTTP/1.1", session_call.as_str(), "slept 300 ms"),
        ("POST /mcp HTTP/1.0", &session_call, "slept 300 ms"),
        ("POST /mcp HTTP/1.1", &slow_result, "slept 1500 ms"),
        ("POST /mcp HTTP/1.0", &slow_result, "slept 1500 ms"),
        ("POST /mcp HTTP/1.1", &echo, &large_text),
        ("POST /api/mcp-tools/call HTTP/1.1", &rest, "slept 300 ms"),
        ("GET /api/servers HTTP/1.1", "", "\"x\""),
        ("GET /healthz HTTP/1.0", "", "200 OK"),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.expect("accepted");
        let path_call = if request.contains("/mcp ") {
            &mcp
        } else {
            &token
        };
        let head = format!(
            "{request}\r\nhost: localhost\r\ncontent-type: application/json\r\n{path_call}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("written");
        stream.shutdown().await.expect("half closed");
        let mut answer = Vec::new();
        let read_message = soon(request, stream.read_to_end(&mut answer)).await;
        read_message.expect("closed in order");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(expected), "{request}: {answer:.300}");
        let interim_count = answer.matches("100 Continue").count();
        assert!(
            interim_count <= usize::from(request.ends_with("1.1")),
            "{request}: {answer:.300}"
        );
    }
}

/// Sends a call of `x__echo` with a large answer. Does not read the answer.
async fn send_without_reading(gateway: &Gateway, client: &Http, text: &str) -> TcpStream {
    let params = json!({"name": "x__echo", "arguments": {"text": text}}).to_string();
    let body = client.request_text("tools/call", &params);
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    let mut stream = socket.connect(gateway.address).await.expect("it listens");
    let session = client.session.as_deref().expect("a session");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {LATEST}\r\n\
         mcp-session-id: {session}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    stream.write_all(body.as_bytes()).await.expect("written");
    stream
}

/// Waits until Mainstay resets the connection.
async fn until_reset(stream: &TcpStream) {
    until("the end of the connection", || {
        stream.take_error().expect("an open socket").is_some()
    })
    .await;
}

/// An answer that the client does not read is dropped after a time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_nobody_reads_is_dropped() {
    let backend = Backend::http().await;
    let gateway = start_impatient(&backend, json!({})).await;
    let client = gateway.client().await;
    let stream = send_without_reading(&gateway, &client, &"x".repeat(12_000_000)).await;
    until_reset(&stream).await;
    client.assert_echo("x__echo").await;
}

/// An answer in the kernel's send queue also counts as unread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_fit_into_a_send_queue_are_bounded_together() {
    let backend = Backend::http().await;
    let http = json!({"http": {"maxUnreadBytes": 10_000_000}});
    let gateway = Gateway::start(&config(&[("x", &backend)], http)).await;
    let client = gateway.client().await;
    let text = "x".repeat(2_500_000);
    let mut connections = Vec::new();
    for calls in 1..=8 {
        connections.push(send_without_reading(&gateway, &client, &text).await);
        backend.until_count("tools/call", calls).await;
    }
    let reset = Cell::new(0);
    until("the end of all but four connections", || {
        let is_reset = |stream: &&TcpStream| stream.take_error().expect("an open socket").is_some();
        reset.set(reset.get() + connections.iter().filter(is_reset).count());
        reset.get() >= 4
    })
    .await;
    client.assert_echo("x__echo").await;
}

/// The unread answers of all clients together have a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_are_bounded_together() {
    let backend = Backend::http().await;
    let http = json!({"http": {"maxUnreadBytes": 20_000_000}});
    let gateway = Gateway::start(&config(&[("x", &backend)], http)).await;
    let client = gateway.client().await;
    let text = "x".repeat(12_000_000);
    let first = send_without_reading(&gateway, &client, &text).await;
    backend.until_count("tools/call", 1).await;
    let second_answer = send_without_reading(&gateway, &client, &text).await;
    // Read `SO_ERROR` only once for each connection, because reading clears it.
    let is_reset = |stream: &TcpStream| stream.take_error().expect("an open socket").is_some();
    let reset = Cell::new(0);
    until("the end of a connection", || {
        let new_resets = [&first, &second_answer]
            .into_iter()
            .filter(|stream| is_reset(stream));
        reset.set(reset.get() + new_resets.count());
        reset.get() > 0
    })
    .await;
    assert_eq!(reset.get(), 1);
    client.assert_echo("x__echo").await;
}
