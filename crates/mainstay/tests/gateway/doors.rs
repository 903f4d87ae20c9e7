//! Requests over HTTP: sessions, methods, headers, sizes (specification, "Transports").

use std::{collections::BTreeSet, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, initialize},
    gateway::{Gateway, soon, until},
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const ACCEPT: &str = "application/json, text/event-stream";

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::http().await;
    (Gateway::with_servers(&[("x", &backend)]).await, backend)
}

const PATHS: [&str; 2] = ["/mcp", "/servers/x/mcp"];

/// The status of a POSTed ping after `change` has changed its headers.
async fn status(client: &Http, change: impl FnOnce(&mut HeaderMap)) -> StatusCode {
    let mut headers = client.headers(ACCEPT);
    change(&mut headers);
    client.send(Method::POST, headers, PING).await.status
}

fn set(name: &'static str, value: &'static str) -> impl FnOnce(&mut HeaderMap) {
    move |headers| drop(headers.insert(name, HeaderValue::from_static(value)))
}

#[tokio::test]
async fn a_session_lives_from_initialize_to_delete() {
    let (gateway, _backend) = gateway().await;
    for path in PATHS {
        let (first_client, second_client) =
            (gateway.client_at(path).await, gateway.client_at(path).await);
        assert_ne!(first_client.session, second_client.session);
        let id = first_client.session.clone().expect("a session id");
        assert!(
            id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()),
            "{id}"
        );

        assert_eq!(first_client.post(PING).await.status, StatusCode::OK);
        assert!(first_client.delete().await.is_success());
        for _ in 0..2 {
            assert_eq!(first_client.post(PING).await.status, StatusCode::NOT_FOUND);
            assert_eq!(first_client.delete().await, StatusCode::NOT_FOUND);
        }
        let get = first_client
            .send(Method::GET, first_client.headers(ACCEPT), "")
            .await;
        assert_eq!(get.status, StatusCode::NOT_FOUND);
        assert_eq!(second_client.post(PING).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_request_names_a_session_of_its_endpoint() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &second_backend)]).await;
    let all_paths = ["/mcp", "/servers/x/mcp", "/servers/y/mcp"];
    for path in all_paths {
        let client = gateway.client_at(path).await;
        for other_path in all_paths {
            let mut other_client = gateway.stranger(other_path);
            assert_eq!(
                other_client.post(PING).await.status,
                StatusCode::BAD_REQUEST,
                "{other_path}"
            );
            other_client.session = Some("0123456789abcdef".to_owned());
            assert_eq!(
                other_client.post(PING).await.status,
                StatusCode::NOT_FOUND,
                "{other_path}"
            );
            other_client.session.clone_from(&client.session);
            let expected = if path == other_path {
                StatusCode::OK
            } else {
                StatusCode::NOT_FOUND
            };
            assert_eq!(
                other_client.post(PING).await.status,
                expected,
                "{path} at {other_path}"
            );
            let get = other_client
                .send(Method::GET, other_client.headers(ACCEPT), "")
                .await;
            assert_eq!(get.status, expected, "{path} at {other_path}");
        }
    }
}

/// A GET stream opens at once. It ends together with its session.
#[tokio::test]
async fn the_stream_of_a_session_ends_with_it() {
    let (gateway, _backend) = gateway().await;
    for path in PATHS {
        let client = gateway.client_at(path).await;
        let (mut first_stream, mut second_stream) = (client.listen().await, client.listen().await);
        assert_eq!(
            first_stream.headers[header::CONTENT_TYPE],
            "text/event-stream"
        );
        assert!(client.delete().await.is_success());
        assert_eq!(first_stream.next().await, None);
        assert_eq!(second_stream.next().await, None);
    }
}

#[tokio::test]
async fn headers_are_checked() {
    let (gateway, _backend) = gateway().await;
    for path in PATHS {
        let client = gateway.client_at(path).await;
        for (name, value, expected) in [
            ("accept", "text/html", StatusCode::NOT_ACCEPTABLE),
            ("accept", "application/json", StatusCode::OK),
            ("accept", "text/event-stream", StatusCode::OK),
            ("accept", "*/*", StatusCode::OK),
            (
                "accept",
                "text/html;q=0.9, application/json;q=0.1",
                StatusCode::OK,
            ),
            (
                "content-type",
                "text/plain",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ),
            (
                "content-type",
                "application/json; charset=utf-8",
                StatusCode::OK,
            ),
            (
                "mcp-protocol-version",
                "1999-12-31",
                StatusCode::BAD_REQUEST,
            ),
            ("mcp-protocol-version", "", StatusCode::BAD_REQUEST),
            ("mcp-protocol-version", "2025-06-18", StatusCode::OK),
            ("host", "evil.example", StatusCode::FORBIDDEN),
            ("host", "localhost:1", StatusCode::OK),
            ("origin", "https://evil.example", StatusCode::FORBIDDEN),
            ("origin", "null", StatusCode::FORBIDDEN),
            ("origin", "http://localhost:6274", StatusCode::OK),
        ] {
            assert_eq!(
                status(&client, set(name, value)).await,
                expected,
                "{name}: {value}"
            );
        }
        for name in ["mcp-protocol-version", "accept"] {
            let status_without = status(&client, |headers| drop(headers.remove(name))).await;
            assert_eq!(status_without, StatusCode::OK, "without {name}");
        }
        let get = client
            .send(Method::GET, client.headers("application/json"), "")
            .await;
        assert_eq!(get.status, StatusCode::NOT_ACCEPTABLE);
    }
}

/// `Host` and `Origin` are checked on every path (Q7).
#[tokio::test]
async fn strangers_are_kept_out_of_every_path() {
    let (gateway, _backend) = gateway().await;
    for path in [
        "/",
        "/mcp",
        "/servers/none/mcp",
        "/servers/x/mcp",
        "/sse",
        "/sse/message",
        "/servers/x/sse",
        "/servers/x/sse/message",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api",
        "/api/servers",
        "/api/mcp-tools/call",
        "/api/events",
        "/api/tokens",
        "/api/token/rotate",
    ] {
        let client = gateway.stranger(path);
        for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
            let mut headers = client.headers(ACCEPT);
            set(name, value)(&mut headers);
            let answer = client.send(Method::POST, headers, PING).await.whole().await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name} at {path}");
            let body = answer.json();
            if path.ends_with("/mcp") || path.contains("/sse") {
                assert_eq!(body["error"]["code"], -32600, "{path}: {body}");
            } else {
                is_plain(&body, "forbidden");
            }
        }
    }
}

/// The status of a request with this request line and these headers.
async fn status_of(gateway: &Gateway, line: &str, headers: &[&str]) -> String {
    let mut stream = TcpStream::connect(gateway.address).await.expect("accepted");
    let headers = headers.join("\r\n");
    let end = if headers.is_empty() { "" } else { "\r\n" };
    let request = format!("{line}\r\n{headers}{end}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer))
        .await
        .expect("closed, not reset");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// `Host` and `Origin` are parsed. It is not enough that they contain an allowed name. Only one
/// `Host` header is allowed.
#[tokio::test]
async fn host_and_origin_are_parsed() {
    let (gateway, _backend) = gateway().await;
    for path in [
        "/mcp",
        "/mcp/default",
        "/servers/x/mcp",
        "/sse",
        "/healthz",
        "/metrics",
        "/api/servers",
        "/nowhere",
    ] {
        let get = format!("GET {path} HTTP/1.1");
        let absolute_request = |authority: &str| format!("GET http://{authority}{path} HTTP/1.1");
        let cases: &[(String, &[&str], &str)] = &[
            (get.clone(), &["host: localhost:80@evil.com"], "400"),
            (get.clone(), &["host: [::1].evil.com"], "400"),
            (get.clone(), &["host: [::1]evil.com:80"], "400"),
            (get.clone(), &["host: localhost:65536"], "400"),
            (get.clone(), &["host: localhost:+80"], "400"),
            (get.clone(), &["host: localhost:80:80"], "400"),
            (get.clone(), &["host: "], "400"),
            (get.clone(), &["host: localhost", "host: localhost"], "400"),
            (get.clone(), &["host: localhost", "host: evil.com"], "400"),
            (get.clone(), &[], "400"),
            (get.clone(), &["host: localhost.evil.com"], "403"),
            (absolute_request("evil.com"), &["host: localhost"], "403"),
            (absolute_request("localhost"), &["host: evil.com"], "403"),
            (
                absolute_request("localhost@evil.com"),
                &["host: localhost"],
                "400",
            ),
            (
                get.clone(),
                &["host: localhost", "origin: http://localhost:80.evil.com"],
                "403",
            ),
            (
                get.clone(),
                &["host: localhost", "origin: http://[::1].evil.com"],
                "403",
            ),
            (
                get.clone(),
                &["host: localhost", "origin: http://localhost:80@evil.com"],
                "403",
            ),
            (get.clone(), &["host: localhost", "origin: null"], "403"),
            (
                get.clone(),
                &[
                    "host: localhost",
                    "origin: http://localhost",
                    "origin: http://evil.com",
                ],
                "403",
            ),
        ];
        for (line, headers, expected) in cases {
            let status = status_of(&gateway, line, headers).await;
            assert_eq!(status, *expected, "{line} {headers:?}");
        }
    }
    for (line, headers) in [
        ("GET /healthz HTTP/1.1", &["host: LOCALHOST.:7420"][..]),
        (
            "GET http://[::1]:7420/healthz HTTP/1.1",
            &["host: [::1]:7420"],
        ),
        (
            "GET /healthz HTTP/1.1",
            &["host: 127.0.0.1", "origin: http://LocalHost:3000"],
        ),
    ] {
        assert_eq!(
            status_of(&gateway, line, headers).await,
            "200",
            "{line} {headers:?}"
        );
    }
}

/// Asserts that the body has only the members `error` and `message` (M13).
fn is_plain(body: &Value, error: &str) {
    let members = body.as_object().expect("an object");
    assert_eq!(members.len(), 2, "{body}");
    assert_eq!(body["error"], error, "{body}");
    assert!(body["message"].is_string(), "{body}");
}

#[tokio::test]
async fn the_answer_takes_the_form_that_the_client_accepts() {
    let (gateway, _backend) = gateway().await;
    let client = gateway.client().await;
    for (accept, is_streamed) in [
        ("application/json", false),
        ("text/event-stream", true),
        (ACCEPT, false),
    ] {
        let text = client.request_text(
            "tools/call",
            r#"{"name":"x__echo","arguments":{"text":"a"}}"#,
        );
        let response = client
            .send(Method::POST, client.headers(accept), text)
            .await
            .whole()
            .await;
        assert_eq!(response.is_stream(), is_streamed, "{accept}");
        assert_eq!(response.json()["result"]["content"][0]["text"], "a");
    }
}

/// The transparent endpoint answers in the same form as its server.
#[tokio::test]
async fn a_transparent_answer_has_the_servers_form() {
    for (form, is_streamed) in [("json", false), ("sse", true)] {
        let backend = Backend::start(BackendKind::Http, &["--answer", form]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client_at("/servers/x/mcp").await;
        let response = client.post(client.request_text("tools/list", "{}")).await;
        assert_eq!(response.is_stream(), is_streamed, "{form}");
    }
}

#[tokio::test]
async fn other_methods_and_unknown_servers_are_refused() {
    let (gateway, _backend) = gateway().await;
    for path in PATHS {
        let client = gateway.client_at(path).await;
        for method in [Method::PUT, Method::PATCH] {
            let answer = client.send(method, client.headers(ACCEPT), PING).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
            let allowed_methods = answer.headers[header::ALLOW].to_str().expect("ASCII");
            assert!(
                ["GET", "POST", "DELETE"]
                    .iter()
                    .all(|name| allowed_methods.contains(name)),
                "{allowed_methods}"
            );
        }
    }
    let nobody_client = gateway
        .stranger("/servers/none/mcp")
        .post(initialize(LATEST))
        .await;
    assert_eq!(nobody_client.status, StatusCode::NOT_FOUND);
    assert!(
        nobody_client.text.contains("none"),
        "{}",
        nobody_client.text
    );
}

#[tokio::test]
async fn notifications_and_answers_are_accepted_without_a_body() {
    let (gateway, _backend) = gateway().await;
    for path in PATHS {
        let client = gateway.client_at(path).await;
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":17,"error":{"code":1,"message":"no"}}"#,
        ] {
            let response = client.post(text).await;
            assert_eq!(response.status, StatusCode::ACCEPTED, "{text}");
            assert_eq!(response.text, "");
        }
        assert_eq!(client.post(PING).await.status, StatusCode::OK);
    }
}

/// A body larger than `http.maxBodyBytes` gets 413. The next request succeeds.
#[tokio::test]
async fn the_size_of_a_body_is_limited() {
    let backend = Backend::http().await;
    let gateway =
        Gateway::with_settings(&[("x", &backend)], json!({"http": {"maxBodyBytes": 4096}})).await;
    let client = gateway.client().await;
    for (size, expected) in [
        (1000, StatusCode::OK),
        (5000, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let arguments = json!({"name": "x__echo", "arguments": {"text": "x".repeat(size)}});
        let text = client.request_text("tools/call", &arguments.to_string());
        assert_eq!(client.post(text).await.status, expected);
    }
    client.assert_echo("x__echo").await;
    assert_eq!(backend.fake().runs("echo"), 2);
}

/// A stop ends sessions, doors and servers within the grace period of calls (T1).
#[tokio::test]
async fn stopping_ends_everything_even_with_a_call_in_flight() {
    let (http, stdio) = (Backend::http().await, Backend::stdio().await);
    let settings = json!({"shutdown": {"graceMs": 100}});
    let gateway = Gateway::with_settings(&[("x", &http), ("y", &stdio)], settings).await;
    let client = gateway.client().await;
    let mut stream = client.listen().await;
    let hang_body = |tool| client.request_text("tools/call", &json!({"name": tool}).to_string());
    let (first_response, second_response, ()) = tokio::join!(
        client.post(hang_body("x__hang")),
        client.post(hang_body("y__hang")),
        async {
            http.until_called("hang").await;
            stdio.until_called("hang").await;
            gateway.stop().await;
        }
    );
    let unknown_text = "may or may not have run";
    assert!(
        first_response.text.contains(unknown_text) && second_response.text.contains(unknown_text)
    );
    assert_eq!(stream.next().await, None);
    until("the upstream sessions to end", || {
        http.fake().sessions() == 0
    })
    .await;
}

/// A session on stdio does not expire. It lasts as long as its pipe.
#[tokio::test(start_paused = true)]
async fn a_silent_pipe_keeps_its_session() {
    let gateway = Gateway::start(&json!({"mcpServers": {}})).await;
    let pipe = gateway.pipe().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(gateway.sessions(), 1);
    assert_eq!(pipe.close().await, Vec::<serde_json::Value>::new());
    assert_eq!(gateway.sessions(), 0);
}

/// Connections that send nothing are closed (invariant 10).
#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_are_closed() {
    let gateway = Gateway::start(&json!({"mcpServers": {}})).await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (sent_text, expected) in [
        ("", ""),
        ("GET /healthz HTT", ""),
        (request, "HTTP/1.1 200 OK"),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.expect("accepted");
        stream
            .write_all(sent_text.as_bytes())
            .await
            .expect("written");
        let mut response_text = String::new();
        stream
            .read_to_string(&mut response_text)
            .await
            .expect("closed, not reset");
        assert!(response_text.starts_with(expected), "{response_text}");
        assert_eq!(response_text.is_empty(), expected.is_empty());
    }
    gateway.stop().await;
}

/// The table of addresses in the README has all routes.
#[tokio::test]
async fn the_readme_has_every_address() {
    let backend = Backend::http().await;
    let settings = json!({"profiles": {"some": {"servers": ["x"]}}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let readme = include_str!("../../../../README.md");
    let (_, table) = readme.split_once("## Addresses\n").expect("a table");
    let (table, _) = table.split_once("\n## ").expect("its end");
    let cells = table.lines().filter_map(|line| line.split('|').nth(1));
    let named: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    for path in &named {
        let request_path = path.replace("NAME", "x").replace("PROFILE", "some");
        let request_path = request_path.replace('…', "servers");
        let door = gateway.stranger(&request_path);
        let answer = door.send(Method::GET, door.headers("*/*"), "").await;
        assert_ne!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    // The first parts of the paths in the two routers.
    let rest = include_str!("../../../rest/src/lib.rs")
        .split(".route(\"")
        .skip(1);
    let rest = rest.filter_map(|rest| rest.split('"').next());
    let source = include_str!("../../../doors/src/http.rs");
    let arms = source.lines().filter(|line| line.contains("=> Endpoint::"));
    let mcp: Vec<_> = arms.filter_map(|arm| arm.split('"').nth(1)).collect();
    assert_eq!(mcp, ["mcp", "sse", "sse/message"]);
    let server_paths = ["/mcp", "/sse"].map(|path| format!("/servers/NAME{path}"));
    let top_paths = ["/mcp", "/mcp/PROFILE", "/sse"].map(str::to_owned);
    let expected = rest
        .map(|path| {
            if path.starts_with("/api") {
                "/api/…"
            } else {
                path
            }
        })
        .map(str::to_owned)
        .chain(top_paths)
        .chain(server_paths);
    let expected: BTreeSet<String> = expected.collect();
    let named: BTreeSet<String> = named.into_iter().map(str::to_owned).collect();
    assert_eq!(named, expected);
}
