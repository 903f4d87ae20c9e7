//! `import` and `export`: the files of other MCP clients in a home of their own.

use std::fs;

use insta::assert_snapshot;
use mainstay_testkit::{Home, home};
use serde_json::{Value, json};

use crate::fakes::fakes;

const CURSOR: &str = r#"{
  // the team's
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "server-files"], "env": { "API_KEY": "very-secret" } },
    "tracker": { "url": "https://tracker.example.com/mcp", "headers": { "Authorization": "Bearer very-secret" } },
    "mainstay": { "command": "mainstay", "args": ["connect"] },
  },
  "other": 1
}
"#;

const CODEX: &str = r#"model = "o3" # the good one

[mcp_servers.files]
command = "npx"
args = ["-y", "server-files"]
env = { API_KEY = "very-secret" }

[mcp_servers.tracker]
url = "https://other.example.com/mcp"
tool_timeout_sec = 20
enabled_tools = ["search"]
"#;

const GOOSE: &str = "# goose\nextensions:\n  memory:\n    type: builtin\n    enabled: true\n  git:\n    type: stdio\n    cmd: uvx\n    args: [mcp-server-git]\n    env_keys: [GIT_TOKEN]\n    enabled: false\n";

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
    let dry = home.run(&["import", "--dry-run"]).await;
    assert_eq!(dry.code, Some(0), "{dry}");
    assert!(!home.state().join("config.json").exists());
    let shown = home
        .transcript(&[&["import"], &["import"], &["validate"]])
        .await;
    assert!(!shown.contains("very-secret"), "{shown}");
    assert!(!dry.to_string().contains("very-secret"), "{dry}");
    assert_snapshot!(shown);
    assert_snapshot!("the_configuration", read(&home, "state/config.json"));
    // The files of the clients are as they were.
    assert_eq!(read(&home, ".cursor/mcp.json"), CURSOR);
    assert_eq!(read(&home, ".codex/config.toml"), CODEX);
}

#[tokio::test]
async fn what_the_configuration_has_stays_as_it_is() {
    let home = home!();
    put(&home, ".cursor/mcp.json", CURSOR);
    let mine = "// mine\n{\n  \"mcpServers\": {\n    \"files\": {\"command\": \"mine\"}, // first\n    \"t\": {\"url\": \"https://tracker.example.com/mcp\", \"headers\": {\"Authorization\": \"Bearer very-secret\"}}\n  }\n}\n";
    let config = home.file("mine.jsonc", mine);
    let run = home.run(&["import", "--json", "--config", &config]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let report = run.json();
    let names: Vec<&Value> = report["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|it| &it["name"])
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

/// A person has refused them when Claude Code asked.
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
    let own =
        json!({"projects": {project.to_str().expect("UTF-8"): {"disabledMcpjsonServers": ["a"]}}});
    put(&home, ".claude.json", &own.to_string());
    let run = home
        .run(&["import", "--from", "app/.mcp.json", "--json"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let report = run.json();
    let enabled = report["servers"].as_array().expect("servers").iter();
    let enabled: Vec<&Value> = enabled.map(|it| &it["entry"]["enabled"]).collect();
    assert_eq!(
        enabled,
        [&json!(false), &json!(false), &Value::Null],
        "{report}"
    );
}

#[tokio::test]
async fn a_running_daemon_takes_what_is_imported() {
    let home = home!();
    let config = fakes(&home, &[("good", &[])]);
    let given = fs::read_to_string(&config).expect("a configuration");
    put(&home, ".cursor/mcp.json", &given);
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
async fn what_cannot_be_imported_is_said() {
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
        "files": {"command": "npx", "args": ["-y", "f"], "env": {"K": "${K}"}, "timeout_s": 20, "disabledTools": ["rm"]},
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
        let again = home.run(&point(client)).await;
        assert!(again.stdout.contains("has it already"), "{again}");
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
    // What is pointed at Mainstay has nothing to import any more.
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
    let flow = "extensions: {git: {type: stdio, cmd: uvx, args: []}} # all in one\n";
    put(&home, ".config/goose/config.yaml", flow);
    assert_snapshot!(
        home.transcript(&[&["export", "--for", "goose", "--http", "--write", "--replace"]])
            .await
    );
    assert_eq!(read(&home, ".config/goose/config.yaml"), flow);
}

/// A file without servers has none that are known already.
#[tokio::test]
async fn a_file_without_servers_says_so() {
    let home = home!();
    let empty = home.file("empty.json", r#"{"mcpServers": {}}"#);
    let run = home.run(&["import", "--from", &empty]).await;
    let words = "nothing to import: no server was found that could be taken";
    assert!(run.stdout.contains(words), "{run}");
    assert_eq!(run.code, Some(0), "{run}");
}
