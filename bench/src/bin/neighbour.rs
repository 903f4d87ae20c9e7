//! What a server that floods costs the calls of another: calls per second and the 99th percentile, with the
//! flood and without it, in the same round.
//!
//! Prints one JSON report; with `--check` exits 1 when a bar is missed.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts of calls stay far below 2^52"
)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use mainstay_api::{Call, Client};
use mainstay_bench::calls::Calls;
use mainstay_bench::gateway::Gateway;
use mainstay_bench::http;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Bytes of text in a call.
const PAYLOAD: usize = 64;

/// Before a flood counts: its burst is over, and all connections are warm.
const WARMUP: Duration = Duration::from_secs(1);

/// The bars: what is left of calls per second, and what becomes of the 99th percentile.
const LEAST_CALLS: f64 = 0.8;
const MOST_P99: f64 = 3.0;

/// Measures calls beside a server that floods.
#[derive(Parser)]
struct Args {
    /// The program
    #[arg(long, value_name = "PATH")]
    mainstay: PathBuf,
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 32])]
    connections: Vec<usize>,
    /// Time of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Exits 1 when a bar is missed
    #[arg(long)]
    check: bool,
}

/// What is flooded with: the arguments of the fake server's tool.
const FLOODS: [(&str, &str); 5] = [
    ("log messages", r#"{"to":"stdout","of":"log"}"#),
    ("list_changed", r#"{"to":"stdout","of":"tools_changed"}"#),
    ("broken JSON", r#"{"to":"stdout","of":"broken"}"#),
    ("junk on stdout", r#"{"to":"stdout"}"#),
    ("stderr", r#"{"to":"stderr"}"#),
];

#[derive(Debug, Serialize)]
struct Line {
    flood: &'static str,
    connections: usize,
    /// Medians of the rounds.
    calls_per_s_alone: f64,
    calls_per_s_beside: f64,
    p99_us_alone: f64,
    p99_us_beside: f64,
    /// Medians of the rounds' own ratios.
    calls_ratio: f64,
    p99_ratio: f64,
    /// The slowest call that the flooding server itself answered meanwhile, in milliseconds.
    own_answer_ms: f64,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Figures {
    calls_per_s: f64,
    p99_us: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let server = || json!({"command": fake_server::binary()});
    let servers = ["calm", "flood"].map(|name| (name.to_owned(), server()));
    let gateway = Gateway::start(&args.mainstay, Map::from_iter(servers), json!({})).await?;
    let mut lines = Vec::new();
    for (flood, arguments) in FLOODS {
        for &connections in &args.connections {
            let line = measure(&args, &gateway, flood, arguments, connections).await?;
            writeln!(
                std::io::stderr(),
                "{flood}, {connections} connections: {:.2} of the calls, {:.2} times the p99",
                line.calls_ratio,
                line.p99_ratio
            )?;
            lines.push(line);
        }
    }
    gateway.stop().await?;
    let missed = lines
        .iter()
        .any(|line| line.calls_ratio < LEAST_CALLS || line.p99_ratio > MOST_P99);
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&lines)?)?;
    Ok(ExitCode::from(u8::from(missed && args.check)))
}

async fn measure(
    args: &Args,
    gateway: &Gateway,
    flood: &'static str,
    arguments: &str,
    connections: usize,
) -> anyhow::Result<Line> {
    let time = Duration::from_secs_f64(args.seconds);
    let mut rounds = Vec::new();
    let mut own = Duration::ZERO;
    for _ in 0..args.rounds {
        let alone = load(&gateway.endpoint, connections, time).await?;
        let lasts = (WARMUP + time + WARMUP).as_millis();
        let mut arguments: Value = serde_json::from_str(arguments)?;
        arguments["ms"] = json!(u64::try_from(lasts)?);
        let flooding = tokio::spawn(call(gateway.client.clone(), "flood", arguments));
        let asking = tokio::spawn(ask(gateway.client.clone(), WARMUP + time));
        sleep(WARMUP).await;
        let beside = load(&gateway.endpoint, connections, time).await?;
        ensure!(!flooding.is_finished(), "the flood ended before its time");
        own = own.max(asking.await??);
        flooding.await??;
        rounds.push((alone, beside));
    }
    let of = |value: fn(&(Figures, Figures)) -> f64| median(rounds.iter().map(value).collect());
    Ok(Line {
        flood,
        connections,
        calls_per_s_alone: of(|(alone, _)| alone.calls_per_s),
        calls_per_s_beside: of(|(_, beside)| beside.calls_per_s),
        p99_us_alone: of(|(alone, _)| alone.p99_us),
        p99_us_beside: of(|(_, beside)| beside.p99_us),
        calls_ratio: of(|(alone, beside)| beside.calls_per_s / alone.calls_per_s),
        p99_ratio: of(|(alone, beside)| beside.p99_us / alone.p99_us),
        own_answer_ms: own.as_secs_f64() * 1000.0,
    })
}

/// Calls the calm server over so many connections, as fast as it answers.
async fn load(
    endpoint: &http::Endpoint,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Figures> {
    let mut callers = JoinSet::new();
    for worker in 0..connections {
        let mut client = http::Client::connect(endpoint).await?;
        client.open_session().await?;
        let mut calls = Calls::new("calm__echo", worker, connections, PAYLOAD);
        callers.spawn(async move {
            let (mut taken, mut body) = (Vec::new(), Vec::new());
            let end = Instant::now() + time;
            while Instant::now() < end {
                body.clear();
                calls.write_next(&mut body);
                let began = Instant::now();
                client.post(&body).await?;
                calls.check(&client.answer()?)?;
                taken.push(began.elapsed());
            }
            client.end_session().await?;
            Ok::<_, http::Error>(taken)
        });
    }
    let mut taken = Vec::new();
    while let Some(caller) = callers.join_next().await {
        taken.extend(caller??);
    }
    taken.sort_unstable();
    let p99 = taken.get(taken.len() * 99 / 100).context("no calls")?;
    Ok(Figures {
        calls_per_s: taken.len() as f64 / time.as_secs_f64(),
        p99_us: p99.as_secs_f64() * 1e6,
    })
}

async fn call(client: Client, tool: &'static str, arguments: Value) -> anyhow::Result<()> {
    let call = Call {
        tool: Some(format!("flood/{tool}")),
        arguments: Some(RawValue::from_string(arguments.to_string())?),
    };
    client.call(&call).await?;
    Ok(())
}

/// Calls the server that floods, now and then; returns how long its slowest answer took.
async fn ask(client: Client, time: Duration) -> anyhow::Result<Duration> {
    let (end, mut slowest) = (Instant::now() + time, Duration::ZERO);
    while Instant::now() < end {
        let began = Instant::now();
        call(client.clone(), "echo", json!({"text": "x"})).await?;
        slowest = slowest.max(began.elapsed());
        sleep(Duration::from_millis(200)).await;
    }
    Ok(slowest)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
