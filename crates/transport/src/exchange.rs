//! One request and everything that the server says about it, over any transport.

use std::sync::Arc;

use mainstay_core::{
    health::{Fault, FaultKind, Policy},
    ids::ServerName,
    message,
};

use super::{
    Budget, Frame, Said,
    cpu::cpu_time,
    http_exchange::HttpExchange,
    line_writer::{LineWriter, Mark},
    modern_exchange::ModernExchange,
    pending::{Broken, Ticket},
    refusals::advice,
    sse::Posted,
    vitals::InFlight,
};

/// How far a call got before it was lost (invariant 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The server cannot have seen it.
    NotSent,
    /// It may have run.
    Sent,
}

/// Why there will be no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Interruption {
    pub state: CallState,
    pub kind: InterruptionKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptionKind {
    #[error("the connection was lost")]
    Lost,
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// HTTP 404 with a session id: the session is over, and nothing ran.
    #[error("the server ended the session")]
    SessionExpired,
    #[error("the server answered HTTP {status}{}{}", detail(body), advice(*status))]
    Refused {
        status: u16,
        body: String,
        /// Whether the body is still a message of JSON-RPC, such as an error without an id.
        is_message: bool,
    },
    #[error("the server's answer is not a JSON-RPC message: {0}")]
    Unreadable(String),
    #[error("the server's answer exceeds {0} bytes")]
    TooLarge(usize),
    #[error("the server ended its answer without a result")]
    Unanswered,
    /// 2026-07-28 forbids it: what a server wants to know it says in its result.
    #[error("the server made a request of its own, which its protocol revision forbids")]
    Asked,
    /// 2026-07-28 over HTTP: a tool whose `x-mcp-header` is none is not to be called.
    #[error("the tool's definition is invalid: {0}")]
    InvalidTool(String),
}

fn detail(body: &str) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!(": {body}")
    }
}

impl Interruption {
    pub fn not_sent(kind: InterruptionKind) -> Self {
        Self {
            state: CallState::NotSent,
            kind,
        }
    }

    pub fn sent(kind: InterruptionKind) -> Self {
        Self {
            state: CallState::Sent,
            kind,
        }
    }

    /// What it says against the server's health. `None` where the server has spoken as the protocol has
    /// it, or where it says nothing.
    pub fn fault(&self) -> Option<Fault> {
        let kind = match &self.kind {
            InterruptionKind::Lost => FaultKind::Cut,
            InterruptionKind::Unreachable(_) => FaultKind::Unreachable,
            InterruptionKind::Refused {
                is_message: true, ..
            }
            | InterruptionKind::SessionExpired
            | InterruptionKind::TooLarge(_)
            | InterruptionKind::Asked
            | InterruptionKind::InvalidTool(_) => return None,
            InterruptionKind::Refused { status, .. } => match status {
                401 | 403 => FaultKind::Unauthorized,
                429 => FaultKind::Throttled,
                _ => FaultKind::Foreign,
            },
            InterruptionKind::Unreadable(_) | InterruptionKind::Unanswered => FaultKind::Foreign,
        };
        let reason = self.kind.reason();
        Some(Fault { kind, reason })
    }
}

impl InterruptionKind {
    /// In words. "cannot connect" is left out, because callers that quote it say so themselves.
    pub fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason) => reason.clone(),
            kind => kind.to_string(),
        }
    }
}

impl From<Broken> for InterruptionKind {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Ended => Self::Lost,
            Broken::TooLarge(limit) => Self::TooLarge(limit),
            Broken::Asked => Self::Asked,
        }
    }
}

/// A request on its way. Yields the server's messages about it in the order they were written; the
/// last one is the response.
#[derive(Debug)]
pub struct Exchange {
    /// Our id of the request, and its progress token if it has one.
    pub id: u64,
    pub(super) way: Way,
    /// Counts as work that keeps the server busy, where it is a call.
    pub(super) in_flight: Option<InFlight>,
}

#[derive(Debug)]
pub(super) enum Way {
    Piped {
        ticket: Ticket,
        writer: Arc<LineWriter>,
        mark: Mark,
    },
    Http(Box<HttpExchange>),
    Modern(Box<ModernExchange>),
    Posted(Box<Posted>),
}

impl Exchange {
    pub(super) fn over(way: Way, id: u64) -> Self {
        Self {
            id,
            way,
            in_flight: None,
        }
    }

    /// Reads no more of the answer than `budget` has. Where all answers come on one stream, whole
    /// messages are counted instead: see [`Exchange::answer_within`].
    fn count(&mut self, budget: &Budget) {
        match &mut self.way {
            Way::Http(exchange) => exchange.count(budget.clone()),
            Way::Modern(exchange) => exchange.count(budget.clone()),
            Way::Piped { .. } | Way::Posted(_) => {}
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
    pub async fn next(&mut self) -> Result<Said, Interruption> {
        let said = self.read().await;
        if let Some(in_flight) = &self.in_flight {
            match &said {
                Ok(Said::Message(frame)) if frame.method().is_none() => in_flight.answered(),
                Ok(_) => {}
                Err(interruption) => in_flight.interrupted(interruption),
            }
        }
        said
    }

    async fn read(&mut self) -> Result<Said, Interruption> {
        match &mut self.way {
            Way::Piped {
                ticket,
                writer,
                mark,
            } => ticket.next().await.map_err(|broken| {
                let sent = writer.has_begun(*mark);
                let state = if sent {
                    CallState::Sent
                } else {
                    CallState::NotSent
                };
                Interruption {
                    state,
                    kind: broken.into(),
                }
            }),
            Way::Http(exchange) => exchange.next().await,
            Way::Modern(exchange) => exchange.next().await,
            Way::Posted(posted) => posted.next().await,
        }
    }

    /// The request has run out of time; see [`InFlight::timed_out`].
    pub async fn timed_out(&mut self, policy: &Policy, pid: Option<u32>) {
        if let Some(in_flight) = &self.in_flight {
            let cpu = pid.map(|pid| move || cpu_time(pid));
            in_flight.timed_out(policy, cpu).await;
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
            Way::Piped { .. } | Way::Posted(_) => false,
        }
    }

    /// The HTTP status of the answer, where it means something: a modern server's, which a transparent
    /// path copies.
    pub fn http_status(&self) -> Option<u16> {
        match &self.way {
            Way::Modern(exchange) => exchange.status(),
            Way::Http(_) | Way::Piped { .. } | Way::Posted(_) => None,
        }
    }

    /// The response, where nothing but the response is of interest.
    pub async fn response(mut self) -> Result<Frame, Interruption> {
        self.answer().await
    }

    /// The answer, for callers that may not wait for it. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Result<Frame, Interruption> {
        loop {
            // A question is refused: it is dropped.
            if let Said::Message(frame) = self.next().await?
                && frame.method().is_none()
            {
                return Ok(frame);
            }
        }
    }
}

/// `notifications/cancelled` for our request `id`.
pub(super) fn cancelled(server: &ServerName, id: u64, reason: &str) -> String {
    tracing::debug!(%server, id, reason, "cancelling a request");
    let reason = message::quote(reason);
    message::request(
        None,
        "notifications/cancelled",
        Some(&format!(r#"{{"requestId":{id},"reason":{reason}}}"#)),
    )
}
