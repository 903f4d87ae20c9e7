//! Which tools of a server are hidden from clients, at every door (`disabledTools`, `allowedTools`,
//! `strictToolNames`, and other programs' names for them).

use std::sync::Arc;

use crate::names;

/// Goes by what the server itself calls its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Neither listed nor callable, by name (`disabledTools`).
    pub disabled: Arc<[String]>,
    /// The only ones that are listed and callable, in order; `None` is all.
    pub allowed: Option<Arc<[String]>>,
    /// Nor are those whose names are not `^[a-zA-Z0-9_-]{1,64}$` (`strictToolNames`).
    pub strict_names: bool,
}

impl Withheld {
    /// Whether every tool may be shown, whatever it is called.
    pub fn is_nothing(&self) -> bool {
        self.disabled.is_empty() && self.allowed.is_none() && !self.strict_names
    }

    pub fn has(&self, tool: &str) -> bool {
        self.disables(tool) || self.refuses_name(tool)
    }

    /// Whether an operator has disabled it, or allowed others only.
    pub fn disables(&self, tool: &str) -> bool {
        let is_allowed =
            |allowed: &[String]| allowed.binary_search_by(|it| (**it).cmp(tool)).is_ok();
        self.disabled.iter().any(|name| name == tool)
            || !self.allowed.as_deref().is_none_or(is_allowed)
    }

    /// Allows these tools only, of those that are allowed so far; `*` is all. Gemini CLI may have
    /// arguments in parentheses behind a name, which are not looked at.
    pub(super) fn allow(&mut self, names: &[String]) {
        if names.iter().any(|name| name == "*") {
            return;
        }
        let base = |name: &String| match name.split_once('(') {
            Some((base, _)) if name.ends_with(')') => base.to_owned(),
            _ => name.clone(),
        };
        let mut allowed: Vec<String> = names.iter().map(base).collect();
        if let Some(known) = &self.allowed {
            allowed.retain(|name| known.binary_search(name).is_ok());
        }
        allowed.sort_unstable();
        allowed.dedup();
        self.allowed = Some(allowed.into());
    }

    /// Whether its name alone keeps it from clients: those are reported.
    pub fn refuses_name(&self, tool: &str) -> bool {
        self.strict_names && !names::is_strict(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_restricts() {
        let check = |lists: &[&[&str]], disabled: &[&str], shown: &[&str]| {
            let mut withheld = Withheld::default();
            for list in lists {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                withheld.allow(&list);
            }
            withheld.disabled = disabled.iter().map(ToString::to_string).collect();
            let tools = ["a", "b", "c"];
            let found: Vec<_> = tools
                .into_iter()
                .filter(|tool| !withheld.has(tool))
                .collect();
            assert_eq!(found, shown, "{lists:?} {disabled:?}");
        };
        check(&[], &[], &["a", "b", "c"]);
        check(&[], &["b"], &["a", "c"]);
        check(&[&["b", "a"]], &[], &["a", "b"]);
        check(&[&["b", "a"]], &["b"], &["a"]);
        check(&[&["b", "a"], &["c", "b"]], &[], &["b"]);
        check(&[&["*"]], &[], &["a", "b", "c"]);
        check(&[&["b"], &["*"]], &[], &["b"]);
        check(&[&["a(x)", "b("]], &[], &["a"]);
        check(&[&[]], &[], &[]);
    }
}
