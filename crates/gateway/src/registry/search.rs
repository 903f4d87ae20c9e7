//! Tools found by what they do: BM25 over names, descriptions and parameters.
//!
//! An index is built where the catalog is merged, before the catalog is published: no search waits for it. The
//! tools of a server are a segment, which is built again only when one of them has changed.

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
    catalog::{Catalog, ListKind, Target},
    ids::ServerName,
    message,
};
use serde_json::Value;

/// Words of a query that count; a longer one says nothing more, and every word costs time.
const MAX_QUERY_WORDS: usize = 32;

/// How often a tool's own name counts: more than a word of its description.
const NAME_WEIGHT: usize = 3;

/// How much the length of a description tells against it: little, since long ones come from careful
/// authors (BM25 itself has 0.75).
const LENGTH_WEIGHT: f32 = 0.4;

/// Nobody outside can tell which words have the same hash.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Words that say nothing about what a tool does.
const STOP_WORDS: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please",
    "some", "that", "the", "this", "to", "tool", "use", "want", "what", "which", "with", "you",
    "your",
];

/// No stop word has more bytes.
const LONGEST_STOP_WORD: usize = 6;

/// How fast a word that comes again loses weight (BM25's own).
const SATURATION: f32 = 1.2;

/// The tools of one catalog, by their places in its list.
#[derive(Debug, Default)]
pub struct Index {
    /// With the place of its first tool, in the order of the list.
    segments: Vec<(usize, Arc<Segment>)>,
    tools: usize,
    /// Words of a tool, on the average.
    average: f32,
}

/// Tools of one server that stand together in the list.
#[derive(Debug)]
struct Segment {
    server: ServerName,
    documents: Vec<Arc<Document>>,
    /// Which tools have a word, by word and place in the segment.
    postings: Vec<Posting>,
}

/// What there is to find of one tool.
#[derive(Debug)]
struct Document {
    /// The hash of all that it is made of.
    key: u64,
    /// Hashes of its words, and how often each comes.
    words: Box<[(u32, u32)]>,
    length: u32,
    /// What it is called, in words: who asks for a tool by its name gets it first.
    names: [Box<[u32]>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Posting {
    word: u32,
    place: u32,
    count: u32,
}

/// A tool that is to be found.
struct Tool<'c> {
    exposed: &'c str,
    target: &'c Target,
    item: &'c str,
    key: u64,
}

impl Document {
    fn of(tool: &Tool<'_>) -> Self {
        let mut hashes = Vec::new();
        each_text(tool, &mut |text| {
            each_word(text, |word| hashes.push(hash(word)));
        });
        hashes.sort_unstable();
        let counts = hashes.chunk_by(|one, other| one == other);
        Self {
            key: tool.key,
            words: counts.map(|of| (of[0], of.len() as u32)).collect(),
            length: hashes.len() as u32,
            names: [tool.exposed, &tool.target.original].map(hashed),
        }
    }
}

/// Words whose hashes are the same are rare, and then count as one.
fn hash(word: &str) -> u32 {
    HASHES.hash_one(word) as u32
}

fn hashed(text: &str) -> Box<[u32]> {
    let mut hashes = Vec::new();
    each_word(text, |word| hashes.push(hash(word)));
    hashes.into()
}

impl Segment {
    /// Of tools of one server. What has not changed is taken from segments that are `known`.
    fn of(tools: &[Tool<'_>], known: &[&Arc<Self>]) -> Self {
        let documents = known.iter().flat_map(|segment| &segment.documents);
        let known: HashMap<u64, &Arc<Document>> =
            documents.map(|document| (document.key, document)).collect();
        let documents: Vec<Arc<Document>> = tools
            .iter()
            .map(|tool| match known.get(&tool.key) {
                Some(document) => Arc::clone(document),
                None => Arc::new(Document::of(tool)),
            })
            .collect();
        let mut postings = Vec::new();
        for (place, document) in (0..).zip(&documents) {
            let words = document.words.iter();
            postings.extend(words.map(|&(word, count)| Posting { word, place, count }));
        }
        postings.sort_unstable();
        postings.shrink_to_fit();
        Self {
            server: tools[0].target.server.clone(),
            documents,
            postings,
        }
    }

    fn is_of(&self, tools: &[Tool<'_>]) -> bool {
        let keys = self.documents.iter().map(|document| document.key);
        keys.eq(tools.iter().map(|tool| tool.key))
    }

    /// The tools that have this word.
    fn with(&self, word: u32) -> &[Posting] {
        let from = self.postings.partition_point(|it| it.word < word);
        let found = &self.postings[from..];
        &found[..found.partition_point(|it| it.word == word)]
    }
}

impl Index {
    /// Takes the segments that `others` have from these.
    pub fn of(catalog: &Catalog, others: &[Arc<Self>]) -> Self {
        let names = catalog.names(ListKind::Tools);
        let items = catalog.items(ListKind::Tools);
        let tools = names.zip(items).map(|((exposed, target), item)| Tool {
            exposed,
            target,
            item,
            key: HASHES.hash_one((exposed, &target.server, &target.original, item)),
        });
        let tools: Vec<Tool<'_>> = tools.collect();
        let mut known: HashMap<&ServerName, Vec<&Arc<Segment>>> = HashMap::default();
        for (_, segment) in others.iter().flat_map(|other| &other.segments) {
            known.entry(&segment.server).or_default().push(segment);
        }
        let mut index = Self {
            tools: tools.len(),
            ..Self::default()
        };
        let (mut first, mut words) = (0, 0);
        for tools in tools.chunk_by(|one, other| one.target.server == other.target.server) {
            let known = known.get(&tools[0].target.server);
            let known = known.map_or(&[][..], Vec::as_slice);
            let segment = match known.iter().find(|segment| segment.is_of(tools)) {
                Some(same) => Arc::clone(same),
                None => Arc::new(Segment::of(tools, known)),
            };
            let lengths = segment.documents.iter().map(|it| u64::from(it.length));
            words += lengths.sum::<u64>();
            index.segments.push((first, segment));
            first += tools.len();
        }
        index.average = words as f32 / index.tools.max(1) as f32;
        index
    }

    /// Where the tools that fit the query stand in the catalog's list, the best first. Takes milliseconds where
    /// there are thousands.
    pub fn search(&self, query: &str) -> Vec<usize> {
        let query = hashed(query);
        let query = &query[..query.len().min(MAX_QUERY_WORDS)];
        let mut scores = vec![0_f32; self.tools];
        for &word in query {
            let found = self.segments.iter();
            let found: Vec<_> = found
                .map(|(first, segment)| (*first, segment, segment.with(word)))
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
        // Equals stand as in the list, so that one query has one answer.
        found.sort_unstable_by(|(a_named, a_score, a), (b_named, b_score, b)| {
            let named = Reverse(a_named).cmp(&Reverse(b_named));
            named.then(b_score.total_cmp(a_score)).then(a.cmp(b))
        });
        found.into_iter().map(|(_, _, place)| place).collect()
    }

    /// How much a word says about a tool (BM25).
    fn weight(&self, segment: &Segment, posting: &Posting) -> f32 {
        let document = &segment.documents[posting.place as usize];
        let length = document.length as f32 / self.average;
        let count = posting.count as f32;
        let scale = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length;
        count * (SATURATION + 1.0) / (count + SATURATION * scale)
    }
}

/// What there is to find of a tool, piece by piece.
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

/// Names and descriptions of parameters, however deep they stand, and the values that they may have.
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

/// Splits names as programmers write them, and words as people do:
/// `getHTTPUrl_of files` → `get http url file`: parts of names, in lower case, without endings and
/// without words that say nothing.
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
        let begins = letter.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase()));
        // Scripts without spaces are searched by the letter.
        if begins || is_ideograph(letter) || is_ideograph(before) {
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

/// Han, kana and hangul.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}')
}

/// Takes the endings of English from a word: `files`, `file` and `filing` are one. What it makes of other
/// words does not matter, as long as it makes the same of them in queries.
fn stem(word: &mut String) {
    if !word.is_ascii() || word.len() <= 3 {
        return;
    }
    if let Some(root) = word.strip_suffix("ies").filter(|root| root.len() > 1) {
        word.truncate(root.len());
        word.push('y');
        return;
    }
    let is_singular = ["ss", "us", "is"].iter().any(|it| word.ends_with(it));
    let plural = word.strip_suffix('s').filter(|_| !is_singular);
    let root = plural.unwrap_or(word);
    let mut endings = [("ing", 3), ("ed", 3), ("er", 4)].into_iter();
    let without = endings.find_map(|(ending, least)| {
        let root = root.strip_suffix(ending);
        root.filter(|root| root.len() >= least)
    });
    let root = without.unwrap_or(root);
    let root = match root.as_bytes() {
        // `running`, but not `calling`.
        [.., a, b] if a == b && !b"ls".contains(b) => &root[..root.len() - 1],
        _ => root,
    };
    let without_e = root.strip_suffix('e').filter(|root| root.len() > 2);
    let length = without_e.unwrap_or(root).len();
    word.truncate(length);
}

#[cfg(test)]
mod tests;
