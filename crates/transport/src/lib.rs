//! Connections to servers: one file for each transport, one interface for all.
//!
//! A transport opens a connection, performs the handshake, and then offers a [`Session`]. Requests
//! become [`Exchange`]s, which yield what the server says about them, in order. The [`Running`] future
//! reports how a connection ended. It returns only when nothing of the connection is left (invariant
//! 9).

mod budget;
mod command;
mod cpu;
mod detect;
mod environment;
mod events;
mod exchange;
mod frame;
mod handshake;
mod health_url;
mod http1;
mod http_client;
mod http_exchange;
mod json_values;
mod line_reader;
mod line_writer;
mod listening;
pub mod logs;
mod message_router;
mod modern_exchange;
mod modern_http;
mod noise;
#[cfg(target_os = "linux")]
mod parent_death;
mod pending;
mod places;
#[cfg(unix)]
#[path = "process_unix.rs"]
pub mod process;
#[cfg(windows)]
#[path = "process_windows.rs"]
pub mod process;
mod question;
mod refusals;
mod session;
mod signs;
mod sse;
mod stdio;
mod streamable_http;
mod tool_headers;
mod turns;
mod vitals;
mod webhook;
mod work;

use std::{pin::Pin, sync::Arc, time::Duration};

use mainstay_core::{
    config::{HttpLaunch, HttpTransport, Launch},
    era::{ClientCapabilities, Era, Greeting, Revision},
    ids::ServerName,
    lifecycle::Loss,
    message,
};
use mainstay_platform::lineage::Lineage;
use tokio_util::sync::CancellationToken;

use self::{detect::POST_LIMIT, modern_http::NotModern};
use crate::logs::ServerLog;

pub use self::{
    budget::{Budget, Reserve},
    command::{Resolution, looked_in, remedy, resolve},
    cpu::cpu_time,
    detect::{Approach, Unopened},
    environment::search_path,
    exchange::{CallState, Exchange, Interruption, InterruptionKind},
    frame::{Frame, Reading, Unreadable},
    health_url::{HealthError, HealthUrl},
    line_reader::{Beside, Line, LineReader},
    line_writer::{LineWriter, WriterClosed},
    listening::Declined,
    message_router::{Listener, Notice},
    pending::Asker,
    question::{Patience, Question, Said},
    session::Session,
    signs::Signs,
    turns::Turns,
    vitals::{InFlight, Vitals},
    webhook::{NotTaken, Webhook},
    work::Work,
};

/// What the lists of one server may have, all pages of all four kinds together: as much as one message
/// may have by default. The lists of servers that are known have less than a hundredth of it.
pub const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;

/// What a server's answer to `initialize` or `server/discover` may have. It is kept as long as its
/// session, and clients of the transparent path get it whole.
const MAX_GREETING: usize = 1024 * 1024;

/// What is kept of the words in which a server refuses to be spoken to: they are in its status, in
/// events and in its log.
const MAX_REFUSAL: usize = 1024;

/// Resolves to the reason when the connection, with everything it started, is gone.
pub type Running = Pin<Box<dyn Future<Output = Loss> + Send>>;

/// What it takes to open a connection.
#[derive(Clone, Debug)]
pub struct Opening {
    pub server: ServerName,
    pub lineage: Lineage,
    /// Names this opening among all of this Mainstay. A server's processes have it as a mark.
    pub tag: String,
    pub launch: Launch,
    pub approach: Approach,
    /// The `params` of `initialize`, as JSON text.
    pub initialize: Arc<str>,
    pub max_message_bytes: usize,
    /// Silence that makes a server suspect, whatever is asked of it.
    pub hang_after: Duration,
    /// Takes the server's messages that belong to no call.
    pub listener: Arc<dyn Listener>,
    /// What it says beside the protocol.
    pub log: Arc<ServerLog>,
    /// What is seen of its process before the handshake.
    pub signs: Arc<Signs>,
    /// When it may try again by itself.
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

/// Opens a connection and performs the handshake, in the era that the server speaks. Returns an error
/// only when nothing of the attempt is left.
pub async fn open(opening: Opening) -> Result<(Session, Running), Unopened> {
    let opened = match &opening.launch {
        Launch::Stdio(launch) => stdio::open(&opening, launch).await,
        Launch::Http(launch) => open_http(&opening, launch).await,
        Launch::Broken(broken) => Err(Loss::Misconfigured(broken.problem.to_string()).into()),
        // A supervisor starts nothing that is disabled, and this always is.
        Launch::Unapproved => {
            Err(Loss::Misconfigured("nobody has approved it yet".to_owned()).into())
        }
    };
    opened.map_err(|unopened| match unopened.loss {
        Loss::Rejected(reason) => Unopened {
            loss: Loss::Rejected(message::shortened(reason, MAX_REFUSAL)),
            ..unopened
        },
        _ => unopened,
    })
}

async fn open_http(opening: &Opening, launch: &HttpLaunch) -> Result<(Session, Running), Unopened> {
    // That transport has no other era.
    if launch.transport == HttpTransport::Sse {
        return open_legacy(opening, launch).await;
    }
    match opening.approach {
        Approach::Legacy => open_legacy(opening, launch).await,
        Approach::Modern => Ok(modern_http::open(opening, launch, None).await?),
        Approach::Detect(Some(Era::Legacy)) => match open_legacy(opening, launch).await {
            // It may have become another.
            Err(
                refused @ Unopened {
                    loss: Loss::Rejected(_),
                    ..
                },
            ) => modern_http::open(opening, launch, Some(POST_LIMIT))
                .await
                .map_err(|_| refused),
            other => other,
        },
        Approach::Detect(known) => {
            let limit = known.is_none().then_some(POST_LIMIT);
            match modern_http::open(opening, launch, limit).await {
                Ok(opened) => Ok(opened),
                Err(NotModern::Refused(unopened)) => Err(unopened),
                Err(NotModern::Legacy(eras)) => {
                    let (mut session, running) = open_legacy(opening, launch).await?;
                    session.eras = session.eras.or(eras);
                    Ok((session, running))
                }
                // What could not serve one question may just be able to serve the next.
                Err(NotModern::Unclear(loss)) => {
                    let opened = open_legacy(opening, launch).await;
                    opened.map_err(|unopened| match unopened.loss {
                        Loss::Rejected(_) => loss.into(),
                        _ => unopened,
                    })
                }
            }
        }
    }
}

/// Opens a session with `initialize`.
async fn open_legacy(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(Session, Running), Unopened> {
    match launch.transport {
        HttpTransport::StreamableHttp => Ok(streamable_http::open(opening, launch).await?),
        HttpTransport::Sse => Ok(sse::open(opening, launch).await?),
        // Streamable HTTP first; what refuses its first request may be the older transport.
        HttpTransport::Detect => match streamable_http::open(opening, launch).await {
            Err(streamable_http::Refused::NotSpoken(refusal)) => {
                let opened = sse::open(opening, launch).await;
                opened.map_err(|loss| match loss {
                    // What gives a reason knows the request, and its path is right.
                    Loss::ConnectFailed(_) if refusal.has_reason && refusal.is_about_request() => {
                        streamable_http::Refused::NotSpoken(refusal).into()
                    }
                    Loss::ConnectFailed(sse) => Unopened {
                        loss: Loss::ConnectFailed(refusal.neither(&sse)),
                        ..streamable_http::Refused::NotSpoken(refusal).into()
                    },
                    other => other.into(),
                })
            }
            other => Ok(other?),
        },
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
