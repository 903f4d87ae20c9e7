//! Runs the command of an alert: without a shell, in its own process group, with a time limit.

use std::{env, io, process::Stdio, time::Duration};

use mainstay_core::config::{AlertCommand, PathOrder};
use mainstay_transport::{self as transport, process};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::message::AlertMessage;

/// Maximum number of bytes of a command's output in the log. Further output is read and dropped, so
/// that the command does not block.
const MAX_LOGGED_OUTPUT: u64 = 4 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum CommandFailed {
    #[error("it cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("it cannot be waited for: {0}")]
    Wait(#[source] io::Error),
    #[error("ended with {}", exit(*code, *signal))]
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    #[error("not done within {} ms", .0.as_millis())]
    Late(Duration),
}

fn exit(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => "no exit status".to_owned(),
    }
}

/// Runs the command once. A failed command is not retried, because it can retry by itself. Returns
/// when the command's process group has ended.
pub async fn run(
    command: &AlertCommand,
    message: &AlertMessage,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<(), CommandFailed> {
    let mut child = spawn(command, message)
        .await
        .map_err(CommandFailed::Start)?;
    let group = process::group(&child);
    let running = timeout(limit, communicate(&mut child, &message.json));
    let outcome = stop.run_until_cancelled(running).await;
    let result = match outcome {
        Some(Ok(Ok(status))) => match process::exit(status) {
            (Some(0), _) => Ok(()),
            (code, signal) => Err(CommandFailed::Exit { code, signal }),
        },
        // The rest of its processes is killed, too.
        Some(Ok(Err(error))) => Err(CommandFailed::Wait(error)),
        Some(Err(_)) => Err(CommandFailed::Late(limit)),
        // Mainstay is stopping. The command was interrupted, which does not count as its failure.
        None => Ok(()),
    };
    process::kill(&child);
    let reaped = child.wait().await;
    group.kill_rest();
    reaped.map_err(CommandFailed::Wait)?;
    result
}

/// Starts the command with Mainstay's environment, without `MAINSTAY_` variables, which may contain
/// tokens.
async fn spawn(command: &AlertCommand, message: &AlertMessage) -> io::Result<Child> {
    let path = transport::search_path(env::var_os("PATH").as_deref(), PathOrder::default());
    let program = transport::resolve(&command.program, &path);
    let mut spawned = Command::new(program.program());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("MAINSTAY_") {
            spawned.env_remove(name);
        }
    }
    let alarm = &message.alarm;
    spawned
        .args(&command.args)
        .env("PATH", path)
        .env("MAINSTAY_ALERT", alarm.content.kind().as_str())
        .env("MAINSTAY_ALERT_ID", message.id.to_string())
        // A variable cannot contain a NUL, which a server may have written.
        .env(
            "MAINSTAY_ALERT_TEXT",
            alarm.to_string().replace('\0', "\u{fffd}"),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(server) = &alarm.server {
        spawned.env("MAINSTAY_ALERT_SERVER", server.as_str());
    }
    process::spawn(spawned, None).await
}

/// Writes the message to the command's stdin, reads its output, and waits for its end.
async fn communicate(child: &mut Child, json: &str) -> io::Result<std::process::ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // Ignore an error, because the command need not read its stdin.
            stdin.write_all(json.as_bytes()).await.ok();
        }
    };
    let (status, (), (), ()) = tokio::join!(
        child.wait(),
        write,
        log("stdout", stdout),
        log("stderr", stderr)
    );
    status
}

async fn log(name: &'static str, pipe: Option<impl AsyncRead + Unpin>) {
    let Some(mut pipe) = pipe else { return };
    let mut output = Vec::new();
    // Ignore a read error, and log the part that was read.
    (&mut pipe)
        .take(MAX_LOGGED_OUTPUT)
        .read_to_end(&mut output)
        .await
        .ok();
    tokio::io::copy(&mut pipe, &mut tokio::io::sink())
        .await
        .ok();
    let text = String::from_utf8_lossy(&output);
    if !text.trim().is_empty() {
        tracing::info!(output = text.trim(), "{name} of the command of an alert");
    }
}
