//! Encodes and decodes the values of headers.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The reason that a header value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEncoding {
    #[error("not a header value: only visible ASCII, spaces and tabs")]
    Characters,
    #[error("between the markers stands no base64")]
    Base64,
    #[error("between the markers stands no UTF-8")]
    Utf8,
}

/// True if a header can carry this value: visible ASCII, spaces and tabs.
pub(super) fn is_plain(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

/// Encodes a header value. A value that is not safe becomes base64 between markers.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_safe = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_ascii().len() == value.len()
        && !(value.starts_with(PREFIX) && value.ends_with(SUFFIX));
    if is_safe {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(value)))
}

/// Decodes a header value. Base64 must have padding and no spare bits, so that each value has only
/// one encoding.
pub fn decode(value: &str) -> Result<Cow<'_, str>, BadEncoding> {
    if !is_plain(value) {
        return Err(BadEncoding::Characters);
    }
    let without_prefix = value.strip_prefix(PREFIX);
    let Some(base64_text) = without_prefix.and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD
        .decode(base64_text)
        .map_err(|_| BadEncoding::Base64)?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| BadEncoding::Utf8)
}
