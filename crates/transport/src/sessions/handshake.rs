//! The handshake with a process: `server/discover`, `initialize`, or one after the other.

use std::time::Duration;

use mainstay_core::{
    era::{Era, Eras, Greeting},
    lifecycle::Loss,
    message::Method,
};
use tokio::time::timeout;

use crate::{
    Approach, Budget, Exchange, Frame, InterruptionKind, Opening, Unopened,
    detect::{self, Found, PIPE_LIMIT},
    exchanges::link::Link,
    opening::MAX_GREETING,
    sessions::initialize::Initialize,
};

/// How long a server that has answered `server/discover` may take to answer `initialize`, before it is started
/// again without `server/discover`.
const SPOILED_LIMIT: Duration = Duration::from_secs(10);

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
    Gone,
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
            Discovered::Pending(_) => Err(Ungreeted::Gone),
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
                Discovered::Legacy(eras) => shake.initialize_after_probe(eras).await,
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

/// Waits for the answer to a request of the handshake. If the answer is too large, or is the request itself, the
/// server is refused.
/// Any other error means that the process is ending.
async fn answer(exchange: &mut Exchange) -> Result<Frame, Ungreeted> {
    let answered = exchange.answer_within(&Budget::new(MAX_GREETING)).await;
    answered.map_err(|interruption| match interruption.kind {
        InterruptionKind::TooLarge(_) | InterruptionKind::Echoed => {
            let loss = Loss::Rejected(interruption.to_string());
            Ungreeted::Refused(loss.into())
        }
        _ => Ungreeted::Gone,
    })
}

impl Handshake<'_> {
    async fn ask(&self) -> Result<Exchange, Ungreeted> {
        let render = |id: &str| detect::own_request(Era::Modern, id, Method::Discover, None);
        let asked = self.link.ask(Method::Discover, render).await;
        asked.map_err(|_| Ungreeted::Gone)
    }

    async fn discover(&self, limit: Option<Duration>) -> Result<Discovered, Ungreeted> {
        let mut probe = self.ask().await?;
        let answered = match limit {
            Some(limit) => timeout(limit, answer(&mut probe)).await.ok(),
            None => Some(answer(&mut probe).await),
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
            frame = answer(&mut self.ask().await?).await?;
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

    /// Greets the server, and again for another revision where it refuses the one that was asked for. `eras` is
    /// what is known by now.
    async fn initialize(&self, eras: Eras) -> Result<Greeted, Ungreeted> {
        let mut initialize = Initialize::of(self.opening);
        let mut first_refusal = None;
        loop {
            let asked = self
                .link
                .ask(Method::Initialize, |id| initialize.request(id))
                .await;
            let gone = |_| Ungreeted::Gone;
            let answer = answer(&mut asked.map_err(gone)?).await?;
            let loss = match detect::read_greeting(&answer) {
                Ok(greeting) => {
                    let eras = Eras {
                        legacy: Some(true),
                        ..eras
                    };
                    return Ok(Greeted {
                        greeting,
                        answer,
                        eras,
                    });
                }
                Err(loss) => loss,
            };
            let refused = detect::refused_initialize(&answer, loss);
            let steps_down = match &refused.loss {
                Loss::Rejected(reason) => initialize.step_down(reason),
                _ => false,
            };
            // The first refusal says which revisions the server speaks.
            let refused = first_refusal.get_or_insert(refused);
            if !steps_down {
                let eras = refused.eras.or(eras);
                return Err(Unopened {
                    eras,
                    ..refused.clone()
                }
                .into());
            }
        }
    }

    /// Greets a server that has answered the probe. One that falls silent then may have been spoiled by it.
    async fn initialize_after_probe(&self, eras: Eras) -> Result<Greeted, Ungreeted> {
        let silent = || {
            let reason = "it answered server/discover, and does not answer initialize";
            Err(Unopened::from(Loss::Unresponsive(reason.to_owned())).into())
        };
        let initializing = self.initialize(eras);
        let greeted = timeout(SPOILED_LIMIT, initializing).await;
        greeted.unwrap_or_else(|_| silent())
    }

    /// A process that has not answered the probe may not understand it, or not have started yet.
    async fn initialize_beside(&self, mut probe: Box<Exchange>) -> Result<Greeted, Ungreeted> {
        let silent = Eras {
            modern: Some(false),
            legacy: None,
        };
        let refused = match self.initialize(silent).await {
            Err(Ungreeted::Refused(refused)) => refused,
            other => return other,
        };
        match timeout(PIPE_LIMIT, answer(&mut probe)).await {
            Ok(Ok(answer)) => match self.found(answer).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(_) | Discovered::Pending(_) => Err(refused.into()),
            },
            Ok(Err(_)) | Err(_) => Err(refused.into()),
        }
    }
}
