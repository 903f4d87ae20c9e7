//! The framing of stdio, and the parts of a message: [`LineReader`], [`Frame`], [`message::batch`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::message::{self, MessageKind, lenient};
use mainstay_transport::{Frame, InputLine, LineReader, Stray};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, ReadBuf};

use crate::Input;

/// Bytes of an oversized line that are kept.
const HEAD: usize = 1024;

/// Reads the lines of a stream, and each line as a message.
pub fn check(data: &[u8]) {
    let Some(input) = Input::new(data) else {
        return;
    };
    let (lines, unfinished) = split(input.bytes);
    let found = read(&input);
    check_lines(
        &input,
        &found,
        &lines,
        unfinished,
        most(&input),
        Unfinished::Line,
    );
    check_noise(&input);
    for line in found {
        if let InputLine::Whole(line) = line {
            check_message(&line);
        }
    }
}

/// Each piece is one read.
struct Pieces<'a>(std::vec::IntoIter<&'a [u8]>);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.next() {
            buffer.put_slice(piece);
        }
        Poll::Ready(Ok(()))
    }
}

const MEMORY: &str = "memory can be read";

impl<'a> Input<'a> {
    fn reader(&self) -> LineReader<Pieces<'a>> {
        LineReader::new(Pieces(self.pieces.clone().into_iter()), self.limit)
    }
}

fn read(input: &Input) -> Vec<InputLine> {
    let mut reader = input.reader();
    std::iter::from_fn(|| now(reader.next()).expect(MEMORY)).collect()
}

/// Polls a future that is ready at once, or after a yield.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(std::task::Waker::noop());
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
            return outcome;
        }
    }
}

/// Lines without their ends, and the rest after the last.
fn split(bytes: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let unfinished = lines.pop().expect("a split has a last part");
    (lines, unfinished)
}

/// A message is read as it would be without noise. All other text is noise, unchanged and in order.
fn check_noise(input: &Input) {
    let mut reader = input.reader();
    let (mut found, mut noise) = (Vec::new(), Vec::new());
    loop {
        let stray = |stray: Stray<'_>| {
            if let Stray::Text(piece) = stray {
                noise.extend_from_slice(piece);
            }
            Duration::ZERO
        };
        let Some(line) = now(reader.message(stray, |_| usize::MAX)).expect(MEMORY) else {
            break;
        };
        found.push(line);
    }
    let (messages, expected, unfinished) = sorted(input.bytes);
    assert_eq!(noise, expected);
    let (messages, unfinished) = (
        messages.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        unfinished.as_slice(),
    );
    // Blanks count only after the text behind them is known.
    let before = messages
        .iter()
        .chain([&unfinished])
        .map(|line| blanks(line));
    let most = most(input) + before.max().unwrap_or_default();
    check_lines(
        input,
        &found,
        &messages,
        unfinished,
        most,
        Unfinished::Message,
    );
}

/// Number of meaningless bytes at the beginning of a line.
fn blanks(line: &[u8]) -> usize {
    lenient::margin(line).unwrap_or(line.len())
}

/// The messages, the noise, and an incomplete message. Noise ends at a carriage return, too. Blanks may start
/// a message or noise.
fn sorted(mut rest: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>, Vec<u8>) {
    let (mut messages, mut noise) = (Vec::new(), Vec::new());
    loop {
        let Some(first) = rest.get(blanks(rest)) else {
            return (messages, noise, Vec::new());
        };
        let is_message = matches!(first, b'{' | b'[');
        let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r' && !is_message;
        let Some(end) = rest.iter().position(ends) else {
            let unfinished = if is_message { rest } else { b"" };
            if !is_message {
                noise.extend_from_slice(rest);
            }
            return (messages, noise, unfinished.to_vec());
        };
        if is_message {
            messages.push(rest[..end].to_vec());
        } else {
            noise.extend_from_slice(&rest[..=end]);
        }
        rest = &rest[end + 1..];
    }
}

/// The longest line that may be delivered: one read may exceed the limit.
fn most(input: &Input) -> usize {
    input.limit + input.longest_piece()
}

/// The treatment of a line without an end at the end of input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    Line,
    /// A line if it is a complete message, else nothing.
    Message,
}

/// Every line is delivered unchanged and in order, unless it is too long.
fn check_lines(
    input: &Input,
    found: &[InputLine],
    lines: &[&[u8]],
    unfinished: &[u8],
    most: usize,
    what_is_left: Unfinished,
) {
    let mut delivered = found.iter();
    for written in lines.iter().copied() {
        match delivered.next().expect("every line is delivered") {
            InputLine::Whole(line) => {
                assert_eq!(line, written.strip_suffix(b"\r").unwrap_or(written));
                assert!(written.len() <= most, "longer than was ever to be held");
            }
            InputLine::TooLong { head, limit } => {
                assert_eq!(*limit, input.limit);
                check_head(head, written, input.limit);
            }
        }
    }
    let is_line = match what_is_left {
        Unfinished::Line => true,
        Unfinished::Message => Frame::of_server(Bytes::copy_from_slice(unfinished)).is_ok(),
    };
    match delivered.next() {
        None => assert!(
            unfinished.len() <= most && (unfinished.is_empty() || !is_line),
            "a line went unnoticed"
        ),
        Some(InputLine::TooLong { head, .. }) => check_head(head, unfinished, input.limit),
        Some(InputLine::Whole(line)) => {
            assert!(is_line, "{line:?} has no end");
            assert_eq!(line, unfinished);
        }
    }
    assert_eq!(delivered.next(), None);
}

fn check_head(head: &[u8], line: &[u8], limit: usize) {
    assert!(line.len() > limit, "{line:?} is not too long");
    assert!(line.starts_with(head));
    assert!((limit + 1).min(HEAD) <= head.len() && head.len() <= HEAD);
}

fn check_message(line: &Bytes) {
    let Ok(text) = std::str::from_utf8(line) else {
        assert!(Frame::read(line.clone()).is_err(), "read what is no UTF-8");
        return;
    };
    check_batch(text);
    let frame = match (Frame::read(line.clone()), Members::read(text)) {
        (Ok(frame), Some(members)) => {
            check_members(&frame, &members);
            frame
        }
        (Ok(_), None) => panic!("accepted: {text}"),
        (Err(error), Some(_)) => panic!("refused ({error}): {text}"),
        (Err(_), None) => return,
    };
    let renamed = frame.with_id("77");
    assert!(!renamed.contains(['\n', '\r']), "more than one line");
    let renamed = Frame::read(renamed.into()).expect("what was a message still is one");
    match (frame.envelope().kind, renamed.envelope().kind) {
        (MessageKind::Notification { method }, MessageKind::Notification { method: after }) => {
            assert_eq!(method, after);
        }
        (MessageKind::Request { method, .. }, MessageKind::Request { id, method: after }) => {
            assert_eq!((method, "77"), (after, renamed.get(id)));
        }
        (
            MessageKind::Response { body, is_error, .. },
            MessageKind::Response {
                id,
                body: after,
                is_error: still,
            },
        ) => {
            assert_eq!((is_error, "77"), (still, renamed.get(id)));
            assert_eq!(message::one_line(frame.get(body)), renamed.get(after));
        }
        (before, after) => panic!("{before:?} became {after:?}"),
    }
}

fn check_batch(text: &str) {
    let items = message::batch(text).ok();
    let expected: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
    let expected = expected.filter(|items| !items.is_empty());
    let expected = expected.map(|items| items.into_iter().map(RawValue::get).collect());
    assert_eq!(items, expected);
}

/// Compares the reader's spans with the members.
fn check_members(frame: &Frame, members: &Members) {
    match frame.envelope().kind {
        MessageKind::Request { id, .. } => {
            assert_eq!(Some(frame.get(id)), members.id.map(RawValue::get));
            check_address(frame, members);
        }
        MessageKind::Notification { .. } => check_address(frame, members),
        MessageKind::Response { id, body, is_error } => {
            assert_eq!(Some(frame.get(id)), members.id.map(RawValue::get));
            let expected = if is_error {
                members.error
            } else {
                members.result
            };
            assert_eq!(Some(frame.get(body)), expected.map(RawValue::get));
            return;
        }
    }
    assert_eq!(Some(frame.method_name()), members.method);
}

/// Compares the address with the result of a plain reader, if it can be read.
fn check_address(frame: &Frame, members: &Members) {
    let params: Pairs = members.params.and_then(Pairs::read).unwrap_or_default();
    let Ok(address) = message::address(frame.text(), frame.envelope()) else {
        return;
    };
    let text = |name| {
        params
            .last(name)
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
    };
    assert_eq!(
        address.name.map(|name| name.value.into_owned()),
        text("name")
    );
    assert_eq!(address.uri.map(|uri| uri.value.into_owned()), text("uri"));
    let meta = params
        .last("_meta")
        .and_then(Pairs::read)
        .unwrap_or_default();
    let token = meta.last("progressToken").map(RawValue::get);
    assert_eq!(address.progress_token.map(|token| frame.get(token)), token);
}

/// A message as a plain reader parses it, by the rules of JSON-RPC and MCP only.
struct Members<'a> {
    id: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Option<Self> {
        // Control characters in a key are invalid JSON, which reading a key as bytes does not detect.
        let _: &RawValue = serde_json::from_str(text).ok()?;
        let pairs: Pairs<'a> = serde_json::from_str(text).ok()?;
        let one = |name| {
            let mut found = pairs.0.iter().filter(move |(key, _)| key == name);
            let first = found.next().map(|(_, value)| *value);
            // A message must not have a member twice.
            found.next().is_none().then_some(first)
        };
        let version = one("jsonrpc")?;
        let members = Self {
            id: one("id")?,
            method: match one("method")?.filter(|raw| raw.get() != "null") {
                Some(raw) => Some(serde_json::from_str(raw.get()).ok()?),
                None => None,
            },
            params: one("params")?,
            result: one("result")?,
            error: one("error")?,
        };
        let answers = usize::from(members.result.is_some()) + usize::from(members.error.is_some());
        let id_is_one = members
            .id
            .is_some_and(|id| !id.get().starts_with(['n', 't', 'f', '[', '{']));
        let object = |raw: &RawValue| raw.get() == "null" || Pairs::read(raw).is_some();
        let is_message = match members.method {
            Some(_) => {
                answers == 0
                    && (members.id.is_none() || id_is_one)
                    && members.params.is_none_or(object)
            }
            None => answers == 1 && members.id.is_some(),
        };
        let is_plain = !pairs
            .has_lookalike(&["jsonrpc", "id", "method", "params", "result", "error"])
            && members
                .params
                .and_then(Pairs::read)
                .is_none_or(|params| params.are_plain());
        (version?.get() == r#""2.0""# && is_message && is_plain).then_some(members)
    }
}

/// The members of `params` and `_meta` that others must not look like.
const PARAMS: [&str; 12] = [
    "name",
    "uri",
    "arguments",
    "ref",
    "_meta",
    "task",
    "taskId",
    "requestId",
    "progressToken",
    "level",
    "inputResponses",
    "requestState",
];
const META: [&str; 5] = [
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
];

/// The members of an object in order.
#[derive(Default)]
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Pairs<'a> {
    fn read(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// True if a member equals one of these to a reader that ignores case.
    fn has_lookalike(&self, names: &[&str]) -> bool {
        let plain = |name: &str| {
            name.replace('\u{17f}', "s")
                .replace('\u{212a}', "k")
                .replace('ı', "i")
        };
        self.0.iter().any(|(name, _)| {
            let read = plain(name.trim_end_matches('\0'));
            let is_like =
                |legal_name: &&str| name != legal_name && read.eq_ignore_ascii_case(legal_name);
            names.iter().any(is_like)
        })
    }

    /// True if these `params` have no such member.
    fn are_plain(&self) -> bool {
        let metas = self.0.iter().filter(|(name, _)| name == "_meta");
        let mut metas = metas.filter_map(|(_, meta)| Pairs::read(meta));
        !self.has_lookalike(&PARAMS) && !metas.any(|meta| meta.has_lookalike(&META))
    }

    fn last(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

/// The key of a member. Half of a surrogate pair counts as a character.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key, E> {
                Ok(Key(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        deserializer.deserialize_bytes(KeyVisitor)
    }
}
