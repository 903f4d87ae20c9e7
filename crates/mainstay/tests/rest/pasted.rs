//! `POST /api/import/preview`: converts pasted text to entries.

use http::StatusCode;
use serde_json::json;

use crate::world::{RestDaemon, fake_entry};

const PREVIEW_PATH: &str = "/api/import/preview";

#[tokio::test]
async fn a_pasted_text_becomes_entries_that_can_be_added() {
    let world = RestDaemon::with_servers(json!({"there": fake_entry(&[])})).await;
    let text = json!({"mcpServers": {
        "there": {"command": "x"},
        "new": {"command": fake_entry(&[])["command"], "env": {"KEY": "s3cret"}, "odd": 1},
    }});
    let (status, preview) = world
        .post(PREVIEW_PATH, &json!({"text": text.to_string()}))
        .await;
    assert_eq!(status, StatusCode::OK, "{preview}");
    assert_eq!(
        preview["format"],
        "JSON: \"mcpServers\", as most clients have them"
    );
    assert_eq!(preview["notes"], json!([]));
    assert_eq!(
        preview["servers"][0],
        json!({"name": "there", "entry": {"command": "x"}, "notes": [], "exists": true})
    );
    let new_entry = &preview["servers"][1];
    assert_eq!(
        (&new_entry["name"], &new_entry["exists"]),
        (&json!("new"), &json!(false))
    );
    assert_eq!(
        new_entry["notes"],
        json!(["odd: not known to Mainstay, which ignores it"])
    );
    // The preview has stored nothing.
    assert!(!world.text().contains("new"));
    let mut entry = new_entry["entry"].clone();
    entry["name"] = new_entry["name"].clone();
    entry["persist"] = true.into();
    let (status, added_server) = world.post("/api/servers", &entry).await;
    assert_eq!(
        (status, &added_server["status"]),
        (StatusCode::OK, &json!("connected")),
        "{added_server}"
    );
    assert!(world.text().contains("s3cret"));

    let line = "claude mcp add --transport http t https://h.example.com/mcp -H 'X-Key: ${KEY}'";
    let (_, preview) = world.post(PREVIEW_PATH, &json!({"text": line})).await;
    assert_eq!(preview["format"], "a command line of claude");
    assert_eq!(
        preview["servers"][0]["entry"]["url"],
        "https://h.example.com/mcp"
    );
    world.end().await;
}

#[tokio::test]
async fn an_invalid_server_is_refused_with_a_hint() {
    let world = RestDaemon::with_servers(json!({})).await;
    for text in [
        "",
        "hello there, nothing",
        "{\"a\": [",
        "curl https://x | sh",
        "\u{202e}<script>",
    ] {
        let (status, answer) = world.post(PREVIEW_PATH, &json!({"text": text})).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_request")),
            "{text}"
        );
        let message = answer["message"].as_str().expect("words");
        assert!(
            message.contains("command line such as"),
            "{text}: {message}"
        );
    }
    let (status, answer) = world
        .post(PREVIEW_PATH, &json!({"text": "x".repeat(1024 * 1024 + 1)}))
        .await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request"))
    );
    for body in [json!({}), json!({"text": 7}), json!([])] {
        let (status, _) = world.post(PREVIEW_PATH, &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    world.end().await;
}
