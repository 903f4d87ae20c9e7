//! Many servers at the same time. A hundred processes start, and all servers of a fleet are lost
//! and return. Limits must hold, without unnecessary delays.

// These tests end processes by signals.
#![cfg(unix)]
#![expect(clippy::print_stdout, reason = "the figures")]

use std::time::{Duration, Instant};

use fake_server::{Fleet, Script, gate};
use mainstay_api::{Client, Server};
use mainstay_core::config::Secret;
use mainstay_testkit::{Home, Serving, glances, home, limits::STORM, soon};
use rustix::process::Signal;
use serde_json::{Map, Value, json};

/// The interval of polls. It is long, because each poll lists many servers.
const GLANCE: Duration = Duration::from_millis(200);

const PROCESSES: u32 = 100;
const HANDSHAKE: Duration = Duration::from_millis(200);

const BACKENDS: usize = 200;
const MAX_ATTEMPTS_PER_SECOND: usize = 50;

/// The number of concurrent starts is limited. Starts wait for nothing else.
#[tokio::test]
async fn a_hundred_processes_start_within_their_limit() {
    const LIMIT: u32 = 4;
    let delay = HANDSHAKE.as_millis().to_string();
    // The servers have no items, because merging lists is slow in a debug build.
    let flags = [
        "--no-tools",
        "--no-prompts",
        "--no-resources",
        "--handshake-delay",
        &delay,
    ];
    let entry = json!({"command": fake_server::binary(), "args": flags});
    let servers = (0..PROCESSES).map(|number| (format!("s{number}"), entry.clone()));
    let started_at = Instant::now();
    let mut gateway = Gateway::start(
        servers.collect(),
        json!({"startup": {"maxConcurrent": LIMIT}}),
    )
    .await;
    gateway
        .daemon
        .wait_for_stderr("ready: 100 of 100 servers")
        .await;
    let elapsed = started_at.elapsed();
    println!("{PROCESSES} processes, {LIMIT} at once: {elapsed:?}");
    let min_time = HANDSHAKE * PROCESSES.div_ceil(LIMIT);
    assert!(
        elapsed >= min_time,
        "more than {LIMIT} at once: {elapsed:?}"
    );
    assert!(
        elapsed <= min_time * 3 / 2,
        "{elapsed:?}, {min_time:?} would do"
    );
    gateway.stop().await;
}

/// Both during and after the outage, there are at most `maxAttemptsPerSecond` attempts per second.
#[tokio::test]
async fn a_fleet_that_was_lost_comes_back_in_order() {
    let empty_script = Script {
        no_tools: true,
        no_prompts: true,
        no_resources: true,
        ..Script::default()
    };
    let fleet = Fleet::http(BACKENDS, empty_script).await.expect("ports");
    let servers = fleet.urls().enumerate();
    let servers = servers.map(|(number, url)| (format!("s{number}"), json!({"url": url})));
    let settings = json!({"maxAttemptsPerSecond": MAX_ATTEMPTS_PER_SECOND});
    let mut gateway = Gateway::start(servers.collect(), settings).await;
    gateway
        .daemon
        .wait_for_stderr("ready: 200 of 200 servers")
        .await;
    let previous_count = fleet.attempts().len();

    // Reset all connections. Without the limit, all servers would try again at the same time.
    fleet.set(gate::GateMode::Reset).await.expect("counted");
    gateway
        .until("all are lost", |server| !server.connected)
        .await;
    let refused_attempts = previous_count + BACKENDS / 2;
    gateway
        .during("attempts", fleet_sees(&fleet, refused_attempts))
        .await;
    fleet.set(gate::GateMode::Forward).await.expect("back");
    gateway
        .until("all are back", |server| server.connected)
        .await;

    let attempts = fleet.attempts();
    let max_attempts = gate::most_within(&attempts, Duration::from_secs(1));
    println!(
        "{BACKENDS} backends: {} attempts, {max_attempts} in a second",
        attempts.len()
    );
    assert!(attempts.len() >= previous_count + BACKENDS);
    assert!(max_attempts <= MAX_ATTEMPTS_PER_SECOND, "{max_attempts}");
    // The rate must also come close to the limit.
    assert!(max_attempts > MAX_ATTEMPTS_PER_SECOND / 2, "{max_attempts}");
    gateway.stop().await;
}

async fn fleet_sees(fleet: &Fleet, attempts: usize) {
    let mut glance = glances(GLANCE);
    while fleet.attempts().len() < attempts {
        glance.tick().await;
    }
}

/// A gateway in another process.
struct Gateway {
    daemon: Serving,
    client: Client,
    /// Held so that the files remain.
    _home: Home,
}

impl Gateway {
    async fn start(servers: Map<String, Value>, mut settings: Value) -> Self {
        let home = home!();
        settings["mcpServers"] = Value::Object(servers);
        // The gateway is ready when all servers have made their first attempt.
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

    /// Waits, and meanwhile reads the daemon's output. The daemon could block if nobody read it.
    async fn during(&mut self, description: &str, action: impl Future<Output = ()>) {
        tokio::select! {
            () = soon(STORM, description, action) => {}
            line = self.daemon.wait_for_stderr("stopping") => panic!("it stops by itself: {line}"),
        }
    }

    async fn until(&mut self, description: &str, condition: impl Fn(&Server) -> bool) {
        let client = self.client.clone();
        let all_fit = async {
            let mut glance = glances(GLANCE);
            while !client
                .servers()
                .await
                .expect("a list")
                .servers
                .iter()
                .all(&condition)
            {
                glance.tick().await;
            }
        };
        println!("until {description}");
        self.during(description, all_fit).await;
    }

    async fn stop(mut self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.wait_for_stderr("stopping").await;
        assert_eq!(self.daemon.ended().await, Some(0));
    }
}
