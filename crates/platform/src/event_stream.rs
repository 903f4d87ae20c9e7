//! Parses server-sent events from the pieces of a stream. Each event is bounded in size.
//!
//! Parsing follows WHATWG HTML, section 9.2.6, with three differences. Blocks without data are returned, too,
//! because their `id` and `retry` count. Data keeps its bytes, and the caller decides if they are UTF-8. At
//! the end of the stream, an event without its blank line can be read.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The number of bytes of an oversized event that are kept to identify it.
const KEPT_HEAD: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One block of a stream: an event, or settings of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSentEvent {
    /// The value of `event`.
    pub name: Option<String>,
    pub id: Option<String>,
    /// The value of `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// The values of `data`, joined by line feeds.
    pub data: Option<Bytes>,
}

/// An event above the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The beginning of its data.
    pub head: Bytes,
}

/// Splits pieces of a stream into events. It holds at most one piece and the bytes that `limit` allows.
#[derive(Debug)]
pub struct EventParser {
    /// The maximum number of bytes in the lines of one event, without line ends and comments.
    limit: usize,
    /// Bytes that have not been parsed yet.
    input: Bytes,
    /// The beginning of an incomplete line.
    line: BytesMut,
    /// True while the current line is skipped.
    skips_line: bool,
    /// True after a carriage return. If a line feed follows, it belongs to the same line end.
    after_return: bool,
    /// True until the first line is complete.
    is_first_line: bool,
    block: Block,
}

/// An incomplete event.
#[derive(Debug, Default)]
struct Block {
    event: ServerSentEvent,
    data: EventData,
    /// Bytes of the event's lines so far.
    size: usize,
    too_large: Option<TooLarge>,
}

/// Data of an event. Most events have one line, which is not copied.
#[derive(Debug, Default)]
enum EventData {
    #[default]
    Nothing,
    Line(Bytes),
    Lines(BytesMut),
}

impl EventParser {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            input: Bytes::new(),
            line: BytesMut::new(),
            skips_line: false,
            after_return: false,
            is_first_line: true,
            block: Block::default(),
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Adds the next piece. Only allowed after [`EventParser::next_event`] has returned `None`.
    pub fn push(&mut self, piece: Bytes) {
        debug_assert!(self.input.is_empty(), "one piece after the other");
        self.input = piece;
    }

    /// The next complete event. `None` if more input is needed.
    pub fn next_event(&mut self) -> Option<Result<ServerSentEvent, TooLarge>> {
        loop {
            if self.after_return && !self.input.is_empty() {
                self.after_return = false;
                if self.input[0] == b'\n' {
                    self.input.advance(1);
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', &self.input) else {
                let rest = std::mem::take(&mut self.input);
                self.keep(&rest);
                return None;
            };
            let mut line = self.input.split_to(end);
            self.after_return = self.input[0] == b'\r';
            self.input.advance(1);
            if !self.line.is_empty() {
                self.keep(&line);
                line = std::mem::take(&mut self.line).freeze();
            }
            if std::mem::take(&mut self.is_first_line) && line.starts_with(BYTE_ORDER_MARK) {
                line.advance(BYTE_ORDER_MARK.len());
            }
            if std::mem::take(&mut self.skips_line) {
                continue;
            }
            if !line.is_empty() {
                self.block.line(&line, self.limit);
            } else if let Some(event) = std::mem::take(&mut self.block).end() {
                return Some(event);
            }
        }
    }

    /// The last event at the end of the stream, without its blank line. The caller decides if its data is
    /// complete.
    pub fn last_event(&mut self) -> Option<ServerSentEvent> {
        let line = std::mem::take(&mut self.line).freeze();
        if !line.is_empty() && !std::mem::take(&mut self.skips_line) {
            self.block.line(&line, self.limit);
        }
        std::mem::take(&mut self.block).end()?.ok()
    }

    /// Keeps a piece of an incomplete line.
    fn keep(&mut self, piece: &[u8]) {
        if piece.is_empty() || self.skips_line {
            return;
        }
        self.line.extend_from_slice(piece);
        let mut line = &self.line[..];
        if self.is_first_line {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let is_comment = line.first() == Some(&b':');
        if is_comment || !self.block.has_room(line, self.limit) {
            self.skips_line = true;
            // One byte stays, because an empty line would end the event.
            self.line.truncate(1);
        }
    }
}

impl Block {
    /// True if another line, or the beginning of a line, fits. If it does not fit, nothing more of the event
    /// is kept.
    fn has_room(&mut self, line: &[u8], limit: usize) -> bool {
        if self.too_large.is_none() && self.size + line.len() > limit {
            let mut data = std::mem::take(&mut self.data);
            // Require the colon after the name: a longer name may begin with `data`.
            if let Some((b"data", value)) = field(line).filter(|_| line.len() > b"data".len()) {
                data.push(Bytes::copy_from_slice(&value[..value.len().min(KEPT_HEAD)]));
            }
            let bytes = data.bytes();
            let head = Bytes::copy_from_slice(&bytes[..bytes.len().min(KEPT_HEAD)]);
            self.too_large = Some(TooLarge { head });
        }
        self.too_large.is_none()
    }

    fn line(&mut self, line: &Bytes, limit: usize) {
        let Some((name, value)) = field(line) else {
            return;
        };
        if !self.has_room(line, limit) {
            return;
        }
        self.size += line.len();
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match name {
            b"data" => self.data.push(line.slice_ref(value)),
            b"event" => self.event.name = text(),
            b"id" if !value.contains(&0) => self.event.id = text(),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(value)
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                self.event.retry = number.or(self.event.retry);
            }
            _ => {}
        }
    }

    /// Ends the block at its blank line. `None` for an empty block.
    fn end(self) -> Option<Result<ServerSentEvent, TooLarge>> {
        if let Some(too_large) = self.too_large {
            return Some(Err(too_large));
        }
        let data = match self.data {
            EventData::Nothing => None,
            data => Some(data.bytes()),
        };
        let event = ServerSentEvent { data, ..self.event };
        (event != ServerSentEvent::default()).then_some(Ok(event))
    }
}

impl EventData {
    fn push(&mut self, line: Bytes) {
        let mut lines = match std::mem::take(self) {
            Self::Nothing => {
                *self = Self::Line(line);
                return;
            }
            Self::Line(first) => BytesMut::from(first),
            Self::Lines(lines) => lines,
        };
        lines.put_u8(b'\n');
        lines.put_slice(&line);
        *self = Self::Lines(lines);
    }

    fn bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::Line(line) => line,
            Self::Lines(lines) => lines.freeze(),
        }
    }
}

/// The name and value of a line. `None` for a comment.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    match memchr::memchr(b':', line) {
        Some(0) => None,
        Some(colon) => {
            let value = &line[colon + 1..];
            Some((&line[..colon], value.strip_prefix(b" ").unwrap_or(value)))
        }
        None => Some((line, b"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events of a stream that arrives in pieces of `size` bytes.
    fn events(stream: &str, size: usize, limit: usize) -> Vec<Result<ServerSentEvent, TooLarge>> {
        let mut parser = EventParser::new(limit);
        let mut events = Vec::new();
        for piece in stream.as_bytes().chunks(size) {
            parser.push(Bytes::copy_from_slice(piece));
            events.extend(std::iter::from_fn(|| parser.next_event()));
        }
        events
    }

    fn check(stream: &str, limit: usize, expected: &[ServerSentEvent]) {
        for size in 1..=stream.len() {
            let found: Result<Vec<ServerSentEvent>, TooLarge> =
                events(stream, size, limit).into_iter().collect();
            assert_eq!(found.as_deref(), Ok(expected), "in pieces of {size}");
        }
    }

    fn data(text: &str) -> ServerSentEvent {
        ServerSentEvent {
            data: Some(Bytes::copy_from_slice(text.as_bytes())),
            ..ServerSentEvent::default()
        }
    }

    #[test]
    fn fields_make_events_however_they_arrive() {
        let stream = "\u{feff}data: a\ndata\ndata:b\n\n: a comment\n\r\nevent: e\rid: 7\rretry: 12\rretry: x\rdata:  c\rother: d\r\rid: 1\0\n\ndata: unfinished";
        let whole = ServerSentEvent {
            name: Some("e".to_owned()),
            id: Some("7".to_owned()),
            retry: Some(12),
            data: Some(Bytes::from(" c")),
        };
        check(stream, 100, &[data("a\n\nb"), whole]);
    }

    #[test]
    fn the_last_event_is_there_without_its_blank_line() {
        for (stream, expected) in [
            ("data: 1\n\nid: 2\ndata: {}\n", Some("{}")),
            ("data: 1\n\nid: 2\ndata: {}", Some("{}")),
            ("data: {}", Some("{}")),
            ("data: 1\n\n", None),
            ("data: 1\n\n: a comment", None),
            ("data: 23456789012345\n", None),
        ] {
            for size in 1..=stream.len() {
                let mut parser = EventParser::new(14);
                for piece in stream.as_bytes().chunks(size) {
                    parser.push(Bytes::copy_from_slice(piece));
                    while parser.next_event().is_some() {}
                }
                let data = parser.last_event().and_then(|event| event.data);
                assert_eq!(data.as_deref(), expected.map(str::as_bytes), "{stream:?}");
            }
        }
    }

    #[test]
    fn an_oversized_event_is_left_out_and_its_head_kept() {
        let too_large = |head: &'static str| {
            let head = Bytes::from(head);
            Err(TooLarge { head })
        };
        let [one, two, three] = ["1", "2", "3"].map(|text| Ok(data(text)));
        let stream = "data: 1\n\ndata: 23\ndata: 45678901\n: so\n\ndata: 2\r\rdata: 234567890\r\n\r\ndata: 3\n\n";
        let whole = [
            one,
            too_large("23\n45678901"),
            two,
            too_large("234567890"),
            three,
        ];
        assert_eq!(events(stream, stream.len(), 14), whole);
        for size in 1..stream.len() {
            let found = events(stream, size, 14);
            assert_eq!(found.len(), whole.len());
            for (found, whole) in found.iter().zip(&whole) {
                // The length of the kept head depends on the pieces.
                assert!(found == whole || found.is_err() && whole.is_err());
            }
        }
    }

    /// A stream with nothing but keep-alive comments uses no memory and stays readable.
    #[test]
    fn comments_do_not_count_however_many_they_are() {
        let stream = ": ping\n\n".repeat(100) + "data: 1\n" + &": ping\n".repeat(100) + "\n";
        check(&stream, 10, &[data("1")]);
    }
}
