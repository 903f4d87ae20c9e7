//! Why a request was not answered: always `{"error": CODE, …}` (M13).

use std::io;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use mainstay_core::failure::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::tokens::TokenError;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("a token is needed: Authorization: Bearer TOKEN")]
    Unauthorized,
    /// Q2, in [003]'s words.
    #[error("MCP tokens not permitted: the control token is needed here")]
    NotForClients,
    #[error("no such route: {0}")]
    UnknownRoute(String),
    #[error("{0} is not for this route")]
    WrongMethod(Method),
    #[error("the body must be application/json")]
    WrongContentType,
    #[error("the body may have {0} bytes (http.maxBodyBytes)")]
    TooLarge(usize),
    #[error("{0}")]
    Malformed(String),
    #[error("\"{0}\" is missing")]
    MissingParameter(&'static str),
    /// K2: neither `server/tool` nor another spelling that means one tool.
    #[error("{name:?} is not the name of a tool: {reason}")]
    InvalidToolName { name: String, reason: String },
    #[error("{0} streams of events are open already; poll /api/events/recent")]
    TooManyStreams(usize),
    #[error("the log cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the change could not be kept, and was not made: {0}")]
    Unwritable(io::Error),
    #[error("this configuration is not from a file that could be read again")]
    NotReloadable,
    /// Each finding on a line of its own.
    #[error("the configuration stays as it was: {}", .0.join("; "))]
    InvalidConfig(Vec<String>),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotForClients => StatusCode::FORBIDDEN,
            Self::UnknownRoute(_) => StatusCode::NOT_FOUND,
            Self::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_)
            | Self::MissingParameter(_)
            | Self::InvalidToolName { .. }
            | Self::NotReloadable
            | Self::InvalidConfig(_) => StatusCode::BAD_REQUEST,
            Self::TooManyStreams(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreadable(_) | Self::Unwritable(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Token(error) => match error {
                TokenError::Name(_) | TokenError::Lifetime(_) => StatusCode::BAD_REQUEST,
                TokenError::Unknown(_) => StatusCode::NOT_FOUND,
                TokenError::Taken(_) | TokenError::TooMany(_) => StatusCode::CONFLICT,
                TokenError::Unreadable { .. } | TokenError::State(_) => {
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            },
            Self::Failed(failure) => StatusCode::from_u16(failure.kind.rest_status())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    fn body(&self) -> Value {
        let code = match self {
            Self::Unauthorized => "unauthorized",
            Self::NotForClients => "forbidden",
            Self::UnknownRoute(_) => "not_found",
            Self::WrongMethod(_) => "method_not_allowed",
            Self::WrongContentType => "unsupported_media_type",
            Self::TooLarge(_) => "request_too_large",
            Self::Malformed(_) => FailureKind::InvalidRequest.code(),
            Self::TooManyStreams(_) => "too_many_streams",
            Self::Unreadable(_) => "log_unreadable",
            Self::Unwritable(_) => "state_unwritable",
            Self::MissingParameter(parameter) => {
                return json!({
                    "error": "missing_parameter",
                    "message": self.to_string(),
                    "parameter": parameter,
                });
            }
            Self::InvalidToolName { name, .. } => {
                return json!({"error": "invalid_tool_name", "message": self.to_string(), "tool": name});
            }
            Self::NotReloadable => "not_reloadable",
            Self::InvalidConfig(findings) => {
                return json!({
                    "error": "invalid_config",
                    "message": self.to_string(),
                    "findings": findings,
                });
            }
            Self::Token(error) => error.code(),
            Self::Failed(failure) => return failure.rest_body(),
        };
        json!({"error": code, "message": self.to_string()})
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), axum::Json(self.body())).into_response();
        if matches!(self, Self::Unauthorized) {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
