//! Text of strangers in a configuration, where `${…}` would be a reference.

/// The text in a form that a configuration reads as the text itself. Otherwise a registry could name
/// `${file:…}` in a header and get the file.
pub fn literal(text: &str) -> String {
    text.replace("${", "$${")
}
