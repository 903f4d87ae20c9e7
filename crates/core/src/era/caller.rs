//! Who asks, as far as the wire is concerned.

use std::sync::Arc;

use super::{
    ClientCapabilities, Era, LogLevel, Revision,
    capabilities::Need,
    modern::{BadMeta, RequestMeta},
};
use crate::message::{self, Method, Object};

/// The client of a call: of a session where it opened one, else as its request says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub revision: Revision,
    pub capabilities: Arc<ClientCapabilities>,
    /// `clientInfo` as it came, JSON text.
    pub client_info: Option<Arc<str>>,
    /// The least severe log message it wants.
    pub log_level: Option<LogLevel>,
}

/// Ourselves, where nobody else asks: nothing that asks back can be taken.
impl Default for Caller {
    fn default() -> Self {
        Self::at(Revision::LATEST_LEGACY)
    }
}

impl Caller {
    /// One of which nothing but its revision is known.
    pub fn at(revision: Revision) -> Self {
        Self {
            revision,
            capabilities: Arc::new(ClientCapabilities::none()),
            client_info: None,
            log_level: None,
        }
    }

    /// Who sent `initialize` with these params (JSON text), at the revision that we answer with.
    pub fn of_initialize(params: &str) -> Self {
        let requested = message::text_member(params, "protocolVersion").unwrap_or_default();
        Self::initialized(params, Revision::negotiate(&requested))
    }

    /// Who sent `initialize` with these params (JSON text) and got this revision.
    pub fn initialized(params: &str, revision: Revision) -> Self {
        Self {
            revision,
            capabilities: Arc::new(
                message::member(params, "capabilities")
                    .map_or_else(ClientCapabilities::none, ClientCapabilities::read),
            ),
            client_info: message::member(params, "clientInfo").map(one_line),
            log_level: None,
        }
    }

    /// Who sent a request with this `_meta`.
    pub fn modern(meta: &RequestMeta<'_>) -> Result<Self, BadMeta> {
        Ok(Self {
            revision: meta.revision()?,
            capabilities: Arc::new(ClientCapabilities::read(meta.client_capabilities)),
            client_info: meta.client_info.map(one_line),
            log_level: meta.log_level,
        })
    }

    /// Whether it gets log messages without having asked for any.
    pub fn logs_by_default(&self) -> bool {
        self.era() == Era::Legacy
    }

    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// In its name, and with tasks, which we see to the end for it.
    #[must_use]
    pub fn with_tasks(&self) -> Self {
        Self {
            capabilities: Arc::new(self.capabilities.with_tasks()),
            ..self.clone()
        }
    }

    /// Whether it can be asked this, with these params (JSON text): its revision knows the question,
    /// and it declared that it takes it. What is none of the protocol's questions is an extension's,
    /// and the client's to refuse.
    pub fn takes(&self, question: Method, params: &str) -> bool {
        Need::of(question, params).is_none_or(|need| {
            need.known_to(self.revision) && self.capabilities.allows(question, params)
        })
    }

    /// `params` of an `initialize` in its name, at this revision.
    pub fn initialize_params(&self, revision: Revision) -> String {
        let mut params = Object::default();
        params.set_text("protocolVersion", revision.as_str());
        params.set("capabilities", &self.capabilities.for_era(Era::Legacy));
        let unnamed = r#"{"name":"unknown","version":""}"#;
        params.set("clientInfo", self.client_info.as_deref().unwrap_or(unnamed));
        params.to_string()
    }
}

fn one_line(text: &str) -> Arc<str> {
    message::one_line(text).into()
}
