//! One request and everything that the server says about it, over any transport.

use std::sync::Arc;

use mainstay_core::{health::Policy, ids::ServerName, message};

use crate::{
    Asker, Budget, CallState, Frame, InFlight, Interruption, InterruptionKind, LineWriter,
    OpenQuestions, PossibleSuspect, ServerMessage,
    exchanges::pending::{Pending, Ticket},
    http_sse::sse_link::SseExchange,
    lines::line_writer::{Mark, WriterClosed},
    modern::modern_exchange::ModernExchange,
    process::cpu::cpu_time,
    streamable::http_exchange::HttpExchange,
};

/// A request on its way. Yields the server's messages about it, in the order in which the server wrote
/// them. The last one is the response.
#[derive(Debug)]
pub struct Exchange {
    /// Our id of the request, and its progress token if it has one.
    pub id: u64,
    way: Way,
    /// Set if it is a call, which keeps the server busy.
    pub(crate) in_flight: Option<InFlight>,
}

#[derive(Debug)]
enum Way {
    Piped(PipedExchange),
    Http(Box<HttpExchange>),
    Modern(Box<ModernExchange>),
    Sse(Box<SseExchange>),
}

/// A request to a process.
#[derive(Debug)]
pub struct PipedExchange {
    ticket: Ticket,
    writer: Arc<LineWriter>,
    /// Where the request begins in what is written.
    mark: Mark,
}

impl PipedExchange {
    /// Sends the request that `render` writes for the id given to it.
    pub async fn start(
        pending: &Arc<Pending>,
        writer: &Arc<LineWriter>,
        asker: Option<Asker>,
        work: Option<PossibleSuspect>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Self, Interruption> {
        let lost = || Interruption::not_sent(InterruptionKind::Lost);
        let mut registered = None;
        // Only a call that is sent can cause questions.
        let render = || {
            let ticket = pending.register(asker, work).map_err(|_| WriterClosed)?;
            let text = render(&ticket.id.to_string());
            registered = Some(ticket);
            Ok(text)
        };
        let mark = writer.send_with(render).await.map_err(|_| lost())?;
        let ticket = registered.ok_or_else(lost)?;
        ticket.queued(mark);
        Ok(Self {
            ticket,
            writer: Arc::clone(writer),
            mark,
        })
    }

    /// The next message about this request. Cancel-safe.
    async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        let said = self.ticket.next().await;
        said.map_err(|broken| {
            let state = if self.writer.has_begun(self.mark) {
                CallState::Sent
            } else {
                CallState::NotSent
            };
            let kind = broken.into();
            Interruption { state, kind }
        })
    }
}

impl From<PipedExchange> for Exchange {
    fn from(exchange: PipedExchange) -> Self {
        Self::over(exchange.ticket.id, Way::Piped(exchange))
    }
}

impl From<HttpExchange> for Exchange {
    fn from(exchange: HttpExchange) -> Self {
        Self::over(exchange.id(), Way::Http(Box::new(exchange)))
    }
}

impl From<ModernExchange> for Exchange {
    fn from(exchange: ModernExchange) -> Self {
        Self::over(exchange.id(), Way::Modern(Box::new(exchange)))
    }
}

impl From<SseExchange> for Exchange {
    fn from(exchange: SseExchange) -> Self {
        Self::over(exchange.id(), Way::Sse(Box::new(exchange)))
    }
}

impl Exchange {
    fn over(id: u64, way: Way) -> Self {
        Self {
            id,
            way,
            in_flight: None,
        }
    }

    /// Reads no more of the answer than `budget` has. Where all answers come on one stream, whole
    /// messages are counted instead. See [`Exchange::answer_within`].
    fn count(&mut self, budget: &Budget) {
        match &mut self.way {
            Way::Http(exchange) => exchange.count(budget.clone()),
            Way::Modern(exchange) => exchange.count(budget.clone()),
            Way::Piped(_) | Way::Sse(_) => {}
        }
    }

    /// The response, if it is within the budget, which it uses up.
    pub async fn answer_within(&mut self, budget: &Budget) -> Result<Frame, Interruption> {
        self.count(budget);
        let answer = self.answer().await?;
        let is_counted = matches!(self.way, Way::Http(_) | Way::Modern(_));
        if is_counted || budget.take(answer.text().len()) {
            Ok(answer)
        } else {
            let limit = budget.limit();
            Err(Interruption::sent(InterruptionKind::TooLarge(limit)))
        }
    }

    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        let said = self.read().await;
        if let Some(in_flight) = &self.in_flight {
            match &said {
                Ok(ServerMessage::Message(frame)) if frame.method().is_none() => {
                    if frame.names_nothing() || frame.says_uninitialized() {
                        in_flight.refused(frame.error().unwrap_or_default());
                    } else {
                        in_flight.answered();
                    }
                }
                Ok(_) => {}
                Err(interruption) => in_flight.interrupted(interruption),
            }
        }
        said
    }

    async fn read(&mut self) -> Result<ServerMessage, Interruption> {
        match &mut self.way {
            Way::Piped(exchange) => exchange.next().await,
            Way::Http(exchange) => exchange.next().await,
            Way::Modern(exchange) => exchange.next().await,
            Way::Sse(exchange) => exchange.next().await,
        }
    }

    /// The request has run out of time; see [`InFlight::timed_out`].
    pub async fn timed_out(&mut self, policy: &Policy, pid: Option<u32>) {
        if let Some(in_flight) = &self.in_flight {
            let cpu = pid.map(|pid| move || cpu_time(pid));
            in_flight.timed_out(policy, cpu).await;
        }
    }

    /// The questions that the request may have caused, where requests share the connection and there was
    /// a question.
    pub fn open_questions(&self) -> Option<&OpenQuestions> {
        match &self.way {
            Way::Piped(exchange) => exchange.ticket.open_questions(),
            Way::Sse(exchange) => exchange.ticket().open_questions(),
            Way::Http(_) | Way::Modern(_) => None,
        }
    }

    /// Resumes a stream that the server has closed, without waiting for the time that it named.
    pub fn resume_now(&mut self) {
        if let Way::Http(exchange) = &mut self.way {
            exchange.resume_now();
        }
    }

    /// Whether the server answers with a stream of its own, which a transparent path mirrors.
    pub fn is_stream(&self) -> bool {
        match &self.way {
            Way::Http(exchange) => exchange.is_stream(),
            Way::Modern(exchange) => exchange.is_stream(),
            Way::Piped(_) | Way::Sse(_) => false,
        }
    }

    /// The HTTP status of the answer, where it means something: a modern server's, which a transparent
    /// path copies.
    pub fn http_status(&self) -> Option<u16> {
        match &self.way {
            Way::Modern(exchange) => exchange.status(),
            Way::Http(_) | Way::Piped(_) | Way::Sse(_) => None,
        }
    }

    /// The response, where nothing but the response is of interest.
    pub async fn response(mut self) -> Result<Frame, Interruption> {
        self.answer().await
    }

    /// The answer, for callers that may not wait for it. Cancel-safe.
    async fn answer(&mut self) -> Result<Frame, Interruption> {
        loop {
            // Dropping a question refuses it.
            if let ServerMessage::Message(frame) = self.next().await?
                && frame.method().is_none()
            {
                return Ok(frame);
            }
        }
    }
}

/// `notifications/cancelled` for our request `id`.
pub(crate) fn cancelled(server: &ServerName, id: u64, reason: &str) -> String {
    tracing::debug!(%server, id, reason, "cancelling a request");
    let reason = message::quote(reason);
    message::request(
        None,
        "notifications/cancelled",
        Some(&format!(r#"{{"requestId":{id},"reason":{reason}}}"#)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that waits for room in the pipe has not reached its server: it is not among those that can have
    /// caused a question, also after it was cancelled.
    #[tokio::test]
    async fn a_call_that_is_not_sent_is_not_in_flight() {
        let server = ServerName::new("x").expect("a name");
        let (pending, writer) = (Arc::new(Pending::new(server)), Arc::<LineWriter>::default());
        writer.send(&"x".repeat(16 << 20)).await.expect("open");
        let asker = Some(Asker::new());
        let waiting = PipedExchange::start(&pending, &writer, asker, None, str::to_owned);
        assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
        assert!(!pending.may_await(br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#));
        assert_eq!(pending.next_id(), 1);
    }
}
