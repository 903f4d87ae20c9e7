//! REST types of client tokens and the control token.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Number;
use utoipa::ToSchema;

/// GET lists [`ClientTokens`]; POST takes an [`AddToken`].
pub const TOKENS: &str = "/api/tokens";
/// DELETE removes a token.
pub const TOKEN: &str = "/api/tokens/{name}";
/// POST replaces the control token.
pub const ROTATE: &str = "/api/token/rotate";

/// Ordered by creation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientTokens {
    pub tokens: Vec<ClientToken>,
}

/// A client token. The token itself is not stored.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientToken {
    pub name: String,
    /// RFC 3339
    pub created_at: String,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    pub expired: bool,
    #[serde(flatten)]
    pub limits: TokenLimits,
}

/// The limits of a client token, beside the rules of access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenLimits {
    /// The only profiles that the token opens. With any, the endpoints of single servers stay closed. Without, the token opens every endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// True if the token allows only tools with `readOnlyHint: true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddToken {
    #[schema(required = true, value_type = String, pattern = "^[a-zA-Z0-9._-]{1,64}$")]
    pub name: Option<String>,
    /// At most ten years. Without it, the token is valid until it is removed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_number"
    )]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub expires_in_seconds: Option<u64>,
    #[serde(flatten)]
    pub limits: TokenLimits,
}

/// Reads an integer in any JSON notation: `90`, `90.0` and `9e1` are the same number.
fn whole_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else {
        return Ok(None);
    };
    let whole = number.as_u64().or_else(|| {
        // `to_string` of a float without a fraction has no decimal point.
        number.as_f64()?.to_string().parse().ok()
    });
    whole
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("{number} is no whole number")))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddedToken {
    pub name: String,
    /// Only this answer contains the token.
    pub token: String,
    /// RFC 3339
    pub created_at: String,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(flatten)]
    pub limits: TokenLimits,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RemovedToken {
    pub success: bool,
    pub name: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RotatedToken {
    /// The new control token.
    pub token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_has_many_spellings() {
        let read = |text: &str| {
            let body = format!(r#"{{"name":"a","expiresInSeconds":{text}}}"#);
            serde_json::from_str::<AddToken>(&body).map(|token| token.expires_in_seconds)
        };
        for text in ["90", "90.0", "9e1", "0.9e2"] {
            assert_eq!(read(text).ok(), Some(Some(90)), "{text}");
        }
        assert_eq!(read("null").ok(), Some(None));
        for text in ["90.5", "-1", "-90.0", "1e300", r#""90""#, "true"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
