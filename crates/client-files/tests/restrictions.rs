//! Tests of clients' rules about servers, inside and outside of the entries.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use mainstay_client_files::{
    ClientFile, ClientKind, FileFormat, FoundServer, Machine, System, files_of, find,
    left_out_by_list, servers,
};
use serde_json::{Value, json};

/// Prints the servers of the home folders in `homes`, with all notes.
#[test]
fn rules_in_other_files_of_a_client() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
    let homes = fs::read_dir(&root).expect("homes");
    let mut homes: Vec<PathBuf> = homes.map(|home| home.expect("a home").path()).collect();
    homes.sort();
    let mut text = String::new();
    for home in homes {
        let machine = Machine::new(System::Linux, &home).with_project(Some(home.join("app")));
        let machine = Machine {
            claude_managed_dir: Some(home.join("managed")),
            ..machine
        };
        for file in find(&machine).into_iter().flat_map(|found| found.files) {
            let found = servers(&file.file, file.text.as_ref().expect("a text")).expect("read");
            writeln!(text, "{}", file.file.path.display()).expect("a text");
            for server in &found {
                let entry = Value::Object(server.entry.clone());
                writeln!(text, "  {} {entry}", server.label).expect("a text");
                for note in server.reports() {
                    writeln!(text, "    {:?} {}: {}", note.fate, note.key, note.text)
                        .expect("a text");
                }
            }
        }
    }
    assert!(!text.contains("s3cret"), "{text}");
    let root = root.display().to_string();
    insta::assert_snapshot!(text.replace(&root, "").replace('\\', "/"));
}

fn file(client: ClientKind) -> ClientFile {
    let machine = Machine::new(System::Linux, "/home/me");
    ClientFile {
        format: FileFormat::Json,
        ..files_of(client, &machine).swap_remove(0)
    }
}

fn one(client: ClientKind, section: &str, entry: &Value) -> FoundServer {
    let whole = json!({ section: { "s": entry } });
    let found = servers(&file(client), &whole.to_string());
    found.expect("it can be read").swap_remove(0)
}

fn reports(server: &FoundServer) -> Vec<String> {
    let reports = server.reports();
    let texts = reports.map(|note| format!("{}: {}", note.key, note.text));
    texts.collect()
}

#[test]
fn a_list_that_leaves_mainstay_out_is_found() {
    for (client, whole, mend) in [
        (
            ClientKind::GeminiCli,
            json!({"mcp": {"allowed": ["a"]}}),
            "add \"mainstay\" to that list",
        ),
        (
            ClientKind::ClaudeCode,
            json!({"deniedMcpServers": [{"serverName": "mainstay"}]}),
            "take \"mainstay\" out of that list",
        ),
        (
            ClientKind::ClaudeCode,
            json!({"allowedMcpServers": [{"serverName": "a"}]}),
            "add {\"serverName\": \"mainstay\"} to that list",
        ),
        (
            ClientKind::Opencode,
            json!({"tools": {"*": false}}),
            "add \"mainstay_*\": true to that list",
        ),
        (
            ClientKind::Opencode,
            json!({"permission": "deny"}),
            "add \"mainstay_*\": \"allow\" to that list",
        ),
        (
            ClientKind::Zed,
            json!({"agent": {"profiles": {"write": {"enable_all_context_servers": false}}}}),
            "set it to true, or name tools in agent.profiles.write.context_servers.mainstay.tools",
        ),
        (
            ClientKind::Zed,
            json!({"agent": {"default_profile": "minimal"}}),
            "set it to true, or name tools in agent.profiles.minimal.context_servers.mainstay.tools",
        ),
        (
            ClientKind::AmazonQ,
            json!({"tools": ["@a"]}),
            "add \"@mainstay\" to that list",
        ),
        (
            ClientKind::QwenCode,
            json!({"permissions": {"deny": ["mcp__*"]}}),
            "take \"mcp__*\" out of that list",
        ),
    ] {
        let file = file(client);
        let section = file.sections(&whole).swap_remove(0);
        let note = left_out_by_list(&file, &whole, &section, "mainstay");
        let note = note.unwrap_or_else(|| panic!("{client}: {whole}"));
        assert!(note.text.ends_with(mend), "{}", note.text);
    }
    for (client, whole) in [
        (
            ClientKind::Opencode,
            json!({"tools": {"*": false, "mainstay_*": true}}),
        ),
        (ClientKind::Opencode, json!({"tools": {"bash": false}})),
        (
            ClientKind::ClaudeCode,
            json!({"permissions": {"deny": ["mcp__a"]}}),
        ),
        (
            ClientKind::Zed,
            json!({"agent": {"profiles": {"other": {"enable_all_context_servers": false}}}}),
        ),
    ] {
        let file = file(client);
        let section = file.sections(&whole).swap_remove(0);
        let note = left_out_by_list(&file, &whole, &section, "mainstay");
        assert_eq!(note, None, "{client}: {whole}");
    }
}

#[test]
fn a_switch_in_another_spelling_is_that_switch() {
    for entry in [
        json!({"command": "x", "Disabled": true}),
        json!({"command": "x", "is_active": false}),
        json!({"command": "x", "active": false}),
    ] {
        let server = one(ClientKind::Cursor, "mcpServers", &entry);
        assert_eq!(server.entry["enabled"], false, "{entry}");
    }
    let server = one(
        ClientKind::Cursor,
        "mcpServers",
        &json!({"command": "x", "disabled-tools": ["a"]}),
    );
    assert_eq!(server.entry["disabledTools"], json!(["a"]));
    assert_eq!(
        reports(&server),
        ["disabled-tools: taken as `disabledTools`"]
    );
}

#[test]
fn an_unknown_restriction_of_tools_disables_the_server() {
    for key in [
        "toolFilter",
        "tool_filter",
        "blockedTools",
        "denyTools",
        "toolsWhitelist",
        "tool-blacklist",
        "onlyTools",
    ] {
        let server = one(
            ClientKind::Cursor,
            "mcpServers",
            &json!({"command": "x", key: ["a"]}),
        );
        assert_eq!(server.entry["enabled"], false, "{key}");
        assert!(!server.is_movable(), "{key}");
    }
    for entry in [
        json!({"command": "x", "toolFilter": []}),
        json!({"command": "x", "alwaysAllowTools": ["a"]}),
        json!({"command": "x", "toolbar": true}),
    ] {
        let server = one(ClientKind::Cursor, "mcpServers", &entry);
        assert!(server.is_movable(), "{entry}");
    }
}

/// Our lists contain names only, so a pattern would match no tool.
#[test]
fn patterns_in_lists_of_tools_are_no_names() {
    let server = one(
        ClientKind::Roo,
        "mcpServers",
        &json!({"command": "x", "disabledTools": ["*"]}),
    );
    assert_eq!(server.entry["enabled"], false);
    assert!(server.is_movable());
    for key in ["disabledTools", "allowedTools"] {
        let server = one(
            ClientKind::Roo,
            "mcpServers",
            &json!({"command": "x", key: ["a", "delete_*"]}),
        );
        assert_eq!(server.entry["enabled"], false, "{key}");
        assert!(!server.is_movable(), "{key}");
    }
}

#[test]
fn a_file_that_counts_seconds_does_so_for_every_server() {
    let whole = json!({"mcpServers": {
        "a": {"command": "a", "timeout": 60},
        "b": {"command": "b", "timeout": 3600},
        "c": {"command": "c", "timeout": 60000},
    }});
    let found = servers(&file(ClientKind::Cursor), &whole.to_string()).expect("read");
    let times: Vec<&Value> = found
        .iter()
        .map(|server| &server.entry["timeout_s"])
        .collect();
    assert_eq!(times, [60, 3600, 60]);
    assert_eq!(
        reports(&found[1]),
        ["timeout: taken as 3600 seconds, as that of another server in this file has to be"]
    );
}

#[test]
fn an_agent_restricts_its_servers_wherever_its_file_lies() {
    let text = json!({
        "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}},
        "tools": ["read", "@a/get", "@b"],
    });
    let machine = Machine::new(System::Linux, "/home/me");
    for path in [
        "/home/me/.kiro/agents/clerk.json",
        "/home/me/.aws/amazonq/cli-agents/clerk.json",
        "/home/me/clerk.json",
    ] {
        let file = ClientFile::recognize(Path::new(path), &text.to_string(), &machine);
        let found = servers(&file.expect("a file"), &text.to_string()).expect("read");
        assert_eq!(found[0].entry["allowedTools"], json!(["get"]), "{path}");
        assert!(!found[1].entry.contains_key("enabled"), "{path}");
        assert_eq!(found[2].entry["enabled"], false, "{path}");
    }
}
