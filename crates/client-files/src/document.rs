//! Reads the text of a client's file into a value. Supports all formats.

use std::{collections::HashSet, fmt};

use jsonc_parser::{
    CollectOptions, ParseOptions, ast::Value as Node, common::Ranged as _, parse_to_ast,
};
use mainstay_config::{
    Syntax,
    edit::{Document, EditError},
};
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::{format::FileFormat, yaml};

/// The reason why a client's file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReadable {
    #[error("it is no JSON: {0}")]
    Json(String),
    #[error("it is no TOML: {0}")]
    Toml(String),
    #[error("it is no YAML: {0}")]
    Yaml(String),
    #[error("it holds no object, but another kind of value")]
    NoObject,
    /// The value of this key is neither an object nor a list.
    #[error("`{0}` holds no servers, but another kind of value")]
    NoServers(String),
}

/// The byte order mark. Some editors on Windows write it at the beginning of a file.
pub(crate) const MARK: char = '\u{feff}';

/// Reads a file into a value. An empty file, or a file with only comments, is an empty object.
pub fn value(format: FileFormat, text: &str) -> Result<Value, NotReadable> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    let value = match format {
        FileFormat::Json => json(text)?,
        FileFormat::Toml => toml(text)?,
        FileFormat::Yaml => yaml::value(text)?,
    };
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err(NotReadable::NoObject),
    }
}

/// Reads JSON with or without comments.
pub(crate) fn json(text: &str) -> Result<Value, NotReadable> {
    let document = Document::read(text, Syntax::Jsonc)
        .map_err(|error| NotReadable::Json(without_preamble(&error)))?;
    match document.value() {
        Ok(value) => Ok(value),
        // Treat an empty text as null.
        Err(EditError::NoServers) => Ok(Value::Null),
        Err(error) => Err(NotReadable::Json(error.to_string())),
    }
}

/// A duplicate key of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// The keys that lead to the duplicate key, and the key itself.
    pub path: Vec<String>,
    /// The line number, counted from 1.
    pub line: usize,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        write!(
            f,
            "`{path}` stands twice, the second time in line {}",
            self.line
        )
    }
}

/// Finds duplicate keys in objects. They are dangerous: most programs use the last value, but a person
/// reads the first value first.
pub(crate) fn repeated_keys(format: FileFormat, text: &str) -> Vec<Repeated> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    // The other formats do not allow duplicate keys.
    if format != FileFormat::Json {
        return Vec::new();
    }
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let mut found = Vec::new();
    if let Some(node) = parsed.ok().and_then(|parsed| parsed.value) {
        gather_repeated(&node, &mut Vec::new(), &mut found);
    }
    // The keys are in the order of the text, so count lines from the previous key on.
    let (mut line, mut done) = (1, 0);
    let with_line = |(path, at): (Vec<String>, usize)| {
        line += text[done..at].matches('\n').count();
        done = at;
        Repeated { path, line }
    };
    found.into_iter().map(with_line).collect()
}

/// Collects the path and the offset of each duplicate key.
fn gather_repeated(node: &Node<'_>, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, usize)>) {
    let Node::Object(object) = node else { return };
    let mut earlier_keys = HashSet::new();
    for member in &object.properties {
        path.push(member.name.as_str().to_owned());
        if !earlier_keys.insert(member.name.as_str()) {
            found.push((path.clone(), member.range().start));
        }
        gather_repeated(&member.value, path, found);
        path.pop();
    }
}

/// Returns the reason of an error without the introductory words.
fn without_preamble(error: &EditError) -> String {
    match error {
        EditError::Unreadable(reason) => reason.clone(),
        other => other.to_string(),
    }
}

fn toml(text: &str) -> Result<Value, NotReadable> {
    let document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| NotReadable::Toml(with_place(&error, text)))?;
    Ok(of_table(document.as_table()))
}

/// Returns the reason with its line and column, in the same form as errors about JSON.
fn with_place(error: &toml_edit::TomlError, text: &str) -> String {
    let message = error.message().trim_end().replace('\n', ", ");
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return message };
    let line = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[begin..].chars().count() + 1;
    format!("{message} on line {line} column {column}")
}

pub(crate) fn of_table(table: &dyn TableLike) -> Value {
    let members = table
        .iter()
        .map(|(key, item)| (key.to_owned(), of_item(item)));
    Value::Object(members.collect())
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_toml(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
    }
}

fn of_toml(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(elements) => elements.iter().map(of_toml).collect(),
        toml_edit::Value::InlineTable(table) => of_table(table),
    }
}
