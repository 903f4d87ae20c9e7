//! The handshake with a process: `server/discover`, `initialize`, or both in turn.

use std::time::Duration;

use mainstay_core::{
    era::{Era, Eras, Greeting},
    lifecycle::Loss,
    message::Method,
};
use tokio::time::timeout;

use crate::{
    Approach, Budget, Exchange, Frame, InterruptionKind, Opening, Unopened,
    detect::{self, DetectedEra, PIPE_LIMIT},
    exchanges::link::UpstreamLink,
    opening::MAX_GREETING,
    sessions::initialize::Initialize,
};

/// The time limit for `initialize` after the server has answered `server/discover`. If the limit passes, the
/// server is started again without `server/discover`.
const SPOILED_LIMIT: Duration = Duration::from_secs(10);

/// The result of a successful handshake.
pub struct Greeted {
    pub greeting: Greeting,
    pub answer: Frame,
    pub eras: Eras,
}

/// The reason that a handshake failed.
pub enum Ungreeted {
    Refused(Unopened),
    /// The process is ending. The caller reports its exit status, which explains more than the end of the pipe.
    Gone,
}

impl From<Unopened> for Ungreeted {
    fn from(unopened: Unopened) -> Self {
        Self::Refused(unopened)
    }
}

pub async fn shake_hands(link: &UpstreamLink, opening: &Opening) -> Result<Greeted, Ungreeted> {
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
            // Without a time limit, `discover` never returns `Pending`.
            Discovered::Pending(_) => Err(Ungreeted::Gone),
        },
        Approach::Detect(Some(Era::Legacy)) => {
            let refused = match shake.initialize(Eras::UNKNOWN).await {
                Err(Ungreeted::Refused(refused)) => refused,
                other => return other,
            };
            // The server may have changed its era, so try the other one.
            match shake.discover(Some(PIPE_LIMIT)).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(_) | Discovered::Pending(_) => Err(refused.into()),
            }
        }
        Approach::Detect(era) => {
            let limit = era.is_none().then_some(PIPE_LIMIT);
            match shake.discover(limit).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(eras) => shake.initialize_after_probe(eras).await,
                Discovered::Pending(probe) => shake.initialize_during_probe(probe).await,
            }
        }
    }
}

enum Discovered {
    Modern(Box<Greeted>),
    Legacy(Eras),
    /// The answer to `server/discover` has not come yet.
    Pending(Box<Exchange>),
}

struct Handshake<'a> {
    link: &'a UpstreamLink,
    opening: &'a Opening,
}

/// Waits for the answer to a request of the handshake. The session is refused if the answer is too large or
/// repeats the request. Any other error means that the process is ending.
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
        let sent = self.link.ask(Method::Discover, render).await;
        sent.map_err(|_| Ungreeted::Gone)
    }

    async fn discover(&self, limit: Option<Duration>) -> Result<Discovered, Ungreeted> {
        let mut probe = self.ask().await?;
        let answered = match limit {
            Some(limit) => timeout(limit, answer(&mut probe)).await.ok(),
            None => Some(answer(&mut probe).await),
        };
        match answered {
            None => Ok(Discovered::Pending(Box::new(probe))),
            Some(answer) => self.interpret(answer?).await,
        }
    }

    /// Interprets an answer to `server/discover`. If the server refuses the revision and offers a modern one,
    /// sends the request again.
    async fn interpret(&self, mut frame: Frame) -> Result<Discovered, Ungreeted> {
        let mut evidence = detect::evidence(&frame);
        if evidence.is_offer() {
            frame = answer(&mut self.ask().await?).await?;
            evidence = detect::evidence(&frame);
        }
        match evidence.settle() {
            DetectedEra::Modern(greeting) => Ok(Discovered::Modern(Box::new(Greeted {
                eras: detect::eras_of(&greeting),
                greeting,
                answer: frame,
            }))),
            DetectedEra::Legacy(eras) => Ok(Discovered::Legacy(eras)),
            DetectedEra::Refused(refused) => Err(refused.into()),
        }
    }

    /// Sends `initialize`. If the server refuses the revision, sends it again with another one. `eras` holds
    /// the eras known so far.
    async fn initialize(&self, eras: Eras) -> Result<Greeted, Ungreeted> {
        let mut initialize = Initialize::for_opening(self.opening);
        let mut first_refusal = None;
        loop {
            let sent = self
                .link
                .ask(Method::Initialize, |id| initialize.request(id))
                .await;
            let gone = |_| Ungreeted::Gone;
            let answer = answer(&mut sent.map_err(gone)?).await?;
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
            // The first refusal names the revisions that the server speaks.
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

    /// Sends `initialize` to a server that has answered `server/discover`. If the server does not answer any
    /// more, `server/discover` may be the cause.
    async fn initialize_after_probe(&self, eras: Eras) -> Result<Greeted, Ungreeted> {
        let silent = || {
            let reason = "it answered server/discover, and does not answer initialize";
            Err(Unopened::from(Loss::Unresponsive(reason.to_owned())).into())
        };
        let initializing = self.initialize(eras);
        let greeted = timeout(SPOILED_LIMIT, initializing).await;
        greeted.unwrap_or_else(|_| silent())
    }

    /// Sends `initialize` while `server/discover` has no answer: the process may not understand that request,
    /// or may still be starting.
    async fn initialize_during_probe(
        &self,
        mut probe: Box<Exchange>,
    ) -> Result<Greeted, Ungreeted> {
        let silent = Eras {
            modern: Some(false),
            legacy: None,
        };
        let refused = match self.initialize(silent).await {
            Err(Ungreeted::Refused(refused)) => refused,
            other => return other,
        };
        match timeout(PIPE_LIMIT, answer(&mut probe)).await {
            Ok(Ok(answer)) => match self.interpret(answer).await? {
                Discovered::Modern(greeted) => Ok(*greeted),
                Discovered::Legacy(_) | Discovered::Pending(_) => Err(refused.into()),
            },
            Ok(Err(_)) | Err(_) => Err(refused.into()),
        }
    }
}
