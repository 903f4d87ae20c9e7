//! Reads the envelope of one message in one pass.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    MAX_TEXT, Method, Span,
    depth::{MAX_DEPTH, is_too_deep},
    is_id,
    meta::OF_REQUESTS,
    text::Borrowed,
};

/// The members of `params` that answer questions.
pub const ANSWERS: [&str; 2] = ["inputResponses", "requestState"];

/// What one JSON-RPC message is, and where its members stand in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub kind: Kind,
    pub(super) landmarks: Landmarks,
}

impl Envelope {
    /// Whether `params._meta` has a member that only a request without a session carries (2026-07-28,
    /// "`_meta`").
    pub fn has_request_meta(&self) -> bool {
        self.landmarks.stateless
    }

    /// `params.arguments`: what a tool or a prompt is called with.
    pub fn arguments(&self) -> Option<Span> {
        self.landmarks.arguments
    }

    /// Whether `params` have a member that answers questions (2026-07-28, "Multi Round-Trip Requests").
    pub fn brings_answers(&self) -> bool {
        self.landmarks.answers
    }

    /// Whether `params` ask for the answer to become a task (2025-11-25, "Tasks").
    pub fn asks_for_task(&self) -> bool {
        self.landmarks.task
    }

    /// Whether `params._meta` holds more than a progress token and what a request says of its sender.
    pub fn has_other_meta(&self) -> bool {
        self.landmarks.meta_has_more || self.landmarks.meta_doubled
    }

    /// The same message with a body that is longer or shorter; `None` unless it is a response.
    pub(super) fn resized(self, length: usize) -> Option<Self> {
        let Kind::Response {
            mut id,
            body,
            is_error,
        } = self.kind
        else {
            return None;
        };
        let end = body.start() + length;
        if id.start > body.start {
            let moved = |at| at - body.end() + end;
            id = Span::new(moved(id.start()), moved(id.end()));
        }
        let kind = Kind::Response {
            id,
            body: Span::new(body.start(), end),
            is_error,
        };
        Some(Self { kind, ..self })
    }
}

/// Positions of the few members of `params` that a gateway may need, found while the message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Landmarks {
    pub(super) name: Option<Span>,
    pub(super) uri: Option<Span>,
    pub(super) arguments: Option<Span>,
    pub(super) progress_token: Option<Span>,
    pub(super) reference: Option<Span>,
    /// One of them occurs twice: two readers of one message must not see different calls.
    pub(super) doubled: bool,
    pub(super) meta: Option<Span>,
    pub(super) meta_doubled: bool,
    /// `_meta` says what only revisions without a handshake say in every request.
    stateless: bool,
    /// `_meta` has more than that and a progress token.
    pub(super) meta_has_more: bool,
    answers: bool,
    task: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request {
        id: Span,
        method: Method,
    },
    Notification {
        method: Method,
    },
    /// `body` is the value of `result`, or of `error` if `is_error`.
    Response {
        id: Span,
        body: Span,
        is_error: bool,
    },
}

/// Why a text is no JSON-RPC message, with the code it is answered with.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    #[error("not JSON: {0}")]
    Json(#[source] serde_json::Error),
    #[error("not a JSON-RPC 2.0 message: {reason}")]
    Envelope {
        reason: &'static str,
        id: Option<String>,
    },
    #[error("{danger}")]
    Dangerous {
        danger: Danger,
        id: Option<String>,
        /// Whether it answers a request of ours.
        is_response: bool,
        /// The method of a request, and the name or URI that it asks for (JSON text).
        asked: Option<(Method, String)>,
    },
}

/// What keeps a message that can be read from being passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Danger {
    #[error("nested too deep: {MAX_DEPTH} levels of objects and arrays are the most")]
    TooDeep,
    /// Some readers take no notice of case (CVE-2026-27896): they would see another message.
    #[error(
        "ambiguous: a member's name differs from one of the protocol's only in case or by a look-alike"
    )]
    Lookalike,
}

impl Malformed {
    /// JSON-RPC's own codes: −32700 parse error, −32600 invalid request.
    pub fn code(&self) -> i64 {
        match self {
            Self::Json(_) => -32700,
            Self::Envelope { .. } | Self::Dangerous { .. } => -32600,
        }
    }

    /// The id to echo, as JSON text: that of the message where it could be read.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Envelope { id, .. } | Self::Dangerous { id, .. } => id.as_deref(),
        }
    }
}

#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<Borrowed<'a>>,
    params: Option<Params<'a>>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    lookalike: bool,
}

/// The members of a message.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Members of `params` that say which server a message concerns and what it asks for.
const PARAMS: [&str; 12] = [
    "name",
    "uri",
    "arguments",
    "ref",
    "_meta",
    "task",
    "taskId",
    "requestId",
    "progressToken",
    "level",
    ANSWERS[0],
    ANSWERS[1],
];

/// Whether a name that is none of these would be one of them to a reader that ignores case, a NUL at
/// the end, or the difference between letters with one capital.
fn is_lookalike(name: &str, known: &[&str]) -> bool {
    let read = name.trim_end_matches('\0');
    let is_like = |known: &str| read.chars().map(folded).eq(known.chars().map(folded));
    known.iter().any(|known| *known != name && is_like(known))
}

fn folded(letter: char) -> char {
    if letter.is_ascii() {
        return letter.to_ascii_lowercase();
    }
    let [lower, upper] = [
        letter.to_lowercase().collect(),
        letter.to_uppercase().collect(),
    ];
    let ascii = [lower, upper]
        .into_iter()
        .find_map(|other: Vec<char>| match other[..] {
            [other] if other.is_ascii() => Some(other.to_ascii_lowercase()),
            _ => None,
        });
    ascii.unwrap_or(letter)
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Members::default();
                let (mut method, mut params) = (false, false);
                while let Some(Borrowed(key)) = map.next_key()? {
                    // A member that is there counts as there, even when it is `null`.
                    let occurs_twice = match &*key {
                        "jsonrpc" => members.jsonrpc.replace(map.next_value()?).is_some(),
                        "id" => members.id.replace(map.next_value()?).is_some(),
                        "result" => members.result.replace(map.next_value()?).is_some(),
                        "error" => members.error.replace(map.next_value()?).is_some(),
                        "method" => {
                            members.method = map.next_value()?;
                            std::mem::replace(&mut method, true)
                        }
                        "params" => {
                            members.params = map.next_value()?;
                            std::mem::replace(&mut params, true)
                        }
                        key => {
                            members.lookalike |= is_lookalike(key, &MEMBERS);
                            map.next_value::<IgnoredAny>()?;
                            false
                        }
                    };
                    if occurs_twice {
                        return Err(serde::de::Error::custom("a member occurs twice"));
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// What is read of `params` in passing; everything else in it is skipped.
#[derive(Default)]
struct Params<'a> {
    name: Option<&'a RawValue>,
    uri: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    reference: Option<&'a RawValue>,
    doubled: bool,
    meta: Option<&'a RawValue>,
    meta_doubled: bool,
    read: Meta<'a>,
    answers: bool,
    task: bool,
    lookalike: bool,
    not_an_object: bool,
}

/// What is read of `params._meta`.
#[derive(Default)]
struct Meta<'a> {
    progress_token: Option<&'a RawValue>,
    doubled: bool,
    stateless: bool,
    has_more: bool,
    lookalike: bool,
}

/// Visitor methods for every value that is not an object.
macro_rules! otherwise {
    ($value:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Params<'de>;

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
                let mut params = Params::default();
                while let Some(Borrowed(key)) = map.next_key()? {
                    let slot = match &*key {
                        "name" => &mut params.name,
                        "uri" => &mut params.uri,
                        "arguments" => &mut params.arguments,
                        "ref" => &mut params.reference,
                        "_meta" => {
                            let raw: &'de RawValue = map.next_value()?;
                            let meta: Meta<'de> = serde_json::from_str(raw.get())
                                .map_err(serde::de::Error::custom)?;
                            let before = std::mem::replace(&mut params.read, meta);
                            params.doubled |=
                                params.read.doubled || before.progress_token.is_some();
                            params.read.stateless |= before.stateless;
                            params.lookalike |= params.read.lookalike;
                            params.meta_doubled |= params.meta.replace(raw).is_some();
                            continue;
                        }
                        key => {
                            params.answers |= ANSWERS.contains(&key);
                            params.task |= key == "task";
                            params.lookalike |= is_lookalike(key, &PARAMS);
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    params.doubled |= slot.replace(map.next_value()?).is_some();
                }
                Ok(params)
            }

            otherwise!(Params {
                not_an_object: true,
                ..Params::default()
            });
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Meta<'de>;

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta<'de>, A::Error> {
                let mut meta = Meta::default();
                while let Some(Borrowed(key)) = map.next_key()? {
                    if &*key == "progressToken" {
                        let before = meta.progress_token.replace(map.next_value()?);
                        meta.doubled |= before.is_some();
                    } else {
                        let is_reserved = OF_REQUESTS.contains(&&*key);
                        meta.stateless |= is_reserved;
                        meta.has_more |= !is_reserved;
                        meta.lookalike |= is_lookalike(&key, &["progressToken"])
                            || is_lookalike(&key, &OF_REQUESTS);
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(meta)
            }

            otherwise!(Meta::default());
        }
        deserializer.deserialize_any(Read)
    }
}

/// Reads the edges of one message. A member that occurs twice is refused: two readers of one
/// message must not see different calls.
pub fn peek(text: &str) -> Result<Envelope, Malformed> {
    if text.len() > MAX_TEXT {
        let reason = "a message has 4 GiB at most";
        return Err(Malformed::Envelope { reason, id: None });
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            Malformed::Envelope {
                reason: "an object with each member at most once is expected",
                id: None,
            }
        } else {
            Malformed::Json(error)
        }
    })?;
    let span = |raw: &RawValue| Span::of(text, raw.get());
    let invalid = |reason| {
        let id = members
            .id
            .map(RawValue::get)
            .filter(|id| is_id(id))
            .map(str::to_owned);
        Err(Malformed::Envelope { reason, id })
    };
    if members
        .jsonrpc
        .is_none_or(|version| version.get() != "\"2.0\"")
    {
        return invalid("\"jsonrpc\" must be \"2.0\"");
    }
    let params = members.params.as_ref();
    let landmarks = params.map_or_else(Landmarks::default, |params| Landmarks {
        name: params.name.map(span),
        uri: params.uri.map(span),
        arguments: params.arguments.map(span),
        progress_token: params.read.progress_token.map(span),
        reference: params.reference.map(span),
        doubled: params.doubled,
        meta: params.meta.map(span),
        meta_doubled: params.meta_doubled,
        stateless: params.read.stateless,
        meta_has_more: params.read.has_more,
        answers: params.answers,
        task: params.task,
    });
    let kind = match (
        members.method.as_ref().map(|method| &*method.0),
        members.id,
        members.result,
        members.error,
    ) {
        (Some(_), Some(id), None, None) if !is_id(id.get()) => {
            return invalid("\"id\" must be a string or a number");
        }
        (Some(method), Some(id), None, None) => Kind::Request {
            id: span(id),
            method: Method::of(method),
        },
        (Some(method), None, None, None) => Kind::Notification {
            method: Method::of(method),
        },
        (None, Some(id), Some(result), None) => Kind::Response {
            id: span(id),
            body: span(result),
            is_error: false,
        },
        (None, Some(id), None, Some(error)) => Kind::Response {
            id: span(id),
            body: span(error),
            is_error: true,
        },
        (None, _, None, None) => return invalid("\"method\", \"result\" or \"error\" is missing"),
        (None, None, ..) => return invalid("a response needs the \"id\" of its request"),
        (None, ..) => return invalid("\"result\" and \"error\" exclude each other"),
        (Some(_), ..) => {
            return invalid("a message has \"method\", or \"result\" or \"error\", not both");
        }
    };
    if members.method.is_some() && params.is_some_and(|params| params.not_an_object) {
        return invalid("\"params\" must be an object");
    }
    let is_ambiguous = members.lookalike || params.is_some_and(|params| params.lookalike);
    let danger = if is_ambiguous {
        Some(Danger::Lookalike)
    } else {
        is_too_deep(text).then_some(Danger::TooDeep)
    };
    if let Some(danger) = danger {
        let id = members.id.map(RawValue::get).filter(|id| is_id(id));
        return Err(Malformed::Dangerous {
            danger,
            id: id.map(str::to_owned),
            is_response: matches!(kind, Kind::Response { .. }),
            asked: match kind {
                Kind::Request { method, .. } => {
                    let name = params.and_then(|params| params.name.or(params.uri));
                    Some((
                        method,
                        name.map(RawValue::get).unwrap_or_default().to_owned(),
                    ))
                }
                _ => None,
            },
        });
    }
    Ok(Envelope { kind, landmarks })
}

/// Whether this text is a batch, which only revision 2025-03-26 knows.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// The messages of a batch, in order.
pub fn batch(text: &str) -> Result<Vec<&str>, Malformed> {
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(Malformed::Json)?;
    if items.is_empty() {
        return Err(Malformed::Envelope {
            reason: "an empty batch",
            id: None,
        });
    }
    Ok(items.into_iter().map(RawValue::get).collect())
}
