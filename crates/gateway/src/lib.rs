//! The engine: keeps MCP servers up, and answers calls to them.
//!
//! [`Gateway::start`] takes a configuration and starts its servers. [`Gateway::call_tool`] calls a tool
//! of one of them, and [`Gateway::stop`] ends them all. `examples/embed.rs` does that in 30 lines. The
//! doors of Mainstay use this crate, and this crate uses none of them.
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
    access::{AccessControl, TokenLimitSource},
    ask::{ask, refused, resource_not_found},
    credential_sources::{CredentialSources, OfferedLogin, Offering},
    gateway::{DRAIN_LIMIT, Gateway, SERVERS_LIMIT, SessionCount},
    options::GatewayOptions,
    owners::shared_page,
    view::{Unseen, View},
};
