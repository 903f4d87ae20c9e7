//! Puts an edited text back into the lines of the original.

/// Returns the edited text. The lines before the first change and after the last change keep the bytes
/// of the original. The changed lines get the line ending that most lines of the original have.
pub fn spliced(original: &str, edited: &str) -> String {
    let old: Vec<&str> = original.split_inclusive('\n').collect();
    let new: Vec<&str> = edited.split_inclusive('\n').collect();
    let plain = |line: &str| {
        let line = line.strip_suffix('\n').unwrap_or(line);
        line.strip_suffix('\r').unwrap_or(line).to_owned()
    };
    let is_same = |(old, new): (&&str, &&str)| {
        plain(old) == plain(new) && old.ends_with('\n') == new.ends_with('\n')
    };
    let before = old
        .iter()
        .zip(&new)
        .take_while(|pair| is_same(*pair))
        .count();
    let room = old.len().min(new.len()) - before;
    let backwards = old.iter().rev().zip(new.iter().rev()).take(room);
    let after = backwards.take_while(|pair| is_same(*pair)).count();
    let with_return = old.iter().filter(|line| line.ends_with("\r\n")).count();
    let end = if with_return * 2 > old.len() {
        "\r\n"
    } else {
        "\n"
    };
    let mut text: String = old[..before].concat();
    for line in &new[before..new.len() - after] {
        text.push_str(&plain(line));
        if line.ends_with('\n') {
            text.push_str(end);
        }
    }
    text.push_str(&old[old.len() - after..].concat());
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::spliced;
    use crate::{
        Syntax,
        edit::{Document, Entry},
    };
    use mainstay_core::ids::ServerName;

    #[test]
    fn lines_that_did_not_change_keep_their_ends() {
        assert_eq!(spliced("a\r\nb\r\nc", "a\nx\nc"), "a\r\nx\r\nc");
        assert_eq!(spliced("a\nb\r\nc\n", "a\nb\nc\nd\n"), "a\nb\r\nc\nd\n");
        assert_eq!(spliced("", "a\n"), "a\n");
        assert_eq!(spliced("a\r\n", "a\n"), "a\r\n");
        assert_eq!(spliced("a\na\n", "a\n"), "a\n");
    }

    /// After an edit, a file with Windows line endings has no other line endings.
    #[test]
    fn what_is_added_to_a_document_ends_as_its_other_lines_do() {
        let text = "\u{feff}{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"a\": {\"url\": \"u\"}\r\n  }\r\n}";
        let entry: Entry = [
            ("command".to_owned(), json!("npx")),
            ("args".to_owned(), json!(["-y", "thing"])),
        ]
        .into_iter()
        .collect();
        let document = Document::read(text, Syntax::Jsonc).expect("read");
        for name in ["a", "b"] {
            let name = ServerName::new(name).expect("a name");
            document.put(&name, &entry).expect("put");
            document.switch(&name, false).expect("there");
        }
        let edited = document.to_string();
        assert_eq!(
            edited.replace("\r\n", "").find(['\r', '\n']),
            None,
            "{edited:?}"
        );
        assert!(edited.starts_with("\u{feff}{\r\n  // mine\r\n") && edited.ends_with("}\r\n"));
        document
            .remove(&ServerName::new("b").expect("a name"))
            .expect("removed");
        let edited = document.to_string();
        assert_eq!(
            edited.replace("\r\n", "").find(['\r', '\n']),
            None,
            "{edited:?}"
        );
    }
}
