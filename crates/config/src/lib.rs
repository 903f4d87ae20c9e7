//! The configuration: a file's text in, valid types out.
//!
//! A configuration is checked completely before a port is bound (invariant 11). An error in one server's
//! entry makes only that server [`Launch::Broken`](mainstay_core::config::Launch). Any other error makes
//! the file unusable. Every finding has a place: line, column and key path.
//!
//! [`parse`] is pure: it reads environment variables, the home folder and other files through
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
mod secret_uses;
mod show;
mod target;
mod words;

pub use change_words::change_words;
pub use foreign::{KEPT_KEYS, TransportWord, UNUSED_KEYS};
pub use location::{Location, NamedBy, locate, locate_clients, named_by};
pub use overlay::{
    Approval, Overlay, Requested, Runtime, RuntimeChange, ServerStanding, digest_of_entry,
};
pub use plan::ReloadPlan;
pub use read::{
    ALLOWED_TOOLS, CERTIFICATE_KEY, CLIENT_CA_KEY, ConfigSource, DISABLED_TOOLS, Environment,
    Inline, InvalidHeader, InvalidInline, MAX_EXPANDED, PRIVATE_KEY_KEY, Parsed, ParsedEntry,
    References, SECRET_NAME_RULE, Syntax, UnreadableFile, UnreadableSecret, adopt, check_header,
    is_ours, is_secret_name, parse, parse_as, parse_entry, position_of, telemetry_of_environment,
};
pub use secret_uses::{SecretUses, secret_uses};
pub use show::{Defaults, file_view};
pub use target::{ServerTarget, folded};
pub use words::{is_known_key, is_own_key, schema, schema_text, values::access_value};
