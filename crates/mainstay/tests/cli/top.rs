//! `mainstay top` on a terminal: its keys, a killed server, a restarted daemon, and the terminal
//! after its exit.

use std::{fs, path::PathBuf};

use mainstay_testkit::{Home, Serving, Terminal, found, home, limits::PROGRAMS, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

/// A configuration with two connected servers and a disabled one. Attempts are three seconds apart,
/// so that a countdown is visible.
fn config(home: &Home) -> String {
    let program = fake_server::binary();
    let reconnect = json!({"initialDelayMs": 3000, "jitter": 0});
    let servers = json!({
        "files": {"command": program, "reconnect": reconnect},
        "tracker": {"command": program, "args": ["--stderr", "tracker is ready"]},
        "notes": {"command": program, "disabled": true},
    });
    home.file("servers.json", &json!({"mcpServers": servers}).to_string())
}

async fn serve(home: &Home) -> Serving {
    let mut daemon = home.serve(&["--config", &config(home)]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    daemon
}

async fn top(home: &Home) -> Terminal {
    let terminal = Terminal::start(&home.command(&["top"]), 80, 24).await;
    terminal.wait_for_text("> files").await;
    terminal
}

/// A shell that starts programs on a terminal.
async fn shell(home: &Home) -> Terminal {
    let program = home.command(&[]);
    let mut shell = Command::new("sh");
    for (name, value) in program.as_std().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .env("MAINSTAY", program.as_std().get_program())
        .env("PS1", "ready$ ")
        .current_dir(home.path())
        .arg("-i");
    let terminal = Terminal::start(&shell, 80, 24).await;
    terminal.wait_for_text("ready$").await;
    terminal
}

async fn server(home: &Home, name: &str) -> Value {
    let listed_output = home.run(&["list", "--json"]).await.json();
    let servers = listed_output["servers"]
        .as_array()
        .expect("servers")
        .clone();
    let server = servers.into_iter().find(|server| server["name"] == name);
    server.expect("a server")
}

/// The row of a server, including the marker.
fn row(screen: &str, name: &str) -> String {
    let rows = screen.lines();
    let row = rows.into_iter().find(|line| {
        let row_text = line.get(2..).unwrap_or_default();
        row_text.starts_with(name) && row_text[name.len()..].starts_with(' ')
    });
    row.unwrap_or_default().to_owned()
}

async fn shows_in_row(terminal: &Terminal, name: &str, text: &str) -> String {
    let description = format!("{name}: {text}");
    let has_text = |screen: &str| row(screen, name).contains(text);
    terminal.shows_when(&description, has_text).await
}

#[tokio::test]
async fn a_server_that_is_killed_is_seen_to_come_back() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = top(&home).await;
    shows_in_row(&terminal, "files", "connected").await;
    shows_in_row(&terminal, "notes", "disabled").await;
    // The row shows one process and its memory.
    #[cfg(target_os = "linux")]
    terminal
        .shows_when("processes", |screen| {
            let row = row(screen, "files");
            let words: Vec<&str> = row.split_whitespace().collect();
            words.get(7) == Some(&"1") && words.get(8).is_some_and(|column| column.ends_with('M'))
        })
        .await;
    for _ in 0..20 {
        home.run(&["call", "files/echo", "text=x"]).await;
    }
    terminal
        .shows_when("calls per second", |screen| {
            let row = row(screen, "files");
            let rate = row.split_whitespace().nth(3).map(str::to_owned);
            rate.is_some_and(|rate| rate.parse::<f64>().is_ok_and(|rate| rate > 0.0))
        })
        .await;

    let pid = server(&home, "files").await["pid"].as_i64().expect("a pid");
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("killed");
    shows_in_row(&terminal, "files", "reconnecting").await;
    shows_in_row(
        &terminal,
        "files",
        "attempt 1 in 3 s: process exited unexpectedly (signal 9)",
    )
    .await;
    shows_in_row(&terminal, "files", "attempt 1 in 2 s").await;
    shows_in_row(&terminal, "files", "attempt 1 in 1 s").await;
    shows_in_row(&terminal, "files", " connected").await;
    terminal.wait_for_text("1 crash").await;
    terminal.press(&["q"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

#[tokio::test]
async fn every_key_does_what_help_says() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = top(&home).await;
    terminal.press(&["?"]).await;
    terminal.wait_for_text("any key goes back").await;
    terminal.press(&["x"]).await;
    terminal.hides("any key goes back").await;

    // Keys move the selection.
    for (keys, name) in [
        (["Down", "j"], "notes"),
        (["Up", "k"], "files"),
        (["End", "Up"], "tracker"),
        (["G", "k"], "tracker"),
        (["PageDown", "Home"], "files"),
        (["PageDown", "PageUp"], "files"),
        (["g", "j"], "tracker"),
    ] {
        terminal.press(&keys).await;
        terminal.wait_for_text(&format!("> {name}")).await;
    }

    // The selection stays when the list is sorted and filtered.
    terminal.press(&["s"]).await;
    terminal.wait_for_text("sort: name").await;
    terminal.press(&["S"]).await;
    let screen = terminal.wait_for_text("sort: name, reversed").await;
    let place = |name| screen.find(name).expect("a row");
    assert!(
        place("> tracker") < place("  notes") && place("  notes") < place("  files"),
        "{screen}"
    );
    terminal.press(&["f"]).await;
    terminal.wait_for_text("show: in trouble").await;
    terminal.wait_for_text("no server fits the filter").await;
    terminal.press(&["Escape"]).await;
    terminal.wait_for_text("> tracker").await;
    terminal.press(&["/"]).await;
    terminal.types("trax").await;
    terminal.wait_for_text("no server fits").await;
    terminal.press(&["BSpace", "Enter"]).await;
    terminal.wait_for_text("> tracker").await;
    terminal.hides("  files").await;
    terminal.press(&["Escape"]).await;
    terminal.wait_for_text("  files").await;

    // The pane shows stderr, events and calls.
    terminal.press(&["Enter"]).await;
    terminal.wait_for_text("[log]").await;
    terminal.wait_for_text("tracker is ready").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("[events]").await;
    terminal.wait_for_text(" connected").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("[calls]").await;
    terminal.wait_for_text("no calls on record").await;
    home.run(&["call", "tracker/echo", "text=x"]).await;
    terminal.wait_for_text("  echo").await;
    terminal.press(&["BTab"]).await;
    terminal.wait_for_text("[events]").await;
    terminal.press(&["Enter"]).await;
    terminal.hides("[events]").await;

    // Actions must be confirmed.
    terminal.press(&["x"]).await;
    terminal.wait_for_text("stop tracker? (y/n)").await;
    terminal.press(&["j", "Enter", "n"]).await;
    terminal.hides("(y/n)").await;
    assert_eq!(server(&home, "tracker").await["status"], "connected");
    let pid = async || server(&home, "tracker").await["pid"].clone();
    let mut previous_pid = pid().await;
    for (key, verb, message) in [
        ("x", "stop", "tracker is disconnected"),
        ("t", "start", "tracker is connected"),
        ("r", "restart", "tracker is connected"),
        ("c", "reconnect", "tracker is connected"),
        ("e", "disable", "tracker is disabled"),
        ("e", "enable", "tracker is connected"),
    ] {
        terminal.press(&["Escape"]).await;
        terminal.hides(" is connected").await;
        terminal.press(&[key]).await;
        terminal
            .wait_for_text(&format!("{verb} tracker? (y/n)"))
            .await;
        terminal.press(&["y"]).await;
        terminal.wait_for_text(message).await;
        let after = pid().await;
        assert_ne!(previous_pid, after, "{verb}");
        previous_pid = after;
    }
    terminal.press(&["C-l"]).await;
    terminal.press(&["C-c"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

/// `top` finds the new daemon, which has another port and another token.
#[tokio::test]
async fn a_daemon_that_is_started_anew_is_found() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = top(&home).await;
    terminal.press(&["j"]).await;
    terminal.wait_for_text("> tracker").await;
    let previous_url = daemon.url.clone();
    daemon.stop().await;
    let screen = terminal
        .wait_for_text("the daemon is gone, trying again in")
        .await;
    assert!(
        screen.contains("> tracker") && screen.contains("  files"),
        "{screen}"
    );
    let styled_text = terminal.styled_screen().await;
    assert!(
        styled_text.contains("\u{1b}[2m") || styled_text.contains(";2m"),
        "{styled_text:?}"
    );
    fs::remove_file(home.state().join("token")).expect("there was a token");

    let daemon = home.serve(&["--config", &config(&home)]).await;
    assert_ne!(daemon.url, previous_url);
    let screen = terminal.hides("the daemon is gone").await;
    assert!(screen.contains("> tracker"), "{screen}");
    shows_in_row(&terminal, "tracker", "connected").await;
    // Keys now operate on servers of the new daemon.
    terminal.press(&["x", "y"]).await;
    terminal.wait_for_text("tracker is disconnected").await;
    terminal.press(&["q"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

#[tokio::test]
async fn the_screen_fits_every_terminal_size() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = top(&home).await;
    for (columns, rows) in [(140, 40), (40, 10), (20, 4), (60, 15), (80, 24)] {
        terminal.resize(columns, rows).await;
        let description = format!("{columns}x{rows}");
        terminal
            .shows_when(&description, |screen| {
                let has_detail = screen.contains("DETAIL");
                let widest_text = screen.lines().map(|line| line.chars().count()).max();
                screen.contains("> files")
                    && has_detail == (columns > 110)
                    && screen.contains("NAME") == (rows > 4)
                    && widest_text <= Some(columns.into())
            })
            .await;
    }
    terminal.press(&["q"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

/// After every kind of exit, the modes, the cursor and the screen are restored.
#[tokio::test]
async fn the_terminal_is_given_back() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = shell(&home).await;
    let file = |name: &str| -> PathBuf { home.path().join(name) };
    terminal.types("stty -a > before\n").await;
    until(PROGRAMS, "the modes before", || file("before").exists()).await;
    for (signal, exit) in [
        (None, "0"),
        (Some(Signal::TERM), "143"),
        (Some(Signal::INT), "130"),
        (Some(Signal::HUP), "129"),
    ] {
        terminal.types("clear; echo $$; sh -c 'echo $$ > pid; exec \"$MAINSTAY\" top'; echo ended=$?; stty -a > after; echo > done\n").await;
        terminal.wait_for_text("> files").await;
        assert!(terminal.is_alternate().await);
        assert!(!terminal.is_cursor_visible().await);
        match signal {
            Some(signal) => kill_process(pid_in(&file("pid")), signal).expect("signalled"),
            None => terminal.press(&["q"]).await,
        }
        terminal.wait_for_text(&format!("ended={exit}")).await;
        until(PROGRAMS, "the modes after", || file("done").exists()).await;
        let modes = |name: &str| fs::read_to_string(file(name)).expect("modes");
        assert_eq!(modes("after"), modes("before"), "{signal:?}");
        assert!(!terminal.is_alternate().await && terminal.is_cursor_visible().await);
        fs::remove_file(file("done")).expect("it was there");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_shell_can_stop_it_and_go_on() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let terminal = shell(&home).await;
    for is_by_key in [true, false] {
        terminal
            .types("clear; sh -c 'echo $$ > pid; exec \"$MAINSTAY\" top'\n")
            .await;
        terminal.wait_for_text("> files").await;
        if is_by_key {
            terminal.press(&["C-z"]).await;
        } else {
            kill_process(pid_in(&home.path().join("pid")), Signal::TSTP).expect("signalled");
        }
        terminal.wait_for_text("Stopped").await;
        assert!(!terminal.is_alternate().await && terminal.is_cursor_visible().await);
        terminal.types("echo a-line-of-the-shell; fg\n").await;
        let screen = terminal.wait_for_text("> files").await;
        assert!(!screen.contains("a-line-of-the-shell"), "{screen}");
        assert!(terminal.is_alternate().await);
        terminal.press(&["j"]).await;
        terminal.wait_for_text("> tracker").await;
        terminal.press(&["q"]).await;
        terminal.wait_for_text("a-line-of-the-shell").await;
        assert!(!terminal.is_alternate().await);
    }
    daemon.stop().await;
}

fn pid_in(file: &std::path::Path) -> Pid {
    let text = fs::read_to_string(file).expect("a pid");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("a pid")
}

/// While nothing changes, the screen sends almost no bytes, and no colours.
#[tokio::test]
async fn a_quiet_picture_costs_few_bytes() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let mut command = home.command(&["top"]);
    command.env("NO_COLOR", "1");
    let terminal = Terminal::start(&command, 80, 24).await;
    shows_in_row(&terminal, "files", " 1 ").await;
    let styled_text = terminal.styled_screen().await;
    for colour in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m"] {
        assert!(!styled_text.contains(colour), "{styled_text:?}");
    }
    let file = home.path().join("bytes");
    terminal.records(&file).await;
    let size = || fs::metadata(&file).map_or(0, |metadata| metadata.len());
    terminal.press(&["C-l"]).await;
    until(PROGRAMS, "a whole picture", || size() > 300).await;
    let (full_size, started_at) = (size(), std::time::Instant::now());
    found(PROGRAMS, "three seconds", async || {
        (started_at.elapsed().as_secs() >= 3).then_some(())
    })
    .await;
    let extra_bytes = size() - full_size;
    assert!(
        extra_bytes < 3000,
        "{extra_bytes} bytes in three seconds, after {full_size}"
    );
    terminal.press(&["q"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    daemon.stop().await;
}

#[tokio::test]
async fn output_without_a_terminal_is_json() {
    let home = home!();
    let run = home.run(&["top"]).await;
    assert_eq!(run.code, Some(3), "{run}");
    let daemon = serve(&home).await;
    let run = home.run(&["top"]).await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("top needs a terminal"), "{run}");
    assert!(run.stderr.contains("mainstay top --json"), "{run}");
    let run = home.run(&["top", "--json"]).await;
    let value = run.json();
    assert_eq!(
        (run.code, &value["servers"][0]["server"]["name"]),
        (Some(0), &json!("files")),
        "{run}"
    );
    assert_eq!(value["servers"][0]["figures"]["calls"], 0, "{run}");
    daemon.stop().await;
}
