//! Rules of Gemini CLI and Qwen Code. Files at unknown paths may have the same lists of servers.

use super::RuleReader;
use crate::rules::{
    Effect,
    names::{behind_prefix, plain, tools},
};

impl RuleReader<'_> {
    /// Reads `mcp.allowed` and `mcp.excluded`: names of servers.
    pub(super) fn chosen_servers(&mut self) {
        let place = self.source.place.clone();
        if let Some(names) = self.list("mcp.allowed") {
            self.leave_out("mcp.allowed", place.clone(), |label| {
                !names.iter().any(|name| name == label)
            });
        }
        if let Some(names) = self.list("mcp.excluded") {
            self.leave_out("mcp.excluded", place, |label| {
                names.iter().any(|name| name == label)
            });
        }
    }

    /// Reads the lists of tools. Some allow only the listed tools, and others exclude them.
    pub(super) fn lists_of_gemini(&mut self) {
        self.chosen_servers();
        for (key, effect) in [
            ("coreTools", Effect::Asked),
            ("tools.core", Effect::Asked),
            ("excludeTools", Effect::Refused),
            ("tools.exclude", Effect::Refused),
        ] {
            for text in self.list(key).unwrap_or_default() {
                let written = self.written(key, &text, effect);
                self.add(&written, |label| {
                    let label = plain(label);
                    let prefixes = [
                        format!("mcp__{label}__"),
                        format!("mcp_{label}_"),
                        format!("{label}__"),
                    ];
                    let named = prefixes
                        .iter()
                        .find_map(|prefix| behind_prefix(&text, prefix));
                    // A tool with a unique name may be listed without its server.
                    named.or_else(|| {
                        let is_bare = effect == Effect::Refused
                            && !text.contains("__")
                            && !text.starts_with("mcp_")
                            && !is_of_gemini_itself(&text);
                        is_bare.then(|| tools(&text))
                    })
                });
            }
        }
    }
}

/// True if the text names a built-in tool of Gemini CLI or Qwen Code (`edit`), the class of a tool
/// (`EditTool`), or any tool with arguments (`run_shell_command(git)`).
fn is_of_gemini_itself(text: &str) -> bool {
    const OWN: [&str; 25] = [
        "activate_skill",
        "ask_user",
        "codebase_investigator",
        "edit",
        "edit_file",
        "exit_plan_mode",
        "get_internal_docs",
        "glob",
        "google_web_search",
        "grep_search",
        "list_directory",
        "ls",
        "read_file",
        "read_many_files",
        "replace",
        "run_shell_command",
        "save_memory",
        "search_file_content",
        "skill",
        "task",
        "todo_write",
        "web_fetch",
        "web_search",
        "write_file",
        "write_todos",
    ];
    let name = text.split('(').next().unwrap_or(text);
    let is_class = name.ends_with("Tool") && name.starts_with(|c: char| c.is_ascii_uppercase());
    name != text || is_class || OWN.contains(&name)
}
