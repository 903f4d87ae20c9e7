//! The configuration: a file's text in, valid types out.
//!
//! Everything is decided here, before a port is bound (invariant 11). What one server's entry gets wrong
//! makes that server [`Launch::Broken`](mainstay_core::config::Launch) and leaves the others alone; what the
//! file gets wrong is an error of the file. Every finding says where it stands: line, column and key path.
//!
//! [`parse`] is pure: the environment, the home folder and other files reach it through
//! [`Environment`].

mod change_words;
pub mod edit;
mod foreign;
pub mod lines;
mod location;
pub mod masked_text;
pub mod masking;
mod overlay;
pub mod plan;
mod read;
mod show;
mod target;
mod words;

pub use change_words::change_words;
pub use foreign::{KEPT_KEYS, TransportWord, UNUSED_KEYS};
pub use location::{Location, NamedBy, locate, locate_clients, named_by};
pub use overlay::{Approval, Overlay, Requested, Runtime, Standing, Word, digest_of_entry};
pub use plan::Plan;
pub use read::{
    ALLOWED_TOOLS, DISABLED_TOOLS, Environment, Inline, InvalidInline, MAX_EXPANDED, Parsed,
    ParsedEntry, References, Source, Syntax, Unreadable, adopt, parse, parse_as, parse_entry,
    telemetry_of_environment,
};
pub use show::{Defaults, shown};
pub use target::{Target, folded};
pub use words::{is_known_key, is_own_key, schema, schema_text};
