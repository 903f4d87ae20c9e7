//! Parses the file that `envFile` names: lines of the form `NAME=VALUE`.

/// A line that sets no variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not NAME=VALUE")]
pub(crate) struct NoVariable(pub usize);

/// Parses the variables of a text, in the order of the text. Ignores empty lines, lines that begin with
/// `#`, and `export` before a name. A value may be in quotes. In double quotes, `\n`, `\"` and `\\` are
/// escapes. After a value without quotes, ` #` begins a comment.
pub(crate) fn read(text: &str) -> Result<Vec<(&str, String)>, NoVariable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim).enumerate();
    let set = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    set.map(|(index, line)| variable(line).ok_or(NoVariable(index + 1)))
        .collect()
}

fn variable(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let name = name.strip_prefix("export ").unwrap_or(name).trim_start();
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(is_legal) {
        return None;
    }
    Some((name, unquoted(value.trim())?))
}

/// Removes the quotes and escapes of a value. Returns `None` if a quote is not closed.
fn unquoted(value: &str) -> Option<String> {
    let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let end = value.find(" #").unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let mut text = String::new();
    let mut chars = value[1..].chars();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => {
                let rest = chars.as_str().trim_start();
                return (rest.is_empty() || rest.starts_with('#')).then_some(text);
            }
            '\\' if quote == '"' => match chars.next()? {
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                c @ ('"' | '\\' | '$') => text.push(c),
                other => text.extend(['\\', other]),
            },
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_set_variables() {
        let text = "\u{feff}# keys\n\nA=1\nexport B = two words # why\r\nC=\"x\\n\\\"y\\\" # no comment\"\nD='a\\nb' # one\nE=\nF=a=b#c\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "x\n\"y\" # no comment"),
            ("D", "a\\nb"),
            ("E", ""),
            ("F", "a=b#c"),
        ];
        let read = read(text).expect("variables");
        let read: Vec<_> = read.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_line_that_sets_nothing_is_named() {
        for (text, line) in [
            ("A=1\nB", 2),
            ("=1", 1),
            ("A B=1", 1),
            ("A=\"open", 1),
            ("\n\nA='x' y", 3),
        ] {
            assert_eq!(read(text), Err(NoVariable(line)), "{text:?}");
        }
    }
}
