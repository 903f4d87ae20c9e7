//! REST types of the web page's session: a browser that is signed in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// POST takes a [`SignIn`] and answers [`SignedIn`], with the cookie; GET answers [`BrowserSession`]; DELETE signs out.
pub const BROWSER_SESSION: &str = "/api/session";
/// POST makes a [`SignInLink`].
pub const SESSION_LINKS: &str = "/api/session/links";

/// POST takes a [`Download`] and answers a [`DownloadTicket`].
pub const SESSION_DOWNLOADS: &str = "/api/session/downloads";

/// A one-time code, or the control token.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct SignIn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub token: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedIn {
    /// Sent as `X-Page-Key` with every request. It is said here only.
    pub page_key: String,
    /// RFC 3339
    pub expires_at: String,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSession {
    pub signed_in: bool,
    /// RFC 3339
    pub expires_at: String,
    /// Of Mainstay.
    pub version: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedOut {
    pub signed_in: bool,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInLink {
    /// Said here, and used once.
    pub code: String,
    /// Of the page, with the code in its fragment, which browsers send to nobody.
    pub path: String,
    pub expires_in_seconds: u64,
}

/// A download that the browser makes by itself, without the page key.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// The path and query of a GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    pub path: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct DownloadTicket {
    /// The same with a ticket, which is good for one minute, once.
    pub path: String,
}
