//! Request bodies: JSON, read whole, within a limit.

use axum::extract::{FromRequest, OptionalFromRequest, Request};
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::{Door, refusal::Refusal};

/// A request's body.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Door> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            return Err(Refusal::WrongContentType);
        }
        let bytes = Limited::new(request.into_body(), door.max_body)
            .collect()
            .await
            .map_err(|error| {
                if error.downcast_ref::<LengthLimitError>().is_some() {
                    Refusal::TooLarge(door.max_body)
                } else {
                    Refusal::Malformed(format!("the body ended early: {error}"))
                }
            })?;
        serde_json::from_slice(&bytes.to_bytes())
            .map(Self)
            .map_err(|error| Refusal::Malformed(error.to_string()))
    }
}

/// A route may do without a body; one that says what it is, is read.
impl<T: DeserializeOwned> OptionalFromRequest<Door> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &Door) -> Result<Option<Self>, Refusal> {
        if !request.headers().contains_key(header::CONTENT_TYPE) {
            return Ok(None);
        }
        <Self as FromRequest<Door>>::from_request(request, door)
            .await
            .map(Some)
    }
}

/// Whether a request says that its body is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let essence = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}
