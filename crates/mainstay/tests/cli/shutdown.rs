//! The end of a daemon whose servers do not want to end (T1, T8; W17).

use std::time::{Duration, Instant};

use rustix::process::Signal;

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
        assert!(stderr.contains("shutting down"), "{stderr}");
    }
    // Long before the servers are gone.
    assert!(
        since.elapsed() < Duration::from_secs(4),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(daemon.ended().await, Some(0));
    assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
}
