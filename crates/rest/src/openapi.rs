//! The OpenAPI 3.1 document, made of one table of operations and of the wire types. `docs/openapi.json`
//! is the same document, for readers without a daemon. Tests compare both, and compare the table with
//! the router.

mod entries;
mod observing;
mod recorded;

use std::{collections::BTreeSet, sync::LazyLock};

use axum::response::{IntoResponse, Response};
use http::header;
use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::{Map, Value, json};

use self::recorded::records;
use super::{
    code::{
        BESIDE, CONFIG_CHANGED, CONNECT_FAILED,
        Code::{
            self, Failed, InvalidLifetime, InvalidTokenName, InvalidToolName, LogUnreadable,
            MissingParameter, NotReloadable, StateUnusable, StateUnwritable, TokenExists,
            TooManyStreams, TooManyTokens, UnknownRoute, UnknownToken, WrongSignIn,
        },
        INVALID_CONFIG, KEPT_DOWN, OF_CALLS, OF_CLIENTS, OF_RECORDS, OF_THE_FILE, SERVER_NOT_FOUND,
    },
    export::FORMATS,
    operation::Operation,
    schema::{TIME, boolean, entry, number, one_of, place, replacing_entry, text, time},
    statistics::{BY, SORT},
};

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
        // Routes that other programs know.
        get(api::CLIENTS, "How the servers are, by name")
            .answers::<api::Clients>()
            .fails(&OF_CLIENTS),
        post(api::CONNECT_CLIENT, "Add a server, if it can be connected")
            .takes_with(&entry(&["name"]))
            .answers::<api::ClientOperated>()
            .fails(&ENTERED)
            .fails(&[CONNECT_FAILED]),
        delete(api::CLIENT, "Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::ClientLeft>()
            .fails(&OF_CLIENTS)
            .fails(&[SERVER_NOT_FOUND])
            .fails(&OF_THE_FILE),
        post(api::RECONNECT_CLIENT, "Connect a server that is not")
            .may_take::<api::Reconnect>()
            .answers::<api::ClientOperated>()
            .fails(&OF_CLIENTS)
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED, KEPT_DOWN]),
        post(api::DISCONNECT_CLIENT, "Stop a server")
            .answers::<api::ClientLeft>()
            .fails(&OF_CLIENTS)
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED]),
        get(api::TOOLS, "The tools of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Tools>()
            .fails(&OF_CLIENTS)
            .fails(&[SERVER_NOT_FOUND]),
        post(api::CALL, "Call a tool")
            .takes::<api::Call>()
            .answers::<api::Answer>()
            .follows()
            .fails(&OF_CLIENTS)
            .fails(&OF_CALLS)
            .fails(&[MissingParameter, InvalidToolName])
            .fails(&[Failed(FailureKind::ToolNotFound)]),
        get(api::RESOURCES, "The resources of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Resources>()
            .fails(&OF_CLIENTS)
            .fails(&[SERVER_NOT_FOUND]),
        post(api::READ, "Read the first content of a resource")
            .takes::<api::Read>()
            .needing(&json!({"required": ["server"], "properties": {"server": text()}}))
            .answers::<api::Content>()
            .follows()
            .fails(&OF_CLIENTS)
            .fails(&OF_CALLS)
            .fails(&[MissingParameter, Failed(FailureKind::ResourceNotFound)]),
        // Beside the routes that other programs know.
        get(
            api::TEMPLATES,
            "The resource templates of all servers, or of one",
        )
        .query("server", SERVER, &text())
        .answers::<api::Templates>()
        .fails(&[SERVER_NOT_FOUND]),
        post(
            api::READ_WHOLE,
            "Read a resource, from whichever server has it",
        )
        .takes::<api::Read>()
        .answers::<api::WholeRead>()
        .follows()
        .fails(&OF_CALLS)
        .fails(&[MissingParameter, Failed(FailureKind::ResourceNotFound)]),
        get(api::PROMPTS, "The prompts of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Prompts>()
            .fails(&[SERVER_NOT_FOUND]),
        post(api::GET_PROMPT, "Get a prompt")
            .takes::<api::GetPrompt>()
            .answers::<api::Answer>()
            .follows()
            .fails(&OF_CALLS)
            .fails(&[MissingParameter, Failed(FailureKind::PromptNotFound)]),
        get(
            api::SERVERS,
            "How the servers are, in the order of the configuration",
        )
        .answers::<api::Servers>(),
        post(api::SERVERS, "Add a server")
            .takes_with(&entry(&["name"]))
            .answers::<api::Operated>()
            .fails(&ENTERED),
        get(api::SERVER, "How a server is, and its entry")
            .answers::<api::ServerDetails>()
            .fails(&[SERVER_NOT_FOUND]),
        put(api::SERVER, "Give a server this entry, or add it")
            .takes_with(&replacing_entry())
            .answers::<api::Operated>()
            .fails(&ENTERED)
            .fails(&[CONFIG_CHANGED]),
        delete(api::SERVER, "Remove a server")
            .query("persist", PERSIST, &boolean())
            .answers::<api::Removed>()
            .fails(&[SERVER_NOT_FOUND])
            .fails(&OF_THE_FILE),
        post(api::OPERATE, "Start, stop, restart or reconnect a server")
            .answers::<api::Operated>()
            .fails(&[UnknownRoute, SERVER_NOT_FOUND, CONNECT_FAILED, KEPT_DOWN]),
        post(api::ENABLE, "Enable a server")
            .may_take::<api::Keeping>()
            .answers::<api::Operated>()
            .fails(&[SERVER_NOT_FOUND, KEPT_DOWN])
            .fails(&OF_THE_FILE),
        post(api::DISABLE, "Disable a server")
            .may_take::<api::Keeping>()
            .answers::<api::Operated>()
            .fails(&[SERVER_NOT_FOUND, CONNECT_FAILED])
            .fails(&OF_THE_FILE),
        post(
            api::APPROVE,
            "Let a server be started that was added from inside a client, if it is what was shown",
        )
        .takes::<api::Approval>()
        .answers::<api::Operated>()
        .fails(&[
            SERVER_NOT_FOUND,
            Failed(FailureKind::NotPending),
            Failed(FailureKind::NotAsShown),
        ])
        .fails(&OF_THE_FILE),
        post(
            api::EXECUTE,
            "Call a tool; what goes wrong is said in the answer",
        )
        .may_take::<api::Execute>()
        .answers::<api::Executed>()
        .follows(),
        records(get(api::CALL_RECORDS, "Records of calls, the newest first"))
            .query("limit", "How many at most", &number())
            .query("count", "Whether all that fit are counted", &boolean())
            .answers::<api::CallRecords>()
            .fails(&OF_CLIENTS)
            .fails(&OF_RECORDS),
        records(get(
            api::EXPORT_CALL_RECORDS,
            "Records of calls as a file, the newest first",
        ))
        .query_needed(
            "format",
            "jsonl: a JSON object on each line; csv: a table",
            &one_of(FORMATS.into_iter()),
        )
        .query("limit", "How many at most; all without it", &number())
        .answers_as("application/x-ndjson")
        .answers_as("text/csv")
        .fails(&OF_CLIENTS)
        .fails(&OF_RECORDS)
        .fails(&[MissingParameter]),
        get(
            api::CALL_RECORD,
            "A record, with its arguments and its result",
        )
        .answers::<api::WholeCallRecord>()
        .fails(&OF_CLIENTS)
        .fails(&OF_RECORDS)
        .fails(&[Failed(FailureKind::RecordNotFound)]),
        get(api::OBJECT, "An object by its content identifier")
            .query("offset", "The first byte", &number())
            .query("length", "How many bytes", &number())
            .answers_with(&json!({}))
            .answers_bytes(
                "Mainstay-Object-Size",
                "Of a part: how many bytes the whole has",
                &number(),
            )
            .fails(&OF_CLIENTS)
            .fails(&OF_RECORDS)
            .fails(&[Failed(FailureKind::CidNotFound)]),
        get(
            api::STATISTICS,
            "Calls, errors and latencies over time, of each tool or merged",
        )
        .query("server", SERVER, &text())
        .query("tool", "A tool's own name", &text())
        .query("since", TIME, &time())
        .query("until", TIME, &time())
        .query(
            "bucketMs",
            "The length of a bucket; longer where there would be more than 1000",
            &number(),
        )
        .query("by", "What makes a series", &one_of(BY.into_iter()))
        .query("sort", "The greatest first", &one_of(SORT.into_iter()))
        .query("limit", "How many series at most", &number())
        .answers::<api::Statistics>()
        .fails(&OF_CLIENTS)
        .fails(&OF_RECORDS),
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
        .streams()
        .fails(&[SERVER_NOT_FOUND, LogUnreadable]),
        get(
            api::FIGURES,
            "Calls of each server in the last minute, and what its processes hold",
        )
        .answers::<api::Figures>(),
        get(api::HEALTH, "Every server asked just now, or one")
            .query("server", SERVER, &text())
            .answers::<api::HealthReport>()
            .fails(&[SERVER_NOT_FOUND]),
        get(
            api::CONFIG,
            "The configuration as its file has it; secrets are placeholders",
        )
        .answers_with(&json!({"type": "object"}))
        .fails(&OF_THE_FILE),
        get(api::CONFIG_SCHEMA, "The JSON Schema of the configuration").answers_schema(),
        put(
            api::CONFIG,
            "Replace the configuration; placeholders keep their secrets",
        )
        .takes_with(&json!({"type": "object"}))
        .answers::<api::ConfigUpdated>()
        .fails(&OF_THE_FILE),
        post(
            api::RELOAD,
            "Read the configuration again, or only compare it",
        )
        .may_take::<api::Reload>()
        .answers::<api::Reloaded>()
        .fails(&[NotReloadable, INVALID_CONFIG]),
        post(
            api::HAND_OVER,
            "Ask a `mainstay mcp` for the state directory, as `mainstay serve` does",
        )
        .takes::<api::HandOver>()
        .answers::<api::HandedOver>()
        .fails(&[UnknownRoute]),
        get(
            api::SERVER_REQUESTS,
            "What servers ask and no client could be asked",
        )
        .answers::<api::ServerRequests>(),
        post(api::REPLY, "Answer a server's request, or refuse it")
            .takes::<api::Reply>()
            .needing(&json!({"oneOf": [{"required": ["result"]}, {"required": ["error"]}]}))
            .answers::<api::Replied>()
            .fails(&[MissingParameter, Failed(FailureKind::RequestNotFound)]),
        get(
            api::SWITCHES,
            "Servers and tools that are switched off for a client",
        )
        .answers::<api::Switches>(),
        delete(api::SWITCHES, "Switch everything on for every client")
            .answers::<api::Cleared>()
            .fails(&[StateUnwritable]),
        put(
            api::SWITCH,
            "Switch a server or a tool off for a client, or on again",
        )
        .takes::<api::SetSwitch>()
        .answers::<api::Switched>()
        .fails(&[
            SERVER_NOT_FOUND,
            Failed(FailureKind::ToolNotFound),
            StateUnwritable,
        ]),
        delete(api::SWITCH, "Switch everything on for a client")
            .answers::<api::Cleared>()
            .fails(&[StateUnwritable]),
        get(
            api::EVENTS,
            "What happens, as server-sent events, without an end",
        )
        .query("after", PLACE, &place())
        .streams()
        .fails(&[TooManyStreams]),
        get(api::RECENT_EVENTS, "What happened lately")
            .query("after", PLACE, &place())
            .query("before", "The id of an event: only older ones", &place())
            .query("type", "Only these types, with commas", &text())
            .query("server", SERVER, &text())
            .query("limit", "How many at most; the newest", &number())
            .answers::<api::Events>(),
        get(
            api::BROWSER_SESSION,
            "The browser session of the web page's cookie",
        )
        .answers::<api::BrowserSession>(),
        post(
            api::BROWSER_SESSION,
            "Sign a browser in, with a one-time code or the control token; sets the cookie",
        )
        .public()
        .takes::<api::SignIn>()
        .needing(&json!({"anyOf": [{"required": ["code"]}, {"required": ["token"]}]}))
        .answers::<api::SignedIn>()
        .fails(&[UnknownRoute, MissingParameter, WrongSignIn, StateUnusable]),
        delete(api::BROWSER_SESSION, "Sign the browser out")
            .answers::<api::SignedOut>()
            .fails(&[StateUnusable]),
        post(
            api::SESSION_LINKS,
            "Make a one-time code, and the path of the page that signs a browser in with it",
        )
        .answers::<api::SignInLink>()
        .fails(&[UnknownRoute, StateUnusable]),
        post(
            api::SESSION_DOWNLOADS,
            "Make an address that the browser of this session can download once, without its page key",
        )
        .takes::<api::Download>()
        .answers::<api::DownloadTicket>()
        .fails(&[MissingParameter, StateUnusable]),
        get(api::TOKENS, "The clients that have a token").answers::<api::ClientTokens>(),
        post(api::TOKENS, "Make a client's token, which is said once")
            .takes::<api::AddToken>()
            .answers::<api::AddedToken>()
            .fails(&[MissingParameter, InvalidTokenName, InvalidLifetime])
            .fails(&[TokenExists, TooManyTokens, StateUnusable]),
        delete(api::TOKEN, "Have a client's token open nothing any more")
            .answers::<api::RemovedToken>()
            .fails(&[UnknownToken, StateUnusable]),
        post(api::ROTATE, "Replace the control token")
            .answers::<api::RotatedToken>()
            .fails(&[StateUnusable]),
    ]
    .into_iter()
    .chain(observing::operations())
    .chain(entries::operations())
    .collect()
}

/// What an entry fails with.
const ENTERED: [Code; 5] = [
    MissingParameter,
    INVALID_CONFIG,
    SERVER_NOT_FOUND,
    Failed(FailureKind::DuplicateName),
    Failed(FailureKind::NotSaved),
];

/// Whatever an error can be: status and word of each, once, in their order.
fn errors(operations: &[Operation]) -> BTreeSet<(u16, &'static str)> {
    let of_operations = operations.iter().flat_map(Operation::codes);
    let all = of_operations.chain(BESIDE);
    all.map(|code| (code.status().as_u16(), code.word()))
        .collect()
}

const SERVER: &str = "Only this server's";
const PERSIST: &str = "Out of the configuration's file, too";
const PLACE: &str = "The id of an event to go on from";

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
        for (name, schema) in operation.schemas {
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
