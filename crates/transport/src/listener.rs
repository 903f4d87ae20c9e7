//! Takes the messages of a server that belong to no call.

use std::fmt::Debug;

use mainstay_core::message::Method;

use super::{Frame, Question};

/// A notification of a server that belongs to no call.
#[derive(Clone, Debug)]
pub struct Notice {
    pub method: Method,
    pub frame: Frame,
}

/// Hears what one connection brings outside of calls. Must not wait: it is called by the connection's
/// reader.
pub trait Listener: Debug + Send + Sync {
    fn hear(&self, notice: Notice);

    /// A question that belongs to no call. Dropping it refuses it.
    fn ask(&self, question: Question);
}
