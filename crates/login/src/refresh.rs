//! Refreshes a login under a lock against other processes, and saves the new tokens.

use mainstay_core::config::Grant;

use crate::{
    find::Finder,
    grant_answer::GrantError,
    grants::TokenEndpoint,
    identity::{IdentityChoice, choose_identity},
    keeper::{LoginKeeper, VaultFailure, random_share},
    server::LoginServer,
    shared::LoginChangeKind,
    stored::StoredLogin,
    upkeep::AfterRefresh,
};

impl LoginKeeper {
    /// Refreshes the login. Processes that share the vault take turns by a lock.
    pub(crate) async fn refresh(&self) {
        let (server, before) = {
            let state = self.state.lock();
            (state.server.clone(), state.upkeep.login().cloned())
        };
        // If the vault is not writable, refresh without the lock, so that a working login does not end.
        let lock = self.shared.store.lock_login(&self.entry).await;
        if let Err(error) = &lock
            && error.is_locked
        {
            // The other process may already have used the refresh token.
            let error = GrantError::Unavailable {
                reason: error.to_string(),
                is_sent: false,
            };
            let now = self.shared.now();
            let mut state = self.state.lock();
            state.upkeep.handle_refresh(Err(error), now, random_share());
            return;
        }
        if self.take_stored(&server, before.as_ref()).await {
            return;
        }
        let answer = match (server.grant(), &before) {
            (Grant::Person, Some(login)) => self.refreshed(&server, login).await,
            (Grant::Person, None) => return,
            (Grant::ClientCredentials, login) => self.machine_login(&server, login.as_ref()).await,
        };
        self.apply(&server, before.as_ref(), answer).await;
    }

    /// Takes the changes that another process has stored since `before`: new tokens, an end or a logout. Returns
    /// `false` without a change.
    async fn take_stored(&self, server: &LoginServer, before: Option<&StoredLogin>) -> bool {
        let Ok(stored) = self.shared.store.login(&self.entry).await else {
            return false;
        };
        let stored = stored.filter(|login| login.server_url == server.url.as_str());
        let mut state = self.state.lock();
        let is_saved = state.save_failure.is_none();
        let change = match (stored, before) {
            (Some(stored), Some(before)) => {
                // A machine tries by itself, whatever has ended before.
                let has_ended = server.grant() == Grant::Person
                    && stored.ended.is_some()
                    && before.ended.is_none();
                let is_new = stored.tokens.access != before.tokens.access || has_ended;
                if !is_saved || !is_new {
                    return false;
                }
                state.upkeep.replace(stored);
                has_ended.then_some(LoginChangeKind::Ended)
            }
            (Some(stored), None) => {
                state.upkeep.replace(stored);
                None
            }
            (None, Some(_)) if server.grant() == Grant::Person && is_saved => {
                state.upkeep.log_out();
                Some(LoginChangeKind::LoggedOut)
            }
            (None, _) => return false,
        };
        drop(state);
        if let Some(change) = change {
            self.publish(change);
        }
        true
    }

    /// Applies the answer to a token request.
    async fn apply(
        &self,
        server: &LoginServer,
        before: Option<&StoredLogin>,
        answer: Result<StoredLogin, GrantError>,
    ) {
        let is_client_unknown = answer.as_ref().is_err_and(GrantError::is_client_unknown);
        let error = answer.as_ref().err().map(ToString::to_string);
        let error = error.unwrap_or_default();
        let now = self.shared.now();
        let after = {
            let mut state = self.state.lock();
            if state.server.url != server.url {
                // The tokens are for the server at the previous URL of the entry.
                return;
            }
            let after = state.upkeep.handle_refresh(answer, now, random_share());
            if matches!(after, AfterRefresh::Save) {
                state.is_required = false;
                let scopes = state
                    .upkeep
                    .login()
                    .map(|login| login.tokens.scopes.clone());
                state.missing_scopes = state.missing_scopes.lacking(&scopes.unwrap_or_default());
            }
            after
        };
        let name = &server.name;
        match after {
            AfterRefresh::Save => {
                self.save().await;
                tracing::debug!(server = %name, "the token was refreshed");
            }
            AfterRefresh::Retry(_) => {
                tracing::warn!(server = %name, %error, "the token could not be refreshed and is tried again");
            }
            AfterRefresh::Ended(reason) => {
                tracing::warn!(server = %name, %reason, "the login has ended");
                self.save().await;
                if is_client_unknown && let Some(login) = before {
                    self.shared
                        .forget_registration(server, &login.issuer, login.registered_for.as_deref())
                        .await;
                }
                self.publish(LoginChangeKind::Ended);
            }
        }
    }

    /// Saves the current login. A failure is reported, and the save is retried later.
    pub(crate) async fn save(&self) {
        let Some(login) = self.login() else {
            return;
        };
        let saved = self.shared.store.save_login(&self.entry, &login).await;
        let now = self.shared.now();
        let mut state = self.state.lock();
        state.save_failure = saved.err().map(|error| VaultFailure::new(&error, now));
        if let Some(VaultFailure { reason, .. }) = &state.save_failure {
            tracing::error!(server = %state.server.name, error = %reason, "the login cannot be saved and lasts until Mainstay ends");
        }
    }

    async fn refreshed(
        &self,
        server: &LoginServer,
        login: &StoredLogin,
    ) -> Result<StoredLogin, GrantError> {
        let web = self.shared.web(server);
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &login.issuer,
            client: &server.client_of(login),
            private_key: server.oauth.private_key.as_ref(),
            resource: &login.resource,
            now: self.shared.now(),
        };
        let Some(refresh) = &login.tokens.refresh else {
            return Err(GrantError::NoRefreshToken);
        };
        let tokens = endpoint.refresh(refresh, &login.tokens.scopes).await?;
        Ok(StoredLogin {
            tokens,
            ended: None,
            ..login.clone()
        })
    }

    /// Requests a token for the client itself (RFC 6749, 4.4).
    async fn machine_login(
        &self,
        server: &LoginServer,
        before: Option<&StoredLogin>,
    ) -> Result<StoredLogin, GrantError> {
        let web = self.shared.web(server);
        let challenge = self.challenge();
        let discovery = Finder {
            web: web.as_ref(),
            server: &server.url,
            challenge: challenge.as_ref(),
            configured_issuer: server.oauth.issuer.as_deref(),
            registered_issuer: None,
        };
        let discovery = discovery
            .find()
            .await
            .map_err(|error| GrantError::from_discovery(&error))?;
        let choice = choose_identity(&server.oauth, &discovery.issuer, None);
        let Ok(IdentityChoice::Ready(client)) = choice else {
            return Err(GrantError::NoMachineIdentity);
        };
        let challenged = challenge
            .as_ref()
            .and_then(|challenge| challenge.scopes.clone());
        let configured = server.configured_scopes();
        let scopes = if configured.is_empty() {
            let scopes = challenged.or(discovery.resource_scopes).unwrap_or_default();
            let before = before.map(|login| login.requested_scopes.clone());
            before.unwrap_or_default().union(&scopes)
        } else {
            configured
        };
        let now = self.shared.now();
        let endpoint = TokenEndpoint {
            web: web.as_ref(),
            issuer: &discovery.issuer,
            client: &client,
            private_key: server.oauth.private_key.as_ref(),
            resource: &discovery.resource,
            now,
        };
        let tokens = endpoint.client_credentials(&scopes).await?;
        Ok(StoredLogin {
            server_url: server.url.to_string(),
            resource: discovery.resource,
            issuer: discovery.issuer,
            client,
            requested_scopes: scopes,
            tokens,
            logged_in_at: now,
            registered_for: None,
            ended: None,
        })
    }

    /// Requests a token with the client's own credentials, even if the login has ended.
    pub(crate) async fn renew(&self) -> Result<(), GrantError> {
        let (server, before) = {
            let state = self.state.lock();
            (state.server.clone(), state.upkeep.login().cloned())
        };
        let login = self.machine_login(&server, before.as_ref()).await?;
        self.log_in(login)
            .await
            .map_err(|error| GrantError::Unavailable {
                reason: error.to_string(),
                is_sent: true,
            })
    }
}
