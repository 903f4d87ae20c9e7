//! Replaces content blocks that an older revision does not define.

use std::borrow::Cow;

use crate::{
    era::Revision,
    message::{self, JsonObjectEditor, array, items},
};

/// Replaces newer content blocks in the array `member`. Returns true if a block was replaced.
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
    let mut has_changed = false;
    let blocks: Vec<Cow<'_, str>> = blocks
        .into_iter()
        .map(|block| match older_block(block, revision) {
            Some(replacement) => {
                has_changed = true;
                Cow::Owned(replacement)
            }
            None => Cow::Borrowed(block),
        })
        .collect();
    let blocks = has_changed.then(|| array(&blocks));
    if let Some(blocks) = &blocks {
        result.set(member, blocks);
    }
    has_changed
}

/// Returns the replacement of a block. `None` if the revision defines the block.
pub(super) fn older_block(block: &str, revision: Revision) -> Option<String> {
    match &*message::text_member(block, "type")? {
        "audio" if !revision.has_audio() => audio(block),
        "resource_link" if !revision.has_resource_link() => Some(link(block)),
        _ => None,
    }
}

/// Converts audio to an embedded resource, which keeps the bytes.
fn audio(block: &str) -> Option<String> {
    let mut editor = JsonObjectEditor::read(block)?;
    let mut resource = JsonObjectEditor::default();
    resource.set_text("uri", "audio:embedded");
    for (from, to) in [("mimeType", "mimeType"), ("data", "blob")] {
        if let Some(value) = editor.get(from) {
            resource.set(to, value);
        }
        editor.remove(from);
    }
    editor.set_text("type", "resource");
    editor.set("resource", &resource.to_string());
    Some(editor.to_string())
}

/// Converts a link to a text block with the same content. Keeps annotations and `_meta`.
fn link(block: &str) -> String {
    let shown_text = |name| message::shown_member(block, name);
    let uri = shown_text("uri").unwrap_or_default();
    let mut label = match shown_text("title").or_else(|| shown_text("name")) {
        Some(name) => format!("{name}: {uri}"),
        None => uri.into_owned(),
    };
    if let Some(description) = shown_text("description") {
        label.push('\n');
        label.push_str(&description);
    }
    let mut editor = JsonObjectEditor::default();
    editor.set_text("type", "text");
    editor.set_text("text", &label);
    for member in ["annotations", "_meta"] {
        if let Some(value) = message::member(block, member) {
            editor.set(member, value);
        }
    }
    editor.to_string()
}
