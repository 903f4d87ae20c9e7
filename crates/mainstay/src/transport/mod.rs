//! Connections to backends: one file per transport, one face for all.
//!
//! A transport opens a connection, performs the handshake, and from then on offers a [`Session`]:
//! requests become [`Exchange`]s that yield what the server says about them, in order. How a
//! connection ends is reported by its [`Running`] future, which returns only when nothing of the
//! connection is left (invariant 9).

mod command;
mod cpu;
mod environment;
mod events;
mod exchange;
mod frame;
mod health_url;
mod http1;
mod http_client;
mod http_exchange;
mod lines;
mod noise;
#[cfg(target_os = "linux")]
mod parent_death;
mod pending;
#[cfg(unix)]
#[path = "process_unix.rs"]
pub mod process;
#[cfg(windows)]
#[path = "process_windows.rs"]
pub mod process;
mod question;
mod session;
mod sse;
mod stdio;
mod streamable_http;
mod turns;
mod unasked;
mod vitals;
mod webhook;

use std::{pin::Pin, sync::Arc, time::Duration};

use mainstay_core::{
    config::{HttpTransport, Launch},
    era::{ClientCapabilities, Greeting, Revision},
    ids::ServerName,
    lifecycle::Loss,
};
use tokio_util::sync::CancellationToken;

use crate::{lineage::Lineage, logs::ServerLog};

pub use self::{
    command::{Resolution, resolve},
    cpu::cpu_time,
    environment::search_path,
    exchange::{CallState, Exchange, Interruption, InterruptionKind},
    frame::{Frame, Unreadable},
    health_url::{HealthError, HealthUrl},
    lines::{Line, LineReader, LineWriter, WriterClosed},
    pending::Asker,
    question::{Patience, Question, Said},
    session::Session,
    turns::Turns,
    unasked::{Listener, Notice},
    vitals::{InFlight, Vitals},
    webhook::{NotTaken, Webhook},
};

/// Resolves to the reason when the connection, with everything it started, is gone.
pub type Running = Pin<Box<dyn Future<Output = Loss> + Send>>;

/// What it takes to open a connection.
#[derive(Clone, Debug)]
pub struct Opening {
    pub server: ServerName,
    pub lineage: Lineage,
    /// Names this opening among all of this Mainstay: a server's processes bear it as a mark.
    pub tag: String,
    pub launch: Launch,
    /// The `params` of `initialize`, as JSON text.
    pub initialize: Arc<str>,
    pub max_message_bytes: usize,
    /// Silence that makes a server suspect, whatever is asked of it.
    pub hang_after: Duration,
    /// Where the server's messages go that belong to no call.
    pub listener: Arc<dyn Listener>,
    /// What it says beside the protocol.
    pub log: Arc<ServerLog>,
    /// When it may knock again by itself.
    pub turns: Arc<Turns>,
    pub stop: Stop,
}

/// How a connection is asked to end: politely, then not.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    pub close: CancellationToken,
    pub kill: CancellationToken,
}

/// `params` of an `initialize` of our own.
pub fn own_initialize(revision: Revision, capabilities: &ClientCapabilities) -> Arc<str> {
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{},"clientInfo":{{"name":"mainstay","version":"{}"}}}}"#,
        capabilities.raw(),
        env!("CARGO_PKG_VERSION"),
    )
    .into()
}

/// Opens a connection and performs the handshake. Returns an error only when nothing of the attempt
/// is left.
pub async fn open(opening: Opening) -> Result<(Session, Running), Loss> {
    match opening.launch.clone() {
        Launch::Stdio(launch) => stdio::open(opening, launch).await,
        Launch::Http(launch) => match launch.transport {
            HttpTransport::StreamableHttp => streamable_http::open(&opening, &launch).await.map_err(Loss::from),
            HttpTransport::Sse => sse::open(&opening, &launch).await,
            // Y13: Streamable HTTP first; what refuses its first request may be the older transport.
            HttpTransport::Detect => match streamable_http::open(&opening, &launch).await {
                Err(streamable_http::Refused::NotSpoken(reason)) => {
                    sse::open(&opening, &launch).await.map_err(|loss| match loss {
                        Loss::ConnectFailed(sse) => Loss::ConnectFailed(format!(
                            "neither Streamable HTTP ({reason}) nor HTTP+SSE ({sse}) is spoken there"
                        )),
                        other => other,
                    })
                }
                other => other.map_err(Loss::from),
            },
        },
        Launch::Broken(error) => Err(Loss::CannotSpawn(error.to_string())),
    }
}

/// Ends every process of every server at once, where there is no time for an orderly end.
pub async fn kill_all(lineage: &Lineage) {
    process::end_marked(&lineage.marks_of_all()).await;
}

/// Reads the answer to `initialize`.
fn greet(answer: &Frame) -> Result<Greeting, Loss> {
    match answer.result() {
        Some(result) => Greeting::read(result).map_err(|error| Loss::Rejected(error.to_string())),
        None => Err(Loss::Rejected(format!(
            "the server answered {}",
            answer.error().unwrap_or("nothing")
        ))),
    }
}
