//! Earlier versions of the configuration over REST.

use std::fs;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::{RestDaemon, fake, fake_entry};

const HISTORY: &str = "/api/config/history";
const UNDO_PATH: &str = "/api/config/undo";

/// A configuration with comments, a secret, and unusual spacing and order.
fn commented_config() -> String {
    format!(
        "// mine\n{{\n  \"mcpServers\": {{\n    \"one\": {{ \"command\": \"{}\",   \"env\": {{\"API_KEY\": 's3cret'}} }},\n  }},\n}}\n",
        fake()
    )
}

/// The number, author and reason of each version.
async fn versions(world: &RestDaemon) -> Vec<(u64, String, String)> {
    let answer = world.get(HISTORY).await;
    let versions = answer["versions"].as_array().expect("versions").iter();
    let text = |version: &Value, key: &str| version[key].as_str().expect(key).to_owned();
    versions
        .map(|version| {
            assert!(text(version, "at").ends_with('Z'), "{version}");
            let number = version["version"].as_u64().expect("a number");
            (number, text(version, "by"), text(version, "reason"))
        })
        .collect()
}

fn version(number: u64, author: &str, reason: &str) -> (u64, String, String) {
    (number, author.to_owned(), reason.to_owned())
}

async fn undo(world: &RestDaemon, body: Value) -> (StatusCode, Value) {
    world.post(UNDO_PATH, &body).await
}

#[tokio::test]
async fn a_change_is_undone_to_the_byte_and_so_is_the_undo() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    assert_eq!(versions(&world).await, []);
    let mut body = fake_entry(&[]);
    body["name"] = json!("two");
    body["persist"] = json!(true);
    let (status, answer) = world.post("/api/servers", &body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let changed_text = world.text();
    let first = [
        version(2, "rest", "added two"),
        version(1, "hand", "as it was found"),
    ];
    assert_eq!(versions(&world).await, first);

    let (status, answer) = undo(&world, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(
        (&answer["restored"], &answer["version"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(answer["plan"]["servers"][1]["name"], "two", "{answer}");
    assert_eq!(world.text(), commented_config());
    let (status, _) = world.send(Method::GET, "/api/servers/two", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let (status, answer) = undo(&world, json!({})).await;
    assert_eq!((status, &answer["restored"]), (StatusCode::OK, &json!(2)));
    assert_eq!(world.text(), changed_text);
    world.get("/api/servers/two").await;

    let (status, answer) = undo(&world, json!({"version": 1})).await;
    assert_eq!((status, &answer["version"]), (StatusCode::OK, &json!(5)));
    assert_eq!(world.text(), commented_config());
    let newest_version = &versions(&world).await[0];
    assert_eq!(*newest_version, version(5, "rest", "back to version 1"));

    let (status, answer) = undo(&world, json!({"version": 77})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("version_not_found"))
    );
    world.end().await;
}

#[tokio::test]
async fn a_version_is_shown_without_its_secrets() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let (status, answer) = world
        .post("/api/servers/one/disable", &json!({"persist": true}))
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let answer = world.get(&format!("{HISTORY}/2")).await;
    assert_eq!(answer["reason"], "changed one (enabled)");
    let (text, difference) = (&answer["text"], &answer["difference"]);
    let (text, difference) = (text.as_str(), difference.as_str());
    let difference = difference.expect("a difference");
    assert!(
        difference
            .lines()
            .any(|line| line.starts_with('+') && line.contains("\"enabled\": false")),
        "{difference}"
    );
    assert!(text.is_some_and(|text| text.starts_with("// mine")));
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
    let first = world.get(&format!("{HISTORY}/1")).await;
    assert!(first.get("difference").is_none() && !first.to_string().contains("s3cret"));
    world.end().await;
}

/// If somebody has changed the file by hand, its content is stored as a version before it is
/// replaced.
#[tokio::test]
async fn a_file_that_was_changed_by_hand_is_replaced_by_force_alone() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let disable_body = json!({"persist": true});
    world.post("/api/servers/one/disable", &disable_body).await;
    for edited_text in [
        commented_config().replace("mine", "yours"),
        "{ broken".to_owned(),
    ] {
        fs::write(&world.file, &edited_text).expect("written");
        assert_eq!(world.get(HISTORY).await["changed"], true);
        let (status, answer) = undo(&world, json!({"version": 1})).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::CONFLICT, &json!("config_changed")),
            "{answer}"
        );
        assert_eq!(world.text(), edited_text);

        let (status, answer) = undo(&world, json!({"version": 1, "force": true})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(world.text(), commented_config());
        let history = world.get(HISTORY).await;
        assert_eq!(history["changed"], false);
        let version = &history["versions"][1];
        assert_eq!(version["by"], "hand", "{history}");
        let (state, number) = (
            world.folder.path().join("state"),
            version["version"].as_u64(),
        );
        let name = format!("{:06}.version", number.expect("a number"));
        let folder = fs::read_dir(state.join("config-history")).expect("a folder");
        let folder = folder.last().expect("one file").expect("read").path();
        let file = fs::read_to_string(folder.join(name)).expect("a version");
        assert!(file.ends_with(&edited_text), "{file}");
    }
    // A version with an invalid text cannot be restored.
    let broken_version = versions(&world).await[1].0;
    let (status, answer) = undo(&world, json!({"version": broken_version})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_config"))
    );
    assert_eq!(world.text(), commented_config());
    world.end().await;
}

#[tokio::test]
async fn a_change_by_hand_that_a_reload_finds_is_a_version() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    world.post("/api/reload", &json!({})).await;
    let edited_text = commented_config().replace("s3cret", "0ther");
    fs::write(&world.file, &edited_text).expect("written");
    world.post("/api/reload", &json!({})).await;
    assert_eq!(
        versions(&world).await[0],
        version(2, "hand", "changed one (env)")
    );
    let answer = world.get(&format!("{HISTORY}/2")).await;
    assert_eq!(answer["difference"], "");
    let (status, _) = undo(&world, json!({})).await;
    assert_eq!((status, world.text()), (StatusCode::OK, commented_config()));
    world.end().await;
}
