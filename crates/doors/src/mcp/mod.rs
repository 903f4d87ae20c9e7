//! The MCP doors, over Streamable HTTP, HTTP+SSE and stdio: the servers of a profile as one, or one
//! server unchanged.

mod aggregate;
mod batch;
mod bodies;
mod builtin;
mod client_sinks;
mod conversation;
mod dispatch;
mod ended;
pub mod http;
mod hub;
mod isolated;
mod listen_streams;
mod modern;
mod outbox;
mod pool;
mod replay;
mod reply;
mod seal;
mod session;
pub mod sse;
mod sse_body;
pub mod stdio;
mod subscriptions;
mod suspended;
mod tasks;
mod trace;
mod transparent;

pub use self::{
    bodies::{Limits as BodyLimits, Pace, discard},
    hub::{Hub, Limits, SessionLimits, Visitor},
    seal::Seal,
    session::Scope,
    sse_body::ResponseBody,
};
