//! The reasons that a token is refused: for the operator's log, and for the client (RFC 6750, 3).

use std::{sync::Arc, time::Duration};

/// A token that opens nothing. The text is for the operator's log. It holds nothing of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    #[error("the token has {length} bytes, and {limit} are allowed")]
    TooLarge { length: usize, limit: usize },
    #[error("the token's {part} is not readable: {reason}")]
    Unreadable { part: &'static str, reason: String },
    #[error("the token has no issuer that is trusted here")]
    UnknownIssuer,
    #[error("the token's algorithm is not among those of its issuer")]
    Algorithm,
    #[error("the token's type is not that of an access token")]
    Type,
    #[error("the token demands extensions that are unknown here")]
    Extensions,
    #[error("the token has no `{claim}`")]
    Missing { claim: Box<str> },
    #[error("the token's `{claim}` is not as it must be: {reason}")]
    BadClaim {
        claim: Box<str>,
        reason: &'static str,
    },
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not yet valid")]
    NotYet,
    #[error("the token is bound to a key of its client, and only its bearer is known here")]
    Bound,
    #[error("the issuer has no such key")]
    UnknownKey,
    #[error("the token names no key, and more than {limit} keys could be meant")]
    ManyKeys { limit: usize },
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the issuer says that the token is not active")]
    Inactive,
    #[error("the tokens of the subject were ended")]
    Ended,
    #[error("the token lacks the scopes: {}", missing.join(" "))]
    Scopes {
        missing: Vec<String>,
        /// The scopes that the issuer's tokens must have.
        required: Arc<[String]>,
    },
    /// The token may be good, and nobody can tell at present.
    #[error("the issuer cannot be asked at present: {reason}")]
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
}

/// The way to a token that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The client gets another token.
    Another,
    /// The client gets a token with more scopes.
    MoreScopes,
    /// The client tries the same token later.
    Later,
}

impl TokenRefusal {
    /// The refusal as a word, for counters.
    pub fn word(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Unreadable { .. } => "unreadable",
            Self::UnknownIssuer => "unknown_issuer",
            Self::Algorithm => "algorithm",
            Self::Type => "type",
            Self::Extensions => "extensions",
            Self::Missing { .. } => "missing_claim",
            Self::BadClaim { .. } => "bad_claim",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NotYet => "not_yet_valid",
            Self::Bound => "bound",
            Self::UnknownKey => "unknown_key",
            Self::ManyKeys { .. } => "many_keys",
            Self::Signature => "signature",
            Self::Inactive => "inactive",
            Self::Ended => "ended",
            Self::Scopes { .. } => "insufficient_scope",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        match self.remedy() {
            Remedy::Another => 401,
            Remedy::MoreScopes => 403,
            Remedy::Later => 503,
        }
    }

    /// The `error` of `WWW-Authenticate`. `None` if the token may be good.
    pub fn error(&self) -> Option<&'static str> {
        match self.remedy() {
            Remedy::Another => Some("invalid_token"),
            Remedy::MoreScopes => Some("insufficient_scope"),
            Remedy::Later => None,
        }
    }

    /// The `error_description` of `WWW-Authenticate`. A client learns what it can mend, and nothing about the checks:
    /// most of them precede that of the signature.
    pub fn description(&self) -> &'static str {
        match (self, self.remedy()) {
            (Self::Expired, _) => "the token has expired",
            (Self::Audience, _) => "the token is for another audience",
            (_, Remedy::Another) => "the token is not valid here",
            (_, Remedy::MoreScopes) => "the token lacks a scope",
            (_, Remedy::Later) => "the token cannot be checked at present",
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::Scopes { .. } => Remedy::MoreScopes,
            Self::Unavailable { .. } => Remedy::Later,
            Self::TooLarge { .. }
            | Self::Unreadable { .. }
            | Self::UnknownIssuer
            | Self::Algorithm
            | Self::Type
            | Self::Extensions
            | Self::Missing { .. }
            | Self::BadClaim { .. }
            | Self::Audience
            | Self::Expired
            | Self::NotYet
            | Self::Bound
            | Self::UnknownKey
            | Self::ManyKeys { .. }
            | Self::Signature
            | Self::Inactive
            | Self::Ended => Remedy::Another,
        }
    }

    /// The `scope` of `WWW-Authenticate`: the scopes that a token must have.
    pub fn scope(&self) -> Option<String> {
        if let Self::Scopes { required, .. } = self {
            Some(required.join(" "))
        } else {
            None
        }
    }

    /// The value of `Retry-After`, in whole seconds.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let Self::Unavailable { retry_after, .. } = self else {
            return None;
        };
        let is_fraction = retry_after.subsec_nanos() > 0;
        Some((retry_after.as_secs() + u64::from(is_fraction)).max(1))
    }

    pub(crate) fn missing(claim: &str) -> Self {
        Self::Missing {
            claim: claim.into(),
        }
    }

    pub(crate) fn bad_claim(claim: &str, reason: &'static str) -> Self {
        Self::BadClaim {
            claim: claim.into(),
            reason,
        }
    }
}
