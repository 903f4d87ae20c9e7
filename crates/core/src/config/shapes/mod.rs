//! The keys of a configuration, what may stand there, and what it means.

mod file;
mod parts;
mod policies;
mod profile;
mod reports;
mod server;

use serde_json::Value;

pub(super) use self::{
    file::{FILE, FILE_SHAPE},
    server::{ENTRY, SERVER},
};
use super::schema::document;

/// The JSON Schema of a configuration (draft 2020-12).
pub fn schema() -> Value {
    document(&file::FILE)
}

/// The same as text, as docs/config.schema.json has it.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}
