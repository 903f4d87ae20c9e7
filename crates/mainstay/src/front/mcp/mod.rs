//! The MCP doors, over Streamable HTTP, HTTP+SSE and stdio: the servers of a profile as one, or one
//! server unchanged.

mod aggregate;
mod batch;
mod bodies;
mod conversation;
mod dispatch;
mod ears;
mod ended;
pub mod http;
mod hub;
mod isolated;
mod listens;
mod modern;
mod outbox;
mod own;
mod parking;
mod pool;
mod replay;
mod reply;
mod seal;
mod session;
pub mod sse;
mod sse_body;
pub mod stdio;
mod subscriptions;
mod tasks;
mod trace;
mod transparent;
mod view;

pub use self::{
    bodies::{Limits as BodyLimits, Pace, discard},
    hub::{Hub, Limits, SessionLimits, Visitor},
    seal::Seal,
    session::Scope,
    sse_body::ResponseBody,
};
