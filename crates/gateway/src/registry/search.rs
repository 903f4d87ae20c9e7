//! Full-text search for tools: BM25 over names, descriptions and parameters.
//!
//! An index is built during the merge, before its catalog is published, so no search waits for it.
//! The tools of a server form a segment. A segment is rebuilt only when one of its tools has changed.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "scores are no exact figures, hashes may be cut, and tools and words are below 2^32"
)]

use std::{
    cmp::Reverse,
    hash::BuildHasher as _,
    sync::{Arc, LazyLock},
};

use foldhash::{HashMap, fast::RandomState};
use mainstay_core::{
    catalog::{Catalog, ItemTarget, ListKind},
    ids::ServerName,
    message,
};
use serde_json::Value;

/// Maximum number of words of a query. Further words are ignored: they add little, and each costs
/// time.
const MAX_QUERY_WORDS: usize = 32;

/// Weight of a word in a tool's original name. A word in the description has weight 1.
const NAME_WEIGHT: usize = 3;

/// Weight of a document's length (BM25's `b`, usually 0.75). Lower here, because good descriptions
/// are often long.
const LENGTH_WEIGHT: f32 = 0.4;

/// Seeded at random, so that nobody can choose words that have the same hash.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Words that are ignored, because they do not describe a tool.
const STOP_WORDS: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please",
    "some", "that", "the", "this", "to", "tool", "use", "want", "what", "which", "with", "you",
    "your",
];

/// Maximum length of a stop word in bytes.
const LONGEST_STOP_WORD: usize = 6;

/// Saturation of repeated words (BM25's `k1`, with its usual value).
const SATURATION: f32 = 1.2;

/// The search index of one catalog. A tool is identified by its place in the catalog's list.
#[derive(Debug, Default)]
pub struct Index {
    /// The place of each segment's first tool, and the segment. In the order of the list.
    segments: Vec<(usize, Arc<Segment>)>,
    tools: usize,
    /// Average number of words of a tool.
    average: f32,
}

/// Consecutive tools of one server in the list.
#[derive(Debug)]
struct Segment {
    server: ServerName,
    documents: Vec<Arc<Document>>,
    /// The occurrences of words in the tools, sorted by word and place in the segment.
    postings: Vec<Posting>,
}

/// The searchable text of one tool.
#[derive(Debug)]
struct Document {
    /// The hash of the tool's names, server and JSON text.
    key: u64,
    /// The hash and the count of each word.
    words: Box<[(u32, u32)]>,
    length: u32,
    /// The words of the exposed and of the original name. A query that equals a name finds its tool
    /// first.
    names: [Box<[u32]>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Posting {
    word: u32,
    place: u32,
    count: u32,
}

/// The input for one document.
struct Tool<'c> {
    exposed: &'c str,
    target: &'c ItemTarget,
    item: &'c str,
    key: u64,
}

impl Document {
    fn new(tool: &Tool<'_>) -> Self {
        let mut hashes = Vec::new();
        each_text(tool, &mut |text| {
            each_word(text, |word| hashes.push(hash(word)));
        });
        hashes.sort_unstable();
        let counts = hashes.chunk_by(|one, other| one == other);
        Self {
            key: tool.key,
            words: counts.map(|equal| (equal[0], equal.len() as u32)).collect(),
            length: hashes.len() as u32,
            names: [tool.exposed, &tool.target.original].map(hashed),
        }
    }
}

/// The hash of a word. Collisions are rare. Words with the same hash count as one word.
fn hash(word: &str) -> u32 {
    HASHES.hash_one(word) as u32
}

fn hashed(text: &str) -> Box<[u32]> {
    let mut hashes = Vec::new();
    each_word(text, |word| hashes.push(hash(word)));
    hashes.into()
}

impl Segment {
    /// Indexes tools of one server. Reuses unchanged documents of the `others`.
    fn new(tools: &[Tool<'_>], others: &[&Arc<Self>]) -> Self {
        let documents = others.iter().flat_map(|segment| &segment.documents);
        let unchanged: HashMap<u64, &Arc<Document>> =
            documents.map(|document| (document.key, document)).collect();
        let documents: Vec<Arc<Document>> = tools
            .iter()
            .map(|tool| match unchanged.get(&tool.key) {
                Some(document) => Arc::clone(document),
                None => Arc::new(Document::new(tool)),
            })
            .collect();
        let mut postings = Vec::new();
        for (place, document) in (0..).zip(&documents) {
            postings.extend(document.words.iter().map(|&(word, count)| Posting {
                word,
                place,
                count,
            }));
        }
        postings.sort_unstable();
        postings.shrink_to_fit();
        Self {
            server: tools[0].target.server.clone(),
            documents,
            postings,
        }
    }

    fn has_same_tools(&self, tools: &[Tool<'_>]) -> bool {
        let keys = self.documents.iter().map(|document| document.key);
        keys.eq(tools.iter().map(|tool| tool.key))
    }

    /// The postings of this word.
    fn postings_of(&self, word: u32) -> &[Posting] {
        let from = self.postings.partition_point(|posting| posting.word < word);
        let found = &self.postings[from..];
        &found[..found.partition_point(|posting| posting.word == word)]
    }
}

impl Index {
    /// Indexes a catalog. Reuses unchanged segments of the `others`.
    pub fn new(catalog: &Catalog, others: &[Arc<Self>]) -> Self {
        let names = catalog.names(ListKind::Tools);
        let items = catalog.items(ListKind::Tools);
        let tools = names.zip(items).map(|((exposed, target), item)| Tool {
            exposed,
            target,
            item,
            key: HASHES.hash_one((exposed, &target.server, &target.original, item)),
        });
        let tools: Vec<Tool<'_>> = tools.collect();
        let mut by_server: HashMap<&ServerName, Vec<&Arc<Segment>>> = HashMap::default();
        for (_, segment) in others.iter().flat_map(|other| &other.segments) {
            by_server.entry(&segment.server).or_default().push(segment);
        }
        let mut index = Self {
            tools: tools.len(),
            ..Self::default()
        };
        let (mut first, mut words) = (0, 0);
        for tools in tools.chunk_by(|one, other| one.target.server == other.target.server) {
            let others = by_server.get(&tools[0].target.server);
            let others = others.map_or(&[][..], Vec::as_slice);
            let segment = match others.iter().find(|segment| segment.has_same_tools(tools)) {
                Some(same) => Arc::clone(same),
                None => Arc::new(Segment::new(tools, others)),
            };
            let lengths = segment
                .documents
                .iter()
                .map(|document| u64::from(document.length));
            words += lengths.sum::<u64>();
            index.segments.push((first, segment));
            first += tools.len();
        }
        index.average = words as f32 / index.tools.max(1) as f32;
        index
    }

    /// The tools that match the query, as places in the catalog's list. The best match is first.
    /// Takes milliseconds for thousands of tools.
    pub fn search(&self, query: &str) -> Vec<usize> {
        let query = hashed(query);
        let query = &query[..query.len().min(MAX_QUERY_WORDS)];
        let mut scores = vec![0_f32; self.tools];
        for &word in query {
            let found: Vec<_> = self
                .segments
                .iter()
                .map(|(first, segment)| (*first, segment, segment.postings_of(word)))
                .filter(|(_, _, postings)| !postings.is_empty())
                .collect();
            let with: usize = found.iter().map(|(_, _, postings)| postings.len()).sum();
            let (all, with) = (self.tools as f32, with as f32);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (first, segment, postings) in found {
                for posting in postings {
                    let weight = self.weight(segment, posting);
                    scores[first + posting.place as usize] += rarity * weight;
                }
            }
        }
        let documents = self
            .segments
            .iter()
            .flat_map(|(_, segment)| &segment.documents);
        let mut found: Vec<(bool, f32, usize)> = documents
            .zip(scores)
            .enumerate()
            .filter(|(_, (_, score))| *score > 0.0)
            .map(|(place, (document, score))| {
                let is_named = document.names.iter().any(|name| **name == *query);
                (is_named, score, place)
            })
            .collect();
        // Tools with equal scores keep the order of the list, so that the result is reproducible.
        found.sort_unstable_by(|(a_named, a_score, a), (b_named, b_score, b)| {
            let named = Reverse(a_named).cmp(&Reverse(b_named));
            named.then(b_score.total_cmp(a_score)).then(a.cmp(b))
        });
        found.into_iter().map(|(_, _, place)| place).collect()
    }

    /// The weight of a word in a tool (BM25).
    fn weight(&self, segment: &Segment, posting: &Posting) -> f32 {
        let document = &segment.documents[posting.place as usize];
        let length = document.length as f32 / self.average;
        let count = posting.count as f32;
        let scale = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length;
        count * (SATURATION + 1.0) / (count + SATURATION * scale)
    }
}

/// Passes each searchable text of a tool to `found`.
fn each_text(tool: &Tool<'_>, found: &mut impl FnMut(&str)) {
    found(tool.target.server.as_str());
    found(tool.exposed);
    for _ in 0..NAME_WEIGHT {
        found(&tool.target.original);
    }
    for member in ["title", "description"] {
        found(&message::shown_member(tool.item, member).unwrap_or_default());
    }
    let schema = message::member(tool.item, "inputSchema").unwrap_or("{}");
    if let Ok(schema) = message::foreign::read(schema) {
        each_parameter(&schema, found);
    }
}

/// Passes the names, descriptions and enum values of parameters at any depth to `found`.
fn each_parameter(schema: &Value, found: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("properties", Value::Object(parameters)) => {
                        for (name, schema) in parameters {
                            found(name);
                            each_parameter(schema, found);
                        }
                    }
                    ("description" | "title", Value::String(words)) => found(words),
                    ("enum", Value::Array(values)) => {
                        for word in values.iter().filter_map(Value::as_str) {
                            found(word);
                        }
                    }
                    _ => each_parameter(value, found),
                }
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                each_parameter(schema, found);
            }
        }
        _ => {}
    }
}

/// Splits identifiers and prose into words: `getHTTPUrl_of files` → `get http url file`. The words
/// are in lower case, stemmed, and without stop words.
fn each_word(text: &str, mut found: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end = |word: &mut String| {
        let is_stop_word = word.len() <= LONGEST_STOP_WORD && STOP_WORDS.contains(&word.as_str());
        if !word.is_empty() && !is_stop_word {
            stem(word);
            found(word);
        }
        word.clear();
    };
    let mut before = ' ';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let starts_word = letter.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase()));
        // In scripts without spaces, each character is a word.
        if starts_word || is_ideograph(letter) || is_ideograph(before) {
            end(&mut word);
        }
        if letter.is_ascii_alphanumeric() {
            word.push(letter.to_ascii_lowercase());
        } else if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        } else {
            end(&mut word);
        }
        before = letter;
    }
    end(&mut word);
}

/// True for Han, kana and hangul characters.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}')
}

/// Removes English endings: `files`, `file` and `filing` become the same word. For other languages
/// the result may not be a word. That does no harm, because queries are stemmed in the same way.
fn stem(word: &mut String) {
    if !word.is_ascii() || word.len() <= 3 {
        return;
    }
    if let Some(root) = word.strip_suffix("ies").filter(|root| root.len() > 1) {
        word.truncate(root.len());
        word.push('y');
        return;
    }
    let is_singular = ["ss", "us", "is"]
        .iter()
        .any(|ending| word.ends_with(ending));
    let plural = word.strip_suffix('s').filter(|_| !is_singular);
    let root = plural.unwrap_or(word);
    let mut endings = [("ing", 3), ("ed", 3), ("er", 4)].into_iter();
    let without = endings.find_map(|(ending, least)| {
        let root = root.strip_suffix(ending);
        root.filter(|root| root.len() >= least)
    });
    let root = without.unwrap_or(root);
    let root = match root.as_bytes() {
        // `running` → `run`, but `calling` → `call`.
        [.., a, b] if a == b && !b"ls".contains(b) => &root[..root.len() - 1],
        _ => root,
    };
    let without_e = root.strip_suffix('e').filter(|root| root.len() > 2);
    let length = without_e.unwrap_or(root).len();
    word.truncate(length);
}

#[cfg(test)]
mod tests;
