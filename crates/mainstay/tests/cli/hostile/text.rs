//! Hostile text, and checks of its effect.

use std::sync::LazyLock;

/// The title that hostile text tries to set.
pub const TITLE: &str = "TAKEN OVER";

/// Text that is on a line of its own if a line break is not escaped.
pub const FORGED: &str = "FORGED LINE";

/// All control sequences and control characters except NUL. The sequences come first, because
/// tables cut long texts.
pub static HOSTILE: LazyLock<String> = LazyLock::new(|| {
    let sequences = [
        // A short C1 sequence, which fits into every column.
        "x\u{9b}31m".to_owned(),
        // Clears the screen and scrollback, switches the screen, and resets the terminal.
        "\u{1b}[2J\u{1b}[3J\u{1b}[?1049h\u{1b}c".to_owned(),
        // Sets the title in both forms.
        format!("\u{1b}]0;{TITLE}\u{7}\u{1b}]2;{TITLE}\u{1b}\\\u{9d}0;{TITLE}\u{9c}"),
        // Writes the clipboard, creates a link, queries the terminal's name, and draws a picture.
        "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]8;;http://e.x\u{7}\u{1b}[c\u{1b}P0;1|17/ab\u{1b}\\"
            .to_owned(),
        // Moves the cursor back, and starts a new line.
        format!("\r\u{8}\u{b}\n{FORGED}"),
        // Many combining marks on one letter.
        format!("a{}", "\u{336}".repeat(9)),
    ];
    sequences.concat() + &characters().filter(|c| *c != '\0').collect::<String>() + "y"
});

/// All characters that a terminal interprets or hides.
pub fn characters() -> impl Iterator<Item = char> {
    let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
    let directions = ['\u{61c}', '\u{200e}', '\u{200f}']
        .into_iter()
        .chain('\u{202a}'..='\u{202e}')
        .chain('\u{2066}'..='\u{2069}');
    let unseen_text = "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180e}\u{200b}\u{200c}\u{200d}\u{2028}\u{2029}\
        \u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{206a}\u{206f}\u{3164}\u{fe00}\u{fe0d}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\
        \u{e000}\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{10ffff}";
    controls.chain(directions).chain(unseen_text.chars())
}

/// Control sequences that Mainstay itself writes for the progress line.
const OWN_SEQUENCES: [&str; 4] = ["\r\u{1b}[K", "\r\u{1b}[2K", "\u{1b}[1A", "\r\n"];

/// Asserts that the output has no hostile character. A terminal adds a carriage return before each
/// line break. Returns the text.
pub fn assert_harmless(command: &[&str], bytes: Vec<u8>) -> String {
    let mut text = String::from_utf8(bytes).expect("UTF-8");
    for known_sequence in OWN_SEQUENCES {
        text = text.replace(
            known_sequence,
            if known_sequence == "\r\n" { "\n" } else { "" },
        );
    }
    let control_char: Vec<char> = text
        .chars()
        .filter(|c| {
            !matches!(c, '\n' | '\t') && characters().any(|control_char| control_char == *c)
        })
        .collect();
    assert!(
        control_char.is_empty(),
        "{command:?} shows {control_char:?}:\n{text:?}"
    );
    let marks = "\u{336}".repeat(5);
    assert!(
        !text.contains(&marks),
        "{command:?} shows a stack of marks:\n{text:?}"
    );
    text
}
