//! A stored object belongs to the clients whose calls sent or received it. The CID alone gives no access,
//! because a client can compute the CID of a guess.

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

async fn bearing(recorded: &RecordedServers, path: &str, token: &str) -> Http {
    let mut client = recorded.gateway.stranger(path);
    client.token = Some(token.to_owned());
    client.initialize(LATEST).await;
    client
}

fn token(tokens: &Tokens, name: &str) -> String {
    tokens.add(name, None).expect("added").0.expose().to_owned()
}

/// The CID of the arguments of `echo` with this text.
fn of_arguments(text: &str) -> Cid {
    Cid::for_content(json!({ "text": text }).to_string().as_bytes())
}

async fn has_read(client: &Http, cid: &str) {
    for tool in READERS {
        call_ok(client, tool, json!({"cid": cid})).await;
    }
    let uri = format!("{OBJECTS}{cid}");
    client.result("resources/read", json!({"uri": uri})).await;
}

/// Asserts that every answer is the same as for an object that never existed.
async fn cannot_read(client: &Http, cid: &str) {
    let unlike = Cid::for_content(b"never there").to_string();
    for tool in READERS {
        let failure = call_failing(client, tool, json!({"cid": cid})).await;
        let never = call_failing(client, tool, json!({"cid": unlike})).await;
        assert_eq!(same(&failure, cid), same(&never, &unlike), "{tool}");
    }
    cannot_read_resource(client, cid).await;
}

async fn cannot_read_resource(client: &Http, cid: &str) {
    let unlike = Cid::for_content(b"never there").to_string();
    let read = async |cid: &str| {
        let uri = format!("{OBJECTS}{cid}");
        client.error("resources/read", json!({"uri": uri})).await
    };
    let (error, never) = (read(cid).await, read(&unlike).await);
    assert_eq!(error["code"], -32002, "{error}");
    assert_eq!(same(&error, cid), same(&never, &unlike));
    // Parts of the object are refused, too.
    read(&format!("{cid}?raw=true&offset=0&length=10")).await;
}

/// The answer without its CID.
fn same(answer: &Value, cid: &str) -> String {
    answer.to_string().replace(cid, "CID")
}

/// A number of four digits is guessed within seconds. The CID of a right guess must not lead to the arguments
/// of another client.
#[tokio::test]
async fn a_guess_of_anothers_arguments_leads_nowhere() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"]});
    let recorded = RecordedServers::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let ada = bearing(&recorded, "/mcp", &token(&tokens, "ada")).await;
    let alan = bearing(&recorded, "/mcp", &token(&tokens, "alan")).await;
    let operator = bearing(&recorded, "/mcp", TOKEN).await;
    let result = ada.call("x__echo", json!({"text": "4711"})).await;
    recorded.written().await;
    let outcome = call_ok(&ada, "get_call_records", json!({})).await;
    let arguments = of_arguments("4711").to_string();
    assert_eq!(outcome["calls"][0]["arguments_cid"], arguments, "{outcome}");
    let result_cid = outcome["calls"][0]["result_cid"].as_str().expect("a CID");
    assert!(text(&result).contains("4711"));
    for cid in [&arguments, result_cid] {
        has_read(&ada, cid).await;
        has_read(&operator, cid).await;
        // Also right after the others have read it.
        cannot_read(&alan, cid).await;
    }
    let cid = of_arguments("4711").to_string();
    let arguments = json!({"tool": "x/echo", "arguments": {"text": "4711"}});
    let execute = json!({"name": "read_object", "arguments": {"cid": cid}});
    alan.call("execute_tool", execute).await;
    cannot_read(&alan, &cid).await;
    // With its own call the client learns nothing, and gets only what it sent.
    alan.call("execute_tool", arguments).await;
    recorded.written().await;
    has_read(&alan, &cid).await;
    cannot_read(&alan, &of_arguments("4712").to_string()).await;
}

/// All clients without a token are one principal. They do not have the objects of clients with a token, nor
/// those of the operator.
#[tokio::test]
async fn who_needs_no_token_has_what_was_called_without_one() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"], "http": {"requireToken": false}});
    let recorded = RecordedServers::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let ada = bearing(&recorded, "/mcp", &token(&tokens, "ada")).await;
    let (one, other) = (
        recorded.gateway.client().await,
        recorded.gateway.client().await,
    );
    ada.call("x__echo", json!({"text": "hers"})).await;
    one.call("x__echo", json!({"text": "shared"})).await;
    let body = json!({"tool": "x/echo", "arguments": {"text": "operator"}});
    recorded
        .gateway
        .rest()
        .post("/api/mcp-tools/call", body)
        .await;
    recorded.written().await;
    for cid in [of_arguments("hers"), of_arguments("operator")] {
        cannot_read(&other, &cid.to_string()).await;
    }
    has_read(&other, &of_arguments("shared").to_string()).await;
    cannot_read(&ada, &of_arguments("shared").to_string()).await;
    let result = call_ok(&other, "get_call_records", json!({})).await;
    assert_eq!(result["total_count"], 1, "{result}");
    let path = |text| format!("/api/objects/{}", of_arguments(text));
    for text in ["hers", "operator", "shared"] {
        let object = recorded.gateway.rest().get(&path(text)).await;
        assert_eq!(object, json!({"text": text}));
    }
}

/// A profile also hides the content of the tools that it hides. A profile without a tool for objects reads
/// none.
#[tokio::test]
async fn a_profile_reads_what_it_shows() {
    let backend = Backend::http().await;
    let both = ["records", "meta"];
    let settings = json!({
        "ownTools": both,
        "profiles": {
            "few": {"tools": {"deny": ["x/echo"]}, "ownTools": both},
            "none": {"servers": [], "ownTools": both},
            "plain": {},
        },
    });
    let recorded = RecordedServers::with_servers(&[("x", &backend)], settings).await;
    let client = recorded.gateway.client().await;
    client.call("x__echo", json!({"text": "4711"})).await;
    recorded.written().await;
    let cid = of_arguments("4711").to_string();
    has_read(&client, &cid).await;
    for path in ["/mcp/few", "/mcp/none"] {
        cannot_read(&recorded.gateway.client_at(path).await, &cid).await;
    }
    cannot_read_resource(&recorded.gateway.client_at("/mcp/plain").await, &cid).await;
}

/// The link in a cut result gives its receiver the whole result: at once, later, and after a restart. It gives
/// other clients nothing.
#[tokio::test]
async fn a_link_works_for_its_receiver() {
    let backend = Backend::start(BackendKind::Stdio, &["--revisions", "2025-11-25"])
        .await
        .option("result", json!({"maxInlineBytes": 2048}));
    let tokens = Tokens::from(Secret::new(TOKEN));
    let servers = [("x", &backend)];
    let mut recorded = RecordedServers::guarded(&servers, json!({}), tokens.clone()).await;
    let (ada, alan) = (token(&tokens, "ada"), token(&tokens, "alan"));
    let mut links = Vec::new();
    for (path, tool) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let client = bearing(&recorded, path, &ada).await;
        let text = format!("{path} {}", "y".repeat(10_000));
        let result = client.call(tool, json!({"text": text})).await;
        let link = result["content"][1]["uri"].as_str().expect("a link");
        // Read before the record is written.
        let read = json!({"uri": link});
        client.result("resources/read", read).await;
        links.push((path, link.to_owned()));
    }
    for restarted in [false, true] {
        if restarted {
            recorded = recorded
                .restarted(&servers, json!({}), tokens.clone())
                .await;
        }
        for (path, link) in &links {
            let cid = link.strip_prefix(OBJECTS).expect("ours");
            let client = bearing(&recorded, path, &ada).await;
            let read = client.result("resources/read", json!({"uri": link})).await;
            let text = read["contents"][0]["text"].as_str().expect("text");
            assert!(text.starts_with(path), "{text}");
            let client = bearing(&recorded, path, &alan).await;
            cannot_read_resource(&client, cid).await;
        }
    }
}
