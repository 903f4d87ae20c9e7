//! The JSON-RPC envelope: read at its edges, spliced, and otherwise left as the bytes that came.
//!
//! A [`peek`] finds where the members of a message lie; nothing inside `params`, `result` or `error`
//! is parsed unless a later, equally shallow peek asks for it. Changing a message means replacing
//! spans of its text ([`splice`]), so key order, number spelling and members unknown to us survive
//! (invariant 5).

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
    address::{Address, InvalidParams, Reference, Text, address, named},
    envelope::{ANSWERS, Envelope, Kind, MAX_DEPTH, Malformed, batch, is_batch, peek, with_body},
    method::Method,
    object::{Object, array, items},
    text::{
        error_response, has_members, locate, member, one_line, quote, request, response, shortened,
        shown_member, shown_text, splice, text, text_member,
    },
};

/// Where a JSON value lies in its message, in bytes. Half the size of a range of `usize`: every message
/// carries a dozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

/// No text can be longer, for its spans.
const MAX_TEXT: usize = u32::MAX as usize;

impl Span {
    fn new(start: usize, end: usize) -> Self {
        let short = |at| u32::try_from(at).expect("a text that is read has MAX_TEXT bytes at most");
        Self {
            start: short(start),
            end: short(end),
        }
    }

    /// The span of `part`, which must be a slice of `whole`.
    fn of(whole: &str, part: &str) -> Self {
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

/// Whether this JSON text may be a request's id: a string or a number, not `null` (MCP, base protocol).
fn is_id(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}
