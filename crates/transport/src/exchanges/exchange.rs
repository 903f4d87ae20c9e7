//! One request and all messages of the server about it, over any transport.

use mainstay_core::{health::HealthPolicy, ids::ServerName, message};

use crate::{
    Budget, Frame, InFlight, Interruption, InterruptionKind, OpenQuestions, ServerMessage,
    exchanges::{multiplexed::MultiplexedExchange, per_request::PerRequestExchange},
    process::cpu::cpu_time,
};

/// A request in flight. Yields the server's messages about the request, in the order in which the server
/// wrote them. The last message is the response.
#[derive(Debug)]
pub struct Exchange {
    /// Mainstay's id of the request, and its progress token if it has one.
    pub id: u64,
    transport: ExchangeTransport,
    /// Set if the request is a call, which keeps the server busy.
    pub(crate) in_flight: Option<InFlight>,
}

#[derive(Debug)]
enum ExchangeTransport {
    Multiplexed(MultiplexedExchange),
    PerRequest(PerRequestExchange),
}

impl From<MultiplexedExchange> for Exchange {
    fn from(exchange: MultiplexedExchange) -> Self {
        Self::over(exchange.id(), ExchangeTransport::Multiplexed(exchange))
    }
}

impl From<PerRequestExchange> for Exchange {
    fn from(exchange: PerRequestExchange) -> Self {
        Self::over(exchange.id(), ExchangeTransport::PerRequest(exchange))
    }
}

impl Exchange {
    fn over(id: u64, transport: ExchangeTransport) -> Self {
        Self {
            id,
            transport,
            in_flight: None,
        }
    }

    /// Returns the response and counts its bytes in the budget. Fails if the response exceeds the budget. A
    /// response over HTTP is counted while it is read. On a shared connection, the whole message is counted
    /// after it has arrived.
    pub async fn answer_within(&mut self, budget: &Budget) -> Result<Frame, Interruption> {
        if let ExchangeTransport::PerRequest(exchange) = &mut self.transport {
            exchange.set_budget(budget.clone());
        }
        let answer = self.answer().await?;
        let is_counted = matches!(self.transport, ExchangeTransport::PerRequest(_));
        if is_counted || budget.take(answer.text().len()) {
            Ok(answer)
        } else {
            let limit = budget.limit();
            Err(Interruption::sent(InterruptionKind::TooLarge(limit)))
        }
    }

    /// The next message about this request. Cancel-safe.
    pub async fn next(&mut self) -> Result<ServerMessage, Interruption> {
        let message = self.read().await;
        if let Some(in_flight) = &self.in_flight {
            match &message {
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
        message
    }

    async fn read(&mut self) -> Result<ServerMessage, Interruption> {
        match &mut self.transport {
            ExchangeTransport::Multiplexed(exchange) => exchange.next().await,
            ExchangeTransport::PerRequest(exchange) => exchange.next().await,
        }
    }

    /// Records that the request has timed out; see [`InFlight::timed_out`].
    pub async fn timed_out(&mut self, policy: &HealthPolicy, pid: Option<u32>) {
        if let Some(in_flight) = &self.in_flight {
            let cpu = pid.map(|pid| move || cpu_time(pid));
            in_flight.timed_out(policy, cpu).await;
        }
    }

    /// The questions that the request may have caused. `None` if no question came, or if the request has a
    /// connection of its own.
    pub fn open_questions(&self) -> Option<&OpenQuestions> {
        match &self.transport {
            ExchangeTransport::Multiplexed(exchange) => exchange.open_questions(),
            ExchangeTransport::PerRequest(_) => None,
        }
    }

    /// Resumes a stream that the server has closed, without waiting for the server's retry delay.
    pub fn resume_now(&mut self) {
        if let ExchangeTransport::PerRequest(exchange) = &mut self.transport {
            exchange.resume_now();
        }
    }

    /// True if the server answers with a stream. A transparent endpoint then answers with a stream, too.
    pub fn is_stream(&self) -> bool {
        match &self.transport {
            ExchangeTransport::Multiplexed(_) => false,
            ExchangeTransport::PerRequest(exchange) => exchange.is_stream(),
        }
    }

    /// The HTTP status of the answer, for a modern server. A transparent endpoint copies it.
    pub fn http_status(&self) -> Option<u16> {
        match &self.transport {
            ExchangeTransport::Multiplexed(_) => None,
            ExchangeTransport::PerRequest(exchange) => exchange.http_status(),
        }
    }

    /// The response. Other messages about the request are dropped.
    pub async fn response(mut self) -> Result<Frame, Interruption> {
        self.answer().await
    }

    /// Like [`Self::response`], for callers that may stop waiting. Cancel-safe.
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

/// The text of `notifications/cancelled` for the request `id`.
pub(crate) fn cancelled(server: &ServerName, id: u64, reason: &str) -> String {
    tracing::debug!(%server, id, reason, "cancelling a request");
    let reason = message::quote(reason);
    message::request(
        None,
        "notifications/cancelled",
        Some(&format!(r#"{{"requestId":{id},"reason":{reason}}}"#)),
    )
}
