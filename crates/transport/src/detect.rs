//! Detects the era of a server by its answer to `server/discover` (specification 2026-07-28, "Backward
//! Compatibility" of both transports).

use std::time::Duration;

use mainstay_core::{
    era::{Caller, Era, Eras, Greeting, Revision, Unwelcome, modern, request::to_modern},
    lifecycle::Loss,
    message::{self, Method},
};

use crate::Frame;

/// Some processes ignore requests that they do not know: after this time `initialize` follows
/// `server/discover`. The latter may still be answered, because a process may take long to start.
pub const PIPE_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of `server/discover` over HTTP, where a server may let a request without a session hang.
/// It allows for a network and a cold start.
pub const POST_LIMIT: Duration = Duration::from_secs(5);

/// The request that opens a session: `initialize`, or `server/discover`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    Legacy,
    Modern,
    /// Detect the era. The known era is tried first, and the other one only if that fails.
    Detect(Option<Era>),
}

/// Why a server was not opened, and what was learned about it nevertheless.
#[derive(Clone, Debug)]
pub struct Unopened {
    pub loss: Loss,
    pub eras: Eras,
}

impl From<Loss> for Unopened {
    fn from(loss: Loss) -> Self {
        Self {
            loss,
            eras: Eras::UNKNOWN,
        }
    }
}

/// What an answer to `server/discover` shows.
#[derive(Debug)]
pub enum Evidence {
    Modern(Greeting),
    /// The server offers these revisions instead of the one it was asked in.
    Offers(Vec<Revision>),
    /// The server is modern, and no session is possible for this reason.
    Refuses(String),
    /// The answer is not one of a modern server.
    None,
}

/// Only answers that no legacy server gives are evidence. Legacy servers answer unknown requests with any
/// error, or with an empty result.
pub fn evidence(answer: &Frame) -> Evidence {
    if let Some(result) = answer.result() {
        return match Greeting::discovered(result) {
            Ok(greeting) if greeting.revision.era() == Era::Modern => Evidence::Modern(greeting),
            Ok(greeting) => Evidence::Offers(greeting.supported),
            Err(error @ Unwelcome::Revision(_)) => Evidence::Refuses(error.to_string()),
            Err(Unwelcome::Shape | Unwelcome::NotDiscovered) => Evidence::None,
        };
    }
    match answer.error() {
        Some(error) if modern::is_modern_error(error) => {
            let offered = modern::offered_instead(error);
            if offered.is_empty() {
                Evidence::Refuses(format!("the server answered {error}"))
            } else {
                Evidence::Offers(offered)
            }
        }
        _ => Evidence::None,
    }
}

/// What follows from the first answer and, where the server offers what it was asked in, the second.
#[derive(Debug)]
pub enum Found {
    Modern(Greeting),
    /// `initialize` is next. The server may have named its revisions.
    Legacy(Eras),
    Refused(Unopened),
}

impl Evidence {
    /// Whether the server is to be asked once more: it offers what it has just refused.
    pub fn is_offer(&self) -> bool {
        matches!(self, Self::Offers(offered) if offered.iter().any(|revision| revision.era() == Era::Modern))
    }

    /// What follows from the last answer.
    pub fn settle(self) -> Found {
        let refused = |reason| {
            let eras = Eras {
                modern: Some(true),
                legacy: None,
            };
            Found::Refused(Unopened {
                loss: Loss::Rejected(reason),
                eras,
            })
        };
        match self {
            Self::Modern(greeting) => Found::Modern(greeting),
            Self::None => Found::Legacy(Eras {
                modern: Some(false),
                legacy: None,
            }),
            offer @ Self::Offers(_) if offer.is_offer() => {
                refused("the server refuses the protocol revision that it offers".to_owned())
            }
            // The server knows `server/discover`, and wants `initialize`.
            Self::Offers(_) => Found::Legacy(Eras::only(Era::Legacy)),
            Self::Refuses(reason) => refused(reason),
        }
    }
}

/// What is known of a server with this greeting.
pub fn eras_of(greeting: &Greeting) -> Eras {
    Eras::named(&greeting.supported)
}

/// Reads the answer to `initialize`.
pub fn read_greeting(answer: &Frame) -> Result<Greeting, Loss> {
    match answer.result() {
        Some(result) => Greeting::read(result).map_err(|error| Loss::Rejected(error.to_string())),
        None => Err(Loss::Rejected(format!(
            "the server answered {}",
            answer.error().unwrap_or("nothing")
        ))),
    }
}

/// Why a refused `initialize` opened no session. An error that only modern servers have shows the era.
pub fn refused_initialize(answer: &Frame, loss: Loss) -> Unopened {
    let is_modern = answer.error().is_some_and(modern::is_modern_error);
    let eras = if is_modern {
        Eras::only(Era::Modern)
    } else {
        Eras::UNKNOWN
    };
    Unopened { loss, eras }
}

/// A request of Mainstay's own, as JSON text. In modern sessions its `_meta` describes Mainstay.
pub fn own_request(era: Era, id: &str, method: Method, params: Option<&str>) -> String {
    let params = params
        .map(|params| format!(r#","params":{params}"#))
        .unwrap_or_default();
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":{}{params}}}"#,
        message::quote(method.name())
    );
    match era {
        Era::Legacy => text,
        Era::Modern => to_modern(&text, &ourselves()),
    }
}

/// Nothing that asks a person is declared: Mainstay's own requests have no person behind them.
fn ourselves() -> Caller {
    let info = format!(
        r#"{{"name":"mainstay","version":"{}"}}"#,
        env!("CARGO_PKG_VERSION")
    );
    Caller {
        client_info: Some(info.into()),
        ..Caller::at(Revision::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(body: &str) -> (bool, String) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#);
        let answer = Frame::read(text.into()).expect("a response");
        let evidence = evidence(&answer);
        let offer = evidence.is_offer();
        let found = match evidence.settle() {
            Found::Modern(greeting) => format!("modern {}", greeting.revision),
            Found::Legacy(eras) => format!("legacy {:?}", eras.legacy),
            Found::Refused(unopened) => {
                assert_eq!(unopened.eras.first(), Some(Era::Modern));
                format!("refused: {}", unopened.loss)
            }
        };
        (offer, found)
    }

    /// Protocol brief, section 2: every row of "Detecting a backend's era".
    #[test]
    fn only_modern_words_are_evidence() {
        let error = |code: i64, data: &str| {
            format!(r#""error":{{"code":{code},"message":"no","data":{data}}}"#)
        };
        let result = |versions: &str| {
            format!(r#""result":{{"supportedVersions":{versions},"capabilities":{{}}}}"#)
        };
        for (body, expected) in [
            (result(r#"["2026-07-28"]"#), "modern 2026-07-28"),
            (
                result(r#"["2025-06-18","2026-07-28","2030-01-01"]"#),
                "modern 2026-07-28",
            ),
            (result(r#"["2025-06-18"]"#), "legacy Some(true)"),
            (r#""result":{}"#.to_owned(), "legacy None"),
            (
                r#""result":{"supportedVersions":"all"}"#.to_owned(),
                "legacy None",
            ),
            (error(-32601, "{}"), "legacy None"),
            (
                error(-32602, r#"{"supported":["2026-07-28"]}"#),
                "legacy None",
            ),
            (error(-32000, "{}"), "legacy None"),
            (
                error(-32022, r#"{"supported":["2025-11-25"]}"#),
                "legacy Some(true)",
            ),
        ] {
            assert_eq!(settled(&body), (false, expected.to_owned()), "{body}");
        }
        for body in [
            result(r#"["2030-01-01"]"#),
            error(-32020, "{}"),
            error(-32021, r#"{"requiredCapabilities":{"sampling":{}}}"#),
            error(-32022, r#"{"supported":["2030-01-01"]}"#),
        ] {
            let (offer, found) = settled(&body);
            assert!(!offer && found.starts_with("refused: "), "{body}: {found}");
        }
        // Asked once more; the second time it is a refusal, and `initialize` never follows.
        let offers = error(-32022, r#"{"supported":["2025-11-25","2026-07-28"]}"#);
        let (offer, found) = settled(&offers);
        assert!(offer && found.starts_with("refused: "), "{found}");
    }
}
