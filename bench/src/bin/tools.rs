//! What thousands of tools cost those who search them, and the calls of others: the first search, later ones, and calls
//! to a small server while a long list changes again and again, and while a client reads the list of all tools.
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
use mainstay_api::Call;
use mainstay_bench::calls::Calls;
use mainstay_bench::gateway::Gateway;
use mainstay_bench::http::{Client, Endpoint};
use mainstay_bench::many_tools::CHANGE;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

/// Bytes of text in a call.
const PAYLOAD: usize = 64;

/// What is searched for, one after the other: some words that most tools have, and some that few have.
const QUERIES: [&str; 8] = [
    "create an issue",
    "search the content of a document with a pattern",
    "cancel_event_17",
    "archive recent messages of a channel",
    "invoice amount currency of a customer",
    "deployment",
    "unheard-of",
    "list the replicas of a snapshot in a region with metadata and labels",
];

/// The server whose list changes.
const CHANGING: &str = "many0";

/// Between two lists that a client reads.
const PAUSE: Duration = Duration::from_millis(200);

/// The bars: of any search, and of what a call takes longer because of a change.
const MOST_SEARCH_MS: f64 = 50.0;
const MOST_DELAY_MS: f64 = 5.0;

/// Measures Mainstay in front of thousands of tools.
#[derive(Parser)]
struct Args {
    /// The program
    #[arg(long, value_name = "PATH")]
    mainstay: PathBuf,
    #[arg(long, value_name = "N", default_value_t = 20)]
    servers: usize,
    /// Tools of each server
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tools: usize,
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Time of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    seconds: f64,
    /// Exits 1 when a bar is missed
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    tools: usize,
    /// From the start of Mainstay until every server is up and its list is read.
    connected_s: f64,
    /// Right after that.
    first_search_ms: f64,
    /// While nothing changes, and while a list does.
    searches: Latency,
    searches_beside_changes: Latency,
    /// Calls to the small server while nothing happens, while a list changes, and while a client reads the
    /// list of all tools. The 99th percentiles and maxima are medians of the rounds.
    calls_alone: Latency,
    calls_beside_changes: Latency,
    calls_beside_lists: Latency,
    /// Medians of the rounds' differences, in milliseconds.
    p99_delay_by_changes: f64,
    most_delay_by_changes: f64,
    p99_delay_by_lists: f64,
    most_delay_by_lists: f64,
    /// How often the changing list was read, and how long a client waited for the list of all tools.
    lists_read: usize,
    list_of_all: Latency,
    list_mb: f64,
}

/// In milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    most: f64,
}

impl Latency {
    fn of(mut taken: Vec<Duration>) -> anyhow::Result<Self> {
        ensure!(!taken.is_empty(), "nothing was measured");
        taken.sort_unstable();
        let at = |per_mille: usize| {
            let place = taken.len() * per_mille / 1000;
            taken[place.min(taken.len() - 1)].as_secs_f64() * 1000.0
        };
        Ok(Self {
            p50: at(500),
            p99: at(990),
            p999: at(999),
            most: at(1000),
        })
    }

    /// Each figure is the median of the rounds.
    fn median(rounds: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(rounds.iter().map(value));
        Self {
            p50: of(|it| it.p50),
            p99: of(|it| it.p99),
            p999: of(|it| it.p999),
            most: of(|it| it.most),
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let report = measure(&args).await?;
    writeln!(std::io::stderr(), "{report:#?}")?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(ExitCode::from(u8::from(args.check && misses(&report))))
}

fn misses(report: &Report) -> bool {
    let searches = [
        report.first_search_ms,
        report.searches.most,
        report.searches_beside_changes.most,
    ];
    let delays = [
        report.p99_delay_by_changes,
        report.most_delay_by_changes,
        report.p99_delay_by_lists,
        report.most_delay_by_lists,
    ];
    searches.iter().any(|ms| *ms > MOST_SEARCH_MS) || delays.iter().any(|ms| *ms > MOST_DELAY_MS)
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let folder = std::env::current_exe()?;
    let many = folder.with_file_name("many-tools-stdio");
    let mut servers = Map::new();
    for number in 0..args.servers {
        let arguments = [
            "--tools",
            &args.tools.to_string(),
            "--seed",
            &number.to_string(),
        ]
        .map(str::to_owned);
        let entry = json!({"command": many, "args": arguments});
        servers.insert(format!("many{number}"), entry);
    }
    let calm = json!({"command": folder.with_file_name("echo-stdio")});
    servers.insert("calm".to_owned(), calm);
    let gateway = Gateway::start(&args.mainstay, servers, json!({})).await?;
    let meta = gateway.endpoint.at("/mcp/meta");

    let mut client = Searcher::open(&meta).await?;
    let first_search_ms = client.search().await?.as_secs_f64() * 1000.0;
    let searches = client.run(Duration::from_secs_f64(args.seconds)).await?;

    let (mut alone, mut changes, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let (mut beside, mut of_all) = (Vec::new(), Vec::new());
    let (mut lists_read, mut list_mb) = (0, 0.0);
    let time = Duration::from_secs_f64(args.seconds);
    // What the start leaves to be done is over.
    sleep(Duration::from_secs(2)).await;
    for _ in 0..args.rounds {
        alone.push(load(&gateway.endpoint, time).await?);

        let before = change(&gateway, "begin").await?;
        sleep(PAUSE).await;
        changes.push(load(&gateway.endpoint, time).await?);
        beside.extend(client.taken(time / 2).await?);
        lists_read += change(&gateway, "end").await? - before;
        // The last change is read.
        sleep(Duration::from_secs(1)).await;

        let listing = tokio::spawn(list(gateway.endpoint.clone(), time));
        lists.push(load(&gateway.endpoint, time).await?);
        let (taken, bytes) = listing.await??;
        list_mb = bytes as f64 / 1e6;
        of_all.extend(taken);
        sleep(PAUSE).await;
    }
    let connected_s = gateway.took.as_secs_f64();
    gateway.stop().await?;
    let delay = |others: &[Latency], value: fn(&Latency) -> f64| {
        let rounds = alone.iter().zip(others);
        median(rounds.map(|(alone, other)| value(other) - value(alone)))
    };
    Ok(Report {
        tools: args.servers * args.tools,
        connected_s,
        first_search_ms,
        searches,
        searches_beside_changes: Latency::of(beside)?,
        p99_delay_by_changes: delay(&changes, |it| it.p99),
        most_delay_by_changes: delay(&changes, |it| it.most),
        p99_delay_by_lists: delay(&lists, |it| it.p99),
        most_delay_by_lists: delay(&lists, |it| it.most),
        calls_alone: Latency::median(&alone),
        calls_beside_changes: Latency::median(&changes),
        calls_beside_lists: Latency::median(&lists),
        lists_read,
        list_of_all: Latency::of(of_all)?,
        list_mb,
    })
}

/// A client that searches.
struct Searcher {
    client: Client,
    asked: usize,
}

impl Searcher {
    async fn open(endpoint: &Endpoint) -> anyhow::Result<Self> {
        let mut client = Client::connect(endpoint).await?;
        client.open_session().await?;
        Ok(Self { client, asked: 0 })
    }

    async fn search(&mut self) -> anyhow::Result<Duration> {
        let query = QUERIES[self.asked % QUERIES.len()];
        self.asked += 1;
        let request = json!({
            "jsonrpc": "2.0",
            "id": self.asked,
            "method": "tools/call",
            "params": {"name": "search_tools", "arguments": {"query": query}},
        });
        let began = Instant::now();
        self.client.post(request.to_string().as_bytes()).await?;
        let took = began.elapsed();
        let answer: Value = serde_json::from_str(self.client.answer()?.result()?)?;
        let said = answer["content"][0]["text"].as_str().context("a text")?;
        let said: Value = serde_json::from_str(said)?;
        let found = said["tools"].as_array().context("tools")?.len();
        let expected = usize::from(query != "unheard-of");
        ensure!(found >= expected, "{query:?} finds {found} tools");
        Ok(took)
    }

    async fn taken(&mut self, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let (end, mut taken) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            taken.push(self.search().await?);
            sleep(Duration::from_millis(10)).await;
        }
        Ok(taken)
    }

    async fn run(&mut self, time: Duration) -> anyhow::Result<Latency> {
        Latency::of(self.taken(time).await?)
    }
}

/// Begins or ends the changes; returns how often the list was read by then.
async fn change(gateway: &Gateway, what: &str) -> anyhow::Result<usize> {
    let call = Call {
        tool: Some(format!("{CHANGING}/{CHANGE}")),
        arguments: Some(RawValue::from_string(json!({"what": what}).to_string())?),
    };
    let result = serde_json::to_value(gateway.client.call(&call).await?)?;
    let text = result
        .pointer("/result/content/0/text")
        .and_then(Value::as_str);
    Ok(text.with_context(|| result.to_string())?.parse()?)
}

/// Calls the small server over one connection, as fast as it answers.
async fn load(endpoint: &Endpoint, time: Duration) -> anyhow::Result<Latency> {
    let mut client = Client::connect(endpoint).await?;
    client.open_session().await?;
    let mut calls = Calls::new("calm__echo", 0, 1, PAYLOAD);
    let (mut taken, mut body) = (Vec::new(), Vec::new());
    let end = Instant::now() + time;
    while Instant::now() < end {
        body.clear();
        calls.write_next(&mut body);
        let began = Instant::now();
        client.post(&body).await?;
        taken.push(began.elapsed());
        calls.check(&client.answer()?)?;
    }
    client.end_session().await?;
    Latency::of(taken)
}

/// Reads the list of all tools, again and again; returns how long each took, and its bytes.
async fn list(endpoint: Endpoint, time: Duration) -> anyhow::Result<(Vec<Duration>, usize)> {
    let mut client = Client::connect(&endpoint).await?;
    client.open_session().await?;
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let began = Instant::now();
        client.post(request.as_bytes()).await?;
        taken.push(began.elapsed());
        bytes = client.answer()?.result()?.len();
        sleep(PAUSE).await;
    }
    client.end_session().await?;
    Ok((taken, bytes))
}
