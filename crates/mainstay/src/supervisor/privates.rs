//! The isolated sessions of a server: opened for one client each, not brought back by themselves but
//! by the next call (design section 9).

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    failure::{Failure, FailureKind},
    lifecycle::{Event, Policy, Reconnect, ReconnectMode, State},
};
use tokio::sync::oneshot;

use super::{PrivateId, attempt::Which, task::Task, upkeep::Upkeep};
use crate::transport::{Listener, Session};

type Reply = oneshot::Sender<Result<Arc<Session>, Failure>>;

#[derive(Default)]
pub struct Privates(HashMap<PrivateId, PrivateSession>);

struct PrivateSession {
    upkeep: Upkeep,
    /// Calls that wait for the session to open.
    waiting: Vec<Reply>,
}

impl Privates {
    pub fn upkeeps(&self) -> impl Iterator<Item = &Upkeep> {
        self.0.values().map(|private| &private.upkeep)
    }

    pub fn upkeep(&mut self, id: PrivateId) -> Option<&mut Upkeep> {
        self.0.get_mut(&id).map(|private| &mut private.upkeep)
    }

    pub fn ids(&self) -> Vec<PrivateId> {
        self.0.keys().copied().collect()
    }
}

impl Task {
    pub(super) fn open_private(
        &mut self,
        id: PrivateId,
        initialize: Arc<str>,
        listener: Arc<dyn Listener>,
        reply: Reply,
    ) {
        let max = self.config.max_sessions;
        if !self.privates.0.contains_key(&id) {
            let refusal = if self.ending || !self.config.enabled {
                Some((FailureKind::ServerNotConnected, "is not running".to_owned()))
            } else if self.privates.0.len() >= max {
                Some((
                    FailureKind::TooManySessions,
                    format!("already has {max} sessions (maxSessions)"),
                ))
            } else {
                None
            };
            if let Some((kind, reason)) = refusal {
                let message = format!("Server '{}' {reason}", self.config.name);
                // Whoever asked may have gone.
                drop(reply.send(Err(
                    Failure::new(kind, message).of_server(&self.config.name),
                )));
                return;
            }
        }
        let policy = policy(&self.config.policy);
        let private = self.privates.0.entry(id).or_insert_with(|| PrivateSession {
            upkeep: Upkeep::new(policy, initialize, listener),
            waiting: Vec::new(),
        });
        private.waiting.push(reply);
        // Opening, or not yet quite gone: then it is opened anew when it is (invariant 9).
        self.step(Which::Private(id), Event::Start);
    }

    /// Answers whoever waits for the session, if it is up; forgets one that is down.
    pub(super) fn settle_private(&mut self, id: PrivateId) {
        let Some(private) = self.privates.0.get_mut(&id) else {
            return;
        };
        let status = private.upkeep.status();
        let live = private
            .upkeep
            .session
            .clone()
            .filter(|session| status.state == State::Connected && !session.is_over());
        if let Some(session) = live
            && !private.waiting.is_empty()
        {
            let mut asked = false;
            for reply in private.waiting.drain(..) {
                asked |= reply.send(Ok(Arc::clone(&session))).is_ok();
            }
            // Everyone who asked has gone meanwhile.
            if !asked {
                self.step(Which::Private(id), Event::Stop);
            }
        }
    }

    /// A session's connection has ended; `was_up` if it had come up.
    pub(super) fn private_ended(&mut self, id: PrivateId, was_up: bool) {
        let Some(private) = self.privates.0.get(&id) else {
            return;
        };
        let status = private.upkeep.status();
        if status.attempting || status.state.is_hopeful() {
            return;
        }
        // Someone asked for it while it went.
        if was_up && !private.waiting.is_empty() && !self.ending {
            return self.step(Which::Private(id), Event::Start);
        }
        let Some(private) = self.privates.0.remove(&id) else {
            return;
        };
        let reason = status.reason.unwrap_or_else(|| "it was closed".to_owned());
        for reply in private.waiting {
            let message = format!(
                "Server '{}' could not open a session: {reason}",
                self.config.name
            );
            let failure = Failure::new(FailureKind::ConnectFailed, message)
                .of_server(&self.config.name)
                .with("stderr", self.log.tail.texts());
            drop(reply.send(Err(failure)));
        }
    }
}

/// A lost session comes back with the next call, for only its client knows what it was for.
fn policy(server: &Policy) -> Policy {
    Policy {
        reconnect: Reconnect {
            mode: ReconnectMode::Off,
            ..server.reconnect.clone()
        },
        ..server.clone()
    }
}
