//! Copies the trace context from HTTP headers into the request.

use http::HeaderMap;
use mainstay_core::{
    message::{Method, member, meta},
    trace,
};
use mainstay_doorway::trace::TraceHeaders;
use mainstay_transport::Frame;

/// Adds the trace context of the HTTP headers to a call's `_meta`, which the server gets (SEP-414).
/// A context that `_meta` already has stays.
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
