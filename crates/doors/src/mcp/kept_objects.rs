//! The objects that clients read in parts, a few at a time.
//!
//! A client reads a large result in thousands of parts. The latest object stays in memory, so that it
//! is loaded and checked once.
//!
//! Each client has one reading at a time, and each reading ends by itself: a client that asks for much
//! waits for itself.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use mainstay_core::{
    failure::{Failure, FailureKind},
    record::{Cid, OBJECTS},
};
use mainstay_gateway::calls::Calls;
use mainstay_journal::JournalError;
use mainstay_platform::blocking::try_off_the_runtime;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::builtin::{
    excerpt::{Budget, Object, Reader},
    reach::{Reach, Whom},
    refusal::Refusal,
};
use mainstay_doorway::json_views::records::{failure, journal};

/// Objects that are read at once: each may take a processor for a while, and a hundred megabytes.
const MAX_READERS: usize = 4;

/// Bytes of the object that is kept at hand, with its text; one that is larger is loaded for each part.
const MAX_HELD: usize = 64 << 20;

/// How long it is kept after it was read last: models take their time between two parts.
const HELD_FOR: Duration = Duration::from_mins(1);

/// Reads objects.
#[derive(Debug)]
pub struct KeptObjects {
    turns: Arc<Semaphore>,
    /// One turn: a document takes a hundred megabytes as values.
    as_values: Arc<Semaphore>,
    /// One turn for each client that reads or waits.
    clients: Mutex<HashMap<Whom, Weak<Semaphore>>>,
    last: Arc<Last>,
}

/// How an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    AsText,
    AsValues,
}

/// The object that was read last.
#[derive(Debug, Default)]
struct Last(Mutex<Option<Held>>);

#[derive(Debug)]
struct Held {
    cid: Cid,
    object: Arc<Object>,
    read: Instant,
}

impl Default for KeptObjects {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(MAX_READERS)),
            as_values: Arc::new(Semaphore::new(1)),
            clients: Mutex::default(),
            last: Arc::default(),
        }
    }
}

impl KeptObjects {
    /// Drops the object that is not read any more, and the turns of clients that read nothing.
    pub fn expire(&self) {
        self.clients
            .lock()
            .retain(|_, turn| turn.strong_count() > 0);
        let mut last = self.last.get();
        if last
            .as_ref()
            .is_some_and(|held| held.read.elapsed() >= HELD_FOR)
        {
            *last = None;
        }
    }

    /// Waits until this client reads nothing else, and until others leave room.
    async fn turns(&self, whom: &Whom, reading: Reading) -> Vec<OwnedSemaphorePermit> {
        let as_values = (reading == Reading::AsValues).then(|| Arc::clone(&self.as_values));
        let wanted = [
            Some(self.turn_of(whom)),
            as_values,
            Some(Arc::clone(&self.turns)),
        ];
        let mut turns = Vec::new();
        for turn in wanted.into_iter().flatten() {
            turns.push(turn.acquire_owned().await.expect("nobody closes it"));
        }
        turns
    }

    fn turn_of(&self, whom: &Whom) -> Arc<Semaphore> {
        let mut clients = self.clients.lock();
        if let Some(turn) = clients.get(whom).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        clients.insert(whom.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Reads an object that is within reach, in its turn, on a thread where that may take a while. Ends
    /// soon after the caller stopped waiting.
    pub async fn read<T: Send + 'static>(
        &self,
        calls: &Calls,
        reach: Reach,
        cid: &str,
        reading: Reading,
        read: impl FnOnce(&Object, &Budget) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let unknown = Refusal::CidNotFound(bare(cid).to_owned());
        let Ok(known) = bare(cid).parse::<Cid>() else {
            return Err(unknown);
        };
        let (journal, last) = (Arc::clone(journal(calls)?), Arc::clone(&self.last));
        let stopped = |error: &dyn std::error::Error| {
            Failure::new(FailureKind::JournalUnreadable, error.to_string())
        };
        let turns = self.turns(reach.whom(), reading).await;
        let reader = Reader::new();
        let budget = reader.budget();
        let runtime = Handle::current();
        let reading = try_off_the_runtime(move || {
            // Held to the end, even if the caller stopped waiting.
            let _turns = turns;
            // Each time: the object in memory may be there because of another client.
            if !runtime.block_on(journal.is_held(known, move |holder| reach.shows(holder)))? {
                return Err(JournalError::NoSuchObject(known));
            }
            let object = match last.find(known) {
                Some(object) => object,
                None => last.keep(known, Object::new(runtime.block_on(journal.object(known))?)),
            };
            Ok(read(&object, &budget))
        });
        match reading.await.map_err(|error| stopped(&error))? {
            Err(JournalError::NoSuchObject(_) | JournalError::NotKept(_)) => Err(unknown),
            read => Ok(read.map_err(failure)?),
        }
    }
}

impl Last {
    fn get(&self) -> MutexGuard<'_, Option<Held>> {
        // Held to look and to replace, never across an await.
        self.0.lock()
    }

    fn find(&self, cid: Cid) -> Option<Arc<Object>> {
        let mut last = self.get();
        let held = last.as_mut().filter(|held| held.cid == cid)?;
        held.read = Instant::now();
        Some(Arc::clone(&held.object))
    }

    fn keep(&self, cid: Cid, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        if object.weight() <= MAX_HELD {
            let held = Held {
                cid,
                object: Arc::clone(&object),
                read: Instant::now(),
            };
            *self.get() = Some(held);
        }
        object
    }
}

/// The identifier, which may be given as the URI of the resource.
pub fn bare(cid: &str) -> &str {
    cid.strip_prefix(OBJECTS).unwrap_or(cid)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mainstay_core::{principal::Principal, record::ClientInfo};

    use super::*;

    /// A large object is loaded once, however many parts are read of it; one that is too large is not
    /// kept, and leaves the other.
    #[test]
    fn the_object_read_last_is_at_hand() {
        let last = Last::default();
        let (one, other) = (Cid::of(b"one"), Cid::of(b"other"));
        let kept = last.keep(one, Object::new(b"one".to_vec()));
        assert!(
            last.find(one)
                .is_some_and(|found| Arc::ptr_eq(&found, &kept))
        );
        assert!(last.find(other).is_none());
        last.keep(other, Object::new(vec![b'x'; MAX_HELD + 1]));
        assert!(last.find(other).is_none() && last.find(one).is_some());
        last.keep(other, Object::new(b"other".to_vec()));
        assert!(last.find(one).is_none() && last.find(other).is_some());
    }

    /// However much one client asks for, another one's turn comes.
    #[tokio::test]
    async fn a_client_waits_for_itself() {
        let objects = KeptObjects::default();
        // Of clients without a session (2026-07-28), which are told apart by what they call themselves.
        let whom = |name: &str| Whom {
            principal: Principal::Anonymous,
            session: None,
            client: Some(ClientInfo {
                name: name.to_owned(),
                version: "1".to_owned(),
            }),
        };
        let greedy = objects.turns(&whom("greedy"), Reading::AsText).await;
        for _ in 0..MAX_READERS {
            let more = objects
                .turns(&whom("greedy"), Reading::AsText)
                .now_or_never();
            assert!(more.is_none());
        }
        let other = objects
            .turns(&whom("other"), Reading::AsValues)
            .now_or_never();
        assert!(other.is_some());
        let last = whom("third");
        let third = objects.turns(&last, Reading::AsValues);
        tokio::pin!(third);
        assert!(
            (&mut third).now_or_never().is_none(),
            "one document at a time"
        );
        drop(other);
        assert!(third.now_or_never().is_some());
        drop(greedy);
        objects.expire();
        assert!(objects.clients.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_let_go() {
        let objects = KeptObjects::default();
        let cid = Cid::of(b"x");
        objects.last.keep(cid, Object::new(b"x".to_vec()));
        tokio::time::advance(HELD_FOR / 2).await;
        assert!(objects.last.find(cid).is_some());
        tokio::time::advance(HELD_FOR / 2).await;
        objects.expire();
        assert!(objects.last.find(cid).is_some(), "it was read meanwhile");
        tokio::time::advance(HELD_FOR).await;
        objects.expire();
        assert!(objects.last.find(cid).is_none());
    }
}
