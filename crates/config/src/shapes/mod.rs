//! The keys of a configuration, what may stand there, and what it means.

mod defaults_of_keys;
mod file;
mod parts;
mod policies;
mod profile;
#[cfg(test)]
mod reference;
mod reports;
mod server;

use serde_json::Value;

pub(super) use self::{
    file::{FILE, FILE_SHAPE},
    server::{ENTRY, SERVER},
};
use crate::schema::document;

/// The JSON Schema of a configuration (draft 2020-12).
pub fn schema() -> Value {
    document(&file::FILE, defaults_of_keys::default_of)
}

/// The same as text, as docs/config.schema.json has it.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}
