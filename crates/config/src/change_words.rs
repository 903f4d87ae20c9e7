//! Summarises a change of a configuration's text, for its history. The summary names servers and keys.
//! It contains no values, because values may be secret.

use std::collections::BTreeMap;

use mainstay_core::ids::ServerName;
use serde_json::Value;

use crate::{
    Syntax,
    edit::{Document, EditError, Entry},
};

/// Maximum number of names for each kind of change. Further names are only counted.
const MAX_NAMED: usize = 5;

/// Returns the summary in one line, such as `added github; changed files (args, env)`.
pub fn change_words(before: &str, after: &str, syntax: Syntax) -> String {
    let read = |text| {
        Document::read(text, syntax)
            .and_then(|document| Ok((document.entries(), document.value()?)))
    };
    let (old, new) = match (read(before), read(after)) {
        (_, Err(EditError::NoServers)) => return "the file is empty".to_owned(),
        (_, Err(_)) => return "the file is no JSON".to_owned(),
        (Err(_), Ok(_)) => return "the file is a configuration again".to_owned(),
        (Ok(old), Ok(new)) => (old, new),
    };
    let mut words = server_words(&old.0, &new.0);
    let settings = differing_keys(&settings(&old.1), &settings(&new.1));
    if !settings.is_empty() {
        words.push(format!("changed {}", listed(&settings)));
    }
    if words.is_empty() {
        words.push(if old.1 == new.1 {
            "changed comments, spacing or order".to_owned()
        } else {
            "changed what is no server's entry".to_owned()
        });
    }
    words.join("; ")
}

fn server_words(old: &[(ServerName, Entry)], new: &[(ServerName, Entry)]) -> Vec<String> {
    let by_name = |entries: &[(ServerName, Entry)]| -> BTreeMap<String, Entry> {
        entries
            .iter()
            .map(|(name, entry)| (name.to_string(), entry.clone()))
            .collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let is_new = |name: &&String| !before.contains_key(*name);
    let is_gone = |name: &&String| !after.contains_key(*name);
    let added: Vec<String> = after.keys().filter(is_new).cloned().collect();
    let removed: Vec<String> = before.keys().filter(is_gone).cloned().collect();
    let changed = after.iter().filter_map(|(name, entry)| {
        let keys = differing_keys(before.get(name)?, entry);
        (!keys.is_empty()).then(|| format!("{name} ({})", listed(&keys)))
    });
    let changed: Vec<String> = changed.collect();
    [("added", added), ("removed", removed), ("changed", changed)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {}", listed(&names)))
        .collect()
}

/// The members of the file other than the servers.
fn settings(whole: &Value) -> Entry {
    let members = whole.as_object().into_iter().flatten();
    members
        .filter(|(key, _)| !["mcpServers", "servers"].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn differing_keys(old: &Entry, new: &Entry) -> Vec<String> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let differing = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value));
    let differing = differing.map(|(key, _)| key);
    differing.chain(gone).cloned().collect()
}

fn listed(names: &[String]) -> String {
    match names.len().saturating_sub(MAX_NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..MAX_NAMED].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(change_words(before, after, Syntax::Jsonc), expected);
    }

    #[test]
    fn a_change_is_told_by_servers_and_keys_without_values() {
        let old =
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "s3cret"}}, "b": {"url": "u"}}}"#;
        check(
            old,
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "other"}, "cwd": "/"}, "c": {"url": "u"}}, "pageSize": 9}"#,
            "added c; removed b; changed a (env, cwd); changed pageSize",
        );
        check(
            old,
            r#"{"mcpServers": {"a": {"env": {"K": "s3cret"}}, "b": {"url": "u"}}}"#,
            "changed a (command)",
        );
    }

    #[test]
    fn texts_that_mean_the_same_or_nothing_are_told_apart() {
        let text = r#"{"mcpServers": {}}"#;
        check(
            text,
            "// mine\n{\"mcpServers\": {}}",
            "changed comments, spacing or order",
        );
        check(text, "{", "the file is no JSON");
        check(text, "", "the file is empty");
        check("{", text, "the file is a configuration again");
    }

    #[test]
    fn many_servers_are_counted() {
        let servers: Vec<String> = (1..=7)
            .map(|n| format!(r#""s{n}": {{"url": "u"}}"#))
            .collect();
        check(
            r#"{"mcpServers": {}}"#,
            &format!(r#"{{"mcpServers": {{{}}}}}"#, servers.join(",")),
            "added s1, s2, s3, s4, s5 and 2 more",
        );
    }
}
