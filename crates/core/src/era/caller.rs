//! The client of a call: its revision, capabilities and name.

use std::{borrow::Cow, sync::Arc};

use super::{
    ClientCapabilities, Era, LogLevel, Revision,
    capabilities::Need,
    modern::{BadMeta, RequestMeta},
};
use crate::message::{self, JsonObjectEditor, Method, Span, meta::CLIENT_CAPABILITIES};

/// The client of a call, as its session describes it, or the request if there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub revision: Revision,
    pub capabilities: Arc<ClientCapabilities>,
    /// `clientInfo`, as JSON text.
    pub client_info: Option<Arc<str>>,
    /// Minimum level of log messages for the client. `None` if it set no level.
    pub log_level: Option<LogLevel>,
}

/// Mainstay itself, for its own requests. It declares no capabilities, so that servers ask no
/// questions.
impl Default for Caller {
    fn default() -> Self {
        Self::at(Revision::LATEST_LEGACY)
    }
}

impl Caller {
    /// A client whose revision is known, but nothing else.
    pub fn at(revision: Revision) -> Self {
        Self {
            revision,
            capabilities: Arc::new(ClientCapabilities::none()),
            client_info: None,
            log_level: None,
        }
    }

    /// The client that sent `initialize` with these params (JSON text). Its revision is the one
    /// that Mainstay answers.
    pub fn from_initialize(params: &str) -> Self {
        let requested_version = message::text_member(params, "protocolVersion").unwrap_or_default();
        Self::initialized(params, Revision::negotiate(&requested_version))
    }

    /// The client that sent `initialize` with these params (JSON text), at the negotiated revision.
    pub fn initialized(params: &str, revision: Revision) -> Self {
        Self {
            revision,
            capabilities: Arc::new(
                message::member(params, "capabilities")
                    .map_or_else(ClientCapabilities::none, ClientCapabilities::read),
            ),
            client_info: message::member(params, "clientInfo").map(client_info),
            log_level: None,
        }
    }

    /// The client that sent a request with this `_meta`.
    pub fn modern(meta: &RequestMeta<'_>) -> Result<Self, BadMeta> {
        if meta.client_capabilities.len() > MAX_CAPABILITIES {
            return Err(BadMeta::Invalid(CLIENT_CAPABILITIES));
        }
        Ok(Self {
            revision: meta.revision()?,
            capabilities: Arc::new(ClientCapabilities::read(meta.client_capabilities)),
            client_info: meta.client_info.map(client_info),
            log_level: meta.log_level,
        })
    }

    /// True if the client gets log messages without a request for them.
    pub fn logs_by_default(&self) -> bool {
        self.era() == Era::Legacy
    }

    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Returns this caller with the tasks extension. Servers see this caller, and Mainstay polls
    /// their tasks.
    #[must_use]
    pub fn with_tasks(&self) -> Self {
        Self {
            capabilities: Arc::new(self.capabilities.with_tasks()),
            ..self.clone()
        }
    }

    /// True if the client accepts a question with these params (JSON text). Its revision must
    /// define the question, and the client must have declared the capability. Questions of
    /// extensions are always accepted, because only the client knows them.
    pub fn accepts(&self, question: Method, params: &str) -> bool {
        Need::for_question(question, params).is_none_or(|need| {
            need.known_to(self.revision) && self.capabilities.allows(question, params)
        })
    }

    /// The `params` of an `initialize` on behalf of this client, at this revision.
    pub fn initialize_params(&self, revision: Revision) -> String {
        let mut params = JsonObjectEditor::default();
        params.set_text("protocolVersion", revision.as_str());
        params.set("capabilities", &self.capabilities.for_era(Era::Legacy));
        let unknown_client = r#"{"name":"unknown","version":""}"#;
        params.set(
            "clientInfo",
            self.client_info.as_deref().unwrap_or(unknown_client),
        );
        params.to_string()
    }
}

/// Maximum size of a `clientInfo` to store unchanged, in bytes. Real clients send less.
const MAX_UNCHANGED_INFO: usize = 256;

/// Maximum size of the name in a larger `clientInfo`, in bytes. Records and logs show the name.
const MAX_NAME: usize = 128;
const MAX_VERSION: usize = 64;
/// Maximum size with members that are never shown, such as a description or icons.
const MAX_INFO: usize = 4 * 1024;

/// Maximum size of a client's capabilities, in bytes. They are stored until the session ends.
const MAX_CAPABILITIES: usize = 16 * 1024;

/// Maximum size of the params of `initialize`, in bytes. They are stored for the client's isolated
/// sessions.
const MAX_INITIALIZE: usize = 64 * 1024;

/// The part of an `initialize` that exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExcessiveInitialize {
    #[error("\"capabilities\" may have {MAX_CAPABILITIES} bytes")]
    Capabilities,
    #[error("the params of initialize may have {MAX_INITIALIZE} bytes")]
    Params,
}

/// Returns the params of an `initialize` (JSON text), with a shortened `clientInfo`.
pub fn bounded_initialize(params: &str) -> Result<Cow<'_, str>, ExcessiveInitialize> {
    let locate = |member| message::locate(params, Span::whole(params), &[member]);
    if locate("capabilities").is_some_and(|span| span.get(params).len() > MAX_CAPABILITIES) {
        return Err(ExcessiveInitialize::Capabilities);
    }
    let bounded_params = match locate("clientInfo") {
        Some(span) if span.get(params).len() > MAX_UNCHANGED_INFO => {
            let info = client_info(span.get(params));
            Cow::Owned(message::splice(params, &mut [(span, &*info)]))
        }
        _ => Cow::Borrowed(params),
    };
    if bounded_params.len() > MAX_INITIALIZE {
        return Err(ExcessiveInitialize::Params);
    }
    Ok(bounded_params)
}

/// Shortens a `clientInfo` (JSON text) to its limits.
fn client_info(text: &str) -> Arc<str> {
    if text.len() <= MAX_UNCHANGED_INFO {
        return message::one_line(text).into();
    }
    let Some(mut info) = JsonObjectEditor::read(text) else {
        return "{}".into();
    };
    let limits = [
        ("name", MAX_NAME),
        ("title", MAX_NAME),
        ("version", MAX_VERSION),
    ];
    let mut short_info = JsonObjectEditor::default();
    for (member, max_bytes) in limits {
        if let Some(value) = message::shown_member(text, member) {
            let value = &value[..value.floor_char_boundary(max_bytes)];
            info.set_text(member, value);
            short_info.set_text(member, value);
        } else if info
            .get(member)
            .is_some_and(|long_value| long_value.len() > max_bytes)
        {
            info.remove(member);
        }
    }
    let info = info.to_string();
    if info.len() <= MAX_INFO {
        info.into()
    } else {
        short_info.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_info_is_shortened() {
        let long_text = "é".repeat(100_000);
        let cut_text = "é".repeat(MAX_NAME / 2);
        let version = "é".repeat(MAX_VERSION / 2);
        let icon = "x".repeat(1000);
        for (info, expected) in [
            (
                r#"{"name":"c","version":"1"}"#.to_owned(),
                r#"{"name":"c","version":"1"}"#.to_owned(),
            ),
            (
                format!(
                    r#"{{"name":"{long_text}","title":"{long_text}","version":"{long_text}"}}"#
                ),
                format!(r#"{{"name":"{cut_text}","title":"{cut_text}","version":"{version}"}}"#),
            ),
            (
                format!(r#"{{"icon":"{icon}","name":"c","name":"d"}}"#),
                format!(r#"{{"icon":"{icon}","name":"d"}}"#),
            ),
            (
                format!(r#"{{"description":"{long_text}","name":"c","version":1}}"#),
                r#"{"name":"c"}"#.to_owned(),
            ),
            (
                format!(r#"{{"name":["{long_text}"],"version":"1"}}"#),
                r#"{"version":"1"}"#.to_owned(),
            ),
            (format!(r#""{long_text}""#), "{}".to_owned()),
        ] {
            let bounded_info = client_info(&info);
            assert_eq!(&*bounded_info, expected, "{}", &info[..40.min(info.len())]);
            let params = format!(r#"{{"protocolVersion":"x","clientInfo":{info}}}"#);
            let bounded_params = bounded_initialize(&params).expect("not too much");
            assert_eq!(
                bounded_params,
                format!(r#"{{"protocolVersion":"x","clientInfo":{expected}}}"#)
            );
        }
    }

    #[test]
    fn an_oversized_initialize_is_refused() {
        let long_text = "x".repeat(MAX_INITIALIZE);
        for (params, expected) in [
            (
                format!(r#"{{"capabilities":{{"experimental":"{long_text}"}}}}"#),
                ExcessiveInitialize::Capabilities,
            ),
            (
                format!(r#"{{"_meta":"{long_text}"}}"#),
                ExcessiveInitialize::Params,
            ),
        ] {
            assert_eq!(bounded_initialize(&params), Err(expected));
        }
    }
}
