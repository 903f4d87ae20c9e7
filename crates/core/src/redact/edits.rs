//! A text with some parts replaced.

use std::{borrow::Cow, cmp::Reverse};

/// Parts to replace, in any order. A part inside another one is ignored. Of two edits of the same
/// part, the later one counts.
pub(super) struct Edits<'t> {
    text: &'t str,
    replaced: Vec<(usize, usize, Cow<'static, str>)>,
}

impl<'t> Edits<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            replaced: Vec::new(),
        }
    }

    pub fn replace(&mut self, from: usize, until: usize, with: Cow<'static, str>) {
        self.replaced.push((from, until, with));
    }

    /// The changed text. `None` if nothing was replaced.
    pub fn finish(mut self) -> Option<String> {
        if self.replaced.is_empty() {
            return None;
        }
        // The sort is stable, and fast for edits in ascending order.
        self.replaced.reverse();
        self.replaced
            .sort_by_key(|(from, until, _)| (*from, Reverse(*until)));
        let mut changed = String::with_capacity(self.text.len());
        let mut copied = 0;
        for (from, until, with) in self.replaced {
            if from >= copied {
                changed.push_str(&self.text[copied..from]);
                changed.push_str(&with);
                copied = until;
            }
        }
        changed.push_str(&self.text[copied..]);
        Some(changed)
    }
}
