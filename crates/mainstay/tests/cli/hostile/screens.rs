//! Interactive commands with hostile text.

use std::path::Path;

use mainstay_testkit::{Home, Terminal as Tmux, home, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    commands::terminal_output,
    mentions_hostile_text, servers,
    text::{FORGED, HOSTILE, TITLE, assert_harmless, characters},
};
use crate::{control::add_from_inside, terminal::Terminal};

/// `serve` with its log, commands that follow, and prompts.
#[tokio::test]
async fn hostile_text_does_nothing_where_it_is_followed_and_asked() {
    let home = home!();
    let config = servers(&home, None);
    let mut screen = Terminal::open();
    let serve = [
        "-vv",
        "serve",
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
    ];
    let mut daemon = screen.start(home.command(&serve));
    screen.until("ready: 1 of 2").await;
    let file = std::fs::read(home.state().join("daemon.json")).expect("a file");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let url = file["url"].as_str().expect("a URL").to_owned();

    for arguments in [
        ["logs", "evil", "--follow", "--tail", "9000"].as_slice(),
        &["events", "--follow"],
        &["list", "--watch"],
        &["health", "--watch"],
    ] {
        // A width that fits the whole reason.
        let mut terminal = Terminal::of_width(4000);
        let mut child = terminal.start(home.command(arguments));
        terminal.until("x\\u{9b}").await;
        child.kill().await.expect("killed");
        assert_harmless(arguments, terminal.end().await);
    }

    // `call` asks for missing arguments.
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["call", "evil/plain"]));
    terminal.until("one of: x\\u{9b}31m").await;
    terminal.types("other\n");
    terminal.until("must be one of").await;
    terminal.types("\u{4}");
    within(child.wait()).await.expect("it ends");
    assert_harmless(&["call", "evil/plain"], terminal.end().await);

    let hostile = HOSTILE.as_str();
    let entry = json!({
        "name": "new", "command": "n\u{440}x", "args": [hostile], "env": {hostile.replace('=', ""): hostile},
        "cwd": format!("/{hostile}"),
    });
    add_from_inside(&home, &url, &entry).await;
    terminal_output(&home, &["list"]).await;
    terminal_output(&home, &["get", "new"]).await;
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["approve", "new"]));
    terminal.until("approve it?").await;
    child.kill().await.expect("killed");
    let text = assert_harmless(&["approve"], terminal.end().await);
    let lines: Vec<&str> = text.lines().collect();
    let [.., command, repeated_command, question] = lines[..] else {
        panic!("{text}")
    };
    assert!(question.starts_with("approve it?"), "{text}");
    assert_eq!(repeated_command, r#"  that is "n\u{440}x" with 1 argument"#);
    assert!(
        command.starts_with(r#"  "n\u{440}x" "x\u{9b}31m"#),
        "{text}"
    );
    assert!(
        text.contains("! \"n\\u{440}x\": U+0440 looks like 'p'"),
        "{text}"
    );

    let pid = daemon.id().expect("it runs").cast_signed();
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::TERM).expect("signalled");
    within(daemon.wait()).await.expect("it ends");
    let text = assert_harmless(&["serve"], screen.end().await);
    assert!(mentions_hostile_text(&text), "{text}");
    assert!(!text.lines().any(|line| line.starts_with(FORGED)), "{text}");
}

/// `mcp` on a terminal escapes its output, while a person types messages.
#[tokio::test]
async fn the_protocol_on_a_terminal_is_escaped() {
    let home = home!();
    let config = servers(&home, None);
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["mcp", "--config", &config]));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"},
    }});
    terminal.types(&format!("{hello}\n"));
    terminal.until("serverInfo").await;
    terminal.types("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    terminal.types("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/list\"}\n");
    terminal.until("\"prompts\":[").await;
    terminal.types("\u{4}");
    within(child.wait()).await.expect("it ends");
    let text = assert_harmless(&["mcp"], terminal.end().await);
    let list = text.lines().find(|line| line.contains("\"prompts\":["));
    let list: Value = serde_json::from_str(list.expect("a list")).expect("JSON");
    assert!(list.to_string().contains('\u{9b}'), "{text}");
}

/// Commands that print data write the original bytes to a pipe.
#[tokio::test]
async fn data_keeps_its_bytes_where_no_terminal_is() {
    let home = home!();
    let config = servers(&home, None);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    let hostile = HOSTILE.as_str();
    let call = home
        .run(&["call", "evil/echo", &format!("text={hostile}")])
        .await;
    assert_eq!(call.stdout, format!("{hostile}\n"));
    let read_run = home.run(&["read", "evil", "fake://text"]).await;
    assert_eq!(read_run.stdout, format!("the text of the fake{hostile}\n"));
    let raw_run = home.run(&["call", "evil/error", "--json"]).await;
    assert!(raw_run.stdout.contains('\u{9b}'), "{raw_run}");
    let arguments = json!({"text": hostile}).to_string();
    home.run(&["call", "evil/echo", "--args", &arguments]).await;
    let record = within(async {
        loop {
            let matching_output = home
                .run(&["records", "--json", "--tool", "echo"])
                .await
                .json();
            if matching_output["total_count"] == 2 {
                return matching_output["calls"][0].clone();
            }
        }
    })
    .await;
    let cid = record["arguments_cid"].as_str().expect("an identifier");
    assert_eq!(home.run(&["object", cid]).await.stdout, arguments);
    daemon.stop().await;
    assert_eq!(home.run(&["object", cid]).await.stdout, arguments);
}

/// Asserts that the output contains only the control sequences that drawing needs.
fn assert_no_control_effect(output_path: &Path, description: &str) {
    let output_path = std::fs::read(output_path).expect("what was written");
    let output_path = String::from_utf8_lossy(&output_path);
    // Drawing needs ESC, and line breaks as CR LF.
    let control_chars = [
        '\u{1b}', '\r', '\n', '\t', '\u{8}', '\u{7}', '\u{e}', '\u{f}',
    ];
    let bad: Vec<char> = characters()
        .filter(|c| !control_chars.contains(c) && output_path.contains(*c))
        .collect();
    assert!(
        bad.is_empty(),
        "{description} shows {bad:?}: {output_path:?}"
    );
    for sequence in [
        "\u{1b}]",
        "\u{1b}P",
        "\u{1b}c",
        "\u{1b}[c",
        "\u{1b}[3J",
        TITLE_SET,
    ] {
        assert!(
            !output_path.contains(sequence),
            "{description} sends {sequence:?}: {output_path:?}"
        );
    }
}

/// The last bytes of a sequence that sets the title.
const TITLE_SET: &str = "TAKEN OVER\u{7}";

/// A terminal that runs a program, and the file with its output.
async fn start_in_tmux(home: &Home, command: &Command) -> (Tmux, std::path::PathBuf) {
    let terminal = Tmux::start(command, 100, 40).await;
    let output_path = home.path().join("written");
    terminal.records(&output_path).await;
    (terminal, output_path)
}

#[tokio::test]
async fn hostile_text_does_nothing_in_the_shell() {
    if !Tmux::is_available() {
        return;
    }
    let home = home!();
    let config = servers(&home, None);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    let (terminal, output_path) = start_in_tmux(&home, &home.command(&["shell"])).await;
    terminal.wait_for_text("mainstay>").await;
    // Completion leaves out names with characters that must be escaped.
    terminal.types("/call evil/plai").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("/call evil/plain").await;
    terminal.press(&["Tab"]).await;
    terminal.press(&["C-c"]).await;
    for (line, expected) in [
        ("/servers", "x\\u{9b}31m"),
        ("/tools evil/t", "x\\u{9b}31m"),
        ("/tools evil/plain", "x\\u{9b}31m"),
        ("/call evil/error", "the tool failedx\\u{9b}31m"),
        ("/call evil/rpc_error", "the request failedx\\u{9b}31m"),
        ("/call evil/log n=1 level=error", "1 lines logged"),
        ("/call evil/progress steps=4 intervalMs=300", "4 steps done"),
        ("/prompt", "x\\u{9b}31m"),
        ("/read", "x\\u{9b}31m"),
        ("/read evil fake://text", "the text of the fakex\\u{9b}31m"),
        ("/records", "x\\u{9b}31m"),
        ("/events", "x\\u{9b}31m"),
        // Logs are stored without escape sequences.
        ("/log evil -n 4", "\\u{7f}\\u{80}"),
        ("/server restart dead", "x\\u{9b}31m"),
    ] {
        terminal.types(line).await;
        terminal.press(&["Enter"]).await;
        terminal.wait_for_text(expected).await;
        terminal
            .shows_when("the prompt", |screen| {
                screen.trim_end().ends_with("mainstay>")
            })
            .await;
        assert!(!terminal.is_alternate().await, "{line}");
        assert_ne!(terminal.title().await, TITLE, "{line}");
        terminal.press(&["C-l"]).await;
        terminal.hides(expected).await;
    }
    terminal.press(&["C-d"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    assert_no_control_effect(&output_path, "the shell");
    daemon.stop().await;
}

#[tokio::test]
async fn hostile_text_does_nothing_on_the_screen_of_top() {
    if !Tmux::is_available() {
        return;
    }
    let home = home!();
    let config = servers(&home, None);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    home.run(&["call", "evil/error"]).await;
    home.run(&["call", "evil/rpc_error"]).await;
    let (terminal, output_path) = start_in_tmux(&home, &home.command(&["top"])).await;
    terminal.wait_for_text("dead").await;
    terminal.press(&["Enter"]).await;
    // Show the log, the events, the calls and the status of both servers.
    for (server, other_server) in [("evil", "dead"), ("dead", "evil")] {
        terminal.press(&["/"]).await;
        terminal.types(server).await;
        terminal.press(&["Enter"]).await;
        terminal.wait_for_text(&format!("> {server}")).await;
        for topic in ["[log]", "[events]", "[calls]", "[status]"] {
            terminal.wait_for_text(topic).await;
            if topic != "[calls]" || server == "evil" {
                terminal
                    .wait_for_text(if topic == "[log]" { "\\u{9b}" } else { server })
                    .await;
            }
            terminal.press(&["Tab"]).await;
        }
        terminal.press(&["Escape"]).await;
        // Wait before the next key. Directly after Escape it would count as a key with Alt.
        terminal.wait_for_text(other_server).await;
        assert_ne!(terminal.title().await, TITLE);
        assert!(terminal.is_alternate().await);
    }
    terminal.press(&["q"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    assert_ne!(terminal.title().await, TITLE);
    assert_no_control_effect(&output_path, "top");
    daemon.stop().await;
}
