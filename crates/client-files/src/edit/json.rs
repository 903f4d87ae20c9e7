//! Changes JSON in place, and keeps its comments.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, ObjectProp},
    common::Ranged as _,
    parse_to_ast,
};
use mainstay_config::{Syntax, edit::Document};
use serde_json::Value;

use super::{EntryChange, expected};
use crate::{document, format::FileFormat};

pub fn apply(text: &str, changes: &[EntryChange]) -> Result<String, String> {
    let mut text = text.to_owned();
    for change in changes {
        text = match within_line(&text, change) {
            Some(edited) => edited,
            None => one(&text, change)?,
        };
    }
    Ok(text)
}

fn one(text: &str, change: &EntryChange) -> Result<String, String> {
    let before = document::value(FileFormat::Json, text).map_err(|error| error.to_string())?;
    let after =
        expected(&before, std::slice::from_ref(change)).map_err(|error| error.to_string())?;
    let document = Document::read(text, Syntax::Jsonc).map_err(|error| error.to_string())?;
    document
        .become_value(&after)
        .map_err(|error| error.to_string())?;
    let edited = document.to_string();
    // The document always adds a final line break. Remove it if the text had none.
    let had_end = text.is_empty() || text.ends_with('\n');
    Ok(match edited.strip_suffix('\n') {
        Some(edited) if !had_end => edited.to_owned(),
        _ => edited,
    })
}

/// Changes an object that is on one line, without breaking the line. Can add a member or remove the
/// last member.
fn within_line(text: &str, change: &EntryChange) -> Option<String> {
    let (EntryChange::Put { section, label, .. } | EntryChange::Remove { section, label }) = change;
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    let value = parsed.value?;
    let mut object: &Object<'_> = value.as_object()?;
    for key in &section.keys {
        object = object.get_object(key)?;
    }
    if text
        .get(object.range.start..object.range.end)?
        .contains('\n')
    {
        return None;
    }
    let present = object
        .properties
        .iter()
        .position(|member| member.name.as_str() == label);
    let last = object.properties.len().checked_sub(1)?;
    let end = |member: &ObjectProp<'_>| member.range().end;
    match (change, present) {
        (EntryChange::Put { entry, .. }, None) => {
            let at = end(&object.properties[last]);
            let gap = if text[object.range.start..at].contains("\": ") {
                " "
            } else {
                ""
            };
            let label = Value::from(label.as_str());
            Some(format!(
                "{},{gap}{label}:{gap}{entry}{}",
                &text[..at],
                &text[at..]
            ))
        }
        (EntryChange::Remove { .. }, Some(index)) if index == last && index > 0 => {
            let before = end(&object.properties[index - 1]);
            let at = end(&object.properties[index]);
            Some(format!("{}{}", &text[..before], &text[at..]))
        }
        _ => None,
    }
}
