//! Kept objects belong to the clients whose calls brought or took them, although the identifier of a
//! guess can be computed.

use mainstay_core::{
    config::Secret,
    record::{Cid, OBJECTS},
};
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use super::{fails, records::Recorded, says};
use crate::{
    backend::{Backend, Kind},
    client::{Http, LATEST, text},
    rest_client::TOKEN,
};

const READERS: [&str; 3] = ["read_object", "inspect_object", "breakpoint_inspect_object"];

async fn bearing(recorded: &Recorded, path: &str, token: &str) -> Http {
    let mut client = recorded.gateway.stranger(path);
    client.token = Some(token.to_owned());
    client.initialize(LATEST).await;
    client
}

fn token(tokens: &Tokens, name: &str) -> String {
    tokens.add(name, None).expect("added").0.expose().to_owned()
}

/// The identifier of what `echo` is called with.
fn of_arguments(said: &str) -> Cid {
    Cid::of(json!({ "text": said }).to_string().as_bytes())
}

async fn has_read(client: &Http, cid: &str) {
    for tool in READERS {
        says(client, tool, json!({"cid": cid})).await;
    }
    let uri = format!("{OBJECTS}{cid}");
    client.result("resources/read", json!({"uri": uri})).await;
}

/// Whatever is asked is answered as of an object that was never there.
async fn cannot_read(client: &Http, cid: &str) {
    let unlike = Cid::of(b"never there").to_string();
    for tool in READERS {
        let said = fails(client, tool, json!({"cid": cid})).await;
        let never = fails(client, tool, json!({"cid": unlike})).await;
        assert_eq!(same(&said, cid), same(&never, &unlike), "{tool}");
    }
    cannot_read_resource(client, cid).await;
}

async fn cannot_read_resource(client: &Http, cid: &str) {
    let unlike = Cid::of(b"never there").to_string();
    let read = async |cid: &str| {
        let uri = format!("{OBJECTS}{cid}");
        client.error("resources/read", json!({"uri": uri})).await
    };
    let (said, never) = (read(cid).await, read(&unlike).await);
    assert_eq!(said["code"], -32002, "{said}");
    assert_eq!(same(&said, cid), same(&never, &unlike));
    // Parts are no way round.
    read(&format!("{cid}?raw=true&offset=0&length=10")).await;
}

/// What was said, whatever it was said of.
fn same(said: &Value, cid: &str) -> String {
    said.to_string().replace(cid, "CID")
}

/// A number of four digits is guessed within seconds, if the identifier of a guess leads to what another
/// client has sent.
#[tokio::test]
async fn a_guess_of_anothers_arguments_leads_nowhere() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"]});
    let recorded = Recorded::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let ada = bearing(&recorded, "/mcp", &token(&tokens, "ada")).await;
    let alan = bearing(&recorded, "/mcp", &token(&tokens, "alan")).await;
    let operator = bearing(&recorded, "/mcp", TOKEN).await;
    let result = ada.call("x__echo", json!({"text": "4711"})).await;
    recorded.written().await;
    let seen = says(&ada, "get_call_records", json!({})).await;
    let arguments = of_arguments("4711").to_string();
    assert_eq!(seen["calls"][0]["arguments_cid"], arguments, "{seen}");
    let kept = seen["calls"][0]["result_cid"].as_str().expect("a CID");
    assert!(text(&result).contains("4711"));
    for cid in [&arguments, kept] {
        has_read(&ada, cid).await;
        has_read(&operator, cid).await;
        // Right after the others have read it, too.
        cannot_read(&alan, cid).await;
    }
    let cid = of_arguments("4711").to_string();
    let arguments = json!({"tool": "x/echo", "arguments": {"text": "4711"}});
    let execute = json!({"name": "read_object", "arguments": {"cid": cid}});
    alan.call("execute_tool", execute).await;
    cannot_read(&alan, &cid).await;
    // By a call of its own it learns nothing, and has what it sent.
    alan.call("execute_tool", arguments).await;
    recorded.written().await;
    has_read(&alan, &cid).await;
    cannot_read(&alan, &of_arguments("4712").to_string()).await;
}

/// Without tokens all clients are one principal, and none of those that have one; what the operator called
/// is not theirs either.
#[tokio::test]
async fn who_needs_no_token_has_what_was_called_without_one() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "meta"], "http": {"requireToken": false}});
    let recorded = Recorded::guarded(&[("x", &backend)], settings, tokens.clone()).await;
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
    let seen = says(&other, "get_call_records", json!({})).await;
    assert_eq!(seen["total_count"], 1, "{seen}");
    let path = |said| format!("/api/objects/{}", of_arguments(said));
    for said in ["hers", "operator", "shared"] {
        let object = recorded.gateway.rest().get(&path(said)).await;
        assert_eq!(object, json!({"text": said}));
    }
}

/// What a profile hides is hidden by its content, too; and one without a tool for it reads no objects.
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
    let recorded = Recorded::of(&[("x", &backend)], settings).await;
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

/// The link of a result that was cut leads its receiver to the whole: at once, later, and after a
/// restart; and no other client.
#[tokio::test]
async fn a_link_works_for_its_receiver() {
    let backend = Backend::start(Kind::Stdio, &["--revisions", "2025-11-25"])
        .await
        .option("result", json!({"maxInlineBytes": 2048}));
    let tokens = Tokens::from(Secret::new(TOKEN));
    let servers = [("x", &backend)];
    let mut recorded = Recorded::guarded(&servers, json!({}), tokens.clone()).await;
    let (ada, alan) = (token(&tokens, "ada"), token(&tokens, "alan"));
    let mut links = Vec::new();
    for (path, tool) in [("/mcp", "x__echo"), ("/servers/x/mcp", "echo")] {
        let client = bearing(&recorded, path, &ada).await;
        let said = format!("{path} {}", "y".repeat(10_000));
        let result = client.call(tool, json!({"text": said})).await;
        let link = result["content"][1]["uri"].as_str().expect("a link");
        // Before the record is written.
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
            let said = read["contents"][0]["text"].as_str().expect("text");
            assert!(said.starts_with(path), "{said}");
            let client = bearing(&recorded, path, &alan).await;
            cannot_read_resource(&client, cid).await;
        }
    }
}
