//! Hides tools of a server from all clients (`disabledTools`, `allowedTools`, `strictToolNames`).

use std::{collections::HashSet, sync::Arc};

use crate::{
    display::{LONGEST_NAME, shortened},
    names,
    spelling::nearest,
};

/// Stands for all tools in `allowedTools`.
pub const ALL_TOOLS: &str = "*";

/// The hint for a name that contains `*`.
pub const NO_PATTERNS: &str = "names are whole, without patterns";

/// Maximum number of unknown names to report for each list.
const MAX_UNMATCHED: usize = 20;

/// Maximum number of tools to compare with an unknown name.
const MAX_COMPARED: usize = 1000;

/// The tools of a server that are hidden from clients, by their original names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Tools that are neither listed nor callable (`disabledTools`).
    pub disabled: Arc<[String]>,
    /// The only tools that are listed and callable, sorted. `None` allows all.
    pub allowed: Option<Arc<[String]>>,
    /// True to hide tools whose names are not `^[a-zA-Z0-9_-]{1,64}$` (`strictToolNames`).
    pub strict_names: bool,
}

impl Withheld {
    /// True if no tool is hidden, whatever its name.
    pub fn is_nothing(&self) -> bool {
        self.disabled.is_empty() && self.allowed.is_none() && !self.strict_names
    }

    pub fn has(&self, tool: &str) -> bool {
        self.disables(tool) || self.refuses_name(tool)
    }

    /// True if the operator disabled the tool, or allowed only other tools.
    pub fn disables(&self, tool: &str) -> bool {
        let is_allowed =
            |names: &[String]| names.binary_search_by(|name| (**name).cmp(tool)).is_ok();
        self.disabled.iter().any(|name| name == tool)
            || !self.allowed.as_deref().is_none_or(is_allowed)
    }

    /// Allows only these names. Tools that an earlier list excluded stay excluded. `*` stands for
    /// all tools. Arguments in parentheses after a name, as in Gemini CLI, are ignored.
    pub fn allow(&mut self, names: &[String]) {
        if names.iter().any(|name| name == ALL_TOOLS) {
            return;
        }
        let base = |name: &String| match name.split_once('(') {
            Some((base, _)) if name.ends_with(')') => base.to_owned(),
            _ => name.clone(),
        };
        let mut allowed_names: Vec<String> = names.iter().map(base).collect();
        if let Some(previous_names) = &self.allowed {
            allowed_names.retain(|name| previous_names.binary_search(name).is_ok());
        }
        allowed_names.sort_unstable();
        allowed_names.dedup();
        self.allowed = Some(allowed_names.into());
    }

    /// Returns a line for each listed name that is none of the server's `tools`.
    pub fn unmatched<'t>(&self, tools: impl Iterator<Item = &'t str>) -> Vec<String> {
        let lists = [
            ("disabledTools", &self.disabled[..]),
            ("allowedTools", self.allowed.as_deref().unwrap_or_default()),
        ];
        if lists.iter().all(|(_, names)| names.is_empty()) {
            return Vec::new();
        }
        let tools: Vec<&str> = tools.collect();
        let tool_names: HashSet<&str> = tools.iter().copied().collect();
        let mut lines = Vec::new();
        for (list, names) in lists {
            let unknown_names = names
                .iter()
                .filter(|name| !tool_names.contains(name.as_str()));
            for name in unknown_names.take(MAX_UNMATCHED) {
                let short_name = shortened(name, LONGEST_NAME);
                let mut line = format!("{list}: {short_name:?} is no tool of this server");
                // The user may have written the exposed name, which begins with the server's name.
                let original = name
                    .rsplit_once("__")
                    .map_or(name.as_str(), |(_, rest)| rest);
                let similar_name = match tool_names.get(original) {
                    Some(tool) => Some(*tool),
                    None => nearest(original, &tools[..tools.len().min(MAX_COMPARED)]),
                };
                if name.contains('*') {
                    line = format!("{line} ({NO_PATTERNS})");
                } else if let Some(similar_name) = similar_name {
                    let similar_name = shortened(similar_name, LONGEST_NAME);
                    line = format!("{line} (did you mean {similar_name:?}?)");
                }
                lines.push(line);
            }
        }
        lines
    }

    /// True if `strictToolNames` hides the tool. Such tools are reported.
    pub fn refuses_name(&self, tool: &str) -> bool {
        self.strict_names && !names::is_strict(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_tool_are_reported() {
        let mut withheld = Withheld {
            disabled: ["x__echo", "nosuch", "add"].map(str::to_owned).into(),
            ..Withheld::default()
        };
        withheld.allow(&["ech*".to_owned(), "ad".to_owned(), "add".to_owned()]);
        assert_eq!(
            withheld.unmatched(["echo", "add"].into_iter()),
            [
                r#"disabledTools: "x__echo" is no tool of this server (did you mean "echo"?)"#,
                r#"disabledTools: "nosuch" is no tool of this server"#,
                r#"allowedTools: "ad" is no tool of this server (did you mean "add"?)"#,
                r#"allowedTools: "ech*" is no tool of this server (names are whole, without patterns)"#,
            ]
        );
        assert!(Withheld::default().unmatched(["a"].into_iter()).is_empty());
    }

    #[test]
    fn every_list_restricts() {
        let check = |lists: &[&[&str]], disabled: &[&str], visible: &[&str]| {
            let mut withheld = Withheld::default();
            for list in lists {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                withheld.allow(&list);
            }
            withheld.disabled = disabled.iter().map(ToString::to_string).collect();
            let tools = ["a", "b", "c"];
            let descriptions: Vec<_> = tools
                .into_iter()
                .filter(|tool| !withheld.has(tool))
                .collect();
            assert_eq!(descriptions, visible, "{lists:?} {disabled:?}");
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
