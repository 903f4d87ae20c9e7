//! `mainstay serve`: its output, its files, and its shutdown.

use std::path::Path;

use insta::assert_snapshot;
use mainstay_testkit::{Home, home, within};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fakes::fakes;

fn pid(text: &serde_json::Value) -> Pid {
    let id = text.as_i64().and_then(|id| i32::try_from(id).ok());
    id.and_then(Pid::from_raw).expect("a process id")
}

#[tokio::test]
async fn the_demo_says_what_to_try_and_what_happens() {
    let home = home!();
    let mut daemon = home.serve(&["--demo"]).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    let tour = daemon.wait_for_stderr("kill -9").await;
    assert!(daemon.stderr_text.contains(&format!(
        "claude mcp add --transport http mainstay {}/mcp",
        daemon.url
    )));

    let alpha = &home.run(&["list", "--json"]).await.json()["servers"][0];
    assert!(
        tour.contains(&format!("kill -9 {} ", alpha["pid"])),
        "{tour}"
    );
    kill_process(pid(&alpha["pid"]), Signal::KILL).expect("killed");
    let loss = daemon.wait_for_stderr("reconnecting").await;
    let restored_line = daemon.wait_for_stderr("alpha  connected").await;
    assert_snapshot!(home.redacted(&format!("{loss}\n{restored_line}")), @r"
    alpha  reconnecting  process exited unexpectedly (signal 9); attempt 1 in [TIME]
    alpha  connected     6 tools, 1 resource, 1 prompt ([TIME])
    ");
    daemon.stop().await;
}

/// Programs in an installer's folder below the home are found without PATH (D6).
#[tokio::test]
async fn a_program_of_an_installer_is_found() {
    let home = home!();
    let folder = home.path().join(".volta/bin");
    std::fs::create_dir_all(&folder).expect("made");
    let tool = folder.join("mainstay-volta-tool");
    std::os::unix::fs::symlink(fake_server::binary(), tool).expect("linked");
    let config = serde_json::json!({"mcpServers": {"tool": {"command": "mainstay-volta-tool"}}});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    daemon.stop().await;
}

/// Limits the address space, so that there is no room for thread stacks.
#[tokio::test]
async fn a_start_without_threads_has_a_reason() {
    let home = home!();
    let config = home.file("servers.json", r#"{"mcpServers":{}}"#);
    let mut command = home.command(&["serve", "--config", &config]);
    let command = command.env("RUST_MIN_STACK", (1_u64 << 50).to_string());
    let output = within(command.output()).await.expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("error: the system gave 0 threads"),
        "{stderr}"
    );
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[tokio::test]
async fn each_server_has_its_line() {
    let home = home!();
    fakes(&home, &[]);
    let program = fake_server::binary();
    let config = serde_json::json!({"mcpServers": {
        "good": {"command": program},
        "crashes": {"command": program, "args": ["--stderr", "about to", "--crash-at-start", "7"]},
        "missing": {"command": "no-such-tool-anywhere"},
        "off": {"command": program, "disabled": true},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready:").await;
    let lines: Vec<String> = home
        .redacted(&daemon.stderr_text)
        .lines()
        .map(str::to_owned)
        .collect();
    // A line of stderr follows the line about its server.
    assert!(
        !daemon.stderr_text.contains("WARN"),
        "{}",
        daemon.stderr_text
    );
    let servers = lines.iter().filter(|line| !line.starts_with(' ')).skip(2);
    let mut servers: Vec<&str> = servers.map(String::as_str).collect();
    servers.sort_unstable();
    // On a slow machine a further attempt may have a line.
    servers.dedup_by_key(|line| line.split(' ').next().unwrap_or_default().to_owned());
    assert_snapshot!(servers.join("\n"));
    assert!(
        daemon.stderr_text.contains("| about to\n"),
        "{}",
        daemon.stderr_text
    );
    assert!(
        daemon
            .stderr_text
            .contains("| the fake crashes at start with code 7\n"),
        "{}",
        daemon.stderr_text
    );
    daemon.stop().await;
}

/// The line about a slow start says what the process does and what its stderr said last.
#[tokio::test]
async fn a_slow_start_has_its_line() {
    let home = home!();
    let config = fakes(&home, &[("slow", &["--download", "60000"])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    let line = daemon.wait_for_stderr("slow  connecting").await;
    assert!(
        line.contains("at work for") && line.contains("downloading piece"),
        "{line}"
    );
    daemon.stop().await;
}

/// Each start and each stop has a line with its duration.
#[tokio::test]
async fn every_start_has_its_line() {
    let home = home!();
    let program = fake_server::binary();
    let config = serde_json::json!({"mcpServers": {
        "again": {"command": program},
        "later": {"command": program, "autoStart": false},
        "missing": {"command": "no-such-tool-anywhere", "restart": {"mode": "never"}},
        "slow": {"command": program, "args": ["--slow-start", "60000"], "autoStart": false},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    // A start that was stopped must not add to the reported duration of a later start.
    let mut start = home.command(&["start", "slow"]).spawn().expect("it starts");
    daemon.wait_for_stderr("slow     connecting").await;
    start.kill().await.expect("killed");
    home.run(&["stop", "slow"]).await;
    daemon.wait_for_stderr("slow     disconnected").await;
    daemon.stderr_text.clear();
    home.run(&["start", "later"]).await;
    let line = daemon.wait_for_stderr("later").await;
    assert!(
        line.contains("connected  ") && line.contains(" ms)"),
        "{line}"
    );
    home.run(&["stop", "again"]).await;
    let stopped_line = daemon.wait_for_stderr("again").await;
    home.run(&["start", "again"]).await;
    let started_line = daemon.wait_for_stderr("again").await;
    home.run(&["restart", "again"]).await;
    daemon.wait_for_stderr("again    connected").await;
    assert_snapshot!(home.redacted(&format!("{stopped_line}\n{started_line}")), @r#"
    again    disconnected  stopped; start it by "mainstay start again"
    again    connected     35 tools, 3 resources, 2 prompts ([TIME])
    "#);
    home.run(&["start", "missing"]).await;
    daemon.wait_for_stderr("attempt 1 in").await;
    assert!(
        !daemon.stderr_text.contains("turn"),
        "{}",
        daemon.stderr_text
    );
    // At the shutdown there are no lines about servers.
    daemon.stderr_text.clear();
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("stopping").await;
    assert_eq!(daemon.stderr_text.matches("disconnected").count(), 0);
    assert_eq!(daemon.ended().await, Some(0));
}

/// A slow start is also reported if it begins after the daemon's start.
#[tokio::test]
async fn a_later_slow_start_has_its_line() {
    let home = home!();
    let program = fake_server::binary();
    let config = serde_json::json!({"mcpServers": {
        "slow": {"command": program, "args": ["--slow-start", "60000"], "autoStart": false},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 0 of 0").await;
    let mut start = home.command(&["start", "slow"]).spawn().expect("it starts");
    let first = daemon.wait_for_stderr("slow  connecting").await;
    assert!(!first.contains("waits for its turn"), "{first}");
    daemon.wait_for_stderr("slow  connecting").await;
    start.kill().await.expect("killed");
    home.run(&["stop", "slow"]).await;
    daemon.wait_for_stderr("slow  disconnected").await;
    // The report comes after the same delay as at the daemon's start.
    let started_at = std::time::Instant::now();
    let mut start = home.command(&["start", "slow"]).spawn().expect("it starts");
    daemon.wait_for_stderr("slow  connecting").await;
    assert!(started_at.elapsed() < std::time::Duration::from_secs(10));
    start.kill().await.expect("killed");
    daemon.stop().await;
}

#[tokio::test]
async fn the_state_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("it exists")
            .permissions()
            .mode()
            & 0o777
    };
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    let state = home.state();
    assert_eq!(mode(&state), 0o700);
    for name in ["token", "daemon.json"] {
        assert_eq!(mode(&state.join(name)), 0o600, "{name}");
    }
    let announced: serde_json::Value =
        serde_json::from_slice(&std::fs::read(state.join("daemon.json")).expect("a file"))
            .expect("JSON");
    assert_eq!(announced["url"], daemon.url.as_str());
    let token = std::fs::read_to_string(state.join("token")).expect("a token");
    assert!(
        token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{token}"
    );

    daemon.stop().await;
    assert!(!state.join("daemon.json").exists());
    let repeated_daemon = home.serve(&["--demo"]).await;
    assert_eq!(
        std::fs::read_to_string(state.join("token")).expect("a token"),
        token,
        "it is kept"
    );
    repeated_daemon.stop().await;
}

#[tokio::test]
async fn one_directory_has_one_daemon() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    let second_run = home
        .run(&["serve", "--demo", "--listen", "127.0.0.1:0"])
        .await;
    assert_eq!(second_run.code, Some(1), "{second_run}");
    assert!(second_run.stderr.contains(&daemon.url), "{second_run}");
    assert_snapshot!(home.redacted(&second_run.stderr));
    daemon.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_to_be() {
    let (home, other_home) = (home!(), home!());
    let daemon = home.serve(&["--demo"]).await;
    let address = daemon.url.trim_start_matches("http://");
    assert_snapshot!(
        other_home
            .transcript(&[&["serve", "--demo", "--listen", address]])
            .await
    );
    daemon.stop().await;
}

/// The address file of a killed daemon may lead to another program. Commands do not use it.
#[tokio::test]
async fn the_file_of_a_killed_daemon_is_not_followed() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    kill_process(pid(&daemon.daemon_pid().into()), Signal::KILL).expect("killed");
    assert_eq!(daemon.ended().await, Some(137));
    assert!(home.state().join("daemon.json").exists());
    let list = home.run(&["list"]).await;
    assert_eq!(list.code, Some(3), "{list}");
    home.serve(&["--demo"]).await.stop().await;
}

#[tokio::test]
async fn servers_end_with_their_daemon() {
    let home = home!();
    let mut daemon = home.serve(&["--demo"]).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    let servers = home.run(&["list", "--json"]).await.json()["servers"].clone();
    let pids: Vec<Pid> = (0..3).map(|index| pid(&servers[index]["pid"])).collect();
    daemon.stop().await;
    for pid in pids {
        test_kill_process(pid).expect_err("it is gone");
    }
}

/// After a second signal, a server that ignores SIGTERM is killed.
#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let home = home!();
    let config = fakes(
        &home,
        &[("stubborn", &["--ignore-sigterm", "--ignore-stdin-eof"])],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let stubborn_output = pid(&home.run(&["list", "--json"]).await.json()["servers"][0]["pid"]);
    daemon.signal(Signal::TERM);
    daemon.wait_for_stderr("SIGTERM: stopping").await;
    daemon.signal(Signal::INT);
    assert_eq!(daemon.ended().await, Some(130));
    // Wait until the new parent has reaped the process.
    within(async {
        while test_kill_process(stubborn_output).is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_a_right_one_is_found() {
    let home = home!();
    let daemon = home.serve(&["--demo"]).await;
    let token = home.token();
    let ask = |home: &Home, token: &str| {
        let mut command = home.command(&["list"]);
        command
            .env("MAINSTAY_URL", &daemon.url)
            .env("MAINSTAY_TOKEN", token);
        command
    };
    let wrong_text = within(ask(&home, &token.replace(|_: char| true, "0")).output())
        .await
        .expect("it starts");
    assert_eq!(wrong_text.status.code(), Some(1));
    assert_snapshot!(home.redacted(&String::from_utf8_lossy(&wrong_text.stderr)));
    // Use a token of another daemon.
    let other_home = home!();
    let right_response = within(ask(&other_home, &token).output())
        .await
        .expect("it starts");
    assert_eq!(
        right_response.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&right_response.stderr)
    );
    // Without a token the request is refused.
    let empty_response = within(ask(&other_home, "").output())
        .await
        .expect("it starts");
    assert_eq!(
        empty_response.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&empty_response.stderr)
    );
    daemon.stop().await;
}

/// Stdout contains only MCP messages. The process exits at the end of stdin.
#[tokio::test]
async fn mcp_speaks_on_stdio_until_its_client_leaves() {
    let home = home!();
    let config = fakes(&home, &[("fake", &[])]);
    let mut command = home.command(&["mcp", "--config", &config]);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fake__echo","arguments":{"text":"through"}}}"#;
    for (request, expected) in [(initialize, "\"serverInfo\""), (call, "through")] {
        stdin
            .write_all(format!("{request}\n").as_bytes())
            .await
            .expect("written");
        let answer = within(stdout.next_line())
            .await
            .expect("UTF-8")
            .expect("an answer");
        assert!(
            answer.starts_with('{') && answer.contains(expected),
            "{answer}"
        );
    }
    drop(stdin);
    assert_eq!(
        within(child.wait()).await.expect("waited for").code(),
        Some(0)
    );
    assert_eq!(within(stdout.next_line()).await.expect("UTF-8"), None);
    // Logs and catalogs remain. The address file does not, so commands find no daemon.
    let state = home.state();
    assert!(state.join("catalogs/fake.json").is_file());
    assert_eq!(state.join("instances").read_dir().expect("made").count(), 1);
    assert!(!state.join("daemon.json").exists());
}
