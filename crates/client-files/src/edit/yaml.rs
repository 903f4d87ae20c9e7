//! Changes YAML in place, line by line. Requires servers in block style, each on its own lines, as
//! clients write them.

use serde_json::Value;

use super::EntryChange;
use crate::yaml::{self, Node, NodeKind};

/// The indentation of the members of a new block, in columns.
const INDENT: usize = 2;

pub fn apply(text: &str, changes: &[EntryChange]) -> Result<String, String> {
    let mut text = text.to_owned();
    for change in changes {
        text = one(&text, change)?;
    }
    Ok(text)
}

/// An entry's place: its lines, and the column of its key or its dash.
struct Place {
    first: usize,
    last: usize,
    column: usize,
}

fn one(text: &str, change: &EntryChange) -> Result<String, String> {
    let (EntryChange::Put { section, label, .. } | EntryChange::Remove { section, label }) = change;
    let root = yaml::read(text).map_err(|error| error.to_string())?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let [key] = section.keys.as_slice() else {
        return Err("its servers stand deeper than expected".to_owned());
    };
    let ends = text.is_empty() || text.ends_with('\n');
    let new = |column: usize| match change {
        EntryChange::Put { entry, .. } if section.is_list => element(entry, column),
        EntryChange::Put { entry, .. } => member(label, entry, column),
        EntryChange::Remove { .. } => Vec::new(),
    };
    let is_put = matches!(change, EntryChange::Put { .. });
    let holder = match &root {
        None => None,
        Some(Node {
            kind: NodeKind::Map(_),
            is_flow: true,
            ..
        }) => {
            return Err("all of it stands in braces".to_owned());
        }
        Some(
            root @ Node {
                kind: NodeKind::Map(members),
                ..
            },
        ) => members
            .iter()
            .find(|(name, _)| name.text == *key)
            .map(|member| (root, member)),
        Some(_) => return Err("it is no map".to_owned()),
    };
    let Some((_, (head, node))) = holder else {
        if is_put {
            let column = INDENT;
            lines.push(format!("{key}:"));
            lines.extend(new(column));
        }
        return Ok(joined(&lines, true));
    };
    let places = places(node, &lines, section.is_list)?;
    let present = places.iter().position(|(name, _)| name == label);
    match present.map(|index| &places[index].1) {
        Some(Place {
            first,
            last,
            column,
        }) => {
            let new = new(*column);
            let is_last = !is_put && places.len() == 1;
            lines.splice(*first..=*last, new);
            if is_last {
                // Write an empty value, because the key would otherwise have none.
                let empty = if section.is_list { " []" } else { " {}" };
                empty_head(&mut lines[head.line], empty)?;
            }
        }
        None if !is_put => {}
        None => {
            let (at, column) = match places.last() {
                Some((_, place)) => (place.last + 1, place.column),
                None => {
                    // The key has an empty value: `{}`, `[]`, `null` or nothing.
                    bare_head(&mut lines[head.line])?;
                    (head.line + 1, head.column + INDENT)
                }
            };
            lines.splice(at..at, new(column));
        }
    }
    Ok(joined(&lines, ends || is_put))
}

fn joined(lines: &[String], ends: bool) -> String {
    let mut text = lines.join("\n");
    if ends && !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The places of the entries, with their names.
fn places(node: &Node, lines: &[String], is_list: bool) -> Result<Vec<(String, Place)>, String> {
    let is_empty = match &node.kind {
        NodeKind::Scalar(value) => value.is_null(),
        NodeKind::List(elements) => elements.is_empty(),
        NodeKind::Map(members) => members.is_empty(),
    };
    if is_empty {
        return Ok(Vec::new());
    }
    if node.is_flow {
        return Err("its servers stand in braces".to_owned());
    }
    match &node.kind {
        NodeKind::Map(members) if !is_list => Ok(members
            .iter()
            .map(|(key, value)| {
                let place = Place {
                    first: key.line,
                    last: value.last_line.max(key.line),
                    column: key.column,
                };
                (key.text.clone(), place)
            })
            .collect()),
        NodeKind::List(elements) if is_list => elements
            .iter()
            .map(|element| {
                let line = lines
                    .get(element.line)
                    .map(String::as_str)
                    .unwrap_or_default();
                let dash = line.find('-').filter(|at| line[..*at].trim().is_empty());
                let column = dash.ok_or("a list is not written one below the other")?;
                let name = element.get("name").map(Node::value);
                let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
                let place = Place {
                    first: element.line,
                    last: element.last_line,
                    column,
                };
                Ok((name.to_owned(), place))
            })
            .collect(),
        _ => Err("its servers stand in another shape than expected".to_owned()),
    }
}

/// Removes `{}`, `[]` or `null` after a key.
fn bare_head(line: &mut String) -> Result<(), String> {
    let (code, comment) = match line.find(" #") {
        Some(at) => (line[..at].to_owned(), line[at..].to_owned()),
        None => (line.clone(), String::new()),
    };
    let code = code.trim_end();
    let bare = ["{}", "[]", "null", "~"]
        .into_iter()
        .find_map(|empty| code.strip_suffix(empty))
        .unwrap_or(code)
        .trim_end();
    if !bare.ends_with(':') {
        return Err("its list of servers is empty in an unusual way".to_owned());
    }
    *line = format!("{bare}{comment}");
    Ok(())
}

/// Puts an empty value after a key.
fn empty_head(line: &mut String, empty: &str) -> Result<(), String> {
    let colon = line.find(':').ok_or("its key has no line of its own")?;
    line.insert_str(colon + 1, empty);
    Ok(())
}

/// Writes `name:` and the entry below it.
fn member(label: &str, entry: &Value, column: usize) -> Vec<String> {
    let mut lines = Vec::new();
    put(&mut lines, &key(label), entry, column);
    lines
}

/// Writes `- name: …` and the rest below it.
fn element(entry: &Value, column: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in entry.as_object().into_iter().flatten() {
        put(&mut lines, &key(name), value, column + INDENT);
    }
    if let Some(first) = lines.first_mut() {
        first.replace_range(column..=column, "-");
    }
    lines
}

fn put(lines: &mut Vec<String>, key: &str, value: &Value, column: usize) {
    let indent = " ".repeat(column);
    match value {
        Value::Object(members) if !members.is_empty() => {
            lines.push(format!("{indent}{key}:"));
            for (name, value) in members {
                put(lines, &self::key(name), value, column + INDENT);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            lines.push(format!("{indent}{key}:"));
            for element in elements {
                let text = match element {
                    Value::String(text) => scalar(text),
                    // Write the value as JSON, which is also YAML.
                    other => other.to_string(),
                };
                lines.push(format!("{indent}  - {text}"));
            }
        }
        Value::String(text) => lines.push(format!("{indent}{key}: {}", scalar(text))),
        other => lines.push(format!("{indent}{key}: {other}")),
    }
}

fn key(name: &str) -> String {
    scalar(name)
}

/// Writes a text. Omits the quotes if it can only be read as that text.
fn scalar(text: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-' | '@' | '+' | '$');
    let starts_well =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/' | '$'));
    let words = ["yes", "no", "on", "off", "y", "n"];
    let is_word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if starts_well && text.chars().all(is_plain) && !is_word && yaml::plain(text).is_string() {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

/// Writes a complete text with these members.
pub fn written(members: &Value) -> String {
    let mut lines = Vec::new();
    for (name, value) in members.as_object().into_iter().flatten() {
        match value {
            Value::Array(elements)
                if elements.iter().all(Value::is_object) && !elements.is_empty() =>
            {
                lines.push(format!("{}:", key(name)));
                for entry in elements {
                    lines.extend(element(entry, INDENT));
                }
            }
            value => put(&mut lines, &key(name), value, 0),
        }
    }
    joined(&lines, true)
}
