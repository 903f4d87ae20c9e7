//! `mainstay config history` and `config undo`, with and without a daemon.

use std::{fs, os::unix::fs::PermissionsExt as _};

use mainstay_testkit::{Home, home};
use serde_json::Value;

use crate::fakes::fakes;

const SECRET: &str = "s3cret-of-history";

/// The author and the reason of each version, the newest first.
async fn history(home: &Home, extra_arguments: &[&str]) -> Vec<(String, String)> {
    let run = home
        .run(&[&["config", "history", "--json"], extra_arguments].concat())
        .await;
    let answer = run.json();
    let versions = answer["versions"].as_array().expect("versions").clone();
    let text = |version: &Value, key: &str| version[key].as_str().expect(key).to_owned();
    versions
        .iter()
        .map(|version| (text(version, "by"), text(version, "reason")))
        .collect()
}

fn version(author: &str, reason: &str) -> (String, String) {
    (author.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn without_a_daemon_changes_are_listed_and_undone() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let original = fs::read_to_string(&config).expect("there");
    let named_text = ["--config", config.as_str()];
    let env = format!("API_KEY={SECRET}");
    let add = ["add", "--no-check", "-e", &env, "two"];
    let run = home
        .run(&[&add[..], &named_text, &["--", "true"]].concat())
        .await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = home
        .run(&[&["disable", "one"][..], &named_text].concat())
        .await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(
        history(&home, &named_text).await,
        [
            version("command", "changed one (enabled)"),
            version("command", "added two"),
            version("hand", "as it was found")
        ]
    );
    let diff = home
        .run(&[&["config", "history", "diff", "2"][..], &named_text].concat())
        .await;
    assert!(
        diff.stdout.contains('+')
            && diff
                .stdout
                .contains("${secret:/mcpServers/two/env/API_KEY}"),
        "{}",
        diff.stdout
    );
    let text = home
        .run(&[&["config", "history", "show", "2"][..], &named_text].concat())
        .await;
    assert!(text.stdout.contains("\"two\""), "{}", text.stdout);
    assert!(!format!("{}{}", diff.stdout, text.stdout).contains(SECRET));

    let undo_arguments = |extra_arguments: &'static [&'static str]| {
        let named_text = named_text.map(str::to_owned);
        let home = &home;
        async move {
            let named_text: Vec<&str> = named_text.iter().map(String::as_str).collect();
            home.run(&[&["config", "undo"], extra_arguments, &named_text].concat())
                .await
        }
    };
    let run = undo_arguments(&[]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let message = "the configuration is that of version 2 again, as version 4\n";
    assert_eq!(run.stderr, message);
    let enabled_text = fs::read_to_string(&config).expect("there");
    assert!(enabled_text.contains(SECRET) && !enabled_text.contains("\"enabled\""));
    undo_arguments(&["1"]).await;
    assert_eq!(fs::read_to_string(&config).expect("there"), original);

    fs::write(&config, format!("{original}\n")).expect("written");
    let run = undo_arguments(&[]).await;
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("config undo --force"), "{}", run.stderr);
    assert_eq!(
        fs::read_to_string(&config).expect("there"),
        format!("{original}\n")
    );
    let run = undo_arguments(&["--force"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&config).expect("there"), original);

    // An invalid file is also stored as a version.
    fs::write(&config, "{ no").expect("written");
    let run = undo_arguments(&["1", "--force"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&config).expect("there"), original);
    let newest_version = &history(&home, &named_text).await[1];
    assert_eq!(*newest_version, version("hand", "the file is no JSON"));

    let folder = home.state().join("config-history");
    let mode = |path: &std::path::Path| {
        let metadata = fs::metadata(path).expect("there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    for file in fs::read_dir(&folder).expect("a folder") {
        let server_folder = file.expect("read").path();
        assert_eq!(mode(&server_folder), 0o700);
        for version in fs::read_dir(server_folder).expect("a folder") {
            assert_eq!(mode(&version.expect("read").path()), 0o600);
        }
    }
}

#[tokio::test]
async fn an_undo_with_a_daemon_applies_immediately() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let daemon = home.serve(&["--config", &config]).await;
    let run = home.run(&["remove", "one"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(
        history(&home, &[]).await,
        [
            version("command", "removed one"),
            version("hand", "as it was found")
        ]
    );
    let run = home.run(&["config", "undo"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, "+ one  is added and started\n");
    assert_eq!(home.run(&["get", "one"]).await.code, Some(0));
    let run = home.run(&["config", "undo", "99"]).await;
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    daemon.stop().await;
}

/// The history keeps a limited number of versions.
#[tokio::test]
async fn the_oldest_versions_go() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let named_text = ["--config", config.as_str()];
    for _ in 0..26 {
        home.run(&[&["disable", "one"][..], &named_text].concat())
            .await;
        home.run(&[&["enable", "one"][..], &named_text].concat())
            .await;
    }
    let run = home
        .run(&[&["config", "history", "--json"][..], &named_text].concat())
        .await;
    let versions = run.json()["versions"].as_array().expect("versions").clone();
    assert_eq!(versions.len(), 50);
    assert_eq!(versions[0]["version"], 53, "{}", versions[0]);
    assert_eq!(versions[49]["version"], 4);
}
