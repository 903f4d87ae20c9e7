//! Rounds of questions. A modern server answers a call with questions. Mainstay sends them to the
//! legacy client as requests, and sends the call again with the answers (2026-07-28, "Multi
//! Round-Trip Requests").

use std::{pin::Pin, time::Duration};

use mainstay_core::{
    era::{
        Revision,
        questions::{self, InputRequired},
    },
    failure::{Failure, FailureKind, limit_words},
    message::{self, Method},
};
use mainstay_transport::{Frame, ServerQuestion};
use tokio::{sync::oneshot, time::Instant};

use super::call::{ActiveCall, AttemptError, Round};

/// Maximum number of rounds in a call (docs/dev/wire.md, "Between the eras"). Without a limit, a
/// server could ask a person questions without end.
pub const MAX_ROUNDS: usize = 10;

/// First pause before a call is sent again after a round without questions. The pause doubles each
/// time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A question that the client can be asked.
struct AskableQuestion {
    key: String,
    question: questions::InputRequest,
    request: Frame,
    elicitation: String,
}

/// A question that waits for its answer.
struct PendingQuestion {
    key: String,
    question: questions::InputRequest,
    answer: RoundAnswer,
}

enum RoundAnswer {
    OfClient(oneshot::Receiver<Frame>),
    /// The answer from the configuration, as JSON text.
    Configured(String),
}

impl ActiveCall<'_> {
    /// Asks the client all questions of a round, and waits for all answers. If one question cannot be
    /// asked, the call fails, so no question is asked. The call's deadline is suspended, because each
    /// question has a time limit of its own.
    pub(super) async fn round(
        &mut self,
        client: Revision,
        required: InputRequired,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Round, AttemptError> {
        let mut round = Round::without_questions(required.state);
        let mut askable = Vec::new();
        for (key, question) in required.requests {
            let question = self.askable(key, question, client);
            askable.push(question.map_err(AttemptError::Final)?);
        }
        let mut pending = Vec::new();
        for askable in askable {
            if askable.question.is_url() {
                round.elicitations.push(askable.elicitation.clone());
            }
            pending.push(self.put_question(askable).map_err(AttemptError::Final)?);
        }
        for PendingQuestion {
            key,
            question,
            answer,
        } in pending
        {
            let answer = match answer {
                RoundAnswer::OfClient(answer) => tokio::select! {
                    biased;
                    answer = answer => answer.ok(),
                    reason = &mut cancel => return Err(AttemptError::Final(self.cancelled(&reason))),
                },
                RoundAnswer::Configured(roots) => {
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

    /// True if the client accepts this question, and can be asked during this call.
    pub(super) fn accepts_question(&self, question: &questions::InputRequest) -> bool {
        let revision = self.sink.client.caller.revision;
        let request = question.to_request("0", revision, "");
        Frame::read(request.into()).is_ok_and(|request| self.sink.client.accepts(&request))
    }

    /// Makes the request for a question. Fails if the client does not accept the question and the
    /// configuration has no answer.
    fn askable(
        &self,
        key: String,
        question: questions::InputRequest,
        client: Revision,
    ) -> Result<AskableQuestion, Failure> {
        let elicitation = elicitation_id();
        // "0" is a placeholder. The id is set when the question is sent.
        let request = question.to_request("0", client, &elicitation);
        let request =
            Frame::read(request.into()).map_err(|error| self.unusable(&error.to_string()))?;
        if !self.sink.client.accepts(&request) && self.configured(question.method).is_none() {
            return Err(self.not_accepted(question.method, None));
        }
        Ok(AskableQuestion {
            key,
            question,
            request,
            elicitation,
        })
    }

    fn put_question(&self, askable: AskableQuestion) -> Result<PendingQuestion, Failure> {
        let method = askable.question.method;
        let server = self.upstream.server();
        let (mut question, answer) = ServerQuestion::of_round(server.name.clone(), askable.request);
        self.show(&mut question);
        let answer = match (
            self.sink.ask(&server.name, question),
            self.configured(method),
        ) {
            (Ok(()), _) => RoundAnswer::OfClient(answer),
            (Err(_), Some(roots)) => RoundAnswer::Configured(roots),
            (Err(question), None) => return Err(self.not_accepted(method, question.obstacle())),
        };
        Ok(PendingQuestion {
            key: askable.key,
            question: askable.question,
            answer,
        })
    }

    /// The configured result of `roots/list`, if there is one.
    fn configured(&self, question: Method) -> Option<String> {
        let config = self.upstream.server().config();
        let has_roots = question == Method::RootsList && !config.roots.is_empty();
        has_roots.then(|| questions::roots(&config.roots))
    }

    fn not_accepted(&self, question: Method, obstacle: Option<&str>) -> Failure {
        let method = question.name();
        self.unusable(&match obstacle {
            Some(obstacle) => format!("it needs {method}: {obstacle}"),
            None => format!("it needs {method}, which this client does not take"),
        })
    }

    /// Waits before a call is sent again. `times` is the number of rounds without questions so far.
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
        let paused = self.wait_for(tokio::time::sleep(pause), cancel).await;
        paused.map_err(AttemptError::Final)
    }

    /// Notifies the client that the elicitations of this round are complete. Called when the server
    /// has continued.
    pub(super) fn notify_elicitations_complete(&self, round: &Round) {
        for elicitation in &round.elicitations {
            let params = format!(r#"{{"elicitationId":"{elicitation}"}}"#);
            let complete = Method::ElicitationComplete.name();
            self.sink
                .put(message::request(None, complete, Some(&params)));
        }
    }
}

/// A unique id of an elicitation, for its request and for the notice of its completion.
fn elicitation_id() -> String {
    let mut random = [0; 16];
    // Ignore an error: without random numbers, no session could have been opened.
    getrandom::fill(&mut random).ok();
    format!("{:032x}", u128::from_be_bytes(random))
}
