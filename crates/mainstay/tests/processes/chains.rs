//! Chains of Mainstays (X2): a chain of two works. Loops and chains of five are refused.

use std::{fs, net::TcpListener};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{TestHome, leader};

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");

#[tokio::test]
async fn one_that_would_launch_itself_is_refused_at_depth_one() {
    let world = TestHome::new();
    let config = world.path().join("servers.json");
    // A script that records the chain at each launch.
    let script = "echo \"$MAINSTAY_CHAIN\" >> launches; exec \"$0\" mcp --config \"$1\"";
    let launch_entry =
        json!({"command": "sh", "args": ["-c", script, MAINSTAY, config], "cwd": world.path()});
    let config = world.config("servers.json", &json!({"me": launch_entry}));
    let mut mainstay = world
        .serve(&config, "127.0.0.1:0", "launches itself: server \"me\"")
        .await;
    mainstay.wait_for_stderr("hint: remove server \"me\"").await;
    mainstay.signal(Signal::TERM);
    mainstay.ended().await;
    let launch_text = fs::read_to_string(world.path().join("launches")).expect("one at least");
    assert!(
        launch_text.lines().all(|chain| chain.len() == 16),
        "no second link: {launch_text}"
    );
    world.assert_deserted();
}

#[tokio::test]
async fn two_with_different_configurations_work() {
    let world = TestHome::new();
    let fake = json!({"fake": {"command": fake_server::binary()}});
    let inner_config = world.config("inner.json", &fake);
    let outer_servers =
        json!({"inner": {"command": MAINSTAY, "args": ["mcp", "--config", inner_config]}});
    let outer_servers = world.config("outer.json", &outer_servers);
    let call = [
        "call",
        "inner/fake__echo",
        "text=through both",
        "--config",
        &outer_servers,
    ];
    let (code, stdout, stderr) = world.run(&call, &[]).await;
    assert_eq!((code, stdout.trim()), (Some(0), "through both"), "{stderr}");
    world.assert_deserted();
}

/// With the preset of document 001, a client reaches its server through two Mainstays. If the
/// server dies, the client notices only one slow call (X2).
#[tokio::test]
async fn a_server_that_dies_behind_two_costs_one_slow_call() {
    let world = TestHome::new();
    let fake = json!({"fake": {"command": fake_server::binary(), "preset": "persistent"}});
    let inner_config = world.config("inner.json", &fake);
    let args = ["mcp", "--config", &inner_config];
    let outer_servers =
        json!({"inner": {"command": MAINSTAY, "args": args, "preset": "persistent"}});
    let mut mainstay = world.serve_ready(&outer_servers).await;
    let call = ["call", "inner/fake__echo", "text=through both"];
    let mut dead_leaders = Vec::new();
    for _ in 0..3 {
        let server = leader(&world.everyone()).clone();
        assert!(!dead_leaders.contains(&server.pid), "it was started anew");
        server.signal(Signal::KILL);
        dead_leaders.push(server.pid);
        let (code, stdout, stderr) = world.run(&call, &[]).await;
        assert_eq!((code, stdout.trim()), (Some(0), "through both"), "{stderr}");
    }
    mainstay.signal(Signal::TERM);
    mainstay.ended().await;
    world.assert_deserted();
}

#[tokio::test]
async fn two_work_over_http_and_itself_is_refused() {
    let world = TestHome::new();
    // The port is free for a moment after the listener is dropped.
    let free_listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free_listener
        .local_addr()
        .expect("a bound socket")
        .to_string();
    drop(free_listener);
    let url = format!("http://{address}/mcp");
    let servers =
        json!({"fake": {"command": fake_server::binary()}, "me": {"url": url, "type": "http"}});
    let config = world.config("servers.json", &servers);
    let mut mainstay = world
        .serve(&config, &address, "reached through itself")
        .await;
    // The entry has the status `error`, because another attempt would also be refused.
    let (code, stdout, stderr) = world.run(&["get", "me", "--json"], &[]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let own_entry: Value = serde_json::from_str(&stdout).expect("JSON");
    let own_entry = &own_entry["server"];
    assert_eq!(own_entry["status"], "error", "{own_entry}");
    assert_eq!(own_entry["retried"], false, "{own_entry}");
    let outer_config = world.config(
        "outer.json",
        &json!({"inner": {"url": url, "type": "http"}}),
    );
    let call = [
        "call",
        "inner/fake__echo",
        "text=through both",
        "--config",
        &outer_config,
    ];
    let (code, stdout, stderr) = world.run(&call, &[]).await;
    assert_eq!((code, stdout.trim()), (Some(0), "through both"), "{stderr}");
    mainstay.signal(Signal::TERM);
    mainstay.ended().await;
    world.assert_deserted();
}

#[tokio::test]
async fn the_fifth_of_a_chain_is_refused() {
    let world = TestHome::new();
    let config = world.config("servers.json", &json!({}));
    let chain = |ids| [("MAINSTAY_CHAIN", ids)];
    let (code, _, stderr) = world
        .run(&["mcp", "--config", &config], &chain("1,2,3,4"))
        .await;
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("more than 4 Mainstays"), "{stderr}");
    let (code, _, stderr) = world
        .run(&["mcp", "--config", &config], &chain("1,2,3"))
        .await;
    assert_eq!(code, Some(0), "{stderr}");
}
