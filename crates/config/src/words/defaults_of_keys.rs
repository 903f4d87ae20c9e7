//! Defaults of keys, from the default values of the fields that hold them.

use mainstay_core::{
    config::{Config, Journal, Launch, ServerConfig, StdioLaunch},
    ids::ServerName,
};
use serde_json::Value;

use crate::{read::policies::Policies, words::schema::KeyRow};

/// Returns the default of a key in the words of the file. `null` if it has no default, or several.
pub(crate) fn default_of(key: &KeyRow) -> Value {
    let default = if key.default_words.is_some() {
        Value::Null
    } else if let Some(field) = key.field_of::<Config>() {
        (field.write)(&Config::default())
    } else if let Some(field) = key.field_of::<Policies>() {
        (field.write)(&Policies::default())
    } else if let Some(field) = key.field_of::<Journal>() {
        (field.write)(&Journal::default())
    } else if let Some(field) = key.field_of::<ServerConfig>() {
        let name = ServerName::new("server").expect("a legal name");
        let launch = Launch::Stdio(StdioLaunch::default());
        (field.write)(&ServerConfig::new(name, launch))
    } else {
        Value::Null
    };
    // The keys of an object have their own defaults.
    if default.is_object() {
        Value::Null
    } else {
        default
    }
}
