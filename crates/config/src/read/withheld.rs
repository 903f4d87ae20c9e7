//! The keys of an entry that restrict its tools, and a check of the names in their lists.

use mainstay_core::{
    config::NO_PATTERNS,
    display::{LONGEST_NAME, shortened},
    ids::ServerName,
};

/// The keys of an entry for tools to hide: ours, and those of other clients.
pub const DISABLED_TOOLS: [&str; 4] = [
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "suppressedTools",
];

/// The keys of an entry for the only tools to show: ours, and those of other clients.
pub const ALLOWED_TOOLS: [&str; 6] = [
    "allowedTools",
    "allowed_tools",
    "enabledTools",
    "enabled_tools",
    "includeTools",
    "tools",
];

/// Checks a name in a list of tools. If the name alone shows that it matches no tool of the server,
/// returns the reason and a hint.
pub(crate) fn unmatched(server: &ServerName, name: &str) -> Option<(String, Option<String>)> {
    let short_name = shortened(name, LONGEST_NAME);
    let hint_for = |name: &str| format!("did you mean {:?}?", shortened(name, LONGEST_NAME));
    if name.contains('*') {
        return Some((format!("{short_name:?} fits no tool: {NO_PATTERNS}"), None));
    }
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Some((format!("{short_name:?} fits no tool: it is blank"), None));
    }
    if trimmed != name {
        let message = format!("{short_name:?} fits no tool: it has blanks around the name");
        return Some((message, Some(hint_for(trimmed))));
    }
    let tool = name.strip_prefix("mcp__").unwrap_or(name);
    let tool = tool.strip_prefix(server.as_str())?;
    let tool = tool.strip_prefix("__").or_else(|| tool.strip_prefix('/'))?;
    let message = format!(
        "{short_name:?} is a name as clients see it, and this list has names as the server itself gives them"
    );
    (!tool.is_empty()).then(|| (message, Some(hint_for(tool))))
}
