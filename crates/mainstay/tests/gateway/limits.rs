//! Limits for clients: sessions, stored data and request bodies. Also sessions that have ended.

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

/// A gateway with tokens and a state directory. Both survive its restarts.
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

/// The same client, connected to a restarted gateway.
fn client_again(client: &Http, gateway: &Gateway, path: &str) -> Http {
    let mut other_client = gateway.stranger(path);
    (other_client.token, other_client.session) = (client.token.clone(), client.session.clone());
    other_client
}

async fn ping(client: &Http) -> StatusCode {
    client.post(PING).await.status
}

/// If a client opens too many sessions, Mainstay ends idle sessions of the same client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_sessions_drowns_itself() {
    let house = PersistentGateway::with(json!({"maxSessions": 6, "maxSessionsPerClient": 4})).await;
    let (own_token, flood, third_token) = (
        house.token("mine"),
        house.token("flood"),
        house.token("third"),
    );
    let gateway = house.start().await;
    for path in ["/mcp", "/servers/x/mcp"] {
        let own_client = session(&gateway, path, &own_token).await;
        let first = session(&gateway, path, &flood).await;
        let stream = first.listen().await;
        let second_client = session(&gateway, path, &flood).await;
        for _ in 0..20 {
            session(&gateway, path, &flood).await;
        }
        assert_eq!(ping(&second_client).await, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(ping(&first).await, StatusCode::OK, "{path}");
        assert_eq!(ping(&own_client).await, StatusCode::OK, "{path}");
        // At the total limit, the client with the most sessions loses one session.
        let previous_sessions = gateway.sessions();
        session(&gateway, path, &third_token).await;
        session(&gateway, path, &third_token).await;
        assert!(
            gateway.sessions() <= 6 && previous_sessions >= 5,
            "{previous_sessions}"
        );
        assert_eq!(ping(&own_client).await, StatusCode::OK, "{path}");
        assert_eq!(ping(&first).await, StatusCode::OK, "{path}");
        drop(stream);
    }
}

/// Sessions that are revived after a restart also count.
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
        let client = client_again(client, &gateway, "/mcp");
        assert_eq!(ping(&client).await, StatusCode::OK);
        assert!(gateway.sessions() <= 2);
    }
}

/// The information about a client is shortened before it is stored or forwarded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_information_is_shortened() {
    let house = PersistentGateway::with(json!({})).await;
    let gateway = house.start().await;
    let long_text = "x".repeat(2 * 1024 * 1024);
    let hello = |capabilities: Value| {
        let params = json!({"protocolVersion": LATEST, "capabilities": capabilities,
            "clientInfo": {"name": "tests", "title": long_text, "version": "1"}});
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
    };
    let mut client = gateway.stranger("/servers/x/mcp");
    client.greet(&hello(json!({}))).await;
    let greeting_request = house.backend.of_method("initialize").pop();
    let info = &greeting_request.expect("one")["params"]["clientInfo"];
    assert_eq!(
        (&info["name"], &info["version"]),
        (&json!("tests"), &json!("1"))
    );
    let title = info["title"].as_str().expect("a title");
    assert!(title.len() < 1000, "{} bytes", title.len());
    for path in ["/mcp", "/servers/x/mcp"] {
        let client = gateway.stranger(path);
        let greedy_capabilities = json!({"experimental": {"x": "x".repeat(100_000)}});
        let refused_response = client.post(hello(greedy_capabilities)).await.json();
        assert_eq!(
            refused_response["error"]["code"], -32602,
            "{path}: {refused_response}"
        );
    }
}

/// A connection on which a body is posted piece by piece.
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
        // Ignore the error: the answer may arrive before the end of the body.
        self.0.write_all(bytes).await.ok();
    }

    /// The status code in the answer.
    async fn status(&mut self) -> String {
        let mut answer = [0; 32];
        let read_result = soon("an answer", self.0.read_exact(&mut answer)).await;
        read_result.expect("an answer");
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

/// All bodies together have a limit, and so do those of each client. Other clients and the operator
/// can still send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_together_are_bounded() {
    const LARGE_BODY: usize = 390_000;
    let house =
        PersistentGateway::with(json!({"maxBodyBytes": 400_000, "maxBodiesBytes": 900_000})).await;
    let (flood, own_token) = (house.token("flood"), house.token("mine"));
    let gateway = house.start().await;
    let (mut first, mut second_poster) = (
        Poster::begin(&gateway, "/mcp", &flood, LARGE_BODY).await,
        Poster::begin(&gateway, "/mcp", &flood, LARGE_BODY).await,
    );
    let partial_body = vec![b' '; LARGE_BODY - 1];
    tokio::join!(first.send(&partial_body), second_poster.send(&partial_body));
    // The body that arrives first uses up the client's share.
    let holding_poster = tokio::select! {
        status = first.status() => {
            assert_eq!(status, "503");
            second_poster
        }
        status = second_poster.status() => {
            assert_eq!(status, "503");
            first
        }
    };
    let own_client = session(&gateway, "/mcp", &own_token).await;
    let text = "x".repeat(LARGE_BODY - 10_000);
    assert_eq!(
        own_client.call_text("x__echo", json!({"text": text})).await,
        text
    );
    let servers = gateway.rest().get("/api/servers").await;
    assert!(servers.is_object() || servers.is_array(), "{servers}");
    // The flooding client can still send small bodies.
    let small_client = session(&gateway, "/mcp", &flood).await;
    small_client.assert_echo("x__echo").await;
    drop(holding_poster);
    let room = async {
        loop {
            let params = json!({"name": "x__echo", "arguments": {"text": text}}).to_string();
            let response = small_client
                .post(small_client.request_text("tools/call", &params))
                .await;
            if response.status == StatusCode::OK {
                return;
            }
            assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    soon("room", room).await;
}

/// If a client deletes its session, a restart does not revive it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_stays_deleted() {
    let house = PersistentGateway::with(json!({})).await;
    let token = house.token("mine");
    for path in ["/mcp", "/servers/x/mcp"] {
        let gateway = house.start().await;
        let deleted_session = session(&gateway, path, &token).await;
        let later_client = session(&gateway, path, &token).await;
        let third_client = session(&gateway, path, &token).await;
        assert_eq!(deleted_session.delete().await, StatusCode::NO_CONTENT);
        assert_eq!(ping(&deleted_session).await, StatusCode::NOT_FOUND);
        gateway.stop().await;

        let gateway = house.start().await;
        for client in [
            &deleted_session,
            &client_again(&deleted_session, &gateway, path),
        ] {
            let client = client_again(client, &gateway, path);
            assert_eq!(ping(&client).await, StatusCode::NOT_FOUND, "{path}");
            let headers = client.headers("text/event-stream");
            let get = client.send(Method::GET, headers, "").await.status;
            assert_eq!(get, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(client.delete().await, StatusCode::NOT_FOUND, "{path}");
        }
        // Delete a session that this run has revived, and then a session of an earlier run.
        let revived_client = client_again(&later_client, &gateway, path);
        assert_eq!(ping(&revived_client).await, StatusCode::OK, "{path}");
        assert_eq!(revived_client.delete().await, StatusCode::NO_CONTENT);
        assert_eq!(ping(&revived_client).await, StatusCode::NOT_FOUND);
        gateway.stop().await;

        let gateway = house.start().await;
        for client in [&deleted_session, &later_client] {
            let client = client_again(client, &gateway, path);
            assert_eq!(ping(&client).await, StatusCode::NOT_FOUND, "{path}");
        }
        let third_client = client_again(&third_client, &gateway, path);
        assert_eq!(
            third_client.delete().await,
            StatusCode::NO_CONTENT,
            "{path}"
        );
        gateway.stop().await;

        let gateway = house.start().await;
        let third_client = client_again(&third_client, &gateway, path);
        assert_eq!(ping(&third_client).await, StatusCode::NOT_FOUND, "{path}");
        gateway.stop().await;
    }
}

/// A session is ended to make room, and then deleted by its client. It is not revived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_made_room_stays_deleted() {
    let house = PersistentGateway::with(json!({"maxSessionsPerClient": 1})).await;
    let (token, other_token) = (house.token("mine"), house.token("other"));
    let gateway = house.start().await;
    let evicted_client = session(&gateway, "/mcp", &token).await;
    let idle_client = session(&gateway, "/mcp", &token).await;
    let newest_client = session(&gateway, "/mcp", &token).await;
    assert_eq!(ping(&evicted_client).await, StatusCode::NOT_FOUND);
    // For another client, the session does not exist.
    let mut thief_client = client_again(&idle_client, &gateway, "/mcp");
    thief_client.token = Some(other_token);
    assert_eq!(thief_client.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(evicted_client.delete().await, StatusCode::NO_CONTENT);
    assert_eq!(evicted_client.delete().await, StatusCode::NOT_FOUND);
    gateway.stop().await;

    let gateway = house.start().await;
    for (client, expected) in [
        (&evicted_client, StatusCode::NOT_FOUND),
        (&idle_client, StatusCode::OK),
        (&newest_client, StatusCode::OK),
        (&evicted_client, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(
            ping(&client_again(client, &gateway, "/mcp")).await,
            expected
        );
    }
}
