//! Replacements of parts of a text.

use std::{borrow::Cow, cmp::Reverse};

/// Parts to replace, in any order. A part inside another part is ignored. Of two edits of the same
/// part, the later one is used.
pub(super) struct Edits<'t> {
    text: &'t str,
    replacements: Vec<(usize, usize, Cow<'static, str>)>,
}

impl<'t> Edits<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            replacements: Vec::new(),
        }
    }

    pub fn replace(&mut self, from: usize, end: usize, replacement: Cow<'static, str>) {
        self.replacements.push((from, end, replacement));
    }

    /// Returns the edited text. `None` if nothing was replaced.
    pub fn finish(mut self) -> Option<String> {
        if self.replacements.is_empty() {
            return None;
        }
        // The sort is stable, so a later edit of the same part stays first. It is fast for edits in
        // order.
        self.replacements.reverse();
        self.replacements
            .sort_by_key(|(from, end, _)| (*from, Reverse(*end)));
        let mut output = String::with_capacity(self.text.len());
        let mut copied_end = 0;
        for (from, end, replacement) in self.replacements {
            if from >= copied_end {
                output.push_str(&self.text[copied_end..from]);
                output.push_str(&replacement);
                copied_end = end;
            }
        }
        output.push_str(&self.text[copied_end..]);
        Some(output)
    }
}
