//! `mainstay call`: its arguments, prompts, output and cancellation.

use std::process::Stdio;

use insta::assert_snapshot;
use mainstay_testkit::{Home, Run, Running, Serving, found, home, limits::PROGRAMS, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::{fakes::fakes, terminal::Terminal};

/// A tool definition with a required argument of each type.
fn needy_tool() -> String {
    let schema = json!({"type": "object", "required": ["text", "mode", "count", "loud"], "properties": {
        "text": {"type": "string", "description": "What to say"},
        "mode": {"enum": ["fast", "slow"]},
        "count": {"type": "integer", "minimum": 1},
        "loud": {"type": "boolean"},
        "extra": {"type": "string"},
    }});
    json!({"name": "needy", "description": "Needs much", "inputSchema": schema}).to_string()
}

/// Starts a daemon. Also returns the file in which the fake records the messages it receives.
async fn serve(home: &Home) -> (Serving, std::path::PathBuf) {
    let record = home.path().join("got");
    let tool = needy_tool();
    let flags = ["--tool", &tool, "--record", record.to_str().expect("UTF-8")];
    let config = fakes(home, &[("one", &flags)]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    (daemon, record)
}

/// Runs a call with this text on its stdin.
async fn run_with_stdin(home: &Home, arguments: &[&str], text: &str) -> Run {
    let mut command = home.command(arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    within(stdin.write_all(text.as_bytes()))
        .await
        .expect("it reads");
    drop(stdin);
    Run::new(
        arguments,
        &within(child.wait_with_output()).await.expect("it ends"),
    )
}

#[tokio::test]
async fn arguments_come_from_files_and_stdin() {
    let home = home!();
    let (daemon, _) = serve(&home).await;
    home.file("text.txt", "from a\nfile");
    home.file("all.json", "{\"text\": \"from JSON\"}");
    assert_snapshot!(
        home.transcript(&[
            &["call", "one/echo", "text=@text.txt"],
            &["call", "one/echo", "@all.json"],
            &["call", "one/echo", "--args", "@all.json"],
            &["call", "one/echo", "text=@@somebody"],
            &["call", "one/echo", "text=@nowhere.txt"],
            &["call", "one/echo", "@text.txt"],
        ])
        .await
    );
    let all_text = "{\"text\": \"from stdin\"}";
    for (arguments, stdin, expected) in [
        (
            ["call", "one/echo", "-"].as_slice(),
            all_text,
            "from stdin\n",
        ),
        (&["call", "one/echo", "@-"], all_text, "from stdin\n"),
        (
            &["call", "one/echo", "--args", "@-"],
            all_text,
            "from stdin\n",
        ),
        (&["call", "one/echo", "text=@-"], "as it is", "as it is\n"),
    ] {
        let run = run_with_stdin(&home, arguments, stdin).await;
        assert_eq!((run.code, &*run.stdout), (Some(0), expected), "{run}");
    }
    let duplicate_stdin = ["call", "one/echo", "a=@-", "b=@-"];
    let duplicate_stdin = run_with_stdin(&home, &duplicate_stdin, "x").await;
    assert_eq!(duplicate_stdin.code, Some(2), "{duplicate_stdin}");
    let shell_run = home.run(&["shell", "-c", "/call one/echo text=@-"]).await;
    assert_eq!(shell_run.code, Some(2), "{shell_run}");
    daemon.stop().await;
}

/// If the daemon is killed during a call, the error says that the outcome is unknown.
#[tokio::test]
async fn a_call_whose_daemon_is_killed_may_have_run() {
    let home = home!();
    let (daemon, record) = serve(&home).await;
    let call = home.command(&["call", "one/sleep", "ms=60000", "--json"]);
    let child = { call }.spawn().expect("it starts");
    found(PROGRAMS, "the call", async || {
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        text.contains("60000").then_some(())
    })
    .await;
    let pid = i32::try_from(daemon.daemon_pid()).expect("a process id");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("killed");
    let output = within(child.wait_with_output()).await.expect("it ends");
    let run = Run::new(&["call"], &output);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("\"outcome_unknown\""), "{run}");
    assert!(run.stderr.contains("may or may not have run"), "{run}");
}

#[tokio::test]
async fn missing_arguments_are_reported_without_a_terminal() {
    let home = home!();
    let (daemon, _) = serve(&home).await;
    assert_snapshot!(
        home.transcript(&[
            &["call", "one/needy"],
            &["call", "one/needy", "text=x", "mode=fast"],
            &["call", "one/needy", "text=x", "--json"],
            &[
                "call",
                "one/needy",
                "text=x",
                "mode=fast",
                "count=2",
                "loud=true"
            ],
            &["call", "one/needy", "--args", "{}"],
            &["shell", "-c", "/call one/needy"],
        ])
        .await
    );
    daemon.stop().await;
}

/// The error names the unknown argument, although another argument is missing as well.
#[tokio::test]
async fn an_argument_that_is_not_known_is_named() {
    let home = home!();
    let (daemon, _) = serve(&home).await;
    let run = home.run(&["call", "one/needy", "txt=x", "mode=fast"]).await;
    assert_eq!(run.code, Some(2), "{run}");
    let error = "error: one/needy has no argument \"txt\"\n  hint: did you mean text=…?\n";
    assert_eq!(run.stderr, error, "{run}");
    daemon.stop().await;
}

#[tokio::test]
async fn missing_arguments_are_requested_on_a_terminal() {
    let home = home!();
    let (daemon, record) = serve(&home).await;
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["call", "one/needy", "text=given"]));
    terminal.until("one of: fast, slow").await;
    terminal.types("fats\n");
    terminal.until("mode must be one of: fast, slow").await;
    terminal.types("slow\n");
    terminal.until("(integer)").await;
    terminal.types("0\n");
    terminal.until("count must be at least 1").await;
    terminal.types("3\n");
    terminal.until("(boolean)").await;
    terminal.types("yes\n");
    assert_eq!(within(child.wait()).await.expect("it ends").code(), Some(0));
    terminal.end().await;
    let text = std::fs::read_to_string(&record).expect("what it got");
    let arguments = r#""arguments":{"text":"given","count":3,"loud":true,"mode":"slow"}"#;
    assert!(text.contains(arguments), "{text}");

    // If the person gives no answer, no call is made.
    for (keys, code) in [("\u{4}", 2), ("\u{3}", 130)] {
        let mut terminal = Terminal::open();
        let mut child = terminal.start(home.command(&["call", "one/needy", "text=given"]));
        terminal.until("mode:").await;
        if code == 130 {
            let pid = child.id().expect("it runs").cast_signed();
            kill_process(Pid::from_raw(pid).expect("a process"), Signal::INT).expect("signalled");
        } else {
            terminal.types(&keys.repeat(3));
        }
        assert_eq!(
            within(child.wait()).await.expect("it ends").code(),
            Some(code)
        );
        terminal.end().await;
    }
    daemon.stop().await;
}

/// On a terminal, progress appears after a delay.
#[tokio::test]
async fn a_call_that_takes_longer_shows_how_far_it_is() {
    let home = home!();
    let (daemon, _) = serve(&home).await;
    let slow_call = ["call", "one/progress", "steps=8", "intervalMs=200"];
    let terminal_output = async |arguments: &[&str]| {
        let mut terminal = Terminal::open();
        let mut child = terminal.start(home.command(arguments));
        within(child.wait()).await.expect("it ends");
        String::from_utf8(terminal.end().await).expect("UTF-8")
    };
    let screen = terminal_output(&slow_call).await;
    assert!(
        screen.contains("one/progress: 5 of 8, step 5 ("),
        "{screen:?}"
    );
    assert!(!screen.contains("step 1 "), "{screen:?}");
    // The progress line is removed at the end.
    let end = screen.rsplit_once('(').expect("progress").1;
    assert!(
        end.contains("\u{1b}[2K") && end.ends_with("8 steps done\r\n"),
        "{screen:?}"
    );
    for quiet_call in [
        &["call", "one/echo", "text=x"][..],
        &[&slow_call[..], &["--json"]].concat(),
    ] {
        let screen = terminal_output(quiet_call).await;
        assert!(!screen.contains('\u{1b}'), "{screen:?}");
    }
    let piped_run = home.run(&slow_call).await;
    assert_eq!(
        piped_run.to_string(),
        format!("$ mainstay {}\n8 steps done\n", slow_call.join(" "))
    );
    let log = home.run(&["call", "one/log", "n=2", "level=error"]).await;
    assert_eq!(
        (&*log.stdout, &*log.stderr),
        ("2 lines logged\n", "error: line 1\nerror: line 2\n")
    );
    daemon.stop().await;
}

#[tokio::test]
async fn an_interrupt_cancels_the_call_and_says_whether_it_ran() {
    let home = home!();
    let (daemon, record) = serve(&home).await;
    for (json, expected) in [
        (
            false,
            "error: one/sleep was cancelled by SIGINT: its server had it, and it may have run in part or as a whole",
        ),
        (true, r#""error":"cancelled""#),
    ] {
        let _ = std::fs::remove_file(&record);
        let mut arguments = vec!["call", "one/sleep", "ms=600000"];
        arguments.extend(json.then_some("--json"));
        let mut call = Running::start(home.command(&arguments));
        let has_text = |expected_text: &str| {
            std::fs::read_to_string(&record)
                .is_ok_and(|text| text.contains(expected_text))
                .then_some(())
        };
        found(PROGRAMS, "the call", async || has_text("600000")).await;
        call.signal(Signal::INT);
        let line = call.wait_for_stderr("cancelled").await;
        assert!(line.contains(expected), "{line}");
        assert_eq!(call.ended().await.code(), Some(130));
        found(PROGRAMS, "the cancellation", async || {
            has_text("notifications/cancelled")
        })
        .await;
    }
    daemon.stop().await;
}
