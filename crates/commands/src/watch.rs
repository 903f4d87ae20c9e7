//! `--watch`: shows a list again whenever something happens, until Ctrl-C.

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

/// A daemon that is gone is looked for so often.
const RETRY: Duration = Duration::from_secs(1);

/// Events that come in a row are shown together.
const SETTLE: Duration = Duration::from_millis(100);

/// What is shown.
pub enum Block {
    /// Lines whose parts are escaped.
    Lines(Vec<String>),
    /// One line of JSON.
    Json(serde_json::Value),
}

/// Shows what `look` finds, at once and after each event of the daemon; on a terminal in place, and
/// also when `every` has passed, because times go by. A daemon that is gone is waited for.
pub async fn watch(
    host: &dyn Host,
    daemon: &DaemonArgs,
    every: Duration,
    look: impl AsyncFn(&Client) -> Result<Block, CommandError>,
) -> Result<Exit, CommandError> {
    let mut redraw = Redraw::default();
    let (mut was_there, mut gone) = (false, false);
    loop {
        let shown = async |client: &Client| {
            let mut stream = client.follow_events(None).await?;
            (was_there, gone) = (true, false);
            loop {
                show(&mut redraw, look(client).await?)?;
                // The next event is waited for once, or parts of it would be lost.
                let mut next = pin!(stream.next());
                let told = loop {
                    tokio::select! {
                        told = &mut next => break told?,
                        () = tokio::time::sleep(every), if screen::stdout_is_terminal() => {
                            show(&mut redraw, look(client).await?)?;
                        }
                    }
                };
                if told.is_none() {
                    return Ok(());
                }
                tokio::time::sleep(SETTLE).await;
            }
        };
        match daemon.with(host, shown).await {
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

/// A daemon that stops refuses what is new.
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
