//! Edits a configuration's text in place. Unchanged parts keep their order, spacing and comments.

use std::collections::HashSet;

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use mainstay_core::ids::ServerName;
use serde_json::{Map, Value};

use crate::{Syntax, lines::spliced, read::server_name};

/// The text that is used instead of a missing file.
pub const EMPTY: &str = "{\n  \"mcpServers\": {}\n}\n";

/// The content of a new file. Its schema is [`SCHEMA_FILE`] in the same folder.
pub const NEW: &str = "{\n  \"$schema\": \"./mainstay.schema.json\",\n  \"mcpServers\": {}\n}\n";

/// The name of the schema in the folder of a configuration.
pub const SCHEMA_FILE: &str = "mainstay.schema.json";

/// A server's entry as it is written in a file.
pub type Entry = Map<String, Value>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    #[error("the file has no `mcpServers`, and no `servers`, that a server could stand in")]
    NoServers,
    #[error("server \"{0}\" does not stand in the file")]
    NotThere(ServerName),
    #[error("the file holds a value that no JSON has, such as NaN")]
    NotJson,
    /// The name occurs twice, so the change would lose one of the two entries.
    #[error("{0:?} stands twice in the file: take one of them out first")]
    Repeated(String),
}

/// A configuration's text, parsed for editing.
pub struct Document {
    /// The original text, without the byte order mark.
    before: String,
    root: CstRootNode,
    /// Some editors on Windows begin a file with a byte order mark.
    mark: &'static str,
}

/// A server's entry in the text: a member of an object, or an element of an array.
enum EntryNode {
    Member(CstObjectProp),
    Element(CstNode),
}

/// A container of entries: an object or an array.
enum Shelf {
    Map(CstObject),
    List(CstArray),
}

impl Document {
    pub fn read(text: &str, syntax: Syntax) -> Result<Self, EditError> {
        let (mark, text) = match text.strip_prefix('\u{feff}') {
            Some(text) => ("\u{feff}", text),
            None => ("", text),
        };
        let root = CstRootNode::parse(text, &syntax.options())
            .map_err(|error| EditError::Unreadable(error.to_string()))?;
        let before = text.to_owned();
        Ok(Self { before, root, mark })
    }

    /// The whole document as JSON.
    pub fn value(&self) -> Result<Value, EditError> {
        let node = self.root.value().ok_or(EditError::NoServers)?;
        value(&node).ok_or(EditError::NotJson)
    }

    /// The entry of a server.
    pub fn entry(&self, name: &ServerName) -> Option<Entry> {
        match value(&self.place(name)?.node()?)? {
            Value::Object(entry) => Some(entry),
            _ => None,
        }
    }

    /// Every entry, by its server's name.
    pub fn entries(&self) -> Vec<(ServerName, Entry)> {
        let mut entries = Vec::new();
        let mut add = |label: &str, value: &Value| {
            if let (Ok((name, _)), Value::Object(entry)) = (server_name::adopt(label), value) {
                entries.push((name, entry.clone()));
            }
        };
        let whole = self.value().unwrap_or_default();
        for servers in ["servers", "mcpServers"].map(|key| whole.get(key)) {
            match servers {
                Some(Value::Object(members)) => {
                    members.iter().for_each(|(label, value)| add(label, value));
                }
                Some(Value::Array(elements)) => {
                    for element in elements {
                        add(element["name"].as_str().unwrap_or_default(), element);
                    }
                }
                _ => {}
            }
        }
        entries
    }

    /// The place of a server's entry as a JSON pointer (RFC 6901).
    pub fn pointer(&self, name: &ServerName) -> Option<String> {
        let key = |label: &str| label.replace('~', "~0").replace('/', "~1");
        match self.place(name)? {
            EntryNode::Member(member) => {
                let stands_in = member
                    .parent()?
                    .parent()?
                    .as_object_prop()?
                    .decoded_name()?;
                Some(format!("/{stands_in}/{}", key(&member.decoded_name()?)))
            }
            EntryNode::Element(element) => Some(format!("/servers/{}", element.element_index()?)),
        }
    }

    /// Sets the entry of a server. A new server is added at the end.
    pub fn put(&self, name: &ServerName, entry: &Entry) -> Result<(), EditError> {
        let place = self.only_place(name)?;
        if let Some(node) = place.as_ref().and_then(EntryNode::node) {
            let mut entry = entry.clone();
            if let (Some(EntryNode::Element(_)), Some(label)) = (
                place,
                self.entry(name)
                    .and_then(|entry| entry.get("name").cloned()),
            ) {
                entry.shift_insert(0, "name".to_owned(), label);
            }
            return replace(&node, &Value::Object(entry));
        }
        match self
            .shelves()
            .into_iter()
            .next()
            .ok_or(EditError::NoServers)?
        {
            Shelf::Map(servers) => {
                servers.append(name.as_str(), input(&Value::Object(entry.clone())));
            }
            Shelf::List(servers) => {
                let mut entry = entry.clone();
                entry.shift_insert(0, "name".to_owned(), name.as_str().into());
                servers.ensure_multiline();
                servers.append(input(&Value::Object(entry)));
            }
        }
        Ok(())
    }

    pub fn remove(&self, name: &ServerName) -> Result<(), EditError> {
        match self
            .only_place(name)?
            .ok_or_else(|| EditError::NotThere(name.clone()))?
        {
            EntryNode::Member(member) => member.remove(),
            EntryNode::Element(element) => element.remove(),
        }
        Ok(())
    }

    /// Enables or disables a server in its entry, by the key that the entry already uses.
    pub fn switch(&self, name: &ServerName, enabled: bool) -> Result<(), EditError> {
        let place = self.only_place(name)?;
        let entry = place.and_then(|place| place.node()?.as_object());
        let entry = entry.ok_or_else(|| EditError::NotThere(name.clone()))?;
        let switches = [("enabled", enabled), ("disabled", !enabled)]
            .into_iter()
            .filter_map(|(key, value)| Some((entry.get(key)?, value)));
        let mut is_set = false;
        for (member, value) in switches {
            member.set_value(value.into());
            is_set = true;
        }
        // A server with neither key is enabled.
        if !is_set && !enabled {
            entry.append("enabled", false.into());
        }
        Ok(())
    }

    /// Replaces the whole document by this value. Equal parts stay unchanged. An object whose members
    /// change their order is rewritten, and loses its comments.
    pub fn become_value(&self, new: &Value) -> Result<(), EditError> {
        match self.root.value() {
            Some(node) => replace(&node, new),
            None => {
                self.root.set_value(input(new));
                Ok(())
            }
        }
    }

    /// The containers of servers, `mcpServers` first. A new server is added to the first container.
    fn shelves(&self) -> Vec<Shelf> {
        let Some(root) = self.root.object_value() else {
            return Vec::new();
        };
        let under = |key| {
            let node = root.get(key)?.value()?;
            let map = node.as_object().map(Shelf::Map);
            map.or_else(|| Some(Shelf::List(node.as_array()?)))
        };
        ["mcpServers", "servers"]
            .into_iter()
            .filter_map(under)
            .collect()
    }

    fn place(&self, name: &ServerName) -> Option<EntryNode> {
        self.places(name).into_iter().next()
    }

    /// The place of a server's entry, for a change. A name that occurs twice is an error.
    fn only_place(&self, name: &ServerName) -> Result<Option<EntryNode>, EditError> {
        let mut places = self.places(name).into_iter();
        match (places.next(), places.next()) {
            (_, Some(_)) => Err(EditError::Repeated(name.to_string())),
            (place, None) => Ok(place),
        }
    }

    fn places(&self, name: &ServerName) -> Vec<EntryNode> {
        let is_named =
            |label: &str| server_name::adopt(label).is_ok_and(|(adopted, _)| adopted == *name);
        let of_shelf = |shelf| -> Vec<EntryNode> {
            match shelf {
                Shelf::Map(servers) => {
                    let members = servers.properties().into_iter();
                    members
                        .filter(|member| {
                            member.decoded_name().is_some_and(|label| is_named(&label))
                        })
                        .map(EntryNode::Member)
                        .collect()
                }
                Shelf::List(servers) => {
                    let label = |node: &CstNode| {
                        value(&node.as_object()?.get("name")?.value()?)?
                            .as_str()
                            .map(str::to_owned)
                    };
                    let elements = servers.elements().into_iter();
                    elements
                        .filter(|node| label(node).is_some_and(|label| is_named(&label)))
                        .map(EntryNode::Element)
                        .collect()
                }
            }
        };
        self.shelves().into_iter().flat_map(of_shelf).collect()
    }
}

/// The whole text, with a final line break. New lines get the line ending that most lines have.
impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = self.root.to_string();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        write!(f, "{}{}", self.mark, spliced(&self.before, &text))
    }
}

impl EntryNode {
    fn node(&self) -> Option<CstNode> {
        match self {
            Self::Member(member) => member.value(),
            Self::Element(element) => Some(element.clone()),
        }
    }
}

/// Sets the value of a node. Of several members with the same name, only the last one counts. The others
/// stay unchanged.
fn replace(node: &CstNode, new: &Value) -> Result<(), EditError> {
    let old = value(node).ok_or(EditError::NotJson)?;
    if old == *new && same_order(&old, new) {
        return Ok(());
    }
    match (node.as_object(), &old, new) {
        (Some(object), Value::Object(old), Value::Object(new)) if keeps_order(old, new) => {
            return replace_members(&object, old, new);
        }
        _ => {}
    }
    match (node.as_array(), new) {
        (Some(array), Value::Array(new)) if array.elements().len() == new.len() => {
            for (element, new) in array.elements().iter().zip(new) {
                replace(element, new)?;
            }
            Ok(())
        }
        _ => match repeated_name(node) {
            Some(name) => Err(EditError::Repeated(name)),
            None => put_in_place(node, input(new)).ok_or(EditError::NotJson),
        },
    }
}

fn replace_members(object: &CstObject, old: &Entry, new: &Entry) -> Result<(), EditError> {
    let mut later_names = HashSet::new();
    for member in object.properties().into_iter().rev() {
        let name = member.decoded_name().ok_or(EditError::NotJson)?;
        let counts = later_names.insert(name.clone());
        match new.get(&name) {
            Some(new) if counts => replace(&member.value().ok_or(EditError::NotJson)?, new)?,
            Some(_) => {}
            None if counts => member.remove(),
            // Without this member, the earlier one of the same name would count.
            None => return Err(EditError::Repeated(name)),
        }
    }
    for (key, new) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        object.append(key, input(new));
    }
    Ok(())
}

/// A name that occurs twice in one object, in this node or below it.
fn repeated_name(node: &CstNode) -> Option<String> {
    if let Some(object) = node.as_object() {
        let mut earlier_names = HashSet::new();
        return object.properties().into_iter().find_map(|member| {
            let name = member.decoded_name()?;
            if !earlier_names.insert(name.clone()) {
                return Some(name);
            }
            repeated_name(&member.value()?)
        });
    }
    let elements = node.as_array()?.elements();
    elements.iter().find_map(repeated_name)
}

fn put_in_place(node: &CstNode, new: CstInputValue) -> Option<()> {
    use jsonc_parser::cst::{CstContainerNode, CstLeafNode};
    match node.clone() {
        CstNode::Container(CstContainerNode::Object(node)) => node.replace_with(new),
        CstNode::Container(CstContainerNode::Array(node)) => node.replace_with(new),
        CstNode::Leaf(CstLeafNode::StringLit(node)) => node.replace_with(new),
        CstNode::Leaf(CstLeafNode::NumberLit(node)) => node.replace_with(new),
        CstNode::Leaf(CstLeafNode::BooleanLit(node)) => node.replace_with(new),
        CstNode::Leaf(CstLeafNode::NullKeyword(node)) => node.replace_with(new),
        _ => None,
    }
    .map(|_| ())
}

/// True if the common members keep their order and the new members follow them.
fn keeps_order(old: &Entry, new: &Entry) -> bool {
    let staying = old.keys().filter(|key| new.contains_key(*key));
    let added = new.keys().filter(|key| !old.contains_key(*key));
    staying.chain(added).eq(new.keys())
}

/// True if objects have their members in the same order. The comparison of maps ignores the order, but the
/// order of servers has a meaning.
fn same_order(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.keys().eq(new.keys())
                && old
                    .values()
                    .zip(new.values())
                    .all(|(old, new)| same_order(old, new))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.iter().zip(new).all(|(old, new)| same_order(old, new))
        }
        _ => true,
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(elements) => CstInputValue::Array(elements.iter().map(input).collect()),
        Value::Object(members) => {
            let inputs = members
                .iter()
                .map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(inputs.collect())
        }
    }
}

/// A node as JSON.
fn value(node: &CstNode) -> Option<Value> {
    if let Some(object) = node.as_object() {
        let members = object.properties().into_iter();
        let members =
            members.map(|member| Some((member.decoded_name()?, value(&member.value()?)?)));
        return members.collect::<Option<Entry>>().map(Value::Object);
    }
    if let Some(array) = node.as_array() {
        let elements = array.elements();
        return elements
            .iter()
            .map(value)
            .collect::<Option<Vec<_>>>()
            .map(Value::Array);
    }
    if let Some(text) = node.as_string_lit() {
        return text.decoded_value().ok().map(Value::String);
    }
    if let Some(flag) = node.as_boolean_lit() {
        return Some(flag.value().into());
    }
    if node.as_null_keyword().is_some() {
        return Some(Value::Null);
    }
    number(&node.as_number_lit()?.to_string())
}

/// Reads a number in the syntax of JSON5, such as `+1` or `0x1f`.
pub(super) fn number(text: &str) -> Option<Value> {
    let without_plus = text.strip_prefix('+').unwrap_or(text);
    if let Ok(number) = serde_json::from_str(without_plus) {
        return Some(number);
    }
    let hex = without_plus.to_ascii_lowercase();
    let number = match hex.strip_prefix("0x") {
        Some(digits) => return u64::from_str_radix(digits, 16).ok().map(Value::from),
        None => without_plus.parse::<f64>().ok()?,
    };
    serde_json::Number::from_f64(number).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> ServerName {
        ServerName::new(text).expect("a legal name")
    }

    fn entry(value: Value) -> Entry {
        match value {
            Value::Object(entry) => entry,
            other => panic!("no entry: {other}"),
        }
    }

    fn read(text: &str) -> Document {
        Document::read(text, Syntax::Jsonc).expect(text)
    }

    const NOTED: &str = "// mine\n{\n  \"naming\": 'slash', // for now\n  mcpServers: {\n    // files of the house\n    \"fs\": {\"command\": \"npx\",   \"args\": [1, 0x10, +2.5]},\n    \"db\": {\n      \"url\": \"http://h\" // home\n    },\n  },\n}\n";

    #[test]
    fn what_is_not_meant_stays_to_the_byte() {
        let document = read(NOTED);
        document
            .put(&name("new"), &entry(json!({"command": "x", "args": ["a"]})))
            .expect("put");
        let new = "    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"a\"],\n    },\n  },\n}\n";
        assert_eq!(document.to_string(), NOTED.replace("  },\n}\n", new));
        document.remove(&name("new")).expect("removed");
        assert_eq!(document.to_string(), NOTED);
        document
            .become_value(&document.value().expect("JSON"))
            .expect("the same");
        assert_eq!(document.to_string(), NOTED);
    }

    #[test]
    fn each_shape_stays_what_it_is() {
        for (before, after) in [
            (
                EMPTY,
                "{\n  \"mcpServers\": {\n    \"s\": {\n      \"url\": \"http://h\"\n    }\n  }\n}\n",
            ),
            (
                r#"{"servers": {}}"#,
                "{\"servers\": {\n    \"s\": {\n      \"url\": \"http://h\"\n    }\n  }}\n",
            ),
            (
                "{\n  \"servers\": [\n    {\"name\": \"a\", \"command\": \"x\"}\n  ]\n}\n",
                "{\n  \"servers\": [\n    {\"name\": \"a\", \"command\": \"x\"},\n    {\n      \"name\": \"s\",\n      \"url\": \"http://h\"\n    }\n  ]\n}\n",
            ),
        ] {
            let document = read(before);
            document
                .put(&name("s"), &entry(json!({"url": "http://h"})))
                .expect("put");
            assert_eq!(document.to_string(), after);
            let there = document.pointer(&name("s")).expect("there");
            let value = document.value().expect("JSON");
            assert_eq!(
                value.pointer(&there).and_then(Value::as_object),
                document.entry(&name("s")).as_ref()
            );
            document
                .put(&name("s"), &entry(json!({"url": "http://i"})))
                .expect("put again");
            assert_eq!(document.to_string(), after.replace("http://h", "http://i"));
            document.remove(&name("s")).expect("removed");
            assert_eq!(document.value(), read(before).value());
        }
        assert_eq!(
            read("{}").put(&name("s"), &Entry::new()),
            Err(EditError::NoServers)
        );
    }

    #[test]
    fn a_switch_uses_the_key_that_is_there() {
        let switched = |before: &str, enabled| {
            let document = read(&format!(r#"{{"mcpServers": {{"s": {before}}}}}"#));
            document.switch(&name("s"), enabled).expect("there");
            Value::Object(document.entry(&name("s")).expect("there"))
        };
        assert_eq!(
            switched(r#"{"url": "u"}"#, false),
            json!({"url": "u", "enabled": false})
        );
        assert_eq!(switched(r#"{"url": "u"}"#, true), json!({"url": "u"}));
        assert_eq!(
            switched(r#"{"disabled": true}"#, true),
            json!({"disabled": false})
        );
        assert_eq!(
            switched(r#"{"enabled": true}"#, false),
            json!({"enabled": false})
        );
        assert_eq!(
            read(NOTED).switch(&name("x"), true),
            Err(EditError::NotThere(name("x")))
        );
    }

    /// A server is found by its adopted name.
    #[test]
    fn a_label_that_becomes_a_slug_is_found() {
        let document = read(r#"{"mcpServers": {"My Server": {"url": "u"}}}"#);
        document.switch(&name("My-Server"), false).expect("there");
        assert_eq!(
            document.pointer(&name("My-Server")).as_deref(),
            Some("/mcpServers/My Server")
        );
        assert!(document.to_string().contains(r#""My Server""#));
    }

    #[test]
    fn another_order_is_written_and_comments_elsewhere_stay() {
        let document = read(NOTED);
        let mut value = document.value().expect("JSON");
        let servers = value["mcpServers"].as_object_mut().expect("a map");
        let fs = servers.shift_remove("fs").expect("there");
        servers.insert("fs".to_owned(), fs);
        document.become_value(&value).expect("JSON");
        let text = document.to_string();
        assert!(
            text.contains("// for now") && text.contains("// mine"),
            "{text}"
        );
        assert!(text.find("\"db\"") < text.find("\"fs\""), "{text}");
        assert_eq!(read(&text).value(), Ok(value));
    }

    #[test]
    fn a_name_that_stands_twice_loses_nothing() {
        let text = "{\n  \"a\": {\"x\": 1, \"y\": 2},\n  \"a\": {\"z\": 3},\n  \"b\": 1\n}\n";
        let changed = |value: Value| {
            let document = read(text);
            document.become_value(&value).map(|()| document.to_string())
        };
        // Everything but the changed values stays.
        let text_with = |a: &str, b: &str| text.replace("\"z\": 3", a).replace("\"b\": 1", b);
        assert_eq!(
            changed(json!({"a": {"z": 3}, "b": 2})),
            Ok(text_with("\"z\": 3", "\"b\": 2"))
        );
        assert_eq!(
            changed(json!({"a": {"z": 4}, "b": 1})),
            Ok(text_with("\"z\": 4", "\"b\": 1"))
        );
        // Neither of two members with one name is lost silently.
        let repeated = Err(EditError::Repeated("a".to_owned()));
        assert_eq!(changed(json!({"b": 1})), repeated);
        assert_eq!(changed(json!({"b": 1, "a": {"z": 3}})), repeated);
        assert_eq!(changed(json!([])), repeated);
    }

    #[test]
    fn a_server_that_stands_twice_is_not_changed() {
        for text in [
            r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "a": {"command": "z"}}}"#,
            r#"{"servers": [{"name": "a", "command": "x"}, {"name": "a", "command": "z"}]}"#,
        ] {
            let repeated = Err(EditError::Repeated("a".to_owned()));
            let document = read(text);
            let new = entry(json!({"command": "n"}));
            assert_eq!(document.put(&name("a"), &new), repeated);
            assert_eq!(document.remove(&name("a")), repeated);
            assert_eq!(document.switch(&name("a"), false), repeated);
            assert_eq!(document.to_string().trim_end(), text);
        }
    }
}
