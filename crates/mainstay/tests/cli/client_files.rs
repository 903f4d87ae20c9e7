//! `import` and `export` with the files of other MCP clients in a test home.

use std::fs;

use insta::assert_snapshot;
use mainstay_testkit::{Home, home};
use serde_json::{Value, json};

use crate::fakes::fakes;

const CURSOR: &str = r#"{
  // the team's
  "mcpServers": {
    "files": { "command": "env", "args": ["-y", "server-files"], "env": { "API_KEY": "very-secret" } },
    "tracker": { "url": "https://tracker.example.com/mcp", "headers": { "Authorization": "Bearer very-secret" } },
    "mainstay": { "command": "mainstay", "args": ["connect"] },
  },
  "other": 1
}
"#;

const CODEX: &str = r#"model = "o3" # the good one

[mcp_servers.files]
command = "env"
args = ["-y", "server-files"]
env = { API_KEY = "very-secret" }

[mcp_servers.tracker]
url = "https://other.example.com/mcp"
tool_timeout_sec = 20
enabled_tools = ["search"]
"#;

const GOOSE: &str = "# goose\nextensions:\n  memory:\n    type: builtin\n    enabled: true\n  git:\n    type: stdio\n    cmd: env\n    args: [mcp-server-git]\n    env_keys: [GIT_TOKEN]\n    enabled: false\n";

fn put(home: &Home, path: &str, text: &str) {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

fn read(home: &Home, path: &str) -> String {
    fs::read_to_string(home.path().join(path)).expect(path)
}

fn three_clients(home: &Home) {
    put(home, ".cursor/mcp.json", CURSOR);
    put(home, ".codex/config.toml", CODEX);
    put(home, ".config/goose/config.yaml", GOOSE);
}

#[tokio::test]
async fn the_servers_of_all_clients_are_imported() {
    let home = home!();
    three_clients(&home);
    let dry_run = home.run(&["import", "--dry-run"]).await;
    assert_eq!(dry_run.code, Some(0), "{dry_run}");
    assert!(!home.state().join("config.json").exists());
    let transcript = home
        .transcript(&[&["import"], &["import"], &["validate"]])
        .await;
    assert!(!transcript.contains("very-secret"), "{transcript}");
    assert!(!dry_run.to_string().contains("very-secret"), "{dry_run}");
    assert_snapshot!(transcript);
    assert_snapshot!("the_configuration", read(&home, "state/config.json"));
    // Importing leaves the client files unchanged.
    assert_eq!(read(&home, ".cursor/mcp.json"), CURSOR);
    assert_eq!(read(&home, ".codex/config.toml"), CODEX);
}

#[tokio::test]
async fn existing_entries_are_not_overwritten() {
    let home = home!();
    put(&home, ".cursor/mcp.json", CURSOR);
    let own_text = "// mine\n{\n  \"mcpServers\": {\n    \"files\": {\"command\": \"mine\"}, // first\n    \"t\": {\"url\": \"https://tracker.example.com/mcp\", \"headers\": {\"Authorization\": \"Bearer very-secret\"}}\n  }\n}\n";
    let config = home.file("mine.jsonc", own_text);
    let run = home.run(&["import", "--json", "--config", &config]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let report = run.json();
    let names: Vec<&Value> = report["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|server| &server["name"])
        .collect();
    assert_eq!(names, ["files-cursor", "t"]);
    assert_eq!(report["servers"][0]["new"], true);
    assert_eq!(report["servers"][1]["new"], false);
    assert_eq!(report["leftOut"][0]["name"], "mainstay");
    assert!(!run.stdout.contains("very-secret"), "{run}");
    let after = read(&home, "mine.jsonc");
    assert!(
        after.contains("// mine") && after.contains("// first"),
        "{after}"
    );
    assert!(
        after.contains("\"files\": {\"command\": \"mine\"}"),
        "{after}"
    );
    assert!(after.contains("\"files-cursor\""), "{after}");
}

/// Servers that the user has refused in Claude Code are imported as disabled.
#[tokio::test]
async fn servers_of_a_project_that_claude_code_leaves_out_are_disabled() {
    let home = home!();
    let project = home.path().join("app");
    let servers = json!({"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}});
    put(&home, "app/.mcp.json", &servers.to_string());
    put(
        &home,
        "app/.claude/settings.local.json",
        r#"{"disabledMcpjsonServers": ["b"]}"#,
    );
    let settings =
        json!({"projects": {project.to_str().expect("UTF-8"): {"disabledMcpjsonServers": ["a"]}}});
    put(&home, ".claude.json", &settings.to_string());
    let run = home
        .run(&["import", "--from", "app/.mcp.json", "--json"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let report = run.json();
    let enabled_servers = report["servers"].as_array().expect("servers").iter();
    let enabled_servers: Vec<&Value> = enabled_servers
        .map(|entry| &entry["entry"]["enabled"])
        .collect();
    assert_eq!(
        enabled_servers,
        [&json!(false), &json!(false), &Value::Null],
        "{report}"
    );
}

#[tokio::test]
async fn a_running_daemon_takes_what_is_imported() {
    let home = home!();
    let config = fakes(&home, &[("good", &[])]);
    let text = fs::read_to_string(&config).expect("a configuration");
    put(&home, ".cursor/mcp.json", &text);
    put(&home, "state/config.json", "{\"mcpServers\": {}}\n");
    let mut perms = fs::metadata(home.state()).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut perms, 0o700);
    fs::set_permissions(home.state(), perms).expect("set");
    let daemon = home.serve(&[]).await;
    let run = home.run(&["import"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stderr, "", "{run}");
    let call = home.run(&["call", "good/echo", "text=imported"]).await;
    assert!(call.stdout.contains("imported"), "{call}");
    daemon.stop().await;
}

#[tokio::test]
async fn entries_that_cannot_be_imported_are_reported() {
    let home = home!();
    put(&home, ".cursor/mcp.json", "{\"mcpServers\": {\"a\" 1}}");
    put(&home, "notes.txt", "nothing");
    assert_snapshot!(
        home.transcript(&[
            &["import"],
            &["import", "--from", "cursor"],
            &["import", "--from", "codex"],
            &["import", "--from", "cursur"],
            &["import", "--from", "./nowhere.json"],
            &["import", "--from", "notes.txt"],
            &["import", "--from", "cursor", "--json"],
            &["export", "--for", "emacs"],
            &["export", "--for", "zed"],
            &["export", "--for", "claude-desktop", "--http"],
        ])
        .await
    );
}

#[tokio::test]
async fn the_servers_are_exported_in_each_clients_words() {
    let home = home!();
    let config = json!({"mcpServers": {
        "files": {"command": "env", "args": ["-y", "f"], "env": {"K": "${K}"}, "timeout_s": 20, "disabledTools": ["rm"]},
        "web": {"url": "https://w.example.com/mcp", "bearerToken": "${T}", "preset": "manual"},
    }});
    let config = home.file("config.json", &config.to_string());
    let export = |client| ["export", "--config", config.as_str(), "--for", client];
    assert_snapshot!(
        home.transcript(&[
            &export("codex"),
            &export("goose"),
            &export("continue"),
            &export("opencode"),
            &export("windsurf"),
            &export("claude-desktop"),
        ])
        .await
    );
}

#[tokio::test]
async fn a_client_is_pointed_at_mainstay() {
    let home = home!();
    three_clients(&home);
    let point = |client| {
        [
            "export",
            "--for",
            client,
            "--connect",
            "--write",
            "--replace",
        ]
    };
    for client in ["cursor", "codex", "goose"] {
        let run = home.run(&point(client)).await;
        assert_eq!(run.code, Some(0), "{run}");
        let repeated_run = home.run(&point(client)).await;
        assert!(
            repeated_run.stdout.contains("has it already"),
            "{repeated_run}"
        );
    }
    let text = [
        read(&home, ".cursor/mcp.json"),
        read(&home, ".codex/config.toml"),
        read(&home, ".config/goose/config.yaml"),
    ]
    .join("---\n");
    let text = text.replace(env!("CARGO_BIN_EXE_mainstay"), "[MAINSTAY]");
    assert_snapshot!(home.redacted(&text));
    assert_eq!(read(&home, ".cursor/mcp.json.mainstay-backup"), CURSOR);
    assert_eq!(read(&home, ".codex/config.toml.mainstay-backup"), CODEX);
    // The client's file contains only Mainstay now.
    let run = home.run(&["import", "--from", "codex"]).await;
    assert!(
        run.stdout
            .contains("left out: mainstay of Codex: it is Mainstay itself"),
        "{run}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_written_in_place_is_pasted() {
    let home = home!();
    let flow = "extensions: {git: {type: stdio, cmd: env, args: []}} # all in one\n";
    put(&home, ".config/goose/config.yaml", flow);
    assert_snapshot!(
        home.transcript(&[&["export", "--for", "goose", "--http", "--write", "--replace"]])
            .await
    );
    assert_eq!(read(&home, ".config/goose/config.yaml"), flow);
}

/// An empty client file has no servers to import.
#[tokio::test]
async fn a_file_without_servers_says_so() {
    let home = home!();
    let empty_file = home.file("empty.json", r#"{"mcpServers": {}}"#);
    let run = home.run(&["import", "--from", &empty_file]).await;
    let expected_error = "nothing to import: no server was found that could be taken";
    assert!(run.stdout.contains(expected_error), "{run}");
    assert_eq!(run.code, Some(0), "{run}");
}

/// All keys that these programs share with Mainstay are imported. Disabled servers are imported as
/// well.
#[tokio::test]
async fn files_of_programs_that_mainstay_replaces_are_imported_with_every_key() {
    let files = [
        (
            ".pagespace/local-mcp-config.json",
            json!({"mcpServers": {
                "page": {"command": "page", "autoStart": false, "enabled": true, "timeout": 60000},
            }}),
            json!({"page": {"command": "page", "autoStart": false, "timeout_s": 60}}),
        ),
        (
            ".cideldill/mcp_clients.json",
            json!({"servers": {
                "files": {"command": "f", "transport": "stdio", "timeout_s": 5, "auto_reconnect": false},
                "db": {"url": "http://db.example.com/sse", "transport": "sse"},
            }}),
            json!({
                "files": {"command": "f", "timeout_s": 5, "auto_reconnect": false},
                "db": {"type": "sse", "url": "http://db.example.com/sse"},
            }),
        ),
    ];
    for (path, text, expected) in files {
        for arguments in [&["import"][..], &["import", "--from", path]] {
            let home = home!();
            put(&home, path, &text.to_string());
            let run = home.run(arguments).await;
            assert_eq!(run.code, Some(0), "{run}");
            assert!(!run.to_string().contains("not known"), "{run}");
            let config: Value =
                serde_json::from_str(&read(&home, "state/config.json")).expect("JSON");
            assert_eq!(config["mcpServers"], expected, "{arguments:?}");
            let valid_run = home.run(&["validate"]).await;
            assert_eq!(valid_run.code, Some(0), "{valid_run}");
        }
    }
}

/// An entry with the URL of the running daemon is skipped, whatever the port is.
#[tokio::test]
async fn the_running_daemon_is_not_imported_into_itself() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    let url = format!("{}/mcp", daemon.url);
    let servers = json!({"mcpServers": {"m": {"url": url}}});
    put(&home, ".cursor/mcp.json", &servers.to_string());
    let run = home.run(&["import", "--dry-run", "--json"]).await;
    let report = run.json();
    assert_eq!(report["servers"], json!([]), "{report}");
    assert_eq!(report["leftOut"][0]["name"], "m", "{report}");
    let run = home.run(&["setup", "--dry-run", "--json"]).await;
    let report = run.json();
    assert_eq!(report["servers"], json!([]), "{report}");
    daemon.stop().await;
}

/// A file with a duplicate section is not written, because it is ambiguous.
#[tokio::test]
async fn a_file_in_which_the_servers_stand_twice_is_not_written() {
    let home = home!();
    let text = "{\n  \"mcpServers\": {\"a\": {\"command\": \"a\"}},\n  \"mcpServers\": {\"b\": {\"command\": \"b\"}}\n}\n";
    put(&home, ".cursor/mcp.json", text);
    let run = home
        .run(&["export", "--for", "cursor", "--connect", "--write"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    let error = "was not written: `mcpServers` stands twice, the second time in line 3";
    assert!(run.stderr.contains(error), "{run}");
    assert!(run.stdout.contains("\"mainstay\""), "{run}");
    let setup_run = home.run(&["setup", "--yes", "--no-service"]).await;
    assert!(setup_run.stderr.contains("stands twice"), "{setup_run}");
    assert_eq!(read(&home, ".cursor/mcp.json"), text);
}

/// The client has an allow list without Mainstay, so the export prints a warning.
#[tokio::test]
async fn a_client_that_leaves_mainstay_out_is_told_of() {
    let home = home!();
    let gemini = r#"{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"command": "a"}}}"#;
    put(&home, ".gemini/settings.json", gemini);
    let warning = "mcp.allowed: Gemini CLI leaves mainstay out by this list, and has none of its tools: add \"mainstay\" to that list";
    for extra_arguments in [&[][..], &["--write"]] {
        let export = [
            &["export", "--for", "gemini-cli", "--connect"],
            extra_arguments,
        ]
        .concat();
        let run = home.run(&export).await;
        assert!(run.stderr.contains(warning), "{run}");
        assert_eq!(run.code, Some(0), "{run}");
    }
    // Without a terminal `setup` does not change the list.
    put(&home, ".gemini/settings.json", gemini);
    let setup_run = home.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(setup_run.code, Some(0), "{setup_run}");
    assert!(setup_run.stderr.contains(warning), "{setup_run}");
    assert!(
        setup_run.stderr.contains("settings.json: left alone; "),
        "{setup_run}"
    );
    assert_eq!(read(&home, ".gemini/settings.json"), gemini);
    assert!(!home.state().join("config.json").exists());
    // The list also excludes the exported servers.
    put(
        &home,
        ".gemini/settings.json",
        r#"{"mcp": {"excluded": ["x"]}}"#,
    );
    let config = home.file(
        "mine.json",
        r#"{"mcpServers": {"x": {"command": "x"}, "y": {"command": "y"}}}"#,
    );
    let run = home
        .run(&[
            "export",
            "--for",
            "gemini-cli",
            "--config",
            &config,
            "--write",
        ])
        .await;
    assert!(
        run.stderr
            .contains("note: x: mcp.excluded: Gemini CLI leaves x out"),
        "{run}"
    );
    assert!(!run.stderr.contains("note: y"), "{run}");
}

#[tokio::test]
async fn missing_names_and_servers_are_reported() {
    let home = home!();
    put(
        &home,
        ".continue/config.yaml",
        "mcpServers:\n  - uses: anthropic/memory-mcp\n",
    );
    let run = home.run(&["import", "--from", "continue"]).await;
    assert!(
        run.stdout
            .contains("left out: an entry without a name of Continue:"),
        "{run}"
    );
    let run = home.run(&["export", "--for", "zed"]).await;
    assert_eq!(run.code, Some(4), "{run}");
    let path = home.state().join("config.json");
    let error = format!(
        "error: there is no server to export: {} does not exist\n",
        path.display()
    );
    assert!(run.stderr.starts_with(&error), "{run}");
    let empty_file = home.file("empty.json", "{\"mcpServers\": {}}");
    let run = home
        .run(&["export", "--for", "zed", "--config", &empty_file])
        .await;
    assert!(
        run.stderr.contains(&format!("{empty_file} has none")),
        "{run}"
    );
}

/// A client's file can be the configuration. Its entries apply. The client's rules do not, and a
/// warning says so.
#[tokio::test]
async fn a_clients_file_as_the_configuration_tells_which_rules_do_not_hold() {
    let home = home!();
    put(
        &home,
        ".claude.json",
        r#"{"mcpServers": {"files": {"command": "env"}, "web": {"command": "env"}}}"#,
    );
    put(
        &home,
        ".claude/settings.json",
        r#"{"permissions": {"deny": ["mcp__files__delete", "mcp__other"]}, "deniedMcpServers": [{"serverName": "web"}]}"#,
    );
    let file = home.path().join(".claude.json").display().to_string();
    let transcript = home.transcript(&[&["validate", &file]]).await;
    assert_snapshot!(transcript);
    let called_run = home.run(&["tools", "--config", &file]).await;
    assert!(
        called_run.stderr.contains("permissions.deny"),
        "{called_run}"
    );
}

/// The entry is imported with a note, because its program does not exist on this machine.
#[tokio::test]
async fn a_server_that_cannot_start_here_is_imported_with_a_note() {
    let home = home!();
    let text = json!({"mcpServers": {
        "gone": {"command": "no-such-program-here"},
        "off": {"command": "no-such-program-here", "disabled": true},
        "there": {"command": "env"},
    }});
    put(&home, ".cursor/mcp.json", &text.to_string());
    for arguments in [&["import", "--dry-run"][..], &["import"]] {
        let run = home.run(arguments).await;
        assert_eq!(run.code, Some(0), "{run}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{run}");
        assert!(
            lines[0].starts_with("warning: gone cannot start here: `command`: "),
            "{run}"
        );
    }
}
