//! The client's session settings, to restore them in a new session at the daemon. Pure.

use std::collections::BTreeSet;

use bytes::Bytes;
use mainstay_core::{
    era::{Revision, code},
    message::{self, MessageKind, Method},
};
use mainstay_transport::Frame;

/// Maximum number of stored subscriptions. The daemon has the same limit.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// Maximum length in bytes of a line that may change settings. Longer lines are ignored.
const MAX_SETTING: usize = 64 * 1024;
/// A line that changes settings contains at least one of these texts.
const SETTINGS: [&str; 4] = [
    "initialize",
    "logging/setLevel",
    "/subscribe",
    "/unsubscribe",
];

/// The client's session settings.
#[derive(Debug, Default)]
pub struct ClientSession {
    opened: Option<Opened>,
    /// True if `notifications/initialized` was sent.
    is_initialized: bool,
    /// The params of the last `logging/setLevel` (JSON text).
    level: Option<String>,
    /// Subscribed URIs (JSON text).
    subscriptions: BTreeSet<String>,
    /// The number in the id of the front's last own request.
    next_id: u64,
}

/// An answered `initialize`.
#[derive(Debug)]
struct Opened {
    /// The text of the client's request.
    initialize: String,
    version: String,
    /// Change notifications that the server announced (`listChanged`).
    promised: Vec<Method>,
}

impl ClientSession {
    /// Records a line that a door receives, before a handover. Its answers are not visible, so each
    /// request counts as successful.
    pub fn sent(&mut self, line: &[u8]) {
        // Most lines contain none of these texts and need no parsing.
        let has_word = |word: &&str| {
            line.windows(word.len())
                .any(|window| window == word.as_bytes())
        };
        if line.len() > MAX_SETTING || !SETTINGS.iter().any(has_word) {
            return;
        }
        let Ok(frame) = Frame::read(Bytes::copy_from_slice(line)) else {
            return;
        };
        match frame.envelope().kind {
            MessageKind::Request { method, .. } => {
                if method == Method::Initialize {
                    self.forget();
                }
                self.note_answer(&frame, "{}");
            }
            MessageKind::Notification { method } => self.notified(method),
            MessageKind::Response { .. } => {}
        }
    }

    /// Resets the settings, for another session.
    pub fn forget(&mut self) {
        *self = Self {
            next_id: self.next_id,
            ..Self::default()
        };
    }

    /// True if the client has opened a session.
    pub fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// Records the answer to a request. An error changes nothing.
    pub fn answered(&mut self, request: &Frame, answer: &Frame) {
        if let Some(result) = answer.result() {
            self.note_answer(request, result);
        }
    }

    /// Stores the setting that a successful request has changed. `result` is JSON text.
    fn note_answer(&mut self, request: &Frame, result: &str) {
        match request.method() {
            Some(Method::Initialize) => {
                let version = message::text_member(result, "protocolVersion");
                self.opened = Some(Opened {
                    initialize: request.one_line(),
                    version: version.unwrap_or_default().into_owned(),
                    promised: promised(result),
                });
            }
            Some(Method::SetLevel) => self.level = request.params().map(str::to_owned),
            Some(Method::ResourcesSubscribe) => {
                if let Some(uri) = request.param("uri")
                    && self.subscriptions.len() < MAX_SUBSCRIPTIONS
                {
                    self.subscriptions.insert(uri.to_owned());
                }
            }
            Some(Method::ResourcesUnsubscribe) => {
                if let Some(uri) = request.param("uri") {
                    self.subscriptions.remove(uri);
                }
            }
            _ => {}
        }
    }

    /// Records whether the client has sent `notifications/initialized`.
    pub fn notified(&mut self, method: Method) {
        self.is_initialized |= method == Method::Initialized;
    }

    /// The client's `initialize`, if it has opened a session.
    pub fn initialize(&self) -> Option<String> {
        Some(self.opened.as_ref()?.initialize.clone())
    }

    /// The value of `MCP-Protocol-Version`; `None` if the revision has no such header.
    pub fn version_header(&self) -> Option<&str> {
        let version = self.opened.as_ref()?.version.as_str();
        let sends_header =
            Revision::parse_legacy(version).is_some_and(Revision::sends_version_header);
        sends_header.then_some(version)
    }

    /// The `notifications/initialized` for a new session, if the client has sent it before.
    pub fn initialized(&self) -> Option<String> {
        let text = || message::request(None, Method::Initialized.name(), None);
        self.is_initialized.then(text)
    }

    /// The requests that restore the settings in a new session.
    pub fn replay(&mut self) -> Vec<String> {
        let level = self.level.clone().map(|params| (Method::SetLevel, params));
        let subscribe_requests = self
            .subscriptions
            .iter()
            .map(|uri| (Method::ResourcesSubscribe, format!(r#"{{"uri":{uri}}}"#)));
        let requests: Vec<_> = level.into_iter().chain(subscribe_requests).collect();
        requests
            .into_iter()
            .map(|(method, params)| {
                self.next_id += 1;
                // Clients do not use ids with this prefix.
                let id = format!(r#""mainstay-front-{}""#, self.next_id);
                let method = method.name();
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            })
            .collect()
    }

    /// Change notifications for all lists that the server announced, because the lists may have
    /// changed meanwhile.
    pub fn list_changes(&self) -> Vec<String> {
        let promised_lists = self.opened.iter().filter(|_| self.is_initialized);
        promised_lists
            .flat_map(|opened_session| &opened_session.promised)
            .map(|method| message::request(None, method.name(), None))
            .collect()
    }
}

/// The change notifications that the result of an `initialize` announces.
fn promised(result: &str) -> Vec<Method> {
    let capabilities = message::member(result, "capabilities").unwrap_or("{}");
    [
        ("tools", Method::ToolsChanged),
        ("prompts", Method::PromptsChanged),
        ("resources", Method::ResourcesChanged),
    ]
    .into_iter()
    .filter(|(list, _)| {
        let list = message::member(capabilities, list);
        list.and_then(|list| message::member(list, "listChanged")) == Some("true")
    })
    .map(|(_, method)| method)
    .collect()
}

/// Change notifications for a reopened listen stream, because the lists may have changed meanwhile.
/// `listen` is the client's request (2026-07-28).
pub fn listen_changes(listen: &Frame) -> Vec<String> {
    let id = listen.id().unwrap_or("null");
    let requested_filter = listen.param("notifications").unwrap_or("{}");
    [
        ("toolsListChanged", Method::ToolsChanged),
        ("promptsListChanged", Method::PromptsChanged),
        ("resourcesListChanged", Method::ResourcesChanged),
    ]
    .into_iter()
    .filter(|(list, _)| message::member(requested_filter, list) == Some("true"))
    .map(|(_, method)| {
        let params = format!(
            r#"{{"_meta":{{"{}":{id}}}}}"#,
            message::meta::SUBSCRIPTION_ID
        );
        message::request(None, method.name(), Some(&params))
    })
    .collect()
}

/// The reason that a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The machine-readable error code.
    pub kind: &'static str,
    pub reason: String,
}

impl Unsent {
    pub const UNREACHABLE: &str = "daemon_unreachable";
}

/// The JSON-RPC error for a request that was not sent.
pub fn not_sent(id: &str, unsent_message: &Unsent) -> String {
    let text = format!("{}; the request was not sent", unsent_message.reason);
    let data = serde_json::json!({"kind": unsent_message.kind});
    message::error_response(Some(id), code::INTERNAL_ERROR, &text, Some(&data))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(text: String) -> Frame {
        Frame::read(text.into()).expect("a message")
    }

    fn request(method: &str, params: &str) -> Frame {
        frame(format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
        ))
    }

    fn result(result: &str) -> Frame {
        frame(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#))
    }

    fn error() -> Frame {
        frame(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#.to_owned())
    }

    fn opened(version: &str) -> ClientSession {
        let mut session = ClientSession::default();
        let answer = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}},"prompts":{{}}}}}}"#
        );
        session.answered(&request("initialize", r#"{"a":1}"#), &result(&answer));
        session
    }

    proptest! {
        /// A replay restores the client's last settings and nothing else.
        #[test]
        fn a_replay_sets_what_the_client_has_set(
            steps in prop::collection::vec((0..3u8, 0..6u8, any::<bool>()), 0..40)
        ) {
            let mut session = opened("2025-11-25");
            let (mut level, mut uris) = (None, BTreeSet::new());
            for (step, number, is_accepted) in steps {
                let uri = format!(r#"{{"uri":"fake://{number}"}}"#);
                let request = match step {
                    0 => request("logging/setLevel", &format!(r#"{{"level":"l{number}"}}"#)),
                    1 => request("resources/subscribe", &uri),
                    _ => request("resources/unsubscribe", &uri),
                };
                let answer = if is_accepted { result("{}") } else { error() };
                session.answered(&request, &answer);
                match step {
                    _ if !is_accepted => {}
                    0 => level = Some(format!("l{number}")),
                    1 => { uris.insert(format!("fake://{number}")); },
                    _ => { uris.remove(&format!("fake://{number}")); }
                }
            }
            let replay: Vec<_> = session.replay().into_iter().map(frame).collect();
            let values_of = |method, name: &str| {
                let requests = replay.iter().filter(|request| request.method() == Some(method));
                requests.filter_map(|request| request.text_param(name)).collect::<Vec<_>>()
            };
            prop_assert_eq!(values_of(Method::SetLevel, "level"), Vec::from_iter(level));
            prop_assert_eq!(
                values_of(Method::ResourcesSubscribe, "uri"),
                Vec::from_iter(uris)
            );
            let ids: BTreeSet<_> = replay.iter().filter_map(Frame::id).collect();
            prop_assert_eq!(ids.len(), replay.len());
        }
    }

    #[test]
    fn a_session_is_opened_anew_with_the_clients_own_words() {
        let mut session = opened("2025-06-18");
        let initialize = session.initialize().expect("it was opened");
        assert!(initialize.contains(r#""params":{"a":1}"#), "{initialize}");
        assert_eq!(session.initialized(), None);
        assert!(session.list_changes().is_empty());
        session.notified(Method::Initialized);
        assert!(session.initialized().is_some());
        let notifications = session.list_changes();
        assert_eq!(notifications.len(), 1, "only what was promised");
        assert!(notifications[0].contains("notifications/tools/list_changed"));
    }

    #[test]
    fn a_client_that_initializes_again_begins_anew() {
        let mut session = opened("2025-06-18");
        let line = |method: &str, params: &str| request(method, params).text().to_owned();
        session.sent(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        session.sent(line("logging/setLevel", r#"{"level":"debug"}"#).as_bytes());
        assert_eq!(session.replay().len(), 1);
        session.sent(line("initialize", r#"{"a":2}"#).as_bytes());
        assert_eq!(session.initialized(), None);
        assert!(session.replay().is_empty());
        let initialize = session.initialize().expect("it was opened");
        assert!(initialize.contains(r#""params":{"a":2}"#), "{initialize}");
    }

    #[test]
    fn the_revision_is_named_where_there_is_a_header_for_it() {
        assert_eq!(opened("2025-06-18").version_header(), Some("2025-06-18"));
        assert_eq!(opened("2025-03-26").version_header(), None);
        assert_eq!(ClientSession::default().version_header(), None);
    }

    #[test]
    fn an_initialize_that_failed_opens_nothing() {
        let mut session = ClientSession::default();
        session.answered(&request("initialize", "{}"), &error());
        assert_eq!(session.initialize(), None);
    }

    #[test]
    fn a_stream_that_listens_hears_of_what_it_asked_for() {
        let params = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false}}"#;
        let notifications = listen_changes(&request("subscriptions/listen", params));
        assert_eq!(notifications.len(), 1);
        assert!(notifications[0].contains(r#""io.modelcontextprotocol/subscriptionId":1"#));
    }
}
