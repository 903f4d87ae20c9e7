//! Responses that are a stream of events (`text/event-stream`).

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _};

/// A response that sends these texts. Each text contains complete events.
pub fn response(texts: impl Stream<Item = String> + Send + 'static) -> Response {
    let texts = texts.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would buffer events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(texts)).into_response()
}
