//! Commands that start servers for a single run.

use insta::assert_snapshot;
use mainstay_testkit::home;

use crate::fakes::fakes;

#[tokio::test]
async fn a_configuration_is_enough() {
    let home = home!();
    let config = fakes(
        &home,
        &[
            ("fake", &["--no-resources"]),
            ("dead", &["--crash-at-start", "1"]),
        ],
    );
    assert_snapshot!(
        home.transcript(&[
            &["call", "fake/echo", "text=ünï", "--config", &config],
            &["call", "fake/error", "--config", &config],
            &["call", "dead/echo", "text=x", "--config", &config],
            &["prompts", "--config", &config],
            &["resources", "--config", &config],
            &["resources", "--config", &config, "--json"],
        ])
        .await
    );
    // The state directory contains only the record of the calls.
    let remaining_entries = std::fs::read_dir(home.state()).expect("a folder");
    let remaining_entries = remaining_entries.map(|entry| entry.expect("an entry").file_name());
    assert_eq!(remaining_entries.collect::<Vec<_>>(), ["instances"]);
}

/// A command with `--config` does not use a running daemon.
#[tokio::test]
async fn a_daemon_is_left_alone() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let daemon = home.serve(&["--demo"]).await;
    let list = home.run(&["list", "--config", &config, "--json"]).await;
    assert_eq!(list.json()["servers"][0]["name"], "fake", "{list}");
    let list = home.run(&["list", "--json"]).await;
    assert_eq!(list.json()["servers"][0]["name"], "alpha", "{list}");
    daemon.stop().await;
}
