//! The receiver of a server's messages that belong to no call.

use std::fmt::Debug;

use mainstay_core::message::Method;

use crate::{Frame, ServerQuestion};

/// A notification of a server that belongs to no call.
#[derive(Clone, Debug)]
pub struct Notice {
    pub method: Method,
    pub frame: Frame,
}

/// Receives the messages of one connection that belong to no call. The methods must not block: the
/// connection's reader calls them.
pub trait Listener: Debug + Send + Sync {
    /// Handles a notification.
    fn take_notice(&self, notice: Notice);

    /// Handles a question that belongs to no call. Dropping the question refuses it.
    fn ask(&self, question: ServerQuestion);
}
