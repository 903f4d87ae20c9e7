//! Routes for the configuration in force.

use mainstay_api as api;
use serde_json::json;

use crate::{
    code::{
        Code::{NotReloadable, UnknownRoute},
        FILE_ERRORS, INVALID_CONFIG,
    },
    config, hand_over,
    operation::{Operation, get, post, put},
    reload,
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::CONFIG, config::get)
            .summary("The configuration as its file has it; secrets are placeholders")
            .answers_with(&json!({"type": "object"}))
            .fails(&FILE_ERRORS),
        get(api::CONFIG_SCHEMA, config::schema)
            .summary("The JSON Schema of the configuration")
            .answers_schema(),
        put(api::CONFIG, config::put)
            .summary("Replace the configuration; placeholders keep their secrets")
            .accepts_with(&json!({"type": "object"}))
            .answers::<api::ConfigUpdated>()
            .fails(&FILE_ERRORS),
        post(api::RELOAD, reload::reload)
            .summary("Read the configuration again, or only compare it")
            .may_accept::<api::Reload>()
            .answers::<api::Reloaded>()
            .fails(&[NotReloadable, INVALID_CONFIG]),
        post(api::HAND_OVER, hand_over::hand_over)
            .summary("Ask a `mainstay mcp` for the state directory, as `mainstay serve` does")
            .accepts::<api::HandOver>()
            .answers::<api::HandedOver>()
            .fails(&[UnknownRoute]),
    ]
}
