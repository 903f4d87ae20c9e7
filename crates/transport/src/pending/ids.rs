//! Finds the id of a message that cannot be read as a whole.

/// How much of the end of an answer is looked at for its id, in bytes.
const TAIL: usize = 64;

/// Whether a message of which only the beginning is known says its method.
pub fn is_request(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"\"method\"").is_some()
}

/// The id of a response of which only the beginning is known, if it stands before the payload.
pub fn id_in_head(head: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let head = head
        .split_once("\"result\"")
        .map_or(&*head, |(before, _)| before);
    let (_, after) = head.split_once("\"id\"")?;
    let digits = after.trim_start().strip_prefix(':')?.trim_start();
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The id of a response that ends with it.
pub fn id_in_tail(text: &[u8]) -> Option<u64> {
    let tail = &text[text.len().saturating_sub(TAIL)..];
    let at = memchr::memmem::rfind(tail, b"\"id\"")?;
    let number = std::str::from_utf8(&tail[at + b"\"id\"".len()..]).ok()?;
    let number = number.trim_start().strip_prefix(':')?.trim_end();
    number.strip_suffix('}')?.trim().parse().ok()
}
