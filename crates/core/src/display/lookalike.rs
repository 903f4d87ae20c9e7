//! Finds characters that look like other characters, in text that a person approves: commands,
//! hosts and names.

use std::fmt;

use super::{Effect, effect};

/// A character that may be mistaken for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookalike {
    pub character: char,
    /// The ASCII character that it resembles. `None` if it is only of another script.
    pub like: Option<char>,
}

/// `U+0430 looks like "a"`
impl fmt::Display for Lookalike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X} ", u32::from(self.character))?;
        match self.like {
            Some(like) => write!(f, "looks like {like:?}"),
            None => f.write_str("is of another script than the letters beside it"),
        }
    }
}

/// Characters with a meaning for a shell, also inside double quotes.
const SHELL_ACTIVE: [char; 5] = ['"', '\\', '$', '`', '!'];

/// Quotes a word for a shell (POSIX or PowerShell). A plain word stays unchanged. Combining marks,
/// invisible characters and lookalikes are escaped, so that different words never look the same. A
/// shell does not decode these escapes.
pub fn word(text: &str) -> String {
    let doubtful_characters = lookalikes(text);
    let is_shown = |c: char| {
        // PowerShell accepts typographic quotes as quotes.
        let is_quote = matches!(c, '\u{2018}'..='\u{201f}');
        is_clear(c)
            && !is_quote
            && doubtful_characters
                .iter()
                .all(|lookalike| lookalike.character != c)
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_./:,=+@%".contains(c);
    let is_live = text.contains(SHELL_ACTIVE);
    if !text.chars().all(is_shown) || is_live && text.contains('\'') {
        escaped_word(text, is_shown)
    } else if is_live {
        format!("'{text}'")
    } else if text.is_empty() || !text.chars().all(is_plain) {
        format!("\"{text}\"")
    } else {
        text.to_owned()
    }
}

fn escaped_word(text: &str, is_shown: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            _ if is_shown(c) && !SHELL_ACTIVE.contains(&c) => out.push(c),
            _ => out.extend(c.escape_unicode()),
        }
    }
    out.push('"');
    out
}

fn is_clear(c: char) -> bool {
    effect(c) == Effect::Shown && (c == ' ' || !c.is_whitespace())
}

/// Returns the doubtful characters of a text, in order and without duplicates: signs that look like
/// ASCII; letters that look like ASCII, if the word also has ASCII letters or has no other letters;
/// and letters of another script in a word with ASCII letters. A normal word in another script is
/// not doubtful.
pub fn lookalikes(text: &str) -> Vec<Lookalike> {
    let mut doubtful_characters: Vec<Lookalike> = Vec::new();
    if text.is_ascii() {
        return doubtful_characters;
    }
    for part in text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()) {
        let has_latin = part.contains(|c: char| c.is_ascii_alphabetic());
        let mut letters = part.chars().filter(|c| c.is_alphabetic());
        let is_disguised = has_latin || letters.all(|c| looks_like(c).is_some());
        for character in part.chars().filter(|c| !c.is_ascii()) {
            let ascii = looks_like(character);
            let is_similar = ascii.is_some() && (is_disguised || !character.is_alphabetic());
            let mixes = has_latin && character.is_alphabetic() && !is_latin(character);
            let is_found = doubtful_characters
                .iter()
                .any(|lookalike| lookalike.character == character);
            if (is_similar || mixes) && !is_found {
                doubtful_characters.push(Lookalike {
                    character,
                    like: ascii,
                });
            }
        }
    }
    doubtful_characters
}

/// True for a character in the Unicode blocks of Latin letters with diacritics.
fn is_latin(c: char) -> bool {
    matches!(c, '\u{aa}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

/// Returns the ASCII character that `c` resembles, for the common cases of Unicode's
/// `confusables.txt` (<https://www.unicode.org/reports/tr39/>).
fn looks_like(c: char) -> Option<char> {
    let code = u32::from(c);
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(code - 0xff01 + 0x21),
        // Mathematical letters: alphabets of 26 capitals and 26 small letters, then digits.
        '\u{1d400}'..='\u{1d6a3}' => Some(letter((code - 0x1d400) % 52)),
        '\u{1d7ce}'..='\u{1d7ff}' => char::from_digit((code - 0x1d7ce) % 10, 10),
        '\u{24b6}'..='\u{24e9}' => Some(letter(code - 0x24b6)),
        _ => {
            let contains_character = |(_, looks): &&(char, &str)| looks.contains(c);
            LOOKALIKES
                .iter()
                .find(contains_character)
                .map(|(ascii, _)| *ascii)
        }
    }
}

fn letter(index: u32) -> char {
    let (first_letter, index) = if index < 26 {
        ('A', index)
    } else {
        ('a', index - 26)
    };
    char::from_u32(u32::from(first_letter) + index).unwrap_or(first_letter)
}

/// The lookalikes of each ASCII character: Cyrillic, Greek, Armenian, Cherokee and rare Latin
/// letters, Roman numerals, and punctuation.
const LOOKALIKES: &[(char, &str)] = &[
    ('a', "\u{430}\u{3b1}\u{251}\u{ff41}"),
    ('b', "\u{184}\u{42c}\u{13cf}"),
    ('c', "\u{441}\u{3f2}\u{1d04}\u{217d}\u{2ca5}"),
    ('d', "\u{501}\u{217e}\u{13e7}"),
    ('e', "\u{435}\u{4bd}\u{212e}\u{212f}"),
    ('f', "\u{3dd}\u{17f}\u{192}\u{584}"),
    ('g', "\u{261}\u{581}\u{18d}\u{210a}"),
    ('h', "\u{4bb}\u{570}\u{13c2}\u{210e}"),
    ('i', "\u{456}\u{131}\u{3b9}\u{269}\u{2170}\u{2139}\u{13a5}"),
    ('j', "\u{458}\u{3f3}\u{237}"),
    ('k', "\u{3ba}\u{43a}"),
    (
        'l',
        "\u{4cf}\u{1c0}\u{217c}\u{2113}\u{5c0}\u{5d5}\u{2223}\u{6c0}",
    ),
    ('m', "\u{217f}\u{43c}"),
    ('n', "\u{578}\u{57c}\u{43f}\u{3b7}"),
    (
        'o',
        "\u{43e}\u{3bf}\u{585}\u{5e1}\u{665}\u{6f5}\u{966}\u{3c3}\u{2134}\u{d0}",
    ),
    ('p', "\u{440}\u{3c1}\u{3f1}\u{2ca3}"),
    ('q', "\u{51b}\u{563}\u{566}"),
    ('r', "\u{433}\u{280}\u{1d26}"),
    ('s', "\u{455}\u{1bd}\u{a731}"),
    ('t', "\u{3c4}\u{442}\u{1d1b}"),
    ('u', "\u{57d}\u{3c5}\u{28b}\u{1d1c}\u{446}"),
    ('v', "\u{475}\u{3bd}\u{5d8}\u{2174}\u{1d20}\u{22c1}"),
    ('w', "\u{51d}\u{461}\u{561}\u{26f}\u{1d21}"),
    ('x', "\u{445}\u{3c7}\u{2179}\u{d7}\u{292b}"),
    ('y', "\u{443}\u{4af}\u{3b3}\u{28f}\u{10e7}"),
    ('z', "\u{1d22}\u{290}"),
    ('A', "\u{410}\u{391}\u{13aa}\u{15c5}"),
    ('B', "\u{412}\u{392}\u{13f4}\u{212c}"),
    ('C', "\u{421}\u{3f9}\u{216d}\u{13df}\u{2102}\u{212d}"),
    ('D', "\u{216e}\u{13a0}\u{15de}"),
    ('E', "\u{415}\u{395}\u{13ac}\u{2130}"),
    ('F', "\u{3dc}\u{15b4}\u{2131}"),
    ('G', "\u{50c}\u{13c0}"),
    ('H', "\u{41d}\u{397}\u{13bb}\u{210b}\u{210c}\u{210d}"),
    ('I', "\u{406}\u{399}\u{2160}\u{4c0}\u{2110}\u{2111}"),
    ('J', "\u{408}\u{37f}\u{13ab}"),
    ('K', "\u{41a}\u{39a}\u{212a}\u{13e6}"),
    ('L', "\u{216c}\u{13de}\u{2112}"),
    ('M', "\u{41c}\u{39c}\u{216f}\u{13b7}\u{2133}"),
    ('N', "\u{39d}\u{2115}\u{2c9a}"),
    ('O', "\u{41e}\u{39f}\u{555}\u{2c9e}"),
    ('P', "\u{420}\u{3a1}\u{13e2}\u{2119}"),
    ('Q', "\u{51a}\u{211a}"),
    ('R', "\u{13a1}\u{211b}\u{211c}\u{211d}"),
    ('S', "\u{405}\u{54f}\u{13da}"),
    ('T', "\u{422}\u{3a4}\u{13a2}"),
    ('U', "\u{54d}\u{222a}\u{144c}"),
    ('V', "\u{474}\u{2164}\u{13d9}"),
    ('W', "\u{51c}\u{13b3}"),
    ('X', "\u{425}\u{3a7}\u{2169}\u{16b7}"),
    ('Y', "\u{4ae}\u{3a5}\u{3d2}\u{13a9}"),
    ('Z', "\u{396}\u{13c3}\u{2124}"),
    ('1', "\u{661}\u{6f1}"),
    ('2', "\u{1a7}"),
    ('3', "\u{417}\u{1b7}\u{4e0}"),
    ('4', "\u{13ce}"),
    ('5', "\u{1bc}"),
    ('6', "\u{431}\u{13ee}"),
    (
        '-',
        "\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2212}\u{2043}\u{2796}\u{2cba}\u{58a}",
    ),
    ('/', "\u{2044}\u{2215}\u{29f8}\u{2571}\u{27cb}\u{4e3f}"),
    ('\\', "\u{29f5}\u{29f9}\u{2216}\u{ff3c}"),
    (
        '.',
        "\u{2024}\u{b7}\u{3002}\u{ff61}\u{6d4}\u{701}\u{702}\u{660}\u{6f0}",
    ),
    (':', "\u{2236}\u{a789}\u{589}\u{2d0}\u{703}\u{704}\u{5c3}"),
    (';', "\u{37e}"),
    (',', "\u{201a}\u{66b}\u{b8}"),
    ('!', "\u{1c3}\u{2d51}"),
    ('?', "\u{241}\u{294}\u{97d}"),
    ('|', "\u{2758}\u{23fd}"),
    ('&', "\u{a778}"),
    ('*', "\u{2217}\u{204e}\u{66d}"),
    ('<', "\u{2039}\u{1438}\u{276e}"),
    ('>', "\u{203a}\u{1433}\u{276f}"),
    ('=', "\u{a4ff}\u{30a0}\u{1400}"),
    ('_', "\u{7fa}"),
    ('~', "\u{223c}\u{2dc}\u{2053}"),
    ('$', "\u{fe69}"),
    ('\'', "\u{2018}\u{2019}\u{2032}\u{2bc}\u{2b9}\u{60f}"),
    ('"', "\u{201c}\u{201d}\u{2033}\u{5f4}"),
    ('(', "\u{2768}\u{3014}"),
    (')', "\u{2769}\u{3015}"),
];
