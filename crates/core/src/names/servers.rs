//! Finds the server that a name contains.
//!
//! `server__tool`, `server/tool` and `mcp__server__tool` contain a server, even if that server is
//! not running. A name that contains a server never leads to another server.
//!
//! Some server names contain a separator, such as `a__b`. The exposed names of their tools have
//! another prefix ([`exposed_prefix`]). The server's own name is recognised before a slash. Before
//! `__` it is recognised only if the name contains no other server.

use foldhash::HashMap;

use super::exposed_prefix;
use crate::ids::ServerName;

/// The prefix before a server's name under `mcp_prefix`. Some clients add it too.
const MCP: &str = "mcp";

/// All servers that a name can contain: configured servers in any state, and former servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    /// Servers by their folded exposed prefix. Prefixes that differ only in case share an entry.
    by_folded: ByName,
    /// Servers whose names contain separators, by their folded name.
    inseparable: ByName,
    /// Length of the longest key of `inseparable`, in bytes.
    longest_inseparable: usize,
}

/// The server that a name contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedServer<'a> {
    /// The name contains no server's prefix.
    Nobody,
    Server(&'a ServerName),
    /// The prefix matches several servers, all of them only if case is ignored.
    Unclear,
}

impl ServerNames {
    pub fn new<'a>(names: impl IntoIterator<Item = &'a ServerName>) -> Self {
        let mut server_names = Self::default();
        for name in names {
            enter(&mut server_names.by_folded, &exposed_prefix(name), name);
            if !name.is_separable() {
                enter(&mut server_names.inseparable, name.as_str(), name);
                server_names.longest_inseparable =
                    server_names.longest_inseparable.max(name.as_str().len());
            }
        }
        server_names
    }

    /// Returns the server with exactly this name.
    pub fn server(&self, name: &str) -> Option<&ServerName> {
        let folded = fold(name);
        let tables = [&self.by_folded, &self.inseparable].into_iter();
        let mut candidates = tables.filter_map(|by_name| by_name.get(&*folded)).flatten();
        candidates.find(|server| server.as_str() == name)
    }

    /// Returns the server that a name contains, in any spelling: with `/` or `__`, in any case,
    /// after `mcp__`, and with other characters in place of underscores.
    pub fn named_by(&self, name: &str) -> NamedServer<'_> {
        if !has_separator(name) {
            return NamedServer::Nobody;
        }
        let folded = fold(name);
        let unambiguous_server = self.plainly_named_by(name, &folded);
        if self.inseparable.is_empty() {
            return unambiguous_server;
        }
        match self.find_whole_name(name, &folded) {
            (NamedServer::Nobody, _) => unambiguous_server,
            (whole, Separator::Slash) => whole,
            (whole, Separator::Underscores) if unambiguous_server == NamedServer::Nobody => whole,
            (_, Separator::Underscores) => unambiguous_server,
        }
    }

    /// Returns a server with separators in its name, if the whole name precedes another separator.
    fn find_whole_name(&self, name: &str, folded: &str) -> (NamedServer<'_>, Separator) {
        let behind_mcp = ["mcp__", "mcp/"]
            .iter()
            .find_map(|spelling| folded.strip_prefix(spelling));
        let starts = [0]
            .into_iter()
            .chain(behind_mcp.map(|rest| folded.len() - rest.len()));
        let mut named_server = NamedServer::Nobody;
        for start in starts {
            let rest = &folded[start..];
            let slash = rest.find('/');
            let head = &rest[..slash.unwrap_or(rest.len())];
            let find = |end: usize| {
                let bytes = name.as_bytes().get(start..start + end);
                let exact_name = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
                find(&self.inseparable, exact_name, &rest[..end])
            };
            if slash.is_some() {
                let whole_match = find(head.len());
                if whole_match != NamedServer::Nobody {
                    return (whole_match, Separator::Slash);
                }
            }
            let underscores = head.match_indices('_').map(|(end, _)| end);
            // Limit the search, because a client may send a very long name.
            let ends = underscores.take_while(|end| *end <= self.longest_inseparable);
            for end in ends.filter(|end| head[*end..].starts_with("__")) {
                named_server = match (named_server, find(end)) {
                    (named_server, NamedServer::Nobody) => named_server,
                    (NamedServer::Nobody, whole_match) => whole_match,
                    (named_server, whole_match) if named_server == whole_match => named_server,
                    _ => NamedServer::Unclear,
                };
            }
        }
        (named_server, Separator::Underscores)
    }

    fn plainly_named_by(&self, name: &str, folded: &str) -> NamedServer<'_> {
        let mut inner = NamedServer::Nobody;
        let (mut start, mut outer) = (0, NamedServer::Nobody);
        while let Some(prefix) = Prefix::read(folded, start) {
            let named_server = find(&self.by_folded, prefix.exact(name), prefix.text);
            if start == 0 {
                outer = named_server;
            } else if inner == NamedServer::Nobody {
                inner = named_server;
            }
            // `mcp/tool` is the full name of a tool of the server `mcp`.
            let is_full_name = prefix.has_slash && named_server != NamedServer::Nobody;
            // `MCP__tool` contains a server `MCP`. The prefix that clients add is in lower case.
            let is_exact = matches!(named_server, NamedServer::Server(server)
                if server.as_str() != MCP && prefix.exact(name) == Some(server.as_str()));
            let is_decided = is_full_name || is_exact || inner != NamedServer::Nobody;
            if prefix.text != MCP || is_decided {
                break;
            }
            start = prefix.end;
        }
        // In `mcp__git__log`, the inner server `git` takes precedence over a server named `mcp`.
        if inner == NamedServer::Nobody {
            outer
        } else {
            inner
        }
    }

    /// True if this name may lead to a tool or prompt of `server`. `server` must be in `self`.
    pub fn may_lead(&self, name: &str, server: &ServerName) -> bool {
        if self.inseparable.is_empty() && has_plain_prefix(name, server) {
            return true;
        }
        match self.named_by(name) {
            NamedServer::Nobody => true,
            NamedServer::Server(named_server) => named_server == server,
            NamedServer::Unclear => false,
        }
    }
}

/// The separator between server and tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Slash,
    Underscores,
}

type ByName = HashMap<Box<str>, Vec<ServerName>>;

fn enter(by_name: &mut ByName, key: &str, server: &ServerName) {
    let servers = by_name.entry(fold(key).into()).or_default();
    if !servers.contains(server) {
        servers.push(server.clone());
    }
}

fn find<'s>(by_name: &'s ByName, exact_name: Option<&str>, folded: &str) -> NamedServer<'s> {
    let Some(candidates) = by_name.get(folded) else {
        return NamedServer::Nobody;
    };
    let exact_match = candidates
        .iter()
        .find(|name| Some(name.as_str()) == exact_name);
    let prefixed_match = || {
        candidates
            .iter()
            .find(|name| Some(&*exposed_prefix(name)) == exact_name)
    };
    match (exact_match.or_else(prefixed_match), candidates.as_slice()) {
        (Some(name), _) | (None, [name]) => NamedServer::Server(name),
        (None, _) => NamedServer::Unclear,
    }
}

/// The part of a folded name up to a separator.
struct Prefix<'a> {
    text: &'a str,
    start: usize,
    /// The position after the separator.
    end: usize,
    /// True if the separator begins with a slash.
    has_slash: bool,
}

impl<'a> Prefix<'a> {
    /// Reads the prefix at `start`. `None` if no separator follows.
    fn read(folded: &'a str, start: usize) -> Option<Self> {
        let start = start + leading_separators(&folded[start..]);
        let rest = &folded[start..];
        let slash = rest.find('/');
        let length = slash.into_iter().chain(rest.find("__")).min()?;
        // Ignore an underscore before the separator, as in `server_/tool`.
        let text = rest[..length].trim_end_matches('_');
        Some(Self {
            text,
            start,
            end: start + length + leading_separators(&rest[length..]),
            has_slash: slash == Some(length),
        })
    }

    /// The same part of the original name. `None` if it is not ASCII, because folding then moves
    /// positions.
    fn exact<'n>(&self, name: &'n str) -> Option<&'n str> {
        let end = self.start + self.text.len();
        let head = name.as_bytes().get(..end)?;
        head.is_ascii().then(|| &name[self.start..end])
    }
}

fn leading_separators(text: &str) -> usize {
    text.len() - text.trim_start_matches(['_', '/']).len()
}

/// Fast path: true for the common forms `server__tool` and `mcp__server__tool` of this server. No
/// other server can match these.
fn has_plain_prefix(name: &str, server: &ServerName) -> bool {
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    let rest = rest.strip_prefix(server.as_str());
    rest.is_some_and(|rest| rest.starts_with("__")) && !server.as_str().eq_ignore_ascii_case(MCP)
}

/// True if a folded name has a separator.
fn has_separator(name: &str) -> bool {
    let mut after_underscore = false;
    name.chars().any(|c| {
        let is_underscore = folded(c) == '_';
        let is_separator = c == '/' || is_underscore && after_underscore;
        after_underscore = is_underscore;
        is_separator
    })
}

/// Folds a name: lower case, and an underscore for each character that exposed names do not allow.
fn fold(name: &str) -> String {
    name.chars().map(folded).collect()
}

fn folded(c: char) -> char {
    match c {
        'a'..='z' | '0'..='9' | '-' | '/' => c,
        'A'..='Z' => c.to_ascii_lowercase(),
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(servers: &[&str], expected: &[(&str, &str)]) {
        let servers: Vec<_> = servers
            .iter()
            .map(|name| ServerName::new(name).expect("a legal name"))
            .collect();
        let names = ServerNames::new(&servers);
        for (name, expected) in expected {
            let result = match names.named_by(name) {
                NamedServer::Nobody => "nobody",
                NamedServer::Server(server) => server.as_str(),
                NamedServer::Unclear => "unclear",
            };
            assert_eq!(result, *expected, "{name} among {servers:?}");
        }
    }

    #[test]
    fn every_spelling_names_its_server() {
        let spellings = [
            "victim__x",
            "victim/x",
            "mcp__victim__x",
            "mcp__victim/x",
            "mcp/victim__x",
            "mcp/victim/x",
            "mcp__mcp__victim__x",
            "victim___x",
            "victim_/x",
            "victim__",
            "/victim/x",
            "__victim__x",
            "Victim__x",
            "MCP__VICTIM__x",
            "victim._x",
            "victim\u{200b}_x",
            "victim\u{200b}\u{200b}x",
            "mcp\u{ff3f}_victim\u{ff3f}_x",
        ];
        check(&["victim"], &spellings.map(|name| (name, "victim")));
        check(
            &["victim"],
            &[
                ("victim", "nobody"),
                ("victim_x", "nobody"),
                ("victim.x", "nobody"),
                ("evil__victim__x", "nobody"),
                ("xvictim__x", "nobody"),
                ("victimx__x", "nobody"),
                ("mcp__victim", "nobody"),
                ("mcp__x__victim__x", "nobody"),
                ("__", "nobody"),
                ("", "nobody"),
            ],
        );
    }

    #[test]
    fn similar_server_names_are_distinguished() {
        check(
            &["a", "a_b", "a-b", "ab"],
            &[
                ("a__b__c", "a"),
                ("a_b__c", "a_b"),
                ("a-b__c", "a-b"),
                ("ab/c", "ab"),
                ("a.b__c", "a_b"),
                ("a/b__c", "a"),
            ],
        );
        check(
            &["git", "Git"],
            &[
                ("git__x", "git"),
                ("mcp__Git/x", "Git"),
                ("GIT__x", "unclear"),
            ],
        );
    }

    #[test]
    fn a_name_with_separators_is_recognised_without_another_server() {
        check(
            &["a__b", "_x", "x_"],
            &[
                ("a__b__tool", "a__b"),
                ("mcp__a__b__tool", "a__b"),
                ("A__B__tool", "a__b"),
                ("a__b/tool", "a__b"),
                ("_x__tool", "_x"),
                ("_x/tool", "_x"),
                ("x___tool", "x_"),
                ("x_/tool", "x_"),
                ("x__tool", "nobody"),
                ("a__tool", "nobody"),
            ],
        );
        check(
            &["a", "a__b", "a__b__c"],
            &[
                ("a__b__tool", "a"),
                ("a__b/tool", "a__b"),
                ("a__b__c/tool", "a__b__c"),
            ],
        );
        check(
            &["a__b", "a__b__c"],
            &[("a__b__c__tool", "unclear"), ("a__b__d", "a__b")],
        );
    }

    #[test]
    fn a_server_named_mcp_comes_after_the_spelling_prefix() {
        check(
            &["mcp", "git"],
            &[
                ("mcp__x", "mcp"),
                ("mcp__x__y", "mcp"),
                ("mcp__git__log", "git"),
                ("mcp__Git/log", "git"),
                ("mcp__mcp__git__log", "mcp"),
                ("mcp/git/log", "mcp"),
                ("mcp/git__log", "mcp"),
            ],
        );
        check(
            &["MCP", "git"],
            &[
                ("MCP__git__log", "MCP"),
                ("mcp__git__log", "git"),
                ("Mcp__git__log", "git"),
                ("mcp__x", "MCP"),
            ],
        );
    }
}
