//! Errors of REST. Their body has the form `{"error": CODE, …}`.

use std::io;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, header};
use mainstay_core::{
    config::ConfigError,
    failure::{Failure, FailureKind, with_causes},
};
use mainstay_doorway::{RETRY_AFTER, browser, json_views::lists::NotFound};
use mainstay_login::person::LoginError;
use mainstay_platform::{environment::LoadError, state::StateError};
use mainstay_tokens::TokenError;
use serde_json::{Value, json};

use super::code::{Code, INVALID_CONFIG, INVALID_REQUEST};

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("a token is needed: Authorization: Bearer TOKEN")]
    Unauthorized,
    /// The request has a client's token, but needs the control token.
    #[error("MCP tokens not permitted: the control token is needed here")]
    NotForClients,
    /// The request has a token, but the route is for signed-in browsers.
    #[error("there is no session: the request has a token instead of the page's cookie")]
    NoSession,
    #[error(
        "the code is wrong, was used already, or is older than 15 minutes; `mainstay ui` makes a new link"
    )]
    InvalidCode,
    #[error("this is not the control token; `mainstay ui` signs in without it")]
    WrongToken,
    /// The request of a browser is refused, for example without its page key.
    #[error("{0}")]
    NotOurPage(browser::Refused),
    #[error("no such route: {0}")]
    UnknownRoute(String),
    #[error("{0} is not for this route")]
    WrongMethod(Method),
    #[error("the body must be application/json")]
    WrongContentType,
    #[error("the body may have {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Malformed(String),
    #[error("\"{0}\" is missing")]
    MissingParameter(&'static str),
    /// The name is neither `server/tool` nor a spelling of exactly one tool.
    #[error("{name:?} is not the name of a tool: {reason}")]
    InvalidToolName { name: String, reason: String },
    #[error("{0} streams of events are open already; poll /api/events/recent")]
    TooManyStreams(usize),
    #[error("{0} servers are being tried already; try again when one of them is through")]
    TooManyTrials(usize),
    #[error("the log cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the change could not be kept, and was not made: {0}")]
    Unwritable(io::Error),
    #[error("this configuration is not from a file that could be read again")]
    NotReloadable,
    #[error("the configuration stays as it was: {}", .0.findings().join("; "))]
    InvalidConfig(LoadError),
    #[error("there is no session {0:?}: it has ended, or never was")]
    UnknownSession(String),
    /// Mainstay does not log in to this server, or not for this client.
    #[error("{0}")]
    NoLogin(String),
    /// A login could not be started or completed.
    #[error("{0}")]
    LoginFailed(String),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the versions of the configuration cannot be read")]
    State(#[from] StateError),
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<browser::Refused> for Refusal {
    fn from(refused: browser::Refused) -> Self {
        match refused {
            browser::Refused::NotSignedIn => Self::Unauthorized,
            browser::Refused::OtherOrigin
            | browser::Refused::NoPageKey
            | browser::Refused::WrongPageKey
            | browser::Refused::WrongTicket => Self::NotOurPage(refused),
        }
    }
}

impl From<LoginError> for Refusal {
    fn from(error: LoginError) -> Self {
        Self::LoginFailed(error.to_string())
    }
}

impl From<NotFound> for Refusal {
    fn from(error: NotFound) -> Self {
        match error {
            NotFound::Unclear { name, reason } => Self::InvalidToolName { name, reason },
            NotFound::Failed(failure) => failure.into(),
        }
    }
}

impl Refusal {
    fn code(&self) -> Code {
        match self {
            Self::Unauthorized | Self::NoSession | Self::WrongToken => Code::Unauthorized,
            Self::InvalidCode => Code::WrongSignIn,
            Self::NotOurPage(_) => Code::NotOurPage,
            Self::NotForClients => Code::Forbidden,
            Self::UnknownRoute(_) => Code::UnknownRoute,
            Self::WrongMethod(_) => Code::WrongMethod,
            Self::WrongContentType => Code::WrongContentType,
            Self::TooLarge(_) => Code::TooLarge,
            Self::Malformed(_) => INVALID_REQUEST,
            Self::MissingParameter(_) => Code::MissingParameter,
            Self::InvalidToolName { .. } => Code::InvalidToolName,
            Self::TooManyStreams(_) => Code::TooManyStreams,
            Self::TooManyTrials(_) => Code::TooManyTrials,
            Self::Unreadable(_) => Code::LogUnreadable,
            Self::Unwritable(_) => Code::StateUnwritable,
            Self::NotReloadable => Code::NotReloadable,
            Self::InvalidConfig(_) => INVALID_CONFIG,
            Self::UnknownSession(_) => Code::UnknownSession,
            Self::NoLogin(_) => Code::NoLogin,
            Self::LoginFailed(_) => Code::LoginFailed,
            Self::Token(error) => match error {
                TokenError::Name(_) => Code::InvalidTokenName,
                TokenError::Lifetime(_) => Code::InvalidLifetime,
                TokenError::Profile(_) => Code::Failed(FailureKind::ProfileNotFound),
                TokenError::Unknown(_) => Code::UnknownToken,
                TokenError::Taken(_) => Code::TokenExists,
                TokenError::TooMany(_) => Code::TooManyTokens,
                TokenError::Unreadable { .. } | TokenError::State(_) => Code::StateUnusable,
            },
            Self::State(_) => Code::StateUnusable,
            Self::Failed(failure) => Code::Failed(failure.kind),
        }
    }

    /// The message with its causes, for example `cannot use tokens.json: no storage space`.
    fn sentence(&self) -> String {
        with_causes(self)
    }

    fn body(&self) -> Value {
        if let Self::Failed(failure) = self {
            return failure.rest_body();
        }
        let mut body = json!({"error": self.code().word(), "message": self.sentence()});
        match self {
            Self::MissingParameter(parameter) => body["parameter"] = (*parameter).into(),
            Self::InvalidToolName { name, .. } => body["tool"] = name.as_str().into(),
            Self::Token(TokenError::Unknown(name)) => body["name"] = name.as_str().into(),
            Self::InvalidConfig(error) => {
                let findings = error.errors();
                body["findings"] = findings.iter().map(ConfigError::to_json).collect();
            }
            _ => {}
        }
        body
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.code().status(), axum::Json(self.body())).into_response();
        if matches!(&self, Self::Unauthorized) {
            // RFC 6750, section 3, requires a challenge.
            let challenge = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        if matches!(&self, Self::Failed(failure) if failure.kind == FailureKind::ShuttingDown) {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::principal::ClientName;

    use super::*;

    /// The message has the name of the file and the cause, so that a person can fix the cause.
    #[test]
    fn the_cause_is_told() {
        let full = || StateError::Io {
            path: "tokens.json".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let message = |refusal: Refusal| refusal.body()["message"].clone();
        assert_eq!(
            message(TokenError::State(full()).into()),
            "cannot use tokens.json: no storage space"
        );
        assert_eq!(
            message(full().into()),
            "the versions of the configuration cannot be read: cannot use tokens.json: no storage space"
        );
    }

    /// REST uses the codes of [`TokenError`], as the command without a daemon does.
    #[test]
    fn tokens_are_refused_in_one_set_of_words() {
        let name = ClientName::new("laptop").expect("a legal name");
        let illegal = ClientName::new("a/b").expect_err("an illegal name");
        for error in [
            TokenError::Name(illegal),
            TokenError::Taken(name),
            TokenError::Unknown("nobody".to_owned()),
            TokenError::TooMany(9),
            TokenError::Lifetime(9),
            TokenError::Unreadable {
                path: "tokens.json".into(),
                source: serde_json::from_str::<Value>("").expect_err("no JSON"),
            },
        ] {
            let word = error.code();
            assert_eq!(Refusal::from(error).code().word(), word);
        }
    }
}
