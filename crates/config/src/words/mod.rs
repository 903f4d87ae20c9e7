//! The keys of a configuration, their values and their meaning.

mod access;
mod defaults_of_keys;
mod file;
mod parts;
mod policies;
mod profile;
#[cfg(test)]
mod reference;
mod reports;
pub(crate) mod schema;
mod server;
pub(crate) mod settings;
pub(crate) mod values;

use serde_json::Value;

use self::schema::document;
pub(crate) use self::{
    file::{FILE, FILE_SHAPE},
    server::{ENTRY, SERVER},
};
use crate::foreign::KEPT_KEYS;

/// The JSON Schema of a configuration (draft 2020-12).
pub fn schema() -> Value {
    document(&file::FILE, defaults_of_keys::default_of)
}

/// The text of [`schema`], as in docs/config.schema.json.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// True for a key of a server's entry that only Mainstay has.
pub fn is_own_key(key: &str) -> bool {
    SERVER.key(key).is_some_and(|row| !row.is_of_clients)
}

/// True for a key that people keep in a server's entry, even if it has no effect here.
pub fn is_known_key(key: &str) -> bool {
    SERVER.key(key).is_some() || KEPT_KEYS.contains(&key) || SERVER.later.contains(&key)
}
