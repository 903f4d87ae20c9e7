//! The `initialize` request of one attempt. If the server refuses the revision, the next request has another
//! revision.

use mainstay_core::era::{Revision, step_down};

use crate::Opening;

/// The `initialize` parameters of an attempt, and the revisions that the server has refused.
#[derive(Debug)]
pub struct Initialize {
    params: String,
    refused: Vec<Revision>,
    steps_down: bool,
}

impl Initialize {
    pub fn for_opening(opening: &Opening) -> Self {
        Self {
            params: opening.initialize.to_string(),
            refused: Vec::new(),
            steps_down: opening.steps_down,
        }
    }

    pub fn params(&self) -> &str {
        &self.params
    }

    /// Returns the request with this id. Both are JSON text.
    pub fn request(&self, id: &str) -> String {
        let Self { params, .. } = self;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
    }

    /// Selects another revision after a refusal with the text `words`. Returns `false` if the refusal is
    /// about something else, if every revision was refused, or without `steps_down`.
    pub fn step_down(&mut self, words: &str) -> bool {
        let Some(requested) =
            step_down::requested_revision(&self.params).filter(|_| self.steps_down)
        else {
            return false;
        };
        self.refused.push(requested);
        let Some(next) = step_down::next_revision(&self.refused, words) else {
            return false;
        };
        self.params = step_down::with_revision(&self.params, next);
        true
    }
}
