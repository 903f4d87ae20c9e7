//! The end of a daemon whose servers do not want to end (T1, T8; W17), and of `mainstay mcp`.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{Home, within};

/// What the whole may take, with servers that hear nothing but SIGKILL.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn hanging_servers_and_calls_do_not_delay_the_end() {
    let stubborn: &[&str] = &["--ignore-sigterm", "--ignore-stdin-eof"];
    let home = Home::new();
    let config = home.fakes(&[
        ("one", stubborn),
        ("two", stubborn),
        ("dumb", &["--hang-at-start"]),
    ]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.says("one   connected").await;
    home.run(&["call", "two/echo", "text=x"]).await;
    let calls = ["one/hang", "two/hang_server"].map(|tool| {
        let call = home.command(&["call", tool, "--json"]).spawn();
        call.expect("it starts").wait_with_output()
    });
    within(async {
        loop {
            let servers = home.run(&["list", "--json"]).await.json()["servers"].clone();
            if (0..2).all(|index| servers[index]["callsInFlight"] == 1) {
                break;
            }
        }
    })
    .await;
    let since = Instant::now();
    daemon.signal(Signal::TERM);
    daemon.says("SIGTERM: stopping").await;
    for call in calls {
        let output = within(call).await.expect("waited for");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("may or may not have run"), "{stderr}");
    }
    // The calls had their time, and did not wait for their servers' end.
    let elapsed = since.elapsed();
    assert!(elapsed > Duration::from_secs(4), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
    assert_eq!(daemon.ended().await, Some(0));
    assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;

fn call(id: u8, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"fake__{tool}","arguments":{{"ms":900}}}}}}"#
    )
}

/// `mainstay mcp < file`: every request of the file is answered.
#[tokio::test]
async fn mcp_answers_what_was_asked_before_the_end_of_its_input() {
    let home = Home::new();
    let config = home.fakes(&[("fake", &["--handshake-delay", "700"])]);
    let asked = [INITIALIZE.to_owned(), call(2, "sleep"), call(3, "sleep")].join("\n");
    let file = home.file("requests", &asked);
    let mut command = home.command(&["mcp", "--config", &config]);
    command.stdin(std::fs::File::open(file).expect("it was written"));
    let output = within(command.output()).await.expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.matches("slept 900 ms").count(), 2, "{stdout}");
    assert_eq!(output.status.code(), Some(0));
}

/// A client that is gone is noticed though something holds stdin open, and a call of its own is at work.
#[tokio::test]
async fn mcp_ends_when_nobody_reads_its_output() {
    let home = Home::new();
    let config = home.fakes(&[("fake", &[])]);
    let mut command = home.command(&["mcp", "--config", &config]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    let asked = [INITIALIZE, &call(2, "hang"), ""].join("\n");
    stdin.write_all(asked.as_bytes()).await.expect("written");
    within(stdout.read_u8()).await.expect("it is greeted");
    drop(stdout);
    let status = within(child.wait()).await.expect("waited for");
    assert_eq!(status.code(), Some(0));
    drop(stdin);
}
