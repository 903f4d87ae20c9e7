//! The keyring of the system. Released builds include it (feature `keyring`).

use super::KeyStore;

/// The store of the key on this system.
pub fn system() -> Box<dyn KeyStore> {
    #[cfg(feature = "keyring")]
    if std::env::var_os(platform::SWITCH).is_none_or(|switch| switch != "off") {
        let keyring = platform::SystemKeyring;
        return Box::new(super::time_limited::TimeLimited::new(
            keyring,
            platform::LIMIT,
        ));
    }
    Box::new(super::NoKeyStore)
}

#[cfg(feature = "keyring")]
mod platform {
    use std::time::Duration;

    use keyring::{Entry, Error};

    use crate::vault::{KeyStore, KeyStoreError};

    /// The time limit of an access. A person may have to unlock the keyring first.
    pub const LIMIT: Duration = Duration::from_secs(30);

    /// The variable that switches the keyring off, for machines where the keyring does not work.
    pub const SWITCH: &str = "MAINSTAY_KEYRING";

    /// The service name of Mainstay's entries.
    const SERVICE: &str = "mainstay";

    /// The Secret Service, the keychain of macOS or the Credential Manager of Windows. Blocks.
    #[derive(Debug)]
    pub struct SystemKeyring;

    fn failed(error: &Error) -> KeyStoreError {
        KeyStoreError(error.to_string())
    }

    impl KeyStore for SystemKeyring {
        fn read(&self, account: &str) -> Result<Option<String>, KeyStoreError> {
            let entry = Entry::new(SERVICE, account).map_err(|error| failed(&error))?;
            match entry.get_password() {
                Ok(key) => Ok(Some(key)),
                Err(Error::NoEntry) => Ok(None),
                Err(error) => Err(failed(&error)),
            }
        }

        fn write(&self, account: &str, key: &str) -> Result<(), KeyStoreError> {
            let entry = Entry::new(SERVICE, account).map_err(|error| failed(&error))?;
            entry.set_password(key).map_err(|error| failed(&error))
        }
    }
}
