//! `mainstay add`, `get`, `remove`, `enable`, `disable` and `approve`, and servers on the command
//! line of `serve` and `mcp` (docs/dev/requirements.md, sections A and B).

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use mainstay_testkit::{Home, home, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The names of the servers, each with its status.
async fn servers(home: &Home) -> Vec<(String, String)> {
    let servers = home.run(&["list", "--json"]).await.json()["servers"].clone();
    let servers = servers.as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    servers
        .map(|server| (text(&server["name"]), text(&server["status"])))
        .collect()
}

fn redacted(home: &Home, transcript: &str) -> String {
    let program = fake_server::binary();
    let transcript = transcript.replace(program.to_str().expect("UTF-8"), "[FAKE]");
    // Remove the number of tools, which changes when the fake changes.
    let mut parts = transcript.split(" tools").collect::<Vec<_>>();
    for part in &mut parts {
        *part = part.trim_end_matches(|c: char| c.is_ascii_digit());
    }
    let transcript = parts.join("N tools");
    // Remove the number of the attempt, which varies.
    let lines = transcript
        .lines()
        .map(|line| line.split("; attempt ").next().unwrap_or_default());
    home.redacted(&(lines.collect::<Vec<_>>().join("\n") + "\n"))
}

/// With a daemon, a change applies at once and is written to the file.
#[tokio::test]
async fn a_daemon_takes_what_it_is_told_and_writes_it_down() {
    let home = home!();
    let program = fake_server::binary();
    let program = program.to_str().expect("UTF-8");
    let config = home.file("servers.json", "{\n  \"mcpServers\": {}\n}\n");
    let daemon = home.serve(&["--config", &config]).await;
    let transcript = home
        .transcript(&[
            &[
                "add",
                "--env",
                "KEY=s3cret",
                "--cwd",
                ".",
                "one",
                "--",
                program,
            ],
            &["add", "one", "--", program],
            &["add", "--ephemeral", "two", "--", program],
            &["add", "bad", "--", "no-such-program-anywhere"],
            &[
                "add",
                "--no-check",
                "bad",
                "--",
                "no-such-program-anywhere",
                "--token",
                "s3cret",
            ],
            &["get", "one"],
            &["get", "two"],
            &["get", "bad"],
            &["disable", "one"],
            &["enable", "one"],
            &["disable", "--ephemeral", "one"],
            &["add", "--replace", "bad", "--", program],
            &["remove", "two"],
            &["remove", "two"],
            &["approve", "one"],
            &["add", "x", "npx"],
            &["add", "x", "http://127.0.0.1:1/mcp", "--header", "x"],
            &["add", "a b", "--", program],
            &["add", "x"],
        ])
        .await;
    assert_snapshot!(redacted(&home, &transcript));
    let listed_servers = servers(&home).await;
    let names: Vec<&str> = listed_servers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["one", "bad"]);
    daemon.stop().await;
    let text = std::fs::read_to_string(config).expect("there");
    assert_snapshot!("the_file_in_the_end", redacted(&home, &text));
}

/// Without a daemon, the command changes the file, or creates it (A7).
#[tokio::test]
async fn without_a_daemon_the_file_is_changed() {
    let home = home!();
    let transcript = home
        .transcript(&[
            &[
                "add",
                "--no-check",
                "one",
                "--",
                "no-such-program-anywhere",
                "-y",
            ],
            &[
                "add",
                "--no-check",
                "--json",
                "two",
                "https://example.com/mcp",
            ],
            &["add", "one", "--", "x"],
            &["add", "three", "--", "x", "${NOT_SET_ANYWHERE}"],
            &[
                "add",
                "--no-check",
                "three",
                "--",
                "x",
                "${NOT_SET_ANYWHERE}",
            ],
            &["add", "--ephemeral", "three", "--", "x"],
            &["disable", "one"],
            &["disable", "onee"],
            &["remove", "two"],
            &["remove", "--json", "onee"],
            &["remove", "nothing-like-it"],
        ])
        .await;
    assert_snapshot!(redacted(&home, &transcript));
    let file = home.state().join("config.json");
    let text = std::fs::read_to_string(&file).expect("it was made");
    assert_eq!(
        text,
        "{\n  \"$schema\": \"./mainstay.schema.json\",\n  \"mcpServers\": {\n    \"one\": {\n      \"command\": \"no-such-program-anywhere\",\n      \"args\": [\"-y\"],\n      \"enabled\": false\n    }\n  }\n}\n"
    );
    let mode = std::fs::metadata(&file)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // `--config` selects another file.
    let named_file = home.file("other.jsonc", "{\"servers\": []} // none yet\n");
    let run = home
        .run(&[
            "add",
            "--no-check",
            "--config",
            &named_file,
            "s",
            "http://127.0.0.1:1/",
        ])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let text = std::fs::read_to_string(named_file).expect("there");
    assert!(
        text.contains("\"name\": \"s\"") && text.ends_with("// none yet\n"),
        "{text}"
    );
}

/// Servers on the command line are added to those of the file, and replace servers of the same name
/// (B3–B5, B8). A flag that refers to an unknown server is a usage error.
#[tokio::test]
async fn servers_can_be_given_on_the_command_line() {
    let home = home!();
    let program = fake_server::binary();
    let program = program.to_str().expect("UTF-8");
    let entry = json!({"command": "no-such-program-anywhere", "transport": "stdio"});
    let config = json!({"servers": {"one": entry, "two": entry}});
    let config = home.file("clients.json", &config.to_string());
    let (first_server, third_server) = (format!("one:{program}"), format!("three:{program} stdio"));
    let arguments = [
        "--mcp-clients-config",
        &config,
        "--mcp-client",
        &first_server,
        "--mcp-client",
        &third_server,
    ];
    let mut daemon = home.serve(&arguments).await;
    daemon.wait_for_stderr("ready: 2 of 3").await;
    let connected_row = |name: &str| (name.to_owned(), "connected".to_owned());
    let broken_row = ("two".to_owned(), "error".to_owned());
    let expected = vec![connected_row("one"), broken_row, connected_row("three")];
    assert_eq!(servers(&home).await, expected);
    // They remain after a reload, and are not written to the file.
    assert_eq!(home.run(&["reload"]).await.stdout, "nothing changes\n");
    assert_eq!(servers(&home).await, expected);
    daemon.stop().await;
    assert_snapshot!(
        home.transcript(&[
            &["serve", "--mcp-client", "no-colon"],
            &["serve", "--mcp-client", ":command"],
            &["serve", "--mcp-client", "name:"],
            &["serve", "--mcp-client", "a b:x"],
            &["mcp", "--mcp-client", "no-colon"],
            &["serve", "--mcp-clients-config", "nowhere.json"],
            &["serve", "--mcp-clients", "--config", &config],
        ])
        .await
    );
}

/// A flag of document 002 replaces a configuration file (B1, B6, B7, A5).
#[tokio::test]
async fn a_flag_of_002_is_a_configuration() {
    let home = home!();
    let daemon = home.serve(&[]).await;
    let run = home.run(&["tools"]).await;
    assert!(
        run.stderr.contains("`mainstay add` adds the first server"),
        "{run}"
    );
    assert_eq!(run.code, Some(1), "{run}");
    daemon.stop().await;
    let daemon = home.serve(&["--mcp-clients"]).await;
    assert_eq!(
        home.run(&["tools", "--json"]).await.json(),
        json!({"tools": []})
    );
    daemon.stop().await;
    let folder = home.path().join(".cideldill");
    std::fs::create_dir(&folder).expect("made");
    let config =
        json!({"servers": {"late": {"command": fake_server::binary(), "transport": "stdio"}}});
    std::fs::write(folder.join("mcp_clients.json"), config.to_string()).expect("written");
    let mut daemon = home.serve(&["--mcp-clients"]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    daemon.stop().await;
    // In such a file every entry must have a transport (Y9, A13).
    let config = json!({"servers": {"bare": {"command": "x"}}});
    std::fs::write(folder.join("mcp_clients.json"), config.to_string()).expect("written");
    let mut daemon = home.serve(&["--mcp-clients"]).await;
    let program = fake_server::binary();
    let run = home
        .run(&["add", "new", "--", program.to_str().expect("UTF-8")])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    daemon.wait_for_stderr("ready: ").await;
    assert!(
        daemon
            .stderr_text
            .contains("Server bare: transport is required"),
        "{}",
        daemon.stderr_text
    );
    let text = std::fs::read_to_string(folder.join("mcp_clients.json")).expect("there");
    assert!(text.contains("\"transport\": \"stdio\""), "{text}");
    daemon.stop().await;
}

/// Adds a server as an MCP client with the control token would (own tools, group `control`).
pub async fn add_from_inside(home: &Home, url: &str, entry: &Value) {
    let answer = call_as(home, url, "hand", "add_server", entry).await;
    assert!(answer.contains("pending"), "{answer}");
}

/// The HTTP response to a tool call of a client with this name.
pub async fn call_as(
    home: &Home,
    url: &str,
    client: &str,
    tool: &str,
    arguments: &Value,
) -> String {
    let token = home.token();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
        accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
        mcp-method: tools/call\r\nmcp-name: {tool}\r\nauthorization: Bearer {}\r\n\
        content-length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    let mut answer = String::new();
    within(async {
        let address = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("written");
        stream.read_to_string(&mut answer).await.expect("answered");
    })
    .await;
    answer
}

/// Without a terminal, an approval requires the digest.
#[tokio::test]
async fn the_approved_entry_is_the_shown_entry() {
    let home = home!();
    let program = fake_server::binary();
    let config = home.file(
        "servers.json",
        r#"{"mcpServers": {}, "ownTools": ["control"]}"#,
    );
    let daemon = home.serve(&["--config", &config]).await;
    let entry = json!({
        "name": "y", "command": program, "args": ["stdio"],
        "env": {"NODE_OPTIONS": "--require x"}, "inheritEnv": "none",
    });
    add_from_inside(&home, &daemon.url, &entry).await;
    let refused_run = home.run(&["approve", "y"]).await;
    for expected_text in [
        program.to_str().expect("UTF-8"),
        r#"env NODE_OPTIONS="--require x""#,
        "inheritEnv none",
        "wanted by hand (mcp_http, operator) at 20",
        "stdin is no terminal",
        "--yes",
    ] {
        assert!(
            refused_run.stderr.contains(expected_text),
            "{expected_text}: {refused_run}"
        );
    }
    assert_eq!(
        servers(&home).await,
        [("y".to_owned(), "pending".to_owned())]
    );
    let approved_run = home.run(&["approve", "y", "--yes"]).await;
    assert!(
        approved_run.stdout.starts_with("y is connected"),
        "{approved_run}"
    );
    let repeated_run = home.run(&["approve", "y", "--yes"]).await;
    assert!(
        repeated_run.stderr.contains("waits for no approval"),
        "{repeated_run}"
    );
    daemon.stop().await;
}

/// In an earlier run the name had another target. The approval shows that target.
#[tokio::test]
async fn the_former_target_of_a_name_is_shown() {
    let home = home!();
    let old_entry =
        json!({"command": "old-server", "args": ["--token", "s3cret"], "enabled": false});
    let file = |servers: Value| {
        let config = json!({"mcpServers": servers, "ownTools": ["control"]});
        home.file("servers.json", &config.to_string())
    };
    let config = file(json!({"y": old_entry}));
    home.serve(&["--config", &config]).await.stop().await;
    file(json!({}));
    let daemon = home.serve(&["--config", &config]).await;
    let entry = json!({"name": "y", "url": "http://127.0.0.1:1/mcp"});
    add_from_inside(&home, &daemon.url, &entry).await;
    let refused_run = home.run(&["approve", "y"]).await;
    let expected_text = "this name had another target before: old-server --token \"***\"";
    assert!(refused_run.stderr.contains(expected_text), "{refused_run}");
    assert!(!refused_run.stderr.contains("s3cret"), "{refused_run}");
    daemon.stop().await;
}
