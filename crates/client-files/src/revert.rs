//! Undoes a change of a file that its client has changed later. Restores the servers, and keeps the changes
//! of the client.

use serde_json::Value;
use similar::{DiffOp, TextDiff};

use crate::{
    document,
    edit::{self, EditError, EntryChange},
    places::{ClientFile, Section},
    read::{self, FoundServer, LeftOut},
};

/// The text of a file after the undo of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    pub text: String,
    /// Servers that another program has changed since. They are not restored.
    pub changed_since: Vec<String>,
}

/// Undoes the change from `before` to `after` in `now`. If the lines around a change are the same, restores
/// the original lines with their comments. Otherwise adds the entries at the end.
pub fn revert(
    file: &ClientFile,
    before: &str,
    after: &str,
    now: &str,
) -> Result<Reverted, EditError> {
    let (old, new) = (read::servers(file, before)?, read::servers(file, after)?);
    let present = read::servers(file, now)?;
    let value = |text: &str| document::value(file.format, text);
    let (was, became, is) = (value(before)?, value(after)?, value(now)?);
    let (mut changes, mut changed_since) = (Vec::new(), Vec::new());
    for (index, server) in old.iter().chain(&new).enumerate() {
        let is_known = index >= old.len() && old.iter().any(|earlier| is_at(earlier, server));
        let entry = |whole| entry_of(whole, &server.section, &server.label);
        let (was, became, is) = (entry(&was), entry(&became), entry(&is));
        if is_known || was == became || is == was {
            continue;
        }
        // Recognise Mainstay's entry even if the client has rewritten it in another form.
        let is_front = |candidate: &FoundServer| {
            candidate.left_out == Some(LeftOut::Mainstay) && is_at(candidate, server)
        };
        if is != became && !(new.iter().any(is_front) && present.iter().any(is_front)) {
            changed_since.push(server.label.clone());
            continue;
        }
        let (section, label) = (server.section.clone(), server.label.clone());
        changes.push(match was {
            Some(entry) => EntryChange::Put {
                entry: entry.clone(),
                section,
                label,
            },
            None => EntryChange::Remove { section, label },
        });
    }
    let expected = edit::expected(&is, &changes)?;
    let is_right = |text: &String| value(text).is_ok_and(|found| edit::is_same(&found, &expected));
    let text = match unpatched(before, after, now).filter(is_right) {
        Some(text) => text,
        None => edit::apply(file, now, &changes)?,
    };
    Ok(Reverted {
        text,
        changed_since,
    })
}

fn is_at(server: &FoundServer, other: &FoundServer) -> bool {
    server.label == other.label && server.section.keys == other.section.keys
}

fn entry_of<'v>(whole: &'v Value, section: &Section, label: &str) -> Option<&'v Value> {
    match section.value(whole)? {
        Value::Array(elements) => {
            let is_named =
                |element: &&Value| element.get("name").and_then(Value::as_str) == Some(label);
            elements.iter().find(is_named)
        }
        servers => servers.get(label),
    }
}

/// Replaces the lines of `after` in `now` by those of `before`. `None` if these lines have changed, or if
/// the place of removed lines is unknown.
pub fn unpatched(before: &str, after: &str, now: &str) -> Option<String> {
    let since = TextDiff::from_lines(after, now);
    let change = TextDiff::from_lines(after, before);
    // The index in `now` of each line of `after`.
    let mut places = vec![None; change.old_slices().len()];
    for op in since.ops() {
        if let DiffOp::Equal {
            old_index,
            new_index,
            len,
        } = *op
        {
            for offset in 0..len {
                places[old_index + offset] = Some(new_index + offset);
            }
        }
    }
    let lines = since.new_slices();
    let mut text = String::new();
    let mut done = 0;
    for op in change.ops() {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (old, new) = (op.old_range(), op.new_range());
        let start = match (places.get(old.start), old.start.checked_sub(1)) {
            (Some(&Some(place)), _) => place,
            // Lines were removed at the end, and other lines may follow now. Put them after the line before
            // them.
            (_, Some(line)) if old.is_empty() => places[line]? + 1,
            (None, None) => 0,
            _ => return None,
        };
        let end = start + old.len();
        let is_whole = old.map(|line| places[line]).eq((start..end).map(Some));
        if !is_whole || start < done {
            return None;
        }
        text.push_str(&lines[done..start].concat());
        text.push_str(&change.new_slices()[new].concat());
        done = end;
    }
    text.push_str(&lines[done..].concat());
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{ClientKind, Machine, OwnEntry, System, point_at_mainstay};

    fn file(client: ClientKind, name: &str) -> ClientFile {
        let machine = Machine::new(System::Linux, "/home/me");
        ClientFile::of_client(client, &Path::new("/home/me").join(name), &machine)
    }

    fn pointed(file: &ClientFile, before: &str) -> String {
        let own_entry = OwnEntry::Connect {
            program: "/usr/bin/mainstay".into(),
            is_on_path: true,
            home: None,
        };
        let pointed = point_at_mainstay(file, before, &own_entry, |_| true).expect("pointed");
        pointed.text
    }

    const CLAUDE: &str = r#"{
  "startups": 1,
  "mcpServers": {
    "files": {"command": "npx"},
    "web": {"type": "http", "url": "https://w.example.com"}
  },
  "tips": []
}
"#;

    #[test]
    fn an_unchanged_text_becomes_what_it_was() {
        let file = file(ClientKind::ClaudeCode, ".claude.json");
        let after = pointed(&file, CLAUDE);
        let reverted = revert(&file, CLAUDE, &after, &after).expect("reverted");
        assert_eq!(reverted.text, CLAUDE);
    }

    #[test]
    fn what_the_client_changed_elsewhere_stays() {
        let file = file(ClientKind::ClaudeCode, ".claude.json");
        let now = pointed(&file, CLAUDE).replace("\"startups\": 1", "\"startups\": 7");
        let reverted = revert(&file, CLAUDE, &pointed(&file, CLAUDE), &now).expect("reverted");
        assert_eq!(reverted.text, CLAUDE.replace(": 1,", ": 7,"));
        assert_eq!(reverted.changed_since, [""; 0]);
    }

    #[test]
    fn comments_come_back_with_their_entries() {
        let file = file(ClientKind::Codex, ".codex/config.toml");
        let before = "model = \"a\"\n\n# the tracker\n[mcp_servers.tracker] # mine\ncommand = \"t\" # fast\n\n[tui]\nx = 1\n";
        let after = pointed(&file, before);
        assert!(!after.contains("# fast"), "{after}");
        let now = after.replace("\"a\"", "\"b\"") + "y = 2\n";
        let reverted = revert(&file, before, &after, &now).expect("reverted");
        assert_eq!(reverted.text, before.replace("\"a\"", "\"b\"") + "y = 2\n");
    }

    /// A client that rewrites its file changes order, indentation and members.
    #[test]
    fn entries_come_back_into_a_text_that_is_written_anew() {
        let file = file(ClientKind::ClaudeCode, ".claude.json");
        let now = r#"{"tips":["x"],"mcpServers":{"mainstay":{"type":"stdio","command":"mainstay","args":["connect"],"env":{}},"new":{"command":"n"}},"startups":9}"#;
        let reverted = revert(&file, CLAUDE, &pointed(&file, CLAUDE), now).expect("reverted");
        let value = document::value(file.format, &reverted.text).expect("JSON");
        let mut expected = document::value(file.format, CLAUDE).expect("JSON");
        expected["tips"] = serde_json::json!(["x"]);
        expected["startups"] = serde_json::json!(9);
        expected["mcpServers"]["new"] = serde_json::json!({"command": "n"});
        assert_eq!(value, expected);
    }

    #[test]
    fn a_server_that_somebody_put_in_its_place_stays() {
        let file = file(ClientKind::ClaudeCode, ".claude.json");
        let now = r#"{"mcpServers":{"files":{"command":"other"}}}"#;
        let reverted = revert(&file, CLAUDE, &pointed(&file, CLAUDE), now).expect("reverted");
        assert_eq!(reverted.changed_since, ["files"]);
        let value = document::value(file.format, &reverted.text).expect("JSON");
        let labels: Vec<&String> = value["mcpServers"]
            .as_object()
            .expect("map")
            .keys()
            .collect();
        assert_eq!(labels, ["files", "web"]);
        assert_eq!(value["mcpServers"]["files"]["command"], "other");
    }

    #[test]
    fn a_text_that_cannot_be_read_is_refused() {
        let file = file(ClientKind::ClaudeCode, ".claude.json");
        let error = revert(&file, CLAUDE, &pointed(&file, CLAUDE), "{ no").expect_err("refused");
        assert!(matches!(error, EditError::NotReadable(_)), "{error}");
    }

    #[test]
    fn lines_are_put_back_where_they_were_taken_out() {
        let check = |before, after, now, expected: Option<&str>| {
            assert_eq!(unpatched(before, after, now).as_deref(), expected);
        };
        check(
            "a\nb\nc\n",
            "a\nc\n",
            "0\na\nc\nd\n",
            Some("0\na\nb\nc\nd\n"),
        );
        check("a\nb\nc\n", "a\nc\n", "a\nx\n", Some("a\nb\nx\n"));
        check("a\nb\nc\n", "a\nc\n", "x\nc\n", Some("x\nb\nc\n"));
        check("a\nb\nc\n", "a\nc\n", "x\ny\n", None);
        check("a\nc\n", "a\nb\nc\n", "a\nx\nc\n", None);
        check("", "a\n", "a\n", Some(""));
        check("", "a\n", "a\nb\n", Some("b\n"));
        check("a\nb\n", "a\n", "a\n", Some("a\nb\n"));
        check("a\n", "b\n", "b\n", Some("a\n"));
        check("a\nb\n", "a\nx\n", "0\na\nx\n", Some("0\na\nb\n"));
    }
}
