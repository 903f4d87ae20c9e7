//! The trace context in the HTTP headers of a request.

use http::{HeaderMap, HeaderName};
use mainstay_core::trace::{self, TraceContext};

const TRACEPARENT: HeaderName = HeaderName::from_static(trace::TRACEPARENT);
const TRACESTATE: HeaderName = HeaderName::from_static(trace::TRACESTATE);

/// `traceparent`, parsed and as text, and `tracestate` in full ([W3C Trace Context][1], section 3).
///
/// [1]: https://www.w3.org/TR/trace-context/
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeaders {
    pub context: TraceContext,
    pub parent: String,
    pub state: Option<String>,
}

impl TraceHeaders {
    /// Reads both headers; `None` if `traceparent` is missing or invalid.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let parent = text(TRACEPARENT)?;
        Some(Self {
            context: TraceContext::parse(parent)?,
            parent: parent.to_owned(),
            state: text(TRACESTATE).map(str::to_owned),
        })
    }
}
