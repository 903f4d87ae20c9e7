//! Secrets that Mainstay keeps between runs: tokens of logins, and the secrets that `${keyring:NAME}` names.
//!
//! Each entry is a file that is encrypted with the key of the vault (ChaCha20-Poly1305). The key is in the
//! system's keyring or, without a keyring, in a file of mode 0600. A keyring alone could not hold the
//! entries: the Credential Manager of Windows limits an entry to 2560 bytes, a keyring does not replace an
//! entry atomically, and several processes have to take turns. Two processes with one state directory share
//! the vault.

mod key;
mod secrets;
mod system_keyring;
#[cfg(any(feature = "keyring", test))]
mod time_limited;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    hex,
    state::{
        Untrusted, open_private, private_dir, private_options, read_private, sync_folder,
        write_private,
    },
};
pub use key::{KeyPlace, KeyStore, KeyStoreError, NoKeyStore};
pub use secrets::{PATIENCE, secrets, shared};
pub use system_keyring::system;

/// The maximum length of a secret, in bytes.
pub const MAX_SECRET: usize = 64 * 1024;

/// The maximum length of a login, in bytes: two tokens, each as long as the head of a request may be, and the
/// metadata of an issuer.
const MAX_LOGIN: usize = 1024 * 1024;

/// The maximum length of an entry's name, in bytes.
pub const MAX_NAME: usize = 256;

/// The kind of an entry. The same name may occur once in each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Logins to remote servers.
    Logins,
    /// Clients that were registered with authorization servers.
    Registrations,
    /// Secrets of `mainstay secret`.
    Secrets,
}

impl EntryKind {
    fn folder(self) -> &'static str {
        match self {
            Self::Logins => "logins",
            Self::Registrations => "registrations",
            Self::Secrets => "secrets",
        }
    }

    /// The maximum length of an entry, in bytes.
    fn limit(self) -> usize {
        match self {
            Self::Logins | Self::Registrations => MAX_LOGIN,
            Self::Secrets => MAX_SECRET,
        }
    }
}

/// The vault of a state directory. Nothing is created before the first entry is written.
#[derive(Debug)]
pub struct Vault {
    dir: PathBuf,
    key_store: Box<dyn KeyStore>,
    /// The key, once it has been needed. Locked while the key is read or created, by threads that may block.
    key: Mutex<Option<LessSafeKey>>,
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} cannot be decrypted: it was changed, or the key of the vault is another", .0.display())]
    Sealed(PathBuf),
    #[error("{} is no key of a vault", .0.display())]
    BadKey(PathBuf),
    #[error("the key of the vault lies in the system's keyring, which cannot be used")]
    KeyStore(#[source] KeyStoreError),
    #[error("the key of the vault is gone from the system's keyring; remove {} to begin anew", .0.display())]
    KeyLost(PathBuf),
    #[error("the name of a secret has 1 to {MAX_NAME} bytes, without control characters")]
    Name,
    #[error("a secret has at most {0} bytes")]
    TooLong(usize),
    #[error("another process has used {} for too long", .0.display())]
    Locked(PathBuf),
    #[error("no random number for a nonce")]
    Random,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> VaultError {
    move |source| VaultError::Io {
        path: path.to_owned(),
        source,
    }
}

fn unusable(path: &Path) -> impl FnOnce(Untrusted) -> VaultError {
    move |source| failed(path)(source.into())
}

/// The content of an entry's file.
#[derive(Serialize, Deserialize)]
struct SealedEntry {
    name: String,
    /// Hexadecimal digits.
    nonce: String,
    /// Hexadecimal digits of the encrypted secret. The name is authenticated with it.
    sealed: String,
}

/// The lock of an entry. Until it is dropped, only this process may change the entry.
#[derive(Debug)]
pub struct EntryLock(
    #[expect(
        dead_code,
        reason = "the file's lock lasts as long as the file is open"
    )]
    File,
);

impl Vault {
    /// Creates the vault of a folder, which must be private.
    pub fn new(dir: impl Into<PathBuf>, key_store: Box<dyn KeyStore>) -> Self {
        Self {
            dir: dir.into(),
            key_store,
            key: Mutex::default(),
        }
    }

    /// The place of the key. `None` if nothing has been written yet.
    pub fn key_place(&self) -> Result<Option<KeyPlace>, VaultError> {
        key::place(&self.dir)
    }

    /// The secret of this name. Blocks.
    pub fn read(&self, kind: EntryKind, name: &str) -> Result<Option<Vec<u8>>, VaultError> {
        check_name(name)?;
        let path = self.path(kind, name);
        let Some(entry) = read_entry(&path)? else {
            return Ok(None);
        };
        let sealed = || VaultError::Sealed(path.clone());
        let nonce: [u8; NONCE_LEN] = hex::decode(&entry.nonce)
            .and_then(|nonce| nonce.try_into().ok())
            .ok_or_else(sealed)?;
        let mut secret = hex::decode(&entry.sealed).ok_or_else(sealed)?;
        let aad = aad(kind, name);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = self.with_key(|key| {
            let opened = key.open_in_place(nonce, Aad::from(aad.as_bytes()), &mut secret);
            opened.map(|opened| opened.len()).map_err(|_| sealed())
        })??;
        secret.truncate(length);
        Ok(Some(secret))
    }

    /// Writes the secret to the disk before it returns. Readers see either the old or the new secret. Blocks.
    pub fn write(&self, kind: EntryKind, name: &str, secret: &[u8]) -> Result<(), VaultError> {
        check_name(name)?;
        if secret.len() > kind.limit() {
            return Err(VaultError::TooLong(kind.limit()));
        }
        let folder = self.dir.join(kind.folder());
        private_dir(&self.dir).map_err(unusable(&self.dir))?;
        private_dir(&folder).map_err(unusable(&folder))?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::Random)?;
        let mut sealed = secret.to_vec();
        let aad = aad(kind, name);
        self.with_key(|key| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_append_tag(nonce, Aad::from(aad.as_bytes()), &mut sealed)
                .expect("a secret is shorter than what the cipher takes");
        })?;
        let entry = SealedEntry {
            name: name.to_owned(),
            nonce: hex::encode(&nonce),
            sealed: hex::encode(&sealed),
        };
        let path = self.path(kind, name);
        let text = serde_json::to_vec(&entry).expect("an entry is JSON");
        write_private(&path, &text).map_err(failed(&path))?;
        sync_folder(&folder).map_err(failed(&folder))
    }

    /// Removes an entry. Returns `false` if there was no such entry. Blocks.
    pub fn remove(&self, kind: EntryKind, name: &str) -> Result<bool, VaultError> {
        check_name(name)?;
        let path = self.path(kind, name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&path)(error)),
        }
    }

    /// The names of all entries of a kind, in order. No secret is decrypted. Blocks.
    pub fn names(&self, kind: EntryKind) -> Result<Vec<String>, VaultError> {
        let entries = self.entries(kind)?.into_iter();
        Ok(entries.map(|(name, _)| name).collect())
    }

    /// The names of all entries of a kind, in order, with the times at which they were written. No secret is
    /// decrypted. Blocks.
    pub fn entries(&self, kind: EntryKind) -> Result<Vec<(String, SystemTime)>, VaultError> {
        let folder = self.dir.join(kind.folder());
        let files = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(failed(&folder))?,
        };
        let mut entries = Vec::new();
        for file in files {
            let path = file.map_err(failed(&folder))?.path();
            if path.extension().is_none_or(|extension| extension != ENTRY) {
                continue;
            }
            let entry = match read_entry(&path) {
                Ok(Some(entry)) => entry,
                // Another process may remove the entry at any time.
                Ok(None) => continue,
                // A damaged entry must not hide the others. It cannot say its name.
                Err(error @ VaultError::Sealed(_)) => {
                    tracing::warn!(%error, "an entry of the vault is left out");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Ok(written) = fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                entries.push((entry.name, written));
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    /// Locks an entry. Waits at most `limit` for another process that holds the lock. Blocks.
    pub fn lock(
        &self,
        kind: EntryKind,
        name: &str,
        limit: Duration,
    ) -> Result<EntryLock, VaultError> {
        check_name(name)?;
        let folder = self.dir.join(kind.folder());
        private_dir(&self.dir).map_err(unusable(&self.dir))?;
        private_dir(&folder).map_err(unusable(&folder))?;
        let path = self.path(kind, name).with_extension("lock");
        let file = open_private(&path, private_options().write(true)).map_err(unusable(&path))?;
        let end = Instant::now() + limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(EntryLock(file)),
                Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    return Err(VaultError::Locked(path));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            }
        }
    }

    fn path(&self, kind: EntryKind, name: &str) -> PathBuf {
        // Use a hash: names may contain any characters, and may differ only in case.
        let digest = Sha256::digest(name.as_bytes());
        let file = format!("{}.{ENTRY}", hex::encode(&digest[..16]));
        self.dir.join(kind.folder()).join(file)
    }

    fn with_key<T>(&self, use_key: impl FnOnce(&LessSafeKey) -> T) -> Result<T, VaultError> {
        let mut key = self.key.lock();
        if key.is_none() {
            let bytes = key::load(&self.dir, self.key_store.as_ref())?;
            let unbound = UnboundKey::new(&CHACHA20_POLY1305, &bytes);
            *key = Some(LessSafeKey::new(unbound.expect("the key has 32 bytes")));
        }
        Ok(use_key(key.as_ref().expect("the key was just set")))
    }
}

/// The pause between two attempts to lock an entry.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The extension of an entry's file.
const ENTRY: &str = "entry";

/// The text that is authenticated with a secret, so that no entry's file can replace another.
fn aad(kind: EntryKind, name: &str) -> String {
    format!("{}/{name}", kind.folder())
}

fn check_name(name: &str) -> Result<(), VaultError> {
    let is_good = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    is_good.then_some(()).ok_or(VaultError::Name)
}

fn read_entry(path: &Path) -> Result<Option<SealedEntry>, VaultError> {
    let bytes = match read_private(path) {
        Err(error) if error.is_not_found() => return Ok(None),
        bytes => bytes.map_err(unusable(path))?,
    };
    let entry = serde_json::from_slice(&bytes);
    entry
        .map(Some)
        .map_err(|_| VaultError::Sealed(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    fn vault(dir: &Path) -> Vault {
        Vault::new(dir.join("vault"), Box::new(NoKeyStore))
    }

    #[test]
    fn a_secret_is_read_again_and_lies_nowhere_in_plain_text() {
        let dir = tempfile::tempdir().expect("a folder");
        let secret = b"a secret that is long enough to be found";
        vault(dir.path())
            .write(EntryKind::Logins, "files", secret)
            .expect("written");
        let read = vault(dir.path())
            .read(EntryKind::Logins, "files")
            .expect("read");
        assert_eq!(read.as_deref(), Some(secret.as_slice()));
        let mut folders = vec![dir.path().to_owned()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                files += 1;
                let bytes = fs::read(&path).expect("a file");
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains("long enough"), "{}", path.display());
                let hex = hex::encode(b"long enough");
                assert!(!text.contains(&hex), "{}", path.display());
            }
        }
        assert_eq!(files, 3, "an entry, the key and its lock");
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let vault = vault(dir.path());
        vault.write(EntryKind::Secrets, "x", b"y").expect("written");
        for path in [
            vault.path(EntryKind::Secrets, "x"),
            dir.path().join("vault/key"),
        ] {
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }

    #[test]
    fn kinds_and_names_are_apart() {
        let dir = tempfile::tempdir().expect("a folder");
        let vault = vault(dir.path());
        assert_eq!(
            vault.names(EntryKind::Secrets).expect("names"),
            Vec::<String>::new()
        );
        assert_eq!(vault.read(EntryKind::Secrets, "a").expect("nothing"), None);
        assert_eq!(vault.key_place().expect("a place"), None);
        for (kind, name, secret) in [
            (EntryKind::Secrets, "b/ü", "1"),
            (EntryKind::Secrets, "A", "2"),
            (EntryKind::Secrets, "a", "3"),
            (EntryKind::Logins, "a", "4"),
        ] {
            vault.write(kind, name, secret.as_bytes()).expect("written");
        }
        assert_eq!(
            vault.names(EntryKind::Secrets).expect("names"),
            ["A", "a", "b/ü"]
        );
        assert_eq!(
            vault.read(EntryKind::Secrets, "a").expect("read"),
            Some(b"3".to_vec())
        );
        assert!(vault.remove(EntryKind::Secrets, "a").expect("removed"));
        assert!(!vault.remove(EntryKind::Secrets, "a").expect("not there"));
        assert_eq!(
            vault.read(EntryKind::Logins, "a").expect("read"),
            Some(b"4".to_vec())
        );
        assert_eq!(vault.key_place().expect("a place"), Some(KeyPlace::File));
    }

    #[test]
    fn a_file_that_was_changed_or_moved_is_not_believed() {
        let dir = tempfile::tempdir().expect("a folder");
        let vault = vault(dir.path());
        vault
            .write(EntryKind::Secrets, "one", b"1")
            .expect("written");
        vault
            .write(EntryKind::Secrets, "two", b"2")
            .expect("written");
        let (one, two) = (
            vault.path(EntryKind::Secrets, "one"),
            vault.path(EntryKind::Secrets, "two"),
        );
        fs::copy(&one, &two).expect("copied");
        assert!(matches!(
            vault.read(EntryKind::Secrets, "two"),
            Err(VaultError::Sealed(_))
        ));
        for text in ["", "{}", r#"{"name": "one", "nonce": "é0", "sealed": "0"}"#] {
            fs::write(&one, text).expect("written");
            assert!(
                matches!(
                    vault.read(EntryKind::Secrets, "one"),
                    Err(VaultError::Sealed(_))
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn a_lost_key_is_an_error_and_not_a_new_key() {
        let dir = tempfile::tempdir().expect("a folder");
        vault(dir.path())
            .write(EntryKind::Secrets, "one", b"1")
            .expect("written");
        fs::write(dir.path().join("vault/key"), "nonsense").expect("written");
        let error = vault(dir.path())
            .read(EntryKind::Secrets, "one")
            .expect_err("an error");
        assert!(matches!(error, VaultError::BadKey(_)), "{error}");
    }

    #[test]
    fn names_and_secrets_have_limits() {
        let dir = tempfile::tempdir().expect("a folder");
        let vault = vault(dir.path());
        for name in ["", "a\nb", &"n".repeat(MAX_NAME + 1)] {
            let written = vault.write(EntryKind::Secrets, name, b"x");
            assert!(matches!(written, Err(VaultError::Name)), "{name:?}");
        }
        let long = vec![0; MAX_SECRET + 1];
        vault
            .write(EntryKind::Logins, "long", &long)
            .expect("the tokens of a login may be longer");
        let written = vault.write(EntryKind::Secrets, "long", &long);
        assert!(matches!(written, Err(VaultError::TooLong(MAX_SECRET))));
        vault
            .write(EntryKind::Secrets, "long", &vec![0; MAX_SECRET])
            .expect("written");
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_lock_that_is_held_too_long_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let vault = vault(dir.path());
        let lock = vault.lock(EntryKind::Logins, "a", LIMIT).expect("a lock");
        let other = vault.lock(EntryKind::Logins, "a", Duration::ZERO);
        assert!(matches!(other, Err(VaultError::Locked(_))), "{other:?}");
        drop(lock);
        vault
            .lock(EntryKind::Logins, "a", Duration::ZERO)
            .expect("a lock");
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let vault = Arc::new(vault(dir.path()));
        let lock = vault.lock(EntryKind::Logins, "a", LIMIT).expect("a lock");
        let other = vault
            .lock(EntryKind::Logins, "b", LIMIT)
            .expect("another lock");
        let waiting = thread::spawn({
            let vault = Arc::clone(&vault);
            move || vault.lock(EntryKind::Logins, "a", LIMIT).map(drop)
        });
        vault.write(EntryKind::Logins, "a", b"x").expect("written");
        assert!(!waiting.is_finished());
        drop((lock, other));
        waiting.join().expect("joined").expect("a lock");
    }
}
