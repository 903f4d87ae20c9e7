//! Opens a session over a byte stream in each direction, with any kind of server at its other end.

use std::{io, sync::Arc};

use mainstay_core::{era::Era, lifecycle::Loss};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};

use crate::{
    Approach, LineWriter, Liveness, Opening, RunningConnection, Unopened, UpstreamSession,
    exchanges::{
        link::UpstreamLink,
        message_router::MessageRouter,
        multiplexed::{LineOwner, Multiplexed},
        pending::PendingRequests,
        reply_sink::ReplyQueue,
    },
    lines::{stdout_reader::StdoutReader, stray_output::StrayOutput},
    sessions::{
        handshake::{Ungreeted, shake_hands},
        listening::Listening,
    },
};

/// A byte stream in each direction. Each message is a line.
pub struct Duplex<R, W> {
    /// The name of the transport, such as `stdio`.
    pub transport: &'static str,
    pub owner: LineOwner,
    /// The server's output.
    pub reader: R,
    /// The server's input.
    pub writer: W,
}

/// The two tasks of a connection: one reads, and one writes.
pub struct LineTasks {
    pub pending: Arc<PendingRequests>,
    pub writer: Arc<LineWriter>,
    pub write: JoinHandle<io::Result<()>>,
    pub read: JoinHandle<()>,
}

impl LineTasks {
    /// Ends all calls, because no answer can come any more. A call that was not sent before is never sent:
    /// the caller may send it again on another connection (invariant 6).
    pub fn break_off(&self) {
        self.writer.abandon();
        self.pending.end();
    }
}

/// Opens a session. `keep` returns the future that runs until the connection and its owner have ended. On
/// failure, returns only after that future has ended.
pub async fn open<R, W, K>(
    opening: &Opening,
    duplex: Duplex<R, W>,
    keep: impl FnOnce(LineTasks) -> K,
) -> Result<(UpstreamSession, RunningConnection), Unopened>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    K: Future<Output = Loss> + Send + 'static,
{
    let writer = Arc::new(LineWriter::default());
    let pending = Arc::new(PendingRequests::new(opening.server.clone()));
    let liveness = Arc::new(Liveness::new(opening.hang_after));
    let link = UpstreamLink::Multiplexed(Multiplexed::over_lines(
        duplex.transport,
        duplex.owner,
        Arc::clone(&pending),
        Arc::clone(&writer),
    ));
    let router = MessageRouter::new(
        opening.reply_sink(ReplyQueue::Pipe(Arc::clone(&writer), Arc::clone(&pending))),
        Arc::clone(&opening.listener),
        Arc::clone(&opening.log),
    );
    let era = router.era();
    let reader = StdoutReader {
        server: opening.server.clone(),
        pending: Arc::clone(&pending),
        router,
        max_message_bytes: opening.max_message_bytes,
        stray_output: StrayOutput::new(&opening.log),
        log: Arc::clone(&opening.log),
        liveness: Arc::clone(&liveness),
        messages: 0,
    };
    let tasks = LineTasks {
        pending,
        writer: Arc::clone(&writer),
        write: tokio::spawn(async move { writer.run(duplex.writer).await }),
        read: tokio::spawn(reader.run(duplex.reader)),
    };
    let running = tokio::spawn(keep(tasks));
    let ended = async move {
        running
            .await
            .unwrap_or_else(|error| Loss::Disconnected(format!("its task failed: {error}")))
    };

    let greeted = match shake_hands(&link, opening).await {
        Ok(greeted) => greeted,
        Err(Ungreeted::Gone) => return Err(ended.await.into()),
        Err(Ungreeted::Refused(refused)) => {
            opening.stop.close.cancel();
            ended.await;
            return Err(refused);
        }
    };
    let mut session = UpstreamSession {
        greeting: greeted.greeting,
        initialize_answer: greeted.answer,
        eras: greeted.eras,
        pid: duplex.owner.pid(),
        liveness,
        server: opening.server.clone(),
        link,
        listening: None,
        avoids_probe: false,
        is_probed: false,
    };
    // The cell is empty: only this line sets the era.
    era.set(session.era()).ok();
    match session.era() {
        Era::Legacy => {
            session.is_probed =
                matches!(opening.approach, Approach::Detect(None | Some(Era::Modern)));
            session.send_initialized().await;
            Ok((session, Box::pin(ended)))
        }
        Era::Modern => {
            let listening = Arc::new(Listening::new(session.greeting.capabilities));
            session.listening = Some(Arc::clone(&listening));
            let (link, opening) = (session.link.clone(), opening.clone());
            let running = async move {
                let listen = listening.run(
                    &opening.server,
                    &link,
                    &*opening.listener,
                    &opening.attempt_limiter,
                );
                tokio::select! {
                    loss = ended => loss,
                    () = listen => Loss::Disconnected("its task ended".to_owned()),
                }
            };
            Ok((session, Box::pin(running)))
        }
    }
}

#[cfg(test)]
#[path = "memory_line.rs"]
mod memory_line;
