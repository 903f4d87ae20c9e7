//! Limits for unknown clients: sessions, the stored data of each session, and the bodies of requests. Also
//! sessions that have ended.

use http::{Method, StatusCode};
use mainstay::daemon::DaemonOptions;
use mainstay_core::config::Secret;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    backend::Backend,
    client::{Http, LATEST},
    gateway::{Gateway, config, soon},
    rest_client::TOKEN,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// A gateway with tokens, and with a state directory that survives it.
struct PersistentGateway {
    all: Value,
    state: TempDir,
    tokens: Tokens,
    backend: Backend,
}

impl PersistentGateway {
    async fn with(http: Value) -> Self {
        let backend = Backend::http().await;
        Self {
            all: config(&[("x", &backend)], json!({"http": http})),
            state: tempfile::tempdir().expect("a temporary folder"),
            tokens: Tokens::from(Secret::new(TOKEN)),
            backend,
        }
    }

    fn token(&self, name: &str) -> String {
        let (token, _) = self.tokens.add(name, None).expect("added");
        token.expose().to_owned()
    }

    async fn start(&self) -> Gateway {
        let options = DaemonOptions {
            gateway: GatewayOptions {
                state: Some(self.state.path().to_owned()),
                ..GatewayOptions::default()
            },
            session_key: Some(Secret::new("the key of this house")),
            ..DaemonOptions::default()
        };
        Gateway::guarded(&self.all, options, self.tokens.clone(), |address| address).await
    }
}

async fn session(gateway: &Gateway, path: &str, token: &str) -> Http {
    let mut client = gateway.stranger(path);
    client.token = Some(token.to_owned());
    client.initialize(LATEST).await;
    client
}

/// The same client at the gateway of another run.
fn again(client: &Http, gateway: &Gateway, path: &str) -> Http {
    let mut other = gateway.stranger(path);
    (other.token, other.session) = (client.token.clone(), client.session.clone());
    other
}

async fn ping(client: &Http) -> StatusCode {
    client.post(PING).await.status
}

/// A client that opens many sessions loses its own: first the one that is idle longest, and none in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_sessions_drowns_itself() {
    let house = PersistentGateway::with(json!({"maxSessions": 6, "maxSessionsPerClient": 4})).await;
    let (mine, flood, third) = (
        house.token("mine"),
        house.token("flood"),
        house.token("third"),
    );
    let gateway = house.start().await;
    for path in ["/mcp", "/servers/x/mcp"] {
        let me = session(&gateway, path, &mine).await;
        let first = session(&gateway, path, &flood).await;
        let stream = first.listen().await;
        let second = session(&gateway, path, &flood).await;
        for _ in 0..20 {
            session(&gateway, path, &flood).await;
        }
        assert_eq!(ping(&second).await, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(ping(&first).await, StatusCode::OK, "{path}");
        assert_eq!(ping(&me).await, StatusCode::OK, "{path}");
        // No session is free: the client with the most sessions loses one.
        let before = gateway.sessions();
        session(&gateway, path, &third).await;
        session(&gateway, path, &third).await;
        assert!(gateway.sessions() <= 6 && before >= 5, "{before}");
        assert_eq!(ping(&me).await, StatusCode::OK, "{path}");
        assert_eq!(ping(&first).await, StatusCode::OK, "{path}");
        drop(stream);
    }
}

/// Revived sessions of an earlier run count like new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_revived_count() {
    let mut house = PersistentGateway::with(json!({})).await;
    let token = house.token("mine");
    let gateway = house.start().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(session(&gateway, "/mcp", &token).await);
    }
    gateway.stop().await;
    house.all["http"] = json!({"maxSessionsPerClient": 2});
    let gateway = house.start().await;
    for client in &clients {
        let client = again(client, &gateway, "/mcp");
        assert_eq!(ping(&client).await, StatusCode::OK);
        assert!(gateway.sessions() <= 2);
    }
}

/// A client's information about itself is shortened before it is stored or sent on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_a_client_says_of_itself_little_is_kept() {
    let house = PersistentGateway::with(json!({})).await;
    let gateway = house.start().await;
    let long = "x".repeat(2 * 1024 * 1024);
    let hello = |capabilities: Value| {
        let params = json!({"protocolVersion": LATEST, "capabilities": capabilities,
            "clientInfo": {"name": "tests", "title": long, "version": "1"}});
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
    };
    let mut client = gateway.stranger("/servers/x/mcp");
    client.greet(&hello(json!({}))).await;
    let sent = house.backend.of_method("initialize").pop();
    let info = &sent.expect("one")["params"]["clientInfo"];
    assert_eq!(
        (&info["name"], &info["version"]),
        (&json!("tests"), &json!("1"))
    );
    let title = info["title"].as_str().expect("a title");
    assert!(title.len() < 1000, "{} bytes", title.len());
    for path in ["/mcp", "/servers/x/mcp"] {
        let client = gateway.stranger(path);
        let greedy = json!({"experimental": {"x": "x".repeat(100_000)}});
        let refused = client.post(hello(greedy)).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{path}: {refused}");
    }
}

/// A connection that posts a body piece by piece.
struct Poster(TcpStream);

impl Poster {
    async fn begin(gateway: &Gateway, path: &str, token: &str, length: usize) -> Self {
        let mut stream = TcpStream::connect(gateway.address).await.expect("accepted");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             authorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("written");
        Self(stream)
    }

    async fn send(&mut self, bytes: &[u8]) {
        // The answer may have arrived before.
        self.0.write_all(bytes).await.ok();
    }

    /// The status of the answer.
    async fn status(&mut self) -> String {
        let mut answer = [0; 32];
        let read = soon("an answer", self.0.read_exact(&mut answer)).await;
        read.expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        answer.split(' ').nth(1).expect("a status").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let house = PersistentGateway::with(json!({"bodyTimeoutMs": 1000})).await;
    let gateway = house.start().await;
    for path in ["/mcp", "/servers/x/mcp"] {
        let mut poster = Poster::begin(&gateway, path, TOKEN, 1000).await;
        poster.send(b"{").await;
        assert_eq!(poster.status().await, "408", "{path}");
    }
    let mut poster = Poster::begin(&gateway, "/api/reload", TOKEN, 1000).await;
    poster.send(b"{").await;
    assert_eq!(poster.status().await, "400");
}

/// All bodies together have a limit, and one client has only a part of it. Other clients and the operator
/// continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_together_are_bounded() {
    const LARGE: usize = 390_000;
    let house =
        PersistentGateway::with(json!({"maxBodyBytes": 400_000, "maxBodiesBytes": 900_000})).await;
    let (flood, mine) = (house.token("flood"), house.token("mine"));
    let gateway = house.start().await;
    let (mut first, mut second) = (
        Poster::begin(&gateway, "/mcp", &flood, LARGE).await,
        Poster::begin(&gateway, "/mcp", &flood, LARGE).await,
    );
    let most = vec![b' '; LARGE - 1];
    tokio::join!(first.send(&most), second.send(&most));
    // The first body uses up the flooding client's part.
    let holding = tokio::select! {
        status = first.status() => {
            assert_eq!(status, "503");
            second
        }
        status = second.status() => {
            assert_eq!(status, "503");
            first
        }
    };
    let me = session(&gateway, "/mcp", &mine).await;
    let text = "x".repeat(LARGE - 10_000);
    assert_eq!(me.call_text("x__echo", json!({"text": text})).await, text);
    let servers = gateway.rest().get("/api/servers").await;
    assert!(servers.is_object() || servers.is_array(), "{servers}");
    // With small bodies the flooding client continues, too.
    let small = session(&gateway, "/mcp", &flood).await;
    small.assert_echo("x__echo").await;
    drop(holding);
    let room = async {
        loop {
            let params = json!({"name": "x__echo", "arguments": {"text": text}}).to_string();
            let response = small.post(small.request_text("tools/call", &params)).await;
            if response.status == StatusCode::OK {
                return;
            }
            assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    soon("room", room).await;
}

/// A session that its client has ended is not revived, in any later run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_stays_deleted() {
    let house = PersistentGateway::with(json!({})).await;
    let token = house.token("mine");
    for path in ["/mcp", "/servers/x/mcp"] {
        let gateway = house.start().await;
        let deleted = session(&gateway, path, &token).await;
        let later = session(&gateway, path, &token).await;
        let third = session(&gateway, path, &token).await;
        assert_eq!(deleted.delete().await, StatusCode::NO_CONTENT);
        assert_eq!(ping(&deleted).await, StatusCode::NOT_FOUND);
        gateway.stop().await;

        let gateway = house.start().await;
        for client in [&deleted, &again(&deleted, &gateway, path)] {
            let client = again(client, &gateway, path);
            assert_eq!(ping(&client).await, StatusCode::NOT_FOUND, "{path}");
            let headers = client.headers("text/event-stream");
            let get = client.send(Method::GET, headers, "").await.status;
            assert_eq!(get, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(client.delete().await, StatusCode::NOT_FOUND, "{path}");
        }
        // One session that this run has revived, and one that it has not seen.
        let revived = again(&later, &gateway, path);
        assert_eq!(ping(&revived).await, StatusCode::OK, "{path}");
        assert_eq!(revived.delete().await, StatusCode::NO_CONTENT);
        assert_eq!(ping(&revived).await, StatusCode::NOT_FOUND);
        gateway.stop().await;

        let gateway = house.start().await;
        for client in [&deleted, &later] {
            let client = again(client, &gateway, path);
            assert_eq!(ping(&client).await, StatusCode::NOT_FOUND, "{path}");
        }
        let third = again(&third, &gateway, path);
        assert_eq!(third.delete().await, StatusCode::NO_CONTENT, "{path}");
        gateway.stop().await;

        let gateway = house.start().await;
        let third = again(&third, &gateway, path);
        assert_eq!(ping(&third).await, StatusCode::NOT_FOUND, "{path}");
        gateway.stop().await;
    }
}

/// The session had made room for another one before its client ended it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_made_room_stays_deleted() {
    let house = PersistentGateway::with(json!({"maxSessionsPerClient": 1})).await;
    let (token, other) = (house.token("mine"), house.token("other"));
    let gateway = house.start().await;
    let evicted = session(&gateway, "/mcp", &token).await;
    let idle = session(&gateway, "/mcp", &token).await;
    let newest = session(&gateway, "/mcp", &token).await;
    assert_eq!(ping(&evicted).await, StatusCode::NOT_FOUND);
    // Another client cannot end it: to that client the session is unknown.
    let mut thief = again(&idle, &gateway, "/mcp");
    thief.token = Some(other);
    assert_eq!(thief.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(evicted.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(evicted.delete().await, StatusCode::NOT_FOUND);
    gateway.stop().await;

    let gateway = house.start().await;
    for (client, expected) in [
        (&evicted, StatusCode::NOT_FOUND),
        (&idle, StatusCode::OK),
        (&newest, StatusCode::OK),
        (&evicted, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(ping(&again(client, &gateway, "/mcp")).await, expected);
    }
}
