//! The daemon ends in different ways. No process remains.

use std::os::unix::process::ExitStatusExt as _;

use rustix::{
    process::{Pid, Signal},
    thread::disable_transparent_huge_pages,
};
use serde_json::json;

use crate::world::{TestHome, families, family, leader};

const STUBBORN_FLAGS: [&str; 2] = ["--ignore-sigterm", "--ignore-stdin-eof"];

/// After an orderly stop, no grandchildren remain (supergateway#108, docker#318).
#[tokio::test]
async fn an_orderly_stop_leaves_nobody() {
    let world = TestHome::new();
    let servers = json!({"one": family(&[]), "two": family(&[])});
    let mut mainstay = world.serve_ready(&servers).await;
    let processes = world.until("two families", families(2)).await;
    // Their environment has the variables that identify them, but no settings of Mainstay.
    for process in processes
        .iter()
        .filter(|process| process.server().is_some())
    {
        let mut ours: Vec<&str> = process.environment.keys().map(String::as_str).collect();
        ours.retain(|name| name.starts_with("MAINSTAY_"));
        ours.sort_unstable();
        assert_eq!(
            ours,
            ["MAINSTAY_CHAIN", "MAINSTAY_INSTANCE", "MAINSTAY_SERVER"]
        );
    }
    mainstay.signal(Signal::TERM);
    assert_eq!(mainstay.ended().await.code(), Some(0));
    world.assert_deserted();
}

/// `ps`, `top` and `pidof` show the guardian and the daemon by the name of the program.
#[tokio::test]
async fn guardian_and_daemon_have_the_programs_name() {
    let world = TestHome::new();
    let mainstay = world.serve_ready(&json!({})).await;
    for pid in [mainstay.pid(), world.daemon_of(&mainstay).pid] {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()));
        assert_eq!(name.expect("it runs"), "mainstay\n");
    }
}

/// To save memory, Mainstay switches huge pages off for itself. Servers keep the setting of the
/// system.
#[tokio::test]
async fn only_servers_have_huge_pages() {
    assert_eq!(huge_pages_of_all().await, [false, false, true]);
    // If huge pages are off before Mainstay starts, servers inherit that.
    disable_transparent_huge_pages(true).expect("Linux can");
    let inherited_bytes = huge_pages_of_all().await;
    disable_transparent_huge_pages(false).expect("Linux can");
    assert_eq!(inherited_bytes, [false, false, false]);
}

/// The settings for huge pages of the guardian, the daemon and a server.
async fn huge_pages_of_all() -> [bool; 3] {
    let world = TestHome::new();
    let mainstay = world.serve_ready(&json!({"it": family(&[])})).await;
    let processes = world.until("a family", families(1)).await;
    let daemon = world.daemon_of(&mainstay).pid;
    [mainstay.pid(), daemon, leader(&processes).pid].map(|pid| {
        let path = format!("/proc/{}/status", pid.as_raw_pid());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("THP_enabled"));
        line.expect("Linux says so").ends_with('1')
    })
}

/// The daemon writes no core dumps, because its memory has secrets. Servers keep their limit.
#[tokio::test]
async fn the_daemon_leaves_no_core_dump() {
    let world = TestHome::new();
    let mainstay = world.serve_ready(&json!({"it": family(&[])})).await;
    let processes = world.until("a family", families(1)).await;
    let daemon = world.daemon_of(&mainstay).pid;
    let test_process = Pid::from_raw(std::process::id().cast_signed()).expect("a process id");
    let [daemon, server, own_limit] = [daemon, leader(&processes).pid, test_process].map(|pid| {
        let path = format!("/proc/{}/limits", pid.as_raw_pid());
        let limits = std::fs::read_to_string(path).expect("it runs");
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max core file size"));
        let soft_limit = line.expect("Linux says so").split_whitespace().next();
        soft_limit.expect("a soft limit").to_owned()
    });
    assert_eq!(daemon, "1");
    assert_eq!(server, own_limit);
}

/// If the daemon is killed, its guardian ends the servers (MCPJungle#271: servers survive).
#[tokio::test]
async fn a_killed_daemon_leaves_nobody() {
    let world = TestHome::new();
    let servers = json!({"calm": family(&[]), "stubborn": family(&STUBBORN_FLAGS)});
    let mut mainstay = world.serve_ready(&servers).await;
    world.until("two families", families(2)).await;
    world.daemon_of(&mainstay).signal(Signal::KILL);
    assert_eq!(mainstay.ended().await.code(), Some(137));
    world.assert_deserted();
}

/// If the guardian is killed, the daemon stops in order (metamcp#162: children survive).
#[tokio::test]
async fn a_killed_guardian_ends_the_daemon_in_order() {
    let world = TestHome::new();
    let mut mainstay = world.serve_ready(&json!({"it": family(&[])})).await;
    world.until("a family", families(1)).await;
    mainstay.signal(Signal::KILL);
    mainstay.wait_for_stderr("SIGTERM: stopping").await;
    assert_eq!(mainstay.ended().await.signal(), Some(9));
    world.until_deserted().await;
    assert!(!world.path().join("state/daemon.json").exists());
}

/// If both the guardian and the daemon are killed, servers end by themselves.
#[tokio::test]
async fn servers_die_with_guardian_and_daemon() {
    let world = TestHome::new();
    let server = json!({"command": fake_server::binary(), "args": STUBBORN_FLAGS});
    let mut mainstay = world
        .serve_ready(&json!({"one": server, "two": server}))
        .await;
    let daemon = world.daemon_of(&mainstay);
    // Stop the daemon first, so that it cannot react to the death of its guardian.
    daemon.signal(Signal::STOP);
    mainstay.signal(Signal::KILL);
    daemon.signal(Signal::KILL);
    mainstay.ended().await;
    world.until_deserted().await;
}

/// A second SIGINT kills even servers that ignore SIGTERM.
#[tokio::test]
async fn a_second_signal_leaves_nobody_at_once() {
    let world = TestHome::new();
    let mut mainstay = world
        .serve_ready(&json!({"it": family(&STUBBORN_FLAGS)}))
        .await;
    world.until("a family", families(1)).await;
    mainstay.signal(Signal::INT);
    mainstay.wait_for_stderr("SIGINT: stopping").await;
    let start = std::time::Instant::now();
    mainstay.signal(Signal::TERM);
    assert_eq!(mainstay.ended().await.code(), Some(143));
    assert!(
        start.elapsed().as_secs() < 5,
        "the stop sequence alone takes 6 s"
    );
    world.assert_deserted();
}

/// A second SIGINT also works if the daemon has no guardian.
#[tokio::test]
async fn a_second_signal_without_a_guardian_leaves_nobody() {
    let world = TestHome::new();
    let mut mainstay = world
        .serve_ready(&json!({"it": family(&STUBBORN_FLAGS)}))
        .await;
    world.until("a family", families(1)).await;
    let daemon = world.daemon_of(&mainstay);
    mainstay.signal(Signal::KILL);
    mainstay.wait_for_stderr("SIGTERM: stopping").await;
    daemon.signal(Signal::INT);
    world.until_deserted().await;
}

/// systemd sends a signal to every process, so the daemon gets it twice. It counts as one signal.
#[tokio::test]
async fn one_signal_to_everyone_stops_in_order() {
    let world = TestHome::new();
    let slow_entry = json!({"command": fake_server::binary(), "args": STUBBORN_FLAGS});
    let mut mainstay = world.serve_ready(&json!({"it": slow_entry})).await;
    let daemon = world.daemon_of(&mainstay);
    daemon.signal(Signal::TERM);
    mainstay.signal(Signal::TERM);
    assert_eq!(mainstay.ended().await.code(), Some(0));
    world.assert_deserted();
}
