//! Rounds of questions: a modern server answers a call with questions, a legacy client is asked by
//! requests, and the call is made again with the answers (2026-07-28, "Multi Round-Trip Requests").

use std::pin::Pin;

use mainstay_core::{
    era::{
        Revision,
        questions::{self, InputRequired},
    },
    failure::Failure,
    message::{self, Method},
};
use mainstay_transport::{Frame, Question};
use tokio::{sync::oneshot, time::Instant};

use super::call::{AttemptError, Call, Round};

/// How often one call may ask its client (docs/dev/wire.md, "Between the eras"). Without a bound a
/// server could keep a person busy without end.
pub const MAX_ROUNDS: usize = 10;

/// A question that waits for its answer.
struct PendingQuestion {
    key: String,
    question: questions::InputRequest,
    answer: oneshot::Receiver<Frame>,
}

impl Call<'_> {
    /// Asks the client everything at once, and waits for all answers. Meanwhile the call's time stands
    /// still: the keeper of the questions ends them.
    pub(super) async fn round(
        &mut self,
        client: Revision,
        required: InputRequired,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Round, AttemptError> {
        let mut round = Round {
            responses: Vec::new(),
            state: required.state,
            elicitations: Vec::new(),
        };
        let mut asked = Vec::new();
        for (key, question) in required.requests {
            let elicitation = elicitation_id();
            let answer = self.put_question(&question, client, &elicitation);
            let answer = answer.map_err(AttemptError::Final)?;
            if question.is_url() {
                round.elicitations.push(elicitation);
            }
            asked.push(PendingQuestion {
                key,
                question,
                answer,
            });
        }
        for PendingQuestion {
            key,
            question,
            answer,
        } in asked
        {
            let answer = tokio::select! {
                biased;
                answer = answer => answer.ok(),
                reason = &mut cancel => return Err(AttemptError::Final(self.cancelled(&reason))),
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

    fn put_question(
        &self,
        question: &questions::InputRequest,
        client: Revision,
        elicitation: &str,
    ) -> Result<oneshot::Receiver<Frame>, Failure> {
        // The asking side gives the id.
        let request = question.to_request("0", client, elicitation);
        let request =
            Frame::read(request.into()).map_err(|error| self.unusable(&error.to_string()))?;
        let server = &self.upstream.server().name;
        let (asked, answer) = Question::of_round(server.clone(), request);
        self.sink.ask(server, asked).map_err(|_| {
            let method = question.method.name();
            self.unusable(&format!(
                "it needs {method}, which this client does not take"
            ))
        })?;
        Ok(answer)
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
