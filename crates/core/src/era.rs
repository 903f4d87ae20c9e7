//! Differences between protocol revisions, as data and as translations of JSON text. Other modules
//! query a feature of a revision and never compare revisions.
//!
//! *Legacy* revisions open a session with `initialize`. *Modern* revisions have no session: `_meta`
//! of every request describes the client (specification 2026-07-28, "Versioning"). A translation
//! leaves all other bytes unchanged (invariant 5).

mod caller;
mod capabilities;
pub mod discovery;
mod eras;
pub mod headers;
pub mod listen;
mod log_level;
pub mod modern;
pub mod questions;
pub mod request;
pub mod result;
mod revision;
pub mod step_down;
pub mod tasks;

pub use self::{
    caller::{Caller, ExcessiveInitialize, bounded_initialize},
    capabilities::{
        Capabilities, ClientCapabilities, Greeting, InvalidGreeting, MAX_INSTRUCTIONS,
        bounded_instructions,
    },
    eras::Eras,
    log_level::LogLevel,
    revision::{Era, Revision},
};

/// Error codes of MCP and of JSON-RPC.
pub mod code {
    pub const HEADER_MISMATCH: i64 = -32020;
    pub const MISSING_CAPABILITY: i64 = -32021;
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// Only in legacy revisions. Modern revisions use `INVALID_PARAMS`.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Only in 2025-11-25. Modern revisions answer with `input_required`.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;

    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
}
