//! Reads the choice of servers and tools in files of other programs: `mcp` of Gemini CLI, and `tools` of an
//! agent of Amazon Q or Kiro.

use mainstay_core::{config::ServerConfig, ids::ServerName};

use crate::read::{
    fields::Fields,
    node::Node,
    report::{FindingReport, KeyPath},
};

#[derive(Default)]
pub(crate) struct Choice {
    /// `mcp.allowed`
    allowed: Option<Vec<String>>,
    /// `mcp.excluded`
    excluded: Vec<String>,
    /// `tools` of an agent, and its place.
    of_agent: Option<(Vec<String>, KeyPath)>,
}

impl Choice {
    pub fn take(fields: &mut Fields<'_>, report: &mut FindingReport<'_>) -> Self {
        let mut choice = Self::of_mcp(fields, report);
        // Gemini CLI has an object there, with rules that Mainstay does not read.
        if fields.peek("tools").is_some_and(|node| !node.is_object()) {
            let tools = fields.take("tools");
            choice.of_agent = tools.map(|node| (node.strings(report), node.place));
        }
        choice
    }

    fn of_mcp(fields: &mut Fields<'_>, report: &mut FindingReport<'_>) -> Self {
        let is_list = |node: &Node<'_>, key| node.member(key).is_some_and(|list| list.is_array());
        let is_choice = |node: &Node<'_>| is_list(node, "allowed") || is_list(node, "excluded");
        if !fields.peek("mcp").is_some_and(is_choice) {
            return Self::default();
        }
        let mcp = fields.take("mcp");
        let Some(mut mcp) = mcp.and_then(|node| Fields::open(&node, report)) else {
            return Self::default();
        };
        let allowed = mcp.take("allowed").map(|node| node.strings(report));
        let excluded = mcp.take("excluded").map(|node| node.strings(report));
        mcp.finish(report);
        Self {
            allowed,
            excluded: excluded.unwrap_or_default(),
            of_agent: None,
        }
    }

    /// Restricts a server to the tools that the file chooses, and disables a server that it does not
    /// choose. `label` is the server's name in the file.
    pub fn restrict(&self, label: &str, server: &mut ServerConfig, report: &mut FindingReport<'_>) {
        server.enabled &= self.has(label, &server.name);
        let Some((chosen, place)) = &self.of_agent else {
            return;
        };
        let mut tools = Vec::new();
        for text in chosen {
            let rest = text
                .strip_prefix('@')
                .and_then(|name| name.strip_prefix(label));
            match rest.map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
                _ if text == "*" => return,
                Some("" | "*") => return,
                Some(tool) if rest != Some(tool) => tools.push(tool.to_owned()),
                _ => {}
            }
        }
        if let Some(pattern) = tools.iter().find(|tool| tool.contains(['*', '?'])) {
            let message = format!(
                "\"@{label}/{pattern}\" is a pattern, and tools are chosen by whole names: {} is disabled",
                server.name
            );
            report.warn_with_hint(place, message, Some("name the tools".to_owned()));
            tools.clear();
        }
        server.enabled &= !tools.is_empty();
        server.withheld.allow(&tools);
    }

    /// True if Gemini CLI starts the server. Its lists may have the name in the file or the adopted name.
    fn has(&self, label: &str, name: &ServerName) -> bool {
        let is_named = |listed: &String| listed == label || listed == name.as_str();
        let is_allowed = |allowed: &Vec<String>| allowed.iter().any(is_named);
        !self.excluded.iter().any(is_named) && self.allowed.as_ref().is_none_or(is_allowed)
    }
}
