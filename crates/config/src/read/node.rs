//! The nodes of the file's tree. Each value has its place.

use std::{borrow::Cow, collections::HashSet};

use jsonc_parser::{
    ast::{ObjectProp, Value},
    common::Ranged as _,
};

use crate::{
    read::report::{FindingReport, KeyPath},
    words::schema::ValueShape,
};

/// 2^53. `f64` represents every whole number up to this one exactly.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub place: KeyPath,
    value: &'a Value<'a>,
    /// The shape of the value in the schema. `None` below keys that no reader reads.
    shape: Option<&'static ValueShape>,
}

/// A member of an object, and the place of its key.
pub(crate) struct Member<'a> {
    pub key: &'a str,
    pub key_place: KeyPath,
    pub node: Node<'a>,
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value<'a>, shape: &'static ValueShape) -> Self {
        let offset = value.range().start;
        Self {
            place: KeyPath {
                path: String::new(),
                offset,
            },
            value,
            shape: Some(shape),
        }
    }

    pub fn shape(&self) -> Option<&'static ValueShape> {
        self.shape
    }

    /// In debug builds, checks that the schema has the shape that the caller reads.
    pub fn is_read(&self, is_such: impl Fn(&ValueShape) -> bool) {
        debug_assert!(
            self.shape.is_none_or(|shape| shape.admits(&is_such)),
            "{} is not read as the schema has it",
            self.place.path
        );
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self.value, Value::Array(_))
    }

    pub fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    pub fn is_empty(&self) -> bool {
        match self.value {
            Value::StringLit(text) => text.value.is_empty(),
            Value::Object(object) => object.properties.is_empty(),
            Value::Array(array) => array.elements.is_empty(),
            Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => false,
        }
    }

    pub fn as_str(&self) -> Option<&'a str> {
        self.value.as_string_lit().map(|text| text.value.as_ref())
    }

    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::StringLit(_) => "a string",
            Value::NumberLit(_) => "a number",
            Value::BooleanLit(_) => "a boolean",
            Value::Object(_) => "an object",
            Value::Array(_) => "an array",
            Value::NullKeyword(_) => "null",
        }
    }

    fn mismatch(&self, report: &mut FindingReport<'_>, expected: &str) {
        report.error(
            &self.place,
            format!("expected {expected}, found {}", self.kind()),
        );
    }

    pub fn string(&self, report: &mut FindingReport<'_>) -> Option<&'a str> {
        self.is_read(|shape| matches!(shape, ValueShape::Text));
        let text = self.as_str();
        if text.is_none() {
            self.mismatch(report, "a string");
        }
        text
    }

    /// Reads a string, or the text of a number or boolean. The flag is true if the value was not a
    /// string.
    pub fn scalar(&self, report: &mut FindingReport<'_>) -> Option<(Cow<'a, str>, bool)> {
        self.is_read(|shape| matches!(shape, ValueShape::Scalar));
        match self.value {
            Value::StringLit(text) => Some((Cow::Borrowed(text.value.as_ref()), false)),
            Value::NumberLit(number) => Some((Cow::Borrowed(number.value), true)),
            Value::BooleanLit(flag) => Some((Cow::Owned(flag.value.to_string()), true)),
            Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => {
                self.mismatch(report, "a string");
                None
            }
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        self.value.as_boolean_lit().map(|flag| flag.value)
    }

    pub fn boolean(&self, report: &mut FindingReport<'_>) -> Option<bool> {
        self.is_read(|shape| matches!(shape, ValueShape::Flag));
        let flag = self.as_bool();
        if flag.is_none() {
            self.mismatch(report, "true or false");
        }
        flag
    }

    /// Reads a finite number. Hexadecimal numbers of JSON5 are valid.
    pub fn as_number(&self) -> Option<f64> {
        let text = self.value.as_number_lit()?.value;
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1.0, digits),
            None => (1.0, text.strip_prefix('+').unwrap_or(text)),
        };
        let number = match digits
            .strip_prefix("0x")
            .or_else(|| digits.strip_prefix("0X"))
        {
            Some(hex) => f64::from(u32::from_str_radix(hex, 16).ok()?),
            None => digits.parse().ok()?,
        };
        Some(sign * number).filter(|number| number.is_finite())
    }

    /// Reads a whole number from `least` up to `most`.
    pub fn whole(
        &self,
        report: &mut FindingReport<'_>,
        least: u32,
        most: Option<u32>,
    ) -> Option<usize> {
        self.is_read(|shape| matches!(shape, ValueShape::Whole(l, m) if (*l, *m) == (least, most)));
        let number = self.as_number().filter(|number| {
            number.fract() == 0.0
                && *number >= f64::from(least)
                && *number <= most.map_or(MOST_EXACT, f64::from)
        });
        let Some(number) = number else {
            let range = match most {
                Some(most) => format!("from {least} to {most}"),
                None => format!("of at least {least}"),
            };
            report.error(&self.place, format!("expected a whole number {range}"));
            return None;
        };
        #[expect(
            clippy::cast_sign_loss,
            reason = "compared with `least`, which is not negative"
        )]
        Some(number as usize)
    }

    /// Reads one of a few words.
    pub fn word<T: Copy>(&self, report: &mut FindingReport<'_>, words: &[(&str, T)]) -> Option<T> {
        self.is_read(|shape| match shape {
            ValueShape::Words(allowed) => allowed.iter().eq(words.iter().map(|(word, _)| word)),
            _ => false,
        });
        let text = self.as_str();
        if let Some((_, meaning)) = words.iter().find(|(word, _)| text == Some(word)) {
            return Some(*meaning);
        }
        let (last, rest) = words.split_last()?;
        let rest: Vec<_> = rest.iter().map(|(word, _)| format!("{word:?}")).collect();
        let found = text.map_or_else(|| self.kind().to_owned(), |text| format!("{text:?}"));
        report.error(
            &self.place,
            format!(
                "expected {} or {:?}, found {found}",
                rest.join(", "),
                last.0
            ),
        );
        None
    }

    pub fn elements(&self) -> Option<impl Iterator<Item = Node<'a>> + use<'a>> {
        let array = self.value.as_array()?;
        let shape = self.shape.and_then(ValueShape::element);
        let path = self.place.path.clone();
        Some(
            array
                .elements
                .iter()
                .enumerate()
                .map(move |(index, value)| {
                    let place = KeyPath {
                        path: format!("{path}[{index}]"),
                        offset: value.range().start,
                    };
                    Node {
                        place,
                        value,
                        shape,
                    }
                }),
        )
    }

    pub fn array(&self, report: &mut FindingReport<'_>) -> Vec<Node<'a>> {
        self.is_read(|shape| matches!(shape, ValueShape::List(_)));
        if let Some(elements) = self.elements() {
            return elements.collect();
        }
        self.mismatch(report, "an array");
        Vec::new()
    }

    pub fn strings(&self, report: &mut FindingReport<'_>) -> Vec<String> {
        let elements = self.array(report);
        elements
            .iter()
            .filter_map(|node| node.string(report).map(str::to_owned))
            .collect()
    }

    /// Finds a member of an object. `None` if this is not an object, or has no such member.
    pub fn member(&self, key: &str) -> Option<Node<'a>> {
        let property = self
            .value
            .as_object()?
            .properties
            .iter()
            .find(|p| p.name.as_str() == key)?;
        let place = self.place.member(key, property.value.range().start);
        Some(Node {
            place,
            value: &property.value,
            shape: self.shape.and_then(|shape| shape.member(key)),
        })
    }

    /// The values of an object's members. Empty if the node is not an object.
    pub fn values(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let (place, shape) = (self.place.clone(), self.shape);
        let properties = self.value.as_object().map(|object| &object.properties);
        properties.into_iter().flatten().map(move |property| Node {
            place: place.member(property.name.as_str(), property.value.range().start),
            value: &property.value,
            shape: shape.and_then(|shape| shape.member(property.name.as_str())),
        })
    }

    /// The members of an object in their order, duplicates included.
    pub fn members(&self, report: &mut FindingReport<'_>) -> Option<Vec<Member<'a>>> {
        self.is_read(|shape| matches!(shape, ValueShape::Map(_) | ValueShape::Object(_)));
        let Some(object) = self.value.as_object() else {
            self.mismatch(report, "an object");
            return None;
        };
        let member = |property: &'a ObjectProp<'a>| {
            let key = property.name.as_str();
            let key_place = self.place.member(key, property.name.range().start);
            let place = KeyPath {
                path: key_place.path.clone(),
                offset: property.value.range().start,
            };
            Member {
                key,
                key_place,
                node: Node {
                    place,
                    value: &property.value,
                    shape: self.shape.and_then(|shape| shape.member(key)),
                },
            }
        };
        Some(object.properties.iter().map(member).collect())
    }

    /// The members of an object. A duplicate key is an error.
    pub fn distinct_members(&self, report: &mut FindingReport<'_>) -> Option<Vec<Member<'a>>> {
        let mut members = self.members(report)?;
        let mut earlier_keys = HashSet::new();
        members.retain(|member| {
            let first = earlier_keys.insert(member.key);
            if !first {
                report.error(&member.key_place, "duplicate key");
            }
            first
        });
        Some(members)
    }
}
