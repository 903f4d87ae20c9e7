//! Records of calls, with and without a daemon (L1, L7).

use std::fs;

use mainstay_testkit::{Home, Run, home, within};
use serde_json::{Value, json};

use crate::fakes::fakes;

const TEXT: &str = "looked up";

/// Waits until this number of calls is recorded. Returns the query's output.
pub async fn until_recorded(home: &Home, calls: u64, arguments: &[&str]) -> Value {
    let all_arguments = [&["records", "--json"], arguments].concat();
    within(async {
        loop {
            let matching_output = home.run(&all_arguments).await.json();
            if matching_output["total_count"] == calls {
                return matching_output;
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
async fn assert_lookup(home: &Home, call: &Value, extra_arguments: &[&str]) {
    let run = async |arguments: &[&str]| home.run(&[arguments, extra_arguments].concat()).await;
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
    let absent_run = run(&["records", "4711", "--json"]).await;
    assert_eq!(absent_run.code, Some(4), "{absent_run}");
    let absent_run = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
    let absent_run = run(&["object", absent_run, "--json"]).await;
    assert_eq!(absent_run.code, Some(4), "{absent_run}");
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
    let records_output = until_recorded(&home, 3, &[]).await;
    let calls = records_output["calls"].as_array().expect("calls");
    assert_eq!(calls[2]["door"], "cli", "{records_output}");
    assert_lookup(&home, &calls[2], &[]).await;

    // Read the list page by page.
    let page = home.run(&["records", "--limit", "1"]).await;
    assert_eq!(page.stdout.lines().count(), 2, "{page}");
    let (rest, cursor) = page.stderr.trim_end().rsplit_once(' ').expect("words");
    assert_eq!(rest, "1 of 3; the next page: --before", "{page}");
    let page = until_recorded(&home, 3, &["--limit", "1", "--before", cursor]).await;
    assert_eq!(page["calls"][0]["id"], calls[1]["id"], "{page}");
    until_recorded(&home, 1, &["--text", "KE/ECH"]).await;
    // Search in errors and in arguments.
    for (text, count) in [
        ("The Tool FAILED", 1),
        ("tool_error", 1),
        ("looked UP", 1),
        ("\"a\":2", 1),
        ("fake/", 3),
        ("nothing says this", 0),
    ] {
        let records_output = until_recorded(&home, count, &["--text", text]).await;
        assert_eq!(
            records_output["searched_back_to"],
            Value::Null,
            "{records_output}"
        );
    }
    let page = home
        .run(&["records", "--text", "fake", "--limit", "1"])
        .await;
    let next_text = format!("the newest 1; the next page: --before {cursor}\n");
    assert_eq!(page.stderr, next_text, "{page}");
    let export = ["records", "export", "--format", "jsonl", "--text", "failed"];
    let exported_run = home.run(&export).await;
    assert_eq!(exported_run.stdout.lines().count(), 1, "{exported_run}");
    assert_eq!(exported_run.json()["name"], "fake/error", "{exported_run}");
    until_recorded(&home, 0, &["--session", "nobody"]).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    until_recorded(&home, 0, &["--trace", trace]).await;
    let invalid_run = home.run(&["records", "--trace", &trace[1..]]).await;
    assert_eq!(invalid_run.code, Some(2), "{invalid_run}");
    assert!(
        invalid_run.stderr.contains("32 hexadecimal digits"),
        "{invalid_run}"
    );
    until_recorded(&home, 1, &["--status", "error", "--tool", "error"]).await;

    let stats = ["stats", "--since", "1h", "--server", "fake"];
    let full_arguments = [&stats[..], &["--json"]].concat();
    // Wait for the sums, which are updated every second.
    within(async {
        loop {
            let records_output = home.run(&full_arguments).await.json();
            let tools = records_output["tools"].as_array().expect("tools");
            if tools.len() == 3 {
                assert!(
                    tools.iter().all(|tool| tool["total"]["calls"] == 1),
                    "{records_output}"
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
    let empty_run = home
        .run(&["stats", "--until", "2020-01-01T00:00:00Z"])
        .await;
    assert_eq!(
        empty_run.stderr, "no calls on record that fit\n",
        "{empty_run}"
    );
    let unknown_run = home.run(&["stats", "--server", "nosuch"]).await;
    assert_eq!(unknown_run.code, Some(4), "{unknown_run}");
    for command in ["records", "history"] {
        let refused_run = home.run(&[command, "--limit", "0"]).await;
        assert_eq!(refused_run.code, Some(2), "{refused_run}");
    }
    let no_lines_run = home.run(&["logs", "fake", "-n", "0"]).await;
    assert_eq!(
        (&*no_lines_run.stdout, &*no_lines_run.stderr),
        ("", ""),
        "{no_lines_run}"
    );
    let full_arguments = home.run(&["records", "--json"]).await.json();
    daemon.stop().await;
    // Without the daemon, the records are the same.
    assert_eq!(until_recorded(&home, 3, &[]).await, full_arguments);
    until_recorded(&home, 1, &["--text", "the tool failed"]).await;
    until_recorded(&home, 1, &["--text", TEXT]).await;
    assert_lookup(&home, &calls[2], &[]).await;
}

/// A call has one record, whichever door it came through. Lookups work without a daemon.
#[tokio::test]
async fn a_call_is_looked_up_where_there_is_no_daemon() {
    let home = home!();
    let empty_run = home.run(&["records", "--json"]).await;
    assert_eq!(empty_run.code, Some(3), "{empty_run}");
    let config = fakes(&home, &[("fake", &[])]);
    let argument = format!("text={TEXT}");
    let call = ["call", "fake/echo", &argument, "--config", &config];
    for calls in 1..=2 {
        assert_eq!(home.run(&call).await.code, Some(0));
        let matching_output = home.run(&["records", "--json"]).await.json();
        assert_eq!(matching_output["total_count"], calls, "{matching_output}");
    }
    let matching_output = home
        .run(&["records", "--json", "--limit", "1"])
        .await
        .json();
    let newest_call = &matching_output["calls"][0];
    let (instance, number) = text(newest_call, "id")
        .split_once('/')
        .expect("an instance");
    assert_eq!(number, "2", "{matching_output}");
    assert_eq!(
        matching_output["next"], newest_call["id"],
        "{matching_output}"
    );
    assert_lookup(&home, newest_call, &[]).await;
    let older_arguments = [
        "records",
        "--json",
        "--before",
        text(&matching_output, "next"),
    ];
    let older_arguments = home.run(&older_arguments).await.json();
    assert_eq!(
        older_arguments["calls"][0]["id"],
        format!("{instance}/1"),
        "{older_arguments}"
    );
    for (option, code) in [
        ("--status", 2),
        ("--door", 2),
        ("--before", 2),
        ("--instance", 4),
    ] {
        let refused_run = home.run(&["records", option, "x!"]).await;
        assert_eq!(refused_run.code, Some(code), "{refused_run}");
    }

    // A daemon lists only its own calls. `--instance` selects those of another run.
    let daemon = home.serve(&["--config", &config]).await;
    until_recorded(&home, 0, &[]).await;
    until_recorded(&home, 2, &["--instance", instance]).await;
    assert_lookup(&home, newest_call, &["--instance", instance]).await;
    home.run(&["call", "fake/add", "a=1", "b=2"]).await;
    until_recorded(&home, 1, &[]).await;
    daemon.stop().await;
    // Read two pages, the newest first.
    let matching_output = until_recorded(&home, 3, &["--limit", "2"]).await;
    assert_eq!(matching_output["calls"][0]["id"], "1", "{matching_output}");
    assert_eq!(
        matching_output["calls"][1]["id"], newest_call["id"],
        "{matching_output}"
    );
    assert_eq!(matching_output["next"], Value::Null, "{matching_output}");
}

/// A daemon records calls and objects.
#[tokio::test]
async fn a_daemon_always_has_records_and_objects() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let argument = format!("text={TEXT}");
    home.run(&["call", "fake/echo", &argument]).await;
    let records_output = until_recorded(&home, 1, &[]).await;
    assert_lookup(&home, &records_output["calls"][0], &[]).await;
    daemon.stop().await;

    // If a file is at the journal's path, only a strict daemon refuses to run.
    let journal = home.state().join("journal");
    fs::remove_dir_all(&journal).expect("it was there");
    fs::write(&journal, "").expect("written");
    let strict_config = json!({
        "mcpServers": {"fake": {"command": fake_server::binary()}},
        "journal": {"durability": "strict"},
    });
    let strict_config = home.file("strict.json", &strict_config.to_string());
    let refused_run = home
        .run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--config",
            &strict_config,
        ])
        .await;
    assert_eq!(refused_run.code, Some(1), "{refused_run}");
    assert!(
        refused_run
            .stderr
            .contains(journal.to_str().expect("UTF-8")),
        "{refused_run}"
    );
    let daemon = home.serve(&["--config", &config]).await;
    home.run(&["call", "fake/echo", &argument]).await;
    let records_output = until_recorded(&home, 1, &[]).await;
    assert_lookup(&home, &records_output["calls"][0], &[]).await;
    daemon.stop().await;
}

/// In strict mode, calls that cannot be recorded are refused (L2).
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
    let (strict_config, relaxed_config) = (config("strict"), config("relaxed"));
    let run = async |command: &[&str], config: &str| -> Run {
        home.run(&[command, &["--config", config]].concat()).await
    };
    let call: &[&str] = &["call", "fake/echo", "text=x"];

    // A file is at the path of the state directory.
    fs::write(home.state(), "").expect("written");
    for command in [call, &["mcp"]] {
        let refused_run = run(command, &strict_config).await;
        assert_eq!(refused_run.code, Some(1), "{refused_run}");
        let reason = "error: calls cannot be put on record, and no call is to go unrecorded: the state directory ";
        assert!(refused_run.stderr.contains(reason), "{refused_run}");
        let unjournaled_run = run(command, &relaxed_config).await;
        assert_eq!(unjournaled_run.code, Some(0), "{unjournaled_run}");
    }
    fs::remove_file(home.state()).expect("removed");

    for config in [&strict_config, &relaxed_config] {
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
    for config in [&strict_config, &relaxed_config] {
        for command in [call, &["mcp"]] {
            let refused_run = run(command, config).await;
            assert_eq!(refused_run.code, Some(1), "{refused_run}");
            assert!(
                refused_run.stderr.contains("journal.db is of version 99"),
                "{refused_run}"
            );
        }
    }
}
