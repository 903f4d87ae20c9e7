//! A stored object can be read by the clients whose calls sent or received it. Knowing its CID is
//! not enough, because a client can compute the CID of a guess.

use mainstay_core::{
    config::Secret,
    record::{Cid, OBJECTS},
};
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use super::{call_failing, call_ok, records::RecordedServers};
use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, text},
    rest_client::TOKEN,
};

const READERS: [&str; 3] = ["read_object", "inspect_object", "breakpoint_inspect_object"];

async fn client_with_token(fixture: &RecordedServers, path: &str, token: &str) -> Http {
    let mut client = fixture.gateway.stranger(path);
    client.token = Some(token.to_owned());
    client.initialize(LATEST).await;
    client
}

fn token(tokens: &Tokens, name: &str) -> String {
    tokens.add(name, None).expect("added").0.expose().to_owned()
}

/// The CID of the arguments of an `echo` call with this text.
fn arguments_cid(text: &str) -> Cid {
    Cid::for_content(json!({ "text": text }).to_string().as_bytes())
}

async fn has_read(client: &Http, cid: &str) {
    for tool in READERS {
        call_ok(client, tool, json!({"cid": cid})).await;
    }
    let uri = format!("{OBJECTS}{cid}");
    client.result("resources/read", json!({"uri": uri})).await;
}

/// Asserts that the client gets the same answer as for an object that never existed.
async fn assert_unreadable(client: &Http, cid: &str) {
    let unknown_text = Cid::for_content(b"never there").to_string();
    for tool in READERS {
        let failure = call_failing(client, tool, json!({"cid": cid})).await;
        let unreached_result = call_failing(client, tool, json!({"cid": unknown_text})).await;
        assert_eq!(
            answer_without_cid(&failure, cid),
            answer_without_cid(&unreached_result, &unknown_text),
            "{tool}"
        );
    }
    assert_unreadable_resource(client, cid).await;
}

async fn assert_unreadable_resource(client: &Http, cid: &str) {
    let unknown_text = Cid::for_content(b"never there").to_string();
    let read_object = async |cid: &str| {
        let uri = format!("{OBJECTS}{cid}");
        client.error("resources/read", json!({"uri": uri})).await
    };
    let (error, unknown_error) = (read_object(cid).await, read_object(&unknown_text).await);
    assert_eq!(error["code"], -32002, "{error}");
    assert_eq!(
        answer_without_cid(&error, cid),
        answer_without_cid(&unknown_error, &unknown_text)
    );
    // A request for a part of the object is also refused.
    read_object(&format!("{cid}?raw=true&offset=0&length=10")).await;
}

/// The text of the answer, with the CID replaced.
fn answer_without_cid(answer: &Value, cid: &str) -> String {
    answer.to_string().replace(cid, "CID")
}

/// A four-digit number can be guessed in seconds. Even with a correct guess, the CID must not give
/// access to another client's arguments.
#[tokio::test]
async fn a_guess_of_anothers_arguments_leads_nowhere() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"]});
    let fixture = RecordedServers::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let ada = client_with_token(&fixture, "/mcp", &token(&tokens, "ada")).await;
    let alan = client_with_token(&fixture, "/mcp", &token(&tokens, "alan")).await;
    let operator = client_with_token(&fixture, "/mcp", TOKEN).await;
    let result = ada.call("x__echo", json!({"text": "4711"})).await;
    fixture.written().await;
    let outcome = call_ok(&ada, "get_call_records", json!({})).await;
    let arguments = arguments_cid("4711").to_string();
    assert_eq!(outcome["calls"][0]["arguments_cid"], arguments, "{outcome}");
    let result_cid = outcome["calls"][0]["result_cid"].as_str().expect("a CID");
    assert!(text(&result).contains("4711"));
    for cid in [&arguments, result_cid] {
        has_read(&ada, cid).await;
        has_read(&operator, cid).await;
        // The object is refused even while it is in the cache.
        assert_unreadable(&alan, cid).await;
    }
    let cid = arguments_cid("4711").to_string();
    let arguments = json!({"tool": "x/echo", "arguments": {"text": "4711"}});
    let execute = json!({"name": "read_object", "arguments": {"cid": cid}});
    alan.call("execute_tool", execute).await;
    assert_unreadable(&alan, &cid).await;
    // If the client makes the same call, it gets access to the objects of its own call only.
    alan.call("execute_tool", arguments).await;
    fixture.written().await;
    has_read(&alan, &cid).await;
    assert_unreadable(&alan, &arguments_cid("4712").to_string()).await;
}

/// All clients without a token count as one principal. It cannot read objects of the operator or of
/// clients with a token.
#[tokio::test]
async fn clients_without_a_token_share_their_objects() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"], "http": {"requireToken": false}});
    let fixture = RecordedServers::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let ada = client_with_token(&fixture, "/mcp", &token(&tokens, "ada")).await;
    let (first_client, other_client) = (
        fixture.gateway.client().await,
        fixture.gateway.client().await,
    );
    ada.call("x__echo", json!({"text": "hers"})).await;
    first_client
        .call("x__echo", json!({"text": "shared"}))
        .await;
    let body = json!({"tool": "x/echo", "arguments": {"text": "operator"}});
    fixture
        .gateway
        .rest()
        .post("/api/mcp-tools/call", body)
        .await;
    fixture.written().await;
    for cid in [arguments_cid("hers"), arguments_cid("operator")] {
        assert_unreadable(&other_client, &cid.to_string()).await;
    }
    has_read(&other_client, &arguments_cid("shared").to_string()).await;
    assert_unreadable(&ada, &arguments_cid("shared").to_string()).await;
    let result = call_ok(&other_client, "get_call_records", json!({})).await;
    assert_eq!(result["total_count"], 1, "{result}");
    let path = |text| format!("/api/objects/{}", arguments_cid(text));
    for text in ["hers", "operator", "shared"] {
        let object = fixture.gateway.rest().get(&path(text)).await;
        assert_eq!(object, json!({"text": text}));
    }
}

/// A profile hides the objects of tools that it hides. A profile without a tool for objects cannot
/// read any.
#[tokio::test]
async fn a_profile_reads_what_it_shows() {
    let backend = Backend::http().await;
    let both_groups = ["records", "meta"];
    let settings = json!({
        "ownTools": both_groups,
        "profiles": {
            "few": {"tools": {"deny": ["x/echo"]}, "ownTools": both_groups},
            "none": {"servers": [], "ownTools": both_groups},
            "plain": {},
        },
    });
    let fixture = RecordedServers::with_servers(&[("x", &backend)], settings).await;
    let client = fixture.gateway.client().await;
    client.call("x__echo", json!({"text": "4711"})).await;
    fixture.written().await;
    let cid = arguments_cid("4711").to_string();
    has_read(&client, &cid).await;
    for path in ["/mcp/few", "/mcp/none"] {
        assert_unreadable(&fixture.gateway.client_at(path).await, &cid).await;
    }
    assert_unreadable_resource(&fixture.gateway.client_at("/mcp/plain").await, &cid).await;
}

/// The link in a shortened result opens the whole result for its receiver: at once, later, and
/// after a restart. Other clients are refused.
#[tokio::test]
async fn a_link_works_for_its_receiver() {
    let backend = Backend::start(BackendKind::Stdio, &["--revisions", "2025-11-25"])
        .await
        .option("result", json!({"maxInlineBytes": 2048}));
    let tokens = Tokens::from(Secret::new(TOKEN));
    let servers = [("x", &backend)];
    let mut fixture = RecordedServers::guarded(&servers, json!({}), tokens.clone()).await;
    let (ada, alan) = (token(&tokens, "ada"), token(&tokens, "alan"));
    let mut links = Vec::new();
    for (path, tool) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let client = client_with_token(&fixture, path, &ada).await;
        let text = format!("{path} {}", "y".repeat(10_000));
        let result = client.call(tool, json!({"text": text})).await;
        let link = result["content"][1]["uri"].as_str().expect("a link");
        // The object can be read before its record is written.
        let read_params = json!({"uri": link});
        client.result("resources/read", read_params).await;
        links.push((path, link.to_owned()));
    }
    for is_restarted in [false, true] {
        if is_restarted {
            fixture = fixture.restart(&servers, json!({}), tokens.clone()).await;
        }
        for (path, link) in &links {
            let cid = link.strip_prefix(OBJECTS).expect("ours");
            let client = client_with_token(&fixture, path, &ada).await;
            let read_params = client.result("resources/read", json!({"uri": link})).await;
            let text = read_params["contents"][0]["text"].as_str().expect("text");
            assert!(text.starts_with(path), "{text}");
            let client = client_with_token(&fixture, path, &alan).await;
            assert_unreadable_resource(&client, cid).await;
        }
    }
}
