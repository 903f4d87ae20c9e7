//! The JSON-RPC envelope: read at its edges, spliced, and otherwise left as the bytes that came.
//!
//! A [`peek`] finds where the members of a message lie; nothing inside `params`, `result` or `error`
//! is parsed unless a later, equally shallow peek asks for it. Changing a message means replacing
//! spans of its text ([`splice`]), so key order, number spelling and members unknown to us survive
//! (invariant 5).

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Where a JSON value lies in its message, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The span of `part`, which must be a slice of `whole`.
    fn of(whole: &str, part: &str) -> Self {
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        debug_assert!(
            start + part.len() <= whole.len(),
            "the part lies inside the whole"
        );
        Self {
            start,
            end: start + part.len(),
        }
    }

    pub fn whole(text: &str) -> Self {
        Self {
            start: 0,
            end: text.len(),
        }
    }

    pub fn get(self, text: &str) -> &str {
        &text[self.start..self.end]
    }
}

/// The methods that a gateway must tell apart; everything else is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Initialize,
    Ping,
    ToolsList,
    ToolsCall,
    ResourcesList,
    ResourceTemplatesList,
    ResourcesRead,
    ResourcesSubscribe,
    ResourcesUnsubscribe,
    PromptsList,
    PromptsGet,
    Complete,
    SetLevel,
    CreateMessage,
    Elicit,
    RootsList,
    Initialized,
    Cancelled,
    Progress,
    LogMessage,
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    RootsChanged,
    Other,
}

const METHODS: [(&str, Method); 25] = [
    ("tools/call", Method::ToolsCall),
    ("tools/list", Method::ToolsList),
    ("notifications/progress", Method::Progress),
    ("notifications/message", Method::LogMessage),
    ("ping", Method::Ping),
    ("resources/read", Method::ResourcesRead),
    ("prompts/get", Method::PromptsGet),
    ("completion/complete", Method::Complete),
    ("notifications/cancelled", Method::Cancelled),
    ("initialize", Method::Initialize),
    ("notifications/initialized", Method::Initialized),
    ("resources/list", Method::ResourcesList),
    ("resources/templates/list", Method::ResourceTemplatesList),
    ("resources/subscribe", Method::ResourcesSubscribe),
    ("resources/unsubscribe", Method::ResourcesUnsubscribe),
    ("prompts/list", Method::PromptsList),
    ("logging/setLevel", Method::SetLevel),
    ("sampling/createMessage", Method::CreateMessage),
    ("elicitation/create", Method::Elicit),
    ("roots/list", Method::RootsList),
    ("notifications/tools/list_changed", Method::ToolsChanged),
    ("notifications/prompts/list_changed", Method::PromptsChanged),
    (
        "notifications/resources/list_changed",
        Method::ResourcesChanged,
    ),
    ("notifications/resources/updated", Method::ResourceUpdated),
    ("notifications/roots/list_changed", Method::RootsChanged),
];

impl Method {
    pub fn of(name: &str) -> Self {
        METHODS
            .iter()
            .find(|(text, _)| *text == name)
            .map_or(Self::Other, |(_, method)| *method)
    }

    /// The name on the wire; empty for [`Method::Other`], whose name is in its message.
    pub fn name(self) -> &'static str {
        METHODS
            .iter()
            .find(|(_, method)| *method == self)
            .map_or("", |(text, _)| text)
    }
}

/// What one JSON-RPC message is, and where its members stand in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub kind: Kind,
    landmarks: Landmarks,
}

/// Where the few members of `params` stand that a gateway may need, found while the message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Landmarks {
    name: Option<Span>,
    uri: Option<Span>,
    progress_token: Option<Span>,
    reference: Option<Span>,
    /// One of them occurs twice: two readers of one message must not see different calls.
    doubled: bool,
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
}

impl Malformed {
    /// JSON-RPC's own codes: −32700 parse error, −32600 invalid request.
    pub fn code(&self) -> i64 {
        match self {
            Self::Json(_) => -32700,
            Self::Envelope { .. } => -32600,
        }
    }

    /// The id to echo, as JSON text: that of the message where it could be read.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Envelope { id, .. } => id.as_deref(),
        }
    }
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Borrowed<'a>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there counts as there, even when it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What is read of `params` in passing; everything else in it is skipped.
#[derive(Default)]
struct Params<'a> {
    name: Option<&'a RawValue>,
    uri: Option<&'a RawValue>,
    progress_token: Option<&'a RawValue>,
    reference: Option<&'a RawValue>,
    doubled: bool,
    not_an_object: bool,
}

/// What is read of `params._meta`.
#[derive(Default)]
struct Meta<'a> {
    progress_token: Option<&'a RawValue>,
    doubled: bool,
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
                        "ref" => &mut params.reference,
                        "_meta" => {
                            let meta: Meta<'de> = map.next_value()?;
                            params.doubled |= meta.doubled || params.progress_token.is_some();
                            params.progress_token = meta.progress_token;
                            continue;
                        }
                        _ => {
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
        progress_token: params.progress_token.map(span),
        reference: params.reference.map(span),
        doubled: params.doubled,
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
    Ok(Envelope { kind, landmarks })
}

/// Whether this JSON text may be a request's id: a string or a number, not `null` (MCP, base protocol).
fn is_id(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
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

/// A text member found by a peek: what it says, and where it stands (with its quotes).
#[derive(Clone, Debug)]
pub struct Text<'a> {
    pub value: Cow<'a, str>,
    pub span: Span,
}

/// What routing and progress need of a request's `params`.
#[derive(Clone, Debug, Default)]
pub struct Address<'a> {
    /// `params.name`: the tool or prompt.
    pub name: Option<Text<'a>>,
    /// `params.uri`: the resource.
    pub uri: Option<Text<'a>>,
    /// `params._meta.progressToken`, as it stands.
    pub progress_token: Option<Span>,
    /// `params.ref.name` and `params.ref.uri` of `completion/complete`.
    pub reference: Option<Reference<'a>>,
}

#[derive(Clone, Debug)]
pub enum Reference<'a> {
    Prompt(Text<'a>),
    Resource(Text<'a>),
}

/// A member of `params` that is not what MCP says it is (JSON-RPC −32602).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid params: {0}")]
pub struct InvalidParams(pub &'static str);

/// The address of a request, as far as it has one.
pub fn address<'a>(text: &'a str, envelope: &Envelope) -> Result<Address<'a>, InvalidParams> {
    let found = &envelope.landmarks;
    if found.doubled {
        return Err(InvalidParams("a member occurs twice"));
    }
    if found
        .progress_token
        .is_some_and(|token| !is_id(token.get(text)))
    {
        return Err(InvalidParams(
            "\"progressToken\" must be a string or a number",
        ));
    }
    let word = |span: Option<Span>, what| span.map(|span| string(text, span, what)).transpose();
    Ok(Address {
        name: word(found.name, "\"name\" must be a string")?,
        uri: word(found.uri, "\"uri\" must be a string")?,
        progress_token: found.progress_token,
        reference: match found.reference {
            Some(span) => reference(text, span)?,
            None => None,
        },
    })
}

fn members<'a, T: Deserialize<'a>>(object: &'a str) -> Result<T, InvalidParams> {
    serde_json::from_str(object)
        .map_err(|_| InvalidParams("an object with each member at most once is expected"))
}

fn string<'a>(text: &'a str, span: Span, what: &'static str) -> Result<Text<'a>, InvalidParams> {
    let value: Borrowed<'a> =
        serde_json::from_str(span.get(text)).map_err(|_| InvalidParams(what))?;
    Ok(Text {
        value: value.0,
        span,
    })
}

/// A plain `Cow` would always be read as owned.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

fn reference(text: &str, span: Span) -> Result<Option<Reference<'_>>, InvalidParams> {
    #[derive(Deserialize)]
    struct Ref<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        name: Option<&'a RawValue>,
        #[serde(borrow, default)]
        uri: Option<&'a RawValue>,
    }
    let found: Ref<'_> = members(span.get(text))?;
    let of = |raw: &RawValue| Span::of(text, raw.get());
    match (&*found.kind, found.name, found.uri) {
        ("ref/prompt", Some(name), _) => string(text, of(name), "\"ref.name\" must be a string")
            .map(|name| Some(Reference::Prompt(name))),
        ("ref/resource", _, Some(uri)) => string(text, of(uri), "\"ref.uri\" must be a string")
            .map(|uri| Some(Reference::Resource(uri))),
        _ => Err(InvalidParams(
            "\"ref\" must be a ref/prompt with a name or a ref/resource with a uri",
        )),
    }
}

/// One member of an object, as it stands; `None` where it is absent or the text is no object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    struct Find<'n>(&'n str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(Borrowed(key)) = map.next_key::<Borrowed<'de>>()? {
                if key == self.0 {
                    found = Some(map.next_value::<&'de RawValue>()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    deserializer
        .deserialize_map(Find(name))
        .ok()
        .flatten()
        .map(RawValue::get)
}

/// Like [`member`], for a member that holds a string.
pub fn text_member<'a>(object: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let raw = member(object, name)?;
    serde_json::from_str::<Borrowed<'a>>(raw)
        .ok()
        .map(|text| text.0)
}

/// Where the member at `path` (`["_meta", "progressToken"]`) stands in the object at `within`.
pub fn locate(text: &str, within: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(within, |span, name| {
        member(span.get(text), name).map(|found| Span::of(text, found))
    })
}

/// The text with each span replaced, and the line breaks between tokens removed: stdio and SSE frame
/// by line. (Inside a JSON string a raw line break cannot stand, so every one is between tokens.)
pub fn splice(text: &str, edits: &mut [(Span, &str)]) -> String {
    edits.sort_unstable_by_key(|(span, _)| span.start);
    let grown: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut out = String::with_capacity(text.len() + grown);
    let mut at = 0;
    for (span, new) in edits.iter() {
        push_one_line(&mut out, &text[at..span.start]);
        out.push_str(new);
        at = span.end;
    }
    push_one_line(&mut out, &text[at..]);
    out
}

/// The text without the line breaks between its tokens.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    push_one_line(&mut out, text);
    Cow::Owned(out)
}

fn push_one_line(out: &mut String, text: &str) {
    let mut at = 0;
    for line_break in memchr::memchr2_iter(b'\n', b'\r', text.as_bytes()) {
        out.push_str(&text[at..line_break]);
        at = line_break + 1;
    }
    out.push_str(&text[at..]);
}

/// `text` as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    // Names and most URIs need no escape.
    if text
        .bytes()
        .all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\'))
    {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        quoted.push_str(text);
        quoted.push('"');
        return quoted;
    }
    serde_json::Value::from(text).to_string()
}

/// A response with this id (JSON text) and result (JSON text).
pub fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error response; `id` is JSON text, `null` where the request's could not be read.
pub fn error_response(
    id: Option<&str>,
    code: i64,
    message: &str,
    data: Option<&serde_json::Value>,
) -> String {
    let id = id.unwrap_or("null");
    let message = quote(message);
    match data {
        Some(data) => {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message},"data":{data}}}}}"#
            )
        }
        None => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#
        ),
    }
}

/// A request or, without an id, a notification; `params` is JSON text.
pub fn request(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let method = quote(method);
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}}}"#),
    }
}
