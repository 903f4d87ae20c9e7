//! Searches calls by text in their errors and arguments, and by trace. No index covers these. So
//! each call that passes the other conditions of the filter is read, newest first, in bounded time.
//!
//! Calls are read in batches. The arguments of a batch are read in the order of their storage, so
//! that each pack of objects is read once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use mainstay_core::record::TraceId;
use mainstay_journal::RecordFilter;
use memchr::memmem::Finder;
use rusqlite::Connection;

use super::{StoreError, call_packs::Calls, objects::Storage, packs::Pack, read::look_up};

/// Time limit of one search. The next search continues from its end.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Number of calls in the first batch. A small first batch keeps a search for a few calls cheap.
/// Each further batch is larger.
const FIRST_BATCH: usize = 32;
/// Maximum number of calls in a batch, as in a pack. A batch takes about 10 ms if each of its calls
/// is in a different pack.
const MAX_BATCH: usize = 512;
/// Maximum number of objects whose result is cached. Arguments such as `{}` recur.
const MAX_CACHED_RESULTS: usize = 64 * 1024;

/// A text to find. A search takes time linear in the length of the content.
#[derive(Debug)]
pub struct SearchText {
    /// The forms of the text, in lower case.
    forms: Vec<Finder<'static>>,
    /// A buffer for the searched content in lower case.
    lower: Vec<u8>,
}

impl SearchText {
    pub fn new(text: &str) -> Self {
        let mut forms = vec![text.as_bytes().to_ascii_lowercase()];
        for form in [escape_json(text, false), escape_json(text, true)] {
            let form = form.to_ascii_lowercase();
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        Self {
            forms: forms
                .iter()
                .map(|form| Finder::new(form).into_owned())
                .collect(),
            lower: Vec::new(),
        }
    }

    fn are_in(&mut self, text: &[u8]) -> bool {
        self.lower.clear();
        self.lower.extend_from_slice(text);
        self.lower.make_ascii_lowercase();
        self.forms
            .iter()
            .any(|form| form.find(&self.lower).is_some())
    }
}

/// The escaped form of a text in JSON. With `ascii`, characters beyond ASCII are escaped, as some
/// clients do.
fn escape_json(text: &str, ascii: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let short_escape = match letter {
            '"' | '\\' => Some(letter),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        if let Some(short_escape) = short_escape {
            bytes.extend_from_slice(format!("\\{short_escape}").as_bytes());
        } else if letter.is_ascii_control() || ascii && !letter.is_ascii() {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                bytes.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    bytes
}

/// A call that waits to be read.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub id: i64,
    pub started_at: i64,
    /// True if the text is in the name of the tool, prompt or resource.
    pub is_named: bool,
}

/// The state of one search.
#[derive(Debug)]
pub struct CallSearch {
    text: Option<SearchText>,
    trace: Option<TraceId>,
    batch: Vec<Candidate>,
    /// Number of calls in the next batch.
    size: usize,
    remembered: HashMap<i64, bool>,
    end: Instant,
}

impl CallSearch {
    /// Starts a search. `None` if no call needs to be read.
    pub fn new(filter: &RecordFilter, patience: Duration) -> Option<Self> {
        if !filter.reads_calls() {
            return None;
        }
        let text = filter.text.as_deref().filter(|text| !text.is_empty());
        Some(Self {
            text: text.map(SearchText::new),
            trace: filter.trace,
            batch: Vec::with_capacity(FIRST_BATCH),
            size: FIRST_BATCH,
            remembered: HashMap::new(),
            end: Instant::now() + patience,
        })
    }

    /// Adds a call. Returns true if the batch is full and must be read.
    pub fn add(&mut self, candidate: Candidate) -> bool {
        self.batch.push(candidate);
        self.batch.len() >= self.size
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Reads the calls of the batch and empties it. Returns the matching calls in their order, and
    /// the last call that was read.
    pub fn read(
        &mut self,
        connection: &Connection,
        calls: &mut Calls,
        pack: &mut Option<Pack>,
    ) -> Result<(Vec<i64>, Option<Candidate>), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        self.size = (self.size * 2).min(MAX_BATCH);
        let mut matches = vec![false; batch.len()];
        let mut unread_objects = Vec::new();
        for (index, candidate) in batch.iter().enumerate() {
            // A missing call was deleted.
            let Some(call) = calls.get(connection, candidate.id)? else {
                continue;
            };
            if self.trace.is_some_and(|trace| call.trace != Some(trace.0)) {
                continue;
            }
            let Some(search_text) = self.text.as_mut().filter(|_| !candidate.is_named) else {
                matches[index] = true;
                continue;
            };
            let mut error = call.error_kind.iter().chain(&call.error);
            if error.any(|text| search_text.are_in(text.as_bytes())) {
                matches[index] = true;
            } else if let Some(object) = call.arguments {
                unread_objects.push((object, index));
            }
        }
        unread_objects.sort_unstable();
        for (object, index) in unread_objects {
            matches[index] = self.is_in_object(connection, pack, object)?;
        }
        let matching_ids = batch.iter().zip(matches).filter(|(_, matches)| *matches);
        let matching_ids = matching_ids.map(|(candidate, _)| candidate.id).collect();
        Ok((matching_ids, batch.last().copied()))
    }

    /// True if arguments in the database contain the text. Larger arguments are files, which are
    /// not searched.
    fn is_in_object(
        &mut self,
        connection: &Connection,
        pack: &mut Option<Pack>,
        object: i64,
    ) -> Result<bool, StoreError> {
        let Some(search_text) = &mut self.text else {
            return Ok(true);
        };
        if let Some(is_match) = self.remembered.get(&object) {
            return Ok(*is_match);
        }
        let is_match = match look_up(connection, pack, Some(object))? {
            Some((head, data)) => head.storage == Storage::Database && search_text.are_in(data),
            None => false,
        };
        if self.remembered.len() >= MAX_CACHED_RESULTS {
            self.remembered.clear();
        }
        self.remembered.insert(object, is_match);
        Ok(is_match)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments are JSON. A text is found in each form in which a client may encode it.
    #[test]
    fn a_text_is_found_in_each_json_form() {
        for (text, haystack, expected) in [
            ("Access denied", r#"{"a":"ACCESS DENIED!"}"#, true),
            ("Access denied", r#"{"a":"access  denied"}"#, false),
            (r"C:\Users", r#"{"path":"c:\\users\\x"}"#, true),
            (r"C:\Users", r"at c:\users", true),
            (r#"say "x""#, r#"{"a":"say \"x\""}"#, true),
            (r#""a":"b"#, r#"{"a":"bc"}"#, true),
            ("é𝄞", r#"{"a":"\u00E9\ud834\uDD1e"}"#, true),
            ("é", r#"{"a":"é"}"#, true),
            ("a\nb", r#"{"a":"a\nb"}"#, true),
            (".*", r#"{"a":"b"}"#, false),
            ("[a-z]", r#"{"a":"[A-Z]"}"#, true),
            ("50%", r#"{"a":"501"}"#, false),
        ] {
            let mut search_text = SearchText::new(text);
            assert_eq!(
                search_text.are_in(haystack.as_bytes()),
                expected,
                "{text} {haystack}"
            );
        }
        // The length of a long URL, and a partial match almost everywhere.
        let long_text = format!("{}b", "a".repeat(64 * 1024));
        let mut search_text = SearchText::new(&long_text);
        assert!(search_text.are_in(long_text.as_bytes()));
        assert!(!search_text.are_in("a".repeat(1024 * 1024).as_bytes()));
    }
}
