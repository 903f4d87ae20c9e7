//! Payloads pass unchanged, except for line breaks between JSON tokens (invariant 5).

use fake_server::{WEIRD_RESULT, WEIRD_TOOL};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, TestError, TestRunner},
};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, raw},
    gateway::Gateway,
};

/// Random JSON texts with random formatting.
fn json_text() -> impl Strategy<Value = String> {
    let number = select(vec![
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1",
        "1e400",
        "-1E-400",
        "12345678901234567890123",
        "0.1000000000000000055511151231257827",
        "1e+2",
        "9007199254740993",
        "-9223372036854775809",
    ]);
    let scalar = select(vec!["true", "false", "null", "{}", "[ ]", "[\n]"]);
    let leaf = prop_oneof![
        number.prop_map(str::to_owned),
        scalar.prop_map(str::to_owned),
        string(),
    ];
    leaf.prop_recursive(4, 24, 5, |inner_value| {
        prop_oneof![
            prop::collection::vec((whitespace(), inner_value.clone(), whitespace()), 0..5)
                .prop_map(|items| {
                    let items: Vec<_> = items
                        .iter()
                        .map(|(a, item, b)| format!("{a}{item}{b}"))
                        .collect();
                    format!("[{}]", items.join(","))
                }),
            object(key(), inner_value),
        ]
    })
}

fn object(
    key: impl Strategy<Value = String>,
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    let member = (whitespace(), key, whitespace(), value, whitespace());
    prop::collection::vec(member, 0..6).prop_map(|members| {
        let texts = members
            .iter()
            .map(|(a, key, b, value, c)| format!("{a}{key}{b}:{value}{c}"));
        format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
    })
}

/// Names of members: names of MCP, duplicates, and random names.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![known_key(), string()]
}

fn known_key() -> impl Strategy<Value = String> {
    let names = select(vec![
        "id",
        "method",
        "params",
        "name",
        "uri",
        "_meta",
        "progressToken",
        "jsonrpc",
        "result",
        "ref",
        "",
        "error",
        "arguments",
        r"\u0069d",
        r"\ud83e\udd80",
    ]);
    names.prop_map(|key| format!("\"{key}\""))
}

/// Random arguments. Keys that the fake uses itself have strings.
fn arguments() -> impl Strategy<Value = String> {
    let plain_text = prop::collection::vec(plain_char(), 0..8);
    let key = plain_text.prop_map(|chars| format!("\"{}\"", String::from_iter(chars)));
    let key = prop_oneof![known_key(), key].prop_filter("the fake's own", |key| key != "\"text\"");
    object(key, json_text())
}

/// JSON strings with plain characters, escapes, and unpaired surrogates.
fn string() -> impl Strategy<Value = String> {
    let escape_sequence = select(vec![
        r#"\""#,
        r"\\",
        r"\/",
        r"\b",
        r"\n",
        r"\r",
        r"\t",
        r"\u0000",
        r"\u00e9",
        r"\ud83e\udd80",
        r"\ud800",
        r"\udc00",
        r"\uD800\u0041",
        r"\u2028",
    ]);
    let piece = prop_oneof![
        escape_sequence.prop_map(str::to_owned),
        plain_char().prop_map(String::from)
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn plain_char() -> impl Strategy<Value = char> {
    any::<char>().prop_filter("needs an escape", |c| {
        !c.is_control() && !matches!(c, '"' | '\\')
    })
}

fn whitespace() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", " ", "\t", "\n", "\r\n", "  \n "])
}

/// Removes line breaks. They are only between tokens, because a JSON string cannot contain a raw
/// one.
fn without_line_breaks(text: &str) -> String {
    text.replace(['\r', '\n'], "")
}

/// The names of the backends at `/mcp`.
const SERVERS: [(&str, BackendKind); 3] = [
    ("one", BackendKind::Stdio),
    ("two", BackendKind::Http),
    ("three", BackendKind::Sse),
];

async fn gateway() -> (Gateway, Vec<Backend>) {
    let mut backends = Vec::new();
    for (_, kind) in SERVERS {
        backends.push(Backend::start(kind, &[]).await);
    }
    let servers: Vec<_> = SERVERS
        .iter()
        .map(|(name, _)| *name)
        .zip(&backends)
        .collect();
    (Gateway::with_servers(&servers).await, backends)
}

/// A client for each endpoint of each backend, with the name of the tool at that endpoint.
async fn tool_clients(gateway: &Gateway, tool: &str) -> Vec<(Http, String)> {
    let mut ways = Vec::new();
    for (server, _) in SERVERS {
        ways.push((gateway.client().await, format!("{server}__{tool}")));
        ways.push((
            gateway.client_at(&format!("/servers/{server}/mcp")).await,
            tool.to_owned(),
        ));
    }
    ways
}

/// Arguments and structured content pass byte for byte.
#[test]
fn arguments_and_results_pass_as_the_bytes_that_came() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (gateway, _backends) = runtime.block_on(gateway());
    let ways = runtime.block_on(tool_clients(&gateway, "echo"));
    let pipe = tokio::sync::Mutex::new(runtime.block_on(gateway.pipe()));

    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let matching_run =
        TestRunner::new(config).run(&(arguments(), whitespace()), |(arguments, gap)| {
            let expected = without_line_breaks(&arguments);
            runtime.block_on(async {
                for (client, tool) in &ways {
                    let params = format!(
                        r#"{{{gap}"arguments":{arguments},{gap}"name":{gap}"{tool}","x":1}}"#
                    );
                    let answer = client.ask("tools/call", &params).await;
                    prop_assert_eq!(
                        raw(raw(&answer, "result"), "structuredContent"),
                        &expected,
                        "by {}",
                        tool
                    );
                }
                for (server, _) in SERVERS {
                    let params = format!(r#"{{"name":"{server}__echo","arguments":{expected}}}"#);
                    let answer = pipe.lock().await.ask("tools/call", &params).await;
                    prop_assert_eq!(
                        raw(raw(&answer, "result"), "structuredContent"),
                        &expected,
                        "by stdio"
                    );
                }
                Ok(())
            })
        });
    match matching_run {
        Ok(()) => {}
        Err(TestError::Fail(reason, (arguments, _))) => panic!("{reason}\nminimal: {arguments}"),
        Err(abort) => panic!("{abort}"),
    }
}

/// Escapes in the name of a tool are decoded.
#[tokio::test]
async fn a_name_is_read_as_json_reads_it() {
    let (gateway, backends) = gateway().await;
    let client = gateway.client().await;
    let params = r#"{"arguments":{"text":"a"},"n\u0061me":"two\u005f_ech\u006f"}"#;
    let answer = client.ask("tools/call", params).await;
    assert!(answer.contains(r#""text":"a""#), "{answer}");
    assert_eq!(backends[1].calls_of("echo").len(), 1);
}

/// A result passes unchanged even if no type of MCP can represent it.
#[tokio::test]
async fn a_weird_result_passes_byte_for_byte() {
    let (gateway, _backends) = gateway().await;
    for (client, tool) in tool_clients(&gateway, "weird").await {
        let answer = client
            .ask("tools/call", &json!({"name": tool}).to_string())
            .await;
        assert_eq!(raw(&answer, "result"), WEIRD_RESULT, "{tool}");
    }
    let mut pipe = gateway.pipe().await;
    for (server, _) in SERVERS {
        let params = json!({"name": format!("{server}__weird")}).to_string();
        assert_eq!(
            raw(&pipe.ask("tools/call", &params).await, "result"),
            WEIRD_RESULT
        );
    }
}

/// The definition of a tool is unchanged, except for the name at `/mcp`.
#[tokio::test]
async fn a_weird_definition_passes_byte_for_byte() {
    let (gateway, _backends) = gateway().await;
    for (server, _) in SERVERS {
        let direct = gateway.client_at(&format!("/servers/{server}/mcp")).await;
        assert!(direct.ask("tools/list", "{}").await.contains(WEIRD_TOOL));
        let exposed_text =
            WEIRD_TOOL.replace(r#""name":"weird""#, &format!(r#""name":"{server}__weird""#));
        assert_ne!(exposed_text, WEIRD_TOOL);
        assert!(
            gateway
                .client()
                .await
                .ask("tools/list", "{}")
                .await
                .contains(&exposed_text)
        );
        assert!(
            gateway
                .pipe()
                .await
                .ask("tools/list", "{}")
                .await
                .contains(&exposed_text)
        );
    }
}

/// The id in an answer is spelled as in the client's request.
#[tokio::test]
async fn ids_come_back_as_they_were_written() {
    let (gateway, _backends) = gateway().await;
    let mut pipe = gateway.pipe().await;
    for id in [
        r#""a\u00e9\/b""#,
        "1.0",
        "-0",
        "12345678901234567890123",
        r#""""#,
        "1e2",
    ] {
        for (client, tool) in tool_clients(&gateway, "echo").await {
            let text = format!(
                r#"{{"params":{{"name":"{tool}"}},"method":"tools/call","id":{id},"jsonrpc":"2.0"}}"#
            );
            let answer = client.post(text).await.messages().pop().expect("an answer");
            assert_eq!(raw(&answer, "id"), id);
        }
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        pipe.send(text).await;
        let line = pipe.line().await.expect("an answer");
        assert_eq!(raw(&line, "id"), id);
    }
}

/// Unknown members of a request and of its `_meta` reach the server.
#[tokio::test]
async fn unknown_members_of_a_request_reach_the_server() {
    let (gateway, backends) = gateway().await;
    for (client, tool) in tool_clients(&gateway, "echo").await {
        let text = format!(
            r#"{{"jsonrpc":"2.0","vendor":{{"deep":[1]}},"id":1,"method":"tools/call","params":{{"_meta":{{"a.b/c":7,"progressToken":"p","z":null}},"name":"{tool}"}}}}"#
        );
        client.post(text).await;
    }
    for backend in &backends {
        let calls = backend.of_method("tools/call");
        assert_eq!(calls.len(), 2);
        for call in calls {
            assert_eq!(call["vendor"], json!({"deep": [1]}));
            let meta = call["params"]["_meta"].as_object().expect("an object");
            let members: Vec<_> = meta.keys().map(String::as_str).collect();
            assert_eq!(members, ["a.b/c", "progressToken", "z"]);
            assert_eq!((&meta["a.b/c"], &meta["z"]), (&json!(7), &Value::Null));
        }
    }
}
