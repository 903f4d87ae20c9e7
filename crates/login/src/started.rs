//! Started logins of people: in a browser, on another device, and those whose codes are being redeemed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::SystemTime,
};

use oauth2::url::Url;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    discovery::IssuerMetadata,
    flow::{Arrival, PendingLogin, PendingLogins, StateError},
    grants::TokenEndpoint,
    identity::ClientIdentity,
    keeper::LoginKeeper,
    scopes::Scopes,
    server::LoginServer,
    stored::StoredLogin,
    tokens::Tokens,
    web::Web,
};

/// The data of a pending login that is not in the redirect.
#[derive(Debug)]
pub(crate) struct PendingContext {
    pub keeper: Arc<LoginKeeper>,
    pub server: LoginServer,
    pub resource: String,
    pub client: ClientIdentity,
    pub scopes: Scopes,
    pub is_registered: bool,
}

impl PendingContext {
    pub fn endpoint<'a>(
        &'a self,
        web: &'a dyn Web,
        issuer: &'a IssuerMetadata,
        now: SystemTime,
    ) -> TokenEndpoint<'a> {
        TokenEndpoint {
            web,
            issuer,
            client: &self.client,
            private_key: self.server.oauth.private_key.as_ref(),
            resource: &self.resource,
            now,
        }
    }

    /// Makes the login for these tokens. `registered_for` is the redirect URL of a client that Mainstay
    /// registered.
    pub fn into_login(
        self,
        tokens: Tokens,
        issuer: IssuerMetadata,
        registered_for: Option<String>,
        now: SystemTime,
    ) -> StoredLogin {
        StoredLogin {
            server_url: self.server.url.to_string(),
            resource: self.resource,
            issuer,
            client: self.client,
            requested_scopes: self.scopes,
            tokens,
            logged_in_at: now,
            registered_for,
            ended: None,
        }
    }
}

/// Started logins, by their entries in the vault.
#[derive(Debug, Default)]
pub(crate) struct StartedLogins {
    pub pending: Mutex<PendingLogins<PendingContext>>,
    /// Entries whose codes are being redeemed.
    pub redeeming: Mutex<BTreeSet<String>>,
    pub devices: Mutex<HashMap<String, CancellationToken>>,
    /// Ports at which tasks receive browsers.
    pub ports: Mutex<BTreeSet<u16>>,
}

impl StartedLogins {
    /// Takes the login of a state, so that its code can be redeemed.
    pub fn take(
        &self,
        state: &str,
        arrival: Arrival<'_>,
        now: SystemTime,
    ) -> Result<PendingLogin<PendingContext>, StateError> {
        let mut logins = self.pending.lock();
        let login = logins.take(state, arrival, now)?;
        // Insert under the lock, so that the login counts as pending without a break.
        self.redeeming.lock().insert(login.name.clone());
        Ok(login)
    }

    /// The URL of a login that waits for its redirect and requests all these scopes.
    pub fn offered_url(&self, entry: &str, scopes: &Scopes, now: SystemTime) -> Option<Url> {
        let logins = self.pending.lock();
        let login = logins.pending(entry, now)?;
        let has_scopes = scopes.union(&login.context.scopes) == login.context.scopes;
        has_scopes.then(|| login.authorization_url.clone())
    }

    pub fn is_pending(&self, entry: &str, now: SystemTime) -> bool {
        let is_in_browser = self.pending.lock().pending(entry, now).is_some();
        is_in_browser
            || self.redeeming.lock().contains(entry)
            || self.devices.lock().contains_key(entry)
    }

    /// Cancels the login of an entry. Returns `false` if there is none.
    pub fn cancel(&self, entry: &str, now: SystemTime) -> bool {
        let is_cancelled = self.pending.lock().cancel(entry, now);
        self.cancel_device(entry) || is_cancelled
    }

    /// Cancels the login on another device. Returns `false` if there is none.
    pub fn cancel_device(&self, entry: &str) -> bool {
        let device = self.devices.lock().remove(entry);
        if let Some(device) = &device {
            device.cancel();
        }
        device.is_some()
    }
}
