//! `x-mcp-header`: parameters of a tool that are repeated in headers.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::value::encode;
use crate::message;

/// The schema keyword of a parameter that is repeated in a header.
pub const ANNOTATION: &str = "x-mcp-header";
/// Keywords whose values are data and contain no annotations.
const DATA_KEYWORDS: [&str; 4] = ["default", "const", "enum", "examples"];

/// A parameter that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The full name: `Mcp-Param-Region`.
    pub header: String,
    /// The path of the parameter in the arguments.
    pub path: Vec<String>,
}

/// The reason that a tool's schema, and so the tool, is invalid.
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

/// The annotated parameters of an `inputSchema` (JSON text), in its order.
pub fn param_headers(input_schema: &str) -> Result<Vec<ParamHeader>, InvalidHeader> {
    // Most schemas have no annotation. An escape could hide an annotation.
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
    /// The chain of properties to the current schema.
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
                    // The keys in these objects are names of schemas, not keywords.
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

/// True for one of the three types. `null` may stand next to the type: a parameter that is null has
/// no header.
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

/// True for a token: `1*tchar` (RFC 9110, 5.6.2).
fn is_token(name: &str) -> bool {
    let is_token_character =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_character)
}

/// The value of an annotated parameter in a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Primitive<'a> {
    /// The number as JSON text.
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

    /// Numbers compare as numbers, all other values as text.
    pub(super) fn equals(&self, header: &str) -> bool {
        self.text() == header
            || matches!(self, Self::Number(number) if decimal(number) == decimal(header))
    }
}

/// Writes a whole number without fraction and exponent (`42.0`, `4.2e1`). Other numbers, and those
/// that double precision cannot represent exactly, stay as they are.
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
    /// The value in these arguments (JSON text). `None` if it is absent, null, or not primitive.
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

/// The encoded headers of a call with these `arguments` (JSON text).
pub fn values(params: &[ParamHeader], arguments: &str) -> Vec<(String, String)> {
    params
        .iter()
        .filter_map(|param| {
            let value = param.value(arguments)?;
            Some((param.header.clone(), encode(&value.text()).into_owned()))
        })
        .collect()
}
