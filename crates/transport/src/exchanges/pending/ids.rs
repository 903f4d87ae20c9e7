//! Finds the id of a message that cannot be read as a whole.

use mainstay_core::message::lenient::whole_number;

/// The number of bytes at the end of an answer that are searched for its id.
const TAIL: usize = 64;

/// True if the beginning of a message contains a method.
pub fn is_request(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"\"method\"").is_some()
}

/// The id at the beginning of a response, if it stands before the payload.
pub fn id_in_head(head: &[u8]) -> Option<u64> {
    whole_number(&token_in_head(&String::from_utf8_lossy(head))?)
}

/// The id of a response that cannot be read.
pub enum UnreadableId {
    Number(u64),
    /// An id that no request of Mainstay has: null, or a string.
    Foreign,
}

impl UnreadableId {
    pub fn find(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let token = token_in_head(&text).or_else(|| token_in_tail(&text))?;
        let is_foreign = token == "null" || token.starts_with('"');
        whole_number(&token)
            .map(Self::Number)
            .or_else(|| is_foreign.then_some(Self::Foreign))
    }
}

/// The id (JSON text) that stands before the payload.
fn token_in_head(text: &str) -> Option<String> {
    let head = text
        .split_once("\"result\"")
        .map_or(text, |(before, _)| before);
    let (_, after) = head.split_once("\"id\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = match value.strip_prefix('"') {
        Some(inner) => inner.find('"')? + 2,
        None => value
            .find(|letter: char| matches!(letter, ',' | '}') || letter.is_whitespace())
            .unwrap_or(value.len()),
    };
    Some(value[..end].to_owned())
}

/// The id (JSON text) at the end of a message.
fn token_in_tail(text: &str) -> Option<String> {
    let (_, after) =
        text[text.floor_char_boundary(text.len().saturating_sub(TAIL))..].rsplit_once("\"id\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_end();
    let token = value.strip_suffix('}')?.trim();
    let is_one_value = !token.contains(['}', ',']);
    is_one_value.then(|| token.to_owned())
}
