//! Replaces content blocks that an older revision does not define.

use std::borrow::Cow;

use crate::{
    era::Revision,
    message::{self, JsonObjectEditor, array, items},
};

/// Replaces newer blocks in the array of content blocks at `member`. Returns true if a block was
/// replaced.
pub(super) fn downgrade(
    result: &mut JsonObjectEditor<'_>,
    member: &str,
    revision: Revision,
) -> bool {
    if revision.has_audio() && revision.has_resource_link() {
        return false;
    }
    let Some(blocks) = result.get(member).and_then(items) else {
        return false;
    };
    let mut any = false;
    let blocks: Vec<Cow<'_, str>> = blocks
        .into_iter()
        .map(|block| match older(block, revision) {
            Some(older) => {
                any = true;
                Cow::Owned(older)
            }
            None => Cow::Borrowed(block),
        })
        .collect();
    let blocks = any.then(|| array(&blocks));
    if let Some(blocks) = &blocks {
        result.set(member, blocks);
    }
    any
}

/// The replacement of a block. `None` if the revision defines the block.
pub(super) fn older(block: &str, revision: Revision) -> Option<String> {
    match &*message::text_member(block, "type")? {
        "audio" if !revision.has_audio() => audio(block),
        "resource_link" if !revision.has_resource_link() => Some(link(block)),
        _ => None,
    }
}

/// Turns audio into an embedded resource, which keeps the bytes.
fn audio(block: &str) -> Option<String> {
    let mut changed = JsonObjectEditor::read(block)?;
    let mut resource = JsonObjectEditor::default();
    resource.set_text("uri", "audio:embedded");
    for (from, to) in [("mimeType", "mimeType"), ("data", "blob")] {
        if let Some(value) = changed.get(from) {
            resource.set(to, value);
        }
        changed.remove(from);
    }
    changed.set_text("type", "resource");
    changed.set("resource", &resource.to_string());
    Some(changed.to_string())
}

/// Turns a link into a text with the same content. Annotations and `_meta` stay.
fn link(block: &str) -> String {
    let word = |name| message::shown_member(block, name);
    let uri = word("uri").unwrap_or_default();
    let mut words = match word("title").or_else(|| word("name")) {
        Some(name) => format!("{name}: {uri}"),
        None => uri.into_owned(),
    };
    if let Some(description) = word("description") {
        words.push('\n');
        words.push_str(&description);
    }
    let mut text = JsonObjectEditor::default();
    text.set_text("type", "text");
    text.set_text("text", &words);
    for member in ["annotations", "_meta"] {
        if let Some(value) = message::member(block, member) {
            text.set(member, value);
        }
    }
    text.to_string()
}
