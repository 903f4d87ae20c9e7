//! What the journal costs: a thread per caller records calls with unique arguments and results as
//! fast as it is told, and the CPU time of callers and writer is taken apart. Prints one JSON report.

#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, ensure};
use bytestring::ByteString;
use clap::Parser;
use mainstay_core::{
    config::{self, Durability, Payloads},
    ids::ServerName,
    record::{CallOrigin, ClientInfo, Door, RecordError, State, Status, Target},
};
use mainstay_journal::{Begun, By, CallOutcome, Finished, Journal, Range, RecordFilter};
use rustix::time::{
    ClockId::{self, ProcessCPUTime, ThreadCPUTime},
    clock_gettime,
};
use serde_json::{Value, json};

#[derive(Parser)]
struct Args {
    /// Calls to record
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
    /// Bytes of arguments, and of the result
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Calls per second; 0 is as fast as the journal takes them without dropping any
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Different payloads; 0 makes each unique
    #[arg(long, default_value_t = 0)]
    distinct: u64,
    /// Calls in flight at once, in strict mode
    #[arg(long, default_value_t = 64)]
    callers: u64,
    #[arg(long)]
    strict: bool,
    #[arg(long, value_enum, default_value_t = Kept::Full)]
    payloads: Kept,
    /// Where the journal is written, instead of a temporary folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Objects that are looked up by their identifier and checked afterwards; 0 is all of them
    #[arg(long, default_value_t = 2_000)]
    resolve: i64,
    /// Exit 1 when a filter takes longer than a page of records may (50 ms)
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kept {
    Full,
    Digest,
    Off,
}

/// As many as one page of a busy house: 20 servers of 10 tools, 50 clients of 10 sessions.
const SERVERS: u64 = 20;
const TOOLS: u64 = 10;
const CLIENTS: u64 = 50;
const SESSIONS: u64 = 10;
/// What each filter that the page of records needs may take.
const FILTER_MS: f64 = 50.0;
/// What a search of all that calls say may take: it ends by itself after 2 s.
const SEARCH_MS: f64 = 2_500.0;
/// Calls between two looks at whether the journal keeps up.
const BURST: u64 = 256;
/// Far below what the journal would drop at.
const AHEAD: u64 = 16 * 1024;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let temporary = tempfile::tempdir()?;
    let dir = args.dir.clone().unwrap_or(temporary.path().to_owned());
    let settings = config::Journal {
        durability: if args.strict {
            Durability::Strict
        } else {
            Durability::Relaxed
        },
        payloads: match args.payloads {
            Kept::Full => Payloads::Full,
            Kept::Digest => Payloads::Digest,
            Kept::Off => Payloads::Off,
        },
        max_bytes: u64::MAX / 2,
        ..config::Journal::default()
    };
    let journal = Arc::new(mainstay_journal_store::open(&dir, &settings)?);
    let before = cpu(ProcessCPUTime);
    let began = Instant::now();
    let called = if args.strict {
        strict(&journal, &args).await?
    } else {
        relaxed(&journal, &args)?
    };
    journal.flush().await?;
    let written = began.elapsed();
    let spent = cpu(ProcessCPUTime).saturating_sub(before);
    let counters = journal.counters();
    let filters = filters(&journal).await?;
    let searches = searches(&journal).await?;
    let resolved = match args.payloads {
        Kept::Full => resolve(&journal, args.resolve).await?,
        Kept::Digest | Kept::Off => Value::Null,
    };
    journal.close().await;
    let reopened = Instant::now();
    let again = mainstay_journal_store::open(&dir, &settings)?;
    let reopened = reopened.elapsed();
    again.close().await;

    let bytes = size(&dir)?;
    let per_call = |time: Duration| time.as_secs_f64() * 1e6 / args.calls as f64;
    let report = json!({
        "calls": args.calls,
        "recorded": counters.recorded,
        "dropped": counters.dropped + counters.payloads_dropped,
        "calls_per_second": args.calls as f64 / written.as_secs_f64(),
        "seconds": written.as_secs_f64(),
        "cpu_us_per_call": {
            "caller": per_call(called.recording),
            "writer": per_call(spent.saturating_sub(called.all)),
        },
        "latency_us": called.latencies,
        "commits": counters.commits,
        "bytes": bytes,
        "bytes_per_call": bytes as f64 / args.calls as f64,
        "payload_bytes_per_byte": (args.calls * 2 * args.payload as u64) as f64 / bytes as f64,
        "resolved": resolved,
        "reopen_ms": reopened.as_secs_f64() * 1e3,
        "filters_ms": filters,
        "searches_ms": searches,
    });
    writeln!(std::io::stdout(), "{report:#}")?;
    ensure!(counters.recorded == args.calls, "calls are missing");
    if args.check {
        for (asked, most) in [(&filters, FILTER_MS), (&searches, SEARCH_MS)] {
            let slow = |(_, asked): &(&String, &Value)| asked["ms"].as_f64() > Some(most);
            let slow = asked.as_object().into_iter().flatten().filter(slow);
            let slow: Vec<_> = slow.map(|(name, _)| name.as_str()).collect();
            ensure!(slow.is_empty(), "slower than {most} ms: {slow:?}");
        }
    }
    Ok(())
}

/// What is called, and by which clients.
struct World {
    origins: Vec<Arc<CallOrigin>>,
    targets: Vec<Target>,
    payload: usize,
    distinct: u64,
}

impl World {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let origins = (0..CLIENTS * SESSIONS).map(|n| {
            Arc::new(CallOrigin {
                client: Some(ClientInfo {
                    name: format!("client-{}", n / SESSIONS),
                    version: "1.0".to_owned(),
                }),
                session: Some(format!("session-{n:016x}")),
                ..CallOrigin::from_door(Door::ALL[(n % 3) as usize])
            })
        });
        let targets = (0..SERVERS * TOOLS).map(|n| {
            Ok(Target {
                server: Some(ServerName::new(&format!("server-{}", n / TOOLS))?),
                method: "tools/call".into(),
                tool: format!("tool-{}", n % TOOLS).into(),
            })
        });
        Ok(Self {
            origins: origins.collect(),
            targets: targets.collect::<anyhow::Result<_>>()?,
            payload: args.payload,
            distinct: args.distinct,
        })
    }

    fn text(&self, number: u64, kind: &str) -> ByteString {
        let number = number.checked_rem(self.distinct).unwrap_or(number);
        let mut text = format!(r#"{{"{kind}":{number},"text":""#);
        while text.len() + 2 < self.payload {
            text.push('x');
        }
        text.push_str("\"}");
        text.into()
    }

    fn begun(&self, number: u64) -> Begun {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Begun {
            origin: Arc::clone(&self.origins[(scattered % (CLIENTS * SESSIONS)) as usize]),
            target: self.targets[(scattered / 7 % (SERVERS * TOOLS)) as usize].clone(),
            is_listed: true,
            arguments: None,
            since: Instant::now(),
            trace: None,
            secrets: None,
        }
    }

    fn finished(number: u64, result: ByteString) -> Finished {
        let outcome = if number.is_multiple_of(50) {
            CallOutcome::Failed {
                status: Status::Timeout,
                error: RecordError {
                    kind: "call_timeout".into(),
                    text: "timeout after 30 s".to_owned(),
                },
            }
        } else {
            CallOutcome::Answered {
                result: Some(result),
                error: None,
            }
        };
        Finished {
            outcome,
            attempts: 1,
            earlier: Vec::new(),
            at: Instant::now(),
            queue: Duration::from_micros(3),
            upstream: Duration::from_micros(100 + number % 1000),
            secrets: None,
        }
    }
}

/// What the callers' side came to.
#[derive(Default)]
struct Called {
    latencies: Value,
    /// CPU time of what a call does for its record.
    recording: Duration,
    /// And of making up calls, too.
    all: Duration,
}

/// One thread calls, in bursts that make up their payloads first: a gateway has them already.
fn relaxed(journal: &Arc<Journal>, args: &Args) -> anyhow::Result<Called> {
    let world = World::new(args)?;
    let (mut paid, mut recording) = (Vec::new(), Duration::ZERO);
    let (began, before) = (Instant::now(), cpu(ThreadCPUTime));
    for first in (0..args.calls).step_by(BURST as usize) {
        let numbers = first..args.calls.min(first + BURST);
        let payloads: Vec<_> = numbers
            .clone()
            .map(|n| (world.text(n, "arguments"), world.text(n, "result")))
            .collect();
        let (started, spent) = (Instant::now(), cpu(ThreadCPUTime));
        for (number, (arguments, result)) in numbers.clone().zip(payloads) {
            let entry = journal.begin(Begun {
                arguments: Some(arguments),
                ..world.begun(number)
            });
            entry.reached(State::Sent);
            drop(entry.finish(World::finished(number, result)));
        }
        paid.push(started.elapsed());
        recording += cpu(ThreadCPUTime).saturating_sub(spent);
        let done = numbers.end;
        if let Some(due) = Duration::from_secs(done).checked_div(args.rate as u32) {
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        while done - journal.counters().recorded > AHEAD {
            thread::sleep(Duration::from_millis(5));
        }
    }
    paid.sort_unstable();
    let per_call = |time: Duration| time.as_secs_f64() * 1e6 / BURST as f64;
    let median = per_call(paid[paid.len() / 2]);
    Ok(Called {
        latencies: json!({"p50_of_bursts": median}),
        recording,
        all: cpu(ThreadCPUTime).saturating_sub(before),
    })
}

/// Each caller waits for its intent and for its outcome.
async fn strict(journal: &Arc<Journal>, args: &Args) -> anyhow::Result<Called> {
    let world = Arc::new(World::new(args)?);
    let callers = (0..args.callers).map(|caller| {
        let (journal, world) = (Arc::clone(journal), Arc::clone(&world));
        let (calls, callers) = (args.calls, args.callers);
        tokio::spawn(async move {
            let mut times = Vec::new();
            for number in (caller..calls).step_by(callers as usize) {
                let began = Instant::now();
                let entry = journal.begin(Begun {
                    arguments: Some(world.text(number, "arguments")),
                    ..world.begun(number)
                });
                entry.intent().await?;
                entry.reached(State::Sent);
                let result = world.text(number, "result");
                entry.finish(World::finished(number, result)).await?;
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        })
    });
    let mut times = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        times.extend(caller.await??);
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    Ok(Called {
        latencies: json!({"p50": at(50), "p95": at(95), "p99": at(99)}),
        ..Called::default()
    })
}

/// The time of each question a page of records asks: the best of five, for others disturb.
async fn filters(journal: &Journal) -> anyhow::Result<Value> {
    let now = SystemTime::now();
    let text = |text: &str| Some(text.to_owned());
    let some = |text: &str| vec![text.to_owned()];
    let all = RecordFilter::default;
    let mut report = serde_json::Map::new();
    for (name, filter) in [
        ("none", all()),
        (
            "server",
            RecordFilter {
                servers: some("server-3"),
                ..all()
            },
        ),
        (
            "tool",
            RecordFilter {
                tools: some("tool-7"),
                ..all()
            },
        ),
        (
            "status",
            RecordFilter {
                statuses: vec![Status::Timeout],
                ..all()
            },
        ),
        (
            "state",
            RecordFilter {
                states: vec![State::Sent],
                ..all()
            },
        ),
        (
            "several",
            RecordFilter {
                servers: vec!["server-3".to_owned(), "server-4".to_owned()],
                statuses: vec![Status::Timeout, Status::Error],
                states: vec![State::Sent, State::Answered],
                ..all()
            },
        ),
        (
            "door",
            RecordFilter {
                door: Some(Door::McpStdio),
                ..all()
            },
        ),
        (
            "client",
            RecordFilter {
                clients: some("client-9"),
                ..all()
            },
        ),
        (
            "session",
            RecordFilter {
                session: text("session-0000000000000011"),
                ..all()
            },
        ),
        (
            "time",
            RecordFilter {
                since: now.checked_sub(Duration::from_secs(10)),
                ..all()
            },
        ),
        (
            "text",
            RecordFilter {
                text: text("VER-3/TOOL"),
                ..all()
            },
        ),
        (
            "server_status_client_time",
            RecordFilter {
                servers: some("server-3"),
                statuses: vec![Status::Ok],
                clients: some("client-9"),
                since: now.checked_sub(Duration::from_hours(1)),
                ..all()
            },
        ),
        (
            "nothing",
            RecordFilter {
                servers: some("server-99"),
                ..all()
            },
        ),
    ] {
        let (mut best, mut least, mut total) = (Duration::MAX, Duration::MAX, 0);
        for _ in 0..5 {
            let (began, before) = (Instant::now(), cpu(ProcessCPUTime));
            total = journal.records(filter.clone(), 100).await?.total_count;
            best = best.min(began.elapsed());
            least = least.min(cpu(ProcessCPUTime).saturating_sub(before));
        }
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        report.insert(
            name.to_owned(),
            json!({"ms": milliseconds(best), "cpu_ms": milliseconds(least), "total": total}),
        );
    }
    let began = Instant::now();
    let series = journal
        .statistics(Range {
            server: None,
            tool: None,
            since: now.checked_sub(Duration::from_hours(24)).context("a day")?,
            until: now,
            bucket: Duration::from_mins(1),
            by: By::Tool,
            order: None,
            limit: None,
        })
        .await?;
    let calls: u64 = series.iter().map(|series| series.total.calls).sum();
    let time = began.elapsed().as_secs_f64() * 1e3;
    report.insert(
        "statistics_by_minute".to_owned(),
        json!({"ms": time, "series": series.len(), "calls": calls}),
    );
    Ok(report.into())
}

/// The time of searches of what calls say, each of them once: of a text that most calls have, of one that every
/// fiftieth has, of one that no call has, and of that until no call is left.
async fn searches(journal: &Journal) -> anyhow::Result<Value> {
    let says = |text: &str| RecordFilter {
        text: Some(text.to_owned()),
        uncounted: true,
        ..RecordFilter::default()
    };
    let mut report = serde_json::Map::new();
    for (name, text, to_the_end) in [
        ("all_have_it", "xxxx", false),
        ("an_error", "Timeout After", false),
        ("none_has_it", "needle", false),
        ("none_has_it_to_the_end", "needle", true),
    ] {
        let (mut filter, mut pages, mut found) = (says(text), 0, 0);
        let (began, before) = (Instant::now(), cpu(ProcessCPUTime));
        let mut longest = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let page = journal.records(filter.clone(), 100).await?;
            longest = longest.max(asked.elapsed());
            pages += 1;
            found += page.calls.len();
            filter.before = page.next;
            if page.next.is_none() || !to_the_end {
                break;
            }
        }
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        report.insert(
            name.to_owned(),
            json!({
                "ms": milliseconds(longest),
                "all_ms": milliseconds(began.elapsed()),
                "cpu_ms": milliseconds(cpu(ProcessCPUTime).saturating_sub(before)),
                "searches": pages,
                "found": found,
                "is_cut": filter.before.is_some() && found < 100,
            }),
        );
    }
    Ok(report.into())
}

/// Reads objects that records name, spread over all of them.
async fn resolve(journal: &Journal, wanted: i64) -> anyhow::Result<Value> {
    let (mut filter, mut cids) = (RecordFilter::default(), Vec::new());
    let newest = journal.records(filter.clone(), 1).await?;
    let Some(newest) = newest.calls.first().map(|call| call.id.0) else {
        return Ok(Value::Null);
    };
    let pages = if wanted == 0 { newest } else { wanted } / 2 / 100 + 1;
    for page in 0..pages {
        filter.before = Some(mainstay_core::record::RecordId(
            newest + 1 - newest / pages * page,
        ));
        for call in journal.records(filter.clone(), 100).await?.calls {
            let payloads = call.arguments.into_iter().chain(call.result);
            cids.extend(payloads.filter_map(|payload| payload.cid));
        }
    }
    let began = Instant::now();
    for cid in &cids {
        journal.object(*cid).await?;
    }
    let each = began.elapsed().as_secs_f64() * 1e6 / cids.len().max(1) as f64;
    Ok(json!({"objects": cids.len(), "us_each": each}))
}

fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

/// CPU time of this process, or of this thread.
fn cpu(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
