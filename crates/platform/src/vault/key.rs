//! The key of the vault: in the system's keyring, or in a file.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
};

use super::{VaultError, failed, unusable};
use crate::{
    hex,
    state::{open_private, private_dir, private_options, read_private, sync_folder, write_private},
};

/// The file that contains the key, and its content if the key is in the keyring.
const KEY_FILE: &str = "key";
const IN_KEYRING: &str = "keyring";

const KEY_LENGTH: usize = 32;

/// A store for one key outside of Mainstay's files.
pub trait KeyStore: Debug + Send + Sync {
    /// The key in hexadecimal digits. `None` if the store works but has no key.
    fn read(&self, account: &str) -> Result<Option<String>, KeyStoreError>;
    fn write(&self, account: &str, key: &str) -> Result<(), KeyStoreError>;
}

/// The reason that a keyring cannot be used, as a text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyStoreError(pub String);

const NO_KEYRING: &str =
    "this Mainstay uses no keyring: it was built without one, or MAINSTAY_KEYRING is off";

/// The key store of a system without a keyring.
#[derive(Clone, Copy, Debug)]
pub struct NoKeyStore;

impl KeyStore for NoKeyStore {
    fn read(&self, _account: &str) -> Result<Option<String>, KeyStoreError> {
        Err(KeyStoreError(NO_KEYRING.to_owned()))
    }

    fn write(&self, _account: &str, _key: &str) -> Result<(), KeyStoreError> {
        Err(KeyStoreError(NO_KEYRING.to_owned()))
    }
}

/// The place of a vault's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Keyring,
    /// A file of mode 0600 in the state directory.
    File,
}

pub(super) fn place(dir: &Path) -> Result<Option<KeyPlace>, VaultError> {
    Ok(read_file(dir)?.map(|text| match text.as_str() {
        IN_KEYRING => KeyPlace::Keyring,
        _ => KeyPlace::File,
    }))
}

/// Returns the key. Creates a key if there is none. Processes that do so at the same time agree on one key.
pub(super) fn load(dir: &Path, store: &dyn KeyStore) -> Result<[u8; KEY_LENGTH], VaultError> {
    // Each state directory has its own key.
    let account = std::path::absolute(dir).map_err(failed(dir))?;
    let account = account.to_string_lossy().into_owned();
    if let Some(key) = read(dir, store, &account)? {
        return Ok(key);
    }
    private_dir(dir).map_err(unusable(dir))?;
    let lock_path = dir.join("key.lock");
    let lock =
        open_private(&lock_path, private_options().write(true)).map_err(unusable(&lock_path))?;
    lock.lock().map_err(failed(&lock_path))?;
    match read(dir, store, &account)? {
        Some(key) => Ok(key),
        None => make(dir, store, &account),
    }
}

fn read(
    dir: &Path,
    store: &dyn KeyStore,
    account: &str,
) -> Result<Option<[u8; KEY_LENGTH]>, VaultError> {
    let path = dir.join(KEY_FILE);
    match read_file(dir)? {
        Some(text) if text == IN_KEYRING => {
            let key = store.read(account).map_err(VaultError::KeyStore)?;
            let key = key.ok_or_else(|| VaultError::KeyLost(dir.to_owned()))?;
            parse(&key, &path).map(Some)
        }
        Some(text) => parse(&text, &path).map(Some),
        None => Ok(None),
    }
}

/// Creates a key. If the key file is gone, the keyring may still have a key. That key is used, because a new
/// key would make the entries unreadable.
fn make(dir: &Path, store: &dyn KeyStore, account: &str) -> Result<[u8; KEY_LENGTH], VaultError> {
    let path = dir.join(KEY_FILE);
    let mut key = [0; KEY_LENGTH];
    getrandom::fill(&mut key).map_err(|_| VaultError::Random)?;
    let text = hex::encode(&key);
    let stored = match store.read(account) {
        Ok(Some(stored)) => {
            key = parse(&stored, &path)?;
            Ok(())
        }
        Ok(None) => store.write(account, &text),
        Err(error) => Err(error),
    };
    let content = match stored {
        Ok(()) => IN_KEYRING.to_owned(),
        Err(error) => {
            tracing::debug!(%error, "the key of the vault lies in a file");
            text
        }
    };
    write_private(&path, content.as_bytes()).map_err(failed(&path))?;
    sync_folder(dir).map_err(failed(dir))?;
    Ok(key)
}

fn parse(text: &str, path: &Path) -> Result<[u8; KEY_LENGTH], VaultError> {
    hex::decode(text.trim())
        .and_then(|key| key.try_into().ok())
        .ok_or_else(|| VaultError::BadKey(path.to_owned()))
}

fn read_file(dir: &Path) -> Result<Option<String>, VaultError> {
    let path: PathBuf = dir.join(KEY_FILE);
    match read_private(&path) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| VaultError::BadKey(path))?;
            Ok(Some(text.trim().to_owned()))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(failed(&path)(io::Error::from(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use parking_lot::Mutex;

    use super::*;
    use crate::vault::{EntryKind, Vault};

    /// A keyring that can be locked.
    #[derive(Clone, Debug, Default)]
    struct FakeKeyring(Arc<Mutex<(bool, HashMap<String, String>)>>);

    impl FakeKeyring {
        fn check(&self) -> Result<(), KeyStoreError> {
            if self.0.lock().0 {
                return Err(KeyStoreError("it is locked".to_owned()));
            }
            Ok(())
        }
    }

    impl KeyStore for FakeKeyring {
        fn read(&self, account: &str) -> Result<Option<String>, KeyStoreError> {
            self.check()?;
            Ok(self.0.lock().1.get(account).cloned())
        }

        fn write(&self, account: &str, key: &str) -> Result<(), KeyStoreError> {
            self.check()?;
            self.0.lock().1.insert(account.to_owned(), key.to_owned());
            Ok(())
        }
    }

    #[test]
    fn a_keyring_holds_the_key_and_no_file_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let keyring = FakeKeyring::default();
        let open = || Vault::new(dir.path(), Box::new(keyring.clone()));
        open()
            .write(EntryKind::Secrets, "a", b"1")
            .expect("written");
        assert_eq!(
            open().key_place().expect("a place"),
            Some(KeyPlace::Keyring)
        );
        let file = std::fs::read_to_string(dir.path().join(KEY_FILE)).expect("a file");
        assert_eq!(file, IN_KEYRING);
        assert_eq!(
            open().read(EntryKind::Secrets, "a").expect("read"),
            Some(b"1".to_vec())
        );

        std::fs::remove_file(dir.path().join(KEY_FILE)).expect("removed");
        assert_eq!(
            open().read(EntryKind::Secrets, "a").expect("read"),
            Some(b"1".to_vec()),
            "the key of the keyring is used again"
        );

        keyring.0.lock().0 = true;
        let error = open().read(EntryKind::Secrets, "a").expect_err("an error");
        assert!(matches!(error, VaultError::KeyStore(_)), "{error}");
        assert!(
            open().write(EntryKind::Secrets, "b", b"2").is_err(),
            "no second key is made"
        );

        *keyring.0.lock() = (false, HashMap::new());
        let error = open().read(EntryKind::Secrets, "a").expect_err("an error");
        assert!(matches!(error, VaultError::KeyLost(_)), "{error}");
    }

    #[test]
    fn a_locked_keyring_at_the_beginning_means_a_file_for_good() {
        let dir = tempfile::tempdir().expect("a folder");
        let keyring = FakeKeyring::default();
        keyring.0.lock().0 = true;
        let open = || Vault::new(dir.path(), Box::new(keyring.clone()));
        open()
            .write(EntryKind::Secrets, "a", b"1")
            .expect("written");
        keyring.0.lock().0 = false;
        assert_eq!(open().key_place().expect("a place"), Some(KeyPlace::File));
        assert_eq!(
            open().read(EntryKind::Secrets, "a").expect("read"),
            Some(b"1".to_vec())
        );
    }
}
