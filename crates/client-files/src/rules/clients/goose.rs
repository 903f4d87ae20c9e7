//! Rules of goose.

use super::RuleReader;
use crate::rules::{
    Effect,
    names::{behind_prefix, plain},
};

impl RuleReader<'_> {
    /// Reads `permission.yaml`: `SERVER__TOOL`.
    pub(super) fn goose(&mut self) {
        for (key, effect) in [
            ("user.ask_before", Effect::Asked),
            ("user.never_allow", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                let written = self.written(key, &text, effect);
                self.add(&written, |label| {
                    let label: String = label.split_whitespace().collect();
                    let prefix = format!("{}__", plain(&label).to_lowercase());
                    behind_prefix(&text, &prefix)
                });
            }
        }
    }
}
