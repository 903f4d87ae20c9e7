//! Servers with random bends, which are called for a minute. No server may be shown as healthy while every call
//! fails, no idle server may be asked without a pause, and every failure must have a reason.
//!
//! `BENDS_SEED` selects other bends. The message of a failure has the seed.

use std::time::Duration;

use clap::ValueEnum as _;
use fake_server::{Bend, BendTransport, gate::most_within};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, failure, text},
    gateway::Gateway,
    rest_client::Rest,
};

/// Duration of the calls.
const SPAN: Duration = Duration::from_secs(60);

/// A server must not be shown as healthy for this long while every call fails.
const WINDOW: Duration = Duration::from_secs(40);

/// Pause between two calls of one server.
const PAUSE: Duration = Duration::from_millis(250);

/// Maximum number of requests that an idle server gets within a second, once its lists are read: one more
/// reading of all four lists, and a ping.
const MOST_IDLE: usize = 5;

/// Number of servers that are called. As many servers with the same bends are idle.
const SERVERS: usize = 9;

/// The default seed.
const SEED: u64 = 20_261_128;

/// Splitmix64: a random sequence that a seed repeats.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit).expect("a small number");
        usize::try_from((drawn ^ (drawn >> 31)) % limit).expect("a small number")
    }
}

fn transport(kind: BackendKind) -> BendTransport {
    match kind {
        BackendKind::Stdio => BendTransport::Stdio,
        BackendKind::Http => BendTransport::Http,
        BackendKind::Sse => BendTransport::Sse,
    }
}

/// One or two bends that exist over this transport.
fn bends(kind: BackendKind, draw: &mut Draw) -> Vec<Bend> {
    let transport = transport(kind);
    let all: Vec<Bend> = Bend::value_variants()
        .iter()
        .copied()
        .filter(|bend| bend.transports().contains(&transport))
        .collect();
    let count = 1 + draw.below(2);
    (0..count).map(|_| all[draw.below(all.len())]).collect()
}

async fn start(kind: BackendKind, bends: &[Bend]) -> Backend {
    let flags: Vec<String> = bends
        .iter()
        .map(|bend| {
            let value = bend.to_possible_value().expect("no bend is hidden");
            format!("--bend={}", value.get_name())
        })
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Backend::start(kind, &flags).await.option("timeout_s", 2)
}

/// The error text of a failed call. `None` if the call succeeds.
async fn failed_call(client: &Http, server: &str) -> Option<String> {
    let call = json!({"name": format!("{server}__echo"), "arguments": {"text": "hello"}});
    let answer = client.request("tools/call", call).await;
    let result = &answer["result"];
    if answer["error"].is_null() && text(result) == "hello" {
        return None;
    }
    let words = match answer["error"]["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("{} {}", text(result), failure(result)),
    };
    Some(words)
}

/// The history of one server.
struct CallHistory {
    name: String,
    /// Time of the first failed call since the last success.
    failing_since: Option<Instant>,
    /// Time since which the server is shown as healthy.
    well_since: Option<Instant>,
    calls: u32,
    answered: u32,
}

impl CallHistory {
    fn record_call(&mut self, failed: Option<&str>) {
        self.calls += 1;
        match failed {
            None => {
                self.answered += 1;
                self.failing_since = None;
            }
            Some(words) => {
                // Every failure has a reason, and not only a kind.
                assert!(
                    words.split_whitespace().count() >= 4,
                    "{}: {words}",
                    self.name
                );
                self.failing_since.get_or_insert_with(Instant::now);
            }
        }
    }

    fn record_status(&mut self, server: &Value) {
        let is_well = server["status"] == "connected" && server["healthStatus"] == "healthy";
        self.well_since = match self.well_since {
            Some(since) if is_well => Some(since),
            _ => is_well.then(Instant::now),
        };
        let is_both_for = |since: Option<Instant>| since.is_some_and(|at| at.elapsed() >= WINDOW);
        assert!(
            !(is_both_for(self.failing_since) && is_both_for(self.well_since)),
            "{} is shown as well while every call fails: {server}",
            self.name
        );
    }
}

/// Calls one server for the whole time, and checks its status. Sometimes the server loses its sessions.
async fn drive(
    client: Http,
    rest: Rest,
    backend: &Backend,
    kind: BackendKind,
    name: String,
    mut draw: Draw,
) -> CallHistory {
    let mut course = CallHistory {
        name,
        failing_since: None,
        well_since: None,
        calls: 0,
        answered: 0,
    };
    let end = Instant::now() + SPAN;
    while Instant::now() < end {
        let server = course.name.split(' ').next().expect("a name").to_owned();
        let failed = failed_call(&client, &server).await;
        course.record_call(failed.as_deref());
        course.record_status(&rest.server(&server).await);
        if kind != BackendKind::Stdio && draw.below(20) == 0 {
            match draw.below(3) {
                0 => backend.fake().expire_sessions(),
                1 => backend.fake().lose_sessions(),
                _ => backend.fake().drop_streams(),
            }
        }
        sleep(PAUSE).await;
    }
    course
}

/// True if a server with these bends is usable: its tools are known, its answers are readable, and calls that
/// share a pipe can tell their answers apart.
fn is_usable(kind: BackendKind, bends: &[Bend]) -> bool {
    !bends.iter().any(|bend| match bend {
        Bend::ListError | Bend::NotANumber | Bend::Uninitialized => true,
        Bend::IdForeign | Bend::IdNull => kind != BackendKind::Http,
        _ => false,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bend_leaves_a_server_well_while_every_call_fails() {
    let seed = std::env::var("BENDS_SEED").ok();
    let seed = seed.map_or(SEED, |seed| seed.parse().expect("a number"));
    let mut draw = Draw(seed);
    let mut drawn = Vec::new();
    for number in 0..SERVERS {
        let kind = BackendKind::ALL[number % BackendKind::ALL.len()];
        let bends = bends(kind, &mut draw);
        let (record_call, idle) = (start(kind, &bends).await, start(kind, &bends).await);
        drawn.push((number, kind, bends, record_call, idle));
    }
    let names: Vec<_> = (0..SERVERS)
        .map(|n| (format!("s{n}"), format!("i{n}")))
        .collect();
    let servers: Vec<_> = drawn
        .iter()
        .zip(&names)
        .flat_map(|((.., record_call, idle), (name, idle_name))| {
            [(name.as_str(), record_call), (idle_name.as_str(), idle)]
        })
        .collect();
    let gateway = Gateway::with_servers(&servers).await;
    let drives = drawn.iter().map(|(number, kind, bends, record_call, _)| {
        let name = format!("s{number} ({kind:?} {bends:?}, seed {seed})");
        let draw = Draw(seed ^ u64::try_from(*number).expect("a small number"));
        let (gateway, kind) = (&gateway, *kind);
        async move {
            let client = gateway.client().await;
            drive(client, gateway.rest(), record_call, kind, name, draw).await
        }
    });
    let courses = futures_util::future::join_all(drives).await;
    for (course, (_, kind, bends, ..)) in courses.iter().zip(&drawn) {
        let CallHistory {
            name,
            calls,
            answered,
            ..
        } = course;
        assert!(*calls > 10, "{name}: {calls} calls");
        assert!(
            !is_usable(*kind, bends) || answered * 2 > *calls,
            "{name}: {answered} of {calls} calls were answered"
        );
    }
    for (_, kind, bends, _, idle) in &drawn {
        if *kind == BackendKind::Stdio {
            continue;
        }
        let received = idle.fake().received();
        let begin = received
            .first()
            .map(|first| first.at + Duration::from_secs(5));
        let late: Vec<_> = received
            .iter()
            .filter(|request| begin.is_some_and(|begin| request.at > begin))
            .map(|request| (request.at, request.method().unwrap_or_default()))
            .collect();
        let at: Vec<_> = late.iter().map(|(at, _)| *at).collect();
        let most = most_within(&at, Duration::from_secs(1));
        assert!(
            most <= MOST_IDLE,
            "{kind:?} {bends:?}, seed {seed}: {most} requests in a second: {late:?}"
        );
    }
}
