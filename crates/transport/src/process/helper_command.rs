//! Runs the command of a server's `headersHelper` in its own process group, with limits on time and output.

use std::{env, io, pin::pin, process::Stdio, sync::Arc, time::Duration};

use futures_util::future::{Either, join, select};
use mainstay_core::config::{HeadersHelper, PathOrder};
use mainstay_platform::{
    blocking::try_off_the_runtime,
    descriptors,
    lineage::{self, Lineage, Marks},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    logs::{LineSource, ServerLog},
    process::{self, environment},
};

/// The maximum length of the output, in bytes. No server accepts longer headers.
const MAX_OUTPUT: usize = 64 * 1024;

/// The file descriptors of a run: its two pipes and a handle of its process.
const DESCRIPTORS: usize = 3;

/// The time limit for reading the last output after a helper and all its processes have ended.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// The reason that a helper gave no headers. It never contains the output, which may be secret.
#[derive(Debug, thiserror::Error)]
pub enum HelperFailed {
    #[error("it cannot be started: {0}")]
    Start(String),
    #[error("it cannot be waited for: {0}")]
    Wait(#[source] io::Error),
    #[error("it ended with {}", exit_words(*code, *signal))]
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    #[error("it was not done within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("its output has more than 64 KiB")]
    TooLong,
    #[error("its output cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    #[error("its output is no JSON object of strings")]
    NotHeaders,
    #[error("header {name:?} cannot be sent: {reason}")]
    Header { name: String, reason: String },
    #[error("Mainstay is stopping")]
    Stopped,
}

fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => "no exit status".to_owned(),
    }
}

/// The server of a helper, and the resources for its runs.
#[derive(Clone, Debug)]
pub struct HelperSurroundings {
    pub server: String,
    pub url: String,
    pub lineage: Lineage,
    /// The log that gets the helper's stderr.
    pub log: Arc<ServerLog>,
    /// Cancelled to end the run.
    pub stop: CancellationToken,
}

/// Runs the helper once. Returns its output after all its processes have ended. No other run may have the
/// same `tag`.
pub async fn run(
    helper: &HeadersHelper,
    surroundings: &HelperSurroundings,
    tag: &str,
) -> Result<Vec<u8>, HelperFailed> {
    let _descriptors = descriptors::take(DESCRIPTORS)
        .map_err(|exhausted| HelperFailed::Start(exhausted.to_string()))?;
    let marks = surroundings.lineage.marks(tag);
    let command = command(helper, surroundings).await?;
    let mut child = process::spawn(command, Some(&marks))
        .await
        .map_err(|error| HelperFailed::Start(error.to_string()))?;
    let group = process::group(&child);
    let running = timeout(
        helper.time_limit,
        output(&mut child, &marks, &surroundings.log),
    );
    let outcome = match surroundings.stop.run_until_cancelled(running).await {
        Some(Ok(output)) => output,
        Some(Err(_)) => Err(HelperFailed::Late(helper.time_limit)),
        None => Err(HelperFailed::Stopped),
    };
    process::kill(&child);
    let reaped = child.wait().await;
    group.kill_rest();
    // Processes that have left the group must end, too.
    process::end_marked(&marks).await;
    reaped.map_err(HelperFailed::Wait)?;
    outcome
}

/// Builds the shell command of a helper. The helper gets Mainstay's environment without the `MAINSTAY_`
/// variables, which may contain tokens.
async fn command(
    helper: &HeadersHelper,
    surroundings: &HelperSurroundings,
) -> Result<Command, HelperFailed> {
    let path = try_off_the_runtime(|| {
        environment::search_path(env::var_os("PATH").as_deref(), PathOrder::default())
    });
    let path = path
        .await
        .map_err(|error| HelperFailed::Start(error.to_string()))?;
    let mut command = shell(&helper.command);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("MAINSTAY_") {
            command.env_remove(name);
        }
    }
    command
        .env("PATH", path)
        .env("CLAUDE_CODE_MCP_SERVER_NAME", &surroundings.server)
        .env("CLAUDE_CODE_MCP_SERVER_URL", &surroundings.url)
        .env(lineage::CHAIN, surroundings.lineage.chain())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Only needed if a panic or an abort prevented an orderly end.
        .kill_on_drop(true);
    Ok(command)
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    command
}

#[cfg(windows)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.raw_arg(format!("/D /S /C \"{line}\""));
    command
}

/// Reads the output of a helper until it has ended. Its stderr goes to the log.
async fn output(
    child: &mut Child,
    marks: &Marks,
    log: &Arc<ServerLog>,
) -> Result<Vec<u8>, HelperFailed> {
    let group = process::group(child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let exited = CancellationToken::new();
    let drain = async {
        if let Some(stderr) = stderr {
            let stream = log.stream(LineSource::Stderr);
            stream.drain(stderr, |_| {}, exited.clone()).await;
        }
    };
    let mut pipes = pin!(join(read(stdout), drain));
    let ended = {
        let wait = pin!(child.wait());
        match select(wait, pipes.as_mut()).await {
            Either::Left((status, _)) => FirstEnd::Process(status),
            Either::Right(((output, ()), wait)) => FirstEnd::Output(output, wait.await),
        }
    };
    let (output, status) = match ended {
        FirstEnd::Output(output, status) => (output, status),
        FirstEnd::Process(status) => {
            // Children of the helper may hold the pipes open.
            group.kill_rest();
            process::end_marked(marks).await;
            exited.cancel();
            let rest = timeout(DRAIN_GRACE, pipes).await;
            let late = || Err(HelperFailed::Late(DRAIN_GRACE));
            (rest.map_or_else(|_| late(), |(output, ())| output), status)
        }
    };
    let output = output?;
    match process::exit(status.map_err(HelperFailed::Wait)?) {
        (Some(0), _) => Ok(output),
        (code, signal) => Err(HelperFailed::Exit { code, signal }),
    }
}

/// The first event: the process has ended, or its output has.
enum FirstEnd {
    Process(io::Result<std::process::ExitStatus>),
    Output(
        Result<Vec<u8>, HelperFailed>,
        io::Result<std::process::ExitStatus>,
    ),
}

/// Reads a pipe to its end, or up to the limit. Closing the pipe then ends an endless writer.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, HelperFailed> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let most = MAX_OUTPUT as u64 + 1;
        let read = pipe.take(most).read_to_end(&mut bytes).await;
        read.map_err(HelperFailed::Unreadable)?;
    }
    if bytes.len() > MAX_OUTPUT {
        return Err(HelperFailed::TooLong);
    }
    Ok(bytes)
}
