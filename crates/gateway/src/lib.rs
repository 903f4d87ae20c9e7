//! The engine: keeps MCP servers up, and forwards calls to them.
//!
//! [`Gateway::start`] starts the servers of a configuration. [`Gateway::call_tool`] calls a tool of
//! a server. [`Gateway::stop`] ends all servers. `examples/embed.rs` is a program of 30 lines that
//! uses all three. The doors of Mainstay use this crate. This crate uses no door.
//!
//! ```no_run
//! # use std::path::Path;
//! # use mainstay_config::ConfigSource;
//! # use mainstay_gateway::{Gateway, GatewayOptions};
//! # use mainstay_platform::environment::Process;
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#;
//! let source = ConfigSource::file(Path::new("servers.json"));
//! let config = mainstay_config::parse(text, &source, &Process)?.config;
//! let gateway = Gateway::start(&config, GatewayOptions::default());
//! gateway.registry.settled().await;
//! let zone = r#"{"timezone": "Europe/Berlin"}"#;
//! println!("{}", gateway.call_tool("time", "get_current_time", zone).await?);
//! gateway.stop().await;
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod alerts;
mod ask;
pub mod calls;
pub mod client_sessions;
mod credential_sources;
pub mod events;
mod gateway;
mod history;
pub mod metrics;
mod options;
mod owners;
pub mod registry;
pub mod reload;
pub mod stateless_clients;
pub mod supervisor;
pub mod switches;
pub mod traces;
pub mod trial;
mod view;

pub use self::{
    access::{AccessControl, ClientLimits, TokenLimitSource},
    ask::{ask, refused, resource_not_found},
    credential_sources::{CredentialSources, OfferedLogin, Offering},
    gateway::{DRAIN_LIMIT, Gateway, SERVERS_LIMIT, SessionCount},
    options::GatewayOptions,
    owners::shared_page,
    view::{Unseen, View},
};
