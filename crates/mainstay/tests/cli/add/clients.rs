//! `mainstay add --from`: adds servers from the files of other clients.

use std::fs;

use mainstay_testkit::home;
use serde_json::json;

use super::{fake_registry::FakeRegistry, saved_config};

#[tokio::test]
async fn a_server_of_another_client_is_taken() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let fake = fake_server::binary();
    let client_config = json!({"mcpServers": {
        "files": {"command": fake, "args": ["--name", "files"], "env": {"KEY": "s3cret"}},
        "self": {"command": "mainstay", "args": ["mcp"]},
    }});
    fs::create_dir_all(home.path().join(".cursor")).expect("a folder");
    fs::write(
        home.path().join(".cursor/mcp.json"),
        client_config.to_string(),
    )
    .expect("written");
    let run = registry
        .run(&home, &["add", "--from", "cursor", "file"])
        .await;
    assert!(
        run.code == Some(4) && run.stderr.contains("did you mean files?"),
        "{run}"
    );
    let run = registry
        .run(&home, &["add", "--from", "cursor", "self"])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("it is Mainstay itself"),
        "{run}"
    );
    let run = registry
        .run(&home, &["add", "--from", "nobody", "files"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    let run = registry
        .run(&home, &["add", "--from", "cursor", "mine", "files"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("from Cursor") && !run.stderr.contains("s3cret"),
        "{run}"
    );
    let entry = &saved_config(&home).expect("saved")["mcpServers"]["mine"];
    assert_eq!(entry["env"], json!({"KEY": "s3cret"}));
    let run = registry
        .run(&home, &["add", "--from", "cursor", "mine", "files"])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("is there already"),
        "{run}"
    );
}
