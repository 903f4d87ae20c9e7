//! Shell completion, through the environment variable and in real shells.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use mainstay_testkit::{Home, Run, Serving, Terminal, home, within};
use serde_json::json;
use tokio::process::Command;

use crate::{connect::front::Front, fakes::fakes, installed::is_installed};

/// The completions of the last argument, in the format of fish: one on each line, with its help.
async fn completions(home: &Home, arguments: &[&str]) -> Vec<String> {
    let run = run_completion(home, arguments, "fish").await;
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run}");
    run.stdout.lines().map(str::to_owned).collect()
}

async fn run_completion(home: &Home, command_line: &[&str], shell: &str) -> Run {
    let arguments = [&["--", "mainstay"], command_line].concat();
    let mut command = home.command(&arguments);
    command
        .env("MAINSTAY_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", command_line.len().to_string());
    let output = within(command.output()).await.expect("it starts");
    Run::new(&arguments, &output)
}

/// The completions without help.
fn completion_values(offered_lines: &[String]) -> Vec<&str> {
    let values = offered_lines.iter().map(|line| line.split('\t').next());
    values.flatten().collect()
}

/// The completions without options.
fn values_without_options(offered_lines: &[String]) -> Vec<&str> {
    let values = completion_values(offered_lines).into_iter();
    values.filter(|value| !value.starts_with('-')).collect()
}

#[tokio::test]
async fn names_come_from_the_daemon() {
    let home = home!();
    let config = fakes(
        &home,
        &[
            ("good", &["--no-resources"]),
            ("bad", &["--crash-at-start", "7"]),
        ],
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    for command_line in [
        &["get", ""][..],
        &["logs", ""],
        &["restart", "good", ""],
        &["events", "--server", ""],
        &["tools", ""],
    ] {
        let offered_lines = completions(&home, command_line).await;
        let names = completion_values(&offered_lines);
        assert!(
            names.contains(&"good") && names.contains(&"bad"),
            "{command_line:?}: {offered_lines:?}"
        );
    }
    let servers = completions(&home, &["get", "g"]).await;
    assert_eq!(servers, ["good\tconnected"]);
    let tools = completions(&home, &["call", "good/ec"]).await;
    assert_eq!(completion_values(&tools), ["good/echo"]);
    let arguments = completions(&home, &["call", "good/add", ""]).await;
    let names = completion_values(&arguments);
    assert!(names.contains(&"a=") && names.contains(&"b="), "{names:?}");
    let prompts = completions(&home, &["prompts", "get", ""]).await;
    assert!(
        completion_values(&prompts).contains(&"good/greet"),
        "{prompts:?}"
    );
    home.run(&["token", "add", "laptop"]).await;
    let clients = completions(&home, &["token", "remove", ""]).await;
    assert!(
        completion_values(&clients).contains(&"laptop"),
        "{clients:?}"
    );
    let both_lines = completions(&home, &["switches", "off", "laptop", "good"]).await;
    assert!(
        completion_values(&both_lines).contains(&"good")
            && completion_values(&both_lines).contains(&"good/echo"),
        "{both_lines:?}"
    );
    // This client is connected, but has no token and no switches.
    let front = Front::open(&home, &["connect"], "2025-11-25").await;
    let clients = completions(&home, &["switches", "off", ""]).await;
    assert_eq!(
        values_without_options(&clients),
        ["laptop", "test"],
        "{clients:?}"
    );
    let tokens = completions(&home, &["token", "remove", ""]).await;
    assert_eq!(values_without_options(&tokens), ["laptop"], "{tokens:?}");
    front.end().await;
    daemon.stop().await;
    // Without a daemon, the names of tokens come from the state directory.
    let tokens = completions(&home, &["token", "remove", ""]).await;
    assert_eq!(values_without_options(&tokens), ["laptop"], "{tokens:?}");
}

#[tokio::test]
async fn words_that_are_known_are_offered() {
    let home = home!();
    let statuses = completions(&home, &["records", "--status", ""]).await;
    let expected = [
        "open",
        "ok",
        "error",
        "timeout",
        "cancelled",
        "unknown",
        "refused",
    ];
    assert_eq!(completion_values(&statuses), expected);
    let doors = completions(&home, &["records", "--door", "mcp_s"]).await;
    assert_eq!(completion_values(&doors), ["mcp_stdio", "mcp_sse"]);
    let programs = completions(&home, &["add", "--from", "cur"]).await;
    assert_eq!(programs, ["cursor\tCursor"]);
}

/// Without a daemon, server names come from the file. No server starts.
#[tokio::test]
async fn names_come_from_the_file_without_a_daemon() {
    let home = home!();
    fs::create_dir_all(home.state()).expect("made");
    let marker = home.path().join("started");
    let text = json!({
        "mcpServers": {
            "files": {"command": "touch", "args": [marker]},
            "tracker": {"url": "http://127.0.0.1:9/mcp"},
        },
        "profiles": {"review": {}},
    });
    home.file("state/config.json", &text.to_string());
    let servers = completions(&home, &["get", ""]).await;
    assert!(
        ["files", "tracker"]
            .iter()
            .all(|value| completion_values(&servers).contains(value)),
        "{servers:?}"
    );
    let tools = completions(&home, &["call", "f"]).await;
    assert_eq!(completion_values(&tools), ["files/"]);
    let profiles = completions(&home, &["mcp", "--profile", ""]).await;
    assert_eq!(completion_values(&profiles), ["review", "default", "meta"]);
    // `--config` selects another file.
    let other_file = home.file(
        "other.json",
        r#"{"mcpServers": {"other": {"command": "x"}}}"#,
    );
    let offered_lines = completions(&home, &["get", "--config", &other_file, "o"]).await;
    assert_eq!(completion_values(&offered_lines), ["other"]);
    let programs = completions(&home, &["export", "--for", "cur"]).await;
    assert_eq!(programs, ["cursor\tCursor"]);
    // Commands and options are completed without a daemon.
    let commands = completions(&home, &["rec"]).await;
    assert_eq!(completion_values(&commands), ["records", "reconnect"]);
    let options = completions(&home, &["list", "--wa"]).await;
    assert_eq!(completion_values(&options), ["--watch"]);
    let form_lines = completions(&home, &["list", "-o", "y"]).await;
    assert_eq!(completion_values(&form_lines), ["yaml"]);
    assert!(!marker.exists(), "a server was started");
    assert!(!home.state().join("daemon.json").exists());
}

/// If the daemon does not answer or the file cannot be read, there are no names and no error.
#[tokio::test]
async fn completion_does_not_wait_for_a_silent_daemon() {
    let home = home!();
    // This listener never answers.
    let mute_listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bound");
    let url = format!("http://{}", mute_listener.local_addr().expect("bound"));
    fs::create_dir_all(home.state()).expect("made");
    home.file("state/config.json", "{\"mcpServers\": {\"files\": ");
    for arguments in [
        &["get", "--url", &url, ""][..],
        &["call", ""],
        &["mcp", "--profile", "m"],
    ] {
        let started_at = Instant::now();
        let run = run_completion(&home, arguments, "fish").await;
        let elapsed = started_at.elapsed();
        assert_eq!(
            (run.code, &*run.stderr),
            (Some(0), ""),
            "{arguments:?}: {run}"
        );
        assert!(!run.stdout.contains("files"), "{arguments:?}: {run}");
        // The limit is 300 ms, plus the start of the program on a busy machine.
        assert!(
            elapsed < Duration::from_secs(5),
            "{arguments:?} took {elapsed:?}"
        );
    }
    let unknown_run = run_completion(&home, &["get", ""], "tcsh").await;
    assert_eq!((&*unknown_run.stdout, &*unknown_run.stderr), ("", ""));
}

#[tokio::test]
async fn every_shell_has_its_script() {
    let home = home!();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = home.run(&["completions", shell]).await;
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run}");
        assert!(run.stdout.contains("MAINSTAY_COMPLETE"), "{run}");
        assert!(run.stdout.contains(env!("CARGO_BIN_EXE_mainstay")), "{run}");
        // The output contains no escape sequences, also for fish and PowerShell.
        let run = run_completion(&home, &["li"], shell).await;
        assert!(run.stdout.contains("list"), "{shell}: {run}");
        assert!(!run.stdout.contains('\u{1b}'), "{shell}: {run}");
    }
    let unknown_run = home.run(&["completions", "tcsh"]).await;
    assert_eq!(unknown_run.code, Some(2), "{unknown_run}");
}

/// A daemon with two servers.
async fn serve(home: &Home) -> Serving {
    let config = fakes(home, &[("good", &[]), ("other", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    daemon
}

/// The folder that contains the program.
fn folder() -> impl std::fmt::Display {
    let program = Path::new(env!("CARGO_BIN_EXE_mainstay"));
    program.parent().expect("a folder").display()
}

/// bash completes names when a person presses Tab on a terminal.
#[tokio::test]
async fn bash_completes() {
    if !Terminal::is_available() || !is_installed("bash") {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let folder = folder();
    let script = home.file(
        "bashrc",
        &format!("PS1='ready> '\nPATH=\"{folder}:$PATH\"\nsource <(mainstay completions bash)\n"),
    );
    let terminal = shell(&home, &["bash", "--noprofile", "--rcfile", &script]).await;
    assert_completes(&terminal).await;
    daemon.stop().await;
}

#[tokio::test]
async fn zsh_completes() {
    if !Terminal::is_available() || !is_installed("zsh") {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let folder = folder();
    home.file(
        ".zshrc",
        &format!("PS1='ready> '\nPATH=\"{folder}:$PATH\"\nautoload -U compinit && compinit -u\nsource <(mainstay completions zsh)\n"),
    );
    let terminal = shell(&home, &["zsh", "-d"]).await;
    assert_completes(&terminal).await;
    daemon.stop().await;
}

#[tokio::test]
async fn fish_completes() {
    if !Terminal::is_available() || !is_installed("fish") {
        return;
    }
    let home = home!();
    let daemon = serve(&home).await;
    let folder = folder();
    fs::create_dir_all(home.path().join(".config/fish")).expect("made");
    home.file(
        ".config/fish/config.fish",
        &format!("set -g fish_greeting\nset -gx PATH {folder} $PATH\nfunction fish_prompt; echo -n 'ready> '; end\nmainstay completions fish | source\n"),
    );
    let terminal = shell(&home, &["fish"]).await;
    assert_completes(&terminal).await;
    daemon.stop().await;
}

/// Starts an interactive shell, and waits for its first prompt.
async fn shell(home: &Home, command_line: &[&str]) -> Terminal {
    let template_command = home.command(&[]);
    let mut command = Command::new(command_line[0]);
    command.args(&command_line[1..]).current_dir(home.path());
    for (name, value) in template_command.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("ZDOTDIR", home.path());
    let terminal = Terminal::start(&command, 100, 30).await;
    terminal.wait_for_text("ready>").await;
    terminal
}

/// Asserts that Tab completes the beginning of a command, a server and a tool.
async fn assert_completes(terminal: &Terminal) {
    terminal.types("mainstay rel").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("ready> mainstay reload").await;
    terminal.press(&["C-u"]).await;
    terminal.hides("reload").await;
    terminal.types("mainstay get oth").await;
    terminal.press(&["Tab"]).await;
    terminal.wait_for_text("ready> mainstay get other").await;
    terminal.press(&["C-u"]).await;
    terminal.hides("other").await;
    terminal.types("mainstay call good/ech").await;
    terminal.press(&["Tab"]).await;
    terminal
        .wait_for_text("ready> mainstay call good/echo")
        .await;
    terminal.types("text=hello").await;
    terminal.press(&["Enter"]).await;
    terminal
        .shows_when("the answer", |screen| {
            screen.lines().any(|line| line == "hello")
        })
        .await;
}
