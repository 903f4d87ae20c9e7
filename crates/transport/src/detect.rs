//! Detects the era of a server by its answer to `server/discover` (specification 2026-07-28, "Backward
//! Compatibility" of both transports).

use std::time::Duration;

use mainstay_core::{
    era::{Caller, Era, Eras, Greeting, InvalidGreeting, Revision, modern, request::to_modern},
    lifecycle::Loss,
    message::{self, Method},
};

use crate::Frame;

/// The time limit of `server/discover` over stdio. Some processes ignore unknown requests, so Mainstay then
/// sends `initialize`. A process that starts slowly may still answer `server/discover` later.
pub const PIPE_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of `server/discover` over HTTP. A server may never answer a request without a session. The
/// limit allows for a slow network and a cold start.
pub const POST_LIMIT: Duration = Duration::from_secs(5);

/// The request that opens a session: `initialize`, or `server/discover`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    Legacy,
    Modern,
    /// Detect the era. A known era is tried first, and the other one only if that fails.
    Detect(Option<Era>),
}

/// The reason that a session was not opened, and what the attempt showed about the server's eras.
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

/// The evidence in an answer to `server/discover`.
#[derive(Debug)]
pub enum Evidence {
    Modern(Greeting),
    /// The server refuses the revision of the request and offers these revisions.
    Offers(Vec<Revision>),
    /// The server is modern and refuses a session. The text is its reason.
    Refuses(String),
    /// The answer does not show that the server is modern.
    None,
}

/// Evaluates an answer to `server/discover`. Only answers that no legacy server gives are evidence. Legacy
/// servers answer unknown requests with any error, or with an empty result.
pub fn evidence(answer: &Frame) -> Evidence {
    if let Some(result) = answer.result() {
        return match Greeting::discovered(result) {
            Ok(greeting) if greeting.revision.era() == Era::Modern => Evidence::Modern(greeting),
            Ok(greeting) => Evidence::Offers(greeting.supported),
            Err(error @ InvalidGreeting::Revision(_)) => Evidence::Refuses(error.to_string()),
            Err(InvalidGreeting::Shape | InvalidGreeting::NotDiscovered) => Evidence::None,
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

/// The era that the answers show. If the first answer offers a modern revision, the second answer decides.
#[derive(Debug)]
pub enum DetectedEra {
    Modern(Greeting),
    /// Send `initialize` next. The eras are known if the server has named its revisions.
    Legacy(Eras),
    Refused(Unopened),
}

impl Evidence {
    /// True if the server refused a revision and offers a modern one. The caller then sends `server/discover`
    /// again.
    pub fn is_offer(&self) -> bool {
        matches!(self, Self::Offers(offered) if offered.iter().any(|revision| revision.era() == Era::Modern))
    }

    /// Decides the era. `self` is the evidence in the last answer.
    pub fn settle(self) -> DetectedEra {
        let refused = |reason| {
            let eras = Eras {
                modern: Some(true),
                legacy: None,
            };
            DetectedEra::Refused(Unopened {
                loss: Loss::Rejected(reason),
                eras,
            })
        };
        match self {
            Self::Modern(greeting) => DetectedEra::Modern(greeting),
            Self::None => DetectedEra::Legacy(Eras {
                modern: Some(false),
                legacy: None,
            }),
            offer @ Self::Offers(_) if offer.is_offer() => {
                refused("the server refuses the protocol revision that it offers".to_owned())
            }
            // The server knows `server/discover`, but offers only legacy revisions.
            Self::Offers(_) => DetectedEra::Legacy(Eras::only(Era::Legacy)),
            Self::Refuses(reason) => refused(reason),
        }
    }
}

/// The eras that a server speaks according to its greeting.
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

/// Combines the loss of a refused `initialize` with the eras that the error shows. Some errors come only from
/// modern servers.
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
        Era::Modern => to_modern(&text, &mainstay_caller()),
    }
}

/// Mainstay as a caller. It declares no capability for questions, because no person is behind Mainstay's own
/// requests.
fn mainstay_caller() -> Caller {
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
            DetectedEra::Modern(greeting) => format!("modern {}", greeting.revision),
            DetectedEra::Legacy(eras) => format!("legacy {:?}", eras.legacy),
            DetectedEra::Refused(unopened) => {
                assert_eq!(unopened.eras.first(), Some(Era::Modern));
                format!("refused: {}", unopened.loss)
            }
        };
        (offer, found)
    }

    /// Covers every kind of first answer, with and without evidence of the era.
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
        // The first such answer is an offer. The second one is a refusal, and `initialize` does not follow.
        let offers = error(-32022, r#"{"supported":["2025-11-25","2026-07-28"]}"#);
        let (offer, found) = settled(&offers);
        assert!(offer && found.starts_with("refused: "), "{found}");
    }
}
