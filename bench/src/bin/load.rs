//! The load generator: real MCP sessions, sequential calls on each connection, every answer
//! checked. Prints one JSON report; exits 1 when a single answer was wrong.

#![expect(clippy::cast_precision_loss, reason = "a few connections")]

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use mainstay_bench::calls::Calls;
use mainstay_bench::cpu::{Sample, Spent};
use mainstay_bench::report::{Latencies, Measured, Report, Run, Window};
use mainstay_bench::{Era, PATIENCE, http, stdio};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Calls one tool of an MCP server as fast as it answers.
#[derive(Parser)]
struct Args {
    /// Streamable HTTP endpoint, as http://HOST:PORT/PATH
    #[arg(long, required_unless_present = "stdio")]
    url: Option<String>,
    /// A stdio server to start and call directly instead
    #[arg(long, value_name = "CMD", conflicts_with = "url")]
    stdio: Option<String>,
    /// Connections, or calls in flight on a stdio server's pipe
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Measured time
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Time before it, whose calls are checked but not counted
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warmup: f64,
    /// Bytes of text per call
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    payload: usize,
    /// Calls per second of all connections together; 0 is as fast as they are answered
    #[arg(long, value_name = "CALLS", default_value_t = 0.0)]
    rate: f64,
    /// Whose session a connection speaks in
    #[arg(long, value_enum, default_value_t = SessionMode::PerConnection)]
    session: SessionMode,
    /// Whether connections open sessions
    #[arg(long, value_enum, default_value_t, conflicts_with = "stdio")]
    era: Era,
    /// The tool; it must return its argument `text`
    #[arg(long, default_value = "echo")]
    tool: String,
    /// Processes whose trees' CPU time is reported, beside our own
    #[arg(long = "pid")]
    pids: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum SessionMode {
    PerConnection,
    Shared,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let measured = match &args.stdio {
        Some(command) => run_stdio(&args, command).await?,
        None => run_http(&args).await?,
    };
    let run = Run {
        target: args.url.or(args.stdio).unwrap_or_default(),
        connections: args.connections,
        seconds: args.seconds,
        payload_bytes: args.payload,
        rate: args.rate,
    };
    let report = Report::new(run, measured);
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(ExitCode::from(u8::from(!report.is_valid())))
}

impl Args {
    fn window(&self) -> Window {
        let (warmup, length) = (self.warmup, self.seconds);
        Window::after(
            Duration::from_secs_f64(warmup),
            Duration::from_secs_f64(length),
        )
    }

    /// When a connection calls, so that all together keep the rate.
    fn pace(&self, worker: usize) -> Pace {
        let share = self.connections as f64;
        let interval = (self.rate > 0.0).then(|| Duration::from_secs_f64(share / self.rate));
        let offset = interval.unwrap_or_default().mul_f64(worker as f64 / share);
        Pace {
            interval,
            due: Instant::now() + offset,
        }
    }

    fn calls(&self, worker: usize) -> Calls {
        Calls::new(&self.tool, worker, self.connections, self.payload).at(self.era)
    }

    /// CPU time spent inside the window.
    async fn watch_cpu(&self, window: Window) -> std::io::Result<Spent> {
        let mut roots = self.pids.clone();
        roots.push(std::process::id());
        sleep_until(window.start).await;
        let before = Sample::take(&roots)?;
        sleep_until(window.end).await;
        Ok(Sample::take(&roots)?.since(&before))
    }
}

async fn run_http(args: &Args) -> anyhow::Result<Measured> {
    let endpoint: http::Endpoint = args.url.as_deref().unwrap_or_default().parse()?;
    let mut clients = Vec::new();
    let mut session = None;
    for index in 0..args.connections {
        let mut client = http::Client::connect(&endpoint).await?;
        if args.era == Era::Modern {
            client.speak_modern(&args.tool);
        } else if index == 0 || args.session == SessionMode::PerConnection {
            session = client
                .open_session()
                .await
                .context("the handshake failed")?;
        } else {
            client.join_session(session.as_deref());
        }
        clients.push(client);
    }

    let window = args.window();
    let mut workers = JoinSet::new();
    for (index, client) in clients.into_iter().enumerate() {
        let deadline = window.end + PATIENCE;
        let work = drive(client, args.calls(index), args.pace(index), window);
        workers.spawn(async move { timeout_at(deadline, work).await? });
    }
    let spent = args.watch_cpu(window).await?;
    let mut latencies = Latencies::new(window);
    let mut failures = Vec::new();
    let mut clients = Vec::new();
    while let Some(done) = workers.join_next().await {
        match done? {
            Ok((client, own)) => {
                clients.push(client);
                latencies.merge(own);
            }
            Err(error) => failures.push(chain(error)),
        }
    }
    // Only now: a shared session must outlive every client's last call.
    clients.truncate(match args.session {
        SessionMode::PerConnection => clients.len(),
        SessionMode::Shared => 1,
    });
    for mut client in clients {
        if let Err(error) = client.end_session().await {
            failures.push(chain(error));
        }
    }
    Ok(Measured {
        latencies,
        spent,
        failures,
    })
}

/// When a connection's next call is due.
struct Pace {
    /// `None` calls as soon as the last is answered.
    interval: Option<Duration>,
    due: Instant,
}

impl Pace {
    /// Waits for the next turn, and says from when on its answer is waited for: a call that could not
    /// be made in time, since the one before took too long, has waited since it was due.
    async fn turn(&mut self) -> Instant {
        let Some(interval) = self.interval else {
            return Instant::now();
        };
        let due = self.due;
        self.due += interval;
        if Instant::now() >= due {
            return due;
        }
        sleep_until(due).await;
        // The timer's own delay is none of the answer's.
        Instant::now()
    }
}

/// One connection's calls, until the window ends.
async fn drive(
    mut client: http::Client,
    mut calls: Calls,
    mut pace: Pace,
    window: Window,
) -> Result<(http::Client, Latencies), http::Error> {
    let mut latencies = Latencies::new(window);
    let mut body = Vec::new();
    loop {
        body.clear();
        calls.write_next(&mut body);
        let began = pace.turn().await;
        client.post(&body).await?;
        let go_on = latencies.record(began);
        calls.check(&client.answer()?)?;
        if !go_on {
            return Ok((client, latencies));
        }
    }
}

async fn run_stdio(args: &Args, command: &str) -> anyhow::Result<Measured> {
    let mut server = stdio::Server::start(command).await?;
    let window = args.window();
    let workers = (0..args.connections).map(|index| args.calls(index));
    let work = timeout_at(
        window.end + PATIENCE,
        server.drive(workers.collect(), window),
    );
    let (done, spent) = tokio::join!(work, args.watch_cpu(window));
    let mut failures = Vec::new();
    let latencies = match done.map_err(stdio::Error::from).flatten() {
        Ok(latencies) => latencies,
        Err(error) => {
            failures.push(chain(error));
            Latencies::new(window)
        }
    };
    server.stop().await?;
    Ok(Measured {
        latencies,
        spent: spent?,
        failures,
    })
}

/// An error with its causes, on one line.
fn chain(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}
