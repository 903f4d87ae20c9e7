//! Encodings in which other programs write their text files.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// The encoding of a text file. UTF-16 is recognised by its byte order mark, as Windows writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    #[default]
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Length of a byte order mark, in bytes.
const MARK: u64 = 2;

const LE_MARK: &[u8] = &[0xff, 0xfe];
const BE_MARK: &[u8] = &[0xfe, 0xff];

impl Encoding {
    pub fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(LE_MARK) {
            Self::Utf16Le
        } else if bytes.starts_with(BE_MARK) {
            Self::Utf16Be
        } else {
            Self::Utf8
        }
    }

    /// The encoding of a file. A new file is UTF-8.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut start = Vec::new();
        match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => {
                file?.take(MARK).read_to_end(&mut start)?;
            }
        }
        Ok(Self::detect(&start))
    }

    /// The text of a file, without a byte order mark. `None` if the bytes are not valid text. Encoding the
    /// text restores the bytes.
    pub fn decode(bytes: Vec<u8>) -> Option<String> {
        let from = match Self::detect(&bytes) {
            Self::Utf8 => return String::from_utf8(bytes).ok(),
            Self::Utf16Le => u16::from_le_bytes,
            Self::Utf16Be => u16::from_be_bytes,
        };
        let (units, rest) = bytes[LE_MARK.len()..].as_chunks::<2>();
        let text: Result<String, _> =
            char::decode_utf16(units.iter().map(|unit| from(*unit))).collect();
        text.ok().filter(|_| rest.is_empty())
    }

    pub fn encode(self, text: &str) -> Vec<u8> {
        let (mark, to): (_, fn(u16) -> [u8; 2]) = match self {
            Self::Utf8 => return text.as_bytes().to_vec(),
            Self::Utf16Le => (LE_MARK, u16::to_le_bytes),
            Self::Utf16Be => (BE_MARK, u16::to_be_bytes),
        };
        let units = text.encode_utf16().flat_map(to);
        mark.iter().copied().chain(units).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_byte_for_byte() {
        let texts: [&[u8]; 5] = [
            b"",
            "\u{feff}{\"a\": \"\u{fc}\"}\r\n".as_bytes(),
            b"\xff\xfe",
            b"\xff\xfe{\x00\xfc\x00}\x00\r\x00\n\x00",
            b"\xfe\xff\x00{\xd8\x3d\xde\x00\x00}",
        ];
        for bytes in texts {
            let text = Encoding::decode(bytes.to_vec()).expect("a text");
            assert_eq!(Encoding::detect(bytes).encode(&text), bytes, "{text:?}");
        }
        assert_eq!(
            Encoding::decode(texts[3].to_vec()).as_deref(),
            Some("{\u{fc}}\r\n")
        );
    }

    #[test]
    fn what_is_no_text_is_none() {
        for bytes in [
            &b"\xff"[..],
            b"\xff\xfe{",
            b"\xff\xfe\x00\xd8",
            b"{\x00\xff\x00",
        ] {
            assert_eq!(Encoding::decode(bytes.to_vec()), None, "{bytes:?}");
        }
    }
}
