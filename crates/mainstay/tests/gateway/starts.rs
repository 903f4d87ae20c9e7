//! Many starts at the same time, and slow starts. A start that shows signs of work is not
//! interrupted. A hanging start delays no other start.

use mainstay_core::{ids::ServerName, lifecycle::SessionState};
use mainstay_gateway::GatewayOptions;
use mainstay_testkit::limits::PROGRAMS;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, config, soon, until},
    rest_client::never_retry,
};

/// Servers with these flags and without retries, named `s0`, `s1` and so on.
async fn servers<'f, F: AsRef<[&'f str]>>(
    flags: impl IntoIterator<Item = F>,
) -> Vec<(String, Backend)> {
    let mut servers = Vec::new();
    for (number, flags) in flags.into_iter().enumerate() {
        let backend = Backend::start(BackendKind::Stdio, flags.as_ref()).await;
        servers.push((
            format!("s{number}"),
            backend.option("reconnect", never_retry()),
        ));
    }
    servers
}

async fn start(servers: &[(String, Backend)], settings: Value, options: GatewayOptions) -> Gateway {
    let servers: Vec<_> = servers
        .iter()
        .map(|(name, backend)| (name.as_str(), backend))
        .collect();
    Gateway::with_options(&config(&servers, settings), options).await
}

/// The state of a server, and the number of its starts.
fn state(gateway: &Gateway, name: &str) -> (SessionState, u64) {
    let name = ServerName::new(name).expect("a name");
    let server = gateway.registry().named(&name).expect("it is configured");
    let status = server.view().status;
    (status.state, status.epoch.0)
}

const CONNECTED_STATE: (SessionState, u64) = (SessionState::Connected, 1);

/// The time limit of a start counts only inactivity, because the first start by `npx` or `uvx`
/// downloads packages.
#[tokio::test]
async fn a_start_at_work_is_not_cut_short() {
    for load_flag in ["--burn", "--download", "--churn"] {
        let servers = servers([[load_flag, "4000"].as_slice()]).await;
        let settings = json!({"connectTimeoutMs": 1500});
        let gateway = start(&servers, settings, GatewayOptions::default()).await;
        // Wait long: the start uses CPU time, which takes longer on a busy machine.
        let is_up = || state(&gateway, "s0").0 == SessionState::Connected;
        mainstay_testkit::until(PROGRAMS, load_flag, is_up).await;
        assert_eq!(state(&gateway, "s0"), CONNECTED_STATE, "{load_flag}");
        gateway.stop().await;
    }
}

/// A start that shows signs of work also has a limit, but a longer one.
#[tokio::test]
async fn a_start_at_work_has_a_limit() {
    let servers = servers([["--download", "60000"].as_slice()]).await;
    let settings = json!({"connectTimeoutMs": 1000, "startTimeoutMs": 2500});
    let gateway = start(&servers, settings, GatewayOptions::default()).await;
    let rest = gateway.rest();
    let is_given_up = |server: &Value| {
        let reason = server["lastError"].as_str().unwrap_or_default();
        reason == "no handshake within 2500 ms"
    };
    rest.until("s0", "given up", is_given_up).await;
}

#[tokio::test]
async fn a_start_says_what_it_does() {
    let servers = servers([["--download", "60000"].as_slice(), &["--hang-at-start"]]).await;
    let gateway = start(&servers, json!({}), GatewayOptions::default()).await;
    let rest = gateway.rest();
    let starts_with = |prefix: &'static str| {
        move |server: &Value| {
            let starting_text = server["starting"].as_str().unwrap_or_default();
            server["status"] == "connecting" && starting_text.starts_with(prefix)
        }
    };
    let downloads = rest
        .until(
            "s0",
            "at work",
            starts_with("at work for 1 s, given up after 600 s: downloading piece "),
        )
        .await;
    assert_eq!(downloads["lastError"], Value::Null, "{downloads}");
    rest.until("s1", "silent", starts_with("silent for ")).await;
    let health = rest.get("/api/health?server=s0").await;
    let message = health["servers"][0]["message"].as_str().expect("words");
    assert!(
        message.starts_with("connecting; starting: at work for "),
        "{message}"
    );
}

/// A start holds its slot until the handshake, so that starts do not compete for CPU time.
#[tokio::test]
async fn a_slot_is_held_until_the_handshake() {
    let servers = servers([["--download", "4000"].as_slice(), &[]]).await;
    let settings = json!({"startup": {"maxConcurrent": 1}});
    let gateway = start(&servers, settings, GatewayOptions::default()).await;
    let (first, second_name) = ("s0", "s1");
    until("the second", || {
        state(&gateway, second_name).0 == SessionState::Connected
    })
    .await;
    assert_eq!(state(&gateway, first), CONNECTED_STATE);
}

/// Hanging processes that are idle release their slots before the time limit.
#[tokio::test]
async fn forty_that_hang_delay_nobody() {
    let hanging_servers = std::iter::repeat_n(["--hang-at-start"].as_slice(), 40);
    let servers = servers(hanging_servers.chain([[].as_slice()])).await;
    let gateway = start(&servers, json!({}), GatewayOptions::default()).await;
    until("the last", || {
        state(&gateway, "s40").0 == SessionState::Connected
    })
    .await;
    let hanging_servers = (0..40).filter(|number| {
        let (state, attempts) = state(&gateway, &format!("s{number}"));
        state == SessionState::Connecting && attempts == 1
    });
    assert_eq!(hanging_servers.count(), 40);
}

/// Flags of a server that works for a second before it is ready.
const SLOW_FLAGS: &[&str] = &["--download", "1000"];

/// The number of connected servers among the first `servers`.
fn connected_count(gateway: &Gateway, servers: usize) -> usize {
    let names = (0..servers).map(|number| format!("s{number}"));
    names
        .filter(|name| state(gateway, name) == CONNECTED_STATE)
        .count()
}

/// If a client calls a server, it starts before the servers in the queue.
#[tokio::test]
async fn a_called_server_starts_before_queued_servers() {
    let slow_servers = std::iter::repeat_n(SLOW_FLAGS, 8);
    let servers = servers(slow_servers.chain([[].as_slice()])).await;
    let settings = json!({"startup": {"maxConcurrent": 1, "waitMs": 100}});
    let gateway = start(&servers, settings, GatewayOptions::default()).await;
    let client = gateway.client().await;
    soon("an answer", client.assert_echo("s8__echo")).await;
    assert!(
        connected_count(&gateway, 8) <= 4,
        "{} were first",
        connected_count(&gateway, 8)
    );
}

/// If a client calls a server, it starts even while other processes use all CPU time.
#[tokio::test]
async fn a_called_server_starts_under_cpu_load() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let computing_servers = std::iter::repeat_n(["--burn", "600000"].as_slice(), cores + 1);
    let servers = servers(computing_servers.chain([[].as_slice()])).await;
    let settings = json!({"startup": {"waitMs": 100}});
    let gateway = start(&servers, settings, GatewayOptions::default()).await;
    let client = gateway.client().await;
    let last_index = cores + 1;
    soon(
        "an answer",
        client.assert_echo(&format!("s{last_index}__echo")),
    )
    .await;
    assert_eq!(connected_count(&gateway, last_index), 0);
    gateway.stop().await;
}

/// Servers with a stored catalog start first.
#[tokio::test]
async fn servers_with_stored_lists_start_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = || GatewayOptions {
        catalogs: Some(folder.path().to_owned()),
        ..GatewayOptions::default()
    };
    let slow_servers = std::iter::repeat_n(SLOW_FLAGS, 8);
    let mut servers = servers(slow_servers.chain([[].as_slice()])).await;
    let listed_before = servers.split_off(8);
    let gateway = start(&listed_before, json!({}), options()).await;
    let has_lists = |server: &Value| server["listsStale"] == false && server["toolsReady"] == true;
    gateway.rest().until("s8", "listed", has_lists).await;
    gateway.stop().await;

    servers.extend(listed_before);
    let settings = json!({"startup": {"maxConcurrent": 1, "waitMs": 100}});
    let gateway = start(&servers, settings, options()).await;
    until("the known one", || {
        state(&gateway, "s8").0 == SessionState::Connected
    })
    .await;
    assert!(
        connected_count(&gateway, 8) <= 4,
        "{} were first",
        connected_count(&gateway, 8)
    );
}
