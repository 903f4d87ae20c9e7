//! `mainstay shell` with scripts and on a terminal (B10–B13).

use std::{path::Path, process::Stdio};

use insta::assert_snapshot;
use mainstay_testkit::{
    Home, Run, Running, Terminal, found, home,
    limits::{IN_PROCESS, PROGRAMS},
    within,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::fakes::fakes;

/// Runs a shell with these lines as its stdin.
async fn script(home: &Home, arguments: &[&str], lines: &[&str]) -> Run {
    let arguments = [&["shell"], arguments].concat();
    let mut command = home.command(&arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = format!("{}\n", lines.join("\n"));
    within(stdin.write_all(text.as_bytes()))
        .await
        .expect("it reads");
    drop(stdin);
    let output = within(child.wait_with_output()).await.expect("it ends");
    Run::new(&arguments, &output)
}

/// The process id of a server, taken from `list`.
async fn pid_of(home: &Home, server: &str) -> Pid {
    let get = home.run(&["list", "--json"]).await.json();
    let servers = get["servers"].as_array().expect("servers");
    let server_entry = servers.iter().find(|entry| entry["name"] == server);
    let pid = server_entry
        .and_then(|server| server["pid"].as_i64())
        .expect("a process");
    Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id")
}

/// True if the fake has received a message with this text.
fn has_received(record: &Path, expected_text: &str) -> bool {
    std::fs::read_to_string(record).is_ok_and(|text| text.contains(expected_text))
}

#[tokio::test]
async fn a_script_is_carried_out_line_by_line() {
    let home = home!();
    let config = fakes(&home, &[("one", &["--no-resources"]), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let run = script(
        &home,
        &[],
        &[
            "# what there is",
            "/tools ech",
            "/tools one/add",
            "/call one/echo text=\"two words\"",
            "/call one/add {\"a\": 1, \"b\": 2}",
            "/call one/add a=3 b=4",
            "/call one/error",
            "/prompt one/greet name=Ada",
            "/read two fake://text",
            "/server restart two",
            "/server reconnect two",
            "/server disable two",
            "/server enable two",
            "/server reconnect one two",
            "/help call",
            "/history 1",
        ],
    )
    .await;
    assert_snapshot!(home.redacted(&run.to_string()));
    daemon.stop().await;
}

/// Errors have hints, and later lines still run. The exit code is that of the worst error.
#[tokio::test]
async fn shell_errors_have_hints() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let run = script(
        &home,
        &[],
        &[
            "servers",
            "/servrs",
            "/server reconect one",
            "/server restart on",
            "/server",
            "/server restart",
            "/server enable",
            "/log",
            "/call",
            "/call one/ech text=x",
            "/call one/echo text='x",
            "/call one/echo {\"text\": ",
            "/call one/echo text",
            "/health nobody",
            "/records --config x",
            "/records --limt 1",
            "/tools nothing-like-it",
            "/history x",
            "/call one/echo text=still-there",
            "/quit",
            "/call one/echo text=never",
        ],
    )
    .await;
    assert_eq!(run.code, Some(4), "{run}");
    assert_snapshot!(home.redacted(&run.to_string()));
    for (line, code) in [
        ("/call one/echo text=x", 0),
        ("/call one/error", 1),
        ("/call", 2),
        ("/call one/nothing", 4),
    ] {
        let run = home.run(&["shell", "-c", line, "-c", "/help quit"]).await;
        assert_eq!(run.code, Some(code), "{run}");
    }
    let json = home
        .run(&["shell", "--json", "-c", "/call one/echo text=x"])
        .await;
    assert_eq!(json.json()["content"][0]["text"], "x", "{json}");
    let json = home.run(&["shell", "--json", "-c", "/serers"]).await;
    assert_eq!((json.code, json.stdout.as_str()), (Some(4), ""), "{json}");
    assert!(json.stderr.contains(r#""hint":"did you mean /servers?"#));
    daemon.stop().await;
    let empty_run = home.run(&["shell", "-c", "/servers"]).await;
    assert_eq!(empty_run.code, Some(3), "{empty_run}");
}

/// A shell can start its own servers, with background probes (B13).
#[tokio::test]
async fn a_shell_may_have_servers_of_its_own() {
    let home = home!();
    let config = json!({"preset": "manual", "mcpServers": {
        "late": {"command": fake_server::binary(), "args": ["--ignore-ping"], "health": {"timeoutMs": 100}},
    }});
    let config = home.file("servers.json", &config.to_string());
    let program = fake_server::binary();
    let inline_text = format!("more:{}", program.display());
    let arguments = [
        "shell",
        "--config",
        &config,
        "--mcp-client",
        &inline_text,
        "--health-interval",
        "1",
    ];
    // A warning about the degraded server appears.
    let mut command = home.command(&arguments);
    command.stdin(Stdio::piped());
    let mut shell = Running::start(command);
    shell.wait_for_stderr("its health turned").await;
    let mut stdin = shell.child.stdin.take().expect("a pipe");
    let lines = "/call more/echo text=hello\n/server health more\n/server reconnect late\n/quit\n";
    within(stdin.write_all(lines.as_bytes()))
        .await
        .expect("it reads");
    let output = within(shell.child.wait_with_output())
        .await
        .expect("it ends");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = stdout.lines().collect();
    let [text, head, health, reconnect_line] = lines[..] else {
        panic!("{stdout}")
    };
    assert_eq!((text, head), ("hello", "Server Health"), "{stdout}");
    assert!(
        health.starts_with("  more             healthy    ping: "),
        "{stdout}"
    );
    assert!(
        reconnect_line.starts_with("late is connected, "),
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(0));

    let disabled_run = home
        .run(&["shell", "--health-interval", "1", "-c", "/servers"])
        .await;
    assert_eq!(disabled_run.code, Some(2), "{disabled_run}");
}

/// SIGINT cancels the script's call, also at the server.
#[tokio::test]
async fn an_interrupt_cancels_the_call_of_a_script() {
    let home = home!();
    let record = home.path().join("got");
    let flags = ["--record", record.to_str().expect("UTF-8")];
    let config = fakes(&home, &[("one", &flags)]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let command = home.command(&["shell", "-c", "/call one/sleep ms=600000"]);
    let mut shell = Running::start(command);
    let is_called = async || has_received(&record, "600000").then_some(());
    found(PROGRAMS, "the call", is_called).await;
    shell.signal(Signal::INT);
    assert_eq!(shell.ended().await.code(), Some(130));
    let is_cancelled = async || has_received(&record, "notifications/cancelled").then_some(());
    found(IN_PROCESS, "the cancellation", is_cancelled).await;
    daemon.stop().await;
}

/// Starts a shell in a terminal, and waits for the prompt.
async fn start_shell(command: &Command) -> Terminal {
    let terminal = Terminal::start(command, 100, 40).await;
    terminal.wait_for_text("mainstay>").await;
    terminal
}

/// Presses Tab until the line is complete, because the names are loaded in the background. The
/// pauses let the editor redraw.
async fn complete_line(terminal: &Terminal, line: &str) {
    let mut attempt = 0_u32;
    found(PROGRAMS, line, async || {
        if attempt.is_multiple_of(25) {
            terminal.press(&["Tab"]).await;
        }
        attempt += 1;
        terminal.screen().await.contains(line).then_some(())
    })
    .await;
}

async fn enter(terminal: &Terminal, line: &str) {
    terminal.types(line).await;
    terminal.press(&["Enter"]).await;
}

#[tokio::test]
async fn a_line_is_completed_and_kept() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let config = fakes(&home, &[("alpha", &[]), ("beta", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let command = home.command(&["shell"]);
    let terminal = start_shell(&command).await;
    // Completion inserts the only matching tool, and then its argument.
    terminal.types("/call beta/ech").await;
    complete_line(&terminal, "/call beta/echo text=").await;
    enter(&terminal, "'hello there'").await;
    terminal.wait_for_text("\nhello there").await;
    // If several names match, a menu opens.
    terminal.types("/server re").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("restart").await;
    terminal.press(&["C-c"]).await;
    terminal.hides("restart").await;
    enter(&terminal, "/call beta/echo text=x password=hunter2").await;
    terminal.wait_for_text("\nx").await;
    // The last line is in the stored history.
    terminal.press(&["C-d"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    let file = home.state().join("shell-history");
    let history = std::fs::read_to_string(&file).expect("a history");
    assert_eq!(history, "/call beta/echo text='hello there'\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&file).expect("a file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let terminal = start_shell(&command).await;
    terminal.press(&["Up"]).await;
    terminal
        .wait_for_text("mainstay> /call beta/echo text='hello there'")
        .await;
    terminal.press(&["C-c"]).await;
    enter(&terminal, "/history").await;
    terminal
        .wait_for_text("\n/call beta/echo text='hello there'")
        .await;
    enter(&terminal, "/quit").await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

/// Runs every command of the help on a terminal.
#[tokio::test]
async fn every_command_does_what_help_says() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let config = fakes(
        &home,
        &[("one", &[]), ("two", &["--stderr", "a line of its log"])],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let lines = [
        ("/servers", "\ntwo "),
        ("/health two", "  two              healthy"),
        ("/server health one", "  one              healthy"),
        ("/server reconnect one", "\none is connected"),
        ("/server restart one", "\none is connected"),
        ("/server stop one", "\none is disconnected"),
        ("/server start one", "\none is connected"),
        ("/server disable one", "\none is disabled"),
        ("/server enable one", "\none is connected"),
        ("/tools add", "\none/add"),
        ("/call two/echo text=called", "\ncalled"),
        ("/read two fake://text", "\nthe text of the fake"),
        ("/prompt", "\ntwo/greet"),
        ("/events --server one", " connected"),
        ("/records --server two", "two/echo"),
        ("/log two -n 20", "a line of its log"),
        ("/history 1", "\n/history 1"),
        (
            "/help log",
            "\nShow what a server wrote beside the protocol",
        ),
    ];
    let help_run = home
        .run(&["shell", "-c", "/help", "-c", "/help server"])
        .await;
    let first = |line: &str| line.split([' ', '|']).next().unwrap_or_default().to_owned();
    let commands = help_run
        .stdout
        .lines()
        .filter(|line| line.starts_with('/'))
        .map(first);
    for command in commands.filter(|command| command != "/quit") {
        let is_typed = lines.iter().any(|(line, _)| first(line) == command);
        assert!(is_typed, "{command}");
    }

    let terminal = start_shell(&home.command(&["shell"])).await;
    for (line, expected) in lines {
        enter(&terminal, line).await;
        terminal.wait_for_text(expected).await;
        terminal
            .shows_when("the prompt", |screen| {
                screen.trim_end().ends_with("mainstay>")
            })
            .await;
        terminal.press(&["C-l"]).await;
        terminal.hides(expected).await;
    }
    enter(&terminal, "/exit").await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

/// The shell continues after a server was killed, a call was cancelled, and the daemon was
/// restarted.
#[tokio::test]
async fn trouble_is_told_above_the_line() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let record = home.path().join("got");
    let flags = ["--record", record.to_str().expect("UTF-8")];
    let config = fakes(&home, &[("one", &flags), ("two", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let terminal = start_shell(&home.command(&["shell"])).await;
    enter(&terminal, "/health").await;
    terminal
        .wait_for_text("  two              healthy    ping: ")
        .await;

    terminal.types("/call two/echo text=typed").await;
    terminal.wait_for_text("text=typed").await;
    kill_process(pid_of(&home, "two").await, Signal::KILL).expect("killed");
    let screen = terminal.wait_for_text("two reconnected").await;
    let lines: Vec<&str> = screen.lines().collect();
    let line_index = |text: &str| lines.iter().position(|line| line.starts_with(text));
    let (lost_index, restored_index) = (
        line_index("two lost: process exited unexpectedly (signal 9)"),
        line_index("two reconnected: after 1 attempt"),
    );
    let typed_index = line_index("mainstay> /call two/echo text=typed");
    assert!(
        lost_index.is_some() && lost_index < restored_index && restored_index < typed_index,
        "{screen}"
    );
    terminal.types("_on").await;
    terminal.press(&["Enter"]).await;
    terminal.wait_for_text("\ntyped_on").await;

    enter(&terminal, "/call one/progress steps=1000 intervalMs=200").await;
    terminal.wait_for_text("of 1000, step ").await;
    enter(&terminal, "").await;
    terminal.press(&["C-c"]).await;
    terminal.wait_for_text("cancelled").await;
    let is_cancelled = async || has_received(&record, "notifications/cancelled").then_some(());
    found(PROGRAMS, "the cancellation", is_cancelled).await;
    terminal.hides("of 1000").await;
    terminal.types("/help quit").await;
    terminal.press(&["Enter"]).await;
    terminal
        .wait_for_text("Leave the shell, as Ctrl-D does")
        .await;

    terminal.types("/servers").await;
    daemon.stop().await;
    terminal
        .wait_for_text("the daemon is gone; waiting for it")
        .await;
    terminal.press(&["Enter"]).await;
    terminal
        .wait_for_text("hint: start one with `mainstay serve`")
        .await;
    let daemon = home.serve(&["--config", &config]).await;
    terminal.wait_for_text("the daemon is back").await;
    enter(&terminal, "/call two/echo text=again").await;
    terminal.wait_for_text("\nagain").await;
    let pid = Pid::from_raw(terminal.pid().await.cast_signed()).expect("a process id");
    // The output from before the outage is still on the screen.
    terminal
        .wait_for_text("  two              healthy    ping: ")
        .await;
    terminal.types("half a line").await;
    terminal.wait_for_text("half a line").await;
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(terminal.ended().await, Some(143));
    daemon.stop().await;
}
