//! A transport for tests: a connection in memory to a server in the same process. It shows that a new
//! transport needs only such a file and one arm in `transport::open`.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::{Launch, StdioLaunch},
    era::{ClientCapabilities, Revision},
    ids::ServerName,
    lifecycle::Loss,
    message::Method,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    time::timeout,
};

use super::{Duplex, LineTasks, open};
use crate::{
    Approach, Asker, AttemptLimiter, CallState, Exchange, InterruptionKind, Listener, Notice,
    Opening, RunningConnection, ServerMessage, ServerQuestion, Stop, Unopened, UpstreamSession,
    exchanges::multiplexed::LineOwner, logs::ServerLogs, own_initialize,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Opens a session over a connection in memory.
async fn open_memory(
    opening: &Opening,
    server: DuplexStream,
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    let (reader, writer) = tokio::io::split(server);
    let duplex = Duplex {
        transport: "memory",
        owner: LineOwner::Elsewhere,
        reader,
        writer,
    };
    let stop = opening.stop.clone();
    open(opening, duplex, |line| keep(line, stop)).await
}

/// Waits for the end of the connection and returns the reason.
async fn keep(mut line: LineTasks, stop: Stop) -> Loss {
    let reason = tokio::select! {
        () = stop.close.cancelled() => "stopped",
        _ = &mut line.read => "the server closed the line",
        _ = &mut line.write => "the server reads no more",
    };
    line.break_off();
    line.read.abort();
    line.write.abort();
    Loss::Disconnected(reason.to_owned())
}

#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {
    fn take_notice(&self, _: Notice) {}
    fn ask(&self, _: ServerQuestion) {}
}

fn opening() -> Opening {
    let server = ServerName::new("memory").expect("a legal name");
    Opening {
        lineage: mainstay_platform::lineage::Lineage::default(),
        tag: "memory:1".to_owned(),
        launch: Launch::Stdio(StdioLaunch::default()),
        credentials: None,
        approach: Approach::Legacy,
        steps_down: true,
        initialize: own_initialize(Revision::LATEST_LEGACY, &ClientCapabilities::none()),
        max_message_bytes: 1024 * 1024,
        hang_after: Duration::from_secs(120),
        listener: Arc::new(Nobody),
        log: ServerLogs::default().server(&server),
        signs: Arc::default(),
        attempt_limiter: Arc::new(AttemptLimiter::new(50)),
        server,
        stop: Stop::default(),
    }
}

/// Reads the request on the next line.
async fn request(lines: &mut tokio::io::Lines<BufReader<DuplexStream>>) -> serde_json::Value {
    let line = lines.next_line().await.expect("readable").expect("a line");
    serde_json::from_str(&line).expect("JSON")
}

async fn answer(
    lines: &mut tokio::io::Lines<BufReader<DuplexStream>>,
    request: &serde_json::Value,
    result: &str,
) {
    let id = &request["id"];
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
    let stream = lines.get_mut().get_mut();
    stream.write_all(text.as_bytes()).await.expect("open");
}

/// Greets, answers two calls in the opposite order, reads a third call and closes the connection.
async fn serve(stream: DuplexStream) {
    let mut lines = BufReader::new(stream).lines();
    let initialize = request(&mut lines).await;
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}"#;
    answer(&mut lines, &initialize, greeting).await;
    assert_eq!(
        request(&mut lines).await["method"],
        "notifications/initialized"
    );
    let (first, second) = (request(&mut lines).await, request(&mut lines).await);
    answer(&mut lines, &second, r#"{"call":2}"#).await;
    answer(&mut lines, &first, r#"{"call":1}"#).await;
    request(&mut lines).await;
}

async fn call(session: &UpstreamSession, name: &str) -> Exchange {
    let deadline = tokio::time::Instant::now() + LIMIT;
    let render = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#
        )
    };
    let started = session
        .call(Asker::new(), deadline, || panic!("no crash"), render)
        .await;
    started.expect("an open line")
}

async fn result(mut exchange: Exchange) -> String {
    match timeout(LIMIT, exchange.next()).await.expect("in time") {
        Ok(ServerMessage::Message(frame)) => frame.result().unwrap_or_default().to_owned(),
        other => panic!("no answer: {other:?}"),
    }
}

#[tokio::test]
async fn a_line_that_no_process_owns_carries_many_exchanges() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = tokio::spawn(serve(theirs));
    let opened = timeout(LIMIT, open_memory(&opening(), ours)).await;
    let (session, running) = opened.expect("in time").expect("opened");
    assert_eq!((session.transport(), session.pid), ("memory", None));
    assert!(session.stream_state().is_none() && !session.is_stateless());
    let (first, second) = (call(&session, "a").await, call(&session, "b").await);
    assert_eq!(result(first).await, r#"{"call":1}"#);
    assert_eq!(result(second).await, r#"{"call":2}"#);
    assert!(session.ask_afresh(Method::Ping).await.is_none());

    let mut third = call(&session, "c").await;
    let third = timeout(LIMIT, third.next()).await.expect("in time");
    let interruption = third.expect_err("the line was closed");
    assert_eq!(interruption.state, CallState::Sent);
    assert!(matches!(interruption.kind, InterruptionKind::Lost));
    let loss = timeout(LIMIT, running).await.expect("in time");
    assert!(matches!(loss, Loss::Disconnected(_)), "{loss:?}");
    assert!(session.is_over() && session.take_lost().is_empty());
    server.await.expect("no panic");
}
