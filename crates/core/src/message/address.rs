//! The members of a request that routing and progress notifications need.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Envelope, Span, is_id, text::text_member};

/// A string member: its decoded value, and its span including the quotes.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    pub value: Cow<'a, str>,
    pub span: Span,
}

/// The members of `params` that routing and progress notifications need.
#[derive(Clone, Debug, Default)]
pub struct Address<'a> {
    /// `params.name`: the tool or prompt.
    pub name: Option<Text<'a>>,
    /// `params.uri`: the resource.
    pub uri: Option<Text<'a>>,
    /// The span of `params._meta.progressToken`.
    pub progress_token: Option<Span>,
    /// `params.ref.name` and `params.ref.uri` of `completion/complete`.
    pub reference: Option<Reference<'a>>,
}

#[derive(Clone, Debug)]
pub enum Reference<'a> {
    Prompt(Text<'a>),
    Resource(Text<'a>),
}

/// A member of `params` does not have the type that MCP requires, or occurs twice (JSON-RPC
/// −32602).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid params: {0}")]
pub struct InvalidParams(pub &'static str);

/// Reads the address of a request. Absent members are `None`.
pub fn address<'a>(text: &'a str, envelope: &Envelope) -> Result<Address<'a>, InvalidParams> {
    let landmarks = &envelope.landmarks;
    if landmarks.doubled {
        return Err(InvalidParams("a member occurs twice"));
    }
    if landmarks
        .progress_token
        .is_some_and(|token| !is_id(token.get(text)))
    {
        return Err(InvalidParams(
            "\"progressToken\" must be a string or a number",
        ));
    }
    let optional_text =
        |span: Option<Span>, error| span.map(|span| string(text, span, error)).transpose();
    Ok(Address {
        name: optional_text(landmarks.name, "\"name\" must be a string")?,
        uri: optional_text(landmarks.uri, "\"uri\" must be a string")?,
        progress_token: landmarks.progress_token,
        reference: match landmarks.reference {
            Some(span) => reference(text, span)?,
            None => None,
        },
    })
}

/// Returns a string member of a request's `params`. `None` if it is absent or no string. Errors in
/// other members are ignored.
pub fn text_param<'a>(text: &'a str, envelope: &Envelope, member: &str) -> Option<Cow<'a, str>> {
    let span = match member {
        "name" => envelope.landmarks.name,
        "uri" => envelope.landmarks.uri,
        _ => return text_member(super::member(text, "params")?, member),
    };
    string(text, span?, "").ok().map(|text| text.value)
}

fn members<'a, T: Deserialize<'a>>(object: &'a str) -> Result<T, InvalidParams> {
    serde_json::from_str(object)
        .map_err(|_| InvalidParams("an object with each member at most once is expected"))
}

fn string<'a>(text: &'a str, span: Span, error: &'static str) -> Result<Text<'a>, InvalidParams> {
    let value = super::text(span.get(text)).ok_or(InvalidParams(error))?;
    Ok(Text { value, span })
}

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
    let reference: Ref<'_> = members(span.get(text))?;
    let locate = |raw: &RawValue| Span::from_part(text, raw.get());
    match (&*reference.kind, reference.name, reference.uri) {
        ("ref/prompt", Some(name), _) => {
            string(text, locate(name), "\"ref.name\" must be a string")
                .map(|name| Some(Reference::Prompt(name)))
        }
        ("ref/resource", _, Some(uri)) => string(text, locate(uri), "\"ref.uri\" must be a string")
            .map(|uri| Some(Reference::Resource(uri))),
        _ => Err(InvalidParams(
            "\"ref\" must be a ref/prompt with a name or a ref/resource with a uri",
        )),
    }
}
