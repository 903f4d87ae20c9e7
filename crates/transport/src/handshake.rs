//! The handshake with a process: `server/discover`, `initialize`, or one after the other.

use std::time::Duration;

use mainstay_core::{
    era::{Era, Eras, Greeting},
    lifecycle::Loss,
    message::Method,
};
use tokio::time::timeout;

use super::{
    Approach, Budget, Exchange, Frame, InterruptionKind, Opening, Unopened,
    detect::{self, Found, PIPE_LIMIT},
    link::Link,
    opening::MAX_GREETING,
};

/// A server that has greeted.
pub struct Greeted {
    pub greeting: Greeting,
    pub answer: Frame,
    pub eras: Eras,
}

/// Why a server has not greeted.
pub enum Ungreeted {
    Refused(Unopened),
    /// The process is ending. Its exit says more than the end of its pipe.
    Gone {
        /// The last request was `server/discover`, which it may not have understood.
        probed: bool,
    },
}

impl From<Unopened> for Ungreeted {
    fn from(unopened: Unopened) -> Self {
        Self::Refused(unopened)
    }
}

pub async fn shake_hands(link: &Link, opening: &Opening) -> Result<Greeted, Ungreeted> {
    let shake = Handshake { link, opening };
    match opening.approach {
        Approach::Legacy => shake.initialize(Eras::UNKNOWN).await,
        Approach::Modern => match shake.discover(None).await? {
            Discovered::Modern(greeted) => Ok(*greeted),
            Discovered::Legacy(eras) => Err(Unopened {
                loss: Loss::Rejected("the server does not answer server/discover".to_owned()),
                eras,
            }
            .into()),
            // Without a limit there is an answer.
            Discovered::Pending(_) => Err(Ungreeted::Gone { probed: false }),
        },
        Approach::Detect(Some(Era::Legacy)) => {
            let refused = match shake.initialize(Eras::UNKNOWN).await {
                Err(Ungreeted::Refused(refused)) => refused,
                other => return other,
            };
            // The server may have changed its era.
            match shake.discover(Some(PIPE_LIMIT)).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(_) | Discovered::Pending(_) => Err(refused.into()),
            }
        }
        Approach::Detect(known) => {
            let limit = known.is_none().then_some(PIPE_LIMIT);
            match shake.discover(limit).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(eras) => shake.initialize(eras).await,
                Discovered::Pending(probe) => shake.initialize_beside(probe).await,
            }
        }
    }
}

enum Discovered {
    Modern(Box<Greeted>),
    Legacy(Eras),
    /// No answer yet.
    Pending(Box<Exchange>),
}

struct Handshake<'a> {
    link: &'a Link,
    opening: &'a Opening,
}

/// Waits for the answer to a request of the handshake. If the answer is too large, the server is refused.
/// Any other error means that the process is ending.
async fn answer(exchange: &mut Exchange, probed: bool) -> Result<Frame, Ungreeted> {
    let answered = exchange.answer_within(&Budget::new(MAX_GREETING)).await;
    answered.map_err(|interruption| match interruption.kind {
        InterruptionKind::TooLarge(_) => {
            let loss = Loss::Rejected(interruption.to_string());
            Ungreeted::Refused(loss.into())
        }
        _ => Ungreeted::Gone { probed },
    })
}

impl Handshake<'_> {
    async fn ask(&self) -> Result<Exchange, Ungreeted> {
        let render = |id: &str| detect::own_request(Era::Modern, id, Method::Discover, None);
        let asked = self.link.start(None, render).await;
        asked.map_err(|_| Ungreeted::Gone { probed: true })
    }

    async fn discover(&self, limit: Option<Duration>) -> Result<Discovered, Ungreeted> {
        let mut probe = self.ask().await?;
        let answered = match limit {
            Some(limit) => timeout(limit, answer(&mut probe, true)).await.ok(),
            None => Some(answer(&mut probe, true).await),
        };
        match answered {
            None => Ok(Discovered::Pending(Box::new(probe))),
            Some(answer) => self.found(answer?).await,
        }
    }

    /// What follows from an answer to the probe.
    async fn found(&self, mut frame: Frame) -> Result<Discovered, Ungreeted> {
        let mut evidence = detect::evidence(&frame);
        if evidence.is_offer() {
            frame = answer(&mut self.ask().await?, false).await?;
            evidence = detect::evidence(&frame);
        }
        match evidence.settle() {
            Found::Modern(greeting) => Ok(Discovered::Modern(Box::new(Greeted {
                eras: detect::eras_of(&greeting),
                greeting,
                answer: frame,
            }))),
            Found::Legacy(eras) => Ok(Discovered::Legacy(eras)),
            Found::Refused(refused) => Err(refused.into()),
        }
    }

    /// `eras` is what is known by now.
    async fn initialize(&self, eras: Eras) -> Result<Greeted, Ungreeted> {
        let params = &self.opening.initialize;
        let asked = self.link.start(None, |id| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
        });
        let gone = |_| Ungreeted::Gone { probed: false };
        let answer = answer(&mut asked.await.map_err(gone)?, false).await?;
        let greeting = detect::read_greeting(&answer).map_err(|loss| {
            let refused = detect::refused_initialize(&answer, loss);
            let eras = refused.eras.or(eras);
            Unopened { eras, ..refused }
        })?;
        let eras = Eras {
            legacy: Some(true),
            ..eras
        };
        Ok(Greeted {
            greeting,
            answer,
            eras,
        })
    }

    /// A process that has not answered the probe may not understand it, or not have started yet.
    async fn initialize_beside(&self, mut probe: Box<Exchange>) -> Result<Greeted, Ungreeted> {
        let silent = Eras {
            modern: Some(false),
            legacy: None,
        };
        let refused = match self.initialize(silent).await {
            Err(Ungreeted::Refused(refused)) => refused,
            // The last request that it read may have been the probe.
            Err(Ungreeted::Gone { .. }) => return Err(Ungreeted::Gone { probed: true }),
            Ok(greeted) => return Ok(greeted),
        };
        match timeout(PIPE_LIMIT, answer(&mut probe, true)).await {
            Ok(Ok(answer)) => match self.found(answer).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(_) | Discovered::Pending(_) => Err(refused.into()),
            },
            Ok(Err(_)) | Err(_) => Err(refused.into()),
        }
    }
}
