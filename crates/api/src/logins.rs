//! REST types of logins to remote servers (docs/login.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// GET lists [`Logins`].
pub const LOGINS: &str = "/api/logins";
/// GET answers [`Login`]; POST takes a [`BeginLogin`]; DELETE logs out.
pub const LOGIN: &str = "/api/servers/{name}/login";
/// POST takes a [`LoginAnswer`].
pub const LOGIN_ANSWER: &str = "/api/servers/{name}/login/answer";
/// The address to which a browser comes back after a login. It is not part of the REST API: it needs no token.
pub const LOGIN_CALLBACK: &str = "/oauth/callback";

/// The logins of remote servers, in the order of the configuration: Mainstay's own, then those that clients have.
/// Servers with credentials in their entries have none.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Logins {
    pub logins: Vec<Login>,
}

/// The login to one server. Absent members are unknown or do not apply.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    pub server: String,
    /// The client whose login this is. Absent for Mainstay's own, which all clients share unless `oauth.perPrincipal`
    /// is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    pub status: LoginStatus,
    /// The reason, if `status` is `ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if the server has refused a request for want of a login.
    pub required: bool,
    /// True while a person is logging in.
    pub pending: bool,
    pub grant: LoginGrant,
    /// The authorization server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The granted scopes.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Scopes that the server has asked for and the login lacks. The next login asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// RFC 3339
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged_in_at: Option<String>,
    /// End of the present access token, RFC 3339. Absent if the authorization server names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// True if Mainstay renews the token without a person.
    pub renewable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<LoginRefresh>,
    /// The reason that the last attempt of a person failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_error: Option<String>,
    /// The reason that the login is not on the disk. It lasts until Mainstay ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginStatus {
    /// There is no login.
    None,
    /// There is no login yet, and a person is logging in.
    Pending,
    Valid,
    /// The access token has expired. Mainstay renews it at the next request if `renewable` is true.
    Expired,
    /// A person has to log in again.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LoginGrant {
    /// A person logs in.
    Person,
    /// Mainstay logs in with its own credentials.
    ClientCredentials,
}

/// The last attempt to renew a token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginRefresh {
    /// RFC 3339
    pub at: String,
    /// Absent if the attempt succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BeginLogin {
    /// The origin to which the browser comes back, such as `https://mainstay.example`. It must be the origin of this
    /// request. Without it, the browser comes back to the daemon's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Log in with a code on another device (RFC 8628).
    pub device: bool,
    /// Scopes to ask for beside those that the server names.
    pub scopes: Vec<String>,
}

/// A login that has begun. It has either `authorizationUrl` and `redirectUri`, or `userCode` and `verificationUrl`. It
/// has none of them if no person is needed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BegunLogin {
    pub server: String,
    /// The address to open in a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// The address to which the browser comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// The code to enter at `verificationUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_url: Option<String>,
    /// `verificationUrl` with the code in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_url: Option<String>,
    /// End of the attempt, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The address at which the browser arrived, for a person who has to carry it over.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LoginAnswer {
    #[schema(required = true, value_type = String)]
    pub address: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoggedOut {
    pub server: String,
    /// The client whose login it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    pub revocation: TokenRevocation,
    /// The reason, if `revocation` is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The consequence of a logout at the authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum TokenRevocation {
    Revoked,
    /// The authorization server cannot revoke tokens. They are valid there until they expire.
    Unsupported,
    /// There was no login.
    NoLogin,
    Failed,
}
