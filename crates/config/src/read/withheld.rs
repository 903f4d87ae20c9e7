//! Lists of tools that clients get: the keys of an entry that hold them, and names that fit no tool.

use mainstay_core::{
    config::NO_PATTERNS,
    display::{LONGEST_NAME, shortened},
    ids::ServerName,
};

/// The keys of an entry that name tools to hide: ours, and those of other clients.
pub const DISABLED_TOOLS: [&str; 4] = [
    "disabledTools",
    "disabled_tools",
    "excludeTools",
    "suppressedTools",
];

/// The keys that name the only tools to show.
pub const ALLOWED_TOOLS: [&str; 6] = [
    "allowedTools",
    "allowed_tools",
    "enabledTools",
    "enabled_tools",
    "includeTools",
    "tools",
];

/// Why the name in a list fits no tool of the server, as far as the name itself tells, and what was probably meant.
pub(crate) fn unmatched(server: &ServerName, name: &str) -> Option<(String, Option<String>)> {
    let shown = shortened(name, LONGEST_NAME);
    let meant = |name: &str| format!("did you mean {:?}?", shortened(name, LONGEST_NAME));
    if name.contains('*') {
        return Some((format!("{shown:?} fits no tool: {NO_PATTERNS}"), None));
    }
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Some((format!("{shown:?} fits no tool: it is blank"), None));
    }
    if trimmed != name {
        let message = format!("{shown:?} fits no tool: it has blanks around the name");
        return Some((message, Some(meant(trimmed))));
    }
    let own = name.strip_prefix("mcp__").unwrap_or(name);
    let own = own.strip_prefix(server.as_str())?;
    let own = own.strip_prefix("__").or_else(|| own.strip_prefix('/'))?;
    let message = format!(
        "{shown:?} is a name as clients see it, and this list has names as the server itself gives them"
    );
    (!own.is_empty()).then(|| (message, Some(meant(own))))
}
