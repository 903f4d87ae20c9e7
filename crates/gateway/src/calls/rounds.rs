//! Rounds of questions: a modern server answers a call with questions, a legacy client is asked by
//! requests, and the call is made again with the answers (2026-07-28, "Multi Round-Trip Requests").

use std::{pin::Pin, time::Duration};

use mainstay_core::{
    era::{
        Revision,
        questions::{self, InputRequired},
    },
    failure::{Failure, FailureKind, limit_words},
    message::{self, Method},
};
use mainstay_transport::{Frame, Question};
use tokio::{sync::oneshot, time::Instant};

use super::call::{AttemptError, Call, Round};

/// How often one call may ask its client (docs/dev/wire.md, "Between the eras"). Without a bound a
/// server could keep a person busy without end.
pub const MAX_ROUNDS: usize = 10;

/// The pause before a call is made again of which the server asked nothing. Each further pause is twice as long,
/// up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A question that the client can be asked.
struct Asked {
    key: String,
    question: questions::InputRequest,
    request: Frame,
    elicitation: String,
}

/// A question that waits for its answer.
struct PendingQuestion {
    key: String,
    question: questions::InputRequest,
    answer: Answer,
}

enum Answer {
    OfClient(oneshot::Receiver<Frame>),
    /// The result that the configuration has (JSON text).
    Configured(String),
}

impl Call<'_> {
    /// Asks the client everything at once, and waits for all answers. Nothing is asked if the client cannot be
    /// asked all of it: no person answers for a call that fails. Meanwhile the call's time stands still: the
    /// keeper of the questions ends them.
    pub(super) async fn round(
        &mut self,
        client: Revision,
        required: InputRequired,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Round, AttemptError> {
        let mut round = Round::unasked(required.state);
        let mut askable = Vec::new();
        for (key, question) in required.requests {
            let asked = self.askable(key, question, client);
            askable.push(asked.map_err(AttemptError::Final)?);
        }
        let mut pending = Vec::new();
        for asked in askable {
            if asked.question.is_url() {
                round.elicitations.push(asked.elicitation.clone());
            }
            pending.push(self.put_question(asked).map_err(AttemptError::Final)?);
        }
        for PendingQuestion {
            key,
            question,
            answer,
        } in pending
        {
            let answer = match answer {
                Answer::OfClient(answer) => tokio::select! {
                    biased;
                    answer = answer => answer.ok(),
                    reason = &mut cancel => return Err(AttemptError::Final(self.cancelled(&reason))),
                },
                Answer::Configured(roots) => {
                    round.responses.push((key, roots.into()));
                    continue;
                }
            };
            let result = answer.as_ref().and_then(Frame::result);
            let Some(result) = result.or_else(|| question.unanswered()) else {
                let error = answer.as_ref().and_then(Frame::error).unwrap_or("nothing");
                let method = question.method.name();
                let reason = format!("the client answered {method} with {error}");
                return Err(AttemptError::Final(self.unusable(&reason)));
            };
            round
                .responses
                .push((key, message::one_line(result).into()));
        }
        self.deadline = Instant::now() + self.limit;
        Ok(round)
    }

    /// The request that puts a question, if the client takes it or the configuration answers it.
    fn askable(
        &self,
        key: String,
        question: questions::InputRequest,
        client: Revision,
    ) -> Result<Asked, Failure> {
        let elicitation = elicitation_id();
        // The asking side gives the id.
        let request = question.to_request("0", client, &elicitation);
        let request =
            Frame::read(request.into()).map_err(|error| self.unusable(&error.to_string()))?;
        if !self.sink.client.takes(&request) && self.configured(question.method).is_none() {
            return Err(self.not_taken(question.method, None));
        }
        Ok(Asked {
            key,
            question,
            request,
            elicitation,
        })
    }

    fn put_question(&self, asked: Asked) -> Result<PendingQuestion, Failure> {
        let method = asked.question.method;
        let server = self.upstream.server();
        let (mut question, answer) = Question::of_round(server.name.clone(), asked.request);
        self.show(&mut question);
        let answer = match (
            self.sink.ask(&server.name, question),
            self.configured(method),
        ) {
            (Ok(()), _) => Answer::OfClient(answer),
            (Err(_), Some(roots)) => Answer::Configured(roots),
            (Err(question), None) => return Err(self.not_taken(method, question.obstacle())),
        };
        Ok(PendingQuestion {
            key: asked.key,
            question: asked.question,
            answer,
        })
    }

    /// The result of `roots/list` that the configuration has, if it has some.
    fn configured(&self, question: Method) -> Option<String> {
        let config = self.upstream.server().config();
        let has_roots = question == Method::RootsList && !config.roots.is_empty();
        has_roots.then(|| questions::roots(&config.roots))
    }

    fn not_taken(&self, question: Method, obstacle: Option<&str>) -> Failure {
        let method = question.name();
        self.unusable(&match obstacle {
            Some(obstacle) => format!("it needs {method}: {obstacle}"),
            None => format!("it needs {method}, which this client does not take"),
        })
    }

    /// Waits before a call is made again of which the server asked nothing, for the n-th time.
    pub(super) async fn pause(
        &self,
        times: u32,
        cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<(), AttemptError> {
        let doubled = 2_u32.saturating_pow(times.saturating_sub(1));
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        if Instant::now() + pause >= self.deadline {
            let message = format!(
                "timeout after {}: {times} times the server answered that it needs input (input_required) and asked nothing",
                limit_words(self.limit)
            );
            let failure = self.failure(FailureKind::CallTimeout, message);
            return Err(AttemptError::Final(failure));
        }
        let paused = self.meanwhile(tokio::time::sleep(pause), cancel).await;
        paused.map_err(AttemptError::Final)
    }

    /// The server has gone on: tells the client that the pages which people opened are done with.
    pub(super) fn opened(&self, round: &Round) {
        for elicitation in &round.elicitations {
            let params = format!(r#"{{"elicitationId":"{elicitation}"}}"#);
            let complete = Method::ElicitationComplete.name();
            self.sink
                .put(message::request(None, complete, Some(&params)));
        }
    }
}

/// An elicitation's name between its request and the notice of its end, unlike every other.
fn elicitation_id() -> String {
    let mut random = [0; 16];
    // Without random numbers no session could have been opened either.
    getrandom::fill(&mut random).ok();
    format!("{:032x}", u128::from_be_bytes(random))
}
