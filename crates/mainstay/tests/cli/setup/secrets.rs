//! `setup` and `import` move plain secrets of clients' files into the vault.

use std::fs;

use super::{FILES, Machinery, SECRET};

/// `setup` writes references to the secrets. The servers get the secrets, and an undo restores the
/// files.
#[tokio::test]
async fn setup_stores_secrets_and_puts_files_back() {
    let machinery = Machinery::new();
    let before = machinery.state();
    let arguments = ["setup", "--yes", "--no-service", "--secrets", "store"];
    let dry = ["setup", "--dry-run", "--secrets", "store"];
    let dry = machinery.run(&dry).await;
    assert!(dry.stderr.contains("would be kept: notes-API_KEY"), "{dry}");
    assert_eq!(machinery.state(), before);
    let listed = machinery.run(&["secret", "list", "--json"]).await;
    assert_eq!(listed.json()["secrets"], serde_json::json!([]), "{listed}");

    let run = machinery.run(&arguments).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("in the vault are kept: notes-API_KEY"),
        "{run}"
    );
    let config = machinery.home.state().join("config.json");
    let text = fs::read_to_string(&config).expect("a configuration");
    assert!(text.contains("\"${keyring:notes-API_KEY}\""), "{text}");
    for text in [&text, &run.to_string(), &dry.to_string()] {
        assert!(!text.contains(SECRET), "{text}");
    }
    let listed = machinery.run(&["secret", "list", "--json"]).await;
    assert_eq!(
        listed.json()["secrets"][0]["servers"][0],
        "notes",
        "{listed}"
    );
    let config = config.to_str().expect("UTF-8");
    let call = ["call", "--config", config, "notes/env", "name=API_KEY"];
    let call = machinery.run(&call).await;
    assert_eq!(call.stdout.trim(), SECRET, "{call}");

    let undone = machinery.run(&["setup", "--undo"]).await;
    assert_eq!(undone.code, Some(0), "{undone}");
    assert_eq!(machinery.state(), before);
}

/// `import` stores secrets only on request. A second import recognises the servers.
#[tokio::test]
async fn import_stores_secrets_and_knows_its_servers_again() {
    let machinery = Machinery::new();
    let client = machinery.home.path().join(FILES[1]);
    let before = fs::read(&client).expect("a file");
    let run = machinery
        .run(&["import", "--secrets", "store", "--json"])
        .await;
    assert_eq!(
        run.json()["storedSecrets"],
        serde_json::json!(["notes-API_KEY"]),
        "{run}"
    );
    assert!(!run.to_string().contains(SECRET), "{run}");
    let config = machinery.home.state().join("config.json");
    let text = fs::read_to_string(&config).expect("a configuration");
    assert!(
        text.contains("${keyring:notes-API_KEY}") && !text.contains(SECRET),
        "{text}"
    );
    assert_eq!(fs::read(&client).expect("a file"), before);
    let again = machinery.run(&["import", "--secrets", "store"]).await;
    assert!(again.stdout.contains("nothing to import"), "{again}");

    // Without the option, and without a person to ask, secrets stay where they are.
    let other = machinery.home.path().join("other.json");
    let other = other.to_str().expect("UTF-8");
    let run = machinery.run(&["import", "--config", other]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let text = fs::read_to_string(other).expect("a configuration");
    assert!(text.contains(SECRET), "{text}");
}
