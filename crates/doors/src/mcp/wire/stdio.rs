//! A profile on stdin and stdout: one client, with one message per line.

use std::{io, sync::Arc};

use mainstay_core::{era::code, message, principal::Principal};
use mainstay_gateway::registry::PublishedProfile;
use mainstay_transport::{InputLine, LineReader, LineWriter};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    conversation::{Conversation, Output},
    mcp::Mcp,
};
use crate::mcp::sessions::session::EndpointScope;
use mainstay_doorway::peer::Visitor;

/// Signals that end the door.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Ends the door at once.
    pub stop: CancellationToken,
    /// Ends the door when all requests are answered. It still accepts messages until then.
    pub leave: CancellationToken,
}

/// Serves one client until its input ends and all requests are answered, or its output closes, or a
/// signal ends the door. A closed output is not an error.
pub async fn serve(
    mcp: Arc<Mcp>,
    profile: Arc<PublishedProfile>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    max_message: usize,
    Ends { stop, leave }: Ends,
) -> io::Result<()> {
    let tasks = TaskTracker::new();
    let writer = Arc::new(LineWriter::default());
    let mut write_task = tokio::spawn({
        let writer = Arc::clone(&writer);
        async move { writer.run(output).await }
    });
    let client = Arc::new(Conversation::new(
        Arc::clone(&mcp.clients),
        EndpointScope::Profile(profile),
        // This client has started the process. No token is needed.
        Visitor {
            principal: Principal::Anonymous,
            address: None,
        },
        Output::Lines(Arc::clone(&writer)),
        tasks.clone(),
    ));
    let mut lines = LineReader::new(input, max_message);
    let mut write_result = None;
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            result = &mut write_task => {
                write_result = Some(result);
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
        let refusal = match line {
            Ok(Some(InputLine::Whole(line))) if line.trim_ascii().is_empty() => continue,
            Ok(Some(InputLine::Whole(line))) => match client.take(line).await {
                Ok(()) => continue,
                Err(refusal) => refusal.into_text(),
            },
            Ok(Some(InputLine::TooLong { .. })) => {
                let reason = format!("a message may have {max_message} bytes");
                message::error_response(None, code::INVALID_REQUEST, &reason, None)
            }
            // The client closes stdin to end (specification, "Shutdown"). Answer earlier requests.
            Ok(None) | Err(_) => {
                tokio::select! {
                    () = client.answered() => {}
                    result = &mut write_task => write_result = Some(result),
                    () = stop.cancelled() => {}
                }
                break;
            }
        };
        client.output.send(refusal).await;
    }
    client.greeted().await;
    client.end("the client closed its end");
    // Write the remaining answers before stdout closes.
    tasks.close();
    tasks.wait().await;
    writer.close();
    let write_result = match write_result {
        Some(write_result) => write_result,
        None => write_task.await,
    };
    match write_result? {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            tracing::debug!(%error, "stdout was closed");
            Ok(())
        }
        write_result => write_result,
    }
}
