//! REST types of clients' tokens and the control token.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// GET lists [`ClientTokens`]; POST takes an [`AddToken`].
pub const TOKENS: &str = "/api/tokens";
/// DELETE removes one.
pub const TOKEN: &str = "/api/tokens/{name}";
/// POST replaces the control token.
pub const ROTATE: &str = "/api/token/rotate";

/// In the order in which they were made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientTokens {
    pub tokens: Vec<ClientToken>,
}

/// What is known of a client's token. What it is, is not kept.
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
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddToken {
    #[schema(required = true, value_type = String, pattern = "^[a-zA-Z0-9._-]{1,64}$")]
    pub name: Option<String>,
    /// At most ten years; without it the token lasts until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub expires_in_seconds: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddedToken {
    pub name: String,
    /// Said here, and never again.
    pub token: String,
    /// RFC 3339
    pub created_at: String,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
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
