//! Splits a body into JSON objects. Each object is returned as soon as it is complete.
//!
//! A server may answer `subscriptions/listen` with `application/json` and write one message after the other,
//! with or without line ends between them, or as the items of an array. Text between objects is skipped. The
//! caller decides if an object is a message.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::http::{events::StreamBroken, http1::Response};

/// The number of bytes of an oversized object that are stored to find its id.
const STORED_HEAD: usize = 1024;

/// The objects of one response.
#[derive(Debug)]
pub struct JsonValues {
    response: Response,
    parser: JsonParser,
}

impl JsonValues {
    pub fn new(response: Response, limit: usize) -> Self {
        Self {
            response,
            parser: JsonParser::new(limit),
        }
    }

    /// The next object. `None` after the server has ended the body. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Bytes, StreamBroken>> {
        loop {
            if let Some(value) = self.parser.next_value() {
                let limit = self.parser.limit;
                return Some(value.map_err(|head| StreamBroken::TooLarge { limit, head }));
            }
            match self.response.data().await? {
                Ok(data) => self.parser.push(data),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Splits pieces of a body into objects. Holds at most one piece and `limit` bytes.
#[derive(Debug)]
struct JsonParser {
    /// The maximum number of bytes of one object.
    limit: usize,
    /// Bytes that were not parsed yet.
    input: Bytes,
    /// The beginning of an incomplete object. Only its head if the object is too large.
    value: BytesMut,
    is_too_large: bool,
    /// Number of open braces.
    depth: usize,
    in_string: bool,
    /// True if the next byte of the string is escaped.
    is_escaped: bool,
}

impl JsonParser {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            input: Bytes::new(),
            value: BytesMut::new(),
            is_too_large: false,
            depth: 0,
            in_string: false,
            is_escaped: false,
        }
    }

    /// Adds the next piece. Only allowed after [`JsonParser::next_value`] has returned `None`.
    fn push(&mut self, piece: Bytes) {
        debug_assert!(self.input.is_empty(), "one piece after the other");
        self.input = piece;
    }

    /// The next complete object, or the head of an object that is too large.
    fn next_value(&mut self) -> Option<Result<Bytes, Bytes>> {
        if self.depth == 0 {
            let begin = memchr::memchr(b'{', &self.input).unwrap_or(self.input.len());
            self.input.advance(begin);
        }
        let end = self.end();
        let part = self.input.split_to(end.unwrap_or(self.input.len()));
        if end.is_some() && self.value.is_empty() && part.len() <= self.limit {
            // Most objects come in one piece and are not copied.
            return Some(Ok(part));
        }
        self.store(&part);
        end?;
        let value = std::mem::take(&mut self.value).freeze();
        Some(if std::mem::take(&mut self.is_too_large) {
            Err(value)
        } else {
            Ok(value)
        })
    }

    fn store(&mut self, part: &[u8]) {
        if self.is_too_large {
            return;
        }
        if self.value.len() + part.len() > self.limit {
            self.is_too_large = true;
            let room = STORED_HEAD.saturating_sub(self.value.len());
            self.value.extend_from_slice(&part[..part.len().min(room)]);
            self.value = BytesMut::from(&self.value[..self.value.len().min(STORED_HEAD)]);
        } else {
            self.value.extend_from_slice(part);
        }
    }

    /// The position in the input at which the current object ends. `None` if the object is incomplete.
    fn end(&mut self) -> Option<usize> {
        for (index, byte) in self.input.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the objects of a body that comes in pieces of `size` bytes, and the number of objects that
    /// were too large.
    fn values(body: &[u8], size: usize, limit: usize) -> (Vec<String>, usize) {
        let mut parser = JsonParser::new(limit);
        let (mut values, mut too_large) = (Vec::new(), 0);
        for piece in body.chunks(size) {
            parser.push(Bytes::copy_from_slice(piece));
            while let Some(value) = parser.next_value() {
                match value {
                    Ok(value) => values.push(String::from_utf8_lossy(&value).into_owned()),
                    Err(head) => {
                        assert!(head.len() <= STORED_HEAD);
                        too_large += 1;
                    }
                }
            }
            assert!(parser.value.len() <= limit.max(STORED_HEAD));
        }
        (values, too_large)
    }

    #[test]
    fn objects_are_told_apart_whatever_stands_between_them() {
        let body = br#"[{"a":"}\"{"} , {"b":{"c":[{}]}}]
            {"d":"\\"}{"e":1} 7 null {"unfinished":"#;
        let expected = [
            r#"{"a":"}\"{"}"#,
            r#"{"b":{"c":[{}]}}"#,
            r#"{"d":"\\"}"#,
            r#"{"e":1}"#,
        ];
        for size in 1..=body.len() {
            assert_eq!(values(body, size, 100).0, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_oversized_object_costs_itself_alone() {
        let body = format!(r#"{{"a":1}}{{"b":"{}"}}{{"c":2}}"#, "x".repeat(5000));
        for size in [1, 7, 64, body.len()] {
            let found = values(body.as_bytes(), size, 20);
            assert_eq!(
                found,
                (vec![r#"{"a":1}"#.to_owned(), r#"{"c":2}"#.to_owned()], 1),
                "{size}"
            );
        }
    }

    fn object() -> impl Strategy<Value = String> {
        let text = "[ -~é]{0,8}".prop_map(|text| serde_json::to_string(&text).expect("a string"));
        let leaf = prop_oneof![
            text.clone(),
            Just("1e3".to_owned()),
            Just("null".to_owned())
        ];
        let value = leaf.prop_recursive(3, 12, 3, move |inner| {
            let member =
                (text.clone(), inner.clone()).prop_map(|(key, value)| format!("{key}:{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..3)
                    .prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..3)
                    .prop_map(|members| format!("{{ {} }}", members.join(" ,"))),
            ]
        });
        prop::collection::vec(value, 0..3)
            .prop_map(|values| format!(r#"{{"v":[{}]}}"#, values.join(",")))
    }

    proptest! {
        #[test]
        fn objects_come_out_as_they_were_written(
            objects in prop::collection::vec(object(), 0..6),
            between in prop::sample::select(vec!["", "\n", " , ", "\r\n\x1e"]),
            size in 1..40usize,
        ) {
            let body = objects.join(between);
            prop_assert_eq!(values(body.as_bytes(), size, 4096), (objects, 0));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..300), size in 1..40usize) {
            values(&body, size, 50);
        }
    }
}
