//! Splits a byte stream into messages and stray text. Never holds more than a limit.

use std::{io, mem, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use mainstay_core::message::lenient;
use mainstay_platform::scratch;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{Frame, logs::rest};

/// The length up to which a line is read through [`scratch`]. A longer line is read into its own buffer.
const READ_SIZE: usize = scratch::SIZE;

/// The size, in bytes, up to which a buffer grows fourfold. A larger buffer doubles. Unwritten memory costs
/// nothing, but address space can be short (`ulimit -v`), and the old memory of a growing buffer has a cost,
/// too.
const LARGE: usize = 4 * 1024 * 1024;

/// The maximum number of bytes of blanks and escape sequences before a message.
const MAX_MARGIN: usize = READ_SIZE;

/// The number of bytes of an oversized line that are stored to find the id of the message.
const KEPT_HEAD: usize = 1024;

/// One line of input, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine {
    Whole(Bytes),
    /// A line beyond `limit`. Only its beginning, `head`, was stored. The rest is skipped.
    TooLong {
        head: Bytes,
        limit: usize,
    },
}

/// Input that is not part of a message.
#[derive(Clone, Copy, Debug)]
pub enum Stray<'a> {
    /// Text that does not begin like a message.
    Text(&'a [u8]),
    /// The length, in bytes, of a skipped part of a line that was too long.
    Rest(usize),
}

impl Stray<'_> {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(piece) => piece.len(),
            Self::Rest(bytes) => *bytes,
        }
    }
}

/// Splits a byte stream into lines without ever holding more than the limit.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    buffer: BytesMut,
    /// True if a line was taken from `buffer` and shares its memory.
    is_shared: bool,
    /// The position up to which `buffer` has been searched for a line end.
    searched: usize,
    max_line: usize,
    line: LineKind,
}

/// The kind of the line at the beginning of the buffer.
#[derive(Debug)]
enum LineKind {
    /// Nothing has arrived yet, or only blanks.
    Unknown,
    /// The line begins like a message.
    Message,
    /// The line is not a message. Its bytes so far have been passed to `stray`.
    Stray,
    /// The line is longer than allowed, and is being skipped.
    TooLong,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(input: R, max_line: usize) -> Self {
        Self {
            input,
            buffer: BytesMut::new(),
            is_shared: false,
            searched: 0,
            max_line,
            line: LineKind::Unknown,
        }
    }

    /// The next line. The end of input also ends the last line. `None` after the last line.
    pub async fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            self.skip();
            if !matches!(self.line, LineKind::TooLong)
                && let Some(line) = self.take_line(|_| usize::MAX)
            {
                return Ok(Some(line));
            }
            if self.fill().await? == 0 {
                self.searched = 0;
                let last = self.buffer.split().freeze();
                return Ok((!last.is_empty()).then_some(InputLine::Whole(last)));
            }
        }
    }

    /// The next line that begins like a message. Other text goes to `stray` as soon as it arrives, as whole
    /// lines or parts of lines, and is never held. `stray` returns the time to wait before the next read.
    /// `limit` gets the beginning of a large line and returns the limit of the line.
    pub async fn message(
        &mut self,
        mut stray: impl FnMut(Stray<'_>) -> Duration,
        limit: impl Fn(&[u8]) -> usize,
    ) -> io::Result<Option<InputLine>> {
        loop {
            let skipped = self.skip();
            if skipped > 0 {
                rest(stray(Stray::Rest(skipped))).await;
            }
            let length = self.stray_length();
            if length > 0 {
                let pause = stray(Stray::Text(&self.buffer[..length]));
                self.buffer.advance(length);
                // Let other tasks run during a flood of stray text.
                rest(pause).await;
            }
            if matches!(self.line, LineKind::Message)
                && let Some(line) = self.take_line(&limit)
            {
                return Ok(Some(line));
            }
            if self.fill().await? == 0 {
                // The last line counts without a line end if it is a whole message.
                self.searched = 0;
                let last = self.buffer.split().freeze();
                let is_whole = matches!(self.line, LineKind::Message)
                    && Frame::of_server(last.clone()).is_ok();
                self.line = LineKind::Unknown;
                return Ok(is_whole.then_some(InputLine::Whole(last)));
            }
        }
    }

    /// Skips a part of a line that was too long. Returns the length of the part.
    fn skip(&mut self) -> usize {
        if !matches!(self.line, LineKind::TooLong) {
            return 0;
        }
        let skipped = match memchr::memchr(b'\n', &self.buffer) {
            Some(end) => {
                self.line = LineKind::Unknown;
                end + 1
            }
            None => self.buffer.len(),
        };
        self.buffer.advance(skipped);
        skipped
    }

    /// Length in bytes of the stray text at the beginning of the buffer.
    fn stray_length(&mut self) -> usize {
        let mut from = 0;
        loop {
            let rest = &self.buffer[from..];
            if matches!(self.line, LineKind::Unknown) {
                self.line = kind(rest);
            }
            if !matches!(self.line, LineKind::Stray) {
                return from;
            }
            // A carriage return ends text such as a progress bar. In a message it is white space.
            match memchr::memchr2(b'\n', b'\r', rest) {
                Some(end) => {
                    from += end + 1;
                    self.line = LineKind::Unknown;
                }
                None => return self.buffer.len(),
            }
        }
    }

    /// Removes and returns the first line of the buffer, if it is complete.
    fn take_line(&mut self, limit: impl Fn(&[u8]) -> usize) -> Option<InputLine> {
        if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let mut line = self.buffer.split_to(self.searched + at).freeze();
            self.buffer.advance(1);
            self.is_shared = true;
            self.searched = 0;
            self.line = LineKind::Unknown;
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            // A line that arrived in a single read was not compared with the limit before.
            if line.len() > self.max_line {
                let head = Bytes::copy_from_slice(&line[..line.len().min(KEPT_HEAD)]);
                let limit = self.max_line;
                return Some(InputLine::TooLong { head, limit });
            }
            return Some(InputLine::Whole(line));
        }
        self.searched = self.buffer.len();
        let head = &self.buffer[..self.buffer.len().min(KEPT_HEAD)];
        let limit = if self.buffer.len() > LARGE {
            limit(head).min(self.max_line)
        } else {
            self.max_line
        };
        if self.buffer.len() <= limit {
            return None;
        }
        let head = Bytes::copy_from_slice(head);
        self.line = LineKind::TooLong;
        self.buffer = BytesMut::new();
        self.searched = 0;
        Some(InputLine::TooLong { head, limit })
    }

    /// Reads more bytes. Returns their number.
    async fn fill(&mut self) -> io::Result<usize> {
        if mem::take(&mut self.is_shared) || self.buffer.is_empty() {
            // Release the memory of earlier lines. While the reader waits, the buffer holds only the
            // beginning of the next line.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        let (length, capacity) = (self.buffer.len(), self.buffer.capacity());
        if length < READ_SIZE {
            let buffer = &mut self.buffer;
            let take = |piece: &[u8]| {
                buffer.extend_from_slice(piece);
                piece.len()
            };
            return scratch::read(&mut self.input, take).await;
        }
        if length == capacity {
            let limit = self.max_line.saturating_add(READ_SIZE);
            let next = if capacity > LARGE {
                2 * capacity
            } else {
                (4 * capacity).min(LARGE + READ_SIZE)
            };
            let mut larger = BytesMut::with_capacity(next.min(limit));
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
        self.input.read_buf(&mut self.buffer).await
    }
}

/// The kind of a line with this beginning.
fn kind(text: &[u8]) -> LineKind {
    let margin = lenient::margin(&text[..text.len().min(MAX_MARGIN)]);
    match margin.map(|length| text.get(length)) {
        Some(Some(b'{' | b'[')) => LineKind::Message,
        Some(Some(_)) => LineKind::Stray,
        Some(None) | None if text.len() < MAX_MARGIN => LineKind::Unknown,
        // A line with a longer margin is not a message.
        Some(None) | None => LineKind::Stray,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn lines(input: &[u8], max_line: usize) -> Vec<InputLine> {
        let mut reader = LineReader::new(input, max_line);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.expect("memory can be read") {
            lines.push(line);
        }
        lines
    }

    fn whole(text: &str) -> InputLine {
        InputLine::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_end_with_lf_or_crlf_or_the_input() {
        assert_eq!(
            lines(b"a\r\nb\n\nc", 10).await,
            [whole("a"), whole("b"), whole(""), whole("c")]
        );
    }

    /// An oversized message is skipped, and its head identifies the call.
    #[tokio::test]
    async fn an_oversized_line_is_skipped_and_the_next_one_read() {
        let mut input = br#"{"id":7,"#.to_vec();
        input.extend(vec![b'x'; 200_000]);
        input.extend(b"\n{}\n");
        let found = lines(&input, 1000).await;
        let [InputLine::TooLong { head, limit: 1000 }, next] = found.as_slice() else {
            panic!("two lines, not {}", found.len())
        };
        assert!(head.starts_with(br#"{"id":7,"#));
        assert_eq!(*next, whole("{}"));
    }

    /// Returns the messages in `pieces`, and all other text.
    async fn sorted(pieces: &[Vec<u8>], max_line: usize) -> (Vec<InputLine>, Vec<u8>) {
        let input = pieces
            .iter()
            .cloned()
            .map(|piece| Ok::<_, io::Error>(Bytes::from(piece)));
        let input = tokio_util::io::StreamReader::new(futures_util::stream::iter(input));
        let mut reader = LineReader::new(input, max_line);
        let (mut messages, mut stray_text) = (Vec::new(), Vec::new());
        while let Some(line) = reader
            .message(
                |stray| {
                    if let Stray::Text(piece) = stray {
                        stray_text.extend_from_slice(piece);
                    }
                    Duration::ZERO
                },
                |_| usize::MAX,
            )
            .await
            .expect("memory can be read")
        {
            messages.push(line);
        }
        (messages, stray_text)
    }

    /// Messages and stray text may be mixed and cut at any place. The reader finds the messages, and passes
    /// on the other text unchanged.
    #[test]
    fn messages_are_found_in_stray_text() {
        use proptest::prelude::*;
        let line = prop_oneof![
            "[ \t]{0,3}[{\\[][a-z]{0,9}",
            "[ \ta-z]{0,12}",
            Just(String::new())
        ];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        proptest!(|(lines in prop::collection::vec(line, 0..12), cut in 1..20_usize)| {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
            let is_message = |line: &&String| line.trim_start().starts_with(['{', '[']);
            let messages: Vec<_> = lines.iter().filter(is_message).map(|line| whole(line)).collect();
            let others = lines.iter().filter(|line| !is_message(line));
            let others = others.map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
            let pieces: Vec<_> = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect();
            let found = runtime.block_on(sorted(&pieces, 100));
            prop_assert_eq!(found, (messages, others.into_bytes()));
        });
    }

    /// The reader holds neither text that is not a message, nor a message beyond its limit.
    #[tokio::test]
    async fn a_flood_is_not_held() {
        for begin in ["x", " ", r#"{"id":7,"#] {
            let mut flood = vec![begin.as_bytes().to_vec()];
            flood.extend(std::iter::repeat_n(vec![b' '; 10_000], 100));
            let total = begin.len() + 1_000_000;
            let input = flood
                .into_iter()
                .map(|piece| Ok::<_, io::Error>(Bytes::from(piece)));
            let input = tokio_util::io::StreamReader::new(futures_util::stream::iter(input));
            let mut reader = LineReader::new(input, 500_000);
            let mut stray_bytes = 0;
            let line = reader
                .message(
                    |stray| {
                        stray_bytes += stray.bytes();
                        Duration::ZERO
                    },
                    |_| usize::MAX,
                )
                .await
                .expect("read");
            assert!(reader.buffer.capacity() <= 500_000 + READ_SIZE);
            if begin.starts_with('{') {
                assert!(matches!(line, Some(InputLine::TooLong { .. })), "{line:?}");
                assert_eq!(stray_bytes, 0);
            } else {
                assert_eq!((line, stray_bytes), (None, total));
            }
        }
    }

    /// A line without an end is reported when it exceeds its limit, and the reader holds no more of it. The
    /// limit is lower if no call waits for the line.
    #[tokio::test]
    async fn a_line_that_is_too_long_is_told_of_before_its_end() {
        const MAX: usize = 16 * 1024 * 1024;
        for (awaited, expected) in [(usize::MAX, MAX), (LARGE, LARGE)] {
            let begin = Bytes::from_static(br#"{"id":7,"#);
            let flood = std::iter::once(begin)
                .chain(std::iter::repeat_n(Bytes::from(vec![b' '; READ_SIZE]), 400));
            let flood = futures_util::stream::iter(flood.map(Ok::<_, io::Error>));
            let endless = futures_util::StreamExt::chain(flood, futures_util::stream::pending());
            let mut reader = LineReader::new(tokio_util::io::StreamReader::new(endless), MAX);
            let line = reader.message(|_| Duration::ZERO, |_| awaited).await;
            let Ok(Some(InputLine::TooLong { head, limit })) = line else {
                panic!("a line that is too long");
            };
            assert!(head.starts_with(br#"{"id":7,"#));
            assert_eq!(limit, expected);
            assert!(reader.buffer.capacity() <= expected + READ_SIZE);
        }
    }

    /// The buffer of a long line never exceeds four times the bytes that have arrived, whatever the limit.
    #[tokio::test]
    async fn a_buffer_grows_with_its_line() {
        const MAX: usize = 512 * 1024 * 1024;
        for bytes in [READ_SIZE, LARGE / 2, LARGE + 1, 10_000_000, 20_000_000] {
            let begin = Bytes::from(vec![b'['; bytes]);
            let input = futures_util::stream::iter([Ok::<_, io::Error>(begin)]);
            let endless = futures_util::StreamExt::chain(input, futures_util::stream::pending());
            let mut reader = LineReader::new(tokio_util::io::StreamReader::new(endless), MAX);
            let waiting = reader.message(|_| Duration::ZERO, |_| usize::MAX);
            assert!(tokio::time::timeout(Duration::ZERO, waiting).await.is_err());
            let (length, capacity) = (reader.buffer.len(), reader.buffer.capacity());
            assert_eq!(length, bytes);
            assert!(capacity <= 4 * length + READ_SIZE, "{bytes}: {capacity}");
        }
    }

    /// While a reader waits, it holds at most the beginning of the next line.
    #[tokio::test]
    async fn a_reader_that_waits_holds_no_buffer() {
        let (near, mut far) = tokio::io::duplex(1024 * 1024);
        let mut reader = LineReader::new(near, usize::MAX);
        let mut message = async || {
            let reading = reader.message(|_| Duration::ZERO, |_| usize::MAX);
            let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
            read.expect("a line").expect("read")
        };
        let long = format!("[{}]\n", "x".repeat(200_000));
        for line in ["{}\n", &long, "{}\n", "{\"id\":"] {
            far.write_all(line.as_bytes()).await.expect("room");
        }
        let mut messages = Vec::new();
        for _ in 0..3 {
            messages.push(message().await);
        }
        let waits = |reader: &mut LineReader<_>| {
            let waiting = reader.message(|_| Duration::ZERO, |_| usize::MAX);
            assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
            reader.buffer.capacity()
        };
        assert!(waits(&mut reader) <= 64, "{}", reader.buffer.capacity());
        far.write_all(b"7}\n").await.expect("room");
        let rest = reader.message(|_| Duration::ZERO, |_| usize::MAX).await;
        assert_eq!(rest.expect("read"), Some(whole("{\"id\":7}")));
        assert_eq!(waits(&mut reader), 0);
    }
}
