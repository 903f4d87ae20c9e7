//! A scriptable MCP backend for tests. It serves a small catalog correctly, and misbehaves only as its
//! [`Script`] says. It is never shipped.
//!
//! ```text
//! stdio · http · sse   framing, sessions of the transport      (listener, stdio, http, sse, reply, events)
//!        │
//!  legacy · modern     message in, actions out; no await        (legacy, modern, revision)
//!        │
//!     ReceivedRequest  what both eras offer                     (request, methods, tools, interview, catalog)
//!        │
//!       run            carries actions out: waits, asks, sends  (run, action, flood)
//!        │
//!     Service          what all sessions share                  (service, script)
//!        │
//!     FakeSession      its stream, and its calls in flight      (session)
//! ```
//!
//! Tests of other crates use [`Fake`] (HTTP and HTTP+SSE, in-process), or spawn the program at [`binary()`]
//! (all transports). A [`Gate`](gate::Gate) in front of a fake simulates network failures. A [`Fleet`] is many
//! backends at once. The fake shares no code with Mainstay, so that both cannot make the same mistake.

mod action;
mod bend;
mod bent;
mod binary;
mod catalog;
mod events;
mod fake;
mod fleet;
mod flood;
pub mod gate;
mod http;
mod interview;
mod legacy;
mod listener;
mod message;
mod methods;
mod modern;
pub mod process;
mod questions;
mod reply;
mod request;
mod revision;
mod run;
mod script;
mod service;
mod session;
mod sse;
mod stdio;
mod tools;
mod tools_of_eras;

pub use bend::{Bend, BendTransport};
pub use binary::binary;
pub use catalog::{WEIRD_RESULT, WEIRD_TOOL};
pub use fake::Fake;
pub use fleet::Fleet;
pub use revision::{REVISIONS, Revision};
pub use script::{AnswerForm, Header, HeaderError, Probed, Script};
pub use service::Received;
