//! A stdio server that is killed by SIGKILL while it is called.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use mainstay_bench::gateway::Gateway;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::{Map, json};

use crate::{Milliseconds, load::Load};

const CONNECTIONS: usize = 4;
const PAUSE: Duration = Duration::from_millis(2);

/// How long the server is up before each kill: one that dies as soon as it is up waits for the distance
/// between two attempts.
pub const UPTIMES: [Duration; 2] = [Duration::from_millis(1200), Duration::ZERO];

#[derive(Debug, Serialize)]
pub struct Crashes {
    connections: usize,
    uptime_ms: u128,
    pause_ms: u128,
    /// From the kill to the end of the first call that was begun after it and answered.
    recovery_ms: Milliseconds,
    /// Of all kills together: calls in flight, and those that the attempt came too late for.
    failed_calls: usize,
}

pub async fn measure(mainstay: &Path, kills: usize, uptime: Duration) -> anyhow::Result<Crashes> {
    // Without a budget: it is the same server that dies so often.
    let server = json!({"command": fake_server::binary(), "restart": {"maxAttempts": 0}});
    let servers = Map::from_iter([("x".to_owned(), server)]);
    let gateway = Gateway::start(mainstay, servers, json!({})).await?;
    let mut load = Load::start(&gateway.endpoint, "x__echo", CONNECTIONS, PAUSE).await?;
    let mut times = Vec::new();
    for _ in 0..kills {
        tokio::time::sleep(uptime).await;
        let now = Instant::now();
        load.success(|it| it.began > now).await?;
        let pid = gateway.servers().await?[0].pid.context("it runs")?;
        let killed = Instant::now();
        kill_process(
            Pid::from_raw(pid.cast_signed()).context("a process id")?,
            Signal::KILL,
        )?;
        while lives(pid) {
            tokio::task::yield_now().await;
        }
        let dead = Instant::now();
        let success = load.success(|it| it.began > dead).await?;
        times.push(success.ended - killed);
    }
    let failed_calls = load.end().await?;
    gateway.stop().await?;
    Ok(Crashes {
        connections: CONNECTIONS,
        uptime_ms: uptime.as_millis(),
        pause_ms: PAUSE.as_millis(),
        recovery_ms: Milliseconds::of(&times),
        failed_calls,
    })
}

/// Not gone, and no zombie: it could still answer.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}
