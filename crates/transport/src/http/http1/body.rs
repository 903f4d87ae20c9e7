//! Response bodies: by length, in chunks, or until the connection closes (RFC 9112, section 6).

use bytes::{Buf, Bytes, BytesMut};

use super::Head;

/// The maximum length of a line with the size of a chunk, and of a trailer.
const MAX_LINE: usize = 8 * 1024;

/// The maximum size of a chunk, in bytes. It exceeds any message that Mainstay accepts, so a larger chunk is
/// useless.
const MAX_CHUNK: u64 = 1 << 32;

#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    Data(Bytes),
    NeedsMore,
    End,
}

#[derive(Debug)]
pub enum BodyDecoder {
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

impl BodyDecoder {
    pub fn new(head: &Head) -> Result<Self, &'static str> {
        Ok(match (head.chunked, head.length) {
            (true, Some(_)) => return Err("it has both a length and chunks"),
            (true, None) => Self::ChunkSize,
            (false, Some(length)) => Self::Length(length),
            (false, None) => Self::UntilClose,
        })
    }

    /// Decodes and removes as much of the buffer as possible.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, &'static str> {
        loop {
            match self {
                Self::Done | Self::Length(0) => return Ok(Decoded::End),
                Self::UntilClose if buffer.is_empty() => return Ok(Decoded::NeedsMore),
                Self::UntilClose => return Ok(Decoded::Data(buffer.split().freeze())),
                Self::Length(left) => return Ok(take(buffer, left)),
                Self::ChunkSize => {
                    let Some(line) = line(buffer)? else {
                        return Ok(Decoded::NeedsMore);
                    };
                    *self = match size(&line)? {
                        0 => Self::Trailers,
                        size => Self::ChunkData(size),
                    };
                }
                Self::ChunkData(0) => *self = Self::ChunkEnd,
                Self::ChunkData(left) => return Ok(take(buffer, left)),
                Self::ChunkEnd => match line(buffer)? {
                    Some(line) if line.is_empty() => *self = Self::ChunkSize,
                    Some(_) => return Err("a chunk is longer than its size"),
                    None => return Ok(Decoded::NeedsMore),
                },
                Self::Trailers => match line(buffer)? {
                    Some(line) if line.is_empty() => *self = Self::Done,
                    Some(_) => {}
                    None => return Ok(Decoded::NeedsMore),
                },
            }
        }
    }

    pub fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// True if the body is complete, or if only its end mark is missing. `buffer` holds the bytes that have
    /// arrived.
    pub fn is_complete(&self, buffer: &[u8]) -> bool {
        match self {
            Self::Length(0) | Self::Done => true,
            Self::ChunkData(0) | Self::ChunkEnd => buffer == b"\r\n0\r\n\r\n",
            _ => false,
        }
    }
}

fn take(buffer: &mut BytesMut, left: &mut u64) -> Decoded {
    if buffer.is_empty() {
        return Decoded::NeedsMore;
    }
    let length = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(buffer.len());
    *left -= length as u64;
    Decoded::Data(buffer.split_to(length).freeze())
}

fn line(buffer: &mut BytesMut) -> Result<Option<Bytes>, &'static str> {
    match memchr::memchr(b'\n', buffer) {
        Some(at) => {
            let mut line = buffer.split_to(at).freeze();
            buffer.advance(1);
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            Ok(Some(line))
        }
        None if buffer.len() > MAX_LINE => Err("a line of its chunks is too long"),
        None => Ok(None),
    }
}

fn size(line: &[u8]) -> Result<u64, &'static str> {
    let digits = line
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let text = std::str::from_utf8(digits).unwrap_or_default();
    // `from_str_radix` would accept a sign.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("the size of a chunk is no number");
    }
    match u64::from_str_radix(text, 16) {
        Ok(size @ ..=MAX_CHUNK) => Ok(size),
        _ => Err("the size of a chunk is too large"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `wire` in pieces of these lengths.
    fn decode(
        mut decoder: BodyDecoder,
        wire: &[u8],
        pieces: &[usize],
    ) -> Result<Vec<u8>, &'static str> {
        let (mut buffer, mut body, mut wire) = (BytesMut::new(), Vec::new(), wire);
        let mut pieces = pieces.iter().cycle();
        loop {
            match decoder.decode(&mut buffer)? {
                Decoded::Data(data) => body.extend_from_slice(&data),
                Decoded::End => return Ok(body),
                Decoded::NeedsMore if wire.is_empty() => return Err("cut off"),
                Decoded::NeedsMore => {
                    let (piece, rest) =
                        wire.split_at(wire.len().min(*pieces.next().expect("a cycle")));
                    buffer.extend_from_slice(piece);
                    wire = rest;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn chunks_are_joined_however_they_arrive(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            pieces in prop::collection::vec(1..20usize, 1..5),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:X};ext\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\nx: y\r\n\r\n");
            prop_assert_eq!(decode(BodyDecoder::ChunkSize, &wire, &pieces), Ok(chunks.concat()));
        }

        #[test]
        fn no_bytes_make_it_panic(wire in prop::collection::vec(any::<u8>(), 0..200), pieces in prop::collection::vec(1..20usize, 1..5)) {
            // An error is a valid result. Only a panic fails the test.
            drop(decode(BodyDecoder::ChunkSize, &wire, &pieces));
        }
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        for line in ["", "+5", "-1", "0x5", "fffffffffffffffff", "g"] {
            assert!(size(line.as_bytes()).is_err(), "{line:?}");
        }
        assert_eq!(size(b" 1a ;name=value"), Ok(26));
    }
}
