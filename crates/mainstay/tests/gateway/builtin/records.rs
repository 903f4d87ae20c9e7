//! Own tools of the group `records`, and `read_object` of the group `meta` (L4, L7, t151).

use std::sync::Arc;

use mainstay_core::config::{Journal as Settings, Secret};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::Journal;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call_failing, call_ok};
use crate::{
    backend::Backend,
    client::LATEST,
    gateway::{Gateway, config},
    rest_client::TOKEN,
};

pub struct RecordedServers {
    pub gateway: Gateway,
    journal: Arc<Journal>,
    folder: TempDir,
}

impl RecordedServers {
    pub async fn with_servers(servers: &[(&str, &Backend)], settings: Value) -> Self {
        Self::guarded(servers, settings, Secret::new(TOKEN)).await
    }

    pub async fn guarded(
        servers: &[(&str, &Backend)],
        settings: Value,
        tokens: impl Into<Tokens>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::call_within(folder, servers, settings, tokens).await
    }

    /// Restarts the gateway. Keeps the journal.
    pub async fn restart(
        self,
        servers: &[(&str, &Backend)],
        settings: Value,
        tokens: impl Into<Tokens>,
    ) -> Self {
        self.gateway.stop().await;
        self.journal.close().await;
        Self::call_within(self.folder, servers, settings, tokens).await
    }

    async fn call_within(
        folder: TempDir,
        servers: &[(&str, &Backend)],
        settings: Value,
        tokens: impl Into<Tokens>,
    ) -> Self {
        let journal =
            mainstay_journal_store::open(folder.path(), &Settings::default()).expect("a journal");
        let journal = Arc::new(journal);
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            ..GatewayOptions::default()
        };
        Self {
            gateway: Gateway::guarded(&config(servers, settings), options, tokens, |address| {
                address
            })
            .await,
            journal,
            folder,
        }
    }

    pub async fn written(&self) {
        self.journal.flush().await.expect("it writes");
    }
}

fn names(result: &Value) -> Vec<&str> {
    let calls = result["calls"].as_array().expect("a list").iter();
    calls
        .map(|call| call["name"].as_str().expect("a name"))
        .collect()
}

/// Calls of own tools are recorded, and their objects are found by CID (L7, t151).
#[tokio::test]
async fn calls_are_looked_up() {
    let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
    let settings = json!({
        "ownTools": ["records", "external"],
        "profiles": {"half": {"servers": ["two"], "ownTools": ["records"]}},
    });
    let fixture = RecordedServers::with_servers(
        &[("one", &first_backend), ("two", &second_backend)],
        settings,
    )
    .await;
    let client = fixture.gateway.client().await;
    let echo = json!({"tool": "one/echo", "arguments": {"text": "hello"}});
    call_ok(&client, "external_call_tool", echo).await;
    client.call("two__error", json!({})).await;
    fixture.written().await;
    let all_result = call_ok(&client, "get_call_records", json!({})).await;
    assert_eq!(
        names(&all_result),
        ["two/error", "one/echo"],
        "{all_result}"
    );
    assert_eq!(
        (&all_result["total_count"], &all_result["truncated"]),
        (&json!(2), &json!(false))
    );
    for (filter, expected) in [
        (json!({"status": "error"}), vec!["two/error"]),
        (json!({"server": "one"}), vec!["one/echo"]),
        (json!({"tool": "echo"}), vec!["one/echo"]),
        (json!({"tool": "one/echo"}), vec!["one/echo"]),
        (json!({"limit": 1}), vec!["two/error"]),
    ] {
        let result = call_ok(&client, "get_call_records", filter.clone()).await;
        assert_eq!(names(&result), expected, "{filter}");
    }
    // Records about tools that the profile hides are left out.
    let half_client = fixture.gateway.client_at("/mcp/half").await;
    let result = call_ok(&half_client, "get_call_records", json!({})).await;
    assert_eq!(
        (names(&result), &result["total_count"]),
        (vec!["two/error"], &json!(1))
    );
    let result = call_failing(&half_client, "get_call_records", json!({"server": "one"})).await;
    assert_eq!(result["error"], "server_not_found", "{result}");
    let failure = call_failing(&client, "get_call_records", json!({"status": "odd"})).await;
    assert_eq!(failure["error"], "invalid_request", "{failure}");

    let echo_call = &all_result["calls"][1];
    assert_eq!(
        (&echo_call["source"], &echo_call["server"]),
        (&json!("mcp_client"), &json!("one"))
    );
    for tool in ["inspect_object", "breakpoint_inspect_object"] {
        let object = call_ok(&client, tool, json!({"cid": echo_call["result_cid"]})).await;
        assert_eq!(
            (&object["cid"], &object["type"]),
            (&echo_call["result_cid"], &json!("object"))
        );
        assert!(
            object["repr"]
                .as_str()
                .is_some_and(|text| text.contains("hello")),
            "{object}"
        );
        assert_eq!(
            object["attributes"],
            json!(["content", "structuredContent"])
        );
        assert_eq!(object["truncated"], false);
        let missing_text = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
        for cid in [missing_text, "nonsense"] {
            let failure = call_failing(&client, tool, json!({"cid": cid})).await;
            assert_eq!(
                (&failure["error"], &failure["cid"]),
                (&json!("cid_not_found"), &json!(cid))
            );
        }
    }
}

/// Records about tools that a profile or a switch hides are left out.
#[tokio::test]
async fn records_of_hidden_tools_are_hidden() {
    let backend = Backend::http().await;
    let settings = json!({
        "ownTools": ["records"],
        "profiles": {"few": {"tools": {"deny": ["x/error"]}, "ownTools": ["records"]}},
    });
    let fixture = RecordedServers::with_servers(&[("x", &backend)], settings).await;
    let client = fixture.gateway.client().await;
    for tool in ["x__error", "x__echo", "x__error", "x__echo"] {
        client.call(tool, json!({"text": "x"})).await;
    }
    fixture.written().await;
    let all_result = call_ok(&client, "get_call_records", json!({})).await;
    assert_eq!(all_result["total_count"], 4, "{all_result}");
    let few_client = fixture.gateway.client_at("/mcp/few").await;
    for (filter, expected, is_truncated) in [
        (json!({}), vec!["x/echo"; 2], false),
        (json!({"server": "x"}), vec!["x/echo"; 2], false),
        (json!({"tool": "error"}), vec![], false),
        (json!({"limit": 1}), vec!["x/echo"], true),
    ] {
        let result = call_ok(&few_client, "get_call_records", filter.clone()).await;
        assert_eq!(names(&result), expected, "{filter}");
        assert_eq!(result["truncated"], is_truncated, "{filter}: {result}");
    }
    let name = all_result["calls"][0]["client"]["name"]
        .as_str()
        .expect("a name");
    let switch_body = json!({"server": "x", "tool": "echo", "enabled": false});
    let path = format!("/api/switches/{name}");
    let (status, answer) = fixture.gateway.rest().put(&path, switch_body).await;
    assert_eq!(status, 200, "{answer}");
    let result = call_ok(&client, "get_call_records", json!({})).await;
    assert_eq!(names(&result), ["x/error"; 2], "{result}");
    let result = call_ok(&few_client, "get_call_records", json!({})).await;
    assert_eq!(names(&result), Vec::<&str>::new(), "{result}");
}

/// A client with a token sees only its own calls. The operator sees all calls (Q7).
#[tokio::test]
async fn a_token_sees_its_own_records() {
    let backend = Backend::http().await;
    let tokens = Tokens::from(Secret::new(TOKEN));
    let settings = json!({"ownTools": ["records", "activity"]});
    let fixture = RecordedServers::guarded(&[("x", &backend)], settings, tokens.clone()).await;
    let token_client = async |token: String| {
        let mut client = fixture.gateway.stranger("/mcp");
        client.token = Some(token);
        client.initialize(LATEST).await;
        client
    };
    let token = |name: &str| tokens.add(name, None).expect("added").0.expose().to_owned();
    let ada = token_client(token("ada")).await;
    let alan = token_client(token("alan")).await;
    let operator = token_client(TOKEN.to_owned()).await;
    ada.assert_echo("x__echo").await;
    let uri = json!({"server": "x", "uri": "no:such"});
    alan.call("read_resource", uri).await;
    operator.call("x__error", json!({})).await;
    fixture.written().await;
    for (client, expected) in [
        (&ada, vec!["x/echo"]),
        (&alan, vec!["x/no:such"]),
        (&operator, vec!["x/error", "x/no:such", "x/echo"]),
    ] {
        let result = call_ok(client, "get_call_records", json!({})).await;
        assert_eq!(names(&result), expected, "{result}");
        // A record has the door through which the client made the call (L1).
        let doors = result["calls"].as_array().expect("a list").iter();
        assert!(
            doors.clone().all(|call| call["door"] == "mcp_http"),
            "{result}"
        );
    }
}

/// A client reads a large result in parts (issue 5, "Large results").
#[tokio::test]
async fn a_large_result_is_read_in_parts() {
    let backend = Backend::http().await;
    let fixture =
        RecordedServers::with_servers(&[("x", &backend)], json!({"ownTools": ["meta", "records"]}))
            .await;
    let client = fixture.gateway.client().await;
    client.call("x__big", json!({"bytes": 100_000})).await;
    client
        .call("x__echo", json!({"text": "one\ntwo\nthree"}))
        .await;
    fixture.written().await;
    let result = call_ok(&client, "get_call_records", json!({})).await;
    let cid = |index: usize| {
        result["calls"][index]["result_cid"]
            .as_str()
            .expect("a CID")
    };
    let (poem, big_cid) = (cid(0), cid(1));
    let first = call_ok(&client, "read_object", json!({"cid": big_cid})).await;
    assert_eq!(first["text"].as_str().map(str::len), Some(4_000), "{first}");
    assert_eq!(
        (&first["total"], &first["next_offset"]),
        (&json!(100_000), &json!(4_000))
    );
    let link = format!("mainstay://objects/{big_cid}");
    let last_result = call_ok(
        &client,
        "read_object",
        json!({"cid": link, "offset": 99_990}),
    )
    .await;
    assert_eq!(last_result["text"], "x".repeat(10), "{last_result}");
    assert_eq!(last_result["cid"], big_cid);
    for (part, expected) in [
        (json!({"lines": "2-3"}), "two\nthree"),
        (json!({"pattern": "^t.o"}), "2: two\n"),
        (json!({"raw": true, "path": "$.content[0].type"}), "text"),
    ] {
        let mut arguments = part.clone();
        arguments["cid"] = poem.into();
        let result = call_ok(&client, "read_object", arguments).await;
        assert_eq!(result["text"], expected, "{part}");
    }
    let result = call_ok(&client, "inspect_object", json!({"cid": big_cid})).await;
    assert_eq!(result["repr"].as_str().map(str::len), Some(16_000));
    assert_eq!(result["truncated"], true);
    assert!(
        result["size"].as_u64().is_some_and(|size| size > 100_000),
        "{}",
        result["size"]
    );
    assert!(
        result["next"].to_string().contains("read_object"),
        "{}",
        result["next"]
    );
    let failure = call_failing(&client, "read_object", json!({"cid": poem, "pattern": "("})).await;
    assert_eq!(failure["error"], "invalid_request", "{failure}");
    let failure = call_failing(&client, "read_object", json!({"cid": "nonsense"})).await;
    assert_eq!(failure["error"], "cid_not_found", "{failure}");
}

#[tokio::test]
async fn without_a_journal_there_are_no_records() {
    let gateway = super::gateway(&[], &["records"]).await;
    let client = gateway.client().await;
    let failure = call_failing(&client, "get_call_records", json!({})).await;
    assert_eq!(failure["error"], "journal_disabled", "{failure}");
}
