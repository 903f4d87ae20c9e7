//! What a client has set on its isolated session: a log level and subscriptions. A session that is
//! opened again gets the same settings.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use mainstay_core::{
    era::LogLevel,
    ids::ServerName,
    message::{self, Method},
};
use mainstay_transport::{Frame, Listener, Notice, Session};
use parking_lot::{Mutex, MutexGuard};

/// Subscriptions that are restored, and the bytes of their URIs. Far more than clients have. Others are
/// passed on, and lost with the session.
const MAX_RESOURCES: usize = 1024;
const MAX_BYTES: usize = 256 * 1024;

/// Requests at once that restore a session: a server may handle each slowly.
const AT_ONCE: usize = 8;

/// How long a call waits for its new session to be as the old one was. What is not restored by then is
/// not restored.
const LIMIT: Duration = Duration::from_secs(5);

/// The settings of one isolated session, whichever upstream session it is at present.
#[derive(Debug)]
pub struct SessionSettings {
    server: ServerName,
    state: Mutex<State>,
    /// Whether a single client gets the session's notices.
    has_client: bool,
}

#[derive(Debug, Default)]
struct State {
    level: Option<LogLevel>,
    /// By the server's own URI, the URI that the client used.
    resources: BTreeMap<Box<str>, Box<str>>,
    bytes: usize,
}

impl SessionSettings {
    /// Settings of a session that no single client has.
    pub fn new(server: &ServerName) -> Arc<Self> {
        Arc::new(Self::empty(server, false))
    }

    /// Settings of one client's session. The client is told what it may have missed.
    pub fn of_client(server: &ServerName) -> Arc<Self> {
        Arc::new(Self::empty(server, true))
    }

    fn empty(server: &ServerName, has_client: bool) -> Self {
        Self {
            server: server.clone(),
            state: Mutex::default(),
            has_client,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Held for a map operation, never across an await.
        self.state.lock()
    }

    pub fn set_log_level(&self, level: LogLevel) {
        self.state().level = Some(level);
    }

    /// Whether the client wants a log message of this level. Without a wish the server decides.
    pub fn hears(&self, level: Option<LogLevel>) -> bool {
        let wanted = self.state().level;
        wanted
            .zip(level)
            .is_none_or(|(wanted, level)| level >= wanted)
    }

    /// Remembers a subscription to the server's `uri`, which the client calls `used`. Returns whether it
    /// is new.
    pub fn subscribe(&self, uri: &str, used: &str) -> bool {
        let mut state = self.state();
        let known = state.resources.get(uri).map(|used| used.len());
        let (places, freed) = match known {
            Some(length) => (0, uri.len() + length),
            None => (1, 0),
        };
        let bytes = state.bytes - freed + uri.len() + used.len();
        if state.resources.len() + places <= MAX_RESOURCES && bytes <= MAX_BYTES {
            state.bytes = bytes;
            state.resources.insert(uri.into(), used.into());
        } else {
            tracing::warn!(
                server = %self.server,
                uri,
                "too many subscriptions: this one will not outlive its session"
            );
        }
        known.is_none()
    }

    /// Returns whether there was such a subscription.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        let mut state = self.state();
        let Some(used) = state.resources.remove(uri) else {
            return false;
        };
        state.bytes -= uri.len() + used.len();
        true
    }

    pub fn has_resources(&self) -> bool {
        !self.state().resources.is_empty()
    }

    /// The URI by which the client knows a resource that has changed. A server may name a part of what
    /// was subscribed to (specification, resources, "Subscriptions").
    pub fn used(&self, uri: &str) -> Option<Box<str>> {
        let state = self.state();
        if let Some(used) = state.resources.get(uri) {
            return Some(used.clone());
        }
        let is_part = state
            .resources
            .keys()
            .any(|known| uri.starts_with(&**known));
        is_part.then(|| uri.into())
    }

    /// Asks a new session for what the one before was asked for.
    pub async fn restore(&self, session: &Session) {
        let (level, uris) = {
            let state = self.state();
            let uris: Vec<Box<str>> = state.resources.keys().cloned().collect();
            (state.level, uris)
        };
        let restoring = async {
            if let Some(level) = level {
                self.apply_log_level(session, level).await;
            }
            stream::iter(uris)
                .for_each_concurrent(AT_ONCE, async |uri| {
                    if let Err(error) = session.subscribe(&uri).await {
                        tracing::debug!(server = %self.server, %uri, %error, "a subscription was not restored");
                    }
                })
                .await;
        };
        if tokio::time::timeout(LIMIT, restoring).await.is_err() {
            tracing::warn!(
                server = %self.server,
                "a session that was opened again was not restored in time"
            );
        }
    }

    /// Asks a session for log messages from this level on, if it takes a level.
    pub(super) async fn apply_log_level(&self, session: &Session, level: LogLevel) {
        if session.takes_log_level()
            && let Err(error) = session.set_log_level(level).await
        {
            tracing::debug!(server = %self.server, %error, "a log level was not set");
        }
    }

    /// Tells the client what it may have missed while it had no session: every resource that it is
    /// subscribed to, and every list that the server announces changes of.
    pub fn tell_missed(&self, session: &Session, listener: &Arc<dyn Listener>) {
        if !self.has_client {
            return;
        }
        let uris: Vec<Box<str>> = self.state().resources.keys().cloned().collect();
        let of_resource = |uri: Box<str>| {
            let params = format!(r#"{{"uri":{}}}"#, message::quote(&uri));
            (Method::ResourceUpdated, Some(params))
        };
        let declared = &session.greeting.capabilities;
        let lists = [
            (declared.tools_changed, Method::ToolsChanged),
            (declared.prompts_changed, Method::PromptsChanged),
            (declared.resources_changed, Method::ResourcesChanged),
        ];
        let lists = lists.into_iter().filter(|(is_declared, _)| *is_declared);
        let missed = lists
            .map(|(_, method)| (method, None))
            .chain(uris.into_iter().map(of_resource));
        for (method, params) in missed {
            let text = message::request(None, method.name(), params.as_deref());
            if let Ok(frame) = Frame::read(text.into()) {
                listener.hear(Notice { method, frame });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> SessionSettings {
        SessionSettings::empty(&ServerName::new("x").expect("a name"), false)
    }

    #[test]
    fn subscriptions_are_known_by_the_uri_that_was_used() {
        let settings = empty();
        assert!(settings.subscribe("x://a", "mainstay+s:x://a"));
        assert!(!settings.subscribe("x://a", "x://a"));
        assert_eq!(settings.used("x://a").as_deref(), Some("x://a"));
        assert_eq!(settings.used("x://a/part").as_deref(), Some("x://a/part"));
        assert_eq!(settings.used("x://b"), None);
        assert!(settings.unsubscribe("x://a") && !settings.unsubscribe("x://a"));
        assert_eq!(settings.state().bytes, 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let settings = empty();
        for number in 0..2 * MAX_RESOURCES {
            settings.subscribe(&format!("x://{number}"), "x");
        }
        assert_eq!(settings.state().resources.len(), MAX_RESOURCES);
        let settings = empty();
        let long = "x".repeat(MAX_BYTES / 2);
        for _ in 0..3 {
            settings.subscribe(&long, &long);
            settings.subscribe(&format!("{long}y"), "y");
        }
        assert!(settings.state().bytes <= MAX_BYTES);
    }
}
