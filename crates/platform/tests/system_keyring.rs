//! Tests of the vault with the keyring of a system. `tests/keyring/run` provides a Secret Service.
#![cfg(feature = "keyring")]

use std::{fs, path::Path, process::Command};

use keyring::Entry;
use mainstay_platform::vault::{EntryKind, KeyPlace, Vault, VaultError, system};
use tempfile::{TempDir, tempdir};

const VALUE: &[u8] = b"a secret";

fn open(folder: &Path) -> Vault {
    Vault::new(folder, system())
}

/// Creates a vault with one secret.
fn written() -> TempDir {
    let folder = tempdir().expect("a folder");
    let vault = open(folder.path());
    vault
        .write(EntryKind::Secrets, "a", VALUE)
        .expect("written");
    folder
}

fn read(folder: &TempDir) -> Result<Option<Vec<u8>>, VaultError> {
    open(folder.path()).read(EntryKind::Secrets, "a")
}

fn place(folder: &TempDir) -> Option<KeyPlace> {
    open(folder.path()).key_place().expect("a place")
}

/// The keyring's entry with the key of a vault.
fn key(folder: &TempDir) -> Entry {
    let account = std::path::absolute(folder.path()).expect("a path");
    Entry::new("mainstay", &account.to_string_lossy()).expect("an entry")
}

#[test]
#[ignore = "needs an unlocked Secret Service: tests/keyring/run"]
fn the_key_lies_in_an_unlocked_keyring() {
    let folder = written();
    assert_eq!(place(&folder), Some(KeyPlace::Keyring));
    assert_eq!(read(&folder).expect("read"), Some(VALUE.to_vec()));
    let digits = key(&folder).get_password().expect("a key");
    assert_eq!(digits.len(), 64);

    let other_digits = key(&written()).get_password().expect("a key");
    assert_ne!(digits, other_digits, "each state directory has its own");

    // The file that names the place of the key may be lost.
    fs::remove_file(folder.path().join("key")).expect("removed");
    assert_eq!(read(&folder).expect("read"), Some(VALUE.to_vec()));

    key(&folder).delete_credential().expect("deleted");
    let error = read(&folder).expect_err("no key");
    assert!(matches!(error, VaultError::KeyLost(_)), "{error}");
}

#[test]
#[ignore = "needs an unlocked Secret Service: tests/keyring/run"]
fn a_keyring_that_was_locked_is_named() {
    let folder = written();
    let lock = [
        "call",
        "--session",
        "--dest=org.freedesktop.secrets",
        "--object-path=/org/freedesktop/secrets",
        "--method=org.freedesktop.Secret.Service.Lock",
        "[objectpath '/org/freedesktop/secrets/collection/login']",
    ];
    let locked = Command::new("gdbus").args(lock).status().expect("gdbus");
    assert!(locked.success());
    let error = read(&folder).expect_err("no key");
    assert!(matches!(error, VaultError::KeyStore(_)), "{error}");
}

#[test]
#[ignore = "needs a session without a Secret Service: tests/keyring/run"]
fn without_a_keyring_the_key_lies_in_a_file() {
    let folder = written();
    assert_eq!(place(&folder), Some(KeyPlace::File));
    assert_eq!(read(&folder).expect("read"), Some(VALUE.to_vec()));
}
