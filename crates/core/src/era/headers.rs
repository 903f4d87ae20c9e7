//! Headers that repeat parts of a request's body. With them, intermediaries can route without
//! reading the body (specification 2026-07-28, "Streamable HTTP: Request Metadata"; SEP-2243).
//! Mainstay compares inbound headers with the body, and derives outbound headers from the body.

mod param;
mod value;

use std::borrow::Cow;

pub use self::{
    param::{ANNOTATION, InvalidHeader, ParamHeader, param_headers, values},
    value::{BadEncoding, decode, encode},
};
use super::code;
use crate::message::Method;

pub const VERSION: &str = "mcp-protocol-version";
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
/// The prefix of a header that repeats a tool's parameter.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// Marks requests from `mainstay connect`. It forwards messages of stdio clients, which do not
/// repeat tool parameters in headers.
pub const FRONT: &str = "mainstay-front";

/// The member of `params` that `Mcp-Name` repeats. `None` if the method has no such member.
fn name_member(method: Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
        _ => None,
    }
}

/// Returns the standard headers of a request to a modern server. [`values`] returns those of tool
/// parameters. `string_param` reads a string member of `params`.
pub fn standard<'a>(
    method: &str,
    string_param: impl FnOnce(&'static str) -> Option<Cow<'a, str>>,
    version: &str,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        (VERSION, version.to_owned()),
        (METHOD, encode(method).into_owned()),
    ];
    let name = name_member(Method::from_name(method)).and_then(string_param);
    headers.extend(name.map(|name| (NAME, encode(&name).into_owned())));
    headers
}

/// The error of a header that contradicts the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderMismatch {
    #[error("header mismatch: {0} is missing")]
    Missing(String),
    #[error("header mismatch: {0} occurs twice")]
    Twice(String),
    #[error("header mismatch: {0} has a value that is no header value")]
    Malformed(String),
    #[error("header mismatch: {0} does not match the body")]
    Differs(String),
}

impl HeaderMismatch {
    pub fn code(&self) -> i64 {
        code::HEADER_MISMATCH
    }

    pub fn http_status(&self) -> u16 {
        400
    }
}

/// The headers of a request that repeat parts of the body.
#[derive(Clone, Debug, Default)]
pub struct InboundHeaders<'a> {
    /// Names in lower case.
    headers: Vec<(Cow<'a, str>, &'a [u8])>,
}

impl<'a> InboundHeaders<'a> {
    /// Selects these headers from all headers of a request.
    pub fn from_headers(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let lowercase_entry = |name: &'a str| {
            if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Owned(name.to_ascii_lowercase())
            } else {
                Cow::Borrowed(name)
            }
        };
        Self {
            headers: headers
                .into_iter()
                .map(|(name, value)| (lowercase_entry(name), value.trim_ascii()))
                .filter(|(name, _)| {
                    [VERSION, METHOD, NAME].contains(&&**name) || name.starts_with(PARAM_PREFIX)
                })
                .collect(),
        }
    }

    /// The value of a header, still encoded.
    fn get(&self, name: &str) -> Result<Option<&'a str>, HeaderMismatch> {
        let mut matching_headers = self.headers.iter().filter(|(header, _)| *header == name);
        let Some((_, value)) = matching_headers.next() else {
            return Ok(None);
        };
        if matching_headers.next().is_some() {
            return Err(HeaderMismatch::Twice(name.to_owned()));
        }
        std::str::from_utf8(value)
            .ok()
            .filter(|value| value::is_plain(value))
            .map(Some)
            .ok_or_else(|| HeaderMismatch::Malformed(name.to_owned()))
    }

    fn decode_value(&self, name: &str) -> Result<Option<Cow<'a, str>>, HeaderMismatch> {
        self.get(name)?
            .map(|value| decode(value).map_err(|_| HeaderMismatch::Malformed(name.to_owned())))
            .transpose()
    }

    /// Compares the standard headers with the body. `string_param` reads a string member of
    /// `params`. `version` is the version in `_meta`.
    pub fn check<'b>(
        &self,
        method: &str,
        string_param: impl FnOnce(&'static str) -> Option<Cow<'b, str>>,
        version: &str,
    ) -> Result<(), HeaderMismatch> {
        for (name, expected) in [(VERSION, version), (METHOD, method)] {
            match self.get(name)? {
                None => return Err(HeaderMismatch::Missing(name.to_owned())),
                Some(value) if value != expected => {
                    return Err(HeaderMismatch::Differs(name.to_owned()));
                }
                Some(_) => {}
            }
        }
        let method = Method::from_name(method);
        let Some(member) = name_member(method) else {
            return Ok(());
        };
        let header = self.decode_value(NAME)?;
        match (header, string_param(member)) {
            (None, None) => Ok(()),
            // The core specification does not require this header for tasks; only the extension
            // does.
            (None, Some(_)) if member == "taskId" => Ok(()),
            (None, Some(_)) => Err(HeaderMismatch::Missing(NAME.to_owned())),
            (Some(header), Some(body)) if header == body => Ok(()),
            (Some(_), _) => Err(HeaderMismatch::Differs(NAME.to_owned())),
        }
    }

    /// Compares the headers of tool parameters with a call's `arguments` (JSON text).
    pub fn check_params(
        &self,
        params: &[ParamHeader],
        arguments: Option<&str>,
    ) -> Result<(), HeaderMismatch> {
        params.iter().try_for_each(|param| {
            let name = param.header.to_ascii_lowercase();
            let header = self.decode_value(&name)?;
            match (header, param.value(arguments.unwrap_or("{}"))) {
                (None, None) => Ok(()),
                (None, Some(_)) => Err(HeaderMismatch::Missing(name)),
                (Some(header), Some(body)) if body.equals(&header) => Ok(()),
                (Some(_), _) => Err(HeaderMismatch::Differs(name)),
            }
        })
    }
}
