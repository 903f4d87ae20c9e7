//! Makes the tables of docs/configuration.md from the rows.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::Value;

use super::{access, defaults_of_keys::default_of, file, policies, profile, reports, server};
use crate::words::schema::{KeyRow, ValueShape};

/// Keys of the file that have their own chapter, or belong to another program.
const ELSEWHERE_IN_FILE: [&str; 6] = ["$schema", "mcpServers", "servers", "mcp", "tools", "inputs"];

/// Objects of an entry that have their own chapter, or belong to another program.
const ELSEWHERE_IN_ENTRY: [&str; 4] = ["reconnect", "restart", "health", "requestInit"];

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the default in the words of the file. A number of bytes is also given in larger units.
fn default_words(key: &KeyRow) -> String {
    const MIB: u64 = 1 << 20;
    match default_of(key) {
        _ if key.default_words.is_some() => key.default_words.unwrap_or_default().to_owned(),
        Value::Null => String::new(),
        Value::Number(number) if key.names[0].ends_with("Bytes") => {
            let bytes = number.as_u64().unwrap_or_default();
            match bytes / MIB {
                mib if mib >= 1024 && mib % 1024 == 0 => format!("{bytes} ({} GiB)", mib / 1024),
                mib => format!("{bytes} ({mib} MiB)"),
            }
        }
        Value::Number(number) => number.to_string(),
        value => format!("`{value}`"),
    }
}

fn row(key: &KeyRow, prefix: &str, has_default: bool, table: &mut String) {
    let quoted = key.names.iter().map(|name| format!("`{prefix}{name}`"));
    let names = quoted.collect::<Vec<_>>().join(", ");
    let value = match key.value_words {
        Some(words) => cell(words),
        None => cell(&key.shape.words(key.names[0])),
    };
    let _ = write!(table, "| {names} | {value} | ");
    if has_default {
        let _ = write!(table, "{} | ", default_words(key));
    }
    let _ = writeln!(table, "{} |", cell(key.about));
}

/// Writes a row for each key. Keys of inner objects have their whole path.
fn rows(keys: &[&KeyRow], prefix: &str, has_default: bool, table: &mut String) {
    for key in keys {
        match &key.shape {
            ValueShape::Object(inner) if key.field.is_none() && key.value_words.is_none() => {
                let prefix = format!("{prefix}{}.", key.names[0]);
                let keys: Vec<&KeyRow> = inner.all_keys().collect();
                rows(&keys, &prefix, has_default, table);
            }
            _ => row(key, prefix, has_default, table),
        }
    }
}

fn table(name: &str) -> String {
    let (head, has_default) = match name {
        "reconnect" | "restart" | "health" => ("| Key | Value | |\n|---|---|---|\n", false),
        _ => ("| Key | Value | Default | |\n|---|---|---|---|\n", true),
    };
    let keys: Vec<&KeyRow> = match name {
        "file" => file::SETTINGS.iter().collect(),
        "process" => server::PROCESS.iter().collect(),
        "remote" => server::REMOTE.iter().collect(),
        "oauth" => server::OAUTH.all_keys().collect(),
        "entry" => server::OPTIONS.iter().collect(),
        "policies" => policies::POLICIES.iter().collect(),
        "profile" => profile::PROFILE.all_keys().collect(),
        "access" => access::ACCESS.all_keys().collect(),
        "accessRule" => access::ACCESS_RULE.all_keys().collect(),
        "alert" => reports::ALERT.all_keys().collect(),
        "journal" => reports::JOURNAL.all_keys().collect(),
        "telemetry" => reports::TELEMETRY.all_keys().collect(),
        "reconnect" => policies::RECONNECT.all_keys().collect(),
        "restart" => policies::RESTART.all_keys().collect(),
        "health" => policies::HEALTH.all_keys().collect(),
        name => panic!("no rows for {name}"),
    };
    let elsewhere: &[&str] = match name {
        "file" => &ELSEWHERE_IN_FILE,
        "remote" | "policies" => &ELSEWHERE_IN_ENTRY,
        _ => &[],
    };
    let mut keys = keys;
    keys.retain(|key| !elsewhere.contains(&key.names[0]));
    let mut table = head.to_owned();
    rows(&keys, "", has_default, &mut table);
    table
}

/// Each table follows `<!-- settings: NAME -->`, up to the next empty line.
#[test]
fn the_tables_of_the_settings_are_current() {
    const MARK: &str = "<!-- settings: ";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let committed = fs::read_to_string(&path).expect("it is there");
    let mut parts = committed.split(MARK);
    let mut current = parts.next().expect("a beginning").to_owned();
    let mut tables = 0;
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("the end of a mark");
        let (_, behind) = rest.split_once("\n\n").expect("text behind the table");
        let _ = write!(current, "{MARK}{name} -->\n{}\n{behind}", table(name));
        tables += 1;
    }
    assert_eq!(tables, 15);
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        fs::write(&path, &current).expect("written");
    }
    assert!(
        committed == current,
        "docs/configuration.md is out of date; write it with MAINSTAY_WRITE_DOCS=1 cargo test -p mainstay-config current"
    );
}
