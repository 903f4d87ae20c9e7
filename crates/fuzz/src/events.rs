//! Server-sent events: [`EventParser`] against the algorithm of WHATWG HTML, section 9.2.6, applied to the
//! whole stream at once.

use bytes::Bytes;
use mainstay_platform::event_stream::{EventParser, ServerSentEvent, TooLarge};

use crate::Input;

/// Bytes of an oversized event that are kept.
const HEAD: usize = 1024;

/// Parses the events of a stream.
pub fn check(data: &[u8]) {
    let Some(input) = Input::new(data) else {
        return;
    };
    let found = read(&input);
    let blocks = blocks(input.bytes);
    let mut expected = blocks.iter().filter(|block| block.counts(input.limit));
    for found in found {
        let block = expected.next().expect("an event that is in the stream");
        match found {
            Ok(event) => {
                assert!(block.size <= input.limit, "longer than allowed: {event:?}");
                assert_eq!(event, block.event);
            }
            Err(TooLarge { head }) => {
                assert!(block.size > input.limit, "not too large: {block:?}");
                let data = block.event.data.as_deref().unwrap_or_default();
                assert!(head.len() <= HEAD && data.starts_with(&head), "{head:?}");
            }
        }
    }
    assert_eq!(expected.next(), None, "an event is missing");
}

fn read(input: &Input) -> Vec<Result<ServerSentEvent, TooLarge>> {
    let mut parser = EventParser::new(input.limit);
    let mut events = Vec::new();
    for piece in &input.pieces {
        parser.push(Bytes::copy_from_slice(piece));
        events.extend(std::iter::from_fn(|| parser.next_event()));
    }
    events
}

/// The lines before a blank line.
#[derive(Debug, Default, PartialEq)]
struct Block {
    event: ServerSentEvent,
    /// The length of its lines, without line ends and comments.
    size: usize,
}

impl Block {
    /// True if the block is returned: it is not empty, or too large.
    fn counts(&self, limit: usize) -> bool {
        self.event != ServerSentEvent::default() || self.size > limit
    }
}

fn blocks(stream: &[u8]) -> Vec<Block> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut blocks = Vec::new();
    let mut block = Block::default();
    for line in lines(stream) {
        if line.is_empty() {
            blocks.push(std::mem::take(&mut block));
        } else if line[0] != b':' {
            block.size += line.len();
            field(&mut block.event, &line);
        }
    }
    blocks
}

/// Complete lines, ended by CR LF, LF or CR.
fn lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut bytes = stream.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&&b'\n');
                lines.push(std::mem::take(&mut line));
            }
            b'\n' => lines.push(std::mem::take(&mut line)),
            byte => line.push(*byte),
        }
    }
    lines
}

fn field(event: &mut ServerSentEvent, line: &[u8]) {
    let (name, value) = match line.iter().position(|byte| *byte == b':') {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &b""[..]),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let text = String::from_utf8_lossy(value).into_owned();
    match name {
        b"event" => event.name = Some(text),
        b"id" if !text.contains('\0') => event.id = Some(text),
        b"retry" if !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit()) => {
            // A number that does not fit is ignored.
            event.retry = text.parse().ok().or(event.retry);
        }
        b"data" => {
            event.data = Some(match &event.data {
                Some(data) => [data, value].join(&b'\n').into(),
                None => Bytes::copy_from_slice(value),
            });
        }
        _ => {}
    }
}
