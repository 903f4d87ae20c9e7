//! The settings of a client's isolated session: a log level and subscriptions. A reopened session
//! gets the same settings.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use mainstay_core::{
    era::LogLevel,
    ids::ServerName,
    message::{self, Method},
};
use mainstay_transport::{Frame, Listener, Notice, UpstreamSession};
use parking_lot::{Mutex, MutexGuard};

/// Maximum number of subscriptions that are restored, and maximum number of bytes of their URIs.
/// Clients have far fewer. Further subscriptions are forwarded to the server, but not restored.
const MAX_RESOURCES: usize = 1024;
const MAX_BYTES: usize = 256 * 1024;

/// Number of concurrent requests that restore a session. A server may take long for each request.
const AT_ONCE: usize = 8;

/// Time limit for restoring a new session. The client's call waits for it. Settings that are not
/// restored in time are lost.
const LIMIT: Duration = Duration::from_secs(5);

/// The settings of one isolated session. They outlive each upstream session that is opened for it.
#[derive(Debug)]
pub struct SessionSettings {
    server: ServerName,
    state: Mutex<SettingsState>,
    /// True if the session belongs to a single client, which gets the notices of the session.
    has_client: bool,
}

#[derive(Debug, Default)]
struct SettingsState {
    level: Option<LogLevel>,
    /// The subscribed resources: the server's URI, and the URI that the client used.
    resources: BTreeMap<Box<str>, Box<str>>,
    bytes: usize,
}

impl SessionSettings {
    /// Settings of a session that several clients share.
    pub fn new(server: &ServerName) -> Arc<Self> {
        Arc::new(Self::empty(server, false))
    }

    /// Settings of one client's session. After a reopening, the client gets notices of changes that
    /// it may have missed.
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

    fn state(&self) -> MutexGuard<'_, SettingsState> {
        // Held for a map operation, never across an await.
        self.state.lock()
    }

    pub fn set_log_level(&self, level: LogLevel) {
        self.state().level = Some(level);
    }

    /// True if the client accepts a log message of this level. A client that has set no level accepts
    /// all.
    pub fn accepts_level(&self, level: Option<LogLevel>) -> bool {
        let minimum = self.state().level;
        minimum
            .zip(level)
            .is_none_or(|(minimum, level)| level >= minimum)
    }

    /// Adds a subscription to the server's `uri`. The client uses the URI `used`. Returns true if the
    /// subscription is new.
    pub fn subscribe(&self, uri: &str, used: &str) -> bool {
        let mut state = self.state();
        let length_before = state.resources.get(uri).map(|used| used.len());
        let (places, freed) = match length_before {
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
        length_before.is_none()
    }

    /// Removes a subscription. Returns true if it existed.
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

    /// The URI by which the client knows a changed resource. A server may report a part of a
    /// subscribed resource (specification, "Resources", "Subscriptions"). `None` without a
    /// subscription.
    pub fn client_uri(&self, uri: &str) -> Option<Box<str>> {
        let state = self.state();
        if let Some(used) = state.resources.get(uri) {
            return Some(used.clone());
        }
        let is_part = state
            .resources
            .keys()
            .any(|subscribed| uri.starts_with(&**subscribed));
        is_part.then(|| uri.into())
    }

    /// Sets the log level and the subscriptions on a new session.
    pub async fn restore(&self, session: &UpstreamSession) {
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

    /// Sets the log level of a session, if the session supports log levels.
    pub(super) async fn apply_log_level(&self, session: &UpstreamSession, level: LogLevel) {
        if session.takes_log_level()
            && let Err(error) = session.set_log_level(level).await
        {
            tracing::debug!(server = %self.server, %error, "a log level was not set");
        }
    }

    /// Sends the client a notice for each change that it may have missed while it had no session: for
    /// each subscribed resource, and for each list whose changes the server announces.
    pub fn notify_missed(&self, session: &UpstreamSession, listener: &Arc<dyn Listener>) {
        if !self.has_client {
            return;
        }
        let uris: Vec<Box<str>> = self.state().resources.keys().cloned().collect();
        let resource_notice = |uri: Box<str>| {
            let params = format!(r#"{{"uri":{}}}"#, message::quote(&uri));
            (Method::ResourceUpdated, Some(params))
        };
        let declared = &session.greeting.capabilities;
        let lists = [
            (declared.tools_changed, Method::ToolsChanged),
            (declared.prompts_changed, Method::PromptsChanged),
            (declared.resources_changed, Method::ResourcesChanged),
        ];
        let missed = lists
            .into_iter()
            .filter(|(is_declared, _)| *is_declared)
            .map(|(_, method)| (method, None))
            .chain(uris.into_iter().map(resource_notice));
        for (method, params) in missed {
            let text = message::request(None, method.name(), params.as_deref());
            if let Ok(frame) = Frame::read(text.into()) {
                listener.take_notice(Notice { method, frame });
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
        assert_eq!(settings.client_uri("x://a").as_deref(), Some("x://a"));
        assert_eq!(
            settings.client_uri("x://a/part").as_deref(),
            Some("x://a/part")
        );
        assert_eq!(settings.client_uri("x://b"), None);
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
