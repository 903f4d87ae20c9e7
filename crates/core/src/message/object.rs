//! Edits the members of a JSON object.

use std::{borrow::Cow, fmt};

use super::{
    Span,
    scan::{Invalid, Scanner},
    text::{one_line, quote},
};

/// A JSON object whose members can be removed, replaced and added. Other members keep their order
/// and spelling. White space around commas is lost.
#[derive(Clone, Debug, Default)]
pub struct JsonObjectEditor<'a> {
    members: Vec<Member<'a>>,
}

#[derive(Clone, Debug)]
struct Member<'a> {
    key: Cow<'a, str>,
    /// The text from the opening quote of the key to the end of the value.
    text: Cow<'a, str>,
    /// The offset of the value in `text`.
    value: usize,
}

impl Member<'_> {
    fn value(&self) -> &str {
        &self.text[self.value..]
    }
}

impl<'a> JsonObjectEditor<'a> {
    /// Reads an object. `None` if the text is not an object.
    pub fn read(text: &'a str) -> Option<Self> {
        let mut end = 0;
        let members = members(text)?.into_iter().map(|(key, value)| {
            let span = Span::from_part(text, value);
            // Only white space, a comma or a brace can precede the key.
            let start = text[end..].find('"').map_or(end, |quote| end + quote);
            end = span.end();
            Member {
                key,
                text: Cow::Borrowed(&text[start..span.end()]),
                value: span.start() - start,
            }
        });
        Some(Self {
            members: members.collect(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn has(&self, key: &str) -> bool {
        self.count(key) > 0
    }

    /// Number of members with this key.
    pub fn count(&self, key: &str) -> usize {
        let matching_members = self.members.iter().filter(|member| member.key == key);
        matching_members.count()
    }

    /// The value of a member, as JSON text. If the member occurs twice, the last one counts.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut matching_members = self.members.iter().filter(|member| member.key == key);
        matching_members.next_back().map(Member::value)
    }

    /// Removes all members with this key. Returns true if the object had one.
    pub fn remove(&mut self, key: &str) -> bool {
        let old_length = self.members.len();
        self.members.retain(|member| member.key != key);
        self.members.len() != old_length
    }

    /// Sets a member to this value (JSON text). Replaces the member with this key, or adds a new
    /// one at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        let name = quote(key);
        let member = Member {
            key: Cow::Owned(key.to_owned()),
            value: name.len() + 1,
            text: Cow::Owned(format!("{name}:{value}")),
        };
        let Some(index) = self.members.iter().position(|member| member.key == key) else {
            self.members.push(member);
            return;
        };
        self.remove(key);
        self.members.insert(index, member);
    }

    /// Like [`set`](Self::set), for a string that is not yet JSON.
    pub fn set_text(&mut self, key: &str, value: &str) {
        self.set(key, &quote(value));
    }

    /// The unchanged members, with slices of the original text as values.
    pub fn raw_entries(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().filter_map(|member| match member.text {
            Cow::Borrowed(text) => Some((&*member.key, &text[member.value..])),
            Cow::Owned(_) => None,
        })
    }

    /// The members, with their values as JSON text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members
            .iter()
            .map(|member| (&*member.key, member.value()))
    }
}

/// Writes the object as JSON text in one line.
impl fmt::Display for JsonObjectEditor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, member) in self.members.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(&one_line(&member.text))?;
        }
        f.write_str("}")
    }
}

fn members(text: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut members = Vec::new();
    let mut scanner = Scanner::new(text);
    let result = scanner.members(|scanner, key| {
        members.push((key, scanner.value()?.get(text)));
        Ok::<(), Invalid>(())
    });
    result.and_then(|()| scanner.end()).ok()?;
    Some(members)
}

/// The items of an array, as JSON text. `None` if the text is not an array.
pub fn items(text: &str) -> Option<Vec<&str>> {
    let mut items = Vec::new();
    let mut scanner = Scanner::new(text);
    let result = scanner.items(|scanner| {
        items.push(scanner.value()?.get(text));
        Ok::<(), Invalid>(())
    });
    result.and_then(|()| scanner.end()).ok()?;
    Some(items)
}

/// Writes an array of these items (JSON texts).
pub fn array<T: AsRef<str>>(items: &[T]) -> String {
    let mut out = String::from("[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(item.as_ref());
    }
    out.push(']');
    out
}
