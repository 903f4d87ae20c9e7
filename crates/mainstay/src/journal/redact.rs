//! Takes out of arguments and results what the configuration says, before they are hashed or stored.
//!
//! What nobody asked to hide keeps its bytes: numbers are not rewritten, and members keep their order.

use std::{borrow::Cow, fmt, iter};

use mainstay_core::{config, message};
use regex::Regex;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

const HIDDEN: &str = "[redacted]";
const HIDDEN_JSON: &str = "\"[redacted]\"";

/// Values inside values. Deeper ones go whole: each depth reads the text below it once more.
const MAX_DEPTH: usize = 64;

/// What is taken out.
#[derive(Debug)]
pub struct Redactor {
    keys: Vec<String>,
    patterns: Vec<Regex>,
    /// Whether a text may hold one of the keys.
    any_key: Option<Regex>,
}

impl Redactor {
    /// `None` if there is nothing to take out.
    pub fn new(rules: &config::Redact) -> Result<Option<Self>, regex::Error> {
        if rules.is_empty() {
            return Ok(None);
        }
        let keys: Vec<String> = rules.keys.iter().map(|key| key.to_lowercase()).collect();
        // A key may be written with escapes, which are looked at in full.
        let escaped: Vec<String> = keys.iter().map(|key| regex::escape(key)).collect();
        let words = escaped.into_iter().chain(iter::once(r"\\".to_owned()));
        let any_key = (!keys.is_empty())
            .then(|| Regex::new(&format!("(?i){}", words.collect::<Vec<_>>().join("|"))))
            .transpose()?;
        let patterns = rules.patterns.iter().map(|pattern| Regex::new(pattern));
        Ok(Some(Self {
            keys,
            patterns: patterns.collect::<Result<_, _>>()?,
            any_key,
        }))
    }

    /// The text without what is to be hidden. One that is no JSON is taken for a string.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let keys = self.any_key.as_ref().is_some_and(|any| any.is_match(text));
        if !keys && self.patterns.is_empty() {
            return Cow::Borrowed(text);
        }
        match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => self.value(value.get(), 0),
            Err(_) => self.plain(text),
        }
    }

    /// Borrowed if nothing changes.
    fn value<'t>(&self, text: &'t str, depth: usize) -> Cow<'t, str> {
        if depth > MAX_DEPTH {
            return Cow::Borrowed(HIDDEN_JSON);
        }
        match text.as_bytes().first() {
            Some(b'{') => match serde_json::from_str::<Members<'_>>(text) {
                Ok(Members(members)) => self.object(text, &members, depth),
                Err(_) => Cow::Borrowed(HIDDEN_JSON),
            },
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
                Ok(elements) => self.array(text, &elements, depth),
                Err(_) => Cow::Borrowed(HIDDEN_JSON),
            },
            Some(b'"') => match serde_json::from_str::<String>(text) {
                Ok(string) => match self.string(&string, depth) {
                    Cow::Borrowed(_) => Cow::Borrowed(text),
                    Cow::Owned(string) => Cow::Owned(message::quote(&string)),
                },
                Err(_) => Cow::Borrowed(HIDDEN_JSON),
            },
            _ => Cow::Borrowed(text),
        }
    }

    fn object<'t>(&self, text: &'t str, members: &[Member<'_>], depth: usize) -> Cow<'t, str> {
        let values: Vec<Cow<'_, str>> = members
            .iter()
            .map(|(key, value)| {
                if self.keys.contains(&key.to_lowercase()) {
                    Cow::Owned(HIDDEN_JSON.to_owned())
                } else {
                    self.value(value.get(), depth + 1)
                }
            })
            .collect();
        let texts = members.iter().map(|(_, value)| value.get());
        with_values(text, texts.zip(values))
    }

    fn array<'t>(&self, text: &'t str, elements: &[&RawValue], depth: usize) -> Cow<'t, str> {
        let texts = elements.iter().map(|value| value.get());
        let values = texts
            .clone()
            .map(|text| self.value(text, depth + 1))
            .collect::<Vec<_>>();
        with_values(text, texts.zip(values))
    }

    /// Results of tools are often JSON in a string, which has keys, too.
    fn string<'t>(&self, string: &'t str, depth: usize) -> Cow<'t, str> {
        let inner = string.trim_start().starts_with(['{', '[']);
        if inner && let Ok(value) = serde_json::from_str::<&RawValue>(string) {
            return self.value(value.get(), depth + 1);
        }
        self.plain(string)
    }

    fn plain<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for pattern in &self.patterns {
            if let Cow::Owned(changed) = pattern.replace_all(&text, HIDDEN) {
                text = Cow::Owned(changed);
            }
        }
        text
    }
}

/// The text with other values in the places of those that are parts of it, in order.
fn with_values<'t, 'v>(
    text: &'t str,
    values: impl Iterator<Item = (&'v str, Cow<'v, str>)>,
) -> Cow<'t, str> {
    let mut changed = String::new();
    let mut copied = 0;
    for (old, new) in values {
        if old == new {
            continue;
        }
        let at = old.as_ptr() as usize - text.as_ptr() as usize;
        changed.push_str(&text[copied..at]);
        changed.push_str(&new);
        copied = at + old.len();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    changed.push_str(&text[copied..]);
    Cow::Owned(changed)
}

type Member<'t> = (String, &'t RawValue);

/// The members of an object as they stand, duplicates included.
struct Members<'t>(Vec<Member<'t>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}
