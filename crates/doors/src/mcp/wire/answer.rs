//! Responses and refusals of the HTTP doors.

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

use super::sse_body::{EventStreamBody, ResponseBody};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

pub type HttpAnswer = Response<ResponseBody>;

/// An HTTP error response whose body is a JSON-RPC error.
pub struct HttpRefusal {
    status: StatusCode,
    body: String,
    kind: FailureKind,
    /// The value of `Allow`: the methods that the endpoint supports.
    allow: Option<&'static str>,
}

impl From<BodyError> for HttpRefusal {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            BodyError::BrokeOff => StatusCode::BAD_REQUEST,
        };
        Self::new(status, &error.to_string())
    }
}

impl HttpRefusal {
    pub fn new(status: StatusCode, message: &str) -> Self {
        let body = message::error_response(None, code::INVALID_REQUEST, message, None);
        Self::with_body(status, body)
    }

    /// A refusal whose body is this JSON-RPC error.
    pub fn with_body(status: StatusCode, body: String) -> Self {
        Self {
            status,
            body,
            kind: FailureKind::InvalidRequest,
            allow: None,
        }
    }

    /// The refusal of a request on a reserved connection.
    pub fn too_many_connections() -> Self {
        let reason = "too many connections (http.maxConnections, http.maxConnectionsPerAddress): \
            try again in a moment";
        Self {
            kind: FailureKind::TooManyConnections,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }

    /// The refusal of new calls at shutdown. In a session, the status is 200: some clients drop a
    /// session after an error status. `mainstay connect` recognises the refusal by `Retry-After`,
    /// and sends the request again.
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
            ..Self::with_body(status, body)
        }
    }

    /// The refusal of an HTTP method. `allow` lists the supported ones.
    pub fn method(allow: &'static str) -> Self {
        let message = format!("{allow} is expected");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, &message)
        }
    }
}

impl Answering for HttpRefusal {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        let error = message::member(&self.body, "error").unwrap_or_default();
        let reason = message::shown_member(error, "message").unwrap_or_default();
        let failure = Failure::new(self.kind, reason);
        Some(Cow::Owned(failure.into()))
    }
}

/// Access to the response of a refusal whose receipt is closed.
pub trait ClosedRefusal {
    fn into_response(self) -> HttpAnswer;
}

impl ClosedRefusal for Closed<HttpRefusal> {
    fn into_response(self) -> HttpAnswer {
        let HttpRefusal {
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

pub fn json(status: StatusCode, body: String) -> HttpAnswer {
    let mut response = Response::new(ResponseBody::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

pub fn events(events: EventStreamBody) -> HttpAnswer {
    let mut response = Response::new(ResponseBody::Events(Box::new(events)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells nginx not to buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub fn status(status: StatusCode) -> HttpAnswer {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}
