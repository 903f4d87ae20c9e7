//! `--watch`: prints a list again after each event, until Ctrl-C.

use std::{pin::pin, time::Duration};

use mainstay_api::{Client, ClientError};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    screen::{self, Redraw},
    stderr::complain,
};

/// The interval between two attempts to reach a daemon that has stopped.
const RETRY: Duration = Duration::from_secs(1);

/// The delay between an event and the update, so that several events cause one update.
const SETTLE: Duration = Duration::from_millis(100);

/// The output of one update.
pub enum Block {
    /// Lines whose parts are escaped.
    Lines(Vec<String>),
    /// One line of JSON.
    Json(serde_json::Value),
}

/// Prints the result of `look` at once and after each event of the daemon. On a terminal it replaces the
/// last output, and repeats it after `every`, because it contains durations. Waits for the return of a
/// daemon that has stopped.
pub async fn watch(
    host: &dyn Host,
    daemon: &DaemonArgs,
    every: Duration,
    look: impl AsyncFn(&Client) -> Result<Block, CommandError>,
) -> Result<Exit, CommandError> {
    let mut redraw = Redraw::default();
    let (mut was_there, mut gone) = (false, false);
    loop {
        let follow = async |client: &Client| {
            let mut stream = client.follow_events(None).await?;
            (was_there, gone) = (true, false);
            loop {
                show(&mut redraw, look(client).await?)?;
                // Keep one future until the next event. Dropping the future would lose parts of the event.
                let mut next = pin!(stream.next());
                let event = loop {
                    tokio::select! {
                        event = &mut next => break event?,
                        () = tokio::time::sleep(every), if screen::stdout_is_terminal() => {
                            show(&mut redraw, look(client).await?)?;
                        }
                    }
                };
                if event.is_none() {
                    return Ok(());
                }
                tokio::time::sleep(SETTLE).await;
            }
        };
        match daemon.with(host, follow).await {
            Ok(()) => {}
            Err(CommandError::Client(error)) if was_there && is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        if daemon.starts_servers() {
            return Ok(Exit::DONE);
        }
        if !std::mem::replace(&mut gone, true) {
            complain("the daemon is gone; waiting for it");
            redraw = Redraw::default();
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// True for errors of a daemon that has stopped or is stopping. A stopping daemon refuses new requests.
pub fn is_gone(error: &ClientError) -> bool {
    match error {
        ClientError::NotRunning { .. } | ClientError::Unreachable { .. } => true,
        ClientError::Refused { status, .. } => status.as_u16() == 503,
        ClientError::BadUrl { .. }
        | ClientError::Lost { .. }
        | ClientError::Unauthorized { .. }
        | ClientError::Foreign { .. } => false,
    }
}

fn show(redraw: &mut Redraw, block: Block) -> Result<(), CommandError> {
    match block {
        Block::Lines(lines) => redraw.show(lines),
        Block::Json(value) => redraw.once(value.to_string(), || output::json(&value)),
    }
}
