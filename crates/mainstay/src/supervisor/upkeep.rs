//! One upstream session, its lifecycle, and the means to carry out what the lifecycle decides.

use std::sync::Arc;

use mainstay_core::{
    ids::Epoch,
    lifecycle::{Effect, Event, Lifecycle, Policy, Status},
};
use tokio::time::Instant;

use crate::transport::{Listener, Session, Stop};

pub struct Upkeep {
    life: Lifecycle,
    pub policy: Policy,
    pub stop: Stop,
    /// While it is up.
    pub session: Option<Arc<Session>>,
    /// What it takes to open it.
    pub initialize: Arc<str>,
    /// What the latest attempt began with.
    pub begun_with: Arc<str>,
    pub listener: Arc<dyn Listener>,
}

impl Upkeep {
    pub fn new(policy: Policy, initialize: Arc<str>, listener: Arc<dyn Listener>) -> Self {
        Self {
            life: Lifecycle::default(),
            policy,
            stop: Stop::default(),
            session: None,
            begun_with: Arc::clone(&initialize),
            initialize,
            listener,
        }
    }

    /// This with epochs that are all later than `past`.
    #[must_use]
    pub fn after(self, past: Epoch) -> Self {
        Self {
            life: Lifecycle::after(past),
            ..self
        }
    }

    pub fn step(&mut self, event: Event) -> Option<Effect> {
        let life = std::mem::take(&mut self.life);
        let (life, effect) = life.step(event, Instant::now().into_std(), &self.policy);
        self.life = life;
        effect
    }

    pub fn status(&self) -> Status {
        self.life.status(&self.policy)
    }

    pub fn epoch(&self) -> Epoch {
        self.life.epoch()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.life.deadline(&self.policy).map(Instant::from_std)
    }
}
