//! What many idle stdio servers cost: time until all are connected, processor time, memory, and the
//! memory that is left after a burst of calls. Also what a client costs that only listens.
//!
//! Prints one JSON report; with `--check` exits 1 when a bar is missed.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts of bytes and nanoseconds stay far below 2^52"
)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use mainstay_bench::calls::Calls;
use mainstay_bench::cpu::{Sample, Spent};
use mainstay_bench::gateway::Gateway;
use mainstay_bench::http::{Client, Endpoint};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What the processes of Mainstay are called.
const NAME: &str = "mainstay";

/// Clients that call at once in a burst, and bytes of text in a call.
const CALLERS: usize = 32;
const PAYLOAD: usize = 200_000;

/// The bars, for a thousand servers.
const MOST_CPU_PERCENT: f64 = 1.0;
const MOST_MB: f64 = 120.0;
const MOST_SECONDS: f64 = 10.0;
/// And for any number: what may be left of a burst, and of a stream.
const MOST_LEFT_MB: f64 = 20.0;
const MOST_STREAM_KB: f64 = 20.0;

/// Measures Mainstay in front of many servers that nobody calls.
#[derive(Parser)]
struct Args {
    /// The program
    #[arg(long, value_name = "PATH")]
    mainstay: PathBuf,
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [100, 300, 1000])]
    servers: Vec<usize>,
    /// Time over which the processor time is taken
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Time after the burst; 0 leaves the burst out
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    after_burst: u64,
    /// Clients that listen in front of the fewest servers
    #[arg(long, value_name = "N", default_value_t = 1000)]
    streams: usize,
    /// Exits 1 when a bar is missed
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    idle: Vec<Idle>,
    listening: Listening,
}

/// Mainstay in front of so many servers. Memory is the proportional set size of guardian and daemon.
#[derive(Debug, Serialize)]
struct Idle {
    servers: usize,
    /// From the start of Mainstay until every server is up and its lists are read.
    connected_s: f64,
    /// Processor time until then, of which a busy machine takes no more.
    connect_cpu_s: f64,
    /// Processor time after that, of one processor.
    cpu_percent: f64,
    connected_mb: f64,
    at_rest_mb: f64,
    /// After the burst.
    burst_mb: Option<f64>,
    after_burst_mb: Option<f64>,
    /// What everything else on the machine took meanwhile, in processors.
    others: f64,
}

#[derive(Debug, Serialize)]
struct Listening {
    clients: usize,
    /// What a client takes that has a session and a connection, and what its GET stream takes.
    session_kb: f64,
    stream_kb: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut idle = Vec::new();
    for &servers in &args.servers {
        let figures = of_servers(&args, servers).await?;
        writeln!(io::stderr(), "{figures:?}")?;
        idle.push(figures);
    }
    let listening = of_streams(&args).await?;
    writeln!(io::stderr(), "{listening:?}")?;
    let report = Report { idle, listening };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(ExitCode::from(u8::from(args.check && misses(&report))))
}

fn misses(report: &Report) -> bool {
    let is_missed = |of: &Idle| {
        let most = of.servers as f64 / 1000.0;
        let left = of.after_burst_mb.map_or(0.0, |left| left - of.at_rest_mb);
        of.cpu_percent > MOST_CPU_PERCENT * most
            || of.at_rest_mb > MOST_MB * most.max(0.5)
            || of.connected_s > MOST_SECONDS * most.max(0.1)
            || left > MOST_LEFT_MB
    };
    report.idle.iter().any(is_missed) || report.listening.stream_kb > MOST_STREAM_KB
}

async fn start(mainstay: &Path, servers: usize) -> anyhow::Result<Gateway> {
    let program = std::env::current_exe()?.with_file_name("echo-stdio");
    let entry = json!({ "command": program });
    let servers = (0..servers).map(|number| (format!("s{number}"), entry.clone()));
    Gateway::start(mainstay, servers.collect(), json!({})).await
}

async fn of_servers(args: &Args, servers: usize) -> anyhow::Result<Idle> {
    let nothing = Sample::take(&[])?;
    let gateway = start(&args.mainstay, servers).await?;
    let guardian = gateway.pid().context("it runs")?;
    let connecting = Sample::take(&[guardian])?.since(&nothing);
    let connected_mb = memory_mb(guardian)?;
    // What the start leaves to be done is not idleness.
    sleep(Duration::from_secs(15)).await;
    let before = Sample::take(&[guardian])?;
    let time = Duration::from_secs(args.seconds);
    sleep(time).await;
    let spent = Sample::take(&[guardian])?.since(&before);
    let at_rest_mb = memory_mb(guardian)?;
    let (mut burst_mb, mut after_burst_mb) = (None, None);
    if args.after_burst > 0 {
        burst(&gateway.endpoint, servers).await?;
        burst_mb = Some(memory_mb(guardian)?);
        sleep(Duration::from_secs(args.after_burst)).await;
        after_burst_mb = Some(memory_mb(guardian)?);
    }
    let connected_s = gateway.took.as_secs_f64();
    gateway.stop().await?;
    let own = |spent: &Spent| spent.by_name.get(NAME).copied().unwrap_or_default();
    Ok(Idle {
        servers,
        connected_s,
        connect_cpu_s: own(&connecting).as_secs_f64(),
        cpu_percent: own(&spent).as_secs_f64() / time.as_secs_f64() * 100.0,
        connected_mb,
        at_rest_mb,
        burst_mb,
        after_burst_mb,
        others: spent.by_others.as_secs_f64() / time.as_secs_f64(),
    })
}

/// One large call of each server.
async fn burst(endpoint: &Endpoint, servers: usize) -> anyhow::Result<()> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let mut client = Client::connect(endpoint).await?;
        client.open_session().await?;
        callers.spawn(async move {
            let mut body = Vec::new();
            for server in (caller..servers).step_by(CALLERS) {
                let mut calls = Calls::new(&format!("s{server}__echo"), 0, 1, PAYLOAD);
                body.clear();
                calls.write_next(&mut body);
                client.post(&body).await?;
                calls.check(&client.answer()?)?;
            }
            client.end_session().await
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

async fn of_streams(args: &Args) -> anyhow::Result<Listening> {
    let gateway = start(&args.mainstay, 1).await?;
    let guardian = gateway.pid().context("it runs")?;
    sleep(Duration::from_secs(2)).await;
    let before = memory_mb(guardian)?;
    let mut clients = Vec::new();
    for _ in 0..args.streams {
        let mut client = Client::connect(&gateway.endpoint).await?;
        client.open_session().await?;
        clients.push(client);
    }
    sleep(Duration::from_secs(2)).await;
    let opened = memory_mb(guardian)?;
    let mut streams = Vec::new();
    for client in &clients {
        streams.push(client.listen().await?);
    }
    sleep(Duration::from_secs(2)).await;
    let listening = memory_mb(guardian)?;
    drop((streams, clients));
    gateway.stop().await?;
    let each = |mb: f64| mb * 1000.0 / args.streams.max(1) as f64;
    Ok(Listening {
        clients: args.streams,
        session_kb: each(opened - before),
        stream_kb: each(listening - opened),
    })
}

/// The proportional set size of the guardian and of the daemon below it, in megabytes.
fn memory_mb(guardian: u32) -> io::Result<f64> {
    let children = fs::read_to_string(format!("/proc/{guardian}/task/{guardian}/children"))?;
    let children = children.split_ascii_whitespace();
    let children = children.filter_map(|pid| pid.parse().ok());
    let mut kib = 0;
    for pid in children.chain([guardian]) {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let pss = pss.and_then(|pss| pss.trim().strip_suffix("kB"));
        kib += pss
            .and_then(|pss| pss.trim().parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok((kib * 1024) as f64 / 1e6)
}
