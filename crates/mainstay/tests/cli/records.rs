//! Records of calls and their lookup, with a daemon and without (L1, L7).

use std::fs;

use mainstay_testkit::{Home, Run, home, within};
use serde_json::{Value, json};

use crate::fakes::fakes;

const TEXT: &str = "looked up";

/// Waits until this number of calls is recorded. Returns the output of the query.
pub async fn recorded(home: &Home, calls: u64, arguments: &[&str]) -> Value {
    let all = [&["records", "--json"], arguments].concat();
    within(async {
        loop {
            let found = home.run(&all).await.json();
            if found["total_count"] == calls {
                return found;
            }
        }
    })
    .await
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    let text = value[member].as_str();
    text.unwrap_or_else(|| panic!("no {member} in {value}"))
}

/// Looks up a call by its id, and its arguments by their CID.
async fn looks_up(home: &Home, call: &Value, more: &[&str]) {
    let run = async |arguments: &[&str]| home.run(&[arguments, more].concat()).await;
    let record = run(&["records", text(call, "id")]).await;
    for part in [
        "tools/call fake/echo",
        "status     ok",
        "state      answered",
        TEXT,
    ] {
        assert!(record.stdout.contains(part), "{part}: {record}");
    }
    let object = run(&["object", text(call, "arguments_cid")]).await;
    assert_eq!(object.json(), json!({"text": TEXT}), "{object}");
    let absent = run(&["records", "4711", "--json"]).await;
    assert_eq!(absent.code, Some(4), "{absent}");
    let absent = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
    let absent = run(&["object", absent, "--json"]).await;
    assert_eq!(absent.code, Some(4), "{absent}");
}

#[tokio::test]
async fn a_call_is_looked_up_where_the_daemon_recorded_it() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let argument = format!("text={TEXT}");
    for arguments in [
        ["fake/echo", &*argument],
        ["fake/add", "a=2"],
        ["fake/error", "b=1"],
    ] {
        home.run(&[&["call"], &arguments[..]].concat()).await;
    }
    let found = recorded(&home, 3, &[]).await;
    let calls = found["calls"].as_array().expect("calls");
    assert_eq!(calls[2]["door"], "cli", "{found}");
    looks_up(&home, &calls[2], &[]).await;

    // Page by page, with the cursors of the output.
    let page = home.run(&["records", "--limit", "1"]).await;
    assert_eq!(page.stdout.lines().count(), 2, "{page}");
    let (rest, before) = page.stderr.trim_end().rsplit_once(' ').expect("words");
    assert_eq!(rest, "1 of 3; the next page: --before", "{page}");
    let page = recorded(&home, 3, &["--limit", "1", "--before", before]).await;
    assert_eq!(page["calls"][0]["id"], calls[1]["id"], "{page}");
    recorded(&home, 1, &["--text", "KE/ECH"]).await;
    // By their texts: the error and the arguments.
    for (text, count) in [
        ("The Tool FAILED", 1),
        ("tool_error", 1),
        ("looked UP", 1),
        ("\"a\":2", 1),
        ("fake/", 3),
        ("nothing says this", 0),
    ] {
        let found = recorded(&home, count, &["--text", text]).await;
        assert_eq!(found["searched_back_to"], Value::Null, "{found}");
    }
    let page = home
        .run(&["records", "--text", "fake", "--limit", "1"])
        .await;
    let next = format!("the newest 1; the next page: --before {before}\n");
    assert_eq!(page.stderr, next, "{page}");
    let export = ["records", "export", "--format", "jsonl", "--text", "failed"];
    let exported = home.run(&export).await;
    assert_eq!(exported.stdout.lines().count(), 1, "{exported}");
    assert_eq!(exported.json()["name"], "fake/error", "{exported}");
    recorded(&home, 0, &["--session", "nobody"]).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    recorded(&home, 0, &["--trace", trace]).await;
    let bad = home.run(&["records", "--trace", &trace[1..]]).await;
    assert_eq!(bad.code, Some(2), "{bad}");
    assert!(bad.stderr.contains("32 hexadecimal digits"), "{bad}");
    recorded(&home, 1, &["--status", "error", "--tool", "error"]).await;

    let stats = ["stats", "--since", "1h", "--server", "fake"];
    let whole = [&stats[..], &["--json"]].concat();
    // The sums are updated every second.
    within(async {
        loop {
            let found = home.run(&whole).await.json();
            let tools = found["tools"].as_array().expect("tools");
            if tools.len() == 3 {
                assert!(
                    tools.iter().all(|tool| tool["total"]["calls"] == 1),
                    "{found}"
                );
                return;
            }
        }
    })
    .await;
    let run = home.run(&stats).await;
    let rows = run.rows();
    assert_eq!(
        rows[0],
        [
            "CALL", "CALLS", "ERRORS", "P50", "P95", "P99", "SENT", "GOT"
        ]
    );
    for (name, errors) in [("fake/add", "0"), ("fake/echo", "0"), ("fake/error", "1")] {
        let row = rows.iter().find(|row| row[0] == name);
        assert_eq!(row.map(|row| &row[1..3]), Some(&["1", errors][..]), "{run}");
    }
    let none = home
        .run(&["stats", "--until", "2020-01-01T00:00:00Z"])
        .await;
    assert_eq!(none.stderr, "no calls on record that fit\n", "{none}");
    let unknown = home.run(&["stats", "--server", "nosuch"]).await;
    assert_eq!(unknown.code, Some(4), "{unknown}");
    for command in ["records", "history"] {
        let refused = home.run(&[command, "--limit", "0"]).await;
        assert_eq!(refused.code, Some(2), "{refused}");
    }
    let nothing = home.run(&["logs", "fake", "-n", "0"]).await;
    assert_eq!((&*nothing.stdout, &*nothing.stderr), ("", ""), "{nothing}");
    let whole = home.run(&["records", "--json"]).await.json();
    daemon.stop().await;
    // The records of the stopped daemon are the same.
    assert_eq!(recorded(&home, 3, &[]).await, whole);
    recorded(&home, 1, &["--text", "the tool failed"]).await;
    recorded(&home, 1, &["--text", TEXT]).await;
    looks_up(&home, &calls[2], &[]).await;
}

/// One record for each call, from every door, without a daemon, too.
#[tokio::test]
async fn a_call_is_looked_up_where_there_is_no_daemon() {
    let home = home!();
    let none = home.run(&["records", "--json"]).await;
    assert_eq!(none.code, Some(3), "{none}");
    let config = fakes(&home, &[("fake", &[])]);
    let argument = format!("text={TEXT}");
    let call = ["call", "fake/echo", &argument, "--config", &config];
    for calls in 1..=2 {
        assert_eq!(home.run(&call).await.code, Some(0));
        let found = home.run(&["records", "--json"]).await.json();
        assert_eq!(found["total_count"], calls, "{found}");
    }
    let found = home
        .run(&["records", "--json", "--limit", "1"])
        .await
        .json();
    let newest = &found["calls"][0];
    let (instance, number) = text(newest, "id").split_once('/').expect("an instance");
    assert_eq!(number, "2", "{found}");
    assert_eq!(found["next"], newest["id"], "{found}");
    looks_up(&home, newest, &[]).await;
    let older = ["records", "--json", "--before", text(&found, "next")];
    let older = home.run(&older).await.json();
    assert_eq!(older["calls"][0]["id"], format!("{instance}/1"), "{older}");
    for (word, code) in [
        ("--status", 2),
        ("--door", 2),
        ("--before", 2),
        ("--instance", 4),
    ] {
        let refused = home.run(&["records", word, "x!"]).await;
        assert_eq!(refused.code, Some(code), "{refused}");
    }

    // A daemon reports its own calls. Another instance can be named.
    let daemon = home.serve(&["--config", &config]).await;
    recorded(&home, 0, &[]).await;
    recorded(&home, 2, &["--instance", instance]).await;
    looks_up(&home, newest, &["--instance", instance]).await;
    home.run(&["call", "fake/add", "a=1", "b=2"]).await;
    recorded(&home, 1, &[]).await;
    daemon.stop().await;
    // All of them, newest first.
    let found = recorded(&home, 3, &["--limit", "2"]).await;
    assert_eq!(found["calls"][0]["id"], "1", "{found}");
    assert_eq!(found["calls"][1]["id"], newest["id"], "{found}");
    assert_eq!(found["next"], Value::Null, "{found}");
}

/// A daemon without settings has call records and an object store.
#[tokio::test]
async fn a_daemon_always_has_records_and_objects() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let argument = format!("text={TEXT}");
    home.run(&["call", "fake/echo", &argument]).await;
    let found = recorded(&home, 1, &[]).await;
    looks_up(&home, &found["calls"][0], &[]).await;
    daemon.stop().await;

    // A file in the journal's place does not remove them, unless each call must be recorded.
    let journal = home.state().join("journal");
    fs::remove_dir_all(&journal).expect("it was there");
    fs::write(&journal, "").expect("written");
    let strict = json!({
        "mcpServers": {"fake": {"command": fake_server::binary()}},
        "journal": {"durability": "strict"},
    });
    let strict = home.file("strict.json", &strict.to_string());
    let refused = home
        .run(&["serve", "--listen", "127.0.0.1:0", "--config", &strict])
        .await;
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(
        refused.stderr.contains(journal.to_str().expect("UTF-8")),
        "{refused}"
    );
    let daemon = home.serve(&["--config", &config]).await;
    home.run(&["call", "fake/echo", &argument]).await;
    let found = recorded(&home, 1, &[]).await;
    looks_up(&home, &found["calls"][0], &[]).await;
    daemon.stop().await;
}

/// In strict mode no caller gets a call without a record (L2).
#[tokio::test]
async fn strict_is_never_silently_no_journal() {
    let home = home!();
    let program = fake_server::binary();
    let config = |durability: &str| {
        let config = json!({
            "mcpServers": {"fake": {"command": program}},
            "journal": {"durability": durability},
        });
        home.file(&format!("{durability}.json"), &config.to_string())
    };
    let (strict, relaxed) = (config("strict"), config("relaxed"));
    let run = async |command: &[&str], config: &str| -> Run {
        home.run(&[command, &["--config", config]].concat()).await
    };
    let call: &[&str] = &["call", "fake/echo", "text=x"];

    // No folder can be created below a file.
    fs::write(home.state(), "").expect("written");
    for command in [call, &["mcp"]] {
        let refused = run(command, &strict).await;
        assert_eq!(refused.code, Some(1), "{refused}");
        let reason = "error: calls cannot be put on record, and no call is to go unrecorded: the state directory ";
        assert!(refused.stderr.contains(reason), "{refused}");
        let without = run(command, &relaxed).await;
        assert_eq!(without.code, Some(0), "{without}");
    }
    fs::remove_file(home.state()).expect("removed");

    for config in [&strict, &relaxed] {
        assert_eq!(run(call, config).await.code, Some(0));
    }
    for instance in fs::read_dir(home.state().join("instances")).expect("a folder") {
        let journal = instance
            .expect("an entry")
            .path()
            .join("journal/journal.db");
        let journal = rusqlite::Connection::open(journal).expect("a database");
        journal
            .pragma_update(None, "user_version", 99)
            .expect("set");
    }
    for config in [&strict, &relaxed] {
        for command in [call, &["mcp"]] {
            let refused = run(command, config).await;
            assert_eq!(refused.code, Some(1), "{refused}");
            assert!(
                refused.stderr.contains("journal.db is of version 99"),
                "{refused}"
            );
        }
    }
}
