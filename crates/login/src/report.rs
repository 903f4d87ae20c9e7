//! The state of a login, for users.

use std::time::SystemTime;

use mainstay_core::{config::Grant, ids::ServerName, principal::ClientName};

use crate::{scopes::Scopes, upkeep::RefreshReport};

/// The state of one server's login, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginReport {
    pub server: ServerName,
    /// The client that owns the login. `None` for Mainstay's own login.
    pub client: Option<ClientName>,
    pub state: LoginState,
    /// True if the server has refused a request because a login is missing.
    pub is_required: bool,
    /// True while a person is logging in.
    pub is_pending: bool,
    pub grant: Grant,
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    /// The scopes that the authorization server has granted.
    pub scopes: Scopes,
    /// Scopes that the server has requested and the login lacks.
    pub missing_scopes: Scopes,
    pub logged_in_at: Option<SystemTime>,
    /// Time at which the current access token expires. `None` if the authorization server names no
    /// lifetime.
    pub token_expires_at: Option<SystemTime>,
    /// True if the token is renewed without a person.
    pub is_renewable: bool,
    pub last_refresh: Option<RefreshReport>,
    /// The reason that the last attempt to log in failed.
    pub login_error: Option<String>,
    /// The reason that the login is not on the disk.
    pub save_error: Option<String>,
}

/// The state of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginState {
    LoggedOut,
    LoggedIn,
    /// The access token has expired. It is renewed at the next request, or a person has to log in.
    Expired,
    /// The login has ended for this reason. A person has to log in.
    Ended(String),
}
