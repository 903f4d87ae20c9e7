//! A fleet of HTTP servers that is lost at once and comes back at once.
//!
//! First their ports are closed, until Mainstay has lost them all. Then they are open and reset every
//! connection, which is counted, until as many attempts have failed as there are servers. Then they are
//! back.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use fake_server::gate::{self, GateMode};
use fake_server::{Fleet, Script};
use mainstay_bench::gateway::{Gateway, PATIENCE};
use serde::Serialize;
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::ms;

/// The default, said all the same.
const MAX_ATTEMPTS_PER_SECOND: usize = 50;

const SECOND: Duration = Duration::from_secs(1);

const GLANCE: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
pub struct Return {
    backends: usize,
    max_attempts_per_second: usize,
    /// Of attempts in any second, from the first start on: a sliding window, not seconds of a clock.
    most_attempts_in_any_second: usize,
    /// All times from the loss on.
    lost_all_ms: f64,
    back_ms: f64,
    connected_all_ms: f64,
    seconds: Vec<Second>,
}

/// One second after the loss.
#[derive(Debug, Serialize)]
struct Second {
    /// To open a session.
    attempts: usize,
    /// Accepted connections, for whatever purpose.
    connections: usize,
}

impl Return {
    pub fn missed(&self) -> Option<String> {
        let most = self.most_attempts_in_any_second;
        (most > self.max_attempts_per_second).then(|| {
            format!(
                "{most} attempts in a second, {} are allowed",
                self.max_attempts_per_second
            )
        })
    }
}

pub async fn measure(mainstay: &Path, backends: usize) -> anyhow::Result<Return> {
    let fleet = Fleet::http(backends, Script::default()).await?;
    let entries = fleet.urls().enumerate();
    let entries = entries.map(|(number, url)| (format!("s{number}"), json!({"url": url})));
    let settings = json!({"maxAttemptsPerSecond": MAX_ATTEMPTS_PER_SECOND});
    let gateway = Gateway::start(mainstay, entries.collect(), settings).await?;

    let before = fleet.attempts().len();
    let lost = Instant::now();
    fleet.lose().await?;
    gateway
        .until("all are lost", |server| !server.connected)
        .await?;
    let lost_all = lost.elapsed();
    fleet.set(GateMode::Reset).await?;
    let refused = async {
        let mut glance = interval(GLANCE);
        while fleet.attempts().len() < before + backends {
            glance.tick().await;
        }
    };
    timeout(PATIENCE, refused)
        .await
        .context("attempts are too few")?;
    fleet.set(GateMode::Forward).await?;
    let back = lost.elapsed();
    gateway
        .until("all are back", |server| server.connected)
        .await?;
    let connected_all = lost.elapsed();
    gateway.stop().await?;

    let attempts = fleet.attempts();
    let connections = fleet.connections();
    // What came after that belongs to the end of the measurement.
    let within = |times: &[Instant], from: Duration| {
        let (from, to) = (lost + from, lost + connected_all.min(from + SECOND));
        times.iter().filter(|at| (from..to).contains(*at)).count()
    };
    let seconds = (0..=connected_all.as_secs()).map(Duration::from_secs);
    let seconds = seconds.map(|from| Second {
        attempts: within(&attempts, from),
        connections: within(&connections, from),
    });
    Ok(Return {
        backends,
        max_attempts_per_second: MAX_ATTEMPTS_PER_SECOND,
        most_attempts_in_any_second: gate::most_within(&attempts, SECOND),
        lost_all_ms: ms(lost_all),
        back_ms: ms(back),
        connected_all_ms: ms(connected_all),
        seconds: seconds.collect(),
    })
}
