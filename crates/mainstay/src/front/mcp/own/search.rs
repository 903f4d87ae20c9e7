//! Tools found by what they do: BM25 over names, descriptions and parameters.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bm25::{Embedder, EmbedderBuilder, Scorer, Tokenizer};
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

/// Words that say nothing about what a tool does.
const STOP_WORDS: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please",
    "some", "that", "the", "this", "to", "tool", "use", "want", "what", "which", "with", "you",
    "your",
];

/// The indexes of the catalogs that were searched lately, by the digest of their tools.
#[derive(Debug, Default)]
pub struct Indexes(Mutex<VecDeque<(Digest, Lazy)>>);

type Digest = [u8; 32];

/// Built by the first who searches.
type Lazy = Arc<OnceLock<Index>>;

impl Indexes {
    /// Where the tools that fit the query stand in the catalog's list, the best first. The index is built
    /// when it is first needed, away from the runtime's threads: a large catalog takes a while.
    pub async fn search(
        &self,
        catalog: Arc<Catalog>,
        query: String,
    ) -> Result<Vec<usize>, JoinError> {
        let index = self.index(catalog.digest(ListKind::Tools));
        let search = move || index.get_or_init(|| Index::of(&catalog)).search(&query);
        spawn_blocking(search).await
    }

    fn index(&self, digest: Digest) -> Lazy {
        // Held for a few moves, never across an await.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
pub struct Index {
    embedder: Embedder<u32, Words>,
    scorer: Scorer<usize>,
    /// What each is called, in words: who asks for a tool by its name gets it first.
    names: Vec<[Vec<String>; 2]>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tools = self.names.len();
        f.debug_struct("Index")
            .field("tools", &tools)
            .finish_non_exhaustive()
    }
}

impl Index {
    pub fn of(catalog: &Catalog) -> Self {
        let tools = catalog.names(ListKind::Tools);
        let items = catalog.items(ListKind::Tools);
        let texts: Vec<String> = tools
            .zip(items)
            .map(|((exposed, target), item)| text(exposed, target, item))
            .collect();
        let corpus: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder = EmbedderBuilder::with_tokenizer_and_fit_to_corpus(Words, &corpus)
            .b(LENGTH_WEIGHT)
            .build();
        let mut scorer = Scorer::new();
        for (place, text) in corpus.iter().enumerate() {
            scorer.upsert(&place, embedder.embed(text));
        }
        let names = catalog
            .names(ListKind::Tools)
            .map(|(exposed, target)| [words(exposed), words(&target.original)])
            .collect();
        Self {
            embedder,
            scorer,
            names,
        }
    }

    pub fn search(&self, query: &str) -> Vec<usize> {
        let mut query = words(query);
        query.truncate(MAX_QUERY_WORDS);
        let found = self.scorer.matches(&self.embedder.embed(&query.join(" ")));
        let mut found: Vec<_> = found.into_iter().map(|hit| (hit.score, hit.id)).collect();
        let is_named = |place: usize| self.names[place].contains(&query);
        // Equals stand as in the list, so that one query has one answer.
        found.sort_by(|(a_score, a), (b_score, b)| {
            let named = Reverse(is_named(*a)).cmp(&Reverse(is_named(*b)));
            named.then(b_score.total_cmp(a_score)).then(a.cmp(b))
        });
        found.into_iter().map(|(_, place)| place).collect()
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

/// Splits names as programmers write them, and words as people do.
#[derive(Debug)]
struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        words(text)
    }
}

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
