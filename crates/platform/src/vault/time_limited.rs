//! Limits the time of an access to a keyring, which may ask a person or hang.

use std::{
    fmt::Debug,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{KeyStore, KeyStoreError};

/// The time after a failed read in which the keyring is not used, so that it does not ask a person again and
/// again.
const REST: Duration = Duration::from_mins(1);

/// A key store that answers in bounded time, whatever the wrapped store does.
#[derive(Debug)]
pub struct TimeLimited<S> {
    store: Arc<S>,
    limit: Duration,
    access: Arc<Mutex<Access>>,
}

/// The state of the accesses to the keyring. Locked for one operation.
#[derive(Debug, Default)]
struct Access {
    /// True while an access runs. It may hang for ever.
    is_busy: bool,
    refusal: Option<(Instant, KeyStoreError)>,
}

impl<S: KeyStore + 'static> TimeLimited<S> {
    pub fn new(store: S, limit: Duration) -> Self {
        Self {
            store: Arc::new(store),
            limit,
            access: Arc::default(),
        }
    }

    fn within_limit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&S) -> Result<T, KeyStoreError> + Send + 'static,
    ) -> Result<T, KeyStoreError> {
        {
            let mut access = self.access.lock();
            let recent = access.refusal.as_ref();
            if let Some((_, refusal)) = recent.filter(|(since, _)| since.elapsed() < REST) {
                return Err(refusal.clone());
            }
            if access.is_busy {
                let text = "it has not answered an earlier question yet";
                return Err(KeyStoreError(text.to_owned()));
            }
            access.is_busy = true;
        }
        let (sender, answer) = mpsc::channel();
        let (store, access) = (Arc::clone(&self.store), Arc::clone(&self.access));
        // Not joined: the thread ends with the access, or never.
        let started = thread::Builder::new()
            .name("keyring".to_owned())
            .spawn(move || {
                let outcome = work(&store);
                access.lock().is_busy = false;
                // The caller may have stopped waiting.
                sender.send(outcome).ok();
            });
        if let Err(error) = started {
            self.access.lock().is_busy = false;
            return Err(KeyStoreError(error.to_string()));
        }
        let late = || {
            let seconds = self.limit.as_secs();
            let text = format!("it did not answer within {seconds} s; it may wait to be unlocked");
            Err(KeyStoreError(text))
        };
        let outcome = answer.recv_timeout(self.limit).unwrap_or_else(|_| late());
        if let Err(refusal) = &outcome {
            self.access.lock().refusal = Some((Instant::now(), refusal.clone()));
        }
        outcome
    }
}

impl<S: KeyStore + 'static> KeyStore for TimeLimited<S> {
    fn read(&self, account: &str) -> Result<Option<String>, KeyStoreError> {
        let account = account.to_owned();
        self.within_limit(move |store| store.read(&account))
    }

    fn write(&self, account: &str, key: &str) -> Result<(), KeyStoreError> {
        let (account, key) = (account.to_owned(), key.to_owned());
        self.within_limit(move |store| store.write(&account, &key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keyring that waits until the test releases the lock, and then refuses.
    #[derive(Debug)]
    struct HungKeyring(Arc<Mutex<()>>);

    impl KeyStore for HungKeyring {
        fn read(&self, account: &str) -> Result<Option<String>, KeyStoreError> {
            drop(self.0.lock());
            Ok(Some(account.to_owned()))
        }

        fn write(&self, _account: &str, _key: &str) -> Result<(), KeyStoreError> {
            Err(KeyStoreError("dismissed".to_owned()))
        }
    }

    #[test]
    fn a_keyring_that_hangs_is_given_up_and_not_asked_again_at_once() {
        let hung = Arc::new(Mutex::new(()));
        let store = TimeLimited::new(HungKeyring(Arc::clone(&hung)), Duration::from_millis(20));
        let lock = hung.lock();
        let error = store.read("a").expect_err("late").to_string();
        assert!(error.contains("did not answer"), "{error}");
        assert_eq!(store.read("a").expect_err("rests").to_string(), error);
        store.access.lock().refusal = None;
        let error = store.read("a").expect_err("busy").to_string();
        assert!(error.contains("has not answered"), "{error}");
        drop(lock);
        while store.access.lock().is_busy {
            thread::yield_now();
        }
        assert_eq!(store.read("a"), Ok(Some("a".to_owned())));
        assert_eq!(store.write("a", "k").expect_err("refused").0, "dismissed");
        assert_eq!(store.read("a").expect_err("rests").0, "dismissed");
    }
}
