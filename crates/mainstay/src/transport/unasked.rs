//! What servers say without being asked: pings, other requests, and notices about themselves.

use std::{fmt::Debug, sync::Arc};

use mainstay_core::{
    ids::ServerName,
    message::{self, Kind, Method},
};

use super::{Frame, pending::Pending};

/// A notification of a server that belongs to no call.
#[derive(Clone, Debug)]
pub struct Notice {
    pub method: Method,
    pub frame: Frame,
}

/// Hears the notices of one connection. Must not wait: it is called by the connection's reader.
pub trait Listener: Debug + Send + Sync {
    fn hear(&self, notice: Notice);
}

/// Sorts a server's messages on a connection that carries more than one call.
#[derive(Debug)]
pub struct Unasked {
    server: ServerName,
    listener: Arc<dyn Listener>,
}

impl Unasked {
    pub fn new(server: ServerName, listener: Arc<dyn Listener>) -> Self {
        Self { server, listener }
    }

    /// Takes any message: answers reach their calls, notices their readers. Returns what must be
    /// sent back, if anything.
    pub fn sort(&self, frame: Frame, pending: &Pending) -> Option<String> {
        match frame.envelope().kind {
            Kind::Response { id, .. } => {
                let id = frame.get(id).to_owned();
                if !pending.answer(&id, frame) {
                    // E16, K7: late, doubled or invented.
                    tracing::warn!(server = %self.server, id, "received a JSON-RPC response with an unknown id");
                }
                None
            }
            Kind::Notification {
                method: Method::Progress,
            } => {
                let token = frame.param("progressToken").unwrap_or_default().to_owned();
                if !pending.progress(&token, frame) {
                    tracing::debug!(server = %self.server, token, "progress of no call in flight");
                }
                None
            }
            // Attributed where there is no doubt, so that it stays in order with the result.
            Kind::Notification {
                method: Method::LogMessage,
            } => {
                if let Some(frame) = pending.to_only_call(frame) {
                    self.notice(Method::LogMessage, frame);
                }
                None
            }
            Kind::Notification { method } => {
                self.notice(method, frame);
                None
            }
            Kind::Request { .. } => self.answer(&frame),
        }
    }

    pub fn notice(&self, method: Method, frame: Frame) {
        self.listener.hear(Notice { method, frame });
    }

    /// The answer to a request of the server. Only `ping` can be answered here; everything else would
    /// need a client, and is refused so that the connection stays usable (E14).
    pub fn answer(&self, frame: &Frame) -> Option<String> {
        let Kind::Request { id, method } = frame.envelope().kind else {
            return None;
        };
        let id = frame.get(id);
        Some(match method {
            Method::Ping => message::response(id, "{}"),
            _ => {
                let name = frame.method_name();
                tracing::debug!(server = %self.server, method = name, "refused a request of the server");
                message::error_response(
                    Some(id),
                    -32601,
                    &format!("{name} is not supported by this client"),
                    None,
                )
            }
        })
    }
}
