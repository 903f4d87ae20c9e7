//! The JSON-RPC envelope. Mainstay reads the envelope without parsing the rest of a message, and
//! changes a message by splices. All other bytes stay unchanged.
//!
//! A [`peek`] finds the spans of a message's members. It parses nothing inside `params`, `result`
//! or `error`, except a few members that route a request. [`splice`] replaces spans of the text. So
//! the order of keys, the spelling of numbers and unknown members stay the same (invariant 5).

mod address;
mod envelope;
pub mod foreign;
mod keys;
pub mod lenient;
pub mod meta;
mod method;
mod object;
mod scan;
mod surrogates;
mod text;

pub use self::{
    address::{Address, InvalidParams, Reference, Text, address, text_param},
    envelope::{
        ANSWERS, Envelope, MAX_DEPTH, Malformed, MessageKind, batch, is_batch, peek, with_body,
    },
    method::Method,
    object::{JsonObjectEditor, array, items},
    text::{
        error_response, has_members, locate, member, one_line, quote, request, response, shortened,
        shown_member, shown_text, splice, text, text_member,
    },
};

/// The byte range of a JSON value in its message. `u32` halves its size, because every message
/// carries a dozen spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

/// Maximum length of a message in bytes, because a [`Span`] has `u32` offsets.
const MAX_TEXT: usize = u32::MAX as usize;

impl Span {
    fn new(start: usize, end: usize) -> Self {
        let narrow =
            |offset| u32::try_from(offset).expect("a text that is read has MAX_TEXT bytes at most");
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The span of `part`, which must be a slice of `whole`.
    fn from_part(whole: &str, part: &str) -> Self {
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        debug_assert!(
            start + part.len() <= whole.len(),
            "the part lies inside the whole"
        );
        Self::new(start, start + part.len())
    }

    pub fn whole(text: &str) -> Self {
        Self::new(0, text.len())
    }

    fn start(self) -> usize {
        self.start as usize
    }

    fn end(self) -> usize {
        self.end as usize
    }

    pub fn get(self, text: &str) -> &str {
        &text[self.start()..self.end()]
    }
}

/// True if this JSON value is a legal request id: a string or a number, not `null` (MCP, base
/// protocol).
fn is_id(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}
