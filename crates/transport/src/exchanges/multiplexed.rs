//! Links that carry many exchanges on one connection. A table maps the id of each request to its exchange.

use std::sync::Arc;

use mainstay_core::ids::ServerName;

use crate::{
    Asker, CallState, Interruption, InterruptionKind, LineWriter, OpenQuestions, PossibleSuspect,
    ServerMessage, WriterClosed,
    exchanges::pending::{Broken, PendingRequests, Ticket},
    http_sse::sse_link::{Accepting, SseLink},
    lines::line_writer::Mark,
};

/// One connection to a server, and the requests that wait for answers on it. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Multiplexed {
    /// The transport in use: `stdio` or `sse`.
    pub transport: &'static str,
    pending: Arc<PendingRequests>,
    outgoing: Outgoing,
    owner: LineOwner,
}

/// The path of messages to the server.
#[derive(Clone, Debug)]
enum Outgoing {
    /// Each message is a line of a byte stream.
    Lines(Arc<LineWriter>),
    /// Each message is a POST.
    Posts(Arc<SseLink>),
}

/// The peer at the other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOwner {
    /// A child process, which ends together with its connection. Its end may be a crash.
    Process { pid: Option<u32> },
    /// A peer that Mainstay neither starts nor ends.
    Elsewhere,
}

impl LineOwner {
    pub fn pid(self) -> Option<u32> {
        match self {
            Self::Process { pid } => pid,
            Self::Elsewhere => None,
        }
    }
}

impl Multiplexed {
    /// Creates a link over a byte stream.
    pub fn over_lines(
        transport: &'static str,
        owner: LineOwner,
        pending: Arc<PendingRequests>,
        writer: Arc<LineWriter>,
    ) -> Self {
        Self {
            transport,
            pending,
            outgoing: Outgoing::Lines(writer),
            owner,
        }
    }

    /// Sends a request. `render` gets the id of the request and returns its text. `work` describes the call
    /// in case the call crashes the server.
    pub async fn start(
        &self,
        asker: Option<Asker>,
        work: impl FnOnce() -> Option<PossibleSuspect>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<MultiplexedExchange, Interruption> {
        let work = match self.owner {
            LineOwner::Process { .. } => work(),
            LineOwner::Elsewhere => None,
        };
        match &self.outgoing {
            Outgoing::Lines(writer) => self.write(writer, asker, work, render).await,
            Outgoing::Posts(link) => {
                let lost = |_: Broken| Interruption::not_sent(InterruptionKind::Lost);
                let ticket = self.pending.register(asker, work).map_err(lost)?;
                let text = render(&ticket.id.to_string());
                let delivery = Delivery::Posting(link.post(&text));
                Ok(MultiplexedExchange { ticket, delivery })
            }
        }
    }

    async fn write(
        &self,
        writer: &Arc<LineWriter>,
        asker: Option<Asker>,
        work: Option<PossibleSuspect>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<MultiplexedExchange, Interruption> {
        let lost = || Interruption::not_sent(InterruptionKind::Lost);
        let mut registered = None;
        // Register the call when it is written: only a call that is sent can cause questions.
        let render = || {
            let ticket = self
                .pending
                .register(asker, work)
                .map_err(|_| WriterClosed)?;
            let text = render(&ticket.id.to_string());
            registered = Some(ticket);
            Ok(text)
        };
        let mark = writer.send_with(render).await.map_err(|_| lost())?;
        let ticket = registered.ok_or_else(lost)?;
        ticket.set_mark(mark);
        let writer = Arc::clone(writer);
        let delivery = Delivery::Queued { writer, mark };
        Ok(MultiplexedExchange { ticket, delivery })
    }

    /// Sends a notification or an answer. A failure is reported as a failure of the connection.
    pub async fn send(&self, server: &ServerName, text: String) {
        match &self.outgoing {
            Outgoing::Lines(writer) => {
                self.pending.note_answerless();
                if writer.send(&text).await.is_err() {
                    tracing::debug!(%server, "a message for a closed connection was dropped");
                }
            }
            Outgoing::Posts(link) => link.send(text).await,
        }
    }

    /// The calls that were in flight when the server's process ended, the latest first. Calls of which no
    /// byte was written are left out. Only the first call of this method returns them.
    pub fn take_lost(&self) -> Vec<PossibleSuspect> {
        let Outgoing::Lines(writer) = &self.outgoing else {
            return Vec::new();
        };
        self.pending
            .take_lost()
            .into_iter()
            .filter(|(_, mark)| writer.has_begun(*mark))
            .map(|(work, _)| work)
            .collect()
    }

    pub fn is_over(&self) -> bool {
        match &self.outgoing {
            Outgoing::Lines(_) => self.pending.is_ended(),
            Outgoing::Posts(link) => link.is_over(),
        }
    }
}

/// Creates a link that sends messages by POST.
impl From<Arc<SseLink>> for Multiplexed {
    fn from(link: Arc<SseLink>) -> Self {
        Self {
            transport: "sse",
            pending: Arc::clone(&link.pending),
            outgoing: Outgoing::Posts(link),
            owner: LineOwner::Elsewhere,
        }
    }
}

/// A request on a connection that also carries other requests.
pub struct MultiplexedExchange {
    ticket: Ticket,
    delivery: Delivery,
}

/// The delivery state of a request.
enum Delivery {
    /// The request was queued at this mark of the writer.
    Queued { writer: Arc<LineWriter>, mark: Mark },
    /// The POST of the request has no answer yet.
    Posting(Accepting),
    /// The server has accepted the POST.
    Posted,
}

impl std::fmt::Debug for MultiplexedExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiplexedExchange")
            .field("id", &self.ticket.id)
            .finish_non_exhaustive()
    }
}

impl MultiplexedExchange {
    pub fn id(&self) -> u64 {
        self.ticket.id
    }

    /// The questions that the request may have caused. `None` if no question came.
    pub fn open_questions(&self) -> Option<&OpenQuestions> {
        self.ticket.open_questions()
    }

    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        if let Delivery::Posting(post) = &mut self.delivery {
            let accepted = tokio::select! {
                biased;
                message = self.ticket.next() => {
                    return message.map_err(|broken| Interruption::sent(broken.into()));
                }
                accepted = post => accepted,
            };
            self.delivery = Delivery::Posted;
            if let Some(answer) = accepted? {
                return Ok(ServerMessage::Message(answer));
            }
        }
        let message = self.ticket.next().await;
        message.map_err(|broken| Interruption {
            state: self.delivery.state(),
            kind: broken.into(),
        })
    }
}

impl Delivery {
    fn state(&self) -> CallState {
        match self {
            Self::Queued { writer, mark } if !writer.has_begun(*mark) => CallState::NotSent,
            Self::Queued { .. } | Self::Posting(_) | Self::Posted => CallState::Sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that waits for room in the pipe has not reached its server. It cannot have caused a question,
    /// even after it was cancelled.
    #[tokio::test]
    async fn a_call_that_is_not_sent_is_not_in_flight() {
        let server = ServerName::new("x").expect("a name");
        let (pending, writer) = (
            Arc::new(PendingRequests::new(server)),
            Arc::<LineWriter>::default(),
        );
        writer.send(&"x".repeat(16 << 20)).await.expect("open");
        let owner = LineOwner::Process { pid: None };
        let line = Multiplexed::over_lines("stdio", owner, Arc::clone(&pending), writer);
        let waiting = line.start(Some(Asker::new()), || None, str::to_owned);
        assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
        assert!(!pending.may_await(br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#));
        assert_eq!(pending.next_id(), 1);
    }
}
