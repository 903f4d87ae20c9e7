//! Cuts a large tool result and adds a link to the whole result.

use std::borrow::Cow;

use super::content;
use crate::{
    era::Revision,
    message::{self, JsonObjectEditor, array, items},
};

/// The whole result: its resource URI, its tool, and the size of its JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    pub uri: &'a str,
    /// The called tool.
    pub tool: &'a str,
    pub bytes: usize,
}

/// Cuts a tool result (JSON text) to `max_bytes` bytes of content blocks, and adds a block with a
/// link to the whole result. A text block at the limit is cut. Another block at the limit is left
/// out, like all later blocks. `structuredContent` stays if it fits into the remaining bytes.
pub fn head(
    result: &str,
    max_bytes: usize,
    whole: Whole<'_>,
    revision: Revision,
) -> Option<String> {
    let mut editor = JsonObjectEditor::read(result)?;
    let mut remaining = max_bytes;
    let mut blocks = Vec::new();
    for block in editor.get("content").and_then(items).unwrap_or_default() {
        if block.len() <= remaining {
            remaining -= block.len();
            blocks.push(Cow::Borrowed(block));
            continue;
        }
        blocks.extend(cut_text_block(block, remaining).map(Cow::Owned));
        remaining = 0;
        break;
    }
    let link = link(whole);
    blocks.push(Cow::Owned(
        content::older_block(&link, revision).unwrap_or(link),
    ));
    let blocks = array(&blocks);
    let structure = editor.get("structuredContent").map(str::len);
    let is_in_the_way = structure.is_some_and(|length| length > remaining);
    editor.set("content", &blocks);
    if is_in_the_way {
        editor.remove("structuredContent");
    }
    Some(editor.to_string())
}

/// Cuts a text block to at most `max_bytes` bytes of JSON text. `None` if the block is not text, or
/// if nothing fits.
fn cut_text_block(block: &str, max_bytes: usize) -> Option<String> {
    let text = message::shown_member(block, "text")?;
    if message::text_member(block, "type").as_deref() != Some("text") {
        return None;
    }
    let mut editor = JsonObjectEditor::read(block)?;
    editor.set_text("text", "");
    let max_bytes = max_bytes.checked_sub(editor.to_string().len())?;
    editor.set_text("text", beginning(&text, max_bytes));
    Some(editor.to_string())
}

/// Returns the longest prefix of a text that has at most `max_bytes` bytes as a JSON string.
fn beginning(text: &str, max_bytes: usize) -> &str {
    let mut length = 0;
    for (index, character) in text.char_indices() {
        length += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\x1f' => 6,
            character => character.len_utf8(),
        };
        if length > max_bytes {
            return &text[..index];
        }
    }
    text
}

fn link(whole: Whole<'_>) -> String {
    let Whole { uri, tool, bytes } = whole;
    let mut link = JsonObjectEditor::default();
    link.set_text("type", "resource_link");
    link.set_text("uri", uri);
    link.set_text("name", &format!("{tool}: the whole result"));
    link.set_text(
        "description",
        &format!(
            "This is the beginning of a result of {bytes} bytes. Read more of it as a resource, with \
             ?offset= and &length= (in characters), ?lines=10-40, ?pattern= (a regular expression) or \
             ?path= (a JSON path) after the URI, or with the tool read_object."
        ),
    );
    // The resource is read in parts, as plain text. Its size is unknown before redaction.
    link.set_text("mimeType", "text/plain");
    link.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LINK: &str = "mainstay://objects/b";

    fn cut_to_head(result: &Value, max_bytes: usize, revision: Revision) -> Value {
        let result = result.to_string();
        let whole = Whole {
            uri: LINK,
            tool: "t",
            bytes: result.len(),
        };
        let head_result = head(&result, max_bytes, whole, revision).expect("an object");
        serde_json::from_str(&head_result).expect("JSON")
    }

    #[test]
    fn a_text_is_cut_at_the_limit() {
        let long_text = "é\n\"".repeat(1000);
        let result = json!({"content": [{"type": "text", "text": "first"}, {"type": "text", "text": long_text, "annotations": {"priority": 1}}], "isError": true});
        let head_result = cut_to_head(&result, 1024, Revision::LATEST);
        let blocks = head_result["content"].as_array().expect("blocks");
        assert_eq!(blocks.len(), 3);
        assert_eq!(blocks[0], result["content"][0]);
        let cut_text = blocks[1]["text"].as_str().expect("a text");
        assert!(long_text.starts_with(cut_text));
        let length = blocks[0].to_string().len() + blocks[1].to_string().len();
        assert!((1014..=1024).contains(&length), "{length}");
        assert_eq!(blocks[1]["annotations"], json!({"priority": 1}));
        assert_eq!(blocks[2]["uri"], LINK);
        assert_eq!(blocks[2]["mimeType"], "text/plain");
        assert!(blocks[2].get("size").is_none());
        assert_eq!(head_result["isError"], true);
    }

    #[test]
    fn an_uncuttable_block_is_left_out_with_later_blocks() {
        let image = json!({"type": "image", "data": "A".repeat(2000), "mimeType": "image/png"});
        let structure = json!({"rows": [1, 2]});
        let result = json!({"content": [image, {"type": "text", "text": "after"}], "structuredContent": structure});
        let blocks = &cut_to_head(&result, 1024, Revision::LATEST)["content"];
        assert_eq!(blocks.as_array().map(Vec::len), Some(1));
        assert_eq!(blocks[0]["type"], "resource_link");
    }

    #[test]
    fn structured_content_stays_if_it_fits() {
        let rows = |count: usize| json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"rows": vec![7; count]}});
        assert_eq!(
            cut_to_head(&rows(2), 1024, Revision::LATEST)["structuredContent"],
            rows(2)["structuredContent"]
        );
        assert!(cut_to_head(&rows(1000), 1024, Revision::LATEST)["structuredContent"].is_null());
    }

    #[test]
    fn older_clients_read_the_link_as_text() {
        let result = json!({"content": [{"type": "text", "text": "x".repeat(5000)}]});
        let blocks = &cut_to_head(&result, 1024, Revision::V2025_03_26)["content"];
        assert_eq!(blocks[1]["type"], "text");
        let text = blocks[1]["text"].as_str().expect("a text");
        assert!(text.contains(LINK), "{text}");
    }
}
