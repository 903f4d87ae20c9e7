//! The `initialize` of one attempt. A server that refuses the revision is asked for another.

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
    pub fn of(opening: &Opening) -> Self {
        Self {
            params: opening.initialize.to_string(),
            refused: Vec::new(),
            steps_down: opening.steps_down,
        }
    }

    pub fn params(&self) -> &str {
        &self.params
    }

    /// The request under this id (JSON text), as JSON text.
    pub fn request(&self, id: &str) -> String {
        let Self { params, .. } = self;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
    }

    /// Asks for another revision after a refusal in these words. `false` if the refusal is about something else,
    /// or no revision is left.
    pub fn step_down(&mut self, words: &str) -> bool {
        let Some(asked) = step_down::asked_revision(&self.params).filter(|_| self.steps_down)
        else {
            return false;
        };
        self.refused.push(asked);
        let Some(next) = step_down::next_revision(&self.refused, words) else {
            return false;
        };
        self.params = step_down::with_revision(&self.params, next);
        true
    }
}
