//! Logins and registrations in the vault. The vault blocks, so each access runs on a separate thread.

use std::{sync::Arc, time::Duration};

use mainstay_core::{failure::with_causes, principal::ClientName};
use mainstay_platform::{
    hex,
    vault::{EntryKind, EntryLock, Vault, VaultError},
};
use ring::digest::{SHA256, digest};

use crate::{identity::Registration, stored::StoredLogin};

/// Maximum time to wait for another process that refreshes the same login.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// The reason that the vault cannot be used. The text is for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StoreError {
    reason: String,
    /// True if another process has held the lock of the entry for too long.
    pub is_locked: bool,
}

impl StoreError {
    fn new(reason: String) -> Self {
        Self {
            reason,
            is_locked: false,
        }
    }
}

impl From<VaultError> for StoreError {
    fn from(error: VaultError) -> Self {
        Self {
            reason: with_causes(&error),
            is_locked: matches!(error, VaultError::Locked(_)),
        }
    }
}

/// The logins and registrations of a state directory. Clones share the vault.
#[derive(Clone, Debug)]
pub struct LoginStore {
    vault: Arc<Vault>,
}

impl LoginStore {
    pub fn new(vault: Arc<Vault>) -> Self {
        Self { vault }
    }

    async fn run<T: Send + 'static>(
        &self,
        access: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let vault = Arc::clone(&self.vault);
        match tokio::task::spawn_blocking(move || access(&vault)).await {
            Ok(result) => Ok(result?),
            Err(error) => Err(StoreError::new(format!(
                "the vault could not be used: {error}"
            ))),
        }
    }

    pub async fn login(&self, entry: &str) -> Result<Option<StoredLogin>, StoreError> {
        let entry = entry.to_owned();
        let bytes = self
            .run(move |vault| vault.read(EntryKind::Logins, &entry))
            .await?;
        bytes
            .map(|bytes| {
                StoredLogin::from_bytes(&bytes).map_err(|error| StoreError::new(error.to_string()))
            })
            .transpose()
    }

    /// Saves the login. Returns after it is on the disk.
    pub async fn save_login(&self, entry: &str, login: &StoredLogin) -> Result<(), StoreError> {
        let (entry, bytes) = (entry.to_owned(), login.to_bytes());
        self.run(move |vault| vault.write(EntryKind::Logins, &entry, &bytes))
            .await
    }

    /// Removes a login. Returns `false` if there was none.
    pub async fn remove_login(&self, entry: &str) -> Result<bool, StoreError> {
        let entry = entry.to_owned();
        self.run(move |vault| vault.remove(EntryKind::Logins, &entry))
            .await
    }

    /// The names of all logins.
    pub async fn login_entries(&self) -> Result<Vec<String>, StoreError> {
        self.run(|vault| vault.names(EntryKind::Logins)).await
    }

    /// Prevents other processes from refreshing this login until the lock is dropped.
    pub async fn lock_login(&self, entry: &str) -> Result<EntryLock, StoreError> {
        let entry = entry.to_owned();
        self.run(move |vault| vault.lock(EntryKind::Logins, &entry, LOCK_LIMIT))
            .await
    }

    /// The client that is registered at an issuer for a redirect URL and the owner of the login. An unreadable
    /// registration counts as absent, so that a new one replaces it.
    pub async fn registration(
        &self,
        issuer: &str,
        redirect_uri: &str,
        owner: Option<&ClientName>,
    ) -> Result<Option<Registration>, StoreError> {
        let entry = registration_entry(issuer, redirect_uri, owner);
        let bytes = self
            .run(move |vault| vault.read(EntryKind::Registrations, &entry))
            .await?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub async fn save_registration(
        &self,
        registration: &Registration,
        owner: Option<&ClientName>,
    ) -> Result<(), StoreError> {
        let Registration {
            issuer,
            redirect_uri,
            ..
        } = registration;
        let entry = registration_entry(issuer, redirect_uri, owner);
        let bytes = serde_json::to_vec(registration).expect("a registration is JSON");
        self.run(move |vault| vault.write(EntryKind::Registrations, &entry, &bytes))
            .await
    }

    pub async fn remove_registration(
        &self,
        issuer: &str,
        redirect_uri: &str,
        owner: Option<&ClientName>,
    ) -> Result<bool, StoreError> {
        let entry = registration_entry(issuer, redirect_uri, owner);
        self.run(move |vault| vault.remove(EntryKind::Registrations, &entry))
            .await
    }
}

/// The name of a registration in the vault: a hash, because both URLs may be longer than a name may be.
fn registration_entry(issuer: &str, redirect_uri: &str, owner: Option<&ClientName>) -> String {
    let mut text = format!("{issuer} {redirect_uri}");
    if let Some(owner) = owner {
        text = format!("{text} {owner}");
    }
    hex::encode(digest(&SHA256, text.as_bytes()).as_ref())
}
