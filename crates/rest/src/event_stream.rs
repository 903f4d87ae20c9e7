//! Responses that are a stream of server-sent events.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _};

/// Makes a response that sends these texts. Each text has whole events.
pub fn response(texts: impl Stream<Item = String> + Send + 'static) -> Response {
    let texts = texts.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Tells nginx not to buffer events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(texts)).into_response()
}
