//! Group `records`, and `read_object` of group `meta` (L4, L7; t151): a large result need not cost a context
//! window.

use std::sync::Arc;

use mainstay::{journal::Journal, setting::Setting};
use mainstay_core::config::Journal as Settings;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{fails, says};
use crate::{
    backend::Backend,
    gateway::{Gateway, config},
};

struct Recorded {
    gateway: Gateway,
    journal: Arc<Journal>,
    _folder: TempDir,
}

impl Recorded {
    async fn of(servers: &[(&str, &Backend)], settings: Value) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let journal = Journal::open(folder.path(), &Settings::default()).expect("a journal");
        let journal = Arc::new(journal);
        let setting = Setting {
            journal: Some(Arc::clone(&journal)),
            ..Setting::default()
        };
        Self {
            gateway: Gateway::set(&config(servers, settings), setting).await,
            journal,
            _folder: folder,
        }
    }

    async fn written(&self) {
        self.journal.flush().await.expect("it writes");
    }
}

fn names(said: &Value) -> Vec<&str> {
    let calls = said["calls"].as_array().expect("a list").iter();
    calls
        .map(|call| call["name"].as_str().expect("a name"))
        .collect()
}

/// L7, t151: what a tool of ours called is on record like any other call, and found by CID.
#[tokio::test]
async fn calls_are_looked_up() {
    let (one, two) = (Backend::http().await, Backend::http().await);
    let settings = json!({
        "ownTools": ["records", "external"],
        "profiles": {"half": {"servers": ["two"], "ownTools": ["records"]}},
    });
    let recorded = Recorded::of(&[("one", &one), ("two", &two)], settings).await;
    let client = recorded.gateway.client().await;
    let echo = json!({"tool": "one/echo", "arguments": {"text": "hello"}});
    says(&client, "external_call_tool", echo).await;
    client.call("two__error", json!({})).await;
    recorded.written().await;
    let all = says(&client, "get_call_records", json!({})).await;
    assert_eq!(names(&all), ["two/error", "one/echo"], "{all}");
    assert_eq!(
        (&all["total_count"], &all["truncated"]),
        (&json!(2), &json!(false))
    );
    for (filter, expected) in [
        (json!({"status": "error"}), vec!["two/error"]),
        (json!({"server": "one"}), vec!["one/echo"]),
        (json!({"tool": "echo"}), vec!["one/echo"]),
        (json!({"tool": "one/echo"}), vec!["one/echo"]),
        (json!({"limit": 1}), vec!["two/error"]),
    ] {
        let said = says(&client, "get_call_records", filter.clone()).await;
        assert_eq!(names(&said), expected, "{filter}");
    }
    // What the profile hides is not told by its calls either.
    let half = recorded.gateway.client_at("/mcp/half").await;
    let said = says(&half, "get_call_records", json!({})).await;
    assert_eq!(
        (names(&said), &said["total_count"]),
        (vec!["two/error"], &json!(1))
    );
    let said = fails(&half, "get_call_records", json!({"server": "one"})).await;
    assert_eq!(said["error"], "server_not_found", "{said}");
    let said = fails(&client, "get_call_records", json!({"status": "odd"})).await;
    assert_eq!(said["error"], "invalid_request", "{said}");

    let echoed = &all["calls"][1];
    assert_eq!(
        (&echoed["source"], &echoed["server"]),
        (&json!("mcp_client"), &json!("one"))
    );
    for tool in ["inspect_object", "breakpoint_inspect_object"] {
        let object = says(&client, tool, json!({"cid": echoed["result_cid"]})).await;
        assert_eq!(
            (&object["cid"], &object["type"]),
            (&echoed["result_cid"], &json!("object"))
        );
        assert!(
            object["repr"]
                .as_str()
                .is_some_and(|it| it.contains("hello")),
            "{object}"
        );
        assert_eq!(
            object["attributes"],
            json!(["content", "structuredContent"])
        );
        let nowhere = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
        for cid in [nowhere, "nonsense"] {
            let said = fails(&client, tool, json!({"cid": cid})).await;
            assert_eq!(
                (&said["error"], &said["cid"]),
                (&json!("cid_not_found"), &json!(cid))
            );
        }
    }
}

/// Issue 5, "Large results": read in parts.
#[tokio::test]
async fn a_large_result_is_read_in_parts() {
    let backend = Backend::http().await;
    let recorded = Recorded::of(&[("x", &backend)], json!({"ownTools": ["meta", "records"]})).await;
    let client = recorded.gateway.client().await;
    client.call("x__big", json!({"bytes": 100_000})).await;
    client
        .call("x__echo", json!({"text": "one\ntwo\nthree"}))
        .await;
    recorded.written().await;
    let said = says(&client, "get_call_records", json!({})).await;
    let cid = |index: usize| said["calls"][index]["result_cid"].as_str().expect("a CID");
    let (poem, big) = (cid(0), cid(1));
    let first = says(&client, "read_object", json!({"cid": big})).await;
    assert_eq!(first["text"].as_str().map(str::len), Some(4_000), "{first}");
    assert_eq!(
        (&first["total"], &first["next_offset"]),
        (&json!(100_000), &json!(4_000))
    );
    let link = format!("mainstay://objects/{big}");
    let last = says(
        &client,
        "read_object",
        json!({"cid": link, "offset": 99_990}),
    )
    .await;
    assert_eq!(last["text"], "x".repeat(10), "{last}");
    assert_eq!(last["cid"], big);
    for (part, expected) in [
        (json!({"lines": "2-3"}), "two\nthree"),
        (json!({"pattern": "^t.o"}), "2: two\n"),
        (json!({"raw": true, "path": "$.content[0].type"}), "text"),
    ] {
        let mut arguments = part.clone();
        arguments["cid"] = poem.into();
        let said = says(&client, "read_object", arguments).await;
        assert_eq!(said["text"], expected, "{part}");
    }
    let said = fails(&client, "read_object", json!({"cid": poem, "pattern": "("})).await;
    assert_eq!(said["error"], "invalid_request", "{said}");
    let said = fails(&client, "read_object", json!({"cid": "nonsense"})).await;
    assert_eq!(said["error"], "cid_not_found", "{said}");
}

#[tokio::test]
async fn without_a_journal_there_are_no_records() {
    let gateway = super::gateway(&[], &["records"]).await;
    let client = gateway.client().await;
    let said = fails(&client, "get_call_records", json!({})).await;
    assert_eq!(said["error"], "journal_disabled", "{said}");
}
