//! `mainstay health` (B10, B11).

use mainstay_testkit::{Home, Run, found, home, limits::PROGRAMS};
use serde_json::json;

/// A configuration with four servers: healthy, silent, silent for a long time, and unable to start.
fn config(home: &Home) -> String {
    let program = fake_server::binary();
    let config = json!({"mcpServers": {
        "good": {"command": program},
        "late": {"command": program, "args": ["--ignore-ping"]},
        "ill": {
            "command": program,
            "args": ["--ignore-ping"],
            "preset": "manual",
            "health": {"intervalMs": 1000, "timeoutMs": 100, "threshold": 2},
        },
        "broken": {
            "command": program,
            "args": ["--crash-at-start", "7"],
            "restart": {"mode": "never"},
        },
        "off": {"command": program, "disabled": true},
    }});
    home.file("servers.json", &config.to_string())
}

fn rows(run: &Run) -> Vec<&str> {
    run.stdout.lines().collect()
}

/// The output has the form of document 004 (B11).
#[tokio::test]
async fn the_table_says_how_each_server_is() {
    let home = home!();
    let mut daemon = home.serve(&["--config", &config(&home)]).await;
    daemon.wait_for_stderr("ready: 3 of 4").await;
    // Wait for two failed probes, which are a second apart.
    let is_degraded = async || {
        let list = home.run(&["list", "--json"]).await.json();
        (list["servers"][2]["healthStatus"] == "degraded").then_some(())
    };
    found(PROGRAMS, "a degraded server", is_degraded).await;
    let all_run = home.run(&["health"]).await;
    assert_eq!(all_run.code, Some(1), "{all_run}");
    let [head, valid_row, late_row, degraded_row, broken_row] = rows(&all_run)[..] else {
        panic!("{all_run}")
    };
    assert_eq!(head, "Server Health");
    let ping = valid_row.strip_prefix("  good             healthy    ping: ");
    let ping = ping.and_then(|rest| rest.strip_suffix("ms"));
    assert!(
        ping.is_some_and(|ms| ms.parse::<u64>().is_ok()),
        "{valid_row}"
    );
    assert_eq!(
        late_row,
        "  late             timeout    ping timed out after 5s"
    );
    let age = degraded_row.strip_prefix("  ill              unhealthy  last success: ");
    let age = age.and_then(|rest| rest.strip_suffix(" consecutive failures"));
    let (seconds, failures) = age
        .and_then(|text| text.split_once("s ago, "))
        .expect(degraded_row);
    assert!(seconds.parse::<u64>().is_ok(), "{degraded_row}");
    assert!(
        failures.parse::<u64>().is_ok_and(|count| count >= 2),
        "{degraded_row}"
    );
    assert_eq!(
        broken_row,
        "  broken           error      error: process exited unexpectedly (code 7): the fake crashes at start with code 7; see \"mainstay logs broken\", then \"mainstay start broken\""
    );

    let first_run = home.run(&["health", "good"]).await;
    assert_eq!(
        (first_run.code, rows(&first_run).len()),
        (Some(0), 2),
        "{first_run}"
    );
    let empty_run = home.run(&["health", "nobody"]).await;
    assert_eq!(
        (empty_run.code, empty_run.stdout.as_str()),
        (Some(4), ""),
        "{empty_run}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn health_as_json_equals_the_table() {
    let home = home!();
    let mut daemon = home.serve(&["--config", &config(&home)]).await;
    daemon.wait_for_stderr("ready: 3 of 4").await;
    let valid_run = home.run(&["health", "good", "--json"]).await;
    assert_eq!(valid_run.code, Some(0), "{valid_run}");
    let healthy_server = &valid_run.json()["servers"][0];
    assert_eq!(
        (&healthy_server["name"], &healthy_server["status"]),
        (&json!("good"), &json!("healthy"))
    );
    let broken_run = home.run(&["health", "broken", "--json"]).await;
    assert_eq!(broken_run.code, Some(1), "{broken_run}");
    let degraded_server = &broken_run.json()["servers"][0];
    assert_eq!(
        (&degraded_server["status"], &degraded_server["message"]),
        (
            &json!("error"),
            &json!(
                "error: process exited unexpectedly (code 7): the fake crashes at start with code 7; see \"mainstay logs broken\", then \"mainstay start broken\""
            )
        )
    );
    daemon.stop().await;
}

/// A flag enables background probes of servers without a setting of their own. A change of health
/// is logged as a warning (B13, H12).
#[tokio::test]
async fn an_interval_of_the_command_line_asks_in_the_background() {
    let home = home!();
    let config = json!({"preset": "manual", "mcpServers": {"late": {
        "command": fake_server::binary(),
        "args": ["--ignore-ping"],
        "health": {"timeoutMs": 100},
    }}});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home
        .serve(&["--config", &config, "--health-interval", "1"])
        .await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let warning = daemon.wait_for_stderr("its health turned").await;
    assert!(
        warning.contains("WARN")
            && warning.contains("late")
            && warning.contains("unhealthy after 5 failed checks: "),
        "{warning}"
    );
    let list = home.run(&["list", "--json"]).await;
    let server = &list.json()["servers"][0];
    assert_eq!(
        (&server["status"], &server["healthStatus"]),
        (&json!("connected"), &json!("degraded")),
        "{list}"
    );
    daemon.stop().await;
}
