//! Prints MCP content for people: text unchanged, other content as a short description.

use mainstay_command_line::{CommandError, output};
use mainstay_core::message::foreign;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The printed parts of a tool's result.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolResult {
    content: Vec<Value>,
    structured_content: Option<Value>,
    pub is_error: bool,
}

impl ToolResult {
    /// Reads a result. A result of another shape is read as empty; `--json` prints it unchanged.
    pub fn read(result: &RawValue) -> Self {
        foreign::read(result.get()).unwrap_or_default()
    }

    pub fn print(&self) -> Result<(), CommandError> {
        for item in &self.content {
            output::data(&describe(item))?;
        }
        match &self.structured_content {
            Some(data) if self.content.is_empty() => output::pretty(data),
            _ => Ok(()),
        }
    }
}

/// Describes one item of content, or of a resource's contents.
pub fn describe(item: &Value) -> String {
    let text = |member: &str| item[member].as_str();
    match (text("type"), text("text")) {
        (Some("text") | None, Some(text)) => text.to_owned(),
        (Some(kind @ ("image" | "audio")), _) => summary(kind, item, "data"),
        (Some("resource_link"), _) => format!("[link: {}]", text("uri").unwrap_or_default()),
        (Some("resource"), _) => describe(&item["resource"]),
        (None, None) if item.get("blob").is_some() => {
            summary(text("uri").unwrap_or("blob"), item, "blob")
        }
        (kind, _) => format!("[{}: shown by --json]", kind.unwrap_or("unknown content")),
    }
}

/// `[image: image/png, 1234 bytes]`
fn summary(label: &str, item: &Value, data: &str) -> String {
    let mime_type = item["mimeType"].as_str().unwrap_or("unknown type");
    let base64 = item[data]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches('=');
    format!(
        "[{label}: {mime_type}, {}]",
        output::count(base64.len() * 3 / 4, "byte")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A block with an invalid string or number must not hide the other blocks.
    #[test]
    fn one_bad_block_hides_no_other() {
        let result = r#"{"content":[{"type":"text","text":"well"},{"type":"text","text":"a\ud800b"}],"structuredContent":{"x":1e400},"isError":true}"#;
        let result = RawValue::from_string(result.to_owned()).expect("JSON");
        let read = ToolResult::read(&result);
        let texts: Vec<String> = read.content.iter().map(describe).collect();
        assert_eq!(texts, ["well", "a\u{fffd}b"]);
        assert!(read.is_error);
    }

    #[test]
    fn content_is_shown_in_a_few_words() {
        for (item, expected) in [
            (json!({"type": "text", "text": "a\nb"}), "a\nb"),
            (
                json!({"type": "image", "mimeType": "image/png", "data": "YWJjZA=="}),
                "[image: image/png, 4 bytes]",
            ),
            (
                json!({"type": "audio", "data": "YQ=="}),
                "[audio: unknown type, 1 byte]",
            ),
            (
                json!({"type": "resource_link", "uri": "x://1"}),
                "[link: x://1]",
            ),
            (
                json!({"type": "resource", "resource": {"uri": "x://1", "text": "inside"}}),
                "inside",
            ),
            (
                json!({"uri": "x://1", "mimeType": "a/b", "blob": "YWI="}),
                "[x://1: a/b, 2 bytes]",
            ),
            (json!({"type": "hologram"}), "[hologram: shown by --json]"),
            (json!(7), "[unknown content: shown by --json]"),
        ] {
            assert_eq!(describe(&item), expected);
        }
    }
}
