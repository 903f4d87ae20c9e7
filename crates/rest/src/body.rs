//! Request bodies: JSON, read as a whole, up to a limit. `authorize` refuses other content types,
//! also on routes without a body.

use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout_at;

use super::{RestDoor, refusal::Refusal};
use mainstay_doorway::bodies::Pace;

/// A request body that must be a JSON object.
pub struct Body<T>(pub T);

/// A request body that may be any JSON value. Its handler refuses values of the wrong type.
pub struct AnyBody(pub Value);

impl<T: DeserializeOwned> FromRequest<RestDoor> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &RestDoor) -> Result<Self, Refusal> {
        parse(&read_json(request, door).await?)
    }
}

/// Maximum size of a body from a sender without credentials, in bytes.
const MAX_UNPROVEN: usize = 16 << 10;

/// The body of a request that needs no credentials: a JSON object of [`MAX_UNPROVEN`] bytes at most,
/// so that strangers cannot fill the memory.
pub struct UnprovenBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<RestDoor> for UnprovenBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &RestDoor) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            return Err(Refusal::WrongContentType);
        }
        let limit = MAX_UNPROVEN.min(door.bodies.body_bytes);
        let Body(body) = parse(&read_up_to(limit, request, door).await?)?;
        Ok(Self(body))
    }
}

impl FromRequest<RestDoor> for AnyBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &RestDoor) -> Result<Self, Refusal> {
        parse_any(&read_json(request, door).await?).map(Self)
    }
}

/// Extracts an optional body. Clients may declare JSON without sending a body.
impl<T: DeserializeOwned> OptionalFromRequest<RestDoor> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, door: &RestDoor) -> Result<Option<Self>, Refusal> {
        let bytes = read(request, door).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        parse(&bytes).map(Some)
    }
}

async fn read_json(request: Request, door: &RestDoor) -> Result<Bytes, Refusal> {
    if !is_json(request.headers()) {
        return Err(Refusal::WrongContentType);
    }
    read(request, door).await
}

async fn read(request: Request, door: &RestDoor) -> Result<Bytes, Refusal> {
    read_up_to(door.bodies.body_bytes, request, door).await
}

async fn read_up_to(limit: usize, request: Request, door: &RestDoor) -> Result<Bytes, Refusal> {
    let mut body = Limited::new(request.into_body(), limit);
    let pace = Pace::begin(&door.bodies);
    let mut whole = BytesMut::new();
    loop {
        let next = timeout_at(pace.until(whole.len()), body.frame()).await;
        match next.map_err(|_| too_slow())? {
            None => return Ok(whole.freeze()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    whole.extend_from_slice(&data);
                }
            }
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Refusal::TooLarge(limit));
            }
            Some(Err(error)) => {
                return Err(Refusal::Malformed(format!("the body ended early: {error}")));
            }
        }
    }
}

fn too_slow() -> Refusal {
    Refusal::Malformed(
        "the body came too slowly, or did not end within http.bodyTimeoutMs".to_owned(),
    )
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Body<T>, Refusal> {
    // Refuse an array: serde would read it as the members of a struct in order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let message = "an object is expected, not an array".to_owned();
        return Err(Refusal::Malformed(message));
    }
    parse_any(bytes).map(Body)
}

fn parse_any<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::Malformed(error.to_string()))
}

/// True if the request declares its body as JSON.
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

#[cfg(test)]
mod tests {
    use mainstay_api::BeginLogin;

    use super::*;

    #[test]
    fn an_array_is_no_object() {
        for (body, is_accepted) in [("{}", true), (" {\"device\": true}", true), ("[]", false)] {
            let parsed = parse::<BeginLogin>(body.as_bytes());
            assert_eq!(parsed.is_ok(), is_accepted, "{body}");
        }
    }
}
