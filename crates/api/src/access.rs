//! REST types of the rules of access.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::TokenLimits;

/// GET answers [`AccessOverview`].
pub const ACCESS: &str = "/api/access";
/// GET answers [`AccessExplanation`].
pub const EXPLAIN_ACCESS: &str = "/api/access/explain";

/// The rules of access, and what each client may use.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AccessOverview {
    /// `access` of the configuration in force. Without it, every client may use everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub access: Option<Value>,
    /// The operator is absent, who may use everything. Clients without a token come first.
    pub principals: Vec<PrincipalView>,
}

/// The servers and limits of one client, whatever the profile.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrincipalView {
    /// `anonymous` (without a token), or `client:NAME`.
    pub principal: String,
    /// Groups of `access.groups`
    pub groups: Vec<String>,
    #[serde(flatten)]
    pub limits: TokenLimits,
    /// True if neither a rule nor the token limits the client.
    pub unlimited: bool,
    /// The servers that the client sees, in the order of the configuration.
    pub servers: Vec<String>,
}

/// A decision about a server or one of its items, with its reason.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AccessExplanation {
    pub allowed: bool,
    /// The reason in words.
    pub reason: String,
    /// The rule that decides, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The effect of a tool, by the hints of its server: `read-only`, `additive`, `destructive`. A tool that the server does not list counts as destructive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}
