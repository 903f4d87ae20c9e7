//! Stderr blocks or is closed: a stopped terminal, a closed terminal, a pipe that nobody reads, a
//! full disk. Mainstay continues to serve, and still stops after a signal.

use std::{
    fs::File,
    os::fd::OwnedFd,
    process::{ExitStatus, Stdio},
};

use mainstay_testkit::{get, home, limits::PROGRAMS, lines, soon};
use rustix::{
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
    process::{Pid, Signal, kill_process},
    termios::{Action, tcflow},
};
use serde_json::Value;
use tokio::process::Child;

use crate::{fakes::fakes, terminal::pseudo_terminal};

/// The minimum size of a pipe.
const PIPE: usize = 4096;

/// A stderr that blocks or fails, and the other end of it if that is open.
type Stuck = (OwnedFd, Option<OwnedFd>);

fn pipe(is_open: bool) -> Stuck {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    fcntl_setpipe_size(&writer, PIPE).expect("small");
    rustix::io::write(&writer, &[b'x'; PIPE]).expect("full");
    (writer, is_open.then_some(reader))
}

fn terminal(is_open: bool) -> Stuck {
    let (controller, terminal) = pseudo_terminal();
    if is_open {
        tcflow(&terminal, Action::OOff).expect("stopped");
    }
    (terminal.into(), is_open.then_some(controller))
}

/// Asserts that calls, a restart, probes and the shutdown work while the logs are verbose.
async fn assert_continues((stderr, other_end): Stuck) {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    let listen = ["--json", "--listen", "127.0.0.1:0", "--config", &config];
    let mut command = home.command(&[&["-vvv", "serve"], &listen[..]].concat());
    let mut daemon = command
        .stderr(Stdio::from(stderr))
        .spawn()
        .expect("it starts");
    // Drop the command, because it holds a copy of the pipe's writing end.
    drop(command);
    let mut stdout = lines(daemon.stdout.take());
    let first = soon(PROGRAMS, "where it listens", stdout.next_line()).await;
    let first = first.expect("UTF-8").expect("a line");
    let started: Value = serde_json::from_str(&first).expect("JSON");
    let url = started["url"].as_str().expect("a URL");
    for arguments in [
        &["call", "one/echo", "text=hello"][..],
        &["restart", "one"],
        &["call", "one/echo", "text=hello"],
        &["call", "two/echo", "text=hello"],
    ] {
        let run = home.run(arguments).await;
        assert_eq!(run.code, Some(0), "{run}");
    }
    assert!(get(url, "/healthz").await.starts_with("HTTP/1.1 200"));
    let exit_status = stop(&mut daemon).await;
    assert_eq!(exit_status.code(), Some(0), "{exit_status}");
    drop(other_end);
}

async fn stop(daemon: &mut Child) -> ExitStatus {
    let pid = daemon.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    kill_process(pid.expect("it runs"), Signal::TERM).expect("told");
    let exit_result = soon(PROGRAMS, "its end", daemon.wait()).await;
    exit_result.expect("waited for")
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_holds_nothing_up() {
    assert_continues(pipe(true)).await;
}

#[tokio::test]
async fn a_pipe_whose_reader_has_gone_ends_nothing() {
    assert_continues(pipe(false)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_ends_nothing() {
    let device = File::options().write(true).open("/dev/full");
    assert_continues((device.expect("it is there").into(), None)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopped_terminal_holds_nothing_up() {
    assert_continues(terminal(true)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_terminal_ends_nothing() {
    assert_continues(terminal(false)).await;
}
