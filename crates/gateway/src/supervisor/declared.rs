//! The declarations of the shared session: the client capabilities in its `initialize`, the
//! capabilities that the server declares, and the revision that the configuration states.

use std::sync::Arc;

use mainstay_core::{
    config::{Protocol, ServerConfig, ServerRequests},
    era::{ClientCapabilities, Era, Eras, Revision},
    message,
};
use mainstay_transport::{self as transport, UpstreamSession};
use serde_json::Value;

use super::{fleet::Fleet, sole::Sole};

/// Maximum size in bytes of a server's capabilities in an event. Real servers declare a few hundred
/// bytes.
const MAX_CAPABILITIES: usize = 16 * 1024;

/// The capabilities that the server has declared, for an event. Null if they are too large.
pub fn capabilities(session: &UpstreamSession) -> Value {
    let answer = session.initialize_answer.result();
    answer
        .and_then(|result| message::member(result, "capabilities"))
        .filter(|text| text.len() <= MAX_CAPABILITIES)
        .and_then(|text| message::foreign::read(text).ok())
        .unwrap_or_default()
}

/// The `initialize` parameters of the shared session. Includes the capabilities of the only client,
/// if they are known.
pub fn shared_initialize(config: &ServerConfig, fleet: &Fleet) -> Arc<str> {
    let declared = fleet.sole.as_ref().and_then(Sole::declared);
    let sole = declared.as_ref().map(|declared| &*declared.capabilities);
    initialize(config, sole)
}

/// The `initialize` parameters of a shared session. Declares the questions that the configuration
/// forwards, queues or answers. If there is only one client (`sole`), also declares the questions
/// that this client accepts.
pub fn initialize(config: &ServerConfig, sole: Option<&ClientCapabilities>) -> Arc<str> {
    let has_roots = !config.roots.is_empty();
    let capabilities = match (config.server_requests, sole) {
        (Some(ServerRequests::Queue), _) | (Some(ServerRequests::Forward), None) => {
            ClientCapabilities::all()
        }
        (None | Some(ServerRequests::Forward), Some(sole)) if has_roots => sole.with_roots(),
        (None | Some(ServerRequests::Forward), Some(sole)) => sole.clone(),
        (Some(ServerRequests::Reject), _) | (None, None) if has_roots => {
            ClientCapabilities::roots_only()
        }
        (Some(ServerRequests::Reject), _) | (None, None) => ClientCapabilities::none(),
    };
    let revision = match config.protocol {
        Protocol::At(revision) if revision.era() == Era::Legacy => revision,
        Protocol::At(_) | Protocol::Auto => Revision::LATEST_LEGACY,
    };
    transport::own_initialize(revision, &capabilities)
}

/// True if the configuration forwards or queues the questions of the shared session.
pub fn is_forwarded(config: &ServerConfig) -> bool {
    matches!(
        config.server_requests,
        Some(ServerRequests::Forward | ServerRequests::Queue)
    )
}

/// True if the handshake may be repeated with another revision than that of [`initialize`].
/// `"protocol": "legacy"` stands for all legacy revisions.
pub fn steps_down(config: &ServerConfig) -> bool {
    match config.protocol {
        Protocol::Auto => true,
        Protocol::At(revision) => revision == Revision::LATEST_LEGACY,
    }
}

/// The eras of a server whose revision the configuration states. `None` if it states no revision.
pub fn pinned(config: &ServerConfig) -> Option<Eras> {
    match config.protocol {
        Protocol::Auto => None,
        Protocol::At(revision) => Some(Eras::only(revision.era())),
    }
}
