//! Calls servers with random bends for a minute. Each server must report a failure within
//! [`WINDOW`] with a reason, and must get few requests while idle. `BENDS_SEED` sets the seed. A
//! failed test prints the seed.

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

/// The total duration of the calls.
const SPAN: Duration = Duration::from_secs(60);

/// The maximum time in which a server may appear healthy while every call fails.
const WINDOW: Duration = Duration::from_secs(40);

/// The pause between two calls of one server.
const PAUSE: Duration = Duration::from_millis(250);

/// The maximum number of requests per second to an idle server after its first lists: the four
/// lists again, and a ping.
const MAX_IDLE_REQUESTS: usize = 5;

/// The number of servers that are called. The same number of servers with the same bends stays
/// idle.
const SERVERS: usize = 9;

/// The default seed.
const SEED: u64 = 20_261_128;

/// A reproducible pseudo-random sequence (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next_below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit).expect("a small number");
        usize::try_from((value ^ (value >> 31)) % limit).expect("a small number")
    }
}

fn transport(kind: BackendKind) -> BendTransport {
    match kind {
        BackendKind::Stdio => BendTransport::Stdio,
        BackendKind::Http => BendTransport::Http,
        BackendKind::Sse => BendTransport::Sse,
    }
}

/// Chooses one or two bends that exist over this transport.
fn bends(kind: BackendKind, draw: &mut Draw) -> Vec<Bend> {
    let transport = transport(kind);
    let all: Vec<Bend> = Bend::value_variants()
        .iter()
        .copied()
        .filter(|bend| bend.transports().contains(&transport))
        .collect();
    let count = 1 + draw.next_below(2);
    (0..count)
        .map(|_| all[draw.next_below(all.len())])
        .collect()
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
    let error_text = match answer["error"]["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("{} {}", text(result), failure(result)),
    };
    Some(error_text)
}

/// The observations of one server so far.
struct CallHistory {
    name: String,
    /// The time of the first failed call since the last success.
    failing_since: Option<Instant>,
    /// The time since which the server has been shown as healthy.
    well_since: Option<Instant>,
    calls: u32,
    answered: u32,
}

impl CallHistory {
    fn record_call(&mut self, failure: Option<&str>) {
        self.calls += 1;
        match failure {
            None => {
                self.answered += 1;
                self.failing_since = None;
            }
            Some(words) => {
                // Every failure must contain a reason and not only its kind.
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
            Some(since_time) if is_well => Some(since_time),
            _ => is_well.then(Instant::now),
        };
        let is_both_for =
            |since_time: Option<Instant>| since_time.is_some_and(|time| time.elapsed() >= WINDOW);
        assert!(
            !(is_both_for(self.failing_since) && is_both_for(self.well_since)),
            "{} is shown as well while every call fails: {server}",
            self.name
        );
    }
}

/// Calls one server for [`SPAN`], and checks its status. Sometimes ends the sessions of the server.
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
        let failure = failed_call(&client, &server).await;
        course.record_call(failure.as_deref());
        course.record_status(&rest.server(&server).await);
        if kind != BackendKind::Stdio && draw.next_below(20) == 0 {
            match draw.next_below(3) {
                0 => backend.fake().expire_sessions(),
                1 => backend.fake().lose_sessions(),
                _ => backend.fake().drop_streams(),
            }
        }
        sleep(PAUSE).await;
    }
    course
}

/// True if a server with these bends is usable: its tools are listed, its answers can be read, and
/// answers on a shared connection can be assigned to calls.
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
    let mut draws = Vec::new();
    for number in 0..SERVERS {
        let kind = BackendKind::ALL[number % BackendKind::ALL.len()];
        let bends = bends(kind, &mut draw);
        let (record_call, idle_backend) = (start(kind, &bends).await, start(kind, &bends).await);
        draws.push((number, kind, bends, record_call, idle_backend));
    }
    let names: Vec<_> = (0..SERVERS)
        .map(|n| (format!("s{n}"), format!("i{n}")))
        .collect();
    let servers: Vec<_> = draws
        .iter()
        .zip(&names)
        .flat_map(|((.., record_call, idle_backend), (name, idle_name))| {
            [
                (name.as_str(), record_call),
                (idle_name.as_str(), idle_backend),
            ]
        })
        .collect();
    let gateway = Gateway::with_servers(&servers).await;
    let drivers = draws.iter().map(|(number, kind, bends, record_call, _)| {
        let name = format!("s{number} ({kind:?} {bends:?}, seed {seed})");
        let draw = Draw(seed ^ u64::try_from(*number).expect("a small number"));
        let (gateway, kind) = (&gateway, *kind);
        async move {
            let client = gateway.client().await;
            drive(client, gateway.rest(), record_call, kind, name, draw).await
        }
    });
    let courses = futures_util::future::join_all(drivers).await;
    for (course, (_, kind, bends, ..)) in courses.iter().zip(&draws) {
        let CallHistory {
            name,
            calls,
            answered: answered_count,
            ..
        } = course;
        assert!(*calls > 10, "{name}: {calls} calls");
        assert!(
            !is_usable(*kind, bends) || answered_count * 2 > *calls,
            "{name}: {answered_count} of {calls} calls were answered"
        );
    }
    for (_, kind, bends, _, idle_backend) in &draws {
        if *kind == BackendKind::Stdio {
            continue;
        }
        let received_requests = idle_backend.fake().received();
        let begin = received_requests
            .first()
            .map(|first| first.at + Duration::from_secs(5));
        let late: Vec<_> = received_requests
            .iter()
            .filter(|request| begin.is_some_and(|begin| request.at > begin))
            .map(|request| (request.at, request.method().unwrap_or_default()))
            .collect();
        let times: Vec<_> = late.iter().map(|(times, _)| *times).collect();
        let max_attempts = most_within(&times, Duration::from_secs(1));
        assert!(
            max_attempts <= MAX_IDLE_REQUESTS,
            "{kind:?} {bends:?}, seed {seed}: {max_attempts} requests in a second: {late:?}"
        );
    }
}
