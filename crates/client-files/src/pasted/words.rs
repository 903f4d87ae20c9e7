//! Splits a command line into words, like a shell. Expands no variable: `$NAME` becomes a reference of
//! our configuration.

/// A word of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    /// The text in the form of our configuration: `${NAME}` is a reference, and `$${` stands for `${`.
    pub text: String,
    /// True if a part of the word was in quotes.
    pub is_quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a quote is not closed")]
pub(super) struct Unclosed;

/// Joins lines that a shell reads as one line. A line may end with `\` or with another shell's
/// continuation character, and a quote may span several lines.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut whole = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        let end = line.trim_end();
        let goes_on = ["\\", "^", "`"]
            .iter()
            .find_map(|mark| end.strip_suffix(mark));
        open.push_str(goes_on.unwrap_or(line));
        if goes_on.is_some() {
            open.push(' ');
        } else if is_open(&open) {
            open.push('\n');
        } else {
            whole.push(std::mem::take(&mut open));
        }
    }
    if !open.is_empty() {
        whole.push(open);
    }
    whole
}

fn is_open(line: &str) -> bool {
    // The maximum number of bytes that an unclosed quote can join.
    const LONGEST: usize = 64 * 1024;
    line.len() < LONGEST && split(line).is_err()
}

/// Splits one line into words.
pub(super) fn split(line: &str) -> Result<Vec<ShellWord>, Unclosed> {
    let mut words = Vec::new();
    let mut word = ShellWord::default();
    let mut has_word = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {
                if std::mem::take(&mut has_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            '#' if !has_word => break,
            '\'' | '‘' => {
                has_word = true;
                word.is_quoted = true;
                let mut inside = String::new();
                loop {
                    match chars.next() {
                        Some('\'' | '’') => break,
                        Some(c) => inside.push(c),
                        None => return Err(Unclosed),
                    }
                }
                word.text.push_str(&inside.replace("${", "$${"));
            }
            '"' | '“' | '”' => {
                has_word = true;
                word.is_quoted = true;
                loop {
                    match chars.next() {
                        Some('"' | '“' | '”') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '`')) => word.text.push(c),
                            Some('$') => dollar(&mut word.text, chars.peek()),
                            Some('\n') => {}
                            Some(c) => word.text.extend(['\\', c]),
                            None => return Err(Unclosed),
                        },
                        Some('$') => variable(&mut word.text, &mut chars),
                        Some(c) => word.text.push(c),
                        None => return Err(Unclosed),
                    }
                }
            }
            '\\' => {
                has_word = true;
                match chars.peek().copied() {
                    // Keep a `\` before a letter: it is far more often part of a Windows path than an
                    // escape.
                    Some(next) if next.is_alphanumeric() => word.text.push('\\'),
                    Some('$') => {
                        chars.next();
                        dollar(&mut word.text, chars.peek());
                    }
                    Some(next) => {
                        chars.next();
                        word.text.push(next);
                    }
                    None => word.text.push('\\'),
                }
            }
            '$' => {
                has_word = true;
                variable(&mut word.text, &mut chars);
            }
            c => {
                has_word = true;
                word.text.push(c);
            }
        }
    }
    if has_word {
        words.push(word);
    }
    Ok(words)
}

/// Writes a `$` that does not begin a reference.
fn dollar(text: &mut String, next: Option<&char>) {
    text.push_str(if next == Some(&'{') { "$$" } else { "$" });
}

/// Writes `$NAME` as `${NAME}`. Leaves `${…}` unchanged.
fn variable(text: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let starts_name = |c: &char| c.is_ascii_alphabetic() || *c == '_';
    text.push('$');
    if !chars.peek().is_some_and(starts_name) {
        return;
    }
    text.push('{');
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
        text.push(c);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let words = split(line).expect(line);
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(words, expected, "{line}");
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        check("a  b\tc", &["a", "b", "c"]);
        check(r#"a 'b c' "d 'e'" f"g"h"#, &["a", "b c", "d 'e'", "fgh"]);
        check(r#""a\"b" c\ d '' x"#, &["a\"b", "c d", "", "x"]);
        check(r"C:\tools\x.exe", &[r"C:\tools\x.exe"]);
        check("a # b", &["a"]);
        check("a#b", &["a#b"]);
        check("“a b” ‘c d’", &["a b", "c d"]);
        check(
            r#"$HOME "$A/b" '$C' '${D}' \$E $5 $"#,
            &["${HOME}", "${A}/b", "$C", "$${D}", "$E", "$5", "$"],
        );
        for open in ["'a", "\"a", "\"a\\"] {
            assert_eq!(split(open), Err(Unclosed), "{open}");
        }
    }

    #[test]
    fn lines_go_on() {
        assert_eq!(lines("a \\\n  b\nc"), ["a    b", "c"]);
        assert_eq!(lines("a '{\n}' b\nc"), ["a '{\n}' b", "c"]);
        assert_eq!(lines("a `\nb"), ["a  b"]);
    }
}
