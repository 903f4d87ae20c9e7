//! Escapes published text for a configuration, where `${…}` would be a reference.

/// Escapes a text so that a configuration reads it literally. Otherwise a registry could put `${file:…}` into
/// a header and receive the content of the file.
pub fn literal(text: &str) -> String {
    text.replace("${", "$${")
}
