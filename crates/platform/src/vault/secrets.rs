//! Reads the secrets that `${keyring:NAME}` names in bounded time, and holds the vaults of this process.
//!
//! A keyring may ask a person, or hang. The vault is therefore read by a thread that is never joined, and the
//! number of such threads is bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use mainstay_config::UnreadableSecret;
use mainstay_core::{config::Secret, failure::with_causes};
use parking_lot::Mutex;

use super::{EntryKind, Vault, system};
use crate::state::StateDir;

/// The time that a caller waits for secrets. It is longer than for files, because a keyring may ask a person.
pub const PATIENCE: Duration = Duration::from_secs(32);

/// The maximum number of threads that read the vault at once, including threads that hang.
const MAX_READINGS: usize = 4;

/// The number of threads that read the vault.
static READINGS: AtomicUsize = AtomicUsize::new(0);

/// The vaults of this process by their folders. All users of a vault share it, so that its key is requested
/// once. Locked only to look up a vault.
static VAULTS: Mutex<BTreeMap<PathBuf, Arc<Vault>>> = Mutex::new(BTreeMap::new());

/// The vault of a state directory.
pub fn shared(state: &StateDir) -> Arc<Vault> {
    let dir = state.vault();
    let mut vaults = VAULTS.lock();
    let open = || Arc::new(Vault::new(dir.clone(), system()));
    Arc::clone(vaults.entry(dir.clone()).or_insert_with(open))
}

/// Counts a thread that reads the vault, until the value is dropped.
struct ReadingSlot;

impl ReadingSlot {
    fn take() -> Option<Self> {
        let more = |readings| (readings < MAX_READINGS).then_some(readings + 1);
        let former = READINGS.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        former.ok().map(|_| Self)
    }
}

impl Drop for ReadingSlot {
    fn drop(&mut self) {
        READINGS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The secrets with these names. Every name gets a result. Returns within [`PATIENCE`] in any case.
pub fn secrets(
    vault: &Arc<Vault>,
    names: &BTreeSet<String>,
) -> BTreeMap<String, Result<Secret, UnreadableSecret>> {
    read_within(vault, names, PATIENCE)
}

fn read_within(
    vault: &Arc<Vault>,
    names: &BTreeSet<String>,
    patience: Duration,
) -> BTreeMap<String, Result<Secret, UnreadableSecret>> {
    let mut read = BTreeMap::new();
    if names.is_empty() {
        return read;
    }
    let mut missing = UnreadableSecret::Late(patience);
    match ReadingSlot::take() {
        None => missing = UnreadableSecret::Congested,
        Some(slot) => {
            let since = Instant::now();
            let (sender, results) = mpsc::channel();
            let (vault, names) = (Arc::clone(vault), names.clone());
            let work = move || {
                let _slot = slot;
                for name in names {
                    let secret = read_one(&vault, &name);
                    // The caller stopped waiting.
                    if sender.send((name, secret)).is_err() {
                        break;
                    }
                }
            };
            // Not joined: the thread ends with the read, or never.
            match thread::Builder::new().name("vault".to_owned()).spawn(work) {
                Err(error) => missing = UnreadableSecret::Vault(error.to_string()),
                Ok(_) => {
                    let left = || patience.saturating_sub(since.elapsed());
                    while let Ok((name, secret)) = results.recv_timeout(left()) {
                        read.insert(name, secret);
                    }
                }
            }
        }
    }
    for name in names {
        let late = || Err(missing.clone());
        read.entry(name.clone()).or_insert_with(late);
    }
    read
}

fn read_one(vault: &Vault, name: &str) -> Result<Secret, UnreadableSecret> {
    let secret = vault.read(EntryKind::Secrets, name);
    let bytes = secret
        .map_err(|error| UnreadableSecret::Vault(with_causes(&error)))?
        .ok_or(UnreadableSecret::Absent)?;
    let text = String::from_utf8(bytes).map_err(|_| UnreadableSecret::NotText)?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::vault::{KeyStore, KeyStoreError};

    /// Serialises these tests, which share [`READINGS`].
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());

    /// A keyring that answers only while the test does not hold the lock.
    #[derive(Debug)]
    struct SlowKeyring(Arc<Mutex<()>>);

    impl KeyStore for SlowKeyring {
        fn read(&self, _account: &str) -> Result<Option<String>, KeyStoreError> {
            drop(self.0.lock());
            Ok(Some("00".repeat(32)))
        }

        fn write(&self, _account: &str, _key: &str) -> Result<(), KeyStoreError> {
            drop(self.0.lock());
            Ok(())
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_name_gets_its_secret_or_a_reason() {
        let _alone = ONE_BY_ONE.lock();
        let dir = tempfile::tempdir().expect("a folder");
        let state = StateDir::new(dir.path());
        let vault = shared(&state);
        assert!(Arc::ptr_eq(&vault, &shared(&state)), "one vault for all");
        vault.write(EntryKind::Secrets, "a", b"1").expect("written");
        vault
            .write(EntryKind::Secrets, "raw", &[0xff])
            .expect("written");
        vault.write(EntryKind::Secrets, "b", b"2").expect("written");
        damage(dir.path(), "b");
        let read = secrets(&vault, &names(&["a", "b", "raw", "none"]));
        assert_eq!(read["a"], Ok(Secret::new("1")));
        assert_eq!(read["raw"], Err(UnreadableSecret::NotText));
        assert_eq!(read["none"], Err(UnreadableSecret::Absent));
        let damaged = read["b"].clone().expect_err("a reason").to_string();
        assert!(damaged.contains("cannot be decrypted"), "{damaged}");
    }

    /// Changes a digit of the encrypted secret.
    fn damage(state: &Path, name: &str) {
        let folder = state.join("vault/secrets");
        for file in std::fs::read_dir(folder).expect("a folder") {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("text");
            if !text.contains(&format!("\"name\":\"{name}\"")) {
                continue;
            }
            let at = text.find("sealed\":\"").expect("a member") + "sealed\":\"".len();
            let digit = if text[at..].starts_with('0') {
                "1"
            } else {
                "0"
            };
            let text = format!("{}{digit}{}", &text[..at], &text[at + 1..]);
            std::fs::write(&path, text).expect("written");
        }
    }

    #[test]
    fn a_keyring_that_hangs_is_given_up_and_holds_few_threads() {
        let _alone = ONE_BY_ONE.lock();
        let dir = tempfile::tempdir().expect("a folder");
        let hung = Arc::new(Mutex::new(()));
        let open = || {
            Arc::new(Vault::new(
                dir.path(),
                Box::new(SlowKeyring(Arc::clone(&hung))),
            ))
        };
        open()
            .write(EntryKind::Secrets, "a", b"1")
            .expect("written");
        let vault = open();
        let lock = hung.lock();
        let patience = Duration::from_millis(50);
        let late = Err(UnreadableSecret::Late(patience));
        for _ in 0..MAX_READINGS {
            assert_eq!(read_within(&vault, &names(&["a"]), patience)["a"], late);
        }
        let congested = Err(UnreadableSecret::Congested);
        assert_eq!(
            read_within(&vault, &names(&["a"]), patience)["a"],
            congested
        );
        drop(lock);
        while READINGS.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }
}
