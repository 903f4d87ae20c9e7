//! Clients of 2026-07-28 with legacy servers: their requests, answers and errors (specification
//! 2026-07-28, "Streamable HTTP", "Versioning").

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, names, text},
    gateway::Gateway,
    modern::{MODERN, Modern, key},
};

const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::start(BackendKind::Http, &["--revisions", "2025-11-25"]).await;
    (Gateway::with_servers(&[("x", &backend)]).await, backend)
}

fn complete_result(result: &Value) {
    assert_eq!(result["resultType"], "complete", "{result}");
}

fn uncacheable_result(result: &Value) {
    complete_result(result);
    assert_eq!(result["ttlMs"], 0, "{result}");
    assert_eq!(result["cacheScope"], "private", "{result}");
}

over_every_transport! {
    /// A client without a session can use all features of a legacy server, in the form of the
    /// client's revision.
    async fn a_legacy_server_serves_clients_without_sessions(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, prefix) in PATHS {
            let client = Modern::at(&gateway, path);
            for (method, member) in [
                ("tools/list", "tools"),
                ("prompts/list", "prompts"),
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let list = client.result(method, json!({})).await;
                uncacheable_result(&list);
                assert!(!list[member].as_array().expect("a list").is_empty());
                assert_eq!(list, client.result(method, json!({})).await, "{method} varies");
            }
            let echo = format!("{prefix}echo");
            let result = client.call(&echo, json!({"text": "hello"})).await;
            complete_result(&result);
            assert_eq!(text(&result), "hello");
            let prompt = client.result("prompts/get", json!({"name": format!("{prefix}plain")})).await;
            complete_result(&prompt);
            assert!(prompt["messages"].is_array());
            let read_result = client.result("resources/read", json!({"uri": "fake://text"})).await;
            uncacheable_result(&read_result);
            assert_eq!(read_result["contents"][0]["text"], "the text of the fake");
            let reference = json!({"type": "ref/prompt", "name": format!("{prefix}greet")});
            let params = json!({"ref": reference, "argument": {"name": "name", "value": "A"}});
            let completed_result = client.result("completion/complete", params).await;
            complete_result(&completed_result);
            assert_eq!(completed_result["completion"]["values"], json!(["Ada", "Alan"]));
        }
        // Members of the modern era are not sent to a legacy server.
        for call in backend.of_method("tools/call") {
            assert_eq!(call["params"].get("_meta"), None, "{call}");
        }
    }
}

#[tokio::test]
async fn discovery_lists_revisions_and_capabilities() {
    let backend = Backend::start(BackendKind::Http, &["--instructions", "be kind"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, name, instructions) in [
        ("/mcp", "mainstay", "# x\n\nbe kind"),
        ("/servers/x/mcp", "fake", "be kind"),
    ] {
        let client = Modern::at(&gateway, path);
        let matching_result = client.result("server/discover", json!({})).await;
        uncacheable_result(&matching_result);
        assert_eq!(matching_result["supportedVersions"][0], MODERN);
        assert_eq!(matching_result["supportedVersions"][1], "2025-11-25");
        assert!(
            matching_result["capabilities"]["tools"].is_object(),
            "{matching_result}"
        );
        let info = &matching_result["_meta"][key("serverInfo")];
        assert!(
            info["name"].as_str().expect("a name").contains(name),
            "{info}"
        );
        assert_eq!(matching_result["instructions"], instructions);
    }
}

/// A request is checked in the order of the specification: `_meta`, headers, version, method. Each
/// error has the id of the request.
#[tokio::test]
async fn request_metadata_is_checked() {
    let (gateway, backend) = gateway().await;
    let assert_refused = async |client: &Modern, expected: (u16, i64), params: Value| {
        let (headers, request) = client.request("tools/list", params);
        let response = client.send((headers, request.clone())).await.whole().await;
        let message = response.json();
        assert_eq!(response.status, expected.0, "{message}");
        assert_eq!(message["error"]["code"], expected.1, "{request}");
        assert_eq!(message["id"], request["id"]);
        message["error"].clone()
    };
    for (path, _) in PATHS {
        let client = || Modern::at(&gateway, path);
        for missing_key in ["protocolVersion", "clientCapabilities"] {
            let mut client = client();
            client.meta.remove(&key(missing_key)).expect("it was there");
            // If `_meta` has no version, the header decides the era.
            let mut request = client.request("tools/list", json!({}));
            request
                .0
                .insert("mcp-protocol-version", HeaderValue::from_static(MODERN));
            let response = client.send(request).await.whole().await;
            assert_eq!(response.status, 400);
            assert_eq!(response.json()["error"]["code"], -32602, "{missing_key}");
        }
        for (name, value) in [
            ("protocolVersion", json!(7)),
            ("clientCapabilities", json!([])),
            ("clientInfo", json!("me")),
            ("logLevel", json!("loud")),
        ] {
            let client = client().with(&key(name), value);
            assert_refused(&client, (400, -32602), json!({})).await;
        }
        let error = assert_refused(
            &client().with(&key("protocolVersion"), "1900-01-01"),
            (400, -32022),
            json!({}),
        )
        .await;
        assert_eq!(error["data"]["requested"], "1900-01-01");
        // `server/discover` needs no session.
        assert_eq!(error["data"]["supported"], json!(["2026-07-28"]));
        let matching_result = client().result("server/discover", json!({})).await;
        assert_eq!(matching_result["supportedVersions"][0], "2026-07-28");
        // Legacy methods need a session.
        assert_refused(
            &client().with(&key("protocolVersion"), "2025-11-25"),
            (400, -32022),
            json!({}),
        )
        .await;
        // `clientInfo` is optional.
        let mut nameless_client = client();
        nameless_client.meta.remove(&key("clientInfo"));
        nameless_client.result("tools/list", json!({})).await;
    }
    assert_eq!(backend.count("tools/call"), 0);
}

/// If a header is missing, occurs twice, or differs from the body, the request gets −32020. No
/// server is called.
#[tokio::test]
async fn headers_repeat_the_body() {
    let (gateway, backend) = gateway().await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        let echo = format!("{prefix}echo");
        let params = json!({"name": echo, "arguments": {"text": "a"}});
        let check = async |change: &dyn Fn(&mut HeaderMap), expected: (u16, i64)| {
            let (mut headers, request) = client.request("tools/call", params.clone());
            change(&mut headers);
            let response = client.send((headers, request)).await.whole().await;
            let error = &response.json()["error"];
            assert_eq!(response.status, expected.0, "{error}");
            assert_eq!(error["code"].as_i64().unwrap_or_default(), expected.1);
        };
        let set = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("a value");
            move |headers: &mut HeaderMap| drop(headers.insert(name, value.clone()))
        };
        let encoded_text = format!("=?base64?{}?=", base64(&echo));
        let success = (200, 0);
        let mismatch = (400, -32020);
        check(&|_| {}, success).await;
        check(&set("mcp-name", &encoded_text), success).await;
        check(&set("mcp-name", &format!("  {echo} ")), success).await;
        check(&set("mcp-session-id", "ignored"), success).await;
        for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
            check(&|headers| drop(headers.remove(name)), mismatch).await;
            check(&set(name, "other"), mismatch).await;
            let repeat_header = |headers: &mut HeaderMap| {
                let value = headers[name].clone();
                headers.append(name, value);
            };
            check(&repeat_header, mismatch).await;
        }
        check(&set("mcp-method", "Tools/Call"), mismatch).await;
        check(&set("mcp-name", "=?base64?e?="), mismatch).await;
        check(&set("mcp-protocol-version", "2025-11-25"), mismatch).await;
    }
    assert_eq!(backend.fake().runs("echo"), 8);
}

/// The revision decides the era, because some clients send `Mcp-Method` in every revision.
#[tokio::test]
async fn a_client_with_a_session_may_send_the_method_in_a_header() {
    let (gateway, _backend) = gateway().await;
    for (path, prefix) in PATHS {
        let mut client = gateway.stranger(path);
        let ask = async |client: &Http, method: &'static str, params: Value| {
            let mut headers = client.headers("application/json, text/event-stream");
            headers.remove("mcp-protocol-version");
            headers.insert("mcp-method", HeaderValue::from_static(method));
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let answer = client.send(Method::POST, headers, request.to_string());
            let answer = answer.await.whole().await;
            assert_eq!(answer.status, 200, "{method}: {}", answer.text);
            answer
        };
        let client_info = json!({"name": "tests", "version": "1"});
        let params = json!({
            "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client_info,
        });
        let greeting_response = ask(&client, "initialize", params).await;
        let session = greeting_response.headers["mcp-session-id"]
            .to_str()
            .expect("text");
        client.session = Some(session.to_owned());
        let listed_response = ask(&client, "tools/list", json!({})).await;
        assert!(listed_response.text.contains(&format!("\"{prefix}echo\"")));
    }
}

/// Headers for parameters are checked even if the server is legacy.
#[tokio::test]
async fn headers_repeat_a_tools_parameters() {
    let (http, stdio) = (
        Backend::start(BackendKind::Http, &["--revisions", "2025-11-25"]).await,
        Backend::start(BackendKind::Stdio, &["--revisions", "2025-11-25"]).await,
    );
    let gateway = Gateway::with_servers(&[("x", &http), ("y", &stdio)]).await;
    for (path, tool) in [
        ("/mcp", "x__routed"),
        ("/mcp", "y__routed"),
        ("/servers/x/mcp", "routed"),
        ("/servers/y/mcp", "routed"),
    ] {
        let client = Modern::at(&gateway, path);
        let arguments =
            json!({"region": "Köln", "shard": 42, "place": {"zone": "a"}, "query": "q"});
        let params = json!({"name": tool, "arguments": arguments});
        let region = format!("=?base64?{}?=", base64("Köln"));
        for (region, shard, zone, expected) in [
            (Some(&*region), Some("42"), Some("a"), 200),
            (Some(&*region), Some("42.0"), Some("a"), 200),
            (Some("=?base64?!?="), Some("42"), Some("a"), 400),
            (Some(&*region), Some("43"), Some("a"), 400),
            (Some(&*region), Some("42"), Some("b"), 400),
            (Some(&*region), Some("42"), None, 400),
            (None, Some("42"), Some("a"), 400),
        ] {
            let (mut headers, request) = client.request("tools/call", params.clone());
            for (name, value) in [
                ("mcp-param-region", region),
                ("mcp-param-shard", shard),
                ("mcp-param-zone", zone),
            ] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_str(value).expect("a value"));
                }
            }
            let response = client.send((headers, request)).await.whole().await;
            let message = response.json();
            assert_eq!(response.status, expected, "{path} {message}");
            if expected == 400 {
                assert_eq!(message["error"]["code"], -32020, "{message}");
            }
        }
    }
    assert_eq!((http.runs("routed"), stdio.runs("routed")), (4, 4));
}

#[tokio::test]
async fn errors_have_the_codes_and_statuses_of_their_revision() {
    let (gateway, backend) = gateway().await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        for removed_method in [
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "no/such/method",
        ] {
            let (status, error) = client
                .error(removed_method, json!({"uri": "fake://text"}))
                .await;
            assert_eq!(
                (status, &error["code"]),
                (404, &json!(-32601)),
                "{removed_method}"
            );
        }
        let uri = "fake://nowhere";
        let (_, error) = client.error("resources/read", json!({"uri": uri})).await;
        assert_eq!(error["code"], -32602, "{error}");
        assert_eq!(error["data"]["uri"], uri, "{error}");
        let (_, error) = client.error("tools/call", json!({"name": "nobody"})).await;
        assert_eq!(error["code"], -32602, "{error}");
        let (_, error) = client
            .error("tools/list", json!({"cursor": "nowhere"}))
            .await;
        assert_eq!(error["code"], -32602, "{error}");
        // The error of a tool is a result with `isError`.
        let failed_result = client.call(&format!("{prefix}error"), json!({})).await;
        complete_result(&failed_result);
        assert_eq!(failed_result["isError"], true);
    }
    let pings = backend.of_method("ping");
    assert!(pings.iter().all(|ping| ping["params"].get("uri").is_none()));
}

#[tokio::test]
async fn other_methods_need_a_session() {
    let (gateway, _backend) = gateway().await;
    for (path, _) in PATHS {
        let client = Modern::at(&gateway, path);
        let (headers, _) = client.request("tools/list", json!({}));
        for method in [Method::GET, Method::DELETE] {
            let answer = client.http.send(method, headers.clone(), "").await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        }
        for (body, expected) in [
            (
                json!({"jsonrpc": "2.0", "method": "notifications/unheard-of"}),
                202,
            ),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {}}), 400),
        ] {
            let answer = client.send((headers.clone(), body)).await.whole().await;
            assert_eq!(answer.status, expected);
            assert!(answer.headers.get("mcp-session-id").is_none());
        }
    }
}

/// A web page of an allowed origin may send the headers of the revision. Other origins and request
/// loops are refused.
#[tokio::test]
async fn the_doors_guards_are_those_of_all() {
    let (gateway, backend) = gateway().await;
    for (path, _) in PATHS {
        let client = Modern::at(&gateway, path);
        let (headers, request) = client.request("tools/list", json!({}));
        let headers_with = |name: &'static str, value: &'static str| {
            let mut headers = headers.clone();
            headers.insert(name, HeaderValue::from_static(value));
            headers
        };
        for (name, value, expected) in [
            ("origin", "https://evil.example", 403),
            ("host", "evil.example", 403),
            ("origin", "http://localhost:6274", 200),
            ("mainstay-chain", "a,b,c,d,e,f,g,h,i,j", 508),
            ("content-type", "text/plain", 415),
            ("accept", "text/html", 406),
        ] {
            let sent_request = (headers_with(name, value), request.clone());
            assert_eq!(
                client.send(sent_request).await.status,
                expected,
                "{name}: {value}"
            );
        }
        let mut preflight = headers_with("origin", "http://localhost:6274");
        let requested_headers = HeaderValue::from_static("mcp-method, Mcp-Param-Region, x-evil");
        preflight.insert("access-control-request-headers", requested_headers);
        let answer = client.http.send(Method::OPTIONS, preflight, "").await;
        let allowed_headers = answer.headers["access-control-allow-headers"]
            .to_str()
            .expect("ASCII");
        for name in ["mcp-method", "mcp-name", "mcp-param-region"] {
            assert!(allowed_headers.contains(name), "{allowed_headers}");
        }
        assert!(!allowed_headers.contains("x-evil"));
    }
    assert_eq!(backend.count("tools/call"), 0);
}

/// If the server fails, the error is a tool result that names the server.
#[tokio::test]
async fn a_failed_call_is_a_result_of_its_tool() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    for (path, prefix) in PATHS {
        let client = Modern::at(&gateway, path);
        let failed_result = client.call(&format!("{prefix}crash"), json!({})).await;
        complete_result(&failed_result);
        assert_eq!(
            failed_result["_meta"]["mainstay/error"]["kind"], "outcome_unknown",
            "{failed_result}"
        );
    }
}

/// Clients of both eras share an endpoint and a server.
#[tokio::test]
async fn clients_of_both_eras_share_an_endpoint() {
    let (gateway, _backend) = gateway().await;
    for (path, prefix) in PATHS {
        let legacy = gateway.client_at(path).await;
        let modern = Modern::at(&gateway, path);
        legacy.assert_echo(&format!("{prefix}echo")).await;
        let tools = modern.result("tools/list", json!({})).await;
        assert_eq!(names(&tools["tools"]), legacy.tools().await);
        let list = legacy.result("tools/list", json!({})).await;
        assert_eq!(list.get("resultType"), None);
    }
}

/// Between a modern client and a modern server, these pass unchanged: server information, hints,
/// questions, state and streams.
#[tokio::test]
async fn a_modern_server_speaks_for_itself() {
    for kind in [BackendKind::Http, BackendKind::Stdio] {
        let flags = ["--revisions", MODERN, "--ttl", "5000"];
        let backend = Backend::start(kind, &flags).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let all_capabilities = json!({"elicitation": {"form": {}}, "sampling": {}});
        let client = Modern::at(&gateway, "/servers/x/mcp").able(all_capabilities);
        let matching_result = client.result("server/discover", json!({})).await;
        assert_eq!(
            matching_result["supportedVersions"],
            json!([MODERN]),
            "{matching_result}"
        );
        let list = client.result("tools/list", json!({})).await;
        assert_eq!(list["ttlMs"], 5000, "{kind:?}");
        // The state passes unchanged to the client and back to the server.
        let mut params = json!({"name": "ask_elicitation"});
        let required_result = client.result("tools/call", params.clone()).await;
        assert_eq!(required_result["resultType"], "input_required");
        let state = required_result["requestState"].as_str().expect("a state");
        assert!(!state.starts_with("mainstay"), "{state}");
        params["requestState"] = state.into();
        let (key_of_question, _) = required_result["inputRequests"]
            .as_object()
            .and_then(|requests| requests.iter().next())
            .expect("a question");
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        params["inputResponses"] = json!({ key_of_question: answer });
        let result = client.result("tools/call", params).await;
        assert!(result.to_string().contains("Ada"), "{result}");
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let (headers, request) = client.request("subscriptions/listen", filter);
        let mut stream = client.send((headers, request.clone())).await;
        let first = stream.message().await;
        assert_eq!(
            first["method"], "notifications/subscriptions/acknowledged",
            "{first}"
        );
        assert_eq!(
            first["params"]["_meta"][key("subscriptionId")],
            request["id"]
        );
        client.call("change_tools", json!({})).await;
        let message = stream.message().await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
        assert_eq!(
            message["params"]["_meta"][key("subscriptionId")],
            request["id"]
        );
        // The error about a missing capability passes unchanged, with its HTTP status.
        let incapable_client = Modern::at(&gateway, "/servers/x/mcp");
        let (status, error) = incapable_client
            .error("tools/call", json!({"name": "ask_sampling"}))
            .await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{error}");
        let (status, error) = incapable_client.error("ping", json!({})).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{error}");
        drop(stream);
    }
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded_text = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |index| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let six_bits = bits >> (18 - 6 * index) & 63;
            encoded_text.push(if index <= chunk.len() {
                char::from(ALPHABET[six_bits as usize])
            } else {
                '='
            });
        }
    }
    encoded_text
}
