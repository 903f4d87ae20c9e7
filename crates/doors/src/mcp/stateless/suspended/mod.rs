//! Suspended calls of legacy servers that wait for answers of clients without a session. The server's
//! questions become the call's result, and the client's next attempt brings the answers
//! (docs/dev/wire.md, "Between the eras"; 2026-07-28, "Multi Round-Trip Requests").
//!
//! The call goes on in a task. An attempt joins it by its `requestState`, and never runs the call
//! again.

mod rounds;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    era::{
        code,
        questions::{Answers, PATIENCE_WITH_PROGRAMS},
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
    reply::{ClosedReply as _, Reply, UNKNOWN_STATE, id},
    sessions::{pool::Waiting, session::Scope},
};

/// Calls that may wait at once; the questions of more are refused.
const MAX_PARKED: usize = 1000;

const NOT_IN_TIME: &str = "the client did not answer in time";

/// Attempts that may queue for one call: one is usual, two are a client that lost its patience.
const MAX_ATTEMPTS: usize = 8;

/// All calls that wait.
#[derive(Debug)]
pub struct SuspendedCalls {
    /// Without random numbers nothing is parked.
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

/// A client's next attempt at a call.
#[derive(Debug)]
struct Attempt {
    answers: Answers,
    asker: Asker,
    audience: Audience,
}

/// The client that made the call.
#[derive(Debug)]
struct Asker {
    /// JSON text.
    id: String,
    reply: oneshot::Sender<Closed<Reply>>,
}

/// Receives the server's messages meanwhile.
#[derive(Debug)]
struct Audience {
    sink: CallSink,
    /// The token under which it wants to hear of progress, as JSON text.
    progress_token: Option<String>,
}

impl SuspendedCalls {
    fn parked(&self) -> MutexGuard<'_, HashMap<ParkId, mpsc::Sender<Attempt>>> {
        // Held for a map operation, never across an await.
        self.parked.lock()
    }

    /// Whether this `requestState` was given by us.
    pub fn knows(&self, state: &str) -> bool {
        self.seals.as_ref().is_some_and(|seals| seals.knows(state))
    }

    /// Makes a call, until it is over or asks its client.
    pub fn begin(
        self: &Arc<Self>,
        calls: Calls,
        mut rounds: InputRounds,
        sink: CallSink,
        mut cancelled: oneshot::Receiver<String>,
    ) -> impl Future<Output = Closed<Reply>> + Send + use<> {
        let suspended = Arc::clone(self);
        async move {
            loop {
                let turn = tokio::select! {
                    biased;
                    turn = rounds.turn(|message| sink.put(message)) => turn,
                    Ok(reason) = &mut cancelled => return rounds.give_up(reason).await,
                };
                if let RoundOutcome::Over(reply) = turn {
                    return reply;
                }
                match suspended.park(&calls, rounds) {
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

    /// Has a call wait for its client, and asks.
    fn park(
        self: &Arc<Self>,
        calls: &Calls,
        rounds: InputRounds,
    ) -> Result<Closed<Reply>, Box<InputRounds>> {
        let (Some(seals), Ok(park)) = (&self.seals, ParkId::random()) else {
            return Err(Box::new(rounds));
        };
        let (attempts, inbox) = mpsc::channel(MAX_ATTEMPTS);
        {
            let mut parked = self.parked();
            if parked.len() >= MAX_PARKED {
                return Err(Box::new(rounds));
            }
            parked.insert(park, attempts);
        }
        let digest = rounds.digest();
        let required = rounds.required(&seals.seal(park, &digest));
        let reply = Reply::result(id(&rounds.frame), &required);
        let mut parked = Parked {
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
        parked.wait_for_answers();
        calls.in_background(parked.run(inbox));
        Ok(Closed::of_the_same_call(reply))
    }

    /// Joins the call that an attempt belongs to. Dropped, it leaves it, and the last one to leave
    /// cancels it. An attempt at a call that is not parked fails with the answer.
    pub fn resume(
        self: &Arc<Self>,
        scope: Scope,
        frame: Frame,
        answers: Answers,
        sink: CallSink,
    ) -> impl Future<Output = Result<Closed<Reply>, Reply>> + Send + use<> {
        let suspended = Arc::clone(self);
        async move {
            let id = id(&frame);
            let unknown = || Reply::error(id, code::INVALID_PARAMS, UNKNOWN_STATE);
            let Some(call) = suspended.find(&scope, &sink.client.principal, &frame, &answers)
            else {
                return Err(unknown());
            };
            let address = message::address(frame.text(), frame.envelope());
            let token = address.ok().and_then(|address| address.progress_token);
            let (reply, answer) = oneshot::channel();
            let attempt = Attempt {
                answers,
                asker: Asker {
                    id: id.to_owned(),
                    reply,
                },
                audience: Audience {
                    sink,
                    progress_token: token.map(|token| frame.get(token).to_owned()),
                },
            };
            // Both may find that it has just ended.
            if call.send(attempt).await.is_err() {
                return Err(unknown());
            }
            answer.await.map_err(|_| unknown())
        }
    }

    /// The call that an attempt belongs to by its state.
    fn find(
        &self,
        scope: &Scope,
        principal: &Principal,
        frame: &Frame,
        answers: &Answers,
    ) -> Option<mpsc::Sender<Attempt>> {
        let digest = CallDigest::of(scope, principal, frame);
        let park = self
            .seals
            .as_ref()?
            .open(answers.state.as_deref()?, &digest)?;
        self.parked().get(&park).cloned()
    }

    /// Ends every call that waits.
    pub fn close(&self) {
        self.parked().clear();
    }
}

/// A call that waits, or runs on with what its client answered.
struct Parked {
    suspended: Arc<SuspendedCalls>,
    park: ParkId,
    digest: CallDigest,
    rounds: InputRounds,
    /// Keeps other calls out of its session.
    _waiting: Option<Waiting>,
    /// The attempts that wait for the outcome.
    joined: Vec<Asker>,
    audience: Vec<Audience>,
    /// How long it waits for an attempt.
    until: Instant,
    /// The outcome, if it came while no attempt waited.
    outcome: Option<Closed<Reply>>,
}

enum Happening {
    RoundOutcome(RoundOutcome),
    /// `None`: no attempt will come any more.
    Attempt(Option<Attempt>),
    /// All attempts that had joined have gone.
    Left,
    Expired,
}

impl Parked {
    async fn run(mut self, mut inbox: mpsc::Receiver<Attempt>) {
        loop {
            let is_joined = !self.joined.is_empty();
            let happening = tokio::select! {
                biased;
                () = left(&mut self.joined), if is_joined => Happening::Left,
                turn = self.rounds.turn(|message| relay(&self.audience, &message)), if self.outcome.is_none() => Happening::RoundOutcome(turn),
                attempt = inbox.recv() => Happening::Attempt(attempt),
                () = tokio::time::sleep_until(self.until), if !is_joined => Happening::Expired,
            };
            let reason = match happening {
                Happening::RoundOutcome(RoundOutcome::Asked) => {
                    self.ask();
                    continue;
                }
                Happening::RoundOutcome(RoundOutcome::Over(reply)) => {
                    if is_joined || reply.cancelled {
                        self.tell(&reply);
                        return self.leave();
                    }
                    self.outcome = Some(reply);
                    self.until = Instant::now() + PATIENCE;
                    continue;
                }
                Happening::Attempt(Some(attempt)) => {
                    self.rounds.take(&attempt.answers);
                    self.joined.push(attempt.asker);
                    self.audience.push(attempt.audience);
                    if let Some(reply) = self.outcome.take() {
                        self.tell(&reply);
                        return self.leave();
                    }
                    if self.rounds.is_waiting() {
                        self.ask();
                    }
                    continue;
                }
                Happening::Attempt(None) => SHUTTING_DOWN,
                Happening::Left => "the client has gone",
                // Its server need not wait for a client that does not come back. What becomes of the call does.
                Happening::Expired if self.rounds.needs_no_person() => {
                    self.rounds.refuse(NOT_IN_TIME);
                    self.until = Instant::now() + PATIENCE;
                    continue;
                }
                Happening::Expired => NOT_IN_TIME,
            };
            self.leave();
            if self.outcome.is_none() {
                let reply = self.rounds.give_up(reason.to_owned()).await;
                for asker in self.joined {
                    asker.tell(&reply);
                }
            }
            return;
        }
    }

    /// Sends the open questions to the attempts that have joined.
    fn ask(&mut self) {
        let Some(seals) = &self.suspended.seals else {
            return;
        };
        if self.joined.is_empty() {
            return;
        }
        let required = self.rounds.required(&seals.seal(self.park, &self.digest));
        let required = Closed::of_the_same_call(Reply::result("null", &required));
        self.tell(&required);
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

    fn tell(&mut self, reply: &Closed<Reply>) {
        self.audience.clear();
        for asker in self.joined.drain(..) {
            asker.tell(reply);
        }
    }

    /// From now on an attempt is told that there is no such call.
    fn leave(&self) {
        self.suspended.parked().remove(&self.park);
    }
}

impl Asker {
    /// Hands over a reply, under the attempt's own id.
    fn tell(self, reply: &Closed<Reply>) {
        // It may have gone.
        self.reply.send(reply.clone().with_id(&self.id)).ok();
    }
}

/// Resolves when all of them have gone.
async fn left(joined: &mut [Asker]) {
    for asker in joined {
        asker.reply.closed().await;
    }
}

/// Passes on what the server says: progress under each attempt's own token.
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
