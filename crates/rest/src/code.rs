//! Error codes of REST and their HTTP statuses. Tests compare OpenAPI and docs/rest.md with this
//! table.

use http::StatusCode;
use mainstay_core::failure::FailureKind;

use crate::code::Code::Failed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Unauthorized,
    WrongSignIn,
    Forbidden,
    NotOurPage,
    UnknownRoute,
    WrongMethod,
    WrongContentType,
    TooLarge,
    MissingParameter,
    InvalidToolName,
    NotReloadable,
    InvalidTokenName,
    InvalidLifetime,
    UnknownToken,
    UnknownSession,
    NoLogin,
    LoginFailed,
    TokenExists,
    TooManyTokens,
    TooManyStreams,
    TooManyTrials,
    LogUnreadable,
    /// The state directory cannot be used, or a file in it cannot be read.
    StateUnusable,
    StateUnwritable,
    /// A failure of the core, which defines the code and the status.
    Failed(FailureKind),
}

impl Code {
    const fn row(self) -> (&'static str, u16) {
        match self {
            Self::Unauthorized => ("unauthorized", 401),
            Self::WrongSignIn => ("invalid_code", 401),
            Self::Forbidden => ("forbidden", 403),
            Self::NotOurPage => ("not_our_page", 403),
            Self::UnknownRoute => ("not_found", 404),
            Self::WrongMethod => ("method_not_allowed", 405),
            Self::WrongContentType => ("unsupported_media_type", 415),
            Self::TooLarge => ("request_too_large", 413),
            Self::MissingParameter => ("missing_parameter", 400),
            Self::InvalidToolName => ("invalid_tool_name", 400),
            Self::NotReloadable => ("not_reloadable", 400),
            Self::InvalidTokenName => ("invalid_token_name", 400),
            Self::InvalidLifetime => ("invalid_lifetime", 400),
            Self::UnknownToken => ("token_not_found", 404),
            Self::UnknownSession => ("session_not_found", 404),
            Self::NoLogin => ("no_login", 409),
            Self::LoginFailed => ("login_failed", 502),
            Self::TokenExists => ("token_exists", 409),
            Self::TooManyTokens => ("too_many_tokens", 409),
            Self::TooManyStreams => ("too_many_streams", 503),
            Self::TooManyTrials => ("too_many_trials", 503),
            Self::LogUnreadable => ("log_unreadable", 500),
            Self::StateUnusable => ("state_unusable", 500),
            Self::StateUnwritable => ("state_unwritable", 500),
            Self::Failed(kind) => (kind.rest_code(), kind.rest_status()),
        }
    }

    /// The machine-readable error code.
    pub const fn word(self) -> &'static str {
        self.row().0
    }

    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().1).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

pub const INVALID_REQUEST: Code = Failed(FailureKind::InvalidRequest);
pub const INVALID_CONFIG: Code = Failed(FailureKind::InvalidConfig);
pub const SERVER_NOT_FOUND: Code = Failed(FailureKind::ServerNotFound);
pub const CONNECT_FAILED: Code = Failed(FailureKind::ConnectFailed);

/// The error for a server that cannot be started, because it is disabled or waits for approval.
pub const SERVER_DOWN: Code = Failed(FailureKind::ServerNotConnected);

/// Errors that every operation may return: no permission, and the shutdown of Mainstay.
pub const COMMON_ERRORS: [Code; 4] = [
    Code::Unauthorized,
    Code::Forbidden,
    Code::NotOurPage,
    Failed(FailureKind::ShuttingDown),
];

/// Errors that every operation with a body may return.
pub const BODY_ERRORS: [Code; 3] = [INVALID_REQUEST, Code::TooLarge, Code::WrongContentType];

/// Errors of requests that no operation handles: an unknown path, or a wrong method.
pub const ROUTING_ERRORS: [Code; 2] = [Code::UnknownRoute, Code::WrongMethod];

/// Errors of the routes under `/api/mcp-clients`, `/api/mcp-tools` and `/api/mcp-resources`.
pub const CLIENT_ROUTE_ERRORS: [Code; 1] = [Failed(FailureKind::NotConfigured)];

/// Errors of operations that call a server.
pub const CALL_ERRORS: [Code; 10] = [
    SERVER_NOT_FOUND,
    Failed(FailureKind::ServerNotConnected),
    Failed(FailureKind::ServerNotAnswering),
    Failed(FailureKind::CallCrashesServer),
    Failed(FailureKind::CallFailed),
    Failed(FailureKind::CallTimeout),
    Failed(FailureKind::OutcomeUnknown),
    Failed(FailureKind::MessageTooLarge),
    Failed(FailureKind::Cancelled),
    Failed(FailureKind::NotRecorded),
];

/// The error if the file has changed since the caller read it.
pub const CONFIG_CHANGED: Code = Failed(FailureKind::ConfigChanged);

/// Errors of operations that change the configuration file.
pub const FILE_ERRORS: [Code; 2] = [INVALID_CONFIG, Failed(FailureKind::NotSaved)];

/// Errors of operations that read the journal.
pub const RECORD_ERRORS: [Code; 2] = [
    Failed(FailureKind::NoJournal),
    Failed(FailureKind::JournalUnreadable),
];
