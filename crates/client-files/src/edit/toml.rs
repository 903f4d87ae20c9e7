//! Changes TOML in place, and keeps its comments.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::EntryChange;

pub fn apply(text: &str, changes: &[EntryChange]) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let mut comments = String::new();
    for change in changes {
        let (EntryChange::Put { section, .. } | EntryChange::Remove { section, .. }) = change;
        let mut place: &mut dyn TableLike = document.as_table_mut();
        for key in &section.keys {
            let next = place.entry(key).or_insert_with(|| {
                let mut table = Table::new();
                // Write no head for this table. The heads of its servers imply it.
                table.set_implicit(true);
                Item::Table(table)
            });
            place = next
                .as_table_like_mut()
                .ok_or_else(|| format!("`{key}` is no table"))?;
        }
        match change {
            EntryChange::Put { label, entry, .. } => match place.get_mut(label) {
                Some(item) => {
                    let decor = item.as_table().map(|table| table.decor().clone());
                    let inline = item.is_inline_table();
                    *item = if inline {
                        Item::Value(value(entry))
                    } else {
                        item_of(entry)
                    };
                    if let (Some(decor), Some(table)) = (decor, item.as_table_mut()) {
                        *table.decor_mut() = decor;
                    }
                }
                None => {
                    place.insert(label, item_of(entry));
                }
            },
            EntryChange::Remove { label, .. } => {
                if let Some(Item::Table(table)) = place.remove(label) {
                    comments.push_str(&above(&table));
                }
            }
        }
    }
    let text = document.to_string();
    Ok(if comments.trim().is_empty() {
        text
    } else {
        with_comments(&text, &comments, changes)
    })
}

/// The comments before the head of a table that an empty line separates from the head. They are about the
/// file.
fn above(table: &Table) -> String {
    let prefix = table.decor().prefix().and_then(|text| text.as_str());
    let prefix = prefix.unwrap_or_default();
    match prefix.rfind("\n\n") {
        Some(at) if !prefix[..at].trim().is_empty() => prefix[..at + 2].to_owned(),
        _ => String::new(),
    }
}

/// Puts the comments before the table of the changed entry. If there is none, puts them at the end.
fn with_comments(text: &str, comments: &str, changes: &[EntryChange]) -> String {
    let put = changes.iter().find_map(|change| match change {
        EntryChange::Put { section, label, .. } => {
            Some(format!("[{}.{label}]", section.keys.join(".")))
        }
        EntryChange::Remove { .. } => None,
    });
    let at = put.and_then(|head| {
        let mut offset = 0;
        text.split_inclusive('\n').find_map(|line| {
            let at = offset;
            offset += line.len();
            (line.trim_end() == head).then_some(at)
        })
    });
    let at = at.unwrap_or(text.len());
    let (before, after) = text.split_at(at);
    let gap = if before.is_empty() || before.ends_with("\n\n") || comments.starts_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{before}{gap}{comments}{after}")
}

/// Converts an object to a table. Inner objects also become tables.
fn item_of(entry: &Value) -> Item {
    let Value::Object(members) = entry else {
        return Item::Value(value(entry));
    };
    let mut table = Table::new();
    let (tables, plain): (Vec<_>, Vec<_>) = members
        .iter()
        .filter(|(_, member)| !member.is_null())
        .partition(|(_, member)| member.is_object());
    for (key, member) in plain {
        table.insert(key, Item::Value(value(member)));
    }
    for (key, member) in tables {
        table.insert(key, item_of(member));
    }
    Item::Table(table)
}

fn value(json: &Value) -> toml_edit::Value {
    match json {
        Value::Null => "".into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(elements) => elements.iter().map(value).collect::<Array>().into(),
        Value::Object(members) => {
            let pairs = members
                .iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(key, member)| (key.as_str(), value(member)));
            pairs.collect::<InlineTable>().into()
        }
    }
}

/// Writes a complete text with these members.
pub fn written(members: &Value) -> String {
    let mut document = DocumentMut::new();
    for (key, member) in members.as_object().into_iter().flatten() {
        let mut item = item_of(member);
        if let Some(table) = item.as_table_mut() {
            table.set_implicit(true);
        }
        document.insert(key, item);
    }
    document.to_string()
}
