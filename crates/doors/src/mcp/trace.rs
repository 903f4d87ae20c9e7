//! Takes the trace context from HTTP headers, where the request itself has none.

use http::{HeaderMap, HeaderName};
use mainstay_core::{
    message::{Method, member, meta},
    trace::{self, TraceContext},
};
use mainstay_transport::Frame;

const TRACEPARENT: HeaderName = HeaderName::from_static(trace::TRACEPARENT);
const TRACESTATE: HeaderName = HeaderName::from_static(trace::TRACESTATE);

/// The request with the context of its headers in its `_meta`, from where it goes on to the server
/// (SEP-414). What a request says itself counts more: several may come with one set of headers.
pub fn adopt(frame: Frame, headers: &HeaderMap) -> Frame {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(parent) = text(TRACEPARENT).filter(|text| TraceContext::parse(text).is_some()) else {
        return frame;
    };
    let asks = matches!(
        frame.method(),
        Some(Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet)
    );
    let Ok(meta) = meta::of(frame.text(), frame.envelope()) else {
        return frame;
    };
    if !asks || meta.is_some_and(|meta| member(meta, trace::TRACEPARENT).is_some()) {
        return frame;
    }
    let with = trace::put(frame.text().to_owned(), parent, text(TRACESTATE));
    Frame::read(with.into()).unwrap_or(frame)
}
