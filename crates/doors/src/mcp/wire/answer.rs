//! Answers of the HTTP doors, and refusals.

use std::borrow::Cow;

use http::{HeaderValue, Response, StatusCode, header};
use mainstay_core::{
    era::code,
    failure::{Failure, FailureKind},
    message,
};
use mainstay_doorway::{RETRY_AFTER, bodies::BodyError};
use mainstay_gateway::calls::{Answering, CallRefusal, Closed, Closing};
use mainstay_transport::Frame;

use super::sse_body::{Events, ResponseBody};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

pub type Answer = Response<ResponseBody>;

/// A request that is refused by its headers or its form, as a JSON-RPC error.
pub struct Refusal {
    status: StatusCode,
    body: String,
    kind: FailureKind,
    /// The methods that would be served.
    allow: Option<&'static str>,
}

impl From<BodyError> for Refusal {
    fn from(why: BodyError) -> Self {
        let status = match why {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            BodyError::BrokeOff => StatusCode::BAD_REQUEST,
        };
        Self::new(status, &why.to_string())
    }
}

impl Refusal {
    pub fn new(status: StatusCode, message: &str) -> Self {
        let body = message::error_response(None, code::INVALID_REQUEST, message, None);
        Self::saying(status, body)
    }

    /// With this JSON-RPC error.
    pub fn saying(status: StatusCode, body: String) -> Self {
        Self {
            status,
            body,
            kind: FailureKind::InvalidRequest,
            allow: None,
        }
    }

    /// The refusal of a request on a connection beyond the limit.
    pub fn too_many_connections() -> Self {
        let reason = "too many connections (http.maxConnections, http.maxConnectionsPerAddress): \
            try again in a moment";
        Self {
            kind: FailureKind::TooManyConnections,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }

    /// The refusal of work that begins while Mainstay stops. In a session its status is that of any answer: some
    /// clients give a session up at the first status that is no success, and with it the calls at work. By its
    /// `Retry-After`, `mainstay connect` knows that the request may be sent again.
    pub fn closing(frame: &Frame, has_session: bool) -> Self {
        let status = if has_session {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let failure = Closing::refusal();
        let body =
            message::error_response(frame.id(), failure.kind.rpc_code(), &failure.message, None);
        Self {
            kind: failure.kind,
            ..Self::saying(status, body)
        }
    }

    /// The refusal of any other method.
    pub fn method(allow: &'static str) -> Self {
        let message = format!("{allow} is expected");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, &message)
        }
    }
}

impl Answering for Refusal {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        let error = message::member(&self.body, "error").unwrap_or_default();
        let why = message::shown_member(error, "message").unwrap_or_default();
        let failure = Failure::new(self.kind, why);
        Some(Cow::Owned(failure.into()))
    }
}

/// The response of a refusal, once the receipt of its request is closed.
pub trait ClosedRefusal {
    fn into_response(self) -> Answer;
}

impl ClosedRefusal for Closed<Refusal> {
    fn into_response(self) -> Answer {
        let Refusal {
            status,
            body,
            kind,
            allow,
        } = self.into_inner();
        let mut response = json(status, body);
        if status == StatusCode::SERVICE_UNAVAILABLE || kind == FailureKind::ShuttingDown {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if let Some(allow) = allow {
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

pub fn json(status: StatusCode, body: String) -> Answer {
    let mut response = Response::new(ResponseBody::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

pub fn events(events: Events) -> Answer {
    let mut response = Response::new(ResponseBody::Events(Box::new(events)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer would hold back what is meant to arrive at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub fn status(status: StatusCode) -> Answer {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}
