//! The shape of a configuration: the keys of each object, and their possible values.
//!
//! The parser and the JSON Schema share the shape. Debug builds check that [`crate::read::fields::Fields`] takes
//! only keys of the shape, and that each reader of a value matches the shape of its key. So a key that is read
//! but is not in the schema fails the first test that reads it.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::words::settings::Field;

/// The identifier of the schema. It is not an address: editors find the schema by its path in the folder of
/// the configuration (`edit::SCHEMA_FILE`). That needs no network, and the version is always right.
const ID: &str = "urn:mainstay:config";

/// The possible values of a key or an element. A member that is `null` counts as absent.
#[derive(Debug)]
pub(crate) enum ValueShape {
    Any,
    /// `null`, which removes an inherited value.
    Null,
    Text,
    Flag,
    /// A text, or a number or boolean that is read as one.
    Scalar,
    /// A whole number within this range. `None` means that there is no maximum.
    Whole(u32, Option<u32>),
    Number(f64, f64),
    /// A time, at most a year.
    Time(Least),
    /// One of a few words.
    Words(&'static [&'static str]),
    List(&'static ValueShape),
    Map(&'static ValueShape),
    Object(&'static ObjectShape),
    /// One of several shapes.
    Either(&'static [ValueShape]),
}

/// The minimum of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    AboveZero,
    /// This number of milliseconds.
    Of(u32),
}

/// An object with known keys.
#[derive(Debug)]
pub(crate) struct ObjectShape {
    /// A name that no other object has, for references.
    pub name: &'static str,
    pub keys: &'static [&'static [KeyRow]],
    /// Keys of other programs that have no effect here.
    pub foreign: &'static [&'static [&'static str]],
    /// Keys that should have an effect, but are not supported by this version.
    pub later: &'static [&'static str],
    /// Keys of which one is required.
    pub required: &'static [&'static str],
    /// True if unknown keys are allowed, because other programs have their own keys here.
    pub open: bool,
}

#[derive(Debug)]
pub(crate) struct KeyRow {
    /// One name, or several with the same meaning.
    pub names: &'static [&'static str],
    pub shape: ValueShape,
    /// The meaning of the key, for people who write the file.
    pub about: &'static str,
    /// The field that holds the setting, if there is one.
    pub field: Option<Field>,
    /// The object and the key of which this key is an alias.
    pub alias_of: Option<(&'static str, &'static str)>,
    /// The time at which a change takes effect. `None` for keys of servers, and for keys that are read
    /// whenever they are needed.
    pub takes_effect: Option<TakesEffect>,
    /// True if other MCP clients have the key in their files, too.
    pub is_of_clients: bool,
    /// The possible values in words, for the documentation, if the shape does not show all.
    pub value_words: Option<&'static str>,
    /// The default in words, for the documentation, if no field has it.
    pub default_words: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    Now,
    /// At the next start of Mainstay.
    AtRestart,
}

impl ObjectShape {
    pub fn all_keys(&self) -> impl Iterator<Item = &'static KeyRow> + use<> {
        self.keys.iter().copied().flatten()
    }

    pub fn key(&self, name: &str) -> Option<&'static KeyRow> {
        self.all_keys().find(|key| key.names.contains(&name))
    }
}

impl ValueShape {
    /// True if this shape, or one of its alternatives, satisfies `is_such`.
    pub fn admits(&self, is_such: &dyn Fn(&Self) -> bool) -> bool {
        match self {
            Self::Either(shapes) => shapes.iter().any(|shape| shape.admits(is_such)),
            shape => matches!(shape, Self::Any) || is_such(shape),
        }
    }

    /// The minimum and the maximum of a whole number.
    pub fn range(&self) -> Option<(u32, Option<u32>)> {
        match self {
            Self::Whole(least, most) => Some((*least, *most)),
            _ => None,
        }
    }

    /// The shape of elements, if this is a list.
    pub fn element(&self) -> Option<&'static Self> {
        self.find(&|shape| match shape {
            Self::List(element) => Some(*element),
            _ => None,
        })
    }

    /// The shape of a member of this name.
    pub fn member(&self, name: &str) -> Option<&'static Self> {
        self.find(&|shape| match shape {
            Self::Map(value) => Some(*value),
            Self::Object(object) => object.key(name).map(|key| &key.shape),
            _ => None,
        })
    }

    /// The object with known keys, if a value may be one.
    pub fn object(&self) -> Option<&'static ObjectShape> {
        match self {
            Self::Object(object) => Some(object),
            Self::Either(shapes) => shapes.iter().find_map(Self::object),
            _ => None,
        }
    }

    fn find(&self, look: &dyn Fn(&Self) -> Option<&'static Self>) -> Option<&'static Self> {
        match self {
            Self::Either(shapes) => shapes.iter().find_map(|shape| shape.find(look)),
            shape => look(shape),
        }
    }

    /// The possible values, in words. The unit of a number follows from the key's name.
    pub fn words(&self, key: &str) -> String {
        let whole = match key {
            _ if key.ends_with("Bytes") => "bytes",
            _ if key.ends_with("Ms") => "milliseconds",
            _ if key.ends_with("Days") => "days",
            _ => "a whole number",
        };
        match self {
            Self::Any => "anything".to_owned(),
            Self::Null => "`null`".to_owned(),
            Self::Text => "a string".to_owned(),
            Self::Flag => "a boolean".to_owned(),
            Self::Scalar => "a string, a number or a boolean".to_owned(),
            Self::Whole(least, None) => format!("{whole}, at least {least}"),
            Self::Whole(least, Some(most)) => format!("{whole}, from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Time(Least::AboveZero) => "milliseconds, above 0".to_owned(),
            Self::Time(Least::Of(0)) => "milliseconds".to_owned(),
            Self::Time(Least::Of(least)) => format!("milliseconds, at least {least}"),
            Self::Words(words) => {
                let quoted = words.iter().map(|word| format!("`\"{word}\"`"));
                quoted.collect::<Vec<_>>().join(", ")
            }
            Self::List(Self::Text) => "an array of strings".to_owned(),
            Self::List(Self::Words(_)) => "an array of words".to_owned(),
            Self::List(_) => "an array".to_owned(),
            Self::Map(_) | Self::Object(_) => "an object".to_owned(),
            Self::Either(shapes) => {
                let alternatives = shapes.iter().map(|shape| shape.words(key));
                alternatives.collect::<Vec<_>>().join(", or ")
            }
        }
    }

    /// The JSON Schema of the shape. It refers to objects by name, and adds their schemas to `objects`.
    fn schema(&self, objects: &mut Objects) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Null => json!({"type": "null"}),
            Self::Text => json!({"type": "string"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Scalar => json!({"type": ["string", "number", "boolean"]}),
            Self::Whole(least, None) => json!({"type": "integer", "minimum": least}),
            Self::Whole(least, Some(most)) => {
                json!({"type": "integer", "minimum": least, "maximum": most})
            }
            Self::Number(least, most) => {
                json!({"type": "number", "minimum": least, "maximum": most})
            }
            Self::Time(Least::AboveZero) => json!({"type": "number", "exclusiveMinimum": 0}),
            Self::Time(Least::Of(least)) => json!({"type": "number", "minimum": least}),
            Self::Words(words) => json!({"enum": words}),
            Self::List(element) => json!({"type": "array", "items": element.schema(objects)}),
            Self::Map(value) => {
                json!({"type": "object", "additionalProperties": value.schema(objects)})
            }
            Self::Object(object) => {
                object.collect(objects);
                json!({"$ref": format!("#/$defs/{}", object.name)})
            }
            Self::Either(shapes) => {
                let schemas = shapes.iter().map(|shape| shape.schema(objects));
                json!({"anyOf": schemas.collect::<Vec<_>>()})
            }
        }
    }
}

impl ObjectShape {
    fn collect(&self, objects: &mut Objects) {
        if objects.schemas.contains_key(self.name) {
            return;
        }
        // Reserve the name first, because an object may have a member of its own kind.
        objects.schemas.insert(self.name.to_owned(), Value::Null);
        let schema = self.schema(objects);
        objects.schemas.insert(self.name.to_owned(), schema);
    }

    fn schema(&self, objects: &mut Objects) -> Value {
        let mut properties = Map::new();
        for key in self.all_keys() {
            let mut schema = json!({"anyOf": [key.shape.schema(objects), {"type": "null"}]});
            schema["description"] = key.description(&(objects.default_of)(key)).into();
            for name in key.names {
                properties.insert((*name).to_owned(), schema.clone());
            }
        }
        for name in self.foreign.iter().copied().flatten().chain(self.later) {
            let passed = json!({"description": "Of other programs, or of a later version."});
            properties.entry(*name).or_insert(passed);
        }
        let mut schema = json!({
            "type": "object",
            "properties": properties,
        });
        if !self.open {
            // People write notes under such keys, and tools the URL of a schema.
            schema["patternProperties"] = json!({"^([$_]|//)": true});
            schema["additionalProperties"] = false.into();
        }
        if !self.required.is_empty() {
            let each = self.required.iter().map(|key| json!({"required": [key]}));
            schema["anyOf"] = each.collect();
        }
        schema
    }
}

/// The schemas of objects that are written so far, by name.
struct Objects {
    schemas: Map<String, Value>,
    default_of: fn(&KeyRow) -> Value,
}

impl KeyRow {
    /// The meaning of the key, its unit and its default, without Markdown's links.
    fn description(&self, default: &Value) -> String {
        let mut text = without_links(self.about);
        let is_number = |shape: &ValueShape| {
            matches!(
                shape,
                ValueShape::Whole(..) | ValueShape::Number(..) | ValueShape::Time(_)
            )
        };
        let value = match self.value_words {
            Some(words) => Some(without_links(words)),
            None => is_number(&self.shape).then(|| self.shape.words(self.names[0])),
        };
        if let Some(value) = value {
            let (first, rest) = value.split_at(1);
            let _ = write!(text, " {}{rest}.", first.to_uppercase());
        }
        if let Some(default) = self.default_words {
            let _ = write!(text, " Default: {default}.");
        } else if !default.is_null() {
            let _ = write!(text, " Default: {default}.");
        }
        text
    }
}

/// Returns the text without links and their targets, for places that cannot follow a link.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('[') {
        let link = behind.split_once(']').and_then(|(words, target)| {
            let (_, behind) = target.strip_prefix('(')?.split_once(')')?;
            Some((words, behind))
        });
        let see = before.strip_suffix("; see ");
        plain.push_str(see.filter(|_| link.is_some()).unwrap_or(before));
        match link {
            Some((words, _)) if see.is_none() => plain.push_str(words),
            Some(_) => {}
            None => plain.push('['),
        }
        rest = link.map_or(behind, |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain.replace("; see below", "").replace(", see below", "")
}

/// The JSON Schema (draft 2020-12) of a file with this object at the top.
pub(crate) fn document(file: &ObjectShape, default_of: fn(&KeyRow) -> Value) -> Value {
    let mut objects = Objects {
        schemas: Map::new(),
        default_of,
    };
    let file = file.schema(&mut objects);
    let mut objects = objects.schemas;
    objects.sort_keys();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Configuration of Mainstay",
        "description": "MCP servers, and how Mainstay keeps them up. See docs/configuration.md.",
    });
    if let (Value::Object(schema), Value::Object(file)) = (&mut schema, file) {
        schema.extend(file);
        schema.insert("$defs".to_owned(), objects.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{ConfigSource, Syntax, UnreadableFile, UnreadableSecret, parse, schema_text};

    struct Nowhere;

    impl crate::Environment for Nowhere {
        fn var(&self, _: &str) -> Option<String> {
            None
        }

        fn read_file(&self, _: &Path) -> Result<String, UnreadableFile> {
            Err(UnreadableFile::Absent)
        }

        fn secret(&self, _: &str) -> Result<mainstay_core::config::Secret, UnreadableSecret> {
            Err(UnreadableSecret::Absent)
        }

        fn home_dir(&self) -> Option<std::path::PathBuf> {
            None
        }
    }

    /// Makes a value of this shape. Of several shapes, takes an object if there is one, else the first.
    fn sample(shape: &ValueShape) -> Value {
        match shape {
            ValueShape::Any | ValueShape::Text | ValueShape::Scalar => json!("x"),
            ValueShape::Null => Value::Null,
            ValueShape::Flag => json!(true),
            ValueShape::Whole(least, _) => json!(least),
            ValueShape::Number(least, _) => json!(least),
            ValueShape::Time(_) => json!(1000),
            ValueShape::Words(words) => json!(words[0]),
            ValueShape::List(element) => json!([sample(element)]),
            ValueShape::Map(value) => json!({"x": sample(value)}),
            ValueShape::Object(object) => {
                let members = object
                    .all_keys()
                    .flat_map(|key| key.names.iter().map(|name| (name, &key.shape)));
                let members = members.map(|(name, shape)| ((*name).to_owned(), sample(shape)));
                Value::Object(members.collect())
            }
            ValueShape::Either(shapes) => {
                let objects = shapes.iter().find(|shape| shape.object().is_some());
                sample(objects.unwrap_or(&shapes[0]))
            }
        }
    }

    /// `Fields::take` checks the other direction, in every test that parses a file.
    #[test]
    fn every_key_of_the_schema_is_read() {
        let mut file = sample(&crate::words::FILE_SHAPE);
        let remote = file["mcpServers"]["x"].as_object_mut().expect("an entry");
        let mut process = remote.clone();
        for key in ["url", "serverUrl", "httpUrl", "remoteUrl"] {
            process.remove(key);
        }
        remote.remove("command");
        for entry in [&mut process, remote] {
            // A stated transport would override the other keys of the entry.
            for key in ["type", "transport", "transportType", "serverType"] {
                entry.remove(key);
            }
        }
        file["mcpServers"]["y"] = process.into();
        let text = file.to_string();
        let source = ConfigSource {
            syntax: Syntax::Json,
            path: Path::new("/servers.json"),
            is_of_clients: false,
        };
        let mut unread: Vec<String> = Vec::new();
        let mut note = |path: &str, message: &str| {
            if message == "unknown key" {
                unread.push(path.to_owned());
            }
        };
        // A file with errors reports no warnings, so remove the wrong values one by one.
        let mut file = file;
        loop {
            match parse(&file.to_string(), &source, &Nowhere) {
                Ok(parsed) => {
                    parsed
                        .warnings
                        .iter()
                        .for_each(|warning| note(&warning.path, &warning.message));
                    break;
                }
                Err(errors) => {
                    let error = errors.0.iter().find(|error| !error.path.is_empty());
                    let error = error.unwrap_or_else(|| panic!("{errors:?}: {text}"));
                    remove(&mut file, &error.path);
                }
            }
        }
        assert_eq!(unread, Vec::<String>::new());
    }

    /// Removes the value at a path such as `mcpServers.x.args[0]`.
    fn remove(file: &mut Value, path: &str) {
        let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
        let (parent, last) = pointer.rsplit_once('/').expect("a path");
        match file.pointer_mut(parent).unwrap_or_else(|| panic!("{path}")) {
            Value::Object(members) => drop(members.shift_remove(last)),
            Value::Array(elements) => {
                elements.remove(last.parse().expect("an index"));
            }
            other => panic!("{path}: {other}"),
        }
    }

    #[test]
    fn the_committed_schema_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
        let current = schema_text();
        if std::env::var_os("MAINSTAY_WRITE_SCHEMA").is_some() {
            std::fs::write(&path, &current).expect("written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == current,
            "docs/config.schema.json is out of date; write it with MAINSTAY_WRITE_SCHEMA=1 cargo test -p mainstay-config schema"
        );
    }
}
