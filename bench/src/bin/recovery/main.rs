//! How fast Mainstay brings back what was lost, and how it starts and finds again many servers at
//! once: a process that is killed under load, remote servers that are away for a while, a hundred
//! processes that start together, and a fleet that is lost at once.
//!
//! Prints one JSON report; exits 1 when a bar is missed. `bench/run --recovery` builds and runs it.

mod crash;
mod fleet;
mod load;
mod outage;
mod start;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

/// Measures recovery.
#[derive(Parser)]
struct Args {
    /// What is measured; everything unless told
    #[arg(value_enum)]
    what: Vec<What>,
    /// The program
    #[arg(long, value_name = "PATH")]
    mainstay: PathBuf,
    /// How often the process is killed
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills: usize,
    /// Remote servers that go away, each once
    #[arg(long, value_name = "N", default_value_t = 20)]
    outages: u32,
    /// The fleet
    #[arg(long, value_name = "N", default_value_t = 500)]
    backends: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Crash,
    Outage,
    Start,
    Fleet,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    crashes: Vec<crash::Crashes>,
    outages: Vec<outage::Outages>,
    starts: Vec<start::Start>,
    fleet: Option<fleet::Return>,
    /// Bars that were not reached, in words.
    missed: Vec<String>,
}

/// Times in milliseconds.
#[derive(Debug, Serialize)]
struct Milliseconds {
    median: f64,
    worst: f64,
    /// In the order in which they were taken.
    all: Vec<f64>,
}

impl Milliseconds {
    fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().map_or(0.0, ms);
        Self {
            median: at(sorted.len() / 2),
            worst: at(sorted.len().saturating_sub(1)),
            all: times.iter().copied().map(ms).collect(),
        }
    }
}

/// With one decimal: more would be noise.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let report = tokio::select! {
        report = run(Args::parse()) => report?,
        // What was started ends with what is dropped.
        asked = asked_to_end() => bail!("ended by {}", asked?),
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(ExitCode::from(u8::from(!report.missed.is_empty())))
}

async fn run(args: Args) -> anyhow::Result<Report> {
    let wants = |what| args.what.is_empty() || args.what.contains(&what);
    let mut report = Report::default();
    if wants(What::Crash) {
        for uptime in crash::UPTIMES {
            let crashes = crash::measure(&args.mainstay, args.kills, uptime).await?;
            report.crashes.push(crashes);
        }
    }
    if wants(What::Outage) {
        for calls in [outage::Calls::Steady, outage::Calls::None] {
            let outages = outage::measure(&args.mainstay, args.outages, calls).await?;
            report.outages.push(outages);
        }
    }
    if wants(What::Start) {
        for limit in start::LIMITS {
            let start = start::measure(&args.mainstay, limit).await?;
            report.missed.extend(start.missed());
            report.starts.push(start);
        }
    }
    if wants(What::Fleet) {
        let back = fleet::measure(&args.mainstay, args.backends).await?;
        report.missed.extend(back.missed());
        report.fleet = Some(back);
    }
    Ok(report)
}

async fn asked_to_end() -> std::io::Result<&'static str> {
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = term.recv() => Ok("SIGTERM"),
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| "SIGINT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_order() {
        let times = Milliseconds::of(&[3, 1, 2].map(Duration::from_millis));
        let shown = serde_json::to_string(&times).expect("JSON");
        assert_eq!(shown, r#"{"median":2.0,"worst":3.0,"all":[3.0,1.0,2.0]}"#);
    }
}
