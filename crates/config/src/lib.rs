//! The configuration: a file's text in, valid types out.
//!
//! Everything is decided here, before a port is bound (invariant 11). What one server's entry gets
//! wrong makes that server [`Launch::Broken`](mainstay_core::config::Launch) and leaves the others alone; what the file gets wrong
//! is an error of the file. Every finding says where it stands: line, column and key path.
//!
//! [`parse`] is pure: the environment, the home folder and other files reach it through
//! [`Environment`].

mod alerts;
mod change_words;
mod choice;
mod dialect;
pub mod edit;
mod entry;
mod env_file;
mod expand;
mod fields;
mod foreign;
mod http;
mod inline;
mod journal;
pub mod lines;
mod location;
pub mod masked_text;
pub mod masking;
mod node;
mod numbers;
mod options;
mod overlay;
mod parse;
pub mod plan;
mod policies;
mod profiles;
mod reach;
mod report;
mod schema;
mod server_name;
mod settings;
mod shapes;
mod shown;
mod shown_values;
mod syntax;
mod target;
mod telemetry;
mod unreadable;
mod withheld;

pub use change_words::change_words;
pub use expand::{Environment, MAX_EXPANDED, References};
pub use inline::{Inline, InvalidInline};
pub use location::{Location, NamedBy, locate, locate_clients, named_by};
pub use overlay::{Approval, Overlay, Requested, Runtime, Standing, Word, digest_of_entry};
pub use parse::{Parsed, ParsedEntry, Source, parse, parse_as, parse_entry};
pub use plan::Plan;
pub use server_name::adopt;
pub use shapes::{schema, schema_text};
pub use shown::{Defaults, shown};
pub use syntax::Syntax;
pub use target::{Target, folded};
pub use telemetry::telemetry_of_environment;
pub use unreadable::Unreadable;
pub use withheld::{ALLOWED_TOOLS, DISABLED_TOOLS};
