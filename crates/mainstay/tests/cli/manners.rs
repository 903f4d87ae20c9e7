//! Behaviour that commands have in common: output formats, colours, table width, watching.

use mainstay_testkit::{Home, Serving, home, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{fakes::fakes, terminal::Terminal};

async fn two_servers(home: &Home) -> Serving {
    let long_text = "a-server-with-a-name-of-32-bytes";
    let config = fakes(home, &[("good", &[]), (long_text, &["--initialize-error"])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    daemon
}

/// Runs a command on a terminal of this width, without `NO_COLOR`.
async fn terminal_text(home: &Home, width: u16, arguments: &[&str]) -> String {
    let mut terminal = Terminal::of_width(width);
    let mut command = home.command(arguments);
    command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR").env_remove("LC_ALL");
    let mut child = terminal.start_as_it_is(command);
    within(child.wait()).await.expect("it ends");
    let screen = terminal.end().await;
    String::from_utf8(screen)
        .expect("UTF-8")
        .replace("\r\n", "\n")
}

/// Errors are wrapped between words.
#[tokio::test]
async fn errors_are_broken_between_words() {
    let home = home!();
    let error = home.run(&["list"]).await.stderr;
    assert!(error.lines().any(|line| line.len() > 80), "{error}");
    let split_words = |text: &str| {
        let split_words = text.split_whitespace().map(str::to_owned);
        split_words.collect::<Vec<_>>()
    };
    for width in [60, 80] {
        let screen = terminal_text(&home, width, &["list", "--color", "never"]).await;
        assert_eq!(split_words(&screen), split_words(&error), "{screen}");
        let lines = screen
            .lines()
            .filter(|line| line.chars().count() > usize::from(width));
        // Paths and commands are never wrapped.
        for line in lines {
            assert!(
                line.trim_start().split('`').count() == 3 || !line.trim().contains(' '),
                "{screen}"
            );
        }
        assert!(screen.lines().count() > error.lines().count(), "{screen}");
    }
}

#[tokio::test]
async fn lists_have_formats_for_people_and_programs() {
    let home = home!();
    let daemon = two_servers(&home).await;
    let run = async |arguments: &[&str]| home.run(arguments).await;
    let names = run(&["list", "-o", "name"]).await;
    assert_eq!(names.stdout, "good\na-server-with-a-name-of-32-bytes\n");
    let long_output = run(&["list", "-o", "json"]).await.json();
    let short_output = run(&["list", "--json"]).await.json();
    assert_eq!(
        long_output["servers"][0]["name"],
        short_output["servers"][0]["name"]
    );
    let yaml = run(&["list", "-o", "yaml"]).await.stdout;
    assert!(
        yaml.starts_with("servers:\n  - name: good\n    transport: stdio\n"),
        "{yaml}"
    );
    let wide_run = run(&["list", "-o", "wide"]).await.stdout;
    assert!(
        wide_run.starts_with("NAME") && wide_run.contains("RESOURCES"),
        "{wide_run}"
    );
    let table = run(&["list", "-o", "table"]).await.stdout;
    assert!(!table.contains("RESOURCES"), "{table}");

    let list = run(&["list", "--format", "{name}\\t{status}|{pid}"]).await;
    let line = list.stdout.lines().next().expect("a line");
    let pid = short_output["servers"][0]["pid"].to_string();
    assert_eq!(line, format!("good\tconnected|{pid}"));
    // A format may use fields that only some servers have.
    assert_eq!(
        run(&["list", "--format", "{pending.cwd}"]).await.code,
        Some(0)
    );
    let unknown_run = run(&["list", "--format", "{nmae}"]).await;
    assert_eq!(unknown_run.code, Some(2));
    assert!(
        unknown_run.stderr.contains("did you mean name?"),
        "{unknown_run}"
    );
    let unclear_run = run(&["list", "--format", "{name"]).await;
    assert_eq!(unclear_run.code, Some(2));
    assert!(unclear_run.stderr.contains("has no `}`"), "{unclear_run}");

    for (arguments, expected) in [
        (
            ["get", "good", "--format", "{server.name} {entry.command}"].as_slice(),
            "good /",
        ),
        (&["get", "good", "-o", "name"], "good\n"),
        (&["health", "--format", "{name} {status}"], "good healthy\n"),
        (&["health", "-o", "name"], "good\n"),
        (&["tools", "-o", "name"], "good/"),
        (&["tools", "list", "good", "--format", "{server}"], "good\n"),
        (
            &["tools", "get", "good/echo", "-o", "yaml"],
            "name: good/echo\n",
        ),
        (&["resources", "-o", "name"], "fake://"),
        (&["prompts", "-o", "name"], "good/"),
    ] {
        let list = run(arguments).await;
        assert!(list.stdout.starts_with(expected), "{arguments:?}: {list}");
    }
    run(&["call", "good/echo", "text=x"]).await;
    let listed_run = run(&["records", "--format", "{name} {status}"]).await;
    assert!(
        listed_run.stdout.starts_with("good/echo ok\n"),
        "{listed_run}"
    );
    run(&["switches", "off", "editor", "good/echo"]).await;
    for (form, expected) in [
        (&["--format", "{name} {tools.0}"][..], "editor good/echo\n"),
        (&["-o", "name"], "editor\n"),
        (
            &["-o", "yaml"],
            "clients:\n  editor:\n    servers: []\n    tools:\n      - good/echo\n",
        ),
    ] {
        let listed_run = run(&[&["switches"], form].concat()).await;
        assert_eq!(listed_run.stdout, expected, "{listed_run}");
    }
    let events = run(&["events", "--format", "{server}|{type}", "--server", "good"]).await;
    assert!(
        events.stdout.contains("good|server_connected\n"),
        "{events}"
    );
    let lines = run(&["events", "-o", "json"]).await.stdout;
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).expect("a line of JSON each");
        assert!(event["type"].is_string(), "{event}");
    }
    let yaml = run(&["events", "--server", "good", "-o", "yaml"]).await;
    assert!(yaml.stdout.starts_with("events:\n  - id: "), "{yaml}");
    assert_eq!(run(&["events", "-f", "-o", "yaml"]).await.code, Some(2));
    // If the output is JSON, errors are JSON as well.
    let error = run(&["get", "nobody", "-o", "json"]).await;
    let body: Value = serde_json::from_str(error.stderr.trim()).expect("JSON");
    assert_eq!(body["error"], "server_not_found");
    // The invalid format is refused before the token is created.
    let refused_run = run(&["token", "add", "x", "-o", "yaml"]).await;
    assert_eq!(refused_run.code, Some(2), "{refused_run}");
    assert_eq!(run(&["token", "list", "-o", "name"]).await.stdout, "");
    daemon.stop().await;
}

#[tokio::test]
async fn a_terminal_has_colours_and_symbols_and_a_pipe_has_none() {
    let home = home!();
    let daemon = two_servers(&home).await;
    let screen = terminal_text(&home, 100, &["list"]).await;
    assert!(
        screen.contains("\u{1b}[32m● connected\u{1b}[0m"),
        "{screen:?}"
    );
    let plain_text = terminal_text(&home, 100, &["list", "--color", "never"]).await;
    assert!(
        !plain_text.contains('\u{1b}') && plain_text.contains("● connected"),
        "{plain_text:?}"
    );
    let error = terminal_text(&home, 100, &["get", "nobody"]).await;
    assert!(
        error.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m Server"),
        "{error:?}"
    );
    let health = terminal_text(&home, 100, &["health"]).await;
    assert!(
        health.contains("  good                             \u{1b}[32mhealthy\u{1b}[0m    ping: "),
        "{health:?}"
    );

    let piped_run = home.run(&["list"]).await.stdout;
    assert!(
        !piped_run.contains('\u{1b}') && !piped_run.contains('●'),
        "{piped_run}"
    );
    let forced_run = home.run(&["list", "--color=always"]).await.stdout;
    assert!(
        forced_run.contains("\u{1b}[32mconnected\u{1b}[0m"),
        "{forced_run:?}"
    );
    let mut command = home.command(&["list"]);
    let forced_run = command
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output();
    let forced_run = within(forced_run).await.expect("it runs").stdout;
    assert!(
        String::from_utf8_lossy(&forced_run).contains("\u{1b}[32mconnected"),
        "{forced_run:?}"
    );
    let help_run = home.run(&["--help", "--color=always"]).await.stdout;
    assert!(help_run.contains('\u{1b}'), "{help_run}");
    daemon.stop().await;
}

/// Each row of a table fits into one line.
#[tokio::test]
async fn tables_fit_the_terminal() {
    let home = home!();
    let daemon = two_servers(&home).await;
    home.run(&["call", "good/rpc_error"]).await;
    let commands: &[&[&str]] = &[
        &["list"],
        &["tools"],
        &["records"],
        &["resources"],
        &["prompts"],
        &["health"],
    ];
    for arguments in commands {
        let piped_run = home.run(arguments).await.stdout;
        for width in [60, 80, 140] {
            let all_arguments = [arguments, ["--color", "never"].as_slice()].concat();
            let screen = terminal_text(&home, width, &all_arguments).await;
            assert_eq!(
                screen.lines().count(),
                piped_run.lines().count(),
                "{arguments:?}: {screen}"
            );
            for line in screen.lines() {
                assert!(
                    line.chars().count() <= width.into(),
                    "{arguments:?} at {width}: {line}"
                );
            }
        }
    }
    let narrow_text = terminal_text(&home, 60, &["list", "--color", "never"]).await;
    assert!(
        narrow_text.contains('…') && !narrow_text.contains("TRANSPORT"),
        "{narrow_text}"
    );
    let wide_text = terminal_text(&home, 60, &["list", "-o", "wide", "--color", "never"]).await;
    assert!(
        !wide_text.contains('…') && wide_text.contains("TRANSPORT"),
        "{wide_text}"
    );
    daemon.stop().await;
}

/// A watched list continues after a restart of the daemon.
#[tokio::test]
async fn a_watched_list_shows_what_changes() {
    let home = home!();
    let config = fakes(&home, &[("good", &[])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let mut terminal = Terminal::open();
    let mut watcher = terminal.start(home.command(&["list", "--watch"]));
    terminal.until("connected").await;
    let mut piped_command = home.command(&["list", "-w"]).spawn().expect("it starts");
    let mut lines = BufReader::new(piped_command.stdout.take().expect("a pipe")).lines();
    let mut next_line_with = async |words: &str| loop {
        let line = within(lines.next_line())
            .await
            .expect("UTF-8")
            .expect("a line");
        if line.contains(words) {
            return;
        }
    };
    let mut json = home
        .command(&["health", "--watch", "--json"])
        .spawn()
        .expect("it starts");
    let mut reports = BufReader::new(json.stdout.take().expect("a pipe")).lines();
    let report = within(reports.next_line())
        .await
        .expect("UTF-8")
        .expect("a line");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["servers"][0]["status"], "healthy");

    next_line_with("connected").await;
    home.run(&["stop", "good"]).await;
    terminal.until("stopped; start it by").await;
    next_line_with("stopped; start it by").await;
    daemon.stop().await;
    terminal.until("the daemon is gone; waiting for it").await;
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("good  connected").await;
    next_line_with("connected").await;
    home.run(&["disable", "good"]).await;
    terminal.until("enable it by").await;
    for child in [&mut watcher, &mut piped_command, &mut json] {
        child.kill().await.expect("it can be ended");
    }
    let screen = String::from_utf8(terminal.end().await).expect("UTF-8");
    // The table is drawn again at the same place.
    assert!(screen.contains("\u{1b}[2A\r\u{1b}[JNAME"), "{screen:?}");
    let refused_run = home.run(&["list", "--watch", "-o", "yaml"]).await;
    assert_eq!(refused_run.code, Some(2), "{refused_run}");
    daemon.stop().await;
}
