//! Makes text from outside safe to show on a terminal.
//!
//! A terminal interprets control characters: they move the cursor, rename the window or write the
//! clipboard (OSC 52). Direction marks reorder text, and invisible characters hide text. Each of
//! these becomes a visible escape such as `\u{1b}`. A second pass changes nothing.
//!
//! [`word`] is for text that a person approves. It adds quotes, and also escapes characters that
//! look like others ([`lookalike`]).

pub mod escapes;
pub mod lookalike;

use std::{borrow::Cow, fmt::Write as _};

pub use lookalike::word;

/// Maximum number of marks on one letter. Living scripts need at most four (Hebrew with
/// cantillation). Hundreds of marks would cover the lines above and below.
pub const MAX_MARKS: usize = 4;

/// Makes text of several lines safe. Line breaks and tabs stay. CR LF becomes one line break.
pub fn lines(text: &str) -> Cow<'_, str> {
    show(text, Form::Lines)
}

/// Makes text safe in one line. Each run of line breaks and tabs becomes a blank.
pub fn line(text: &str) -> Cow<'_, str> {
    show(text, Form::Line)
}

/// Makes a valid JSON text safe. It stays valid JSON with the same meaning, because it gets JSON
/// escapes (`\u001b`). Dangerous characters occur only in strings.
pub fn json(text: &str) -> Cow<'_, str> {
    show(text, Form::Json)
}

/// Like [`lines`], for bytes. Bytes that are not UTF-8 become `\xff`.
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

/// The treatment of a character by a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The character takes a place of its own.
    Shown,
    /// The character is drawn onto the character before it.
    Mark,
    /// The character selects text or emoji style for the symbol before it.
    Form,
    /// The character is invisible, or controls the terminal.
    Hidden,
}

fn effect(c: char) -> Effect {
    match c {
        ' '..='~' => Effect::Shown,
        '\0'..='\u{9f}' => Effect::Hidden,
        // Spaces in French and Chinese text.
        '\u{a0}' | '\u{202f}' | '\u{3000}' => Effect::Shown,
        '\u{fe0e}' | '\u{fe0f}' => Effect::Form,
        // Letters and marks that are not drawn: joiners, Hangul fillers, inherent vowels of Khmer,
        // variation selectors (also of Mongolian), the empty Braille pattern, a musical note
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

/// True if `Debug` of the standard library shows the character unchanged inside a text. It escapes
/// controls, format characters (direction marks, zero-width characters, tags), line and paragraph
/// separators, and private or unassigned characters.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

/// True if a printable character extends the character before it. `Debug` escapes such a character
/// at the beginning of a text.
fn is_mark(c: char) -> bool {
    c.escape_debug().next() != Some(c)
}

fn show(text: &str, form: Form) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') || byte == b'\n' && form != Form::Line;
    let Some(start) = text.bytes().position(|byte| !is_plain(byte)) else {
        return text.into();
    };
    // The first special character may be a mark, which needs the character before it.
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
            // In JSON, a raw `\r`, `\n` or `\t` stands only between tokens.
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

/// Escapes a character as `\u{1b}`. A carriage return becomes `\r`, which people know.
fn escape_character(c: char) -> impl Iterator<Item = char> {
    let short_escape = (c == '\r').then_some("\\r".chars());
    let unicode_escape = short_escape.is_none().then(|| c.escape_unicode());
    short_escape
        .into_iter()
        .flatten()
        .chain(unicode_escape.into_iter().flatten())
}

/// The state of the text before the current character.
#[derive(Default)]
struct PrecedingText {
    /// The last character that takes a place of its own.
    base: Option<char>,
    marks: usize,
    has_form: bool,
}

impl PrecedingText {
    /// Adds a character. Returns true if it may be shown unchanged. A mark needs a base character
    /// in the same text. Otherwise a terminal would draw it onto Mainstay's text, such as an
    /// opening quote.
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
            // A mark after an escape would be drawn onto the escape.
            self.base = None;
        }
        is_accepted
    }
}

/// Maximum length of a key or name in a message, in characters. Each member's path contains the
/// name, so a long name would be repeated many times.
pub const LONGEST_NAME: usize = 64;

/// Cuts a text after `max_characters` characters and adds `…`. Returns a shorter text unchanged.
pub fn shortened(text: &str, max_characters: usize) -> String {
    match text.char_indices().nth(max_characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
