//! Client files over REST: `GET /api/client-files` and `POST /api/client-files/import`.

use std::fs;

use mainstay_testkit::{Home, Serving, home, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::fakes::fakes;

fn put(home: &Home, path: &str, text: &str) {
    let path = home.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// The status and the body of a REST answer.
async fn ask(
    home: &Home,
    daemon: &Serving,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let address = daemon.url.strip_prefix("http://").expect("a URL");
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        home.token().trim(),
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = within(exchange).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    let json = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (status.expect("a status"), json)
}

async fn clients(home: &Home, daemon: &Serving) -> Vec<Value> {
    let (status, answer) = ask(home, daemon, "GET", "/api/client-files", None).await;
    assert_eq!(status, 200, "{answer}");
    answer["clients"].as_array().expect("a list").clone()
}

fn client<'c>(clients: &'c [Value], id: &str) -> &'c Value {
    let mut candidates = clients.iter();
    candidates.find(|client| client["id"] == id).expect("known")
}

#[tokio::test]
async fn the_files_of_clients_are_shown_with_the_entry_that_points_here() {
    let home = home!();
    put(
        &home,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"files": {"command": "x", "args": ["-y", "--token", "very-secret", "--header", "Authorization: Bearer very-secret", "--key", "very-secret", "-c", "run --password very-secret"], "env": {"K": "very-secret"}}, "mainstay": {"command": "mainstay", "args": ["connect"]}}}"#,
    );
    put(&home, ".codex/config.toml", "[mcp_servers.broken\n");
    let config = fakes(&home, &[]);
    let daemon = home.serve(&["--config", &config]).await;
    put(&home, ".gemini/settings.json", &json!({"mcpServers": {"hub": {"httpUrl": format!("{}/mcp", daemon.url)}, "own": {"command": "y"}}}).to_string());
    let all_clients = clients(&home, &daemon).await;
    assert_eq!(all_clients.len(), 27);
    let cursor = client(&all_clients, "cursor");
    assert_eq!(
        (
            &cursor["title"],
            &cursor["installed"],
            &cursor["mainstay"],
            &cursor["servers"]
        ),
        (
            &json!("Cursor"),
            &json!(true),
            &json!(true),
            &json!(["files"])
        )
    );
    assert_eq!(
        cursor["entries"],
        json!([{"name": "files", "command": "x", "args": ["-y", "--token", "***", "--header", "Authorization:***", "--key", "***", "-c", "run --password ***"]}])
    );
    let text = json!(all_clients).to_string();
    assert!(!text.contains("very-secret"), "{text}");
    let file = home.path().join(".cursor/mcp.json");
    assert_eq!(
        (&cursor["file"], &cursor["snippet"]["where"]),
        (&json!(file), &json!(file))
    );
    let snippet: Value =
        serde_json::from_str(cursor["snippet"]["text"].as_str().expect("a text")).expect("JSON");
    let mcp = format!("{}/mcp", daemon.url);
    assert_eq!(
        (
            &cursor["snippet"]["language"],
            &snippet["mcpServers"]["mainstay"]
        ),
        (&json!("json"), &json!({"url": mcp}))
    );
    let codex = client(&all_clients, "codex");
    assert!(
        codex["error"]
            .as_str()
            .is_some_and(|text| text.contains("config.toml")),
        "{codex}"
    );
    assert_eq!(
        (&codex["snippet"]["language"], &codex["servers"]),
        (&json!("toml"), &json!([]))
    );
    assert!(
        codex["snippet"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("[mcp_servers.mainstay]")),
        "{codex}"
    );
    // An entry with the daemon's URL counts as an entry of Mainstay.
    let gemini = client(&all_clients, "gemini-cli");
    assert_eq!(
        (&gemini["mainstay"], &gemini["servers"]),
        (&json!(true), &json!(["own"]))
    );
    let zed_client = client(&all_clients, "zed");
    assert_eq!(
        (&zed_client["installed"], &zed_client["mainstay"]),
        (&json!(false), &json!(false))
    );
    assert!(
        zed_client.get("file").is_none() && zed_client.get("servers").is_none(),
        "{zed_client}"
    );
    // The file of Claude Desktop does not support URLs.
    let desktop = client(&all_clients, "claude-desktop")["snippet"]["text"]
        .as_str()
        .expect("a text");
    assert!(
        desktop.contains("\"connect\"") && desktop.contains("MAINSTAY_HOME"),
        "{desktop}"
    );
    assert!(!json!(all_clients).to_string().contains("very-secret"));

    // If tokens exist, the suggested entry has a command and no URL.
    let token_run = home.run(&["token", "add", "laptop"]).await;
    assert_eq!(token_run.code, Some(0), "{token_run}");
    let all_clients = clients(&home, &daemon).await;
    let cursor = client(&all_clients, "cursor")["snippet"]["text"]
        .as_str()
        .expect("a text");
    assert!(
        cursor.contains("\"connect\"") && !cursor.contains("http://"),
        "{cursor}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn servers_of_a_client_are_taken_over() {
    let home = home!();
    let fake = fake_server::binary();
    let cursor = json!({"mcpServers": {
        "files": {"command": fake, "env": {"API_KEY": "very-secret"}},
        "again": {"command": fake, "env": {"API_KEY": "very-secret"}},
        "other": {"command": fake, "args": ["--name", "other"], "sandbox": true},
        "mainstay": {"command": "mainstay", "args": ["connect"]},
        "odd": 7,
    }});
    put(&home, ".cursor/mcp.json", &cursor.to_string());
    put(&home, ".codex/config.toml", "[mcp_servers.broken\n");
    let config = home.file(
        "mine.jsonc",
        "// mine\n{\"mcpServers\": {\"other\": {\"command\": \"x\", \"enabled\": false}}}\n",
    );
    let daemon = home.serve(&["--config", &config]).await;
    let import_request = async |body: Value| {
        ask(
            &home,
            &daemon,
            "POST",
            "/api/client-files/import",
            Some(&body),
        )
        .await
    };
    let text = || fs::read_to_string(&config).expect("there");

    let (status, answer) = import_request(
        json!({"client": "cursor", "servers": ["files", "nope", "mainstay"], "persist": false}),
    )
    .await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["added"], json!(["files"]), "{answer}");
    let reasons: Vec<(&Value, &Value)> = answer["skipped"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| (&file["name"], &file["reason"]))
        .collect();
    assert_eq!(
        reasons,
        [
            (&json!("nope"), &json!("Cursor has no server of this name")),
            (&json!("mainstay"), &json!("it is Mainstay itself")),
        ]
    );
    assert!(!text().contains("files"));

    let (status, answer) = import_request(json!({"client": "Cursor", "persist": true})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["added"], json!(["other-cursor"]), "{answer}");
    let skipped_text = answer["skipped"].to_string();
    for name in ["files", "mainstay", "odd"] {
        assert!(
            skipped_text.contains(&format!("\"{name}\"")),
            "{name} in {skipped_text}"
        );
    }
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("has no sandbox") && notes.contains("is called other already"),
        "{notes}"
    );
    assert!(!answer.to_string().contains("very-secret"), "{answer}");
    assert!(
        text().starts_with("// mine") && text().contains("other-cursor"),
        "{}",
        text()
    );
    let list = home.run(&["list", "-o", "name"]).await;
    assert!(
        list.stdout.contains("files") && list.stdout.contains("other-cursor"),
        "{list}"
    );

    for (body, expected_text) in [
        (json!({"client": "emacs"}), "unknown client"),
        (json!({"client": "zed"}), "has no file here"),
        (json!({"client": "codex"}), "cannot read"),
        (json!({}), "client"),
    ] {
        let (status, answer) = import_request(body).await;
        assert_eq!(
            (status, &answer["error"]),
            (400, &json!("invalid_request")),
            "{answer}"
        );
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|text| text.contains(expected_text)),
            "{answer}"
        );
    }
    daemon.stop().await;
}
