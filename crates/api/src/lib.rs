//! The REST wire types. The REST door and the commands share them (docs/dev/requirements.md,
//! section M).
//!
//! Schemas, arguments and results are raw JSON, byte for byte as received (invariant 5).

mod about;
mod access;
mod browser;
mod client;
mod clients;
mod config_history;
mod control;
mod entries;
pub mod export;
mod figures;
mod history;
mod items;
mod logins;
mod news;
mod records;
mod servers;
mod sessions;
mod stream;
mod tokens;

use serde_json::value::RawValue;

pub use self::about::*;
pub use self::access::*;
pub use self::browser::*;
pub use self::client::{Client, ClientError, LoginName};
pub use self::clients::*;
pub use self::config_history::*;
pub use self::control::*;
pub use self::entries::*;
pub use self::export::EXPORT_CALL_RECORDS;
pub use self::figures::*;
pub use self::history::*;
pub use self::items::*;
pub use self::logins::*;
pub use self::news::*;
pub use self::records::*;
pub use self::servers::*;
pub use self::sessions::*;
pub use self::stream::{CallNews, EventStream, LogEvents, Told};
pub use self::tokens::*;

pub type Raw = Box<RawValue>;

/// The `User-Agent` of the commands.
pub const USER_AGENT: &str = concat!("mainstay-cli/", env!("CARGO_PKG_VERSION"));

/// The OpenAPI 3.1 description of the REST API.
pub const OPENAPI: &str = "/api/openapi.json";
pub const CLIENTS: &str = "/api/mcp-clients";
pub const SERVERS: &str = "/api/servers";
/// One server: [`ServerDetails`]. PUT takes its entry; DELETE removes the server.
pub const SERVER: &str = "/api/servers/{name}";
pub const OPERATE: &str = "/api/servers/{name}/{operation}";
pub const ENABLE: &str = "/api/servers/{name}/enable";
pub const DISABLE: &str = "/api/servers/{name}/disable";
pub const APPROVE: &str = "/api/servers/{name}/approve";
/// Takes an [`Execute`], answers [`Executed`].
pub const EXECUTE: &str = "/api/servers/{name}/tools/{tool}/call";
/// The configuration as it is in the file.
pub const CONFIG: &str = "/api/config";
/// The JSON Schema of the configuration.
pub const CONFIG_SCHEMA: &str = "/api/config/schema";
/// Takes a server's entry with its name.
pub const CONNECT_CLIENT: &str = "/api/mcp-clients/connect";
pub const CLIENT: &str = "/api/mcp-clients/{name}";
pub const RECONNECT_CLIENT: &str = "/api/mcp-clients/{name}/reconnect";
pub const DISCONNECT_CLIENT: &str = "/api/mcp-clients/{name}/disconnect";
pub const HEALTH: &str = "/api/health";
pub const RELOAD: &str = "/api/reload";
/// Takes a [`HandOver`].
pub const HAND_OVER: &str = "/api/hand-over";
/// [`ServerRequests`]
pub const SERVER_REQUESTS: &str = "/api/server-requests";
/// Takes a [`Reply`].
pub const REPLY: &str = "/api/server-requests/{id}";
/// [`Switches`]; DELETE clears them all.
pub const SWITCHES: &str = "/api/switches";
/// PUT takes a [`SetSwitch`]. DELETE switches everything on for this client.
pub const SWITCH: &str = "/api/switches/{client}";
/// `{name}` stands for the name of the server.
pub const LOGS: &str = "/api/servers/{name}/logs";
pub const TOOLS: &str = "/api/mcp-tools";
pub const CALL: &str = "/api/mcp-tools/call";
pub const RESOURCES: &str = "/api/mcp-resources";
pub const TEMPLATES: &str = "/api/mcp-resource-templates";
pub const READ: &str = "/api/mcp-resources/read";
/// Like [`READ`], but the request may omit the server, and the answer has the complete result.
pub const READ_WHOLE: &str = "/api/resources/read";
pub const PROMPTS: &str = "/api/mcp-prompts";
pub const GET_PROMPT: &str = "/api/mcp-prompts/get";

/// Server-sent events: a [`SNAPSHOT`], then one [`Event`] after the other. A stream that continues
/// after an event (`Last-Event-ID` or `?after=`) has no snapshot at its beginning.
pub const EVENTS: &str = "/api/events";
/// [`Events`], for polling, with `?after=`.
pub const RECENT_EVENTS: &str = "/api/events/recent";
/// The event whose data is [`Servers`]: the current state of all servers.
pub const SNAPSHOT: &str = "snapshot";
/// The event that reports a gap in the stream. A [`SNAPSHOT`] follows.
pub const MISSED: &str = "missed";

/// A followed call (`Accept: text/event-stream`) streams [`Progress`] and log messages whenever its
/// server sends them, then the [`ANSWER`].
pub const PROGRESS: &str = "progress";
/// The event whose data is the `params` of a log message.
pub const LOG_MESSAGE: &str = "log";
/// The last event: `{"status", "body"}` of the answer that the call would have without following.
pub const ANSWER: &str = "answer";
