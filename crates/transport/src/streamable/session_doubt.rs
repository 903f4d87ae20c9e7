//! Decides whether a refused request puts its session in doubt.
//!
//! A server that does not know a session must answer HTTP 404 (specification 2025-11-25, "Session
//! Management"). Many servers give another answer: 400 with an error of `id: null`, 410, 500, or an error
//! under 200. Such an answer may also be about the request alone. Mainstay therefore requests proof of the
//! session ([`SessionProof`]).

use std::time::Duration;

use mainstay_core::{
    era::{Capabilities, code},
    message::{self, Method},
};

use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{CallState, Frame, Interruption, InterruptionKind, streamable::http_exchange::Purpose};

/// The time limit for the answer to the proof. If the server takes longer, the session is kept.
const PROOF_LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of bytes of the proof that are read. A longer answer is a list, so the session lives.
pub const MAX_PROOF: usize = 64 * 1024;

/// The time after a proof in which the same session needs no other proof.
const PROOF_PAUSE: Duration = Duration::from_secs(1);

/// The error code by which SDKs report an unknown session.
const SESSION_NOT_FOUND: i64 = -32001;

/// Words in error texts about sessions, in lower case. `initializ` is in "not initialized" and "before
/// initialization".
const SESSION_WORDS: [&str; 3] = ["session", "initializ", "initialis"];

/// The reason that a session is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionDoubt {
    /// The server has ended the session.
    Ended,
    /// The server may have forgotten the session.
    Refused(Refused),
}

impl SessionDoubt {
    /// True if the text of the refusal is about a session.
    pub fn is_about_session(&self) -> bool {
        matches!(self, Self::Refused(refused) if is_about_session(refused.error.as_ref()))
    }
}

/// A refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    status: u16,
    /// Code and message of the JSON-RPC error, if there is one.
    error: Option<(i64, String)>,
    /// True if the refusal has the id of the request. Then it may be about the request alone.
    names_request: bool,
    /// The state of the request if the session is lost.
    pub state: CallState,
}

/// Returns the doubt about the session that `answer` to the request `id` raises, or `None`.
///
/// An error with the id of the request comes from a program that has read the request, so the request may
/// have run. It has not run if the error is about the session.
pub fn doubt(
    status: u16,
    answer: &Result<Frame, Interruption>,
    id: u64,
    purpose: Purpose,
) -> Option<SessionDoubt> {
    let frame = match answer {
        Ok(frame) => frame,
        Err(Interruption {
            kind: InterruptionKind::Refused { body, .. },
            ..
        }) => return refused_by_status(status, None, body),
        // The answer may be a web page of a proxy in front of the server.
        Err(Interruption {
            kind: InterruptionKind::Unreadable(_),
            ..
        }) => {
            return Some(SessionDoubt::Refused(Refused {
                status,
                error: None,
                names_request: false,
                state: CallState::Sent,
            }));
        }
        Err(_) => return None,
    };
    let error = frame.error()?;
    let code = frame.error_code().unwrap_or_default();
    let words = message::text_member(error, "message").unwrap_or_default();
    let error = Some((code, words.into_owned()));
    if !frame.names(id) {
        return refused_by_status(status, error, "");
    }
    match status {
        404 if code == SESSION_NOT_FOUND => return Some(SessionDoubt::Ended),
        // The server has answered this request, so it knows the session.
        404 => return None,
        _ => {}
    }
    let is_about_session = is_about_session(error.as_ref());
    let is_doubtful = match (code, purpose) {
        (code::METHOD_NOT_FOUND, _) => false,
        _ if is_about_session => true,
        // A live session answers `ping` with a result.
        (_, Purpose::Ping) => true,
        (_, Purpose::Own) => false,
        (code::INVALID_REQUEST, Purpose::Call | Purpose::Proof) => true,
        (
            code::RESOURCE_NOT_FOUND | code::URL_ELICITATION_REQUIRED,
            Purpose::Call | Purpose::Proof,
        ) => false,
        // Codes that servers define themselves (JSON-RPC 2.0, section 5.1).
        (-32099..=-32000, Purpose::Call | Purpose::Proof) => true,
        (_, Purpose::Call | Purpose::Proof) => false,
    };
    let state = if is_about_session {
        CallState::NotSent
    } else {
        CallState::Sent
    };
    let refused = Refused {
        status,
        error,
        names_request: true,
        state,
    };
    is_doubtful.then_some(SessionDoubt::Refused(refused))
}

/// The doubt after an answer that identifies no request. `body` is the answer's text if it is not a message.
fn refused_by_status(
    status: u16,
    error: Option<(i64, String)>,
    body: &str,
) -> Option<SessionDoubt> {
    let is_about_session = is_about_session(error.as_ref()) || has_session_words(body);
    let state = match status {
        404 | 410 => return Some(SessionDoubt::Ended),
        200..300 | 400 => CallState::NotSent,
        401 | 403 if is_about_session => CallState::NotSent,
        // These statuses are about credentials, time, size, or a proxy.
        401 | 403 | 407 | 408 | 413 | 414 | 429 | 431 => return None,
        402..=500 => CallState::Sent,
        _ => return None,
    };
    Some(SessionDoubt::Refused(Refused {
        status,
        error,
        names_request: false,
        state,
    }))
}

fn is_about_session(error: Option<&(i64, String)>) -> bool {
    error.is_some_and(|(_, words)| has_session_words(words))
}

fn has_session_words(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    SESSION_WORDS.iter().any(|word| words.contains(word))
}

impl Refused {
    /// True if this is a JSON-RPC error without the id of the request. The error of a failed tool has the id.
    pub fn is_unaddressed_error(&self) -> bool {
        self.error.is_some() && !self.names_request
    }

    /// The line for the server's log after the session is lost.
    pub fn log_line(&self) -> String {
        format!("the server does not know its session any more: it answered {self}")
    }

    /// The refusal of a message or a stream with this status. `None` if the status says nothing about the
    /// session.
    pub fn of_status(status: u16) -> Option<Self> {
        match refused_by_status(status, None, "")? {
            SessionDoubt::Refused(refused) => Some(refused),
            SessionDoubt::Ended => Some(Self {
                status,
                error: None,
                names_request: false,
                state: CallState::NotSent,
            }),
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        match &self.error {
            Some((code, words)) => write!(f, " with error {code}: {words}"),
            None => Ok(()),
        }
    }
}

/// Shares one proof among all requests that put a session in doubt at the same time.
#[derive(Debug, Default)]
pub struct ProofTurns {
    /// Time of the last proof. Locked while proof is awaited, so that other requests wait.
    proved_at: Mutex<Option<Instant>>,
}

impl ProofTurns {
    /// Resolves to `true` if the session is lost. `shows_loss` requests the proof. It is not polled if the
    /// session `is_over`, or if the last proof is recent.
    pub async fn is_lost(
        &self,
        is_over: impl Fn() -> bool,
        shows_loss: impl Future<Output = bool>,
    ) -> bool {
        let mut proved_at = self.proved_at.lock().await;
        if is_over() {
            return true;
        }
        if proved_at.is_some_and(|at| at.elapsed() < PROOF_PAUSE) {
            return false;
        }
        let is_lost = timeout(PROOF_LIMIT, shows_loss).await.unwrap_or(false);
        if !is_lost {
            *proved_at = Some(Instant::now());
        }
        is_lost
    }
}

/// The method whose answer proves that a server still knows a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProof(Method);

impl SessionProof {
    /// The proof after a refused list request: another list may fail for the same reason.
    pub const PING: Self = Self(Method::Ping);

    /// The proof for these capabilities: a list that the server declares, else `ping`. `ping` is weaker,
    /// because some servers answer it to any client.
    pub fn for_capabilities(declared: Capabilities) -> Self {
        Self(match declared {
            Capabilities { tools: true, .. } => Method::ToolsList,
            Capabilities { prompts: true, .. } => Method::PromptsList,
            Capabilities {
                resources: true, ..
            } => Method::ResourcesList,
            _ => Method::Ping,
        })
    }

    pub fn method(self) -> Method {
        self.0
    }

    /// True if `doubt`, from the answer to the proof, shows that the session is lost. `doubted` is the
    /// refusal that led to the proof. A list that fails for its own reasons is not a loss of the session.
    pub fn shows_loss(doubt: Option<&SessionDoubt>, doubted: &Refused) -> bool {
        match doubt {
            None => false,
            Some(SessionDoubt::Ended) => true,
            Some(SessionDoubt::Refused(refused)) => {
                !refused.names_request
                    || is_about_session(refused.error.as_ref())
                    || refused.error == doubted.error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u64 = 7;

    /// The doubt about a session after an answer with this status and body, as a word.
    fn word(status: u16, body: &str, purpose: Purpose) -> &'static str {
        let bytes = bytes::Bytes::copy_from_slice(body.as_bytes());
        let read = Frame::of_server(bytes.clone());
        let answer = crate::http::http_client::answer(status, &bytes, read, ID);
        match doubt(status, &answer, ID, purpose) {
            None => "lives",
            Some(SessionDoubt::Ended) => "ended",
            Some(SessionDoubt::Refused(refused)) => match refused.state {
                CallState::NotSent => "doubtful, not run",
                CallState::Sent => "doubtful, may have run",
            },
        }
    }

    fn error(id: &str, code: i64, message: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    }

    #[test]
    fn refusals_that_belong_to_no_request_put_the_session_in_doubt() {
        let no_session = "Bad Request: No valid session ID provided";
        for (status, body, expected) in [
            (404, "session not found".to_owned(), "ended"),
            (410, String::new(), "ended"),
            (404, error("null", -32000, no_session), "ended"),
            (404, error("7", -32001, "Session not found"), "ended"),
            (404, error("7", -32601, "Method not found"), "lives"),
            (400, error("null", -32000, no_session), "doubtful, not run"),
            (400, "Invalid session".to_owned(), "doubtful, not run"),
            (200, error("null", -32000, no_session), "doubtful, not run"),
            (200, error("7", -32000, no_session), "doubtful, not run"),
            (200, error("7", -32600, "no"), "doubtful, may have run"),
            (
                200,
                error("7", -32000, "Connection closed"),
                "doubtful, may have run",
            ),
            (
                200,
                error("7", -32602, "Server not initialized"),
                "doubtful, not run",
            ),
            (200, error("7", -32602, "a is missing"), "lives"),
            (200, error("7", -32603, "it broke"), "lives"),
            (200, error("7", -32002, "no such resource"), "lives"),
            (200, error("7", 42, "an own code"), "lives"),
            (
                500,
                "Cannot read properties".to_owned(),
                "doubtful, may have run",
            ),
            (409, "conflict".to_owned(), "doubtful, may have run"),
            (401, String::new(), "lives"),
            (
                403,
                "Forbidden: invalid session".to_owned(),
                "doubtful, not run",
            ),
            (
                403,
                error("null", -32000, "unknown session"),
                "doubtful, not run",
            ),
            (403, String::new(), "lives"),
            (429, String::new(), "lives"),
            (503, String::new(), "lives"),
            (
                200,
                r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
                "lives",
            ),
        ] {
            assert_eq!(
                word(status, &body, Purpose::Call),
                expected,
                "{status} {body}"
            );
        }
    }

    /// A live session answers `ping`, but some servers do not know the method. A list may fail for its own
    /// reasons.
    #[test]
    fn a_ping_that_is_refused_puts_the_session_in_doubt() {
        for (code, message, ping, list) in [
            (-32603, "no", "doubtful, may have run", "lives"),
            (
                -32000,
                "the disk is full",
                "doubtful, may have run",
                "lives",
            ),
            (
                -32000,
                "no session",
                "doubtful, not run",
                "doubtful, not run",
            ),
            (-32601, "no", "lives", "lives"),
        ] {
            let body = error("7", code, message);
            assert_eq!(word(200, &body, Purpose::Ping), ping, "{body}");
            assert_eq!(word(200, &body, Purpose::Own), list, "{body}");
        }
    }

    #[test]
    fn a_session_is_lost_if_its_proof_is_refused_alike() {
        let refused = |status, body: &str, purpose| {
            let bytes = bytes::Bytes::copy_from_slice(body.as_bytes());
            let read = Frame::of_server(bytes.clone());
            let answer = crate::http::http_client::answer(status, &bytes, read, ID);
            doubt(status, &answer, ID, purpose)
        };
        let gone = error("7", -32000, "gone");
        let Some(SessionDoubt::Refused(doubted)) = refused(200, &gone, Purpose::Call) else {
            panic!("no doubt");
        };
        for (status, body, is_lost) in [
            (200, error("7", -32000, "gone"), true),
            (200, error("7", -32000, "the database is down"), false),
            (200, error("7", -32600, "no session"), true),
            (400, "no".to_owned(), true),
            (404, String::new(), true),
            (401, String::new(), false),
            (200, error("7", -32601, "Method not found"), false),
            (
                200,
                r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#.to_owned(),
                false,
            ),
        ] {
            let doubt = refused(status, &body, Purpose::Proof);
            let found = SessionProof::shows_loss(doubt.as_ref(), &doubted);
            assert_eq!(found, is_lost, "{status} {body}");
        }
    }
}
