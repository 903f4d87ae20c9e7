//! Takes the messages of a server that belong to no call.

use std::fmt::Debug;

use mainstay_core::message::Method;

use crate::{Frame, Question};

/// A notification of a server that belongs to no call.
#[derive(Clone, Debug)]
pub struct Notice {
    pub method: Method,
    pub frame: Frame,
}

/// Takes what one connection brings outside of calls. Must not wait: the connection's reader calls it.
pub trait Listener: Debug + Send + Sync {
    /// Takes a notification.
    fn hear(&self, notice: Notice);

    /// Takes a question that belongs to no call. Dropping the question refuses it.
    fn ask(&self, question: Question);
}
