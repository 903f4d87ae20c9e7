//! REST types of browser sessions: a browser that is signed in on the web page.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// POST takes a [`SignIn`], answers [`SignedIn`] and sets the cookie. GET answers
/// [`BrowserSession`]. DELETE signs out.
pub const BROWSER_SESSION: &str = "/api/session";
/// POST creates a [`SignInLink`].
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
    /// The page key. The page sends it as `X-Page-Key` with every request. Only this answer
    /// contains it.
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
    /// The version of Mainstay.
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
    /// The one-time code. Only this answer contains it.
    pub code: String,
    /// The path of the web page, with the code in the fragment. Browsers do not send fragments to
    /// servers.
    pub path: String,
    pub expires_in_seconds: u64,
}

/// A download that the browser starts itself, without the page key.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// The path and query of a GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    pub path: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
pub struct DownloadTicket {
    /// [`Download::path`] with a ticket added. The ticket is valid for one download within one
    /// minute.
    pub path: String,
}
