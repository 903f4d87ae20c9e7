//! The program: startup and transport.
#![expect(clippy::print_stdout, reason = "stdout announces the port")]
#![expect(clippy::print_stderr, reason = "the fake complains as told")]

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::flood::{FloodText, complain, flood};
use crate::listener::{self, Door};
use crate::script::Script;
use crate::service::{Host, Service};
use crate::stdio;

/// `fake-server [stdio|http|sse] [--port N] [behaviour …]`
#[derive(Debug, clap::Parser)]
#[command(name = "fake-server", about = "A scriptable MCP backend for tests")]
pub struct Arguments {
    #[arg(value_enum, default_value_t = Transport::Stdio)]
    transport: Transport,
    /// http, sse: the loopback port; 0 selects a free one. The first line on stdout is `listening
    /// on 127.0.0.1:PORT`
    #[arg(long, value_name = "N", default_value_t)]
    port: u16,
    #[command(flatten)]
    script: Script,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Transport {
    Stdio,
    Http,
    Sse,
}

/// Runs until stdin ends (stdio) or forever.
pub async fn run(arguments: Arguments) -> io::Result<()> {
    let Arguments {
        transport,
        port,
        script,
    } = arguments;
    let script = start(script)?;
    let _sigterm = script.ignore_sigterm.then(ignore_sigterm).transpose()?;
    if let Some(code) = script.crash_at_start {
        eprintln!("the fake crashes at start with code {code}");
        std::process::exit(code);
    }
    tokio::time::sleep(Duration::from_millis(script.slow_start)).await;
    work(&script).await?;
    let door = match transport {
        Transport::Stdio => {
            let text = if script.no_newline {
                FloodText::Endless
            } else {
                FloodText::Junk
            };
            flood(io::stdout(), script.flood_stdout, &text, None)?;
            return stdio::serve(Service::new(script, Host::Process)).await;
        }
        Transport::Http => Door::Http,
        Transport::Sse => Door::Sse,
    };
    let listener = listener::bind(port).await?;
    println!("listening on {}", listener.local_addr()?);
    // The sender is kept, because the listener stops when it is dropped.
    let (_commands, no_commands) = mpsc::unbounded_channel();
    let until_stdin_ends = script.until_stdin_ends;
    let serve_task = listener::serve(
        door,
        Service::new(script, Host::Process),
        listener,
        no_commands,
    );
    tokio::select! {
        ended = serve_task => ended,
        () = stdin_end(), if until_stdin_ends => Ok(()),
    }
}

/// Imitates the work of a slow start.
async fn work(script: &Script) -> io::Result<()> {
    burn(Duration::from_millis(script.burn));
    let mut pause = tokio::time::interval(Duration::from_millis(100));
    let deadline = Instant::now() + Duration::from_millis(script.download);
    let mut piece = 0;
    while Instant::now() < deadline {
        piece += 1;
        eprintln!("downloading piece {piece}");
        pause.tick().await;
    }
    let deadline = Instant::now() + Duration::from_millis(script.churn);
    while Instant::now() < deadline {
        std::fs::write("/dev/null", vec![0; 64_000])?;
        pause.tick().await;
    }
    Ok(())
}

/// Uses this much CPU time on its thread, under any load.
#[cfg(unix)]
fn burn(time: Duration) {
    let spent_time = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).expect("a clock that runs forward")
    };
    let end = spent_time() + time;
    while spent_time() < end {}
}

#[cfg(not(unix))]
fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {}
}

async fn stdin_end() {
    let mut stdin = tokio::io::stdin();
    // An error also counts as the end.
    let _ = tokio::io::copy(&mut stdin, &mut tokio::io::sink()).await;
}

fn start(mut script: Script) -> io::Result<Script> {
    if let Some(path) = &script.tools_file {
        let number = std::fs::read_to_string(path)?;
        script.tools = number.trim().parse().map_err(io::Error::other)?;
    }
    if let Some(text) = &script.stderr {
        complain(text);
    }
    flood(io::stderr(), script.flood_stderr, &FloodText::Junk, None)?;
    if script.spawn_grandchild {
        // Nothing waits for the child. It inherits stdout and stderr, like children of real
        // servers.
        let child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()?;
        eprintln!("grandchild {}", child.id());
    }
    Ok(script)
}

/// Replaces the signal's default action, so that the signal has no effect.
#[cfg(unix)]
fn ignore_sigterm() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
}

#[cfg(not(unix))]
fn ignore_sigterm() -> io::Result<()> {
    Ok(())
}
