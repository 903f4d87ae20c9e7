//! Tests of a session's lifecycle: exact sequences of states, the timings of every preset, the texts that users
//! see, and invariants of random event sequences.

#![expect(
    clippy::unnecessary_wraps,
    reason = "effects are compared with what a step returns"
)]

mod calls;
mod courses;
mod histories;
mod people;
mod seeds;
mod timings;
mod words;

use std::time::Duration;

use super::*;

const SECOND: u64 = 1000;
const HOUR: u64 = 3_600_000;

fn crash() -> Loss {
    Loss::Crashed {
        code: Some(3),
        signal: None,
    }
}

fn connection_loss() -> Loss {
    Loss::Disconnected("gone".to_owned())
}

fn connect_failure() -> Loss {
    Loss::ConnectFailed("connection refused".to_owned())
}

fn unavailable(seconds: u64) -> Loss {
    Loss::Unavailable {
        reason: "HTTP 503".to_owned(),
        retry_after: Duration::from_secs(seconds),
    }
}

/// A preset without jitter.
fn steady(preset: Preset) -> Policy {
    let mut policy = preset.policy();
    policy.reconnect.jitter = 0.0;
    policy.health.jitter = 0.0;
    policy
}

/// A session with its own clock, which only the test advances. Times are in milliseconds.
struct Course {
    life: Lifecycle,
    policy: Policy,
    now: Instant,
}

impl Course {
    fn new(policy: Policy) -> Self {
        Self {
            life: Lifecycle::default(),
            policy,
            now: Instant::now(),
        }
    }

    /// A course whose session is up.
    fn connected(policy: Policy) -> Self {
        let mut course = Self::new(policy);
        course.step(Event::Start);
        course.open_session();
        course
    }

    /// A course whose session was up for an hour and ended with this loss.
    fn after_loss(policy: Policy, loss: Loss) -> Self {
        let mut course = Self::connected(policy);
        course.wait(HOUR);
        course.end_session(loss);
        course
    }

    fn step(&mut self, event: Event) -> Option<Effect> {
        let life = std::mem::take(&mut self.life);
        let (life, effect) = life.step(event, self.now, &self.policy);
        self.life = life;
        effect
    }

    /// Steps with a report that carries the current epoch.
    fn report(&mut self, report: SessionReport) -> Option<Effect> {
        self.step(Event::Io(self.life.epoch, report))
    }

    /// Makes the current attempt succeed.
    fn open_session(&mut self) {
        assert_eq!(self.report(SessionReport::Begun), None);
        assert_eq!(self.report(SessionReport::Opened), None);
        assert_eq!(self.state(), SessionState::Connected);
    }

    fn end_session(&mut self, loss: Loss) -> Option<Effect> {
        self.report(SessionReport::Ended(loss))
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// Milliseconds until the deadline.
    fn due(&self) -> Option<u64> {
        let deadline = self.life.deadline(&self.policy)?;
        let remaining = deadline.duration_since(self.now).as_millis();
        Some(u64::try_from(remaining).expect("a short wait"))
    }

    /// Advances the clock to the deadline, and steps.
    fn tick(&mut self) -> Option<Effect> {
        self.wait(self.due().expect("something is due"));
        self.step(Event::Tick)
    }

    fn status(&self) -> SessionStatus {
        self.life.status(&self.policy)
    }

    fn state(&self) -> SessionState {
        self.status().state
    }
}

fn open_effect(epoch: u64) -> Option<Effect> {
    Some(Effect::Open(Epoch(epoch)))
}

fn close_effect(epoch: u64) -> Option<Effect> {
    Some(Effect::Close(Epoch(epoch)))
}

fn kill(epoch: u64) -> Option<Effect> {
    Some(Effect::Kill(Epoch(epoch)))
}

fn probe(epoch: u64) -> Option<Effect> {
    Some(Effect::Probe(Epoch(epoch)))
}
