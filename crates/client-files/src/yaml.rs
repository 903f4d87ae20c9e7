//! Reads YAML into a tree with line numbers. Resolves anchors and merge keys, and limits the size of the
//! result.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use crate::document::NotReadable;

/// The maximum number of values in a file with resolved aliases. Real settings have fewer. Nine lines of
/// nested aliases can produce a billion.
const MAX_NODES: usize = 100_000;

/// The maximum depth of nested values.
const MAX_DEPTH: usize = 100;

/// A value, and its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: NodeKind,
    /// The line of its first character, from 0.
    pub line: usize,
    /// The column of its first character, from 0.
    pub column: usize,
    /// The last line that contains a part of the value.
    pub last_line: usize,
    /// True if the value is written in brackets. False for scalars.
    pub is_flow: bool,
    size: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    Scalar(Value),
    List(Vec<Node>),
    /// The members in order. A key that is not a text is converted to text.
    Map(Vec<(YamlKey, Node)>),
}

#[derive(Clone, Debug)]
pub(crate) struct YamlKey {
    pub text: String,
    pub line: usize,
    pub column: usize,
}

impl Node {
    pub fn get(&self, key: &str) -> Option<&Self> {
        let NodeKind::Map(members) = &self.kind else {
            return None;
        };
        let member = members.iter().find(|(name, _)| name.text == key)?;
        Some(&member.1)
    }

    pub fn value(&self) -> Value {
        match &self.kind {
            NodeKind::Scalar(value) => value.clone(),
            NodeKind::List(elements) => elements.iter().map(Self::value).collect(),
            NodeKind::Map(members) => {
                let mut map = Map::new();
                for (key, node) in members {
                    if key.text == "<<" {
                        merge(&mut map, &node.value());
                    } else {
                        map.insert(key.text.clone(), node.value());
                    }
                }
                Value::Object(map)
            }
        }
    }
}

/// Merges members into a map. Existing keys of the map take precedence.
fn merge(map: &mut Map<String, Value>, from: &Value) {
    match from {
        Value::Object(members) => {
            for (key, value) in members {
                if !map.contains_key(key) {
                    map.insert(key.clone(), value.clone());
                }
            }
        }
        Value::Array(sources) => sources.iter().for_each(|source| merge(map, source)),
        _ => {}
    }
}

pub(crate) fn value(text: &str) -> Result<Value, NotReadable> {
    Ok(read(text)?.map_or(Value::Null, |node| node.value()))
}

/// A list or a map that the reader has not completed.
struct Open {
    node: Node,
    anchor: usize,
    /// The key that was read last, until its value is complete.
    key: Option<YamlKey>,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    /// The last line that contains a part of a value.
    last_line: usize,
}

/// Reads a text with one document. Returns `None` if the document is empty.
pub(crate) fn read(text: &str) -> Result<Option<Node>, NotReadable> {
    let mut reader = Reader::default();
    let lines: Vec<&str> = text.lines().collect();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let place = error.marker();
            NotReadable::Yaml(format!("line {}: {}", place.line(), error.info()))
        })?;
        reader.take(event, span, &lines)?;
    }
    Ok(reader.root)
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: Span, lines: &[&str]) -> Result<(), NotReadable> {
        let line = span.start.line().saturating_sub(1);
        let column = span.start.col();
        let starts_with = |bracket: char| {
            let line: Option<&&str> = lines.get(line);
            line.is_some_and(|line| line.chars().nth(column) == Some(bracket))
        };
        let mut node = Node {
            kind: NodeKind::Scalar(Value::Null),
            line,
            column,
            last_line: line,
            is_flow: false,
            size: 1,
        };
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(NotReadable::Yaml("it has several documents".to_owned()));
            }
            Event::Scalar(text, style, anchor, tag) => {
                node.kind = NodeKind::Scalar(scalar(&text, style, tag.as_deref()));
                node.last_line = last_line_of(style, span, lines).max(line);
                if span.is_empty() && style == ScalarStyle::Plain {
                    // An absent value has no position. Use the last line before it.
                    node.line = self.last_line;
                    node.last_line = self.last_line;
                }
                self.last_line = self.last_line.max(node.last_line);
                self.put(node, anchor)?;
            }
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).cloned();
                let Some(target) = target else {
                    return Err(NotReadable::Yaml("an alias without an anchor".to_owned()));
                };
                self.last_line = self.last_line.max(line);
                let size = target.size;
                self.put(
                    Node {
                        kind: target.kind,
                        size,
                        ..node
                    },
                    0,
                )?;
            }
            Event::SequenceStart(anchor, _) => {
                node.kind = NodeKind::List(Vec::new());
                node.is_flow = starts_with('[');
                self.begin(node, anchor)?;
            }
            Event::MappingStart(anchor, _) => {
                node.kind = NodeKind::Map(Vec::new());
                node.is_flow = starts_with('{');
                self.begin(node, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(mut open) = self.open.pop() {
                    if open.node.is_flow {
                        let end = span.end.line().saturating_sub(1);
                        self.last_line = self.last_line.max(end);
                    }
                    open.node.last_line = self.last_line.max(open.node.line);
                    self.put(open.node, open.anchor)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, node: Node, anchor: usize) -> Result<(), NotReadable> {
        if self.open.len() == MAX_DEPTH {
            return Err(NotReadable::Yaml("it is nested too deep".to_owned()));
        }
        self.open.push(Open {
            node,
            anchor,
            key: None,
        });
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), NotReadable> {
        self.nodes += node.size;
        if self.nodes > MAX_NODES {
            return Err(NotReadable::Yaml("it is too large".to_owned()));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.node.size += node.size;
        match (&mut open.node.kind, open.key.take()) {
            (NodeKind::List(elements), _) => elements.push(node),
            (NodeKind::Map(members), Some(key)) => {
                if members.iter().any(|(earlier, _)| earlier.text == key.text) {
                    let message = format!("line {}: {:?} comes twice", key.line + 1, key.text);
                    return Err(NotReadable::Yaml(message));
                }
                members.push((key, node));
            }
            (NodeKind::Map(_), None) => {
                let text = match &node.kind {
                    NodeKind::Scalar(Value::String(text)) => text.clone(),
                    NodeKind::Scalar(other) => other.to_string(),
                    NodeKind::List(_) | NodeKind::Map(_) => {
                        let message = format!("line {}: a key that is no text", node.line + 1);
                        return Err(NotReadable::Yaml(message));
                    }
                };
                open.key = Some(YamlKey {
                    text,
                    line: node.line,
                    column: node.column,
                });
            }
            (NodeKind::Scalar(_), _) => {}
        }
        Ok(())
    }
}

/// The last line of a scalar. A block scalar's span ends at the next token, which may be many lines below.
fn last_line_of(style: ScalarStyle, span: Span, lines: &[&str]) -> usize {
    let start = span.start.line().saturating_sub(1);
    let mut end = span.end.line().saturating_sub(1);
    if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
        return end;
    }
    end = end.min(lines.len());
    if span.end.col() == 0 || end == lines.len() {
        end = end.saturating_sub(1);
    }
    while end > start && lines.get(end).is_none_or(|line| line.trim().is_empty()) {
        end -= 1;
    }
    end
}

/// Converts a scalar by the core schema of YAML 1.2.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return text.into();
    }
    plain(text)
}

/// Converts a plain scalar by the core schema.
pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok().map(Value::from);
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16).unwrap_or_else(|| text.into());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8).unwrap_or_else(|| text.into());
    }
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_number {
        return text.into();
    }
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    let float = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = float.and_then(serde_json::Number::from_f64);
    number.map_or_else(|| text.into(), Value::Number)
}
