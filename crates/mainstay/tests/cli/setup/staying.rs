//! Servers stay in their client's file if Mainstay cannot read their entry, start them, or authenticate.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::{Value, json};

use super::{FILES, Machinery, SECRET};

/// A server that Mainstay cannot start may still start in its client, so it stays there.
#[tokio::test]
async fn a_server_that_cannot_be_started_stays_with_its_client() {
    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let text = fs::read_to_string(&cursor).expect("there");
    let args_member = "\"args\": [\"${workspaceFolder}/notes\", ";
    fs::write(
        &cursor,
        text.replace(
            "\"args\": [\"--tools\"",
            &format!("{args_member}\"--tools\""),
        ),
    )
    .expect("written");
    let state_before = machine.state();
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let note = "notes: stays in Cursor, for Mainstay cannot start it: `args[0]`: ";
    assert!(run.stderr.contains(note), "{run}");
    let text = fs::read_to_string(&cursor).expect("there");
    assert!(text.contains(args_member), "{text}");
    assert!(!text.contains("my-files"), "{text}");
    assert!(text.contains("\"mainstay\""), "{text}");
    let own_text = fs::read_to_string(machine.home.state().join("config.json")).expect("there");
    let own_text: Value = serde_json::from_str(&own_text).expect("JSON");
    let names: Vec<&String> = own_text["mcpServers"]
        .as_object()
        .expect("servers")
        .keys()
        .collect();
    assert_eq!(names, ["files", "tracker"]);
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(machine.state(), state_before);
}

/// Servers with unreadable members stay with their client, and are not merged with other servers.
#[tokio::test]
async fn servers_whose_entries_cannot_be_read_stay_with_their_client() {
    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let fake = fake_server::binary();
    let entries = json!({"mcpServers": {
        "alpha": {"command": fake, "args": "-y server-alpha"},
        "delta": {"command": fake, "environment": {"DSN": SECRET}, "args": []},
        "beta": {"command": fake, "args": "-y server-beta"},
        "gamma": {"command": fake, "disabled": "true"},
    }});
    fs::write(&cursor, entries.to_string()).expect("written");
    let run = machine
        .run(&["setup", "--dry-run", "--client", "cursor"])
        .await;
    assert!(!run.to_string().contains("server-alpha"), "{run}");
    assert!(!run.to_string().contains(SECRET), "{run}");
    let run = machine
        .run(&["setup", "--yes", "--no-service", "--client", "cursor"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    for text in [
        "note: alpha, beta: stays in Cursor, for its entry cannot be read: `args`: expected a list of texts",
        "note: gamma: stays in Cursor, for its entry cannot be read: `disabled`: expected true or false",
    ] {
        assert!(run.stderr.contains(text), "{run}");
    }
    assert!(run.stdout.contains("1 server added"), "{run}");
    let text = fs::read_to_string(&cursor).expect("there");
    for name in ["server-alpha", "server-beta", "gamma"] {
        assert!(text.contains(name), "{text}");
    }
    let run = machine.run(&["import", "--from", "cursor"]).await;
    let note =
        "left out: beta of Cursor: its entry cannot be read: `args`: expected a list of texts";
    assert!(run.stdout.contains(note), "{run}");
}

/// Servers with a sign-in method that only the client supports stay there.
#[tokio::test]
async fn servers_that_need_what_mainstay_has_not_stay_with_their_client() {
    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let entries = json!({"mcpServers": {
        "signed": {"url": "http://127.0.0.1:1/a", "auth": "kerberos"},
        "streamed": {"url": "http://127.0.0.1:1/b", "type": "http-stream"},
        "plain": {"command": fake_server::binary()},
    }});
    fs::write(&cursor, entries.to_string()).expect("written");
    let state_before = machine.state();
    let run = machine
        .run(&["setup", "--yes", "--no-service", "--client", "cursor"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    for text in [
        "note: signed: stays in Cursor, `auth`: Mainstay does not know this way to sign in",
        "note: streamed: stays in Cursor, `type`: Mainstay speaks no \"http-stream\"",
    ] {
        assert!(run.stderr.contains(text), "{run}");
    }
    assert!(run.stdout.contains("1 server added"), "{run}");
    let text = fs::read_to_string(&cursor).expect("there");
    for name in ["\"signed\"", "\"streamed\"", "\"mainstay\""] {
        assert!(text.contains(name), "{text}");
    }
    assert!(!text.contains("\"plain\""), "{text}");
    // A second setup and `doctor` find nothing to change.
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(fs::read_to_string(&cursor).expect("there"), text);
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(machine.state(), state_before);
}

/// Starts a server that answers every request with 401 and this header line. Returns its URL.
fn start_refusing_server(challenge: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let read_message = stream.read(&mut [0; 4096]).unwrap_or_default();
            if read_message > 0 {
                let answer = format!(
                    "HTTP/1.1 401 Unauthorized\r\n{challenge}content-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    format!("http://{address}/mcp")
}

/// A 401 without an authorization server means that only the client knows how to sign in, so the server
/// stays. With an authorization server, Mainstay can log in, so the server moves.
#[tokio::test]
async fn a_server_that_refuses_mainstay_stays_with_its_client() {
    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let url = start_refusing_server("");
    let login_url = start_refusing_server("www-authenticate: Bearer resource_metadata=\"x\"\r\n");
    let entries = json!({"mcpServers": {
        "signs-in": {"url": url},
        "has-token": {"url": url, "headers": {"Authorization": "Bearer t"}},
        "absent": {"url": "http://127.0.0.1:1/mcp"},
        "logs-in": {"url": login_url},
    }});
    fs::write(&cursor, entries.to_string()).expect("written");
    let run = machine
        .run(&["setup", "--yes", "--no-service", "--client", "cursor"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let note = "note: logs-in: needs a login: `mainstay auth login logs-in`";
    assert!(run.stderr.contains(note), "{run}");
    let note = "note: signs-in: stays in Cursor, `url`: unauthorized: HTTP 401: the server wants";
    assert!(run.stderr.contains(note), "{run}");
    assert!(run.stdout.contains("3 servers added"), "{run}");
    let text = fs::read_to_string(&cursor).expect("there");
    assert!(text.contains("\"signs-in\""), "{text}");
    for name in ["has-token", "absent", "logs-in"] {
        assert!(!text.contains(name), "{text}");
    }
}

/// Servers stay if only their client can find their program.
#[tokio::test]
async fn servers_whose_program_is_not_found_stay_with_their_client() {
    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let fake = fake_server::binary();
    let entries = json!({"mcpServers": {
        "relative": {"command": "./server.sh"},
        "missing": {"command": "no-such-program-anywhere"},
        "gone": {"command": "/nowhere/server"},
        "elsewhere": {"command": fake, "cwd": "/nowhere/at/all"},
        "off": {"command": "no-such-program-anywhere", "disabled": true},
        "plain": {"command": fake},
    }});
    fs::write(&cursor, entries.to_string()).expect("written");
    let run = machine
        .run(&["setup", "--yes", "--no-service", "--client", "cursor"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let expected_reason = "stays in Cursor, for Mainstay cannot start it: ";
    for (name, reason) in [
        ("relative", "`command`: ./server.sh lies in a folder that"),
        ("missing", "`command`: command not found: no-such-program"),
        ("gone", "`command`: there is no program /nowhere/server"),
        ("elsewhere", "`cwd`: there is no folder /nowhere/at/all"),
    ] {
        let note = format!("note: {name}: {expected_reason}{reason}");
        assert!(run.stderr.contains(&note), "{note} in {run}");
    }
    // A disabled server is moved even if its program is missing.
    assert!(run.stdout.contains("2 servers added"), "{run}");
    let text = fs::read_to_string(&cursor).expect("there");
    for name in ["relative", "missing", "gone", "elsewhere", "mainstay"] {
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
    }
    assert!(!text.contains("\"plain\""), "{text}");
}

/// Setup fails while a daemon with another configuration runs.
#[tokio::test]
async fn a_daemon_with_another_configuration_is_told() {
    let machine = Machinery::new();
    let other_config = machine.home.file("other.json", r#"{"mcpServers": {}}"#);
    let daemon = machine.home.serve(&["--config", &other_config]).await;
    let warning =
        format!("the daemon that runs reads {other_config}, and the servers would go into ");
    let run = machine.run(&["setup", "--dry-run"]).await;
    assert!(run.stderr.contains(&warning), "{run}");
    assert!(
        run.stderr
            .contains(&format!("`mainstay setup --config {other_config}`")),
        "{run}"
    );
    let run = machine
        .run(&["setup", "--dry-run", "--config", &other_config])
        .await;
    assert!(!run.stderr.contains("the daemon that runs reads"), "{run}");
    daemon.stop().await;
}
