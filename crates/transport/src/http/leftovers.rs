//! The messages on the stream of one request that were not its response.

use mainstay_core::message::lenient::shown_id;

use crate::{Frame, Interruption, InterruptionKind, UnreadableMessage};

/// The maximum number of ids that the error of a failed call names.
const MAX_NAMED: usize = 3;

/// Responses with foreign ids, and unreadable messages, of one stream.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// The response with a foreign id, if there is exactly one.
    only: Option<Frame>,
    /// The ids of foreign responses.
    ids: Vec<String>,
    /// The reason that the last unreadable message could not be read.
    unreadable: Option<String>,
}

impl Leftovers {
    /// Adds a response with a foreign id.
    pub fn foreign(&mut self, frame: Frame) {
        if self.ids.len() < MAX_NAMED {
            let id = frame.id().unwrap_or_default();
            self.ids.push(shown_id(id).into_owned());
        }
        self.only = (self.ids.len() == 1).then_some(frame);
    }

    pub fn unreadable(&mut self, error: &UnreadableMessage) {
        self.unreadable = Some(error.to_string());
    }

    pub fn has_response(&self) -> bool {
        self.only.is_some()
    }

    /// Decides the outcome at the end of the stream. A single response with a foreign id is the answer,
    /// because the stream belongs to one request.
    pub fn settle(&mut self) -> Result<Frame, Interruption> {
        let kind = match (self.only.take(), self.unreadable.take()) {
            (Some(frame), _) => return Ok(frame),
            (None, _) if !self.ids.is_empty() => {
                InterruptionKind::Misaddressed(self.ids.join(", "))
            }
            (None, Some(error)) => InterruptionKind::Unreadable(error),
            (None, None) => InterruptionKind::Unanswered,
        };
        Err(Interruption::sent(kind))
    }
}
