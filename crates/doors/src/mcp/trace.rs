//! Copies the trace context from HTTP headers to a request without one.

use http::HeaderMap;
use mainstay_core::{
    message::{Method, member, meta},
    trace,
};
use mainstay_doorway::trace::TraceHeaders;
use mainstay_transport::Frame;

/// Adds the HTTP headers' trace context to the request's `_meta`, which is forwarded to the server
/// (SEP-414). A context in `_meta` takes precedence.
pub fn adopt(frame: Frame, headers: &HeaderMap) -> Frame {
    let Some(TraceHeaders { parent, state, .. }) = TraceHeaders::from_headers(headers) else {
        return frame;
    };
    let is_call = matches!(
        frame.method(),
        Some(Method::ToolsCall | Method::ResourcesRead | Method::PromptsGet)
    );
    let Ok(meta) = meta::raw(frame.text(), frame.envelope()) else {
        return frame;
    };
    if !is_call || meta.is_some_and(|meta| member(meta, trace::TRACEPARENT).is_some()) {
        return frame;
    }
    let text = trace::put(frame.text().to_owned(), &parent, state.as_deref());
    Frame::read(text.into()).unwrap_or(frame)
}
