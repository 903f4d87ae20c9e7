//! Checks the journal after `kill -9` of a busy daemon, several times with the same files.
//! `JOURNAL_KILLS=50 cargo nextest run -p mainstay --test cli --no-capture killed` kills more often
//! and prints figures.

#![expect(
    clippy::print_stdout,
    reason = "the figures are for whoever asks for them"
)]

mod load;

use std::{
    collections::HashMap,
    env, fmt,
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant, SystemTime},
};

use fake_server::{Fake, Script};
use mainstay_api::{CallRecord, Client};
use mainstay_core::{
    config::{self, Durability, Secret},
    record::Cid,
};
use mainstay_journal::RecordFilter;
use mainstay_platform::utc;
use mainstay_testkit::{Home, Serving, home, within};
use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use self::load::{Load, SentCall};

/// The default numbers of kills. In relaxed mode each kill takes seconds.
const KILLS_STRICT: u32 = 4;
const KILLS_RELAXED: u32 = 2;
/// In relaxed mode, the maximum time between the answer of a lost call and the kill. It allows for
/// 50 ms, two commits, and a busy machine.
const MAX_LOSS_WINDOW: Duration = Duration::from_secs(1);
/// The minimum duration of the load before a kill, and the maximum random addition.
const MIN_LOAD_TIME: Duration = Duration::from_millis(100);
const MORE_LOAD_MILLIS: u64 = 700;
/// The number of recent objects that are read after each kill.
const OBJECTS_PER_KILL: usize = 64;
/// A limit so large that the journal deletes nothing.
const MAX_BYTES: u64 = 16 * 1024 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn strict_keeps_what_it_acknowledged() {
    let figures = kill_again_and_again(Durability::Strict, MIN_LOAD_TIME).await;
    assert_eq!(figures.lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn relaxed_loses_what_came_last_at_most() {
    // Run the load longer than the window in which calls may be lost.
    let load = MAX_LOSS_WINDOW + Duration::from_millis(500);
    let figures = kill_again_and_again(Durability::Relaxed, load).await;
    assert!(
        figures
            .windows
            .iter()
            .all(|window| *window <= MAX_LOSS_WINDOW),
        "{figures}"
    );
}

#[derive(Default)]
struct Figures {
    kills: u32,
    acknowledged: usize,
    records: usize,
    objects: usize,
    /// The number of answered calls without a record.
    lost: usize,
    /// The time from the first lost answer to the kill, for each kill.
    windows: Vec<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills: kill_count,
            acknowledged: acknowledged_count,
            records,
            objects,
            lost: lost_count,
            windows,
        } = self;
        let mut windows: Vec<u128> = windows.iter().map(Duration::as_millis).collect();
        windows.sort_unstable();
        write!(
            f,
            "{kill_count} kills, {acknowledged_count} calls acknowledged, {records} records, \
             {objects} objects read and verified, {lost_count} lost; windows: median {} ms, worst {} ms",
            windows.get(windows.len() / 2).unwrap_or(&0),
            windows.last().unwrap_or(&0)
        )
    }
}

async fn kill_again_and_again(durability: Durability, least_load: Duration) -> Figures {
    let home = home!();
    // This server is not a child of the daemon, so it survives.
    let remote = Fake::http(Script::default()).await.expect("a free port");
    let (durability_name, default_kills) = match durability {
        Durability::Strict => ("strict", KILLS_STRICT),
        Durability::Relaxed => ("relaxed", KILLS_RELAXED),
    };
    let journal = json!({"durability": durability_name, "maxBytes": MAX_BYTES});
    let config = load::config(&remote, &journal);
    let config = home.file("servers.json", &config);
    let mut figures = Figures::default();
    let mut daemon = serve_until_ready(&home, &config).await;
    let kill_count = env::var("JOURNAL_KILLS").ok();
    let kill_count = kill_count.map_or(default_kills, |kill_count| {
        kill_count.parse().expect("a number")
    });
    for round in 0..kill_count {
        let (start, load) = (SystemTime::now(), Load::begin(&daemon.url, round));
        let extra_millis = RandomState::new().hash_one(round) % MORE_LOAD_MILLIS;
        let kill_at = Instant::now() + least_load + Duration::from_millis(extra_millis);
        tokio::time::sleep_until(kill_at.into()).await;
        kill(daemon).await;
        let calls = within(load.end()).await;
        daemon = serve_until_ready(&home, &config).await;
        assert_is_whole(&home);
        let records = records(&client(&home, &daemon), start).await;
        figures.records += records.len();
        figures.add(durability, kill_at, &calls, &records);
        println!("{durability_name}, {round}: {extra_millis} ms more, {figures}");
    }
    daemon.stop().await;
    figures.objects = every_object_resolves(&home, figures.records).await;
    println!("{durability_name}: {figures}");
    assert!(figures.acknowledged > 0);
    figures
}

/// A daemon whose servers are connected.
async fn serve_until_ready(home: &Home, config: &str) -> Serving {
    let mut daemon = home.serve(&["--config", config]).await;
    daemon.wait_for_stderr("ready: ").await;
    daemon
}

/// Kills the daemon process. Its guardian then ends the servers.
async fn kill(daemon: Serving) {
    let pid = Pid::from_raw(daemon.daemon_pid().cast_signed()).expect("a process id");
    kill_process(pid, Signal::KILL).expect("it runs");
    daemon.ended().await;
}

fn client(home: &Home, daemon: &Serving) -> Client {
    let token = home.token();
    Client::new(&daemon.url, Some(Secret::new(token))).expect("a daemon's URL")
}

fn assert_is_whole(home: &Home) {
    let path = home.state().join("journal/journal.db");
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let found: String = database
        .expect("a database")
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(found, "ok");
}

/// The records of a round, by the CIDs of their arguments. Read from the next daemon.
async fn records(client: &Client, start_time: SystemTime) -> HashMap<String, CallRecord> {
    let mut records = HashMap::new();
    let mut page_end = None;
    loop {
        let mut query = vec![
            ("since", utc::rfc3339(start_time)),
            ("limit", 1000.to_string()),
        ];
        query.extend(page_end.take().map(|id| ("before", id)));
        let page = client.call_records(&query).await.expect("a page");
        for record in page.calls {
            assert_ne!(record.status, "open", "{record:?}");
            let cids = record.arguments_cid.iter().chain(&record.result_cid);
            for cid in cids.filter(|_| records.len() < OBJECTS_PER_KILL) {
                let object = client.object(cid).await.expect("an object");
                assert_eq!(Cid::for_content(object.get().as_bytes()).to_string(), *cid);
            }
            let arguments = record.arguments_cid.clone().expect("arguments");
            let duplicate_record = records.insert(arguments, record);
            assert!(
                duplicate_record.is_none(),
                "{duplicate_record:?} is there twice"
            );
        }
        page_end = page.next;
        if page_end.is_none() {
            return records;
        }
    }
}

impl Figures {
    /// Compares a round's calls with the records.
    fn add(
        &mut self,
        durability: Durability,
        kill_time: Instant,
        calls: &[SentCall],
        records: &HashMap<String, CallRecord>,
    ) {
        self.kills += 1;
        let mut first_lost = None;
        let record_of = |call: &SentCall| records.get(&call.arguments.to_string());
        let last_recorded = calls.iter().filter(|call| record_of(call).is_some());
        let last_recorded = last_recorded.map(|call| call.sent).max();
        for call in calls {
            let Some(answer) = &call.answered else {
                continue;
            };
            self.acknowledged += 1;
            // In relaxed mode, only the start of a call may be recorded.
            let is_relaxed = durability == Durability::Relaxed;
            let record =
                record_of(call).filter(|record| !(is_relaxed && record.status == "unknown"));
            if let Some(record) = record {
                let result = answer.result.to_string();
                assert_eq!(record.result_cid, Some(result), "{call:?}: {record:?}");
                let (status, state) = (record.status.as_str(), record.state.as_str());
                assert_eq!((status, state), ("ok", "answered"), "{call:?}");
                continue;
            }
            assert!(is_relaxed, "{call:?} is not on record");
            self.lost += 1;
            first_lost = first_lost.into_iter().chain([answer.at]).min();
            // A commit includes all calls that ended before its own calls.
            assert!(
                last_recorded.is_none_or(|sent_time| sent_time <= answer.at),
                "{call:?} is lost, and one that began after its end is not"
            );
        }
        let window = first_lost.map(|time| kill_time.saturating_duration_since(time));
        self.windows.push(window.unwrap_or_default());
    }
}

/// Reads every recorded object. Returns the number of objects.
async fn every_object_resolves(home: &Home, expected: usize) -> usize {
    let settings = config::Journal {
        max_bytes: MAX_BYTES,
        ..config::Journal::default()
    };
    let journal = mainstay_journal_store::open(&home.state(), &settings).expect("it opens");
    let (mut filter, mut records, mut objects) = (RecordFilter::default(), 0, 0);
    loop {
        let page = journal.records(filter.clone(), 1000).await.expect("read");
        for record in page.calls {
            records += 1;
            let payloads = record.arguments.into_iter().chain(record.result);
            for cid in payloads.filter_map(|payload| payload.cid) {
                let object = journal.object(cid).await;
                object.unwrap_or_else(|error| panic!("{cid}: {error}"));
                objects += 1;
            }
        }
        filter.before = page.next;
        if filter.before.is_none() {
            break;
        }
    }
    journal.close().await;
    assert_eq!(records, expected);
    objects
}
