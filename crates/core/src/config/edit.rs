//! Edits a configuration's text in place. Everything else keeps its order, its spacing and its
//! comments, and the file keeps its shape.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::{Syntax, lines::spliced, server_name};
use crate::ids::ServerName;

/// What a file means that does not exist.
pub const EMPTY: &str = "{\n  \"mcpServers\": {}\n}\n";

/// The content of a file that is made anew. Its schema stands beside it as [`SCHEMA_FILE`].
pub const NEW: &str = "{\n  \"$schema\": \"./mainstay.schema.json\",\n  \"mcpServers\": {}\n}\n";

/// The name of the schema beside a configuration.
pub const SCHEMA_FILE: &str = "mainstay.schema.json";

/// An entry, as a file has it.
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
}

/// A text being changed.
pub struct Document {
    /// The text as it was, without the mark.
    before: String,
    root: CstRootNode,
    /// Some editors on Windows begin a file with a byte order mark.
    mark: &'static str,
}

/// A server's place in the text.
enum EntryNode {
    Member(CstObjectProp),
    Element(CstNode),
}

/// What servers stand in.
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

    /// All of it as JSON.
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

    /// Where a server's entry stands (RFC 6901).
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

    /// Gives a server this entry; a new one stands last.
    pub fn put(&self, name: &ServerName, entry: &Entry) -> Result<(), EditError> {
        let place = self.place(name);
        if let Some(node) = place.as_ref().and_then(EntryNode::node) {
            let mut entry = entry.clone();
            if let (Some(EntryNode::Element(_)), Some(label)) = (
                place,
                self.entry(name)
                    .and_then(|entry| entry.get("name").cloned()),
            ) {
                entry.shift_insert(0, "name".to_owned(), label);
            }
            return replace(&node, &Value::Object(entry)).ok_or(EditError::NotJson);
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
            .place(name)
            .ok_or_else(|| EditError::NotThere(name.clone()))?
        {
            EntryNode::Member(member) => member.remove(),
            EntryNode::Element(element) => element.remove(),
        }
        Ok(())
    }

    /// Says in an entry whether its server is enabled, by the key that it has for that.
    pub fn switch(&self, name: &ServerName, enabled: bool) -> Result<(), EditError> {
        let entry = self.place(name).and_then(|place| place.node()?.as_object());
        let entry = entry.ok_or_else(|| EditError::NotThere(name.clone()))?;
        let says = [("enabled", enabled), ("disabled", !enabled)]
            .into_iter()
            .filter_map(|(key, value)| Some((entry.get(key)?, value)));
        let mut said = false;
        for (member, value) in says {
            member.set_value(value.into());
            said = true;
        }
        // Without a key for it, a server is enabled.
        if !said && !enabled {
            entry.append("enabled", false.into());
        }
        Ok(())
    }

    /// Makes all of it this value, and leaves alone what says so already. Where members have another
    /// order the object is written anew, without the comments in it.
    pub fn become_value(&self, new: &Value) -> Result<(), EditError> {
        match self.root.value() {
            Some(node) => replace(&node, new).ok_or(EditError::NotJson),
            None => {
                self.root.set_value(input(new));
                Ok(())
            }
        }
    }

    /// `mcpServers` first: a new server goes there.
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
        let is_it =
            |label: &str| server_name::adopt(label).is_ok_and(|(adopted, _)| adopted == *name);
        self.shelves().into_iter().find_map(|shelf| match shelf {
            Shelf::Map(servers) => {
                let mut members = servers.properties().into_iter();
                members
                    .find(|member| member.decoded_name().is_some_and(|label| is_it(&label)))
                    .map(EntryNode::Member)
            }
            Shelf::List(servers) => {
                let label = |node: &CstNode| {
                    value(&node.as_object()?.get("name")?.value()?)?
                        .as_str()
                        .map(str::to_owned)
                };
                let mut elements = servers.elements().into_iter();
                elements
                    .find(|node| label(node).is_some_and(|label| is_it(&label)))
                    .map(EntryNode::Element)
            }
        })
    }
}

/// The whole text, ending with a line break. New lines end as most others do.
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

/// Makes a node this value; `None` if what stands there is no JSON.
fn replace(node: &CstNode, new: &Value) -> Option<()> {
    let old = value(node)?;
    if old == *new && same_order(&old, new) {
        return Some(());
    }
    match (node.as_object(), &old, new) {
        (Some(object), Value::Object(old), Value::Object(new)) if keeps_order(old, new) => {
            for member in object.properties() {
                match member.decoded_name().and_then(|key| new.get(&key)) {
                    Some(new) => replace(&member.value()?, new)?,
                    None => member.remove(),
                }
            }
            for (key, new) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                object.append(key, input(new));
            }
            return Some(());
        }
        _ => {}
    }
    match (node.as_array(), new) {
        (Some(array), Value::Array(new)) if array.elements().len() == new.len() => {
            for (element, new) in array.elements().iter().zip(new) {
                replace(element, new)?;
            }
        }
        _ => put_in_place(node, input(new))?,
    }
    Some(())
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

/// Whether the members that both have stand in one order, and new ones after them.
fn keeps_order(old: &Entry, new: &Entry) -> bool {
    let staying = old.keys().filter(|key| new.contains_key(*key));
    let added = new.keys().filter(|key| !old.contains_key(*key));
    staying.chain(added).eq(new.keys())
}

/// Maps compare equal in any order, and the order of servers has a meaning.
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
            let members = members
                .iter()
                .map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(members.collect())
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

/// With JSON5's liberties.
pub(super) fn number(text: &str) -> Option<Value> {
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(number) = serde_json::from_str(plain) {
        return Some(number);
    }
    let hex = plain.to_ascii_lowercase();
    let number = match hex.strip_prefix("0x") {
        Some(digits) => return u64::from_str_radix(digits, 16).ok().map(Value::from),
        None => plain.parse::<f64>().ok()?,
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

    /// A server is found by the name under which Mainstay knows it.
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
}
