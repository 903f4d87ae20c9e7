//! The state that all sessions share, and the state of one session.

#![expect(deprecated, reason = "logging is part of the handshake revisions")]

use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion, RequestStateCodec},
    service::{RequestContext, ServiceError},
    task_manager::TaskManager,
};
use serde_json::json;
use tokio::sync::broadcast;

use crate::{catalog::Catalog, era::Era};

/// A list whose change is announced.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Tools,
    Prompts,
}

/// State that all sessions and stateless requests share.
pub struct Shared {
    pub era: Era,
    pub catalog: Catalog,
    /// Notifies every session and every open `subscriptions/listen`.
    pub changes: broadcast::Sender<Change>,
    /// Session ids whose client has reopened an event stream.
    pub resumed: broadcast::Sender<String>,
    /// Seals `requestState`; the key lives as long as the process.
    pub seal: RequestStateCodec,
    pub tasks: TaskManager,
}

impl Shared {
    pub fn new(era: Era) -> anyhow::Result<Self> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).context("no randomness for the state key")?;
        Ok(Self {
            era,
            catalog: Catalog::load().context("catalog.json does not match the models")?,
            changes: broadcast::Sender::new(16),
            resumed: broadcast::Sender::new(16),
            seal: RequestStateCodec::try_new(key)?,
            tasks: TaskManager::new(),
        })
    }
}

/// One legacy session, or one modern request.
pub struct Conformance {
    pub shared: Arc<Shared>,
    /// Set by `logging/setLevel`. A std mutex: held for a copy, never across an await.
    log_level: Mutex<LoggingLevel>,
}

impl Conformance {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            log_level: Mutex::new(LoggingLevel::Debug),
        }
    }

    pub fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = level;
    }

    /// Sends a log message unless the client asked for less: per session before
    /// 2026-07-28, per request since, where silence is the default.
    pub async fn log(
        &self,
        context: &RequestContext<RoleServer>,
        message: &str,
    ) -> Result<(), ServiceError> {
        let threshold = if is_modern(context) {
            context.meta.log_level()
        } else {
            Some(*self.log_level.lock())
        };
        if threshold.is_some_and(|threshold| LoggingLevel::Info as u8 >= threshold as u8) {
            let param = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(message));
            context.peer.notify_logging_message(param).await?;
        }
        Ok(())
    }
}

/// True if the request follows 2026-07-28 or later: no handshake, no session.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::NO_INITIALIZE.as_str())
}
