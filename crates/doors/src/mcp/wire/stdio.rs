//! A profile on stdin and stdout: one client, one session, one message per line.

use std::{io, sync::Arc};

use mainstay_core::{era::code, message, principal::Principal};
use mainstay_gateway::registry::Profile;
use mainstay_transport::{Line, LineReader, LineWriter};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    conversation::{Conversation, Output},
    mcp::Mcp,
};
use crate::mcp::sessions::session::Scope;
use mainstay_doorway::peer::Visitor;

/// What ends the door beside its client.
#[derive(Clone, Debug)]
pub struct Ends {
    /// At once.
    pub stop: CancellationToken,
    /// When all that was asked for is answered. The client is heard until then.
    pub leave: CancellationToken,
}

/// Serves one client until its input ends and all is answered, its output is gone, or one of `ends`. A
/// client that reads no more has left, which is no error.
pub async fn serve(
    mcp: Arc<Mcp>,
    profile: Arc<Profile>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    max_message: usize,
    Ends { stop, leave }: Ends,
) -> io::Result<()> {
    let tasks = TaskTracker::new();
    let writer = Arc::new(LineWriter::default());
    let mut writing = tokio::spawn({
        let writer = Arc::clone(&writer);
        async move { writer.run(output).await }
    });
    let client = Arc::new(Conversation::new(
        Arc::clone(&mcp.clients),
        Scope::Profile(profile),
        // The client that started this process: it may use everything, and controls Mainstay by other
        // means.
        Visitor {
            principal: Principal::Anonymous,
            address: None,
        },
        Output::Lines(Arc::clone(&writer)),
        tasks.clone(),
    ));
    let mut lines = LineReader::new(input, max_message);
    let mut written = None;
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            ended = &mut writing => {
                written = Some(ended);
                break;
            }
            () = stop.cancelled() => break,
            () = async {
                leave.cancelled().await;
                client.idle().await;
            } => {
                client.leave();
                break;
            }
        };
        let refused = match line {
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
            Ok(Some(Line::Whole(line))) => match client.take(line).await {
                Ok(()) => continue,
                Err(refused) => refused.into_text(),
            },
            Ok(Some(Line::TooLong { .. })) => {
                let reason = format!("a message may have {max_message} bytes");
                message::error_response(None, code::INVALID_REQUEST, &reason, None)
            }
            // The client has gone, as the end of stdin says (specification, "Shutdown"). What it asked
            // for before is answered as long as stdout has a reader.
            Ok(None) | Err(_) => {
                tokio::select! {
                    () = client.answered() => {}
                    ended = &mut writing => written = Some(ended),
                    () = stop.cancelled() => {}
                }
                break;
            }
        };
        client.output.say(refused).await;
    }
    client.greeted().await;
    client.end("the client closed its end");
    // What was answered is still written.
    tasks.close();
    tasks.wait().await;
    writer.close();
    let written = match written {
        Some(written) => written,
        None => writing.await,
    };
    match written? {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            tracing::debug!(%error, "stdout was closed");
            Ok(())
        }
        written => written,
    }
}
