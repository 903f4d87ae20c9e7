//! Makes text from outside safe to show on a terminal.
//!
//! A terminal interprets control characters: they move the cursor, rename the window, or write the
//! clipboard (OSC 52). Direction marks reorder the text, and invisible characters hide in it. All
//! of these are replaced by an escape such as `\u{1b}`, so that the reader sees them. A second
//! replacement changes nothing.
//!
//! [`word`] is for text that a person must approve. It quotes the text, and also escapes characters
//! that look like others ([`lookalike`]).

pub mod escapes;
pub mod lookalike;

use std::{borrow::Cow, fmt::Write as _};

pub use lookalike::word;

/// Maximum number of marks on one letter that are shown unchanged. Living scripts need at most four
/// (Hebrew with cantillation). Hundreds on one letter would cover the lines above and below.
pub const MAX_MARKS: usize = 4;

/// Shows text of several lines. Line breaks and tabs stay. CR LF is one line break.
pub fn lines(text: &str) -> Cow<'_, str> {
    show(text, Form::Lines)
}

/// Shows text in one line. Each run of line breaks and tabs becomes a blank.
pub fn line(text: &str) -> Cow<'_, str> {
    show(text, Form::Line)
}

/// Shows a valid JSON text. It stays valid and keeps its meaning, because escapes are those of JSON
/// (`\u001b`). Only strings can contain characters that need them.
pub fn json(text: &str) -> Cow<'_, str> {
    show(text, Form::Json)
}

/// Like [`lines`], for bytes. Bytes that are no UTF-8 are shown as `\xff`.
pub fn bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(&lines(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Line,
    Json,
}

/// The effect of a character on a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The character has its own place.
    Shown,
    /// The character is drawn onto the previous character.
    Mark,
    /// The character selects the text or picture form of the previous symbol.
    Form,
    /// The character is invisible, or an instruction to the terminal.
    Hidden,
}

fn effect(c: char) -> Effect {
    match c {
        ' '..='~' => Effect::Shown,
        '\0'..='\u{9f}' => Effect::Hidden,
        // Spaces of French and of Chinese text.
        '\u{a0}' | '\u{202f}' | '\u{3000}' => Effect::Shown,
        '\u{fe0e}' | '\u{fe0f}' => Effect::Form,
        // Letters and marks that are not drawn: joiners, fillers of Hangul, inherent vowels of
        // Khmer, Mongolian and other variation selectors, an empty pattern of Braille, a note
        // without a head.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}'
        | '\u{ffa0}'
        | '\u{16fe4}'
        | '\u{1d159}'
        | '\u{e0000}'..='\u{e0fff}' => Effect::Hidden,
        _ if !is_printable(c) => Effect::Hidden,
        _ if is_mark(c) => Effect::Mark,
        _ => Effect::Shown,
    }
}

/// True if the standard library's `Debug` shows the character unchanged after another one. `Debug`
/// escapes controls, formats (direction marks, zero-width characters, tags), separators of lines
/// and paragraphs, private and unassigned characters.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

/// True if a printable character extends the one before it. `Debug` escapes such a character if it
/// stands alone.
fn is_mark(c: char) -> bool {
    c.escape_debug().next() != Some(c)
}

fn show(text: &str, form: Form) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') || byte == b'\n' && form != Form::Line;
    let Some(start) = text.bytes().position(|byte| !is_plain(byte)) else {
        return text.into();
    };
    // A mark needs the character before it.
    let start = text[..start]
        .char_indices()
        .next_back()
        .map_or(0, |(index, _)| index);
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..start]);
    let mut preceding = PrecedingText::default();
    let mut rest = text[start..].chars().peekable();
    while let Some(c) = rest.next() {
        match (c, form) {
            ('\r', Form::Lines | Form::Line) if rest.peek() == Some(&'\n') => {}
            // In JSON text, raw `\r`, `\n` and `\t` occur only between tokens.
            ('\r', Form::Json) => out.push(' '),
            ('\n' | '\t', Form::Lines | Form::Json) => {
                out.push(c);
                preceding = PrecedingText::default();
            }
            ('\n' | '\t', Form::Line) => {
                while rest.next_if(|next| matches!(next, '\n' | '\t')).is_some() {}
                out.push(' ');
                preceding = PrecedingText::default();
            }
            _ if preceding.accepts(c) => out.push(c),
            (_, Form::Json) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.extend(escape_character(c)),
        }
    }
    out.into()
}

/// Escapes a character as `\u{1b}`, or as `\r` for the well-known carriage return.
fn escape_character(c: char) -> impl Iterator<Item = char> {
    let short_escape = (c == '\r').then_some("\\r".chars());
    let unicode_escape = short_escape.is_none().then(|| c.escape_unicode());
    short_escape
        .into_iter()
        .flatten()
        .chain(unicode_escape.into_iter().flatten())
}

/// The characters before the current one.
#[derive(Default)]
struct PrecedingText {
    /// The last character with its own place.
    base: Option<char>,
    marks: usize,
    has_form: bool,
}

impl PrecedingText {
    /// Adds a character. Returns true if the character may be shown unchanged after the previous
    /// ones. A mark needs a base character of the same text. Otherwise a terminal would draw the
    /// mark onto Mainstay's text, such as an opening quotation mark.
    fn accepts(&mut self, c: char) -> bool {
        let is_accepted = match effect(c) {
            Effect::Shown => {
                *self = Self {
                    base: Some(c),
                    ..Self::default()
                };
                return true;
            }
            Effect::Hidden => false,
            Effect::Mark => {
                self.marks += 1;
                let is_base = |base: char| base.is_alphanumeric() || !base.is_ascii();
                self.marks <= MAX_MARKS && self.base.is_some_and(is_base)
            }
            Effect::Form => {
                let is_symbol = |base: char| !base.is_ascii() && !base.is_alphanumeric();
                let is_first = self.marks == 0 && !std::mem::replace(&mut self.has_form, true);
                is_first && self.base.is_some_and(is_symbol)
            }
        };
        if !is_accepted {
            // No mark may be drawn onto an escape.
            self.base = None;
        }
        is_accepted
    }
}

/// Maximum length of a key or name in a message, in characters. The paths of all members contain
/// the name, so a long name would be copied once for each member.
pub const LONGEST_NAME: usize = 64;

/// Shortens a text to its first `max_characters` characters.
pub fn shortened(text: &str, max_characters: usize) -> String {
    match text.char_indices().nth(max_characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
