//! The aggregate on stdin and stdout: one client, one session, one message per line.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::message::{self, Kind, Method};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    batch, dispatch,
    hub::{Hub, Opened},
    reply::Reply,
    session::{ClientSession, Scope},
};
use crate::{
    calls::Messages,
    transport::{Frame, Line, LineReader, LineWriter},
};

/// Serves one client until its input ends, or `stop`; then its calls are cancelled.
pub async fn serve(
    hub: Arc<Hub>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    max_message: usize,
    stop: CancellationToken,
) {
    let writer = Arc::new(LineWriter::default());
    let writing = tokio::spawn({
        let writer = Arc::clone(&writer);
        async move { writer.run(output).await }
    });
    let mut door = Door {
        hub,
        writer,
        session: None,
        tasks: JoinSet::new(),
    };
    let mut lines = LineReader::new(input, max_message);
    loop {
        tokio::select! {
            line = lines.next() => match line {
                Ok(Some(Line::Whole(line))) => door.line(line).await,
                Ok(Some(Line::TooLong { .. })) => {
                    let text = format!("a message may have {max_message} bytes");
                    door.say(&message::error_response(None, -32600, &text, None)).await;
                }
                // The client has gone: stdin is how it says so (specification, "Shutdown").
                Ok(None) | Err(_) => break,
            },
            Some(ended) = door.tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a call failed");
                }
            }
            () = stop.cancelled() => break,
        }
    }
    door.end("the client closed its end").await;
    match writing.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "stdout was closed"),
        Err(error) => tracing::error!(%error, "the writer failed"),
    }
}

struct Door {
    hub: Arc<Hub>,
    writer: Arc<LineWriter>,
    session: Option<Arc<ClientSession>>,
    tasks: JoinSet<()>,
}

impl Door {
    async fn say(&self, text: &str) {
        // A closed output ends the input as well.
        self.writer.send(text).await.ok();
    }

    async fn line(&mut self, line: Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if line.trim_ascii_start().first() == Some(&b'[') {
            return self.batch(line).await;
        }
        let frame = match Frame::read(line) {
            Ok(frame) => frame,
            Err(error) => return self.say(&batch::unreadable(&error)).await,
        };
        match (&self.session, frame.envelope().kind) {
            (
                None,
                Kind::Request {
                    id,
                    method: Method::Initialize,
                },
            ) => {
                let id = frame.get(id).to_owned();
                self.initialize(&id, &frame).await;
            }
            (
                None,
                Kind::Request {
                    id,
                    method: Method::Ping,
                },
            ) => {
                self.say(&Reply::result(frame.get(id), "{}").text).await;
            }
            (None, Kind::Request { id, .. }) => {
                let reply = Reply::error(frame.get(id), -32600, "initialize first");
                self.say(&reply.text).await;
            }
            (None, _) => tracing::debug!("a notification before initialize was dropped"),
            (Some(session), Kind::Request { .. }) => {
                let writer = Arc::clone(&self.writer);
                let (outlet, messages) = session.outlet();
                let call =
                    dispatch::answer(Arc::clone(&self.hub), Arc::clone(session), frame, outlet);
                self.tasks
                    .spawn(async move { answer(call, messages, &writer).await });
            }
            (Some(session), _) => dispatch::take(&self.hub, session, frame),
        }
    }

    async fn initialize(&mut self, id: &str, frame: &Frame) {
        let params = frame.params().unwrap_or("{}");
        match self.hub.open(Scope::All, params).await {
            Ok(Opened { session, result }) => {
                self.say(&message::response(id, &result)).await;
                let (outbox, writer) = (Arc::clone(&session.outbox), Arc::clone(&self.writer));
                // Ends with the session.
                self.tasks.spawn(async move {
                    while let Some(message) = outbox.next().await {
                        if writer.send(&message).await.is_err() {
                            return;
                        }
                    }
                });
                self.session = Some(session);
            }
            Err(error) => {
                self.say(&message::error_response(
                    Some(id),
                    -32603,
                    &error.to_string(),
                    None,
                ))
                .await;
            }
        }
    }

    async fn batch(&mut self, line: Bytes) {
        let session = self
            .session
            .as_ref()
            .filter(|session| session.revision.accepts_batches());
        let Some(session) = session else {
            let refusal = message::error_response(
                None,
                -32600,
                "batches are accepted at revision 2025-03-26 only",
                None,
            );
            return self.say(&refusal).await;
        };
        let (hub, session, writer) = (
            Arc::clone(&self.hub),
            Arc::clone(session),
            Arc::clone(&self.writer),
        );
        self.tasks.spawn(async move {
            let (outlet, mut messages) = session.outlet();
            let relay = async {
                while let Some(message) = messages.next().await {
                    writer.send(&message).await.ok();
                }
            };
            let (reply, ()) = tokio::join!(batch::answer(hub, session, line, outlet), relay);
            if let Some(reply) = reply {
                writer.send(&reply).await.ok();
            }
        });
    }

    /// Cancels what is in flight and lets the answers to it be written.
    async fn end(mut self, reason: &str) {
        if let Some(session) = self.session.take() {
            self.hub.end(&session.id, reason);
        }
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a call failed");
            }
        }
        self.writer.close();
    }
}

/// Answers one request: what is said before the result is written before it.
async fn answer(call: impl Future<Output = Reply>, mut messages: Messages, writer: &LineWriter) {
    let relay = async {
        while let Some(message) = messages.next().await {
            writer.send(&message).await.ok();
        }
    };
    let (reply, ()) = tokio::join!(call, relay);
    // Who cancelled expects no answer (specification, "Cancellation").
    if !reply.cancelled {
        writer.send(&reply.text).await.ok();
    }
}
