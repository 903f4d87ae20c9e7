//! What the REST door says of itself: OpenAPI 3.1, made of one table of operations and of the wire
//! types. `docs/openapi.json` is the same document, for those who have no daemon at hand; tests pin
//! that it is, and that the router serves what stands here and nothing else.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;
use mainstay_core::record::{Door, Status};
use serde_json::{Map, Value, json};

use super::operation::{JSON, Operation};
use crate::api;

/// `GET /api/openapi.json`
pub async fn document() -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, DOCUMENT.as_str()).into_response()
}

static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", describe(operations())));

/// Every operation under `/api`.
fn operations() -> Vec<Operation> {
    let get = |path, what| Operation::new("get", path, what);
    let post = |path, what| Operation::new("post", path, what);
    let put = |path, what| Operation::new("put", path, what);
    let delete = |path, what| Operation::new("delete", path, what);
    vec![
        get(api::OPENAPI, "This document").answers_with(&json!({"type": "object"})),
        // [002]'s
        get(api::CLIENTS, "How the servers are, by name").answers::<api::Clients>(),
        post(api::CONNECT_CLIENT, "Add a server, if it can be connected")
            .takes_with(&entry(&["name"]))
            .answers::<api::ClientOperated>(),
        delete(api::CLIENT, "Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::ClientOperated>(),
        post(api::RECONNECT_CLIENT, "Connect a server that is not")
            .may_take::<api::Reconnect>()
            .answers::<api::ClientOperated>(),
        post(api::DISCONNECT_CLIENT, "Stop a server").answers::<api::ClientOperated>(),
        get(api::TOOLS, "The tools of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Tools>(),
        post(api::CALL, "Call a tool")
            .takes::<api::Call>()
            .answers::<api::Answer>(),
        get(api::RESOURCES, "The resources of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Resources>(),
        post(api::READ, "Read the first content of a resource")
            .takes::<api::Read>()
            .needing(&json!({"required": ["server"], "properties": {"server": text()}}))
            .answers::<api::Content>(),
        // What [002] has not.
        get(
            api::TEMPLATES,
            "The resource templates of all servers, or of one",
        )
        .query("server", SERVER, &text())
        .answers::<api::Templates>(),
        post(
            api::READ_WHOLE,
            "Read a resource, from whichever server has it",
        )
        .takes::<api::Read>()
        .answers::<api::WholeRead>(),
        get(api::PROMPTS, "The prompts of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Prompts>(),
        post(api::GET_PROMPT, "Get a prompt")
            .takes::<api::GetPrompt>()
            .answers::<api::Answer>(),
        get(
            api::SERVERS,
            "How the servers are, in the order of the configuration",
        )
        .answers::<api::Servers>(),
        post(api::SERVERS, "Add a server")
            .takes_with(&entry(&["name"]))
            .answers::<api::Operated>(),
        get(api::SERVER, "How a server is, and its entry").answers::<api::ServerDetails>(),
        put(api::SERVER, "Give a server this entry, or add it")
            .takes_with(&entry(&[]))
            .answers::<api::Operated>(),
        delete(api::SERVER, "Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::Removed>(),
        post(api::OPERATE, "Start, stop, restart or reconnect a server").answers::<api::Operated>(),
        post(api::ENABLE, "Enable a server")
            .may_take::<api::Keeping>()
            .answers::<api::Operated>(),
        post(api::DISABLE, "Disable a server")
            .may_take::<api::Keeping>()
            .answers::<api::Operated>(),
        post(
            api::APPROVE,
            "Let a server be started that was added from inside a client",
        )
        .may_take::<api::Keeping>()
        .answers::<api::Operated>(),
        post(
            api::EXECUTE,
            "Call a tool; what goes wrong is said in the answer",
        )
        .may_take::<api::Execute>()
        .answers::<api::Executed>(),
        get(api::CALL_RECORDS, "Records of calls, the newest first")
            .query("limit", "How many at most", &number())
            .query("server", SERVER, &text())
            .query("tool", "A tool's own name, or server/tool", &text())
            .query(
                "status",
                "How the call ended",
                &one_of(Status::ALL.iter().map(|it| it.as_str())),
            )
            .query(
                "door",
                "Where it came in",
                &one_of(Door::ALL.iter().map(|it| it.as_str())),
            )
            .query("client", "A client's name, as it declared itself", &text())
            .query("session", "A session, as records name it", &text())
            .query("since", TIME, &time())
            .query("until", TIME, &time())
            .query("text", "A part of server/tool", &text())
            .query("before", "`next` of the page before", &record())
            .answers::<api::CallRecords>(),
        get(
            api::CALL_RECORD,
            "A record, with its arguments and its result",
        )
        .answers::<api::WholeCallRecord>(),
        get(api::OBJECT, "An object by its content identifier")
            .query("offset", "The first byte", &number())
            .query("length", "How many bytes", &number())
            .answers_with(&json!({})),
        get(
            api::STATISTICS,
            "Calls, errors and latencies of each tool over time",
        )
        .query("server", SERVER, &text())
        .query("tool", "A tool's own name", &text())
        .query("since", TIME, &time())
        .query("until", TIME, &time())
        .query("bucketMs", "The length of a bucket", &number())
        .answers::<api::Statistics>(),
        get(
            api::LOGS,
            "The end of a server's log; with follow, what comes",
        )
        .query(
            "tail",
            "How many lines",
            &json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        )
        .query(
            "follow",
            "As server-sent events, without an end",
            &boolean(),
        )
        .answers::<api::Logs>()
        .streams(),
        get(api::HEALTH, "Every server asked just now, or one")
            .query("server", SERVER, &text())
            .answers::<api::HealthReport>(),
        get(
            api::CONFIG,
            "The configuration as its file has it; secrets are placeholders",
        )
        .answers_with(&json!({"type": "object"})),
        put(
            api::CONFIG,
            "Replace the configuration; placeholders keep their secrets",
        )
        .takes_with(&json!({"type": "object"}))
        .answers::<api::ConfigUpdated>(),
        post(
            api::RELOAD,
            "Read the configuration again, or only compare it",
        )
        .may_take::<api::Reload>()
        .answers::<api::Reloaded>(),
        get(
            api::SERVER_REQUESTS,
            "What servers ask and no client could be asked",
        )
        .answers::<api::ServerRequests>(),
        post(api::REPLY, "Answer a server's request, or refuse it")
            .takes::<api::Reply>()
            .needing(&json!({"oneOf": [{"required": ["result"]}, {"required": ["error"]}]}))
            .answers::<api::Replied>(),
        get(
            api::SWITCHES,
            "Servers and tools that are switched off for a client",
        )
        .answers::<api::Switches>(),
        delete(api::SWITCHES, "Switch everything on for every client").answers::<api::Cleared>(),
        put(
            api::SWITCH,
            "Switch a server or a tool off for a client, or on again",
        )
        .takes::<api::SetSwitch>()
        .answers::<api::Switched>(),
        delete(api::SWITCH, "Switch everything on for a client").answers::<api::Cleared>(),
        get(
            api::EVENTS,
            "What happens, as server-sent events, without an end",
        )
        .query("after", PLACE, &place())
        .streams(),
        get(api::RECENT_EVENTS, "What happened lately")
            .query("after", PLACE, &place())
            .answers::<api::Events>(),
        get(api::TOKENS, "The clients that have a token").answers::<api::ClientTokens>(),
        post(api::TOKENS, "Make a client's token, which is said once")
            .takes::<api::AddToken>()
            .answers::<api::AddedToken>(),
        delete(api::TOKEN, "Have a client's token open nothing any more")
            .answers::<api::RemovedToken>(),
        post(api::ROTATE, "Replace the control token").answers::<api::RotatedToken>(),
    ]
}

const SERVER: &str = "Only this server's";
const TIME: &str = "RFC 3339, or seconds since 1970";
const PERSIST: &str = "Out of the configuration's file, too";
const PLACE: &str = "The id of an event to go on from";

fn text() -> Value {
    json!({"type": "string"})
}

/// One of the words of a closed set.
fn one_of(words: impl Iterator<Item = &'static str>) -> Value {
    json!({"type": "string", "enum": words.collect::<Vec<_>>()})
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
}

fn time() -> Value {
    json!({
        "type": "string",
        "anyOf": [{"format": "date-time"}, {"pattern": "^[0-9]{1,11}([.][0-9]{1,9})?$"}],
    })
}

/// A record's id.
fn record() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{1,18}$"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// An event's id.
fn place() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{17}$"})
}

/// A server's entry, as the file has it; `docs/configuration.md` says what may stand in it.
fn entry(required: &[&str]) -> Value {
    let scalars = json!({"type": ["string", "number", "boolean"]});
    let texts = json!({"type": "object", "additionalProperties": scalars});
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$"},
            "persist": boolean(),
            "replace": boolean(),
        },
        "anyOf": [
            {
                "required": ["command"],
                "properties": {
                    "command": text(),
                    "args": {"type": "array", "items": scalars},
                    "env": texts,
                },
            },
            {
                "required": ["url"],
                "properties": {
                    "url": {"type": "string", "pattern": "^(https?://.*)?$"},
                    "headers": texts,
                },
            },
        ],
        "additionalProperties": true,
    })
}

fn describe(operations: Vec<Operation>) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "description": "Why something was not done (M13); what else it says depends on the error.",
            "required": ["error", "message"],
            "properties": {
                "error": {"type": "string", "description": "A word that programs compare"},
                "message": {"type": "string", "description": "For people"},
            },
        }),
    );
    for operation in operations {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.describe();
        for (name, schema) in operation.schemas {
            schemas.insert(name, json!(schema));
        }
    }
    schemas.sort_keys();
    let refused = |description: &str| {
        let schema = json!({"$ref": "#/components/schemas/Error"});
        json!({"description": description, "content": {JSON: {"schema": schema}}})
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mainstay",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7420"}],
        "security": [{"control": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Unauthorized": refused("The control token is needed"),
                "Forbidden": refused("A client's token opens nothing here"),
                "Refused": refused("Not done, and why"),
            },
            "securitySchemes": {
                "control": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The control token, from the file `token` in the state directory",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn source(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// `MAINSTAY_WRITE_DOCS=1` writes it.
    #[test]
    fn the_committed_document_is_the_one_that_is_served() {
        let file = "../../docs/openapi.json";
        if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            fs::write(path, DOCUMENT.as_str()).expect("written");
        }
        let advice = "run this test with MAINSTAY_WRITE_DOCS=1 in its environment";
        assert!(
            source(file) == *DOCUMENT,
            "docs/openapi.json is out of date: {advice}"
        );
    }

    /// What a source declares by `pub const NAME: &str = "…";`
    fn constant(sources: &str, name: &str) -> String {
        let declared = format!("pub const {name}: &str = \"");
        let value = sources
            .split_once(&declared)
            .and_then(|(_, rest)| rest.split_once('"'));
        value.unwrap_or_else(|| panic!("no {name}")).0.to_owned()
    }

    /// The routes of the router, read from its source: `.route(api::NAME, get(…).put(…))`.
    fn routed() -> BTreeSet<String> {
        let files = ["src/api/mod.rs", "src/api/records.rs", "src/api/tokens.rs"];
        let constants: String = files.into_iter().map(source).collect();
        let router = source("src/front/rest/mod.rs");
        let mut found = BTreeSet::new();
        for route in router.split(".route(").skip(1) {
            let Some((name, rest)) = route.trim_start().split_once(',') else {
                continue;
            };
            let Some(name) = name.strip_prefix("api::") else {
                continue;
            };
            let path = constant(&constants, name);
            // Up to the next call on the router itself.
            let handlers = rest.split("\n        .").next().unwrap_or_default();
            for method in ["get", "post", "put", "delete", "patch"] {
                let called = |before| handlers.contains(&format!("{before}{method}("));
                if called(" ") || called(".") {
                    found.insert(format!("{method} {path}"));
                }
            }
        }
        found
    }

    #[test]
    fn the_document_and_the_router_have_the_same_operations() {
        let documented = operations().into_iter();
        let documented: Vec<String> = documented
            .map(|it| format!("{} {}", it.method, it.path))
            .collect();
        let once: BTreeSet<String> = documented.iter().cloned().collect();
        assert_eq!(
            once.len(),
            documented.len(),
            "an operation stands there twice"
        );
        assert_eq!(routed(), once);
        assert!(once.len() > 30, "the source was not understood: {once:?}");
    }

    #[test]
    fn what_is_referred_to_is_there() {
        let document: Value = serde_json::from_str(&DOCUMENT).expect("JSON");
        for reference in DOCUMENT.split("\"$ref\": \"#").skip(1) {
            let pointer = reference.split('"').next().unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
