//! The MCP doors, over Streamable HTTP, HTTP+SSE and stdio: the servers of a profile as one, or one
//! server unchanged.

mod announcing;
mod builtin;
mod clients;
mod endpoint;
mod kept_objects;
mod offer;
mod reply;
mod sessions;
mod shared;
mod stateless;
mod trace;
pub mod wire;

pub use self::{
    clients::Limits as ClientLimits,
    sessions::{crowd::Limits as SessionLimits, seal::Seal, session::Scope},
    wire::{Limits, Mcp, sse_body::ResponseBody},
};
