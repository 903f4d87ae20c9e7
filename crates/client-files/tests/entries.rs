//! Tests of single entries of clients: their translations, and the notes about them.

use std::path::Path;

use mainstay_client_files::{
    ClientFile, ClientKind, EditError, EntryChange, FileFormat, FoundServer, LeftOut, Machine,
    MergeStatus, OwnEntry, Section, System, apply, entry_for, files_of, merge, point_at_mainstay,
    servers, value,
};
use serde_json::{Value, json};

/// The main file of this client.
fn file(client: ClientKind) -> ClientFile {
    let machine = Machine::new(System::Linux, "/home/me");
    if client == ClientKind::Unknown {
        return ClientFile::of_client(client, Path::new("/x/mcp.json"), &machine);
    }
    files_of(client, &machine).swap_remove(0)
}

/// Reads the servers of a JSON file.
fn read(client: ClientKind, whole: &Value) -> Vec<FoundServer> {
    let file = ClientFile {
        format: mainstay_client_files::FileFormat::Json,
        ..file(client)
    };
    servers(&file, &whole.to_string()).expect("it can be read")
}

/// Reads a file with one server in this section.
fn one(client: ClientKind, section: &str, entry: Value) -> FoundServer {
    let entries = serde_json::Map::from_iter([("s".to_owned(), entry)]);
    read(client, &json!({ section: entries })).swap_remove(0)
}

/// The notes that a person has to know about.
fn reports(server: &FoundServer) -> Vec<String> {
    let reports = server.reports();
    reports
        .map(|note| format!("{}: {}", note.key, note.text))
        .collect()
}

/// The author of the number thought of seconds.
#[test]
fn short_timeouts_in_files_of_milliseconds_are_seconds() {
    for client in [
        ClientKind::ClaudeDesktop,
        ClientKind::ClaudeCode,
        ClientKind::Cursor,
        ClientKind::Windsurf,
        ClientKind::GeminiCli,
        ClientKind::LmStudio,
        ClientKind::AmazonQ,
        ClientKind::Warp,
    ] {
        for seconds in [1, 60, 300, 999] {
            let server = one(
                client,
                "mcpServers",
                json!({"command": "x", "timeout": seconds}),
            );
            assert_eq!(server.entry["timeout_s"], seconds, "{client}");
            let note = format!(
                "timeout: taken as {seconds} seconds, for no server answers within {seconds} milliseconds"
            );
            assert_eq!(reports(&server), [note], "{client}");
        }
        let server = one(
            client,
            "mcpServers",
            json!({"command": "x", "timeout": 1000}),
        );
        assert_eq!(server.entry["timeout_s"], 1, "{client}");
        assert!(reports(&server).is_empty(), "{client}");
    }
    let server = one(
        ClientKind::Cline,
        "mcpServers",
        json!({"command": "x", "timeout": 60}),
    );
    assert_eq!(server.entry["timeout_s"], 60);
    assert!(reports(&server).is_empty());
}

#[test]
fn short_times_for_a_start_are_seconds_too() {
    let server = one(
        ClientKind::Opencode,
        "mcp",
        json!({"command": ["x"], "timeout": 120}),
    );
    assert_eq!(server.entry["timeout_s"], 120);
    assert_eq!(server.entry["connectTimeoutMs"], 120_000);
    assert_eq!(reports(&server).len(), 1);
    for (client, section, key) in [
        (ClientKind::Codex, "mcp_servers", "startup_timeout_ms"),
        (ClientKind::Continue, "mcpServers", "connectionTimeout"),
        (ClientKind::LibreChat, "mcpServers", "initTimeout"),
    ] {
        let server = one(client, section, json!({"command": "x", key: 20}));
        assert_eq!(server.entry["connectTimeoutMs"], 20_000, "{client}");
        assert_eq!(reports(&server).len(), 1, "{client}");
    }
    let server = one(
        ClientKind::Codex,
        "mcp_servers",
        json!({"command": "x", "startup_timeout_sec": 20}),
    );
    assert_eq!(server.entry["connectTimeoutMs"], 20_000);
    assert!(reports(&server).is_empty());
}

/// Without the unreadable part, different servers would be equal, and Mainstay would run the wrong one.
#[test]
fn an_entry_that_cannot_be_read_is_left_out() {
    for (entry, reason) in [
        (
            json!({"command": "npx", "args": "-y a"}),
            "`args`: expected a list of texts",
        ),
        (
            json!({"command": "npx", "args": ["-y", null]}),
            "`args`: expected a list of texts",
        ),
        (
            json!({"command": "npx", "env": ["A=1"]}),
            "`env`: expected names with texts",
        ),
        (
            json!({"command": "npx", "env": {"A": {}}}),
            "`env.A`: expected a text",
        ),
        (
            json!({"url": "http://h", "headers": "X: 1"}),
            "`headers`: expected names with texts",
        ),
        (
            json!({"url": "http://h", "headers": {"X": null}}),
            "`headers.X`: expected a text",
        ),
        (
            json!({"command": "npx", "disabled": "true"}),
            "`disabled`: expected true or false",
        ),
        (
            json!({"command": "npx", "enabled": 0}),
            "`enabled`: expected true or false",
        ),
        (
            json!({"command": "npx", "enabled": "false"}),
            "`enabled`: expected true or false",
        ),
        (
            json!({"command": 5, "url": "http://h"}),
            "`command`: expected a command",
        ),
        (
            json!({"command": "npx", "url": ["http://h"]}),
            "`url`: expected a URL",
        ),
        (
            json!({"command": "npx", "cwd": 1}),
            "`cwd`: expected a path",
        ),
        (
            json!({"command": "npx", "disabledTools": "a"}),
            "`disabledTools`: expected a list of tools",
        ),
        (
            json!({"command": "npx", "args": 1, "disabled": 1}),
            "`args`: expected a list of texts; `disabled`: expected true or false",
        ),
    ] {
        let server = one(ClientKind::Cursor, "mcpServers", entry);
        assert_eq!(
            server.left_out,
            Some(LeftOut::NotUnderstood(reason.to_owned()))
        );
        assert!(
            reports(&server)
                .iter()
                .all(|note| !note.contains("changes nothing"))
        );
    }
    let server = one(
        ClientKind::Cursor,
        "mcpServers",
        json!({"command": "npx", "args": null, "env": {"A": null, "B": 1}}),
    );
    assert_eq!(server.left_out, None);
    assert_eq!(server.entry["env"], json!({"A": null, "B": "1"}));
}

#[test]
fn an_entry_that_cannot_be_read_is_no_other_and_stays_with_its_client() {
    let whole = json!({"mcpServers": {
        "plain": {"command": "npx"},
        "alpha": {"command": "npx", "args": "-y server-alpha"},
        "beta": {"command": "npx", "args": "-y server-beta"},
    }});
    let found = read(ClientKind::Cursor, &whole);
    let merged = merge(&found, &[]);
    assert_eq!(merged.len(), 1);
    assert_eq!(merged[0].sources.len(), 1);
    let own_entry = OwnEntry::Http {
        url: "http://127.0.0.1:7420/mcp".to_owned(),
    };
    let text = whole.to_string();
    let pointed =
        point_at_mainstay(&file(ClientKind::Cursor), &text, &own_entry, |_| true).expect("pointed");
    assert_eq!(pointed.removed, ["plain"]);
    for label in ["server-alpha", "server-beta"] {
        assert!(pointed.text.contains(label), "{}", pointed.text);
    }
}

/// A command for headers is imported, and other ways to sign in become unnecessary.
#[test]
fn a_command_for_headers_is_taken_over() {
    let http = "https://h.example.com/mcp";
    let server = one(
        ClientKind::ClaudeCode,
        "mcpServers",
        json!({"url": http, "headersHelper": "/opt/h.sh", "oauth": {"clientId": "c"}}),
    );
    assert_eq!(server.entry["headersHelper"], "/opt/h.sh");
    assert!(server.is_movable());
    let relative = json!({"url": http, "headersHelper": "./h.sh"});
    let server = one(ClientKind::ClaudeCode, "mcpServers", relative);
    assert!(reports(&server)[0].contains("write its whole path") && !server.is_movable());
    let wrong = json!({"url": http, "headersHelper": 1});
    let server = one(ClientKind::ClaudeCode, "mcpServers", wrong);
    assert!(!server.entry.contains_key("headersHelper"));
}

/// `setup` leaves such servers with their clients, where they may work.
#[test]
fn what_mainstay_cannot_do_is_said_to_be_so() {
    let http = "https://h.example.com/mcp";
    for (client, section, entry, key) in [
        (
            ClientKind::ClaudeCode,
            "mcpServers",
            json!({"url": http, "type": "ws"}),
            "type",
        ),
        (
            ClientKind::Cursor,
            "mcpServers",
            json!({"url": http, "type": "http-stream"}),
            "type",
        ),
        (
            ClientKind::GeminiCli,
            "mcpServers",
            json!({"httpUrl": http, "authProviderType": "google_credentials"}),
            "authProviderType",
        ),
        (
            ClientKind::Codex,
            "mcp_servers",
            json!({"url": http, "oauth_resource": http}),
            "oauth_resource",
        ),
        (
            ClientKind::VsCode,
            "servers",
            json!({"command": "x", "sandboxEnabled": true}),
            "sandboxEnabled",
        ),
        (
            ClientKind::Goose,
            "extensions",
            json!({"cmd": "x", "env_keys": ["TOKEN"]}),
            "env_keys",
        ),
        (
            ClientKind::LibreChat,
            "mcpServers",
            json!({"url": http, "type": "streamable-http", "customUserVars": {"K": {}}}),
            "customUserVars",
        ),
    ] {
        let server = one(client, section, entry);
        assert_eq!(server.left_out, None, "{client}");
        let keys: Vec<&str> = server.unsupported().map(|note| note.key.as_str()).collect();
        assert_eq!(keys, [key], "{client}");
        assert!(!server.is_movable(), "{client}");
        assert!(
            reports(&server).iter().any(|note| note.starts_with(key)),
            "{client}"
        );
    }
    for entry in [
        json!({"url": http}),
        json!({"url": http, "oauth": {"enabled": false}}),
        json!({"url": http, "oauth": false}),
        json!({"url": http, "oauth": {"clientId": "c"}, "headers": {"authorization": "Bearer t"}}),
        json!({"command": "x", "sandboxEnabled": false}),
    ] {
        let server = one(ClientKind::VsCode, "servers", entry);
        assert!(server.is_movable(), "{:?}", server.notes);
    }
}

/// A file at a path that no client uses is read as by `serve --config`, and is not assigned to a client.
#[test]
fn a_file_at_an_unknown_place_is_no_known_clients() {
    let machine = Machine::new(System::Linux, "/home/me");
    let client = |path: &str, text: &str| {
        ClientFile::recognize(Path::new(path), text, &machine).map(|file| file.client)
    };
    let servers = r#"{"mcpServers": {"a": {"command": "a"}}}"#;
    for path in [
        "/home/me/mcp.json",
        "/home/me/mcp_config.json",
        "/home/me/Code/app/mcp.json",
        "/home/me/src/zed/mcp.json",
        "/home/me/.docker/mcp.json",
    ] {
        assert_eq!(client(path, servers), Some(ClientKind::Unknown), "{path}");
    }
    for (path, expected) in [
        ("/x/.kiro/settings/mcp.json", ClientKind::Kiro),
        ("/x/.copilot/mcp-config.json", ClientKind::CopilotCli),
        (
            "/x/.gemini/antigravity/mcp_config.json",
            ClientKind::Antigravity,
        ),
        ("/x/.qwen/settings.json", ClientKind::QwenCode),
        (
            "/x/kilocode.kilo-code/settings/mcp_settings.json",
            ClientKind::Kilo,
        ),
        (
            "/x/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ClientKind::Roo,
        ),
        ("/x/.config/kilo/kilo.jsonc", ClientKind::KiloCli),
        ("/x/.config/crush/crush.json", ClientKind::Crush),
        ("/x/Trae/User/mcp.json", ClientKind::Trae),
        ("/x/.codeium/windsurf/mcp_config.json", ClientKind::Windsurf),
        ("/x/Code/User/mcp.json", ClientKind::VsCode),
        ("/x/.mcp.json", ClientKind::ClaudeCode),
    ] {
        assert_eq!(client(path, servers), Some(expected), "{path}");
    }
    let crush = r#"{"mcp": {"a": {"type": "stdio", "command": "a"}}}"#;
    assert_eq!(client("/x/some.json", crush), Some(ClientKind::Crush));
    let opencode = r#"{"mcp": {"a": {"type": "local", "command": ["a"]}}}"#;
    assert_eq!(client("/x/some.json", opencode), Some(ClientKind::Opencode));
}

#[test]
fn a_file_at_an_unknown_place_is_read_as_our_own() {
    let file = ClientFile::of_client(
        ClientKind::Unknown,
        Path::new("/x/mcp.json"),
        &Machine::new(System::Linux, "/home/me"),
    );
    let whole = json!({
        "mcp": {"excluded": ["off"]},
        "mcpServers": {
            "a": {"command": "a", "args": ["${TOKEN}"], "connectTimeoutMs": 5000, "timeout": 1500},
            "b": {"command": "b", "timeout": 3600, "alwaysAllow": ["x"], "isActive": false},
            "off": {"command": "off"},
            "c": {"command": "c", "anythingllm": {"suppressedTools": ["x"], "autoStart": false}},
        },
    });
    let found = servers(&file, &whole.to_string()).expect("it can be read");
    let entry = |index: usize| Value::Object(found[index].entry.clone());
    assert_eq!(
        entry(0),
        json!({"command": "a", "args": ["${TOKEN}"], "connectTimeoutMs": 5000, "timeout_s": 1.5})
    );
    assert_eq!(reports(&found[0]), [""; 0]);
    assert_eq!(entry(1)["timeout_s"], 3600);
    assert_eq!(entry(1)["enabled"], false);
    assert_eq!(entry(2)["enabled"], false);
    assert_eq!(entry(3)["disabledTools"], json!(["x"]));
    assert_eq!(entry(3)["autoStart"], false);
}

#[test]
fn crush_counts_seconds_and_runs_commands_for_values() {
    let server = one(
        ClientKind::Crush,
        "mcp",
        json!({"command": "x", "timeout": 120, "env": {"A": "$B"}}),
    );
    assert_eq!(server.entry["timeout_s"], 120);
    assert_eq!(server.entry["env"]["A"], "${B}");
    assert!(!server.entry.contains_key("connectTimeoutMs"));
    assert!(server.is_movable());
    let server = one(
        ClientKind::Crush,
        "mcp",
        json!({"url": "http://h", "headers": {"K": "$(pass k)"}}),
    );
    assert!(!server.is_movable());
}

#[test]
fn times_of_the_second_opencode_are_objects() {
    let whole = json!({"mcp": {
        "timeout": {"startup": 20000, "request": 60000},
        "servers": {
            "a": {"type": "local", "command": ["a"]},
            "b": {"type": "local", "command": ["b"], "timeout": {"startup": 5000}},
        },
    }});
    let found = read(ClientKind::Opencode, &whole);
    let times = |index: usize| {
        let entry = &found[index].entry;
        (
            entry["connectTimeoutMs"].clone(),
            entry["timeout_s"].clone(),
        )
    };
    assert_eq!(times(0), (json!(20000), json!(60)));
    assert_eq!(times(1), (json!(5000), json!(60)));
    assert!(found.iter().all(|server| reports(server).is_empty()));
}

/// Most programs use the last value of a duplicate key, but a person reads the first value first.
#[test]
fn a_key_that_stands_twice_leaves_its_server_out() {
    let text = r#"{"mcpServers": {
        "a": {"command": "a", "args": ["1"], "args": ["2"]},
        "b": {"command": "b"},
        "b": {"command": "c"},
        "c": {"command": "c", "env": {"X": "1", "X": "2"}},
        "d": {"command": "d"}
    }, "other": {"x": 1, "x": 2}}"#;
    let found = servers(&file(ClientKind::Cursor), text).expect("it can be read");
    let reasons = found.iter().map(|server| match &server.left_out {
        Some(LeftOut::NotUnderstood(reason)) => reason.as_str(),
        _ => "",
    });
    let reasons: Vec<&str> = reasons.collect();
    assert_eq!(
        reasons,
        [
            "`args` stands twice",
            "its name stands twice",
            "`env.X` stands twice",
            ""
        ]
    );
    let text = r#"{"mcpServers": {"a": {"command": "a"}}, "mcpServers": {"b": {"command": "b"}}}"#;
    let found = servers(&file(ClientKind::Cursor), text).expect("it can be read");
    let reason = LeftOut::NotUnderstood("`mcpServers` stands twice".to_owned());
    assert!(
        found
            .iter()
            .all(|server| server.left_out.as_ref() == Some(&reason))
    );
}

#[test]
fn an_agent_of_amazon_q_chooses_tools() {
    let whole = json!({
        "tools": ["fs_read", "@git/git_status", "@git/git_log", "@files", "@odd/x*"],
        "mcpServers": {
            "git": {"command": "g"},
            "files": {"command": "f"},
            "none": {"command": "n"},
            "odd": {"command": "o"},
        },
    });
    let found = read(ClientKind::AmazonQ, &whole);
    assert_eq!(
        found[0].entry["allowedTools"],
        json!(["git_status", "git_log"])
    );
    assert!(!found[1].entry.contains_key("allowedTools"));
    assert_eq!(found[2].entry["enabled"], false);
    assert!(!found[3].is_movable());
    let all = json!({"tools": ["*"], "mcpServers": {"git": {"command": "g"}}});
    assert_eq!(
        Value::Object(read(ClientKind::AmazonQ, &all)[0].entry.clone()),
        json!({"command": "g"})
    );
}

#[test]
fn a_server_that_some_projects_leave_out_is_told() {
    let whole = json!({
        "mcpServers": {"web": {"command": "w"}, "other": {"command": "o"}},
        "projects": {"/home/me/app": {"disabledMcpServers": ["web"]}},
    });
    let found = read(ClientKind::ClaudeCode, &whole);
    assert_eq!(
        reports(&found[0]),
        [
            "disabledMcpServers: Claude Code leaves it out in /home/me/app, where Mainstay has it, too"
        ]
    );
    assert!(reports(&found[1]).is_empty());
}

/// A file of a replaced program may have every setting of our configuration's schema.
#[test]
fn a_file_of_our_own_keys_is_read_with_all_of_them() {
    let schema = mainstay_config::schema();
    let properties = schema["$defs"]["server"]["properties"].as_object();
    let keys = properties.expect("the keys of a server").keys();
    let mut read = 0;
    for key in keys.filter(|key| !key.starts_with(['$', '_'])) {
        let server = one(
            ClientKind::Unknown,
            "mcpServers",
            json!({"command": "x", key: "v"}),
        );
        let unknown: Vec<String> = reports(&server)
            .into_iter()
            .filter(|report| report.contains("not known to Mainstay"))
            .collect();
        assert_eq!(unknown, [""; 0], "{key}");
        read += 1;
    }
    assert!(read > 50, "{read}");
}

#[test]
fn our_own_keys_are_taken_from_every_file() {
    let entry = json!({
        "command": "a", "preset": "router", "health": false, "reconnect": {"mode": "off"},
        "isolation": "per_client", "listChanged": "ignore", "healthCheckUrl": "http://h/health",
        "autoStart": false, "timeout_s": 20, "auto_reconnect": false, "maxRetries": 3,
        "protocol": "legacy", "startTimeoutMs": 9000,
    });
    for client in [
        ClientKind::Unknown,
        ClientKind::Cursor,
        ClientKind::ClaudeCode,
    ] {
        let server = one(client, "mcpServers", entry.clone());
        assert_eq!(Value::Object(server.entry.clone()), entry, "{client}");
        assert_eq!(reports(&server), [""; 0], "{client}");
    }
}

/// These files have entries in `mcpServers` or `servers`, with the keys of our configuration.
#[test]
fn files_of_programs_that_mainstay_replaces_are_read_as_our_own() {
    let machine = Machine::new(System::Linux, "/home/me");
    let entries = |path: &str, whole: Value| -> Vec<Value> {
        let text = whole.to_string();
        let file = ClientFile::recognize(Path::new(path), &text, &machine).expect(path);
        assert_eq!(file.client, ClientKind::Unknown, "{path}");
        let found = servers(&file, &text).expect("it can be read");
        for server in &found {
            assert_eq!(reports(server), [""; 0], "{path}");
        }
        found
            .into_iter()
            .map(|server| Value::Object(server.entry))
            .collect()
    };
    let third = json!({"mcpServers": {
        "a": {"command": "a", "autoStart": true, "enabled": true, "timeout": 30000},
        "b": {"command": "b", "autoStart": false, "enabled": false, "timeout": 60000},
    }});
    for path in [
        "/home/me/.pagespace/local-mcp-config.json",
        "/x/local-mcp-config.json",
    ] {
        let found = entries(path, third.clone());
        assert_eq!(
            found,
            [
                json!({"command": "a", "autoStart": true, "timeout_s": 30}),
                json!({"command": "b", "autoStart": false, "enabled": false, "timeout_s": 60}),
            ]
        );
    }
    let second = json!({"servers": {
        "a": {"command": "a", "transport": "stdio", "timeout_s": 5, "auto_reconnect": false},
        "b": {"url": "http://h:1/sse", "transport": "sse"},
    }});
    for path in [
        "/home/me/.cideldill/mcp_clients.json",
        "/x/mcp_clients.json",
        "/x/mine.json",
    ] {
        let found = entries(path, second.clone());
        assert_eq!(
            found,
            [
                json!({"command": "a", "timeout_s": 5, "auto_reconnect": false}),
                json!({"type": "sse", "url": "http://h:1/sse"}),
            ]
        );
    }
    let of_vs_code = r#"{"servers": {"a": {"command": "a"}}}"#;
    let file = ClientFile::recognize(Path::new("/x/mine.json"), of_vs_code, &machine);
    assert_eq!(file.map(|file| file.client), Some(ClientKind::VsCode));
}

#[test]
fn what_leads_to_the_running_daemon_is_mainstay() {
    let machine = Machine::new(System::Linux, "/home/me");
    let left_out = |daemon: Option<&str>, url: &str| {
        let machine = machine.clone().with_daemon(daemon);
        let file = files_of(ClientKind::Cursor, &machine).swap_remove(0);
        let whole = json!({"mcpServers": {"s": {"url": url}}});
        let found = servers(&file, &whole.to_string()).expect("it can be read");
        found[0].left_out == Some(LeftOut::Mainstay)
    };
    let daemon = Some("http://127.0.0.1:8123");
    for url in [
        "http://127.0.0.1:8123/mcp",
        "http://LOCALHOST:8123/mcp/profile",
        "http://[::1]:8123",
        "http://127.0.0.1:7420/mcp",
    ] {
        assert!(left_out(daemon, url), "{url}");
    }
    for url in [
        "http://127.0.0.1:8124/mcp",
        "http://h:8123/mcp",
        "https://h/mcp",
    ] {
        assert!(!left_out(daemon, url), "{url}");
    }
    assert!(!left_out(None, "http://127.0.0.1:8123/mcp"));
    assert!(left_out(
        Some("http://192.0.2.1:80"),
        "http://192.0.2.1:80/mcp"
    ));
}

fn connect() -> OwnEntry {
    OwnEntry::Connect {
        program: "/usr/bin/mainstay".into(),
        is_on_path: true,
        home: None,
    }
}

/// A duplicate server or section is not changed, because the change would lose one of the two.
#[test]
fn a_place_that_stands_twice_is_not_written() {
    let check = |text: &str, reason: Option<&str>| {
        let pointed = point_at_mainstay(&file(ClientKind::Cursor), text, &connect(), |_| false);
        match (pointed, reason) {
            (Err(EditError::Unwritable { reason: found, .. }), Some(reason)) => {
                assert_eq!(found, reason, "{text}");
            }
            (Ok(pointed), None) => {
                // The change loses no line.
                for line in text.lines() {
                    assert!(
                        pointed.text.contains(line.trim_end_matches(',')),
                        "{}",
                        pointed.text
                    );
                }
                assert!(pointed.text.contains("\"mainstay\""), "{}", pointed.text);
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    };
    check(
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  },\n  \"mcpServers\": {\n    \"b\": {\"command\": \"b\"}\n  }\n}\n",
        Some("`mcpServers` stands twice, the second time in line 5"),
    );
    check(
        "{\"mcpServers\": {\n  \"mainstay\": {\"command\": \"mainstay\", \"args\": [\"connect\"]},\n  \"mainstay\": {\"args\": [\"connect\"], \"command\": \"mainstay\"}\n}}",
        Some("`mcpServers.mainstay` stands twice, the second time in line 3"),
    );
    // A duplicate of another server does not prevent the change.
    check(
        "{\n  \"theme\": {\"a\": 1},\n  \"theme\": {\"b\": 2},\n  \"mcpServers\": {\n    \"x\": {\"command\": \"one\"},\n    \"x\": {\"command\": \"two\"}\n  }\n}\n",
        None,
    );
    let listed = ClientFile {
        format: FileFormat::Yaml,
        ..file(ClientKind::Continue)
    };
    let text = "mcpServers:\n  - name: a\n    command: one\n  - name: a\n    command: two\n";
    let whole = value(listed.format, text).expect("YAML");
    let change = EntryChange::Put {
        section: listed.sections(&whole).swap_remove(0),
        label: "a".to_owned(),
        entry: json!({"name": "a", "command": "three"}),
    };
    let error = apply(&listed, text, &[change]).expect_err("refused");
    assert!(
        error
            .to_string()
            .contains("`a` stands twice in `mcpServers`"),
        "{error}"
    );
}

/// A list of the client would exclude Mainstay, and the client would have no servers.
#[test]
fn a_list_that_leaves_mainstay_out_is_told() {
    let servers = json!({"a": {"command": "a"}});
    let left_out = |client: ClientKind, whole: Value| {
        let file = ClientFile {
            format: FileFormat::Json,
            ..file(client)
        };
        let pointed = point_at_mainstay(&file, &whole.to_string(), &connect(), |_| true);
        let note = pointed.expect("pointed").left_out?;
        Some(format!("{}: {}", note.key, note.text))
    };
    for (client, list, expected) in [
        (
            ClientKind::GeminiCli,
            json!({"mcp": {"allowed": ["a"]}}),
            Some(
                r#"mcp.allowed: Gemini CLI leaves mainstay out by this list, and has none of its tools: add "mainstay" to that list"#,
            ),
        ),
        (
            ClientKind::QwenCode,
            json!({"mcp": {"excluded": ["mainstay"]}}),
            Some(
                r#"mcp.excluded: Qwen Code leaves mainstay out by this list, and has none of its tools: take "mainstay" out of that list"#,
            ),
        ),
        (
            ClientKind::AmazonQ,
            json!({"tools": ["fs_read", "@a/x"]}),
            Some(
                r#"tools: Amazon Q leaves mainstay out by this list, and has none of its tools: add "@mainstay" to that list"#,
            ),
        ),
        (
            ClientKind::ClaudeCode,
            json!({"disabledMcpServers": ["mainstay"]}),
            Some(
                r#"disabledMcpServers: Claude Code leaves mainstay out by this list, and has none of its tools: take "mainstay" out of that list"#,
            ),
        ),
        (
            ClientKind::GeminiCli,
            json!({"mcp": {"allowed": ["a", "mainstay"]}}),
            None,
        ),
        (ClientKind::AmazonQ, json!({"tools": ["*"]}), None),
        (
            ClientKind::AmazonQ,
            json!({"tools": ["@mainstay/read*"]}),
            None,
        ),
        (
            ClientKind::ClaudeCode,
            json!({"projects": {"/p": {"disabledMcpServers": ["mainstay"]}}}),
            None,
        ),
        (ClientKind::AmazonQ, json!({"tools": ["@mainstay"]}), None),
        (ClientKind::Cursor, json!({"mcp": {"allowed": ["a"]}}), None),
    ] {
        let mut whole = list;
        whole["mcpServers"] = servers.clone();
        assert_eq!(left_out(client, whole).as_deref(), expected, "{client}");
    }
}

#[test]
fn errors_of_toml_have_a_line() {
    let error = value(FileFormat::Toml, "a = 1\nb = 2\n  a = 3\n").expect_err("no TOML");
    assert_eq!(
        error.to_string(),
        "it is no TOML: duplicate key on line 3 column 3"
    );
}

#[test]
fn jetbrains_can_disable_a_server() {
    let section = Section {
        keys: vec!["mcpServers".to_owned()],
        is_list: false,
        project: None,
    };
    let ours = json!({"command": "x", "enabled": false});
    let Value::Object(ours) = ours else { panic!() };
    let written = entry_for(ClientKind::JetBrains, "x", &ours, &section);
    assert_eq!(
        written.entry,
        Some(json!({"command": "x", "enabled": false}))
    );
    assert_eq!(written.notes, []);
    // The second version of opencode has a folder for a server. The first version has none.
    let second = Section {
        keys: vec!["mcp".to_owned(), "servers".to_owned()],
        ..section
    };
    let ours = json!({"command": "x", "cwd": "/srv"});
    let Value::Object(ours) = ours else { panic!() };
    let written = entry_for(ClientKind::Opencode, "x", &ours, &second);
    assert_eq!(written.entry.expect("an entry")["cwd"], "/srv");
    assert_eq!(written.notes, []);
}

#[test]
fn servers_of_visual_studio_are_found_in_its_own_file() {
    let machine = Machine::new(System::Linux, "/home/me").with_project(Some("/home/me/app".into()));
    for path in ["/home/me/.mcp.json", "/home/me/app/.mcp.json"] {
        let client_of = |text: &str| {
            let file = ClientFile::recognize(Path::new(path), text, &machine).expect("known");
            let labels = servers(&file, text).expect("read").into_iter();
            (
                file.client,
                labels.map(|server| server.label).collect::<Vec<_>>(),
            )
        };
        let one = vec!["s".to_owned()];
        assert_eq!(
            client_of(r#"{"servers": {"s": {"command": "x"}}, "inputs": []}"#),
            (ClientKind::VsCode, one.clone())
        );
        assert_eq!(
            client_of(r#"{"mcpServers": {"s": {"command": "x"}}}"#),
            (ClientKind::ClaudeCode, one)
        );
    }
}

#[test]
fn rules_of_a_sandbox_that_is_not_enabled_are_none() {
    let rules = json!({"filesystem": {"allowWrite": ["/tmp"]}});
    let server = one(
        ClientKind::VsCode,
        "servers",
        json!({"command": "x", "sandbox": rules}),
    );
    assert!(server.is_movable(), "{:?}", server.notes);
    assert_eq!(server.entry.get("enabled"), None);
    assert_eq!(server.entry["_vscode"]["sandbox"], rules);
    let enabled = json!({"command": "x", "sandbox": rules, "sandboxEnabled": true});
    let server = one(ClientKind::VsCode, "servers", enabled);
    assert!(!server.is_movable());
    assert_eq!(server.entry["enabled"], false);
}

/// The login settings of a client file are imported, without the client's tokens.
#[test]
fn a_login_is_taken_over() {
    let http = "https://h.example.com/mcp";
    for (client, section, entry, oauth) in [
        (
            ClientKind::ClaudeCode,
            "mcpServers",
            json!({"url": http, "type": "http", "oauth": {"clientId": "c", "callbackPort": 7000, "accessToken": "t"}}),
            json!({"clientId": "c", "callbackPort": 7000}),
        ),
        (
            ClientKind::Cursor,
            "mcpServers",
            json!({"url": http, "auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${env:S}", "scopes": ["a"]}}),
            json!({"clientId": "c", "clientSecret": "${env:S}", "scopes": ["a"]}),
        ),
        (
            ClientKind::Codex,
            "mcp_servers",
            json!({"url": http, "scopes": ["a"]}),
            json!({"scopes": ["a"]}),
        ),
        (
            ClientKind::CopilotCli,
            "mcpServers",
            json!({"type": "http", "url": http, "oauthClientId": "c", "oauthGrantType": "client_credentials", "tools": ["*"]}),
            json!({"clientId": "c", "grant": "clientCredentials"}),
        ),
    ] {
        let server = one(client, section, entry);
        assert!(server.is_movable(), "{client}: {:?}", server.notes);
        assert_eq!(server.entry["oauth"], oauth, "{client}");
    }
}

#[test]
fn a_way_to_sign_in_that_is_not_known_stays_with_its_client() {
    let server = one(
        ClientKind::CopilotCli,
        "mcpServers",
        json!({"type": "http", "url": "https://h.example.com/mcp", "oauthGrantType": "x", "tools": ["*"]}),
    );
    assert!(!server.is_movable());
    assert!(
        reports(&server)[0].contains("does not know this way to sign in"),
        "{:?}",
        server.notes
    );
}

#[test]
fn files_of_opencode_are_looked_for_beside_its_own() {
    let server = one(
        ClientKind::Opencode,
        "mcp",
        json!({"type": "local", "command": ["x"], "environment": {"KEY": "{file:./key}"}}),
    );
    assert_eq!(
        server.entry["env"]["KEY"],
        "${file:/home/me/.config/opencode/key}"
    );
}

/// Two clients have the same server with different lists of tools.
#[test]
fn servers_that_differ_in_their_lists_of_tools_are_one() {
    let entries = |lists: [Value; 2]| -> Vec<FoundServer> {
        let clients = [ClientKind::Roo, ClientKind::Kiro].into_iter().zip(lists);
        let found = clients.flat_map(|(client, lists)| {
            let mut entry = json!({"command": "x"});
            entry
                .as_object_mut()
                .expect("an object")
                .extend(lists.as_object().expect("an object").clone());
            let text = json!({"mcpServers": {"s": entry}}).to_string();
            let file = files_of(client, &Machine::new(System::Linux, "/home/me")).swap_remove(0);
            servers(&file, &text).expect("read")
        });
        found.collect()
    };
    let check = |lists: [Value; 2], allowed: Value, disabled: Value, notes: usize| {
        let found = merge(&entries(lists.clone()), &[]);
        assert_eq!(found.len(), 1, "{lists:?}");
        let server = &found[0];
        assert_eq!(
            server
                .entry
                .get("allowedTools")
                .cloned()
                .unwrap_or_default(),
            allowed
        );
        assert_eq!(
            server
                .entry
                .get("disabledTools")
                .cloned()
                .unwrap_or_default(),
            disabled
        );
        assert_eq!(server.notes.len(), notes, "{:?}", server.notes);
        // A second import finds the server in the configuration.
        let current = [(server.name.clone(), server.entry.clone())];
        let again = merge(&entries(lists), &current);
        assert_eq!(again[0].standing, MergeStatus::Present);
    };
    check(
        [json!({}), json!({"disabledTools": ["b", "a"]})],
        Value::Null,
        json!(["a", "b"]),
        1,
    );
    check(
        [
            json!({"allowedTools": ["a", "b"]}),
            json!({"allowedTools": ["b", "c"], "disabledTools": ["d"]}),
        ],
        json!(["b"]),
        json!(["d"]),
        1,
    );
    check([json!({}), json!({})], Value::Null, Value::Null, 0);
    // The server is disabled in one client and enabled in another.
    let found = merge(&entries([json!({}), json!({"disabled": true})]), &[]);
    assert_eq!(found.len(), 2);
    assert!(
        found[1].notes.iter().any(|note| note.key == "enabled"),
        "{:?}",
        found[1].notes
    );
}

#[test]
fn servers_stand_where_an_editor_has_them() {
    let machine = Machine::new(System::Linux, "/home/me").with_project(Some("/home/me/app".into()));
    for (path, text) in [
        (
            "/home/me/.config/Code/User/settings.json",
            r#"{"mcp.servers": {"s": {"command": "x"}}}"#,
        ),
        (
            "/home/me/.config/Code/User/settings.json",
            r#"{"mcp": {"servers": {"s": {"command": "x"}}}}"#,
        ),
        (
            "/home/me/copy.json",
            r#"{"mcp.servers": {"s": {"command": "x"}}}"#,
        ),
        (
            "/home/me/copy.json",
            r#"{"mcp": {"servers": {"s": {"command": "x"}}}}"#,
        ),
    ] {
        let file = ClientFile::recognize(Path::new(path), text, &machine).expect("a file");
        assert_eq!(servers(&file, text).expect("read").len(), 1, "{text}");
    }
    // Visual Studio's file is in the project's folder.
    let file = files_of(ClientKind::ClaudeCode, &machine)
        .into_iter()
        .find(|file| file.project().is_some());
    let text = r#"{"inputs": [], "servers": {"s": {"command": "x"}}}"#;
    let file = file.expect("a file");
    let found = servers(&file, text).expect("read");
    assert_eq!(found.len(), 1);
    let change = EntryChange::Remove {
        section: found[0].section.clone(),
        label: "s".to_owned(),
    };
    let without = apply(&file, text, &[change]).expect("written");
    assert!(!without.contains("command"), "{without}");
}

#[test]
fn a_fraction_of_a_second_and_a_variable_that_is_null_stay() {
    let server = one(
        ClientKind::Cursor,
        "mcpServers",
        json!({"command": "x", "timeout": 1.5, "env": {"A": null, "B": "1"}}),
    );
    assert_eq!(server.entry["timeout_s"], 1.5);
    assert_eq!(server.entry["env"], json!({"A": null, "B": "1"}));
}
