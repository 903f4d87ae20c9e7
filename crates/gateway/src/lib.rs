//! The engine: keeps MCP servers up, and answers calls to them.
//!
//! [`Gateway::start`] takes a configuration and starts its servers; [`Gateway::request`] asks one of them.
//! The doors of Mainstay stand above this crate, and it knows none of them.

pub mod alerts;
mod ask;
pub mod calls;
pub mod events;
mod gateway;
pub mod metrics;
mod options;
mod owners;
pub mod registry;
pub mod reload;
pub mod supervisor;
pub mod switches;
pub mod traces;
mod view;

pub use self::{
    ask::{ask, refused, resource_not_found},
    gateway::{DRAIN_LIMIT, Gateway, SERVERS_LIMIT, SessionCount},
    options::GatewayOptions,
    view::{Unseen, View},
};
