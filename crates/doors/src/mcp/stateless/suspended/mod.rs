//! Suspended calls: calls of legacy servers that wait for answers of clients without a session. The
//! server's questions become the result of the client's request. The client's retry has the answers
//! (docs/dev/wire.md, "Between the eras"; 2026-07-28, "Multi Round-Trip Requests"). The call runs
//! in a task. A retry finds it by `requestState` and never runs it again.

mod rounds;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    era::{
        code,
        questions::{PATIENCE_WITH_PROGRAMS, QuestionAnswers},
    },
    message::{self, Method},
    principal::Principal,
};
use mainstay_gateway::calls::{CallSink, Calls, Closed, SHUTTING_DOWN};
use mainstay_transport::Frame;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use self::{
    rounds::RoundOutcome,
    state::{CallDigest, PATIENCE, ParkId, Seals},
};
pub use crate::mcp::stateless::suspended::rounds::{InputRounds, Parts, questions};
use crate::mcp::{
    reply::{ClosedReply as _, RpcReply, UNKNOWN_STATE, id},
    sessions::{pool::Waiting, session::EndpointScope},
};

/// Maximum number of parked calls. The questions of further calls are refused.
const MAX_PARKED: usize = 1000;

const TIMEOUT_REASON: &str = "the client did not answer in time";

/// Maximum number of attempts that wait to join one call.
const MAX_ATTEMPTS: usize = 8;

/// The parked calls of all clients.
#[derive(Debug)]
pub struct SuspendedCalls {
    /// `None` if there were no random numbers. No call is then parked.
    seals: Option<Seals>,
    parked: Mutex<HashMap<ParkId, mpsc::Sender<Attempt>>>,
}

impl Default for SuspendedCalls {
    fn default() -> Self {
        Self {
            seals: Seals::new().ok(),
            parked: Mutex::default(),
        }
    }
}

/// A client's retry of a parked call.
#[derive(Debug)]
struct Attempt {
    answers: QuestionAnswers,
    reply: AttemptReply,
    audience: Audience,
}

/// Sends the reply to one attempt.
#[derive(Debug)]
struct AttemptReply {
    /// The id of the attempt (JSON text).
    id: String,
    sender: oneshot::Sender<Closed<RpcReply>>,
}

/// Sends messages of the server to one attempt.
#[derive(Debug)]
struct Audience {
    sink: CallSink,
    /// The progress token of the attempt (JSON text).
    progress_token: Option<String>,
}

impl SuspendedCalls {
    fn parked(&self) -> MutexGuard<'_, HashMap<ParkId, mpsc::Sender<Attempt>>> {
        // Locked for a map operation, never across an await.
        self.parked.lock()
    }

    /// True if this `requestState` has the form of this run's states.
    pub fn knows(&self, state: &str) -> bool {
        self.seals.as_ref().is_some_and(|seals| seals.knows(state))
    }

    /// Runs a call until it ends or its server asks the client. Parks it in the second case.
    pub fn begin(
        self: &Arc<Self>,
        calls: Calls,
        mut rounds: InputRounds,
        sink: CallSink,
        mut cancel_signal: oneshot::Receiver<String>,
    ) -> impl Future<Output = Closed<RpcReply>> + Send + use<> {
        let suspended_calls = Arc::clone(self);
        async move {
            loop {
                let turn = tokio::select! {
                    biased;
                    turn = rounds.turn(|message| sink.put(message)) => turn,
                    Ok(reason) = &mut cancel_signal => return rounds.give_up(reason).await,
                };
                if let RoundOutcome::Over(reply) = turn {
                    return reply;
                }
                match suspended_calls.park(&calls, rounds) {
                    Ok(reply) => return reply,
                    Err(mut back) => {
                        tracing::warn!("a server's question was refused: too many calls wait");
                        back.refuse("too many calls wait for their clients");
                        rounds = *back;
                    }
                }
            }
        }
    }

    /// Parks a call that waits for answers. Returns the `input_required` reply, or the call if
    /// there is no room.
    fn park(
        self: &Arc<Self>,
        calls: &Calls,
        rounds: InputRounds,
    ) -> Result<Closed<RpcReply>, Box<InputRounds>> {
        let (Some(seals), Ok(park)) = (&self.seals, ParkId::random()) else {
            return Err(Box::new(rounds));
        };
        let (attempts, inbox) = mpsc::channel(MAX_ATTEMPTS);
        {
            let mut parked_calls = self.parked();
            if parked_calls.len() >= MAX_PARKED {
                return Err(Box::new(rounds));
            }
            parked_calls.insert(park, attempts);
        }
        let digest = rounds.digest();
        let required_json = rounds.required(&seals.seal(park, &digest));
        let reply = RpcReply::result(id(&rounds.frame), &required_json);
        let mut parked_calls = Parked {
            suspended: Arc::clone(self),
            park,
            digest,
            _waiting: rounds.seat.park(),
            rounds,
            joined: Vec::new(),
            audience: Vec::new(),
            until: Instant::now() + PATIENCE,
            outcome: None,
        };
        parked_calls.wait_for_answers();
        calls.in_background(parked_calls.run(inbox));
        Ok(Closed::of_the_same_call(reply))
    }

    /// Joins a parked call for a retry. Dropping the future leaves the call. When the last attempt
    /// leaves, the call is cancelled. Returns an error if no call fits.
    pub fn resume(
        self: &Arc<Self>,
        scope: EndpointScope,
        frame: Frame,
        answers: QuestionAnswers,
        sink: CallSink,
    ) -> impl Future<Output = Result<Closed<RpcReply>, RpcReply>> + Send + use<> {
        let suspended_calls = Arc::clone(self);
        async move {
            let id = id(&frame);
            let unknown_state = || RpcReply::error(id, code::INVALID_PARAMS, UNKNOWN_STATE);
            let Some(call) = suspended_calls.find(&scope, &sink.client.principal, &frame, &answers)
            else {
                return Err(unknown_state());
            };
            let address = message::address(frame.text(), frame.envelope());
            let token = address.ok().and_then(|address| address.progress_token);
            let (sender, answer) = oneshot::channel();
            let attempt = Attempt {
                answers,
                reply: AttemptReply {
                    id: id.to_owned(),
                    sender,
                },
                audience: Audience {
                    sink,
                    progress_token: token.map(|token| frame.get(token).to_owned()),
                },
            };
            // An error means that the call has already ended.
            if call.send(attempt).await.is_err() {
                return Err(unknown_state());
            }
            answer.await.map_err(|_| unknown_state())
        }
    }

    /// The parked call to which the state of an attempt belongs.
    fn find(
        &self,
        scope: &EndpointScope,
        principal: &Principal,
        frame: &Frame,
        answers: &QuestionAnswers,
    ) -> Option<mpsc::Sender<Attempt>> {
        let digest = CallDigest::new(scope, principal, frame);
        let park = self
            .seals
            .as_ref()?
            .open(answers.state.as_deref()?, &digest)?;
        self.parked().get(&park).cloned()
    }

    /// Ends all parked calls: without senders, their tasks stop.
    pub fn close(&self) {
        self.parked().clear();
    }
}

/// A parked call. It waits for its client, or runs on with the client's answers.
struct Parked {
    suspended: Arc<SuspendedCalls>,
    park: ParkId,
    digest: CallDigest,
    rounds: InputRounds,
    /// Keeps the pooled session from being shared.
    _waiting: Option<Waiting>,
    /// The attempts that wait for a reply.
    joined: Vec<AttemptReply>,
    audience: Vec<Audience>,
    /// Deadline for the client's next attempt.
    until: Instant,
    /// The call's reply, if no attempt was waiting when the call ended.
    outcome: Option<Closed<RpcReply>>,
}

enum ParkedEvent {
    RoundOutcome(RoundOutcome),
    /// A new attempt; `None` at shutdown.
    Attempt(Option<Attempt>),
    /// All joined attempts were dropped.
    Left,
    Expired,
}

impl Parked {
    async fn run(mut self, mut inbox: mpsc::Receiver<Attempt>) {
        loop {
            let is_joined = !self.joined.is_empty();
            let event = tokio::select! {
                biased;
                () = left(&mut self.joined), if is_joined => ParkedEvent::Left,
                turn = self.rounds.turn(|message| relay(&self.audience, &message)), if self.outcome.is_none() => ParkedEvent::RoundOutcome(turn),
                attempt = inbox.recv() => ParkedEvent::Attempt(attempt),
                () = tokio::time::sleep_until(self.until), if !is_joined => ParkedEvent::Expired,
            };
            let reason = match event {
                ParkedEvent::RoundOutcome(RoundOutcome::InputRequired) => {
                    self.ask();
                    continue;
                }
                ParkedEvent::RoundOutcome(RoundOutcome::Over(reply)) => {
                    if is_joined || reply.cancelled {
                        self.send_reply(&reply);
                        return self.leave();
                    }
                    self.outcome = Some(reply);
                    self.until = Instant::now() + PATIENCE;
                    continue;
                }
                ParkedEvent::Attempt(Some(attempt)) => {
                    self.rounds.take(&attempt.answers);
                    self.joined.push(attempt.reply);
                    self.audience.push(attempt.audience);
                    if let Some(reply) = self.outcome.take() {
                        self.send_reply(&reply);
                        return self.leave();
                    }
                    if self.rounds.is_waiting() {
                        self.ask();
                    }
                    continue;
                }
                ParkedEvent::Attempt(None) => SHUTTING_DOWN,
                ParkedEvent::Left => "the client has gone",
                // The questions need no person, so let the call go on without answers.
                ParkedEvent::Expired if self.rounds.needs_no_person() => {
                    self.rounds.refuse(TIMEOUT_REASON);
                    self.until = Instant::now() + PATIENCE;
                    continue;
                }
                ParkedEvent::Expired => TIMEOUT_REASON,
            };
            self.leave();
            if self.outcome.is_none() {
                let reply = self.rounds.give_up(reason.to_owned()).await;
                for attempt in self.joined {
                    attempt.send(&reply);
                }
            }
            return;
        }
    }

    /// Replies to the joined attempts with the open questions.
    fn ask(&mut self) {
        let Some(seals) = &self.suspended.seals else {
            return;
        };
        if self.joined.is_empty() {
            return;
        }
        let required_json = self.rounds.required(&seals.seal(self.park, &self.digest));
        let required_json = Closed::of_the_same_call(RpcReply::result("null", &required_json));
        self.send_reply(&required_json);
        self.wait_for_answers();
    }

    fn wait_for_answers(&mut self) {
        let patience = if self.rounds.needs_no_person() {
            PATIENCE_WITH_PROGRAMS
        } else {
            PATIENCE
        };
        self.until = Instant::now() + patience;
    }

    fn send_reply(&mut self, reply: &Closed<RpcReply>) {
        self.audience.clear();
        for attempt in self.joined.drain(..) {
            attempt.send(reply);
        }
    }

    /// Removes the call. Later attempts find no call.
    fn leave(&self) {
        self.suspended.parked().remove(&self.park);
    }
}

impl AttemptReply {
    /// Sends the reply under the attempt's own id.
    fn send(self, reply: &Closed<RpcReply>) {
        // An error means that the attempt was dropped.
        self.sender.send(reply.clone().with_id(&self.id)).ok();
    }
}

/// Resolves when all joined attempts have been dropped.
async fn left(attempts: &mut [AttemptReply]) {
    for attempt in attempts {
        attempt.sender.closed().await;
    }
}

/// Forwards a message of the server to all joined attempts. Progress gets each attempt's token.
fn relay(audience: &[Audience], message: &str) {
    if audience.is_empty() {
        return;
    }
    let Ok(frame) = Frame::read(message.to_owned().into()) else {
        return;
    };
    for listener in audience {
        let text = match (frame.method(), &listener.progress_token) {
            (Some(Method::Progress), Some(token)) => frame.with_param("progressToken", token),
            (Some(Method::Progress), None) => continue,
            _ => frame.one_line(),
        };
        listener.sink.put(text);
    }
}
