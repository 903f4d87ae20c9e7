//! What the stream of one request brought that was not its response.

use mainstay_core::message::lenient::shown_id;

use crate::{Frame, Interruption, InterruptionKind, Unreadable};

/// Ids that a failed call names.
const MAX_NAMED: usize = 3;

/// What a stream brought beside the response.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// The only response, under a foreign id.
    only: Option<Frame>,
    /// The ids of foreign responses.
    ids: Vec<String>,
    /// Why a message could not be read.
    unreadable: Option<String>,
}

impl Leftovers {
    /// A response under a foreign id.
    pub fn foreign(&mut self, frame: Frame) {
        if self.ids.len() < MAX_NAMED {
            let id = frame.id().unwrap_or_default();
            self.ids.push(shown_id(id).into_owned());
        }
        self.only = (self.ids.len() == 1).then_some(frame);
    }

    pub fn unreadable(&mut self, error: &Unreadable) {
        self.unreadable = Some(error.to_string());
    }

    pub fn has_response(&self) -> bool {
        self.only.is_some()
    }

    /// The stream has ended. If it brought one response, that was the answer: the request was the only one
    /// that it could answer.
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
