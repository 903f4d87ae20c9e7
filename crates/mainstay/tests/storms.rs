//! Many servers at once: a hundred processes that start together, and a fleet that is lost and comes
//! back. Neither may overrun the machine or the network, and neither may
//! take longer than the limits make it.

// Processes are ended by signals.
#![cfg(unix)]
#![expect(clippy::print_stdout, reason = "the figures")]

use std::time::{Duration, Instant};

use fake_server::{Fleet, Script, gate};
use mainstay_api::{Client, Server};
use mainstay_core::config::Secret;
use mainstay_testkit::{Home, Serving, glances, home, limits::STORM, soon};
use rustix::process::Signal;
use serde_json::{Map, Value, json};

/// How often a condition is checked that is not announced; a list of many servers takes its time.
const GLANCE: Duration = Duration::from_millis(200);

const PROCESSES: u32 = 100;
const HANDSHAKE: Duration = Duration::from_millis(200);

const BACKENDS: usize = 200;
const MAX_ATTEMPTS_PER_SECOND: usize = 50;

/// No more than so many start at once, and they do not wait for more than that.
#[tokio::test]
async fn a_hundred_processes_start_within_their_limit() {
    const LIMIT: u32 = 4;
    let delay = HANDSHAKE.as_millis().to_string();
    // They offer nothing: to merge what they do is slow in a debug build, and no part of this.
    let flags = [
        "--no-tools",
        "--no-prompts",
        "--no-resources",
        "--handshake-delay",
        &delay,
    ];
    let entry = json!({"command": fake_server::binary(), "args": flags});
    let servers = (0..PROCESSES).map(|number| (format!("s{number}"), entry.clone()));
    let began = Instant::now();
    let mut gateway = Gateway::start(
        servers.collect(),
        json!({"startup": {"maxConcurrent": LIMIT}}),
    )
    .await;
    gateway.daemon.says("ready: 100 of 100 servers").await;
    let took = began.elapsed();
    println!("{PROCESSES} processes, {LIMIT} at once: {took:?}");
    let least = HANDSHAKE * PROCESSES.div_ceil(LIMIT);
    assert!(took >= least, "more than {LIMIT} at once: {took:?}");
    assert!(took <= least * 3 / 2, "{took:?}, {least:?} would do");
    gateway.stop().await;
}

/// However many are lost at once, attempts are never more than
/// `maxAttemptsPerSecond` in any second; while they are refused, and when the servers are back.
#[tokio::test]
async fn a_fleet_that_was_lost_comes_back_in_order() {
    let nothing = Script {
        no_tools: true,
        no_prompts: true,
        no_resources: true,
        ..Script::default()
    };
    let fleet = Fleet::http(BACKENDS, nothing).await.expect("ports");
    let servers = fleet.urls().enumerate();
    let servers = servers.map(|(number, url)| (format!("s{number}"), json!({"url": url})));
    let settings = json!({"maxAttemptsPerSecond": MAX_ATTEMPTS_PER_SECOND});
    let mut gateway = Gateway::start(servers.collect(), settings).await;
    gateway.daemon.says("ready: 200 of 200 servers").await;
    let before = fleet.attempts().len();

    // Cut at once, they knock at once if they can: each wants its event stream again.
    fleet.set(gate::GateMode::Reset).await.expect("counted");
    gateway
        .until("all are lost", |server| !server.connected)
        .await;
    let refused = before + BACKENDS / 2;
    gateway
        .during("attempts", fleet_sees(&fleet, refused))
        .await;
    fleet.set(gate::GateMode::Forward).await.expect("back");
    gateway
        .until("all are back", |server| server.connected)
        .await;

    let attempts = fleet.attempts();
    let most = gate::most_within(&attempts, Duration::from_secs(1));
    println!(
        "{BACKENDS} backends: {} attempts, {most} in a second",
        attempts.len()
    );
    assert!(attempts.len() >= before + BACKENDS);
    assert!(most <= MAX_ATTEMPTS_PER_SECOND, "{most}");
    // They are not held back further than they must be.
    assert!(most > MAX_ATTEMPTS_PER_SECOND / 2, "{most}");
    gateway.stop().await;
}

async fn fleet_sees(fleet: &Fleet, attempts: usize) {
    let mut glance = glances(GLANCE);
    while fleet.attempts().len() < attempts {
        glance.tick().await;
    }
}

/// A Mainstay of its own process.
struct Gateway {
    daemon: Serving,
    client: Client,
    /// Holds its files.
    _home: Home,
}

impl Gateway {
    async fn start(servers: Map<String, Value>, mut settings: Value) -> Self {
        let home = home!();
        settings["mcpServers"] = Value::Object(servers);
        // It is ready when the first attempts of all are over.
        settings["startup"]["waitMs"] = json!(STORM.as_millis());
        let config = home.file("servers.json", &settings.to_string());
        let daemon = home.serve(&["--config", &config]).await;
        let client = Client::new(&daemon.url, Some(Secret::new(home.token()))).expect("a URL");
        Self {
            daemon,
            client,
            _home: home,
        }
    }

    /// Waits while what the daemon says is read: it says a line for every change of state.
    async fn during(&mut self, what: &str, work: impl Future<Output = ()>) {
        tokio::select! {
            () = soon(STORM, what, work) => {}
            line = self.daemon.says("stopping") => panic!("it stops by itself: {line}"),
        }
    }

    async fn until(&mut self, what: &str, fits: impl Fn(&Server) -> bool) {
        let client = self.client.clone();
        let all_fit = async {
            let mut glance = glances(GLANCE);
            while !client
                .servers()
                .await
                .expect("a list")
                .servers
                .iter()
                .all(&fits)
            {
                glance.tick().await;
            }
        };
        println!("until {what}");
        self.during(what, all_fit).await;
    }

    async fn stop(mut self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.says("stopping").await;
        assert_eq!(self.daemon.ended().await, Some(0));
    }
}
