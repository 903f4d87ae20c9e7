//! A client ends its `mainstay mcp` in different ways. No process remains.

use std::process::Stdio;

use mainstay_testkit::Running;
use rustix::process::Signal;
use serde_json::json;

use crate::world::{TestHome, families, family};

async fn start_mcp(world: &TestHome) -> Running {
    let config = world.config("servers.json", &json!({"it": family(&[])}));
    let mut command = world.command(&["mcp", "--config", &config]);
    command.stdin(Stdio::piped());
    let mainstay = Running::start(command);
    world.until("a family", families(1)).await;
    mainstay
}

/// The client closes stdin (specification, "Shutdown").
#[tokio::test]
async fn a_client_that_closes_its_end_leaves_nobody() {
    let world = TestHome::new();
    let mut mainstay = start_mcp(&world).await;
    drop(mainstay.child.stdin.take());
    assert_eq!(mainstay.ended().await.code(), Some(0));
    world.assert_deserted();
}

/// The client crashes. This closes all pipes.
#[tokio::test]
async fn a_client_that_crashes_leaves_nobody() {
    let world = TestHome::new();
    let mainstay = start_mcp(&world).await;
    drop(mainstay);
    world.until_deserted().await;
}

/// The client kills the process that it started, and no other (metamcp#162).
#[tokio::test]
async fn a_client_that_kills_us_leaves_nobody() {
    let world = TestHome::new();
    let mut mainstay = start_mcp(&world).await;
    mainstay.signal(Signal::KILL);
    mainstay.ended().await;
    world.until_deserted().await;
}

/// The terminal of the client is closed.
#[tokio::test]
async fn a_terminal_that_goes_away_leaves_nobody() {
    let world = TestHome::new();
    let mut mainstay = start_mcp(&world).await;
    mainstay.signal(Signal::HUP);
    mainstay.ended().await;
    world.assert_deserted();
}
