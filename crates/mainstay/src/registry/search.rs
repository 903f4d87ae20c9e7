//! Tools found by what they do: BM25 over names, descriptions and parameters.
//!
//! An index is built on a thread that may block, when a list has changed and before anybody searches. It
//! takes from the indexes before it whatever tools have not changed.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "scores are no exact figures, hashes may be cut, and tools and words are below 2^32"
)]

use std::{
    cmp::Reverse,
    collections::VecDeque,
    hash::BuildHasher as _,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
};

use foldhash::{HashMap, fast::RandomState};
use mainstay_core::catalog::{Catalog, ListKind, Target};
use mainstay_core::message;
use serde_json::Value;
use tokio::task::{JoinError, spawn_blocking};

/// Indexes that are kept, the last used ones: each profile has a catalog of its own, and an index takes
/// about as much memory as the list.
const MAX_INDEXES: usize = 8;

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

/// How fast a word that comes again loses weight (BM25's own).
const SATURATION: f32 = 1.2;

/// The indexes of the catalogs that were searched lately, by the digest of their tools.
#[derive(Debug, Default)]
pub struct Indexes(Arc<Mutex<VecDeque<(Digest, Lazy)>>>);

type Digest = [u8; 32];

/// Built by the first who needs it.
type Lazy = Arc<OnceLock<Index>>;

impl Indexes {
    /// Where the tools that fit the query stand in the catalog's list, the best first.
    pub async fn search(
        &self,
        catalog: Arc<Catalog>,
        query: String,
    ) -> Result<Vec<usize>, JoinError> {
        let indexes = Self(Arc::clone(&self.0));
        let search = move || {
            let index = indexes.index(&catalog);
            indexes.built(&index, &catalog).search(&query)
        };
        spawn_blocking(search).await
    }

    /// Builds the index of a catalog that will be searched.
    pub fn prepare(&self, catalog: Arc<Catalog>) {
        let (indexes, index) = (Self(Arc::clone(&self.0)), self.index(&catalog));
        if index.get().is_none() {
            // Nobody waits for it: a search that comes first builds it.
            drop(spawn_blocking(move || {
                indexes.built(&index, &catalog);
            }));
        }
    }

    /// What is new in the catalog takes a while; the rest is taken from the other indexes.
    fn built<'i>(&self, index: &'i OnceLock<Index>, catalog: &Catalog) -> &'i Index {
        index.get_or_init(|| {
            let others: Vec<Lazy> = {
                let kept = self.kept();
                kept.iter().map(|(_, index)| Arc::clone(index)).collect()
            };
            let others: Vec<&Index> = others.iter().filter_map(|index| index.get()).collect();
            Index::of(catalog, &others)
        })
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Digest, Lazy)>> {
        // Held for a few moves, never across an await.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, catalog: &Catalog) -> Lazy {
        let digest = catalog.digest(ListKind::Tools);
        let mut kept = self.kept();
        let known = kept.iter().position(|(known, _)| *known == digest);
        let entry = known.and_then(|at| kept.remove(at));
        let entry = entry.unwrap_or_else(|| (digest, Arc::default()));
        let index = Arc::clone(&entry.1);
        kept.push_front(entry);
        kept.truncate(MAX_INDEXES);
        index
    }
}

/// The tools of one catalog, by their places in its list.
#[derive(Debug, Default)]
pub struct Index {
    /// By the hash of all that there is to find of a tool.
    known: HashMap<u64, Arc<Document>>,
    documents: Vec<Arc<Document>>,
    /// Which tools have a word, by word and place.
    postings: Vec<Posting>,
    /// Words of a tool, on the average.
    average: f32,
}

/// What there is to find of one tool.
#[derive(Debug)]
struct Document {
    /// Hashes of its words, and how often each comes.
    words: Box<[(u32, u32)]>,
    length: u32,
    /// What it is called, in words: who asks for a tool by its name gets it first.
    names: [Vec<String>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Posting {
    word: u32,
    place: u32,
    count: u32,
}

impl Document {
    fn of(exposed: &str, target: &Target, item: &str) -> Self {
        let mut hashes: Vec<u32> = words(&text(exposed, target, item))
            .iter()
            .map(hash)
            .collect();
        hashes.sort_unstable();
        let counts = hashes.chunk_by(|one, other| one == other);
        Self {
            words: counts.map(|of| (of[0], of.len() as u32)).collect(),
            length: hashes.len() as u32,
            names: [words(exposed), words(&target.original)],
        }
    }
}

/// Words whose hashes are the same are rare, and then count as one.
fn hash(word: impl AsRef<str>) -> u32 {
    HASHES.hash_one(word.as_ref()) as u32
}

impl Index {
    /// Takes the tools that `others` know from these.
    pub fn of(catalog: &Catalog, others: &[&Self]) -> Self {
        let tools = catalog.names(ListKind::Tools);
        let items = catalog.items(ListKind::Tools);
        let mut index = Self::default();
        for ((exposed, target), item) in tools.zip(items) {
            let key = HASHES.hash_one((exposed, &target.server, &target.original, item));
            let known = others.iter().find_map(|other| other.known.get(&key));
            let document = match known {
                Some(document) => Arc::clone(document),
                None => Arc::new(Document::of(exposed, target, item)),
            };
            index.known.insert(key, Arc::clone(&document));
            index.documents.push(document);
        }
        for (place, document) in (0..).zip(&index.documents) {
            let postings = document.words.iter();
            index
                .postings
                .extend(postings.map(|&(word, count)| Posting { word, place, count }));
        }
        index.postings.sort_unstable();
        let words: u64 = index.documents.iter().map(|it| u64::from(it.length)).sum();
        index.average = words as f32 / index.documents.len().max(1) as f32;
        index
    }

    pub fn search(&self, query: &str) -> Vec<usize> {
        let mut query = words(query);
        query.truncate(MAX_QUERY_WORDS);
        let mut scores = HashMap::<u32, f32>::default();
        for word in &query {
            let found = self.with(hash(word));
            let (all, with) = (self.documents.len() as f32, found.len() as f32);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for posting in found {
                *scores.entry(posting.place).or_default() += rarity * self.weight(posting);
            }
        }
        let mut found: Vec<(f32, usize)> = scores
            .into_iter()
            .map(|(place, score)| (score, place as usize))
            .collect();
        let is_named = |place: usize| self.documents[place].names.contains(&query);
        // Equals stand as in the list, so that one query has one answer.
        found.sort_by(|(a_score, a), (b_score, b)| {
            let named = Reverse(is_named(*a)).cmp(&Reverse(is_named(*b)));
            named.then(b_score.total_cmp(a_score)).then(a.cmp(b))
        });
        found.into_iter().map(|(_, place)| place).collect()
    }

    /// The tools that have this word.
    fn with(&self, word: u32) -> &[Posting] {
        let from = self.postings.partition_point(|it| it.word < word);
        let found = &self.postings[from..];
        &found[..found.partition_point(|it| it.word == word)]
    }

    /// How much a word says about a tool (BM25).
    fn weight(&self, posting: &Posting) -> f32 {
        let length = self.documents[posting.place as usize].length as f32 / self.average;
        let count = posting.count as f32;
        let scale = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length;
        count * (SATURATION + 1.0) / (count + SATURATION * scale)
    }
}

/// What there is to find of a tool.
fn text(exposed: &str, target: &Target, item: &str) -> String {
    let mut text = format!("{} {exposed}", target.server);
    for _ in 0..NAME_WEIGHT {
        add(&mut text, &target.original);
    }
    for member in ["title", "description"] {
        add(
            &mut text,
            &message::text_member(item, member).unwrap_or_default(),
        );
    }
    let schema = message::member(item, "inputSchema").unwrap_or("{}");
    // A schema of a depth that is not read has no words.
    if let Ok(schema) = serde_json::from_str(schema) {
        add_parameters(&mut text, &schema);
    }
    text
}

fn add(text: &mut String, words: &str) {
    text.push(' ');
    text.push_str(words);
}

/// Names and descriptions of parameters, however deep they stand, and the values that they may have.
fn add_parameters(text: &mut String, schema: &Value) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("properties", Value::Object(parameters)) => {
                        for (name, schema) in parameters {
                            add(text, name);
                            add_parameters(text, schema);
                        }
                    }
                    ("description" | "title", Value::String(words)) => add(text, words),
                    ("enum", Value::Array(values)) => {
                        for word in values.iter().filter_map(Value::as_str) {
                            add(text, word);
                        }
                    }
                    _ => add_parameters(text, value),
                }
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                add_parameters(text, schema);
            }
        }
        _ => {}
    }
}

/// Splits names as programmers write them, and words as people do:
/// `getHTTPUrl_of files` → `get http url file`: parts of names, in lower case, without endings and
/// without words that say nothing.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut end = |word: &mut String| {
        let whole = std::mem::take(word);
        if !whole.is_empty() && !STOP_WORDS.contains(&whole.as_str()) {
            words.push(stem(whole));
        }
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
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        } else {
            end(&mut word);
        }
        before = letter;
    }
    end(&mut word);
    words
}

/// Han, kana and hangul.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}')
}

/// A word without the endings of English: `files`, `file` and `filing` are one. What it makes of other
/// words does not matter, as long as it makes the same of them in queries.
fn stem(word: String) -> String {
    if !word.is_ascii() || word.len() <= 3 {
        return word;
    }
    if let Some(root) = word.strip_suffix("ies").filter(|root| root.len() > 1) {
        return format!("{root}y");
    }
    let is_singular = ["ss", "us", "is"].iter().any(|it| word.ends_with(it));
    let plural = word.strip_suffix('s').filter(|_| !is_singular);
    let word = plural.unwrap_or(&word);
    let mut endings = [("ing", 3), ("ed", 3), ("er", 4)].into_iter();
    let root = endings.find_map(|(ending, least)| {
        let root = word.strip_suffix(ending);
        root.filter(|root| root.len() >= least)
    });
    let root = root.unwrap_or(word);
    let root = match root.as_bytes() {
        // `running`, but not `calling`.
        [.., a, b] if a == b && !b"ls".contains(b) => &root[..root.len() - 1],
        _ => root,
    };
    let without_e = root.strip_suffix('e').filter(|root| root.len() > 2);
    without_e.unwrap_or(root).to_owned()
}

#[cfg(test)]
mod tests;
