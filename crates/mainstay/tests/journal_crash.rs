//! What a kill leaves of the journal: a process records calls and is killed in the middle of it, again
//! and again, over the same files (design section 10).
//!
//! `JOURNAL_KILLS=50 cargo nextest run --test journal_crash` does it more often.

use std::{
    collections::HashMap,
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytestring::ByteString;
use mainstay::journal::{Begun, Filter, Finished, Journal, Outcome};
use mainstay_core::{
    config::{self, Durability},
    ids::ServerName,
    record::{Cid, Door, Origin, Record, State, Status, Target},
};
use rusqlite::Connection;

/// Kills of each kind in a run of all tests.
const KILLS: u32 = 5;
/// What the last window may be late by on a machine that does other things, too.
const LATE: Duration = Duration::from_secs(2);
/// Calls that are under way at once in strict mode, so that a commit serves many.
const CALLERS: u32 = 16;
/// One in so many results is a file.
const LARGE_EVERY: u64 = 97;
const LARGE: usize = 100_000;

const FOLDER: &str = "JOURNAL_CRASH_FOLDER";
const ROUND: &str = "JOURNAL_CRASH_ROUND";
const MODE: &str = "JOURNAL_CRASH_MODE";

fn kills() -> u32 {
    let kills = env::var("JOURNAL_KILLS").ok();
    kills.map_or(KILLS, |kills| kills.parse().expect("a number"))
}

fn settings(durability: Durability) -> config::Journal {
    config::Journal {
        durability,
        ..config::Journal::default()
    }
}

fn arguments(round: &str, number: u64) -> String {
    format!(r#"{{"round":{round},"number":{number}}}"#)
}

fn result(round: &str, number: u64) -> String {
    let length = if number.is_multiple_of(LARGE_EVERY) {
        LARGE
    } else {
        0
    };
    format!("{round}.{number}.{}", "x".repeat(length))
}

/// Nothing that was acknowledged is missing.
#[tokio::test]
async fn strict_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..kills() {
        // Killed at ever another moment after some acknowledgements, not after some time.
        let enough = 20 + round as usize * 37 % 300;
        let told = run_and_kill(folder.path(), round, "strict", |told| told.len() >= enough);
        let records = check(folder.path(), Durability::Strict).await;
        for Told { number, .. } in told {
            let cid = Cid::of(arguments(&round.to_string(), number).as_bytes());
            let record = records.get(&cid);
            let record = record.unwrap_or_else(|| panic!("round {round}: {number} is missing"));
            assert_eq!(record.status, Status::Ok, "round {round}: {number}");
        }
    }
}

/// What had ended a moment before the kill is there; only the last moment may be missing.
#[tokio::test]
async fn relaxed_loses_the_last_window_at_most() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..kills() {
        let enough = LATE + Duration::from_millis(200 + u64::from(round) * 41 % 300);
        let enough = |told: &[Told]| told.last().is_some_and(|told| told.at >= enough);
        let told = run_and_kill(folder.path(), round, "relaxed", enough);
        let killed = told.last().expect("calls").at;
        let records = check(folder.path(), Durability::Relaxed).await;
        for Told { number, at } in told.iter().filter(|told| told.at + LATE < killed) {
            let cid = Cid::of(arguments(&round.to_string(), *number).as_bytes());
            assert!(
                records.contains_key(&cid),
                "round {round}: {number} at {at:?}"
            );
        }
    }
}

/// Opens what was left, and looks at all of it.
async fn check(folder: &Path, durability: Durability) -> HashMap<Cid, Record> {
    let journal = Journal::open(folder, &settings(durability)).expect("it opens");
    let database = Connection::open(folder.join("journal/journal.db")).expect("a database");
    let integrity: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(integrity, "ok");
    let mut records = HashMap::new();
    let mut filter = Filter::default();
    loop {
        let page = journal.records(filter.clone(), 1000).await.expect("read");
        for record in page.calls {
            assert_ne!(record.status, Status::Open, "{record:?}");
            let payloads = record.arguments.into_iter().chain(record.result);
            for cid in payloads.filter_map(|payload| payload.cid) {
                let object = journal.object(cid).await;
                object.unwrap_or_else(|error| panic!("{cid}: {error}"));
            }
            let arguments = record.arguments.expect("arguments").cid.expect("kept");
            let before = records.insert(arguments, record);
            assert!(before.is_none(), "{before:?} came twice");
        }
        if page.next.is_none() {
            assert_eq!(page.total_count, records.len() as u64);
            break;
        }
        filter.before = page.next;
    }
    journal.close().await;
    records
}

/// A call that had ended, as the process that was killed told it.
struct Told {
    number: u64,
    /// Since its start.
    at: Duration,
}

/// Ends with the test, however that ends.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs this program as [`records_until_killed`] until it has told enough; returns all that it told.
fn run_and_kill(
    folder: &Path,
    round: u32,
    mode: &str,
    enough: impl Fn(&[Told]) -> bool,
) -> Vec<Told> {
    let mut victim = Command::new(env::current_exe().expect("this program"))
        .args([
            "--exact",
            "records_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .envs([(FOLDER, folder.as_os_str()), (MODE, mode.as_ref())])
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map(Victim)
        .expect("started");
    let mut lines = BufReader::new(victim.0.stdout.take().expect("a pipe")).lines();
    let mut told = Vec::new();
    while !enough(&told) {
        let line = lines.next().expect("it tells until it is killed");
        told.extend(read(&line.expect("a line")));
    }
    victim.0.kill().expect("killed");
    // What it told before, and the pipe held.
    told.extend(lines.map_while(Result::ok).filter_map(|line| read(&line)));
    told
}

/// `ack NUMBER MICROSECONDS.`, whole.
fn read(line: &str) -> Option<Told> {
    let (number, at) = line
        .strip_prefix("ack ")?
        .strip_suffix('.')?
        .split_once(' ')?;
    Some(Told {
        number: number.parse().ok()?,
        at: Duration::from_micros(at.parse().ok()?),
    })
}

#[tokio::test]
#[ignore = "the other tests run it, and kill it"]
async fn records_until_killed() {
    let (Ok(folder), Ok(round), Ok(mode)) = (env::var(FOLDER), env::var(ROUND), env::var(MODE))
    else {
        return;
    };
    let began = Instant::now();
    let tell = move |number: u64| {
        let at = began.elapsed().as_micros();
        writeln!(io::stdout(), "ack {number} {at}.")
    };
    let strict = mode == "strict";
    let durability = if strict {
        Durability::Strict
    } else {
        Durability::Relaxed
    };
    let journal = Journal::open(Path::new(&folder), &settings(durability)).expect("it opens");
    let journal = Arc::new(journal);
    let callers = if strict { CALLERS } else { 1 };
    let calls = (0..callers).map(|caller| {
        let (journal, round) = (Arc::clone(&journal), round.clone());
        tokio::spawn(async move {
            for number in (u64::from(caller)..).step_by(callers as usize) {
                record(&journal, &round, number).await;
                if tell(number).is_err() {
                    return;
                }
                // As many as are looked at in a moment.
                if !strict {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
    });
    for caller in calls.collect::<Vec<_>>() {
        caller.await.expect("it calls");
    }
}

async fn record(journal: &Journal, round: &str, number: u64) {
    let entry = journal.begin(Begun {
        origin: Arc::new(Origin::of(Door::McpHttp)),
        target: Target {
            server: ServerName::new("fs").expect("a name"),
            method: "tools/call".into(),
            tool: "read".into(),
        },
        arguments: Some(ByteString::from(arguments(round, number))),
        trace: None,
    });
    entry.intent().await.expect("on record");
    entry.reached(State::Sent);
    let result = Some(result(round, number).into());
    let finished = entry.finish(Finished {
        outcome: Outcome::Answered {
            result,
            error: None,
        },
        attempts: 1,
        queue: Duration::ZERO,
        upstream: Duration::from_micros(1),
    });
    finished.await.expect("on record");
}
