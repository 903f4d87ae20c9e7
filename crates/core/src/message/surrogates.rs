//! Half surrogate pairs in JSON strings (`"\ud800"`), which are valid JSON but no valid Unicode.
//! Programs with UTF-16 strings write them when they cut a text inside a character.

/// Length of an escape such as `\ud800`, in bytes.
pub(super) const HALF_LENGTH: usize = 6;

/// The replacement of half a surrogate pair, as JSON text.
pub(super) const REPLACEMENT: &str = "\\ufffd";

/// Decodes a JSON string, with U+FFFD for each half surrogate pair. `None` if `raw` is not a
/// string.
pub(super) fn lossy(raw: &str) -> Option<String> {
    let mut mended = String::with_capacity(raw.len());
    let mut from = 0;
    let end = halves(raw.as_bytes(), 0, |half| {
        mended.push_str(&raw[from..half]);
        mended.push_str(REPLACEMENT);
        from = half + HALF_LENGTH;
    });
    mended.push_str(raw.get(from..end)?);
    mended.push_str(&raw[end..]);
    serde_json::from_str(&mended).ok()
}

/// Calls `visit` with the position of each half surrogate pair in the JSON string at `from`.
/// Returns the end of the string.
pub(super) fn halves(text: &[u8], from: usize, mut visit: impl FnMut(usize)) -> usize {
    let mut index = from + 1;
    loop {
        match text.get(index) {
            None => return text.len(),
            Some(b'"') => return index + 1,
            Some(b'\\') => match unit(text, index) {
                None => index += 2,
                Some(0xD800..=0xDBFF)
                    if matches!(unit(text, index + HALF_LENGTH), Some(0xDC00..=0xDFFF)) =>
                {
                    index += 2 * HALF_LENGTH;
                }
                Some(0xD800..=0xDFFF) => {
                    visit(index);
                    index += HALF_LENGTH;
                }
                Some(_) => index += HALF_LENGTH,
            },
            Some(_) => index += 1,
        }
    }
}

/// The UTF-16 code unit of the escape at `index`, such as `\ud800`.
fn unit(text: &[u8], index: usize) -> Option<u32> {
    let digits = text.get(index..index + HALF_LENGTH)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` also accepts a sign.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
}
