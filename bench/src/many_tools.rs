//! Tools as servers in the wild have them, in any number: some 490 bytes each, of a few hundred words.

use std::fmt::Write as _;

/// The tool that begins and ends changes of the list.
pub const CHANGE: &str = "change_the_list";

const VERBS: [&str; 16] = [
    "create",
    "list",
    "update",
    "delete",
    "search",
    "read",
    "write",
    "move",
    "archive",
    "merge",
    "export",
    "import",
    "schedule",
    "cancel",
    "validate",
    "summarize",
];

const NOUNS: [&str; 24] = [
    "file",
    "directory",
    "repository",
    "branch",
    "issue",
    "pull_request",
    "message",
    "channel",
    "table",
    "row",
    "invoice",
    "customer",
    "calendar",
    "event",
    "email",
    "attachment",
    "deployment",
    "container",
    "secret",
    "bucket",
    "dashboard",
    "alert",
    "ticket",
    "document",
];

const WORDS: [&str; 40] = [
    "the",
    "given",
    "all",
    "with",
    "optional",
    "filter",
    "returns",
    "matching",
    "identifier",
    "page",
    "limit",
    "which",
    "workspace",
    "owner",
    "status",
    "recent",
    "pattern",
    "format",
    "content",
    "encoding",
    "recursive",
    "permission",
    "timestamp",
    "label",
    "assignee",
    "priority",
    "region",
    "version",
    "metadata",
    "summary",
    "description",
    "currency",
    "amount",
    "timezone",
    "attendee",
    "subject",
    "recipient",
    "query",
    "snapshot",
    "replica",
];

/// Numbers that depend on the seed alone (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let z = z ^ (z >> 31);
        usize::try_from(z % limit as u64).unwrap_or_default()
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn sentence(&mut self, words: usize) -> String {
        let words: Vec<&str> = (0..words).map(|_| self.of(&WORDS)).collect();
        words.join(" ")
    }
}

/// A tool's definition (JSON). The version changes its description alone.
pub fn tool(seed: usize, number: usize, version: usize) -> String {
    let mut random = Random((seed as u64) << 32 | number as u64);
    let (verb, noun) = (random.of(&VERBS), random.of(&NOUNS));
    let said = random.sentence(16);
    let mut tool = format!(
        r#"{{"name":"{verb}_{noun}_{number}","description":"{verb} a {noun}: {said} {version}","inputSchema":{{"type":"object","properties":{{"#
    );
    for parameter in 0..3 {
        let comma = if parameter > 0 { "," } else { "" };
        let (name, said) = (random.of(&NOUNS), random.sentence(5));
        // A String takes every write.
        let _ = write!(
            tool,
            r#"{comma}"{name}_{parameter}":{{"type":"string","description":"{said}"}}"#
        );
    }
    tool.push_str(r#"},"required":[]}}"#);
    tool
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn tools_differ_and_are_as_long_as_those_of_servers_in_the_wild() {
        let tools: Vec<String> = (0..1000).map(|number| tool(7, number, 0)).collect();
        let bytes: usize = tools.iter().map(String::len).sum();
        assert!((440..540).contains(&(bytes / tools.len())), "{bytes}");
        let mut names: Vec<String> = tools
            .iter()
            .map(|tool| {
                let tool: Value = serde_json::from_str(tool).expect("JSON");
                tool["name"].as_str().expect("a name").to_owned()
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tools.len());
        assert_ne!(tool(7, 0, 1), tools[0]);
    }
}
