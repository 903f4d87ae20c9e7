//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Encodes each byte as two lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Decodes digits of either case. `None` for any other character, or for an odd number of digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_pairs() {
        assert_eq!(encode(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(decode("00ABff"), Some(vec![0, 0xab, 0xff]));
        assert_eq!(decode(""), Some(Vec::new()));
        for text in ["0", "+f", "0x", "é0", " 0"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
