//! Clients send invalid messages. Each test checks the answer to the client, and that other clients
//! still work.

use ::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{Http, initialize, value},
    gateway::Gateway,
    rogue::{RogueRequest, http, start_resumable},
};

/// Invalid messages, each with the expected code and id of the error.
const INVALID_MESSAGES: [(&str, i64, &str); 19] = [
    ("{", -32700, "null"),
    ("hello", -32700, "null"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, -32700, "null"),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#,
        -32700,
        "null",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":01}}"#,
        -32700,
        "null",
    ),
    ("7", -32600, "null"),
    ("\"text\"", -32600, "null"),
    ("null", -32600, "null"),
    ("{}", -32600, "null"),
    (r#"{"id":1,"method":"ping"}"#, -32600, "1"),
    (
        r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
        -32600,
        "\"a\"",
    ),
    (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600, "1"),
    (
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        -32600,
        "null",
    ),
    (
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        -32600,
        "null",
    ),
    (
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        -32600,
        "null",
    ),
    (
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        -32600,
        "null",
    ),
    (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, "null"),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
        -32600,
        "1",
    ),
    // A duplicate member is refused, because two JSON parsers could read it differently.
    (
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        -32600,
        "null",
    ),
];

/// A gateway whose clients send invalid messages to server `x`. The server `calm` must receive none
/// of them.
async fn gateway() -> (Gateway, [Backend; 2]) {
    let backends = [Backend::stdio().await, Backend::http().await];
    let gateway = Gateway::with_servers(&[("x", &backends[0]), ("calm", &backends[1])]).await;
    (gateway, backends)
}

#[tokio::test]
async fn messages_that_are_none_are_answered_with_an_error() {
    let (gateway, _backends) = gateway().await;
    for path in ["/mcp", "/servers/x/mcp"] {
        let client = gateway.client_at(path).await;
        for (text, code, id) in INVALID_MESSAGES {
            let response = client.post(text).await;
            assert_eq!(response.status, StatusCode::BAD_REQUEST, "{text}");
            let answer = response.json();
            assert_eq!(
                (&answer["error"]["code"], answer["id"].to_string().as_str()),
                (&json!(code), id),
                "{text}"
            );
        }
        client
            .assert_echo(if path == "/mcp" { "x__echo" } else { "echo" })
            .await;
    }
    let mut pipe = gateway.pipe().await;
    for (text, code, id) in INVALID_MESSAGES {
        pipe.send(text).await;
        let answer = pipe.message().await;
        assert_eq!(
            (&answer["error"]["code"], answer["id"].to_string().as_str()),
            (&json!(code), id),
            "{text}"
        );
    }
    pipe.assert_echo("x__echo").await;
    gateway.client().await.assert_echo("calm__echo").await;
}

#[tokio::test]
async fn bytes_that_are_no_utf8_are_a_parse_error() {
    let (gateway, _backends) = gateway().await;
    let text = [
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""#.as_slice(),
        b"\xff\xfe\x80",
        br#""}}"#,
    ]
    .concat();
    let client = gateway.client().await;
    let response = client.post(text.clone()).await;
    assert_eq!(response.status, StatusCode::BAD_REQUEST);
    assert_eq!(response.json()["error"]["code"], -32700);
    let mut pipe = gateway.pipe().await;
    pipe.send(text).await;
    assert_eq!(pipe.message().await["error"]["code"], -32700);
    pipe.assert_echo("x__echo").await;
    client.assert_echo("calm__echo").await;
}

/// Blank lines and carriage returns are ignored.
#[tokio::test]
async fn blank_lines_on_stdio_are_nothing() {
    let (gateway, _backends) = gateway().await;
    let mut pipe = gateway.pipe().await;
    for blank_line in ["", "  ", "\r", "\t"] {
        pipe.send(blank_line).await;
    }
    pipe.send("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r")
        .await;
    assert_eq!(
        pipe.message().await,
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
}

/// `http.maxBodyBytes` also limits a line on stdio. The line after it is still read.
#[tokio::test]
async fn a_line_that_is_too_long_is_refused() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_settings(
        &[("x", &backend)],
        json!({"http": {"maxBodyBytes": 100_000}}),
    )
    .await;
    let mut pipe = gateway.pipe().await;
    let text = "x".repeat(1_000_000);
    pipe.send(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{text}"}}}}"#
    ))
    .await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.assert_echo("x__echo").await;
}

/// A second request with the id of a request in flight is refused. After the call, the id can be
/// used again.
#[tokio::test]
async fn an_id_in_flight_is_refused_a_second_time() {
    let (gateway, backends) = gateway().await;
    let text = |tool: &str| {
        json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": {"name": tool}})
            .to_string()
    };
    let (client, other_client) = (gateway.client().await, gateway.client().await);
    let (first, ()) = tokio::join!(client.post(text("x__out_of_order")), async {
        backends[0].until_called("out_of_order").await;
        let second_response = client.post(text("x__pid")).await.json();
        assert_eq!(
            (&second_response["error"]["code"], &second_response["id"]),
            (&json!(-32600), &json!("same"))
        );
        // Another session may use the same ids at the same time.
        assert!(other_client.post(text("calm__echo")).await.json()["result"].is_object());
        other_client.call_text("x__out_of_order", json!({})).await;
    });
    assert_eq!(first.json()["result"]["content"][0]["text"], "called first");
    assert!(client.post(text("x__pid")).await.json()["result"].is_object());

    let mut pipe = gateway.pipe().await;
    pipe.send(text("x__hang")).await;
    pipe.send(text("x__pid")).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.assert_echo("x__echo").await;
}

/// Parameters that do not match the MCP schema are refused.
#[tokio::test]
async fn parameters_of_the_wrong_shape_are_refused() {
    let (gateway, backends) = gateway().await;
    let client = gateway.client().await;
    for (method, params) in [
        ("tools/call", r#"{"name":7}"#),
        ("tools/call", r#"{"name":"x__echo","name":"calm__echo"}"#),
        (
            "tools/call",
            r#"{"name":"x__echo","_meta":{"progressToken":{}}}"#,
        ),
        (
            "tools/call",
            r#"{"name":"x__echo","_meta":{"progressToken":1,"progressToken":2}}"#,
        ),
        ("resources/read", r#"{"uri":["fake://text"]}"#),
        ("resources/read", "{}"),
        ("completion/complete", r#"{"ref":{"type":"ref/other"}}"#),
        ("completion/complete", "{}"),
        ("logging/setLevel", "{}"),
    ] {
        let answer = value(&client.ask(method, params).await);
        assert_eq!(
            answer["error"]["code"], -32602,
            "{method} {params}: {answer}"
        );
    }
    client.assert_echo("x__echo").await;
    assert_eq!(backends[0].calls_of("echo").len(), 1);
}

/// At `/mcp` an unknown method is refused, because it belongs to no server.
#[tokio::test]
async fn an_unknown_method_is_not_found() {
    let (gateway, backends) = gateway().await;
    let client = gateway.client().await;
    for method in [
        "vendor/method",
        "tools/unheard",
        "notifications/progress",
        "",
        "sampling/createMessage",
    ] {
        let error = client.error(method, json!({})).await;
        assert_eq!(error["code"], -32601, "{method}");
        assert!(error["message"].as_str().expect("words").contains(method));
    }
    client.assert_echo("x__echo").await;
    for backend in &backends {
        assert_eq!(backend.count("vendor/method"), 0);
    }
}

async fn client_at_revision(gateway: &Gateway, revision: &str) -> Http {
    let mut client = gateway.stranger("/mcp");
    client.initialize(revision).await;
    client
}

const BATCH: &str = r#"[
    {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x__echo","arguments":{"text":"a"}}},
    {"jsonrpc":"2.0","method":"notifications/initialized"},
    {"jsonrpc":"2.0","id":"two","method":"ping"},
    {"jsonrpc":"2.0","id":{}},
    17,
    {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"calm__echo","arguments":{"text":"b"}}}
]"#;

/// Checks the answers to [`BATCH`]. They may be in any order.
fn check_batch(answers: &Value) {
    let answers = answers.as_array().expect("a batch is answered by a batch");
    assert_eq!(answers.len(), 5, "{answers:?}");
    let answer_to = |id: Value| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .expect("an answer")
    };
    assert_eq!(answer_to(json!(1))["result"]["content"][0]["text"], "a");
    assert_eq!(answer_to(json!("two"))["result"], json!({}));
    assert_eq!(answer_to(json!(3))["result"]["content"][0]["text"], "b");
    let refused_ids = answers
        .iter()
        .filter(|answer| answer["error"]["code"] == -32600);
    assert_eq!(refused_ids.count(), 2);
}

/// Batches exist only in revision 2025-03-26.
#[tokio::test]
async fn batches_are_answered_at_their_revision() {
    let (gateway, _backends) = gateway().await;
    let client = client_at_revision(&gateway, "2025-03-26").await;
    let response = client.post(BATCH).await;
    assert_eq!(response.status, StatusCode::OK);
    check_batch(&response.json());
    let silent_response = client
        .post(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#)
        .await;
    assert_eq!(
        (silent_response.status, silent_response.text.as_str()),
        (StatusCode::ACCEPTED, "")
    );
    for (text, code) in [("[]", -32600), ("[1,", -32700)] {
        assert_eq!(
            client.post(text).await.json()["error"]["code"],
            code,
            "{text}"
        );
    }

    let mut pipe = gateway.silent_pipe();
    pipe.initialize("2025-03-26").await;
    pipe.send(BATCH.replace('\n', "")).await;
    check_batch(&pipe.message().await);
    pipe.send(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#)
        .await;
    pipe.assert_echo("x__echo").await;
    assert_eq!(pipe.other_messages, Vec::<Value>::new());
}

#[tokio::test]
async fn batches_are_refused_at_every_other_revision() {
    let (gateway, backends) = gateway().await;
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = client_at_revision(&gateway, revision).await;
        let response = client.post(BATCH).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{revision}");
        assert_eq!(response.json()["error"]["code"], -32600);
        let mut pipe = gateway.silent_pipe();
        pipe.initialize(revision).await;
        pipe.send(BATCH.replace('\n', "")).await;
        assert_eq!(pipe.message().await["error"]["code"], -32600);
        pipe.assert_echo("calm__echo").await;
    }
    let unauthenticated_client = gateway.stranger("/mcp");
    let response = unauthenticated_client
        .post(format!("[{}]", initialize("2025-03-26")))
        .await;
    assert_eq!(response.status, StatusCode::BAD_REQUEST);
    assert_eq!(backends[0].calls_of("echo").len(), 0);
}

fn nested_json(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// A few thousand brackets overflow the stack of a recursive parser. Mainstay refuses such messages
/// at every door.
#[tokio::test]
async fn deeply_nested_messages_are_refused() {
    let (gateway, backends) = gateway().await;
    // The object of the arguments adds one level.
    let call = |tool: &str, levels| {
        format!(
            r#"{{"name":"{tool}","arguments":{{"text":"x","deep":{}}}}}"#,
            nested_json(levels)
        )
    };
    for (path, tool) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let client = gateway.client_at(path).await;
        client.exchange("tools/call", &call(tool, 511)).await;
        let previous_count = backends[0].runs("echo");
        for levels in [512, 100_000] {
            let text = client.request_text("tools/call", &call(tool, levels));
            let refused_response = client.post(text).await;
            assert_eq!(
                refused_response.status,
                StatusCode::BAD_REQUEST,
                "{path}: {levels}"
            );
            is_too_deep(&refused_response.json());
        }
        assert_eq!(backends[0].runs("echo"), previous_count, "{path}");
        client.assert_echo(tool).await;
    }
    let mut pipe = gateway.pipe().await;
    let params = call("x__echo", 512);
    pipe.send(&format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#
    ))
    .await;
    let answer = pipe.message().await;
    assert_eq!(answer["id"], 7);
    is_too_deep(&answer);
    let unauthenticated_client = gateway.stranger("/api/mcp-tools/call");
    let body = format!(
        r#"{{"tool":"x/echo","arguments":{{"deep":{}}}}}"#,
        nested_json(512)
    );
    let mut headers = unauthenticated_client.headers("application/json");
    let bearer = format!("Bearer {}", crate::rest_client::TOKEN);
    headers.insert("authorization", bearer.parse().expect("ASCII"));
    let refused_response = unauthenticated_client
        .send(Method::POST, headers, body)
        .await
        .whole()
        .await;
    assert_eq!(
        refused_response.status,
        StatusCode::BAD_REQUEST,
        "{}",
        refused_response.text
    );
    assert!(
        refused_response.text.contains("nested too deep"),
        "{}",
        refused_response.text
    );
    gateway.client().await.assert_echo("calm__echo").await;
}

fn is_too_deep(answer: &Value) {
    let error = &answer["error"];
    assert_eq!(error["code"], -32600, "{error}");
    let message = error["message"].as_str().expect("words");
    assert!(
        message.contains("nested too deep") && message.contains("512"),
        "{message}"
    );
}

/// If an answer is nested too deep, only its own call fails.
#[tokio::test]
async fn an_answer_that_is_nested_too_deep_fails_its_call() {
    for levels in [600, 200_000] {
        let entry = start_resumable(move |request| match request {
            RogueRequest::Call(id) => http(
                "application/json",
                &format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"deep":{}}}}}"#,
                    nested_json(levels)
                ),
            ),
            RogueRequest::Rest(_) => String::new(),
        })
        .await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": entry}})).await;
        for (path, tool) in [("/mcp", "x__act"), ("/servers/x/mcp", "act")] {
            let client = gateway.client_at(path).await;
            let text = client.request_text("tools/call", &format!(r#"{{"name":"{tool}"}}"#));
            let answer = client.post(text).await.json();
            assert!(
                answer.to_string().contains("nested too deep"),
                "{path}: {answer}"
            );
        }
        let body = json!({"tool": "x/act"});
        let (status, answer) = gateway.rest().post("/api/mcp-tools/call", body).await;
        assert!(!status.is_success(), "{answer}");
        assert!(answer.to_string().contains("nested too deep"), "{answer}");
    }
}
