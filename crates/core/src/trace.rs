//! W3C Trace Context in a request's `_meta` (SEP-414) or headers.

use std::fmt;

use crate::{
    message::{self, meta},
    record::TraceId,
};

/// The trace context: keys of `_meta`, and names of headers.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Maximum size of a `tracestate`, in bytes. W3C Trace Context, 3.3.1.5, requires no more. A longer
/// one is neither forwarded nor exported.
const MAX_STATE: usize = 512;

/// The id of a span within its trace. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The trace context of a caller, which becomes the parent of the next span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: TraceId,
    pub span: SpanId,
    /// True if the sender records the trace.
    pub sampled: bool,
}

impl TraceContext {
    /// Parses `00-TRACE-SPAN-FLAGS`. Later versions may have more fields.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let trace = TraceId::from_traceparent(traceparent)?;
        let mut fields = traceparent.split('-').skip(2);
        let span = hex(fields.next()?, 16).filter(|span| *span != 0)?;
        let flags = hex(fields.next()?, 2)?;
        if traceparent.starts_with("00") && fields.next().is_some() {
            return None;
        }
        Some(Self {
            trace,
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace,
            span,
            sampled,
        } = self;
        write!(f, "00-{trace}-{span}-{:02x}", u8::from(*sampled))
    }
}

fn hex(text: &str, length: usize) -> Option<u64> {
    let is_hex = text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u64::from_str_radix(text, 16).ok());
    number.flatten()
}

/// Reads the trace context from a request's `_meta`, with a `tracestate` of at most 512 bytes.
pub fn from_meta(meta: &str) -> Option<(TraceContext, Option<String>)> {
    let text = |member| message::text_member(meta, member);
    let context = TraceContext::parse(&text(TRACEPARENT)?)?;
    let state = text(TRACESTATE).filter(|state| state.len() <= MAX_STATE);
    Some((context, state.map(String::from)))
}

/// Writes the trace context to the `_meta` of a request. Returns the text unchanged if the request
/// has no `params`, or has two `_meta`.
pub fn put(text: String, traceparent: &str, tracestate: Option<&str>) -> String {
    let edit = message::peek(&text).ok().and_then(|envelope| {
        meta::change(&text, &envelope, |meta| {
            meta.set_text(TRACEPARENT, traceparent);
            if let Some(state) = tracestate {
                meta.set_text(TRACESTATE, state);
            }
        })
    });
    match edit {
        Some((span, meta)) => message::splice(&text, &mut [(span, &meta)]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn contexts_are_read_and_written() {
        for (flags, sampled) in [("00", false), ("01", true), ("03", true)] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            let context = TraceContext::parse(&text).expect("valid");
            assert_eq!(context.sampled, sampled);
            assert_eq!(context.span.to_string(), SPAN);
            let text = format!("00-{TRACE}-{SPAN}-0{}", u8::from(sampled));
            assert_eq!(context.to_string(), text);
        }
        let later_version = format!("01-{TRACE}-{SPAN}-01-more");
        assert!(TraceContext::parse(&later_version).is_some());
        for invalid_text in [
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-+7ad6b7169203331-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            String::new(),
        ] {
            assert_eq!(TraceContext::parse(&invalid_text), None, "{invalid_text}");
        }
    }

    #[test]
    fn an_oversized_tracestate_is_left_out() {
        for (length, is_kept) in [(512, true), (513, false)] {
            let state = "s".repeat(length);
            let meta =
                format!(r#"{{"traceparent":"00-{TRACE}-{SPAN}-01","tracestate":"{state}"}}"#);
            let (context, tracestate) = from_meta(&meta).expect("a context");
            assert_eq!(context.span.to_string(), SPAN);
            assert_eq!(tracestate, is_kept.then_some(state));
        }
    }

    #[test]
    fn a_request_carries_its_context_in_its_meta() {
        let request = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
        };
        for (params, expected) in [
            (
                r#"{"name":"x"}"#,
                r#"{"_meta":{"traceparent":"P","tracestate":"S"},"name":"x"}"#,
            ),
            ("{}", r#"{"_meta":{"traceparent":"P","tracestate":"S"}}"#),
            (
                r#"{"_meta":{"a":[1, 2],"traceparent":"old"},"name":"x"}"#,
                r#"{"_meta":{"a":[1, 2],"traceparent":"P","tracestate":"S"},"name":"x"}"#,
            ),
        ] {
            assert_eq!(put(request(params), "P", Some("S")), request(expected));
        }
        let without_meta = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(put(without_meta.to_owned(), "P", None), without_meta);
    }
}
