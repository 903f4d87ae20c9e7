//! Connections to servers: one file for each transport, one interface for all.
//!
//! A transport opens a connection, performs the handshake, and then offers a [`Session`]. A request
//! becomes an [`Exchange`], which yields the server's messages about it, in order. The [`Running`] future
//! reports how a connection ended. It returns only when nothing of the connection is left (invariant
//! 9).

mod answer_reader;
mod asker;
mod attempt_limiter;
mod budget;
mod command;
mod cpu;
mod detect;
mod download;
mod environment;
mod events;
mod exchange;
mod frame;
mod get_stream;
mod handshake;
mod health_url;
pub mod http1;
mod http_client;
mod http_exchange;
mod http_link;
mod initialize;
mod interruption;
mod json_values;
mod leftovers;
mod line_reader;
mod line_writer;
mod link;
mod listener;
mod listening;
mod liveness;
pub mod logs;
mod message_router;
mod modern_exchange;
mod modern_http;
mod modern_link;
mod modern_post;
mod open;
mod opening;
#[cfg(target_os = "linux")]
mod parent_death;
mod pending;
mod possible_suspect;
#[cfg(unix)]
#[path = "process_unix.rs"]
pub mod process;
#[cfg(windows)]
#[path = "process_windows.rs"]
pub mod process;
mod program_folders;
mod question;
mod refusals;
mod reply_sink;
mod session;
mod session_doubt;
mod signs_of_work;
mod sse;
mod sse_link;
mod stdio;
mod stdout_reader;
mod stray_output;
mod streamable_http;
mod tool_headers;
mod urls;
mod webhook;

pub use self::{
    asker::Asker,
    attempt_limiter::AttemptLimiter,
    budget::{Budget, Reserve},
    command::{Resolution, looked_in, not_found, remedy, resolve},
    cpu::cpu_time,
    detect::{Approach, Unopened},
    download::{DownloadError, Wanted, download},
    environment::{Variables, of_child, search_path},
    events::{Events, StreamBroken},
    exchange::Exchange,
    frame::{Frame, Reading, Unreadable},
    get_stream::StreamState,
    health_url::{HealthError, HealthUrl},
    http_client::MAX_REDIRECTS,
    interruption::{CallState, Interruption, InterruptionKind},
    line_reader::{Line, LineReader, Stray},
    line_writer::{LineWriter, WriterClosed},
    listener::{Listener, Notice},
    listening::Declined,
    liveness::{InFlight, Liveness},
    open::{kill_all, open},
    opening::{MAX_LIST_BYTES, Opening, Running, Stop, own_initialize},
    possible_suspect::PossibleSuspect,
    question::{Note, OpenQuestions, Question, ServerMessage},
    session::Session,
    signs_of_work::SignsOfWork,
    webhook::{NotTaken, Webhook},
};
