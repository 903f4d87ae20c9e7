//! Reads the envelope of one message in one pass.

use serde::de::IgnoredAny;

use super::{
    MAX_TEXT, Method, Span, is_id,
    keys::REQUEST_KEYS,
    object::items,
    scan::{Invalid, Scanner},
    text::{splice, text as string},
};

/// Maximum depth of objects and arrays in a payload. Recursive parsers stop at 100 to 1,000 levels
/// (`serde_json` at 128, Python at about 1,000), and no tool's arguments need more. Mainstay itself
/// parses without recursion.
pub const MAX_DEPTH: usize = 512;

/// The levels around `arguments` that do not count: the message and `params`.
const DEPTH_OF_ENVELOPE: usize = 2;

/// The members of `params` that hold answers to questions.
pub const ANSWERS: [&str; 2] = ["inputResponses", "requestState"];

/// The kind of one JSON-RPC message, and the spans of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub kind: MessageKind,
    pub(super) landmarks: Landmarks,
}

impl Envelope {
    /// True if `params._meta` has a member that only a stateless request carries (2026-07-28,
    /// "`_meta`").
    pub fn has_request_meta(&self) -> bool {
        self.landmarks.stateless
    }

    /// `params.arguments`: the arguments of a tool or a prompt.
    pub fn arguments(&self) -> Option<Span> {
        self.landmarks.arguments
    }

    /// True if `params` has a member that answers questions (2026-07-28, "Multi Round-Trip
    /// Requests").
    pub fn brings_answers(&self) -> bool {
        self.landmarks.answers
    }

    /// True if `params` requests a task instead of a result (2025-11-25, "Tasks").
    pub fn asks_for_task(&self) -> bool {
        self.landmarks.task
    }

    /// True if `params._meta` occurs twice, or has a member besides the progress token and
    /// [`REQUEST_KEYS`].
    pub fn has_other_meta(&self) -> bool {
        self.landmarks.meta_has_more || self.landmarks.meta_doubled
    }

    /// Returns the envelope for a body of this new length, in bytes. `None` if the message is not a
    /// response.
    fn with_body_length(self, length: usize) -> Option<Self> {
        let MessageKind::Response {
            mut id,
            body,
            is_error,
        } = self.kind
        else {
            return None;
        };
        let end = body.start() + length;
        if id.start > body.start {
            let shifted = |offset| offset - body.end() + end;
            id = Span::new(shifted(id.start()), shifted(id.end()));
        }
        let kind = MessageKind::Response {
            id,
            body: Span::new(body.start(), end),
            is_error,
        };
        Some(Self { kind, ..self })
    }
}

/// Spans of the members of `params` that Mainstay may need, collected while peeking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Landmarks {
    pub(super) name: Option<Span>,
    pub(super) uri: Option<Span>,
    pub(super) arguments: Option<Span>,
    pub(super) progress_token: Option<Span>,
    pub(super) reference: Option<Span>,
    /// True if a member occurs twice. Two parsers could then read different calls.
    pub(super) doubled: bool,
    pub(super) meta: Option<Span>,
    pub(super) meta_doubled: bool,
    /// True if `_meta` has a member that only stateless requests carry.
    stateless: bool,
    /// True if `_meta` has a member besides the progress token and the stateless ones.
    pub(super) meta_has_more: bool,
    answers: bool,
    task: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
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

/// The text is not a JSON-RPC message that Mainstay accepts. The variant sets the error code.
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
        /// True if the message is a response, which answers a request of Mainstay.
        is_response: bool,
        /// The method of a request, and its `name` or `uri` as JSON text.
        asked: Option<(Method, String)>,
    },
}

/// The reason not to forward a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Danger {
    #[error("nested too deep: {MAX_DEPTH} levels of objects and arrays are the most")]
    TooDeep,
    /// A case-insensitive parser would read a different message (CVE-2026-27896).
    #[error(
        "ambiguous: a member's name differs from one of the protocol's only in case or by a look-alike"
    )]
    Lookalike,
}

impl Malformed {
    /// The JSON-RPC error code: −32700 parse error, −32600 invalid request.
    pub fn code(&self) -> i64 {
        match self {
            Self::Json(_) => -32700,
            Self::Envelope { .. } | Self::Dangerous { .. } => -32600,
        }
    }

    /// The id of the message for the error response, as JSON text. `None` if it has no readable id.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Envelope { id, .. } | Self::Dangerous { id, .. } => id.as_deref(),
        }
    }
}

/// The spans of the members of a message.
#[derive(Default)]
struct Members {
    jsonrpc: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    landmarks: Landmarks,
    is_ambiguous: bool,
}

/// The reason that a message's members cannot be read.
enum Unreadable {
    Invalid,
    /// A member occurs twice or has the wrong type.
    Unusable,
}

impl From<Invalid> for Unreadable {
    fn from(_: Invalid) -> Self {
        Self::Invalid
    }
}

impl Members {
    fn read(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Unreadable> {
        scanner.members(|scanner, key| {
            let member = match &*key {
                "jsonrpc" => &mut self.jsonrpc,
                "id" => &mut self.id,
                "method" => &mut self.method,
                "result" => &mut self.result,
                "error" => &mut self.error,
                "params" => {
                    let params = self.read_params(scanner)?;
                    return set_once(&mut self.params, params);
                }
                key => {
                    self.is_ambiguous |= is_lookalike(key, &MEMBERS);
                    scanner.value()?;
                    return Ok(());
                }
            };
            // `null` is a value, so the member is present.
            set_once(member, scanner.value()?)
        })?;
        Ok(scanner.end()?)
    }

    fn read_params(&mut self, scanner: &mut Scanner<'_>) -> Result<Span, Invalid> {
        if scanner.first() != Some(b'{') {
            return scanner.value();
        }
        let landmarks = &mut self.landmarks;
        let is_ambiguous = &mut self.is_ambiguous;
        let start = scanner.position();
        scanner.members(|scanner, key| {
            let member = match &*key {
                "name" => &mut landmarks.name,
                "uri" => &mut landmarks.uri,
                "arguments" => &mut landmarks.arguments,
                "ref" => &mut landmarks.reference,
                "_meta" => {
                    // An earlier `_meta` also had a progress token.
                    landmarks.doubled |= landmarks.progress_token.is_some();
                    let meta = read_meta(scanner, landmarks, is_ambiguous)?;
                    landmarks.meta_doubled |= landmarks.meta.replace(meta).is_some();
                    return Ok(());
                }
                key => {
                    landmarks.answers |= ANSWERS.contains(&key);
                    landmarks.task |= key == "task";
                    *is_ambiguous |= is_lookalike(key, &PARAMS);
                    scanner.value()?;
                    return Ok(());
                }
            };
            landmarks.doubled |= member.replace(scanner.value()?).is_some();
            Ok::<(), Invalid>(())
        })?;
        Ok(scanner.since(start))
    }
}

/// Reads `params._meta`.
fn read_meta(
    scanner: &mut Scanner<'_>,
    landmarks: &mut Landmarks,
    is_ambiguous: &mut bool,
) -> Result<Span, Invalid> {
    if scanner.first() != Some(b'{') {
        return scanner.value();
    }
    let start = scanner.position();
    scanner.members(|scanner, key| {
        if key == "progressToken" {
            let earlier_token = landmarks.progress_token.replace(scanner.value()?);
            landmarks.doubled |= earlier_token.is_some();
            return Ok(());
        }
        let is_reserved = REQUEST_KEYS.contains(&&*key);
        landmarks.stateless |= is_reserved;
        landmarks.meta_has_more |= !is_reserved;
        *is_ambiguous |=
            is_lookalike(&key, &["progressToken"]) || is_lookalike(&key, &REQUEST_KEYS);
        scanner.value()?;
        Ok::<(), Invalid>(())
    })?;
    Ok(scanner.since(start))
}

fn set_once(member: &mut Option<Span>, value: Span) -> Result<(), Unreadable> {
    match member.replace(value) {
        None => Ok(()),
        Some(_) => Err(Unreadable::Unusable),
    }
}

/// The members of a message.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params` that name the server, the item or the request.
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

/// True if `name` is none of `names`, but a lenient parser would read it as one: a parser that
/// ignores the case of Unicode letters, or NULs at the end.
fn is_lookalike(name: &str, names: &[&str]) -> bool {
    let trimmed = name.trim_end_matches('\0');
    let is_like = |candidate: &str| {
        if trimmed.is_ascii() {
            trimmed.eq_ignore_ascii_case(candidate)
        } else {
            trimmed
                .chars()
                .map(folded)
                .eq(candidate.chars().map(folded))
        }
    };
    names
        .iter()
        .any(|candidate| *candidate != name && is_like(candidate))
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
        .find_map(|letters: Vec<char>| match letters[..] {
            [letters] if letters.is_ascii() => Some(letters.to_ascii_lowercase()),
            _ => None,
        });
    ascii.unwrap_or(letter)
}

/// Reads the envelope of one message. A member that occurs twice is an error, because two parsers
/// could read different messages.
pub fn peek(text: &str) -> Result<Envelope, Malformed> {
    if text.len() > MAX_TEXT {
        let reason = "a message has 4 GiB at most";
        return Err(Malformed::Envelope { reason, id: None });
    }
    let mut scanner = Scanner::new(text);
    let mut members = Members::default();
    let result = match scanner.first() {
        Some(b'{') => members.read(&mut scanner),
        _ => Err(Unreadable::Invalid),
    };
    let method = result.and_then(|()| {
        let method = members.method.map(|span| span.get(text));
        let method = method.filter(|method| *method != NULL);
        if method.is_some_and(|method| !method.starts_with('"')) {
            return Err(Unreadable::Unusable);
        }
        let method = method.map(|method| string(method).ok_or(Unreadable::Invalid));
        method.transpose()
    });
    let method = match method {
        Ok(method) => method.map(|method| Method::from_name(&method)),
        Err(Unreadable::Unusable) => return Err(unusable()),
        Err(Unreadable::Invalid) => return Err(not_json(text)),
    };
    let id = members.id.map(|span| (span, span.get(text)));
    let own_id = || {
        let id = id.map(|(_, id)| id).filter(|id| is_id(id));
        id.map(str::to_owned)
    };
    let invalid = |reason| {
        Err(Malformed::Envelope {
            reason,
            id: own_id(),
        })
    };
    let version = members.jsonrpc.map(|span| span.get(text));
    if version != Some("\"2.0\"") {
        return invalid("\"jsonrpc\" must be \"2.0\"");
    }
    let kind = match (method, id, members.result, members.error) {
        (Some(_), Some((_, id)), None, None) if !is_id(id) => {
            return invalid("\"id\" must be a string or a number");
        }
        (Some(method), Some((id, _)), None, None) => MessageKind::Request { id, method },
        (Some(method), None, None, None) => MessageKind::Notification { method },
        (None, Some((id, _)), Some(body), None) => MessageKind::Response {
            id,
            body,
            is_error: false,
        },
        (None, Some((id, _)), None, Some(body)) => MessageKind::Response {
            id,
            body,
            is_error: true,
        },
        (None, _, None, None) => return invalid("\"method\", \"result\" or \"error\" is missing"),
        (None, None, ..) => return invalid("a response needs the \"id\" of its request"),
        (None, ..) => return invalid("\"result\" and \"error\" exclude each other"),
        (Some(_), ..) => {
            return invalid("a message has \"method\", or \"result\" or \"error\", not both");
        }
    };
    let params = members.params.map(|span| span.get(text));
    let params = params.filter(|params| *params != NULL);
    if method.is_some() && params.is_some_and(|params| !params.starts_with('{')) {
        return invalid("\"params\" must be an object");
    }
    let landmarks = members.landmarks;
    let duplicate = if members.is_ambiguous {
        Some(Danger::Lookalike)
    } else {
        let is_too_deep = scanner.deepest() > MAX_DEPTH + DEPTH_OF_ENVELOPE;
        is_too_deep.then_some(Danger::TooDeep)
    };
    if let Some(duplicate) = duplicate {
        let name = || landmarks.name.or(landmarks.uri).map(|span| span.get(text));
        return Err(Malformed::Dangerous {
            danger: duplicate,
            id: own_id(),
            is_response: matches!(kind, MessageKind::Response { .. }),
            asked: match kind {
                MessageKind::Request { method, .. } => {
                    Some((method, name().unwrap_or_default().to_owned()))
                }
                MessageKind::Notification { .. } | MessageKind::Response { .. } => None,
            },
        });
    }
    Ok(Envelope { kind, landmarks })
}

const NULL: &str = "null";

fn unusable() -> Malformed {
    Malformed::Envelope {
        reason: "an object with each member at most once is expected",
        id: None,
    }
}

/// The error of a text that is not an object, or not JSON. `serde_json` finds the position.
fn not_json(text: &str) -> Malformed {
    let ignored = serde_json::from_str::<IgnoredAny>(text).err();
    // `IgnoredAny` accepts some invalid keys, which `Value` refuses.
    let error = ignored.or_else(|| serde_json::from_str::<serde_json::Value>(text).err());
    error.map_or_else(unusable, Malformed::Json)
}

/// Replaces the body of a response by `body` (JSON text in one line). Returns the response and its
/// envelope. `None` if the text has line breaks, or is not a response. The caller must then peek
/// again.
pub fn with_body(text: &str, envelope: &Envelope, body: &str) -> Option<(String, Envelope)> {
    let MessageKind::Response { body: span, .. } = envelope.kind else {
        return None;
    };
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
        return None;
    }
    let new_envelope = envelope.with_body_length(body.len())?;
    Some((splice(text, &mut [(span, body)]), new_envelope))
}

/// True if this text is a JSON-RPC batch. Only revision 2025-03-26 has batches.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// The messages of a batch, in order.
pub fn batch(text: &str) -> Result<Vec<&str>, Malformed> {
    let items = items(text).ok_or_else(|| not_json(text))?;
    if items.is_empty() {
        return Err(Malformed::Envelope {
            reason: "an empty batch",
            id: None,
        });
    }
    Ok(items)
}
