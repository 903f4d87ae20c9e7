//! `x-mcp-header`: tool parameters that a request repeats in headers.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::value::encode;
use crate::message;

/// The keyword in a tool's input schema that names the header of a parameter.
pub const ANNOTATION: &str = "x-mcp-header";
/// Schema keywords whose values are plain data, so that annotations inside do not count.
const DATA_KEYWORDS: [&str; 4] = ["default", "const", "enum", "examples"];

/// A tool parameter with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The full name, such as `Mcp-Param-Region`.
    pub header: String,
    /// The path of the parameter in the arguments.
    pub path: Vec<String>,
}

/// The reason that a tool's input schema is invalid. The tool is then not listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    #[error("x-mcp-header is not a header name at {0:?}")]
    Name(String),
    #[error("x-mcp-header occurs twice as {0:?}")]
    Twice(String),
    #[error("x-mcp-header is allowed for integer, string and boolean alone, not at {0:?}")]
    Type(String),
    #[error("x-mcp-header stands where no chain of properties leads, at {0:?}")]
    Unreachable(String),
}

/// Returns the annotated parameters of an `inputSchema` (JSON text), in its order.
pub fn param_headers(input_schema: &str) -> Result<Vec<ParamHeader>, InvalidHeader> {
    // Fast path: most schemas have no annotation. An escape could hide one.
    if !input_schema.contains(ANNOTATION) && !input_schema.contains("\\u") {
        return Ok(Vec::new());
    }
    let schema: Value = message::foreign::read(input_schema).unwrap_or_default();
    let mut search = FoundHeaders::default();
    search.walk(&schema, true)?;
    Ok(search.headers)
}

#[derive(Default)]
struct FoundHeaders {
    headers: Vec<ParamHeader>,
    /// The names of the properties that lead to the current schema.
    path: Vec<String>,
}

impl FoundHeaders {
    fn walk(&mut self, schema: &Value, reachable: bool) -> Result<(), InvalidHeader> {
        match schema {
            Value::Object(keywords) => keywords.iter().try_for_each(|(keyword, value)| {
                match (keyword.as_str(), value) {
                    (ANNOTATION, name) if reachable => self.annotated(keywords, name),
                    (ANNOTATION, _) => Err(InvalidHeader::Unreachable(self.place())),
                    ("properties", Value::Object(properties)) => {
                        self.properties(properties, reachable)
                    }
                    // Here, the keys are names and not keywords.
                    (
                        "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                        Value::Object(schemas),
                    ) => schemas
                        .values()
                        .try_for_each(|schema| self.walk(schema, false)),
                    (keyword, _) if DATA_KEYWORDS.contains(&keyword) => Ok(()),
                    _ => self.walk(value, false),
                }
            }),
            Value::Array(schemas) => schemas
                .iter()
                .try_for_each(|schema| self.walk(schema, false)),
            _ => Ok(()),
        }
    }

    fn properties(
        &mut self,
        properties: &Map<String, Value>,
        reachable: bool,
    ) -> Result<(), InvalidHeader> {
        for (name, schema) in properties {
            self.path.push(name.clone());
            self.walk(schema, reachable)?;
            self.path.pop();
        }
        Ok(())
    }

    fn annotated(
        &mut self,
        schema: &Map<String, Value>,
        name: &Value,
    ) -> Result<(), InvalidHeader> {
        if self.path.is_empty() {
            return Err(InvalidHeader::Unreachable(self.place()));
        }
        let name = name.as_str().filter(|name| is_token(name));
        let name = name.ok_or_else(|| InvalidHeader::Name(self.place()))?;
        if !is_mirrored(schema.get("type")) {
            return Err(InvalidHeader::Type(self.place()));
        }
        let header = format!("Mcp-Param-{name}");
        if self
            .headers
            .iter()
            .any(|other| other.header.eq_ignore_ascii_case(&header))
        {
            return Err(InvalidHeader::Twice(name.to_owned()));
        }
        self.headers.push(ParamHeader {
            header,
            path: self.path.clone(),
        });
        Ok(())
    }

    fn place(&self) -> String {
        self.path.join(".")
    }
}

/// True for the type integer, string or boolean, also together with `null`. A parameter that is
/// null has no header.
fn is_mirrored(kind: Option<&Value>) -> bool {
    let is_mirrored_type =
        |kind: &Value| matches!(kind.as_str(), Some("integer" | "string" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut other_types = kinds.iter().filter(|kind| *kind != "null");
            other_types.next().is_some_and(is_mirrored_type) && other_types.next().is_none()
        }
        kind => kind.is_some_and(is_mirrored_type),
    }
}

/// True for a header name: `1*tchar` (RFC 9110, 5.6.2).
fn is_token(name: &str) -> bool {
    let is_token_character =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_character)
}

/// The value of a parameter that has a header.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Primitive<'a> {
    /// A number as JSON text.
    Number(&'a str),
    Text(Cow<'a, str>),
    Boolean(&'static str),
}

impl Primitive<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => decimal(number),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Boolean(text) => Cow::Borrowed(text),
        }
    }

    /// True if the header has this value. Numbers compare by value: `42` equals `42.0`.
    pub(super) fn equals(&self, header: &str) -> bool {
        self.text() == header
            || matches!(self, Self::Number(number) if decimal(number) == decimal(header))
    }
}

/// Writes a whole number (`42.0`, `4.2e1`) without fraction and exponent. Other numbers stay
/// unchanged, as do numbers that a double cannot represent exactly.
fn decimal(number: &str) -> Cow<'_, str> {
    const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
    match serde_json::from_str::<f64>(number) {
        Ok(value) if value.fract() == 0.0 && value.abs() <= MAX_SAFE_INTEGER => {
            // Adding zero turns -0.0 into 0.0.
            Cow::Owned(format!("{:.0}", value + 0.0))
        }
        _ => Cow::Borrowed(number),
    }
}

impl ParamHeader {
    /// The parameter's value in `arguments` (JSON text). `None` if it is absent, null or not
    /// primitive.
    pub(super) fn value<'a>(&self, arguments: &'a str) -> Option<Primitive<'a>> {
        let value = self
            .path
            .iter()
            .try_fold(arguments, |object, name| message::member(object, name))?;
        match value.as_bytes().first()? {
            b'"' => serde_json::from_str(value)
                .ok()
                .map(|text: String| Primitive::Text(text.into())),
            b't' => Some(Primitive::Boolean("true")),
            b'f' => Some(Primitive::Boolean("false")),
            b'-' | b'0'..=b'9' => Some(Primitive::Number(value)),
            _ => None,
        }
    }
}

/// Returns the encoded headers of a call with these `arguments` (JSON text).
pub fn values(params: &[ParamHeader], arguments: &str) -> Vec<(String, String)> {
    params
        .iter()
        .filter_map(|param| {
            let value = param.value(arguments)?;
            Some((param.header.clone(), encode(&value.text()).into_owned()))
        })
        .collect()
}
