//! Connections to servers: one file for each transport, one interface for all.
//!
//! A transport opens a connection, performs the handshake, and returns an [`UpstreamSession`]. Each request
//! is an [`Exchange`], which yields the server's messages about the request, in order. The
//! [`RunningConnection`] future resolves to the reason of the end. It resolves only after the connection and
//! all its processes have ended (invariant 9).

mod detect;
mod exchanges;
mod http;
mod http_sse;
mod lines;
pub mod logs;
mod modern;
mod open;
mod opening;
pub mod process;
mod sessions;
mod streamable;

pub use self::{
    detect::{Approach, Unopened},
    exchanges::{
        asker::Asker,
        budget::{Budget, Reserve},
        exchange::Exchange,
        frame::{Frame, Reading, UnreadableMessage},
        interruption::{CallState, Interruption, InterruptionKind},
        possible_suspect::PossibleSuspect,
        question::{OpenQuestions, QuestionNote, ServerMessage, ServerQuestion},
    },
    http::{
        bounded::{
            BoundedAnswer, BoundedError, BoundedRequest, is_in_private_network, send_bounded,
        },
        credentials::{
            CredentialSource, HeaderLines, NoCredentials, RefusedCredentials, RenewedLines,
        },
        download::{DownloadError, DownloadRequest, download, first_error_line},
        events::{EventReader, StreamBroken},
        headers_helper::{HeadersHelpers, HelperSource},
        health_url::{HealthError, HealthUrl},
        http_client::{MAX_REDIRECTS, retry_after},
        http1,
        refusals::asks_for_login,
        webhook::{Webhook, WebhookError},
    },
    lines::{
        line_reader::{InputLine, LineReader, Stray},
        line_writer::{LineWriter, WriterClosed},
    },
    open::{kill_all, open},
    opening::{MAX_LIST_BYTES, Opening, RunningConnection, Stop, own_initialize},
    process::{
        command::{Resolution, looked_in, not_found, remedy, resolve},
        cpu::cpu_time,
        environment::{Variables, of_child, search_path},
        helper_command::HelperSurroundings,
        signs_of_work::SignsOfWork,
    },
    sessions::{
        attempt_limiter::AttemptLimiter,
        listener::{Listener, Notice},
        listening::Declined,
        liveness::{InFlight, Liveness},
        session::UpstreamSession,
    },
    streamable::get_stream::StreamState,
};
