//! Servers flood their output while a calm server is called (U8, W21–W23, S7, Y6). Memory stays limited, and
//! calls are answered. `MAINSTAY_FLOOD_MB` sets the size for each server. The default is 100, and `./test
//! long` uses 1000.

// These tests read memory from /proc.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "the figures")]

use std::{
    fs,
    time::{Duration, Instant},
};

use mainstay_api::{Call, Client};
use mainstay_core::config::Secret;
use mainstay_testkit::{Home, Serving, home, limits::FLOOD};
use rustix::process::Signal;
use serde_json::{Value, json, value::RawValue};
use tokio::task::JoinSet;

const MB: u64 = 1_000_000;
const MIB: u64 = 1024 * 1024;

/// The maximum growth of memory during a flood.
const MAX_GROWTH: u64 = 64 * MIB;

/// The maximum memory at any time.
const MAX_MEMORY: u64 = 256 * MIB;

/// The maximum duration of a call during a flood.
const SLOW_CALL: Duration = Duration::from_secs(2);

/// The default size, small enough for debug builds.
const DEFAULT_SIZE: u64 = 100 * MB;

fn bytes() -> u64 {
    let megabytes = std::env::var("MAINSTAY_FLOOD_MB").ok();
    megabytes.map_or(DEFAULT_SIZE, |text| {
        text.parse::<u64>().expect("a number") * MB
    })
}

fn patience() -> Duration {
    FLOOD * bytes().div_ceil(DEFAULT_SIZE) as u32
}

/// Several servers flood stdout with lines that are not messages. Logs rotate, and memory stays limited (W22,
/// W23).
#[tokio::test]
async fn garbage_in_lines_costs_nobody_anything() {
    let report = run_flood(5, json!({"to": "stdout", "bytes": bytes()})).await;
    assert!(report.above_idle < MAX_GROWTH, "{report:?}");
}

#[tokio::test]
async fn garbage_without_line_ends_costs_nobody_anything() {
    let report = run_flood(
        5,
        json!({"to": "stdout", "bytes": bytes(), "endless": true}),
    )
    .await;
    assert!(report.above_idle < MAX_GROWTH, "{report:?}");
}

#[tokio::test]
async fn a_torrent_of_stderr_costs_nobody_anything() {
    let report = run_flood(5, json!({"to": "stderr", "bytes": bytes()})).await;
    assert!(report.above_idle < MAX_GROWTH, "{report:?}");
}

/// The length of long lines. They are needed because the number of messages is limited separately.
const LONG_LINE: usize = 16 * 1024;

#[tokio::test]
async fn log_messages_cost_nobody_anything() {
    messages_cost_nobody_anything("log").await;
}

#[tokio::test]
async fn list_changed_costs_nobody_anything() {
    messages_cost_nobody_anything("tools_changed").await;
}

#[tokio::test]
async fn broken_messages_cost_nobody_anything() {
    messages_cost_nobody_anything("broken").await;
}

async fn messages_cost_nobody_anything(kind: &str) {
    let flood = json!({"to": "stdout", "of": kind, "bytes": bytes(), "lineBytes": LONG_LINE});
    let report = run_flood(5, flood).await;
    assert!(report.above_idle < MAX_GROWTH, "{report:?}");
}

/// A line that starts like a response and never ends.
#[tokio::test]
async fn an_endless_message_costs_nobody_anything() {
    let flood = json!({"to": "stdout", "bytes": bytes(), "endless": true, "as_message": true});
    let report = run_flood(1, flood).await;
    assert!(report.above_idle < MAX_GROWTH, "{report:?}");
}

/// The measurements during a flood.
#[derive(Debug)]
#[expect(dead_code, reason = "shown")]
struct FloodReport {
    above_idle: u64,
    peak: u64,
    calls: usize,
    p50: Duration,
    p99: Duration,
    worst: Duration,
    elapsed: Duration,
}

/// Lets this number of servers flood while a calm server is called.
async fn run_flood(servers: usize, flood: Value) -> FloodReport {
    let home = home!();
    let config = config(&home, servers);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: ").await;
    let client = client(&home, &daemon);
    let pid = daemon.daemon_pid();
    for _ in 0..20 {
        echo(&client, "calm").await;
    }
    let idle_memory = memory(pid, "VmRSS");

    let started_at = Instant::now();
    let mut floods = JoinSet::new();
    for server in client.servers().await.expect("a list").servers {
        if server.name != "calm" {
            let (client, flood) = (client.clone(), flood.clone());
            floods.spawn(async move {
                // The message after the flood is read (W21).
                let call = call(&server.name, "flood", &flood);
                let answer = client.call(&call).await.expect("an answer");
                assert!(answer.result.get().contains("flooded"), "{answer:?}");
                server.name
            });
        }
    }
    let mut calls = Vec::new();
    let mut finished_floods = Vec::new();
    while !floods.is_empty() {
        assert!(
            started_at.elapsed() < patience(),
            "{} floods still run",
            floods.len()
        );
        let previous_time = Instant::now();
        echo(&client, "calm").await;
        calls.push(previous_time.elapsed());
        while let Some(finished_flood) = floods.try_join_next() {
            finished_floods.push(finished_flood.expect("no panic"));
        }
    }
    let elapsed = started_at.elapsed();
    let peak = memory(pid, "VmHWM");
    for name in finished_floods {
        echo(&client, &name).await;
    }
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("stopping").await;
    // The number of log lines about a flood is limited (E17).
    assert!(
        daemon.stderr_text.lines().count() < 100,
        "{}",
        daemon.stderr_text
    );
    assert_eq!(daemon.ended().await, Some(0));
    check_logs(&home, servers);

    calls.sort_unstable();
    let quantile = |share: usize| calls[(calls.len() - 1) * share / 100];
    let report = FloodReport {
        above_idle: peak.saturating_sub(idle_memory),
        peak,
        calls: calls.len(),
        p50: quantile(50),
        p99: quantile(99),
        worst: quantile(100),
        elapsed,
    };
    assert!(report.peak < MAX_MEMORY, "{report:?}");
    assert!(report.worst < SLOW_CALL, "{report:?}");
    println!("{servers} servers, {flood}: {report:#?}");
    report
}

/// A configuration with a calm server, and servers that answer after their flood was read.
fn config(home: &Home, floods: usize) -> String {
    let server = json!({"command": fake_server::binary()});
    let mut servers = json!({"calm": server});
    for number in 0..floods {
        servers[format!("flood{number}")] = server.clone();
        servers[format!("flood{number}")]["timeout"] = json!(patience().as_millis() as u64);
    }
    home.file("servers.json", &json!({"mcpServers": servers}).to_string())
}

fn client(home: &Home, daemon: &Serving) -> Client {
    Client::new(&daemon.url, Some(Secret::new(home.token()))).expect("a URL")
}

fn call(server: &str, tool: &str, arguments: &Value) -> Call {
    let arguments = RawValue::from_string(arguments.to_string()).expect("JSON");
    Call {
        tool: Some(format!("{server}/{tool}")),
        arguments: Some(arguments),
    }
}

async fn echo(client: &Client, server: &str) {
    let call = call(server, "echo", &json!({"text": "still here"}));
    let answer = client.call(&call).await.expect("an answer");
    assert!(answer.result.get().contains("still here"), "{answer:?}");
}

/// A memory figure of a process in bytes, by its name in /proc.
fn memory(pid: u32, description: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(description));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

/// Asserts that the logs use limited disk space (S2).
fn check_logs(home: &Home, servers: usize) {
    let folder = home.state().join("logs");
    let mut sizes = Vec::new();
    for file in fs::read_dir(folder).expect("read") {
        sizes.push(file.expect("an entry").metadata().expect("its size").len());
    }
    // Each log has the current file and five rotated files.
    assert!(sizes.len() <= 6 * (servers + 2), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 10 * MIB), "{sizes:?}");
}
