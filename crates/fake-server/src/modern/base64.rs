//! Strict base64 in the standard alphabet, with padding and without unused bits.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut held_bits) = (Vec::new(), 0_u32, 0_u32);
    for symbol in body.bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == symbol)?;
        held_bits = (held_bits << 6) | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held_bits >> bits).ok()?);
            held_bits &= (1 << bits) - 1;
        }
    }
    // Unused bits must be zero, so that encodings are unique.
    (held_bits == 0).then_some(bytes)
}
