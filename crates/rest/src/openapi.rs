//! The OpenAPI 3.1 document, generated from the rows of `routes` and from the wire types.
//! `docs/openapi.json` is a copy for readers without a daemon. A test compares both.

use std::{collections::BTreeSet, sync::LazyLock};

use axum::response::{IntoResponse, Response};
use http::header;
use mainstay_api as api;
use serde_json::{Map, Value, json};

use super::{
    code::ROUTING_ERRORS,
    operation::{Operation, get},
    routes,
};

/// Answers `GET /api/openapi.json`.
pub async fn document() -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, DOCUMENT.as_str()).into_response()
}

/// The row of the document's own route.
pub fn operations() -> Vec<Operation> {
    vec![
        get(api::OPENAPI, document)
            .summary("This document")
            .answers_with(&json!({"type": "object"})),
    ]
}

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| format!("{:#}\n", describe(routes::operations())));

/// The errors of all operations: statuses with codes, sorted.
fn errors(operations: &[Operation]) -> BTreeSet<(u16, &'static str)> {
    let of_operations = operations.iter().flat_map(Operation::codes);
    let all = of_operations.chain(ROUTING_ERRORS);
    all.map(|code| (code.status().as_u16(), code.word()))
        .collect()
}

fn describe(operations: Vec<Operation>) -> Value {
    let (mut paths, mut schemas, mut responses) = (Map::new(), Map::new(), Map::new());
    let words = errors(&operations).into_iter().map(|(_, word)| word);
    let words: BTreeSet<&str> = words.collect();
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "description": "Why something was not done. Further members depend on the error.",
            "required": ["error", "message"],
            "properties": {
                "error": {"type": "string", "description": "A word that programs compare", "enum": words},
                "message": {"type": "string", "description": "For people"},
                "findings": {
                    "type": "array",
                    "description": "What is wrong with a configuration or an entry (`invalid_config`)",
                    "items": {"$ref": "#/components/schemas/ConfigFinding"},
                },
            },
        }),
    );
    for operation in operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.describe();
        for refused in operation.refusals() {
            responses.insert(refused.name(), refused.describe());
        }
        for (name, schema) in operation.schemas() {
            schemas.insert(name, json!(schema));
        }
    }
    schemas.sort_keys();
    responses.sort_keys();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mainstay",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7420"}],
        "security": [{"control": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "securitySchemes": {
                "control": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The control token, from the file `token` in the state directory",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "mainstay-7420",
                    "description": "The cookie of the web page, from `POST /api/session`; its name ends with the port \
                        of `Host`. Only requests of the same origin may use it, and each needs the header `X-Page-Key`, \
                        with the `pageKey` of `POST /api/session`",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests;
