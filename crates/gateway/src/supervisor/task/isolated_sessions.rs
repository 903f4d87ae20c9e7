//! The isolated sessions of a server. Each session is opened for one client. A lost session is
//! reopened by that client's next call. At most `maxSessions` sessions are open. To make room for a
//! new session, the session that has been idle for longest is closed.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use mainstay_core::{
    failure::{Failure, FailureKind},
    ids::Epoch,
    lifecycle::{Event, Policy, Reconnect, ReconnectMode, SessionState},
    principal::Principal,
};
use mainstay_transport::UpstreamSession;
use tokio::sync::oneshot;

use super::Task;
use crate::supervisor::{
    command::OpenIsolated,
    managed_session::ManagedSession,
    session_key::{IsolatedSessionId, SessionKey},
    usage::Usage,
};

type Reply = oneshot::Sender<Result<Arc<UpstreamSession>, Failure>>;

/// Time after which a refused client should try again. Calls usually take about a second.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct IsolatedSessions {
    sessions: HashMap<IsolatedSessionId, SessionEntry>,
    /// Sessions that wait until another session has ended and makes room.
    newcomers: VecDeque<Newcomer>,
    /// The latest epoch of the ended sessions. New sessions have later epochs, so that a late report
    /// of an ended session is not attributed to a new session with the same id.
    past: Option<Epoch>,
}

struct SessionEntry {
    managed: ManagedSession,
    usage: Arc<Usage>,
    counts: bool,
    principal: Principal,
    /// True if the session is ending. A new request for it becomes a newcomer.
    is_leaving: bool,
    /// Callers that wait for the session to open.
    waiting: Vec<Reply>,
}

struct Newcomer {
    open: OpenIsolated,
    /// Further callers that wait for the same session.
    more: Vec<Reply>,
}

impl Newcomer {
    /// True if a caller still waits for the session.
    fn is_waiting(&self) -> bool {
        let mut replies = self.more.iter().chain([&self.open.reply]);
        replies.any(|reply| !reply.is_closed())
    }
}

impl IsolatedSessions {
    pub fn managed_sessions(&self) -> impl Iterator<Item = &ManagedSession> {
        self.sessions
            .values()
            .map(|isolated_session| &isolated_session.managed)
    }

    pub fn managed(&mut self, id: IsolatedSessionId) -> Option<&mut ManagedSession> {
        self.sessions
            .get_mut(&id)
            .map(|isolated_session| &mut isolated_session.managed)
    }

    /// The principal of a session.
    pub fn principal(&self, id: IsolatedSessionId) -> Option<&Principal> {
        let isolated_session = self.sessions.get(&id);
        isolated_session.map(|isolated_session| &isolated_session.principal)
    }

    pub fn ids(&self) -> Vec<IsolatedSessionId> {
        self.sessions.keys().copied().collect()
    }

    /// The sessions that count towards `maxSessions`.
    fn counted(&self) -> impl Iterator<Item = (IsolatedSessionId, &SessionEntry)> {
        self.sessions
            .iter()
            .filter(|(_, isolated_session)| isolated_session.counts)
            .map(|(&id, isolated_session)| (id, isolated_session))
    }

    /// Marks the session that has been idle for longest as closed, and returns its id. `None` if all
    /// sessions are in use.
    fn make_room(&mut self) -> Option<IsolatedSessionId> {
        let mut idle: Vec<_> = self
            .counted()
            .filter(|(_, isolated_session)| {
                !isolated_session.is_leaving && !isolated_session.usage.is_used()
            })
            .map(|(id, isolated_session)| (isolated_session.usage.last_used(), id))
            .collect();
        idle.sort_unstable_by_key(|(last_used, id)| (*last_used, id.0));
        // A caller may have begun to use a session after the check above.
        idle.into_iter()
            .map(|(_, id)| id)
            .find(|id| self.sessions[id].usage.close_if_unused())
    }
}

impl Task {
    pub(super) fn open_isolated(&mut self, open: OpenIsolated) {
        if let Some(state) = self.is_down() {
            let reason = format!("is {state}");
            return self.refuse([open.reply], FailureKind::ServerNotConnected, &reason);
        }
        open.usage.release(false);
        let id = open.id;
        if let Some(newcomer) = self
            .isolated_sessions
            .newcomers
            .iter_mut()
            .find(|newcomer| newcomer.open.id == id)
        {
            return newcomer.more.push(open.reply);
        }
        match self.isolated_sessions.sessions.get_mut(&id) {
            Some(isolated_session) if !isolated_session.is_leaving => {
                isolated_session.waiting.push(open.reply);
                self.step(SessionKey::Isolated(id), Event::Start);
            }
            Some(_) => self.admit(open),
            None if open.counts => self.admit(open),
            None => self.enter(open),
        }
    }

    /// The state of the server in which no session may be opened. `None` if sessions may be opened.
    fn is_down(&self) -> Option<&'static str> {
        if self.stopped {
            Some("stopped")
        } else {
            (self.ending || !self.config.enabled).then_some("not running")
        }
    }

    /// Opens a session, or queues it until there is room.
    fn admit(&mut self, open: OpenIsolated) {
        let max = self.config.max_sessions;
        let (all, leaving) = self.isolated_sessions.counted().fold(
            (0, 0),
            |(all, leaving), (_, isolated_session)| {
                (all + 1, leaving + usize::from(isolated_session.is_leaving))
            },
        );
        // Drop newcomers without a waiting caller.
        self.isolated_sessions
            .newcomers
            .retain(Newcomer::is_waiting);
        let waiting = self.isolated_sessions.newcomers.len();
        let is_here = self.isolated_sessions.sessions.contains_key(&open.id);
        if all + waiting < max && !is_here {
            return self.enter(open);
        }
        // A leaving session makes room for one newcomer.
        if open.counts && all + waiting >= max + leaving {
            let Some(longest_idle) = self.isolated_sessions.make_room() else {
                let reason = format!(
                    "has {max} sessions of its own, all of them at work; try again in a moment, or raise maxSessions"
                );
                return self.refuse([open.reply], FailureKind::TooManySessions, &reason);
            };
            tracing::debug!(server = %self.config.name, session = longest_idle.0, "closed to make room");
            self.close_isolated(longest_idle);
        }
        let more = Vec::new();
        self.isolated_sessions
            .newcomers
            .push_back(Newcomer { open, more });
        // The closed session may have ended already.
        self.admit_newcomers();
    }

    /// Opens queued sessions for which there is room now.
    pub(super) fn admit_newcomers(&mut self) {
        while let Some(newcomer) = self.isolated_sessions.newcomers.pop_front() {
            let is_full = newcomer.open.counts
                && self.isolated_sessions.counted().count() >= self.config.max_sessions;
            if is_full
                || self
                    .isolated_sessions
                    .sessions
                    .contains_key(&newcomer.open.id)
            {
                self.isolated_sessions.newcomers.push_front(newcomer);
                return;
            }
            if !newcomer.is_waiting() {
                continue;
            }
            let Newcomer { open, more } = newcomer;
            let id = open.id;
            self.enter(open);
            if let Some(isolated_session) = self.isolated_sessions.sessions.get_mut(&id) {
                isolated_session.waiting.extend(more);
            }
        }
    }

    fn enter(&mut self, open: OpenIsolated) {
        let mut managed =
            ManagedSession::new(policy(&self.config.policy), open.initialize, open.listener);
        if let Some(past) = self.isolated_sessions.past {
            managed = managed.after(past);
        }
        let isolated_session = SessionEntry {
            managed,
            usage: open.usage,
            counts: open.counts,
            principal: open.principal,
            is_leaving: false,
            waiting: vec![open.reply],
        };
        self.isolated_sessions
            .sessions
            .insert(open.id, isolated_session);
        self.step(SessionKey::Isolated(open.id), Event::Start);
    }

    fn refuse(&self, replies: impl IntoIterator<Item = Reply>, kind: FailureKind, reason: &str) {
        let message = format!("Server '{}' {reason}", self.config.name);
        let mut failure = Failure::new(kind, message).with_server(&self.config.name);
        if kind == FailureKind::TooManySessions {
            let wait = u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
            failure = failure.with("retryAfterMs", wait);
        }
        for reply in replies {
            // The caller may have gone.
            drop(reply.send(Err(failure.clone())));
        }
    }

    /// Replies to the callers that wait for the session, if the session is up.
    pub(super) fn settle_isolated(&mut self, id: IsolatedSessionId) {
        let Some(isolated_session) = self.isolated_sessions.sessions.get_mut(&id) else {
            return;
        };
        let status = isolated_session.managed.status();
        let live = isolated_session
            .managed
            .session
            .clone()
            .filter(|session| status.state == SessionState::Connected && !session.is_over());
        if let Some(session) = live
            && !isolated_session.waiting.is_empty()
        {
            isolated_session.usage.reopened();
            let mut is_received = false;
            for reply in isolated_session.waiting.drain(..) {
                is_received |= reply.send(Ok(Arc::clone(&session))).is_ok();
            }
            // All callers have gone, so nobody uses the session.
            if !is_received {
                self.close_isolated(id);
            }
        }
    }

    /// Handles the end of a session's connection. `was_up` is true if the session was open before.
    pub(super) fn isolated_ended(&mut self, id: IsolatedSessionId, was_up: bool) {
        let Some(isolated_session) = self.isolated_sessions.sessions.get(&id) else {
            return;
        };
        let status = isolated_session.managed.status();
        if status.attempting || status.state.is_hopeful() {
            return;
        }
        // A caller requested the session while it was ending.
        if was_up && !isolated_session.waiting.is_empty() && !self.ending {
            return self.step(SessionKey::Isolated(id), Event::Start);
        }
        let Some(isolated_session) = self.isolated_sessions.sessions.remove(&id) else {
            return;
        };
        self.isolated_sessions.past = self
            .isolated_sessions
            .past
            .max(Some(isolated_session.managed.epoch()));
        let has_own_login = self
            .config
            .login_owner(&isolated_session.principal)
            .is_some();
        let kind = if status.unauthorized && has_own_login {
            FailureKind::LoginRequired
        } else {
            FailureKind::ConnectFailed
        };
        let reason = status.reason.unwrap_or_else(|| "it was closed".to_owned());
        for reply in isolated_session.waiting {
            let message = format!(
                "Server '{}' could not open a session: {reason}",
                self.config.name
            );
            let failure = Failure::new(kind, message)
                .with_server(&self.config.name)
                .with("stderr", self.log.tail.texts());
            drop(reply.send(Err(failure)));
        }
        self.admit_newcomers();
    }

    fn close_isolated(&mut self, id: IsolatedSessionId) {
        if let Some(isolated_session) = self.isolated_sessions.sessions.get_mut(&id) {
            isolated_session.is_leaving = true;
            self.step(SessionKey::Isolated(id), Event::Stop);
        }
    }

    /// Closes the sessions that their clients have released, and the sessions that were marked as
    /// closed while idle.
    pub(super) fn close_released(&mut self) {
        let released: Vec<IsolatedSessionId> = self
            .isolated_sessions
            .sessions
            .iter()
            .filter(|(_, isolated_session)| {
                !isolated_session.is_leaving && isolated_session.usage.is_over()
            })
            .map(|(id, _)| *id)
            .collect();
        for id in released {
            self.close_isolated(id);
        }
    }

    /// Closes all sessions, and refuses all newcomers.
    pub(super) fn close_all_isolated(&mut self) {
        for Newcomer { open, more } in std::mem::take(&mut self.isolated_sessions.newcomers) {
            let replies = more.into_iter().chain([open.reply]);
            self.refuse(replies, FailureKind::ServerNotConnected, "is being stopped");
        }
        for id in self.isolated_sessions.ids() {
            self.close_isolated(id);
        }
    }
}

/// The server's policy, changed so that only a call reopens a lost session. Only the client knows
/// whether it still needs the session.
fn policy(server: &Policy) -> Policy {
    Policy {
        reconnect: Reconnect {
            mode: ReconnectMode::Manual,
            on_call: true,
            ..server.reconnect.clone()
        },
        ..server.clone()
    }
}
