//! Reading and writing the configuration over REST (docs/dev/requirements.md, sections A, K and M).

use http::StatusCode;
use serde_json::json;

use crate::{
    backend::Backend,
    world::{SECRET, TestConfig, entry_with, none, ok, refused},
};

/// REST returns placeholders for secrets. If a placeholder is written back, its secret is kept
/// (M11, A29).
#[tokio::test]
async fn secrets_leave_as_placeholders_and_come_back() {
    let backend = Backend::stdio().await;
    let entry = entry_with(&backend, json!({"env": {"KEY": SECRET}, "timeout": 9000}));
    let remote = json!({"url": format!("http://127.0.0.1:1/mcp?key={SECRET}"), "bearerToken": SECRET, "enabled": false});
    let config = json!({"mcpServers": {"one": entry, "two": remote}, "naming": "slash"});
    let world = TestConfig::new_json(&config);
    let gateway = world.run().await;
    let rest = gateway.rest();
    rest.until_status("one", "connected").await;
    let pid = rest.server("one").await["pid"].clone();
    let mut served_response = rest.get("/api/config").await;
    assert!(
        !served_response.to_string().contains(SECRET),
        "{served_response}"
    );
    assert_eq!(
        served_response["mcpServers"]["one"]["env"]["KEY"],
        "${secret:/mcpServers/one/env/KEY}"
    );
    assert_eq!(served_response["naming"], "slash");

    // A change of a timeout restarts no process.
    served_response["mcpServers"]["one"]["timeout"] = 8000.into();
    let answer = ok(rest.put("/api/config", served_response.clone()).await);
    assert_eq!(answer["success"], true, "{answer}");
    let mut expected = config.clone();
    expected["mcpServers"]["one"]["timeout"] = 8000.into();
    assert_eq!(world.value(), expected);
    assert_eq!(rest.server("one").await["pid"], pid);

    // Write the entry of one server, and that of a server that is in no file.
    let details = rest.get("/api/servers/two").await;
    let mut entry = details["entry"].clone();
    entry["persist"] = true.into();
    entry["headers"] = json!({"x-more": "1"});
    ok(rest.put("/api/servers/two", entry).await);
    expected["mcpServers"]["two"]["headers"] = json!({"x-more": "1"});
    assert_eq!(world.value(), expected);
    ok(rest
        .put(
            "/api/servers/three",
            entry_with(&backend, json!({"env": {"KEY": SECRET}})),
        )
        .await);
    let details = rest.get("/api/servers/three").await;
    assert!(!details.to_string().contains(SECRET), "{details}");
    let sessions = backend.count("initialize");
    ok(rest
        .put("/api/servers/three", details["entry"].clone())
        .await);
    assert_eq!(backend.count("initialize"), sessions, "nothing changed");

    let mut unknown_response = rest.get("/api/config").await;
    unknown_response["mcpServers"]["one"]["env"]["OTHER"] =
        "${secret:/mcpServers/none/env/KEY}".into();
    let answer = rest.put("/api/config", unknown_response).await;
    refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
    for path in [
        "/api/servers",
        "/api/mcp-clients",
        "/api/config",
        "/api/servers/one",
        "/api/events/recent",
    ] {
        let answer = rest.get(path).await.to_string();
        assert!(!answer.contains(SECRET), "{path}: {answer}");
    }
    assert_eq!(world.value(), expected);
}

/// An invalid configuration is refused with the texts of document 003. A valid configuration takes
/// effect (A24, A28).
#[tokio::test]
async fn a_configuration_is_put_whole_or_not_at_all() {
    let (first_backend, second_backend) = (Backend::stdio().await, Backend::http().await);
    let world = TestConfig::new_json(&json!({"mcpServers": {"one": first_backend.entry}}));
    let gateway = world.run().await;
    let rest = gateway.rest();
    rest.until_status("one", "connected").await;
    let previous_text = world.text();
    for (bad_config, expected_text) in [
        (json!([]), "Config must be an object"),
        (json!({}), "Missing mcpServers field"),
        (
            json!({"mcpServers": {"x": {}}}),
            "Server x: command is required",
        ),
        (
            json!({"mcpServers": {"x": {"command": "y", "args": {}}}}),
            "Server x: args must be an array",
        ),
        (
            json!({"mcpServers": {"x": {"command": "y", "timeout": "z"}}}),
            "Server x: timeout must be a number",
        ),
        (
            json!({"mcpServers": {"x": {"command": "y", "timeout": 999}}}),
            "Server x: timeout must be between 1000-300000ms",
        ),
    ] {
        let answer = rest.put("/api/config", bad_config).await;
        let answer = refused(StatusCode::BAD_REQUEST, "invalid_config", answer);
        assert_eq!(
            answer["message"],
            format!("Invalid configuration: {expected_text}")
        );
    }
    assert_eq!(
        (world.text(), rest.names().await),
        (previous_text, vec!["one".to_owned()])
    );

    let idle_entry = entry_with(&second_backend, json!({"autoStart": false}));
    let valid_config = json!({"mcpServers": {"idle": idle_entry, "two": second_backend.entry}});
    let answer = ok(rest.put("/api/config", valid_config.clone()).await);
    assert!(
        answer["summary"]
            .as_str()
            .is_some_and(|expected_text| expected_text.contains("two")),
        "{answer}"
    );
    assert_eq!(rest.names().await, ["idle", "two"]);
    rest.until_status("two", "connected").await;
    assert_eq!(rest.server("idle").await["status"], "disconnected");
    assert_eq!(world.value(), valid_config);
}

/// If the file cannot be written, the change does not take effect.
#[tokio::test]
async fn an_unwritable_change_does_not_apply() {
    let backend = Backend::http().await;
    let world = none();
    let gateway = world.run().await;
    let rest = gateway.rest();
    let path = world.file();
    // Put a folder in the file's place. Not even root can replace it by a file.
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let (status, answer) = rest
        .post(
            "/api/servers",
            entry_with(&backend, json!({"name": "x", "persist": true})),
        )
        .await;
    assert_ne!(status, StatusCode::OK, "{answer}");
    assert_eq!(rest.names().await, Vec::<String>::new());
}
