//! A shutdown with servers that do not end (T1, T8, W17), and the shutdown of `mainstay mcp`.

use std::{
    fs::{self, File},
    io,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use mainstay_testkit::{Home, Serving, home, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::fakes::fakes;

/// The time limit of a shutdown in which servers have to be killed.
const LIMIT: Duration = Duration::from_secs(10);

/// Calls a tool in a separate process.
fn run_in_background(
    home: &Home,
    tool: &[&str],
) -> impl Future<Output = io::Result<Output>> + use<> {
    let call = home.command(&[&["call", "--json"], tool].concat()).spawn();
    call.expect("it starts").wait_with_output()
}

/// Waits until each server has a call in flight.
async fn until_in_flight(home: &Home, servers: usize) {
    within(async {
        loop {
            let matching_output = home.run(&["list", "--json"]).await.json()["servers"].clone();
            if (0..servers).all(|index| matching_output[index]["callsInFlight"] == 1) {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn hanging_servers_and_calls_do_not_delay_the_end() {
    let stubborn: &[&str] = &["--ignore-sigterm", "--ignore-stdin-eof"];
    let home = home!();
    let config = fakes(
        &home,
        &[
            ("one", stubborn),
            ("two", stubborn),
            ("dumb", &["--hang-at-start"]),
        ],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("one   connected").await;
    home.run(&["call", "two/echo", "text=x"]).await;
    let calls = ["one/hang", "two/hang_server"].map(|tool| run_in_background(&home, &[tool]));
    until_in_flight(&home, 2).await;
    let stop_start = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("SIGTERM: stopping").await;
    for call in calls {
        let output = within(call).await.expect("waited for");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("may or may not have run"), "{stderr}");
    }
    // The grace periods of calls and servers overlap. They do not add up.
    let elapsed = stop_start.elapsed();
    assert!(elapsed > Duration::from_secs(4), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
    assert_eq!(daemon.ended().await, Some(0));
    assert!(stop_start.elapsed() < LIMIT, "{:?}", stop_start.elapsed());
}

/// A second signal ends all calls at once. Their outcome is unknown.
#[tokio::test]
async fn a_second_signal_ends_calls_with_their_outcome() {
    let home = home!();
    let stubborn: &[&str] = &["--ignore-sigterm", "--ignore-stdin-eof"];
    let config = fakes(&home, &[("one", &[]), ("two", stubborn)]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let calls = ["one/hang", "two/hang"].map(|tool| run_in_background(&home, &[tool]));
    until_in_flight(&home, 2).await;
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("SIGTERM: stopping").await;
    daemon.signal(Signal::INT);
    for call in calls {
        let output = within(call).await.expect("waited for");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("may or may not have run"), "{stderr}");
    }
    assert_eq!(daemon.ended().await, Some(130));
    let log = home.state().join("journal/journal.db-wal");
    assert!(!log.exists(), "the journal was closed");
    let matching_output = home.run(&["records", "--json"]).await.json();
    for call in 0..2 {
        let call = &matching_output["calls"][call];
        assert_eq!(call["status"], "unknown", "{matching_output}");
        assert_eq!(
            call["error"]["kind"], "outcome_unknown",
            "{matching_output}"
        );
    }
}

/// A SIGHUP during the shutdown does not end calls.
#[tokio::test]
async fn a_hangup_cuts_no_call() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let call = run_in_background(&home, &["fake/sleep", "ms=1500"]);
    until_in_flight(&home, 1).await;
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("SIGTERM: stopping").await;
    daemon.signal(Signal::HUP);
    let output = within(call).await.expect("waited for");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(daemon.ended().await, Some(0));
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;

fn call(id: u8, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"fake__{tool}","arguments":{{"ms":900}}}}}}"#
    )
}

/// `mainstay mcp < file` answers every request of the file.
#[tokio::test]
async fn mcp_answers_what_was_asked_before_the_end_of_its_input() {
    let home = home!();
    let config = fakes(&home, &[("fake", &["--handshake-delay", "700"])]);
    let requests = [INITIALIZE.to_owned(), call(2, "sleep"), call(3, "sleep")].join("\n");
    let file = home.file("requests", &requests);
    let mut command = home.command(&["mcp", "--config", &config]);
    command.stdin(File::open(file).expect("it was written"));
    let output = within(command.output()).await.expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.matches("slept 900 ms").count(), 2, "{stdout}");
    assert_eq!(output.status.code(), Some(0));
}

/// A closed stdout ends the process, even if stdin is open and a call is in flight.
#[tokio::test]
async fn mcp_ends_when_nobody_reads_its_output() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut command = home.command(&["mcp", "--config", &config]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    let requests = [INITIALIZE, &call(2, "hang"), ""].join("\n");
    stdin.write_all(requests.as_bytes()).await.expect("written");
    within(stdout.read_u8()).await.expect("it is greeted");
    drop(stdout);
    let status = within(child.wait()).await.expect("waited for");
    assert_eq!(status.code(), Some(0));
    drop(stdin);
}

const STUBBORN_FLAGS: &[&str] = &["--ignore-sigterm", "--ignore-stdin-eof"];

/// Starts a daemon and kills its guardian. The daemon then waits for a server that ignores SIGTERM.
async fn kill_guardian(home: &Home, config: &str) -> Serving {
    let mut daemon = home.serve(&["--config", config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    daemon.signal(Signal::KILL);
    daemon.wait_for_stderr("SIGTERM: stopping").await;
    daemon
}

/// A new daemon waits until the previous one has stopped.
#[tokio::test]
async fn the_next_daemon_waits_until_the_last_has_stopped() {
    let home = home!();
    let config = fakes(&home, &[("stubborn", STUBBORN_FLAGS)]);
    let last_daemon = kill_guardian(&home, &config).await;
    let mut next_daemon = home.serve(&["--config", &config]).await;
    next_daemon.wait_for_stderr("stubborn  connected").await;
    let waited_text = format!(
        "waiting for the daemon that is stopping (pid {})",
        last_daemon.daemon_pid()
    );
    assert!(
        next_daemon.stderr_text.contains(&waited_text),
        "{}",
        next_daemon.stderr_text
    );
    let answer = home.run(&["list", "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer}");
    next_daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_waits_for_another_ends_at_a_signal() {
    let home = home!();
    let config = fakes(&home, &[("stubborn", STUBBORN_FLAGS)]);
    let last_daemon = kill_guardian(&home, &config).await;
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", &config];
    let mut next_daemon = home.command(&arguments).spawn().expect("it starts");
    let mut stderr = BufReader::new(next_daemon.stderr.take().expect("a pipe")).lines();
    let waiting_line = within(stderr.next_line()).await.expect("UTF-8");
    assert!(
        waiting_line
            .as_ref()
            .is_some_and(|line| line.starts_with("waiting")),
        "{waiting_line:?}"
    );
    let pid = next_daemon
        .id()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()));
    kill_process(pid.expect("it runs"), Signal::TERM).expect("signalled");
    let status = within(next_daemon.wait()).await.expect("waited for");
    assert_eq!(status.code(), Some(143));
    drop(last_daemon);
}

/// A `mainstay mcp` that is stopping, and its client.
struct Ending {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Ending {
    async fn send(&mut self, message: &str) {
        let line = format!("{message}\n");
        let write_result = self.stdin.write_all(line.as_bytes()).await;
        write_result.expect("it reads");
    }

    /// Reads up to the answer to this request.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = within(self.stdout.next_line()).await.expect("UTF-8");
            let line = line.unwrap_or_else(|| panic!("{id} was never answered"));
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == id {
                return message;
            }
        }
    }
}

/// During the grace period, new calls are refused and recorded. Pings are answered, and
/// cancellations work.
#[tokio::test]
async fn mcp_hears_its_client_while_it_stops() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut command = home.command(&["mcp", "--config", &config]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut mcp = Ending {
        stdin: child.stdin.take().expect("a pipe"),
        stdout: BufReader::new(child.stdout.take().expect("a pipe")).lines(),
        child,
    };
    mcp.send(INITIALIZE).await;
    mcp.send(&call(2, "hang")).await;
    mcp.send(&call(3, "echo")).await;
    mcp.answer(3).await;
    let pid = mcp.child.id().expect("it runs").cast_signed();
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::TERM).expect("signalled");
    let mut refused_count = 0;
    for id in 10.. {
        mcp.send(&call(id, "echo")).await;
        let answer = mcp.answer(id.into()).await;
        if answer.to_string().contains("shutting down") {
            refused_count += 1;
            break;
        }
    }
    mcp.send(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#)
        .await;
    assert!(mcp.answer(4).await["result"].is_object());
    mcp.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#)
        .await;
    let status = within(mcp.child.wait()).await.expect("waited for");
    assert_eq!(status.code(), Some(0));
    for (status, calls) in [("refused", refused_count), ("cancelled", 1), ("unknown", 0)] {
        let matching_run = home.run(&["records", "--json", "--status", status]).await;
        assert_eq!(matching_run.json()["total_count"], calls, "{matching_run}");
    }
}

/// If answers cannot be written, the exit code reports an error.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn mcp_fails_where_its_answers_are_lost() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let requests = [INITIALIZE, &call(2, "echo")].join("\n");
    let path = home.file("requests", &requests);
    let full_device = fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = home.command(&["mcp", "--config", &config]);
    command.stdin(File::open(path).expect("it was written"));
    command.stdout(full_device.expect("it is there"));
    let child = command.spawn().expect("it starts");
    let output = within(child.wait_with_output()).await.expect("waited for");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write to stdout"), "{stderr}");
}
