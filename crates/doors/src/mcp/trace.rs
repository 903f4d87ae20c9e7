//! Takes the trace context from HTTP headers, where the request itself has none.

use http::HeaderMap;
use mainstay_core::{
    message::{Method, member, meta},
    trace,
};
use mainstay_doorway::trace::TraceHeaders;
use mainstay_transport::Frame;

/// The request with the context of its headers in its `_meta`, from where it goes on to the server
/// (SEP-414). What a request says itself counts more: several may come with one set of headers.
pub fn adopt(frame: Frame, headers: &HeaderMap) -> Frame {
    let Some(TraceHeaders { parent, state, .. }) = TraceHeaders::of(headers) else {
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
    let with = trace::put(frame.text().to_owned(), &parent, state.as_deref());
    Frame::read(with.into()).unwrap_or(frame)
}
