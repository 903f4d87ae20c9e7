//! Reads stored objects in parts. The last object is cached, because a client may read a large
//! result in thousands of parts. Each client has one reading at a time, and all clients together at
//! most `MAX_READERS`.

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
    excerpt::{Budget, ReadableObject, Reader},
    reach::{ClientIdentity, Reach},
    refusal::ToolRefusal,
};
use mainstay_doorway::json_views::records::{failure, journal};

/// Maximum number of concurrent readings. A reading may take one CPU and 100 MB.
const MAX_READERS: usize = 4;

/// Maximum size of the cached object, in bytes. A larger object is loaded again for each part.
const MAX_CACHED: usize = 64 << 20;

/// Time after the last read in which the object stays cached. Models pause between two parts.
const CACHED_FOR: Duration = Duration::from_mins(1);

/// Reads stored objects in parts, with limited concurrency.
#[derive(Debug)]
pub struct KeptObjects {
    turns: Arc<Semaphore>,
    /// One permit, because an object takes 100 MB as JSON values.
    as_values: Arc<Semaphore>,
    /// A semaphore with one permit for each client that reads or waits.
    clients: Mutex<HashMap<ClientIdentity, Weak<Semaphore>>>,
    last: Arc<ObjectCache>,
}

/// The form in which an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    AsText,
    AsValues,
}

/// The object that was read last.
#[derive(Debug, Default)]
struct ObjectCache(Mutex<Option<CachedObject>>);

#[derive(Debug)]
struct CachedObject {
    cid: Cid,
    object: Arc<ReadableObject>,
    last_read: Instant,
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
    /// Drops an expired object, and the semaphores of clients that do not read.
    pub fn expire(&self) {
        self.clients
            .lock()
            .retain(|_, turn| turn.strong_count() > 0);
        let mut cached_object = self.last.get();
        if cached_object
            .as_ref()
            .is_some_and(|object| object.last_read.elapsed() >= CACHED_FOR)
        {
            *cached_object = None;
        }
    }

    /// Waits until the client's other reading has ended and a reader is free.
    async fn acquire_turns(
        &self,
        identity: &ClientIdentity,
        reading: Reading,
    ) -> Vec<OwnedSemaphorePermit> {
        let as_values = (reading == Reading::AsValues).then(|| Arc::clone(&self.as_values));
        let semaphores = [
            Some(self.turn_of(identity)),
            as_values,
            Some(Arc::clone(&self.turns)),
        ];
        let mut turns = Vec::new();
        for turn in semaphores.into_iter().flatten() {
            turns.push(turn.acquire_owned().await.expect("nobody closes it"));
        }
        turns
    }

    fn turn_of(&self, identity: &ClientIdentity) -> Arc<Semaphore> {
        let mut clients = self.clients.lock();
        if let Some(turn) = clients.get(identity).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        clients.insert(identity.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Reads an object on a blocking thread, if the client may see it. The reading ends soon after
    /// its caller stops waiting.
    pub async fn read<T: Send + 'static>(
        &self,
        calls: &Calls,
        reach: Reach,
        cid: &str,
        reading: Reading,
        read_object: impl FnOnce(&ReadableObject, &Budget) -> T + Send + 'static,
    ) -> Result<T, ToolRefusal> {
        let unknown_cid = ToolRefusal::CidNotFound(bare(cid).to_owned());
        let Ok(cid) = bare(cid).parse::<Cid>() else {
            return Err(unknown_cid);
        };
        let (journal, cache) = (Arc::clone(journal(calls)?), Arc::clone(&self.last));
        let stopped_read = |error: &dyn std::error::Error| {
            Failure::new(FailureKind::JournalUnreadable, error.to_string())
        };
        let turns = self.acquire_turns(reach.identity(), reading).await;
        let reader = Reader::new();
        let budget = reader.budget();
        let runtime = Handle::current();
        let reading = try_off_the_runtime(move || {
            // Hold the permits until the reading ends, even if the caller stops waiting.
            let _turns = turns;
            // Check access at each read, because another client may have cached the object.
            if !runtime.block_on(journal.is_held(cid, move |holder| reach.shows_holder(holder)))? {
                return Err(JournalError::NoSuchObject(cid));
            }
            let object = match cache.find(cid) {
                Some(object) => object,
                None => cache.keep(
                    cid,
                    ReadableObject::new(runtime.block_on(journal.object(cid))?),
                ),
            };
            Ok(read_object(&object, &budget))
        });
        match reading.await.map_err(|error| stopped_read(&error))? {
            Err(JournalError::NoSuchObject(_) | JournalError::NotKept(_)) => Err(unknown_cid),
            read_object => Ok(read_object.map_err(failure)?),
        }
    }
}

impl ObjectCache {
    fn get(&self) -> MutexGuard<'_, Option<CachedObject>> {
        // Locked for a lookup or a replacement, never across an await.
        self.0.lock()
    }

    fn find(&self, cid: Cid) -> Option<Arc<ReadableObject>> {
        let mut slot = self.get();
        let cached_object = slot
            .as_mut()
            .filter(|cached_object| cached_object.cid == cid)?;
        cached_object.last_read = Instant::now();
        Some(Arc::clone(&cached_object.object))
    }

    fn keep(&self, cid: Cid, object: ReadableObject) -> Arc<ReadableObject> {
        let object = Arc::new(object);
        if object.weight() <= MAX_CACHED {
            let cached_object = CachedObject {
                cid,
                object: Arc::clone(&object),
                last_read: Instant::now(),
            };
            *self.get() = Some(cached_object);
        }
        object
    }
}

/// The identifier without the prefix of the resource's URI.
pub fn bare(cid: &str) -> &str {
    cid.strip_prefix(OBJECTS).unwrap_or(cid)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mainstay_core::{principal::Principal, record::ClientInfo};

    use super::*;

    /// An object is loaded once. One that exceeds the limit is not cached, and does not replace the
    /// cached object.
    #[test]
    fn the_object_read_last_is_at_hand() {
        let cache = ObjectCache::default();
        let (first_cid, other_cid) = (Cid::for_content(b"one"), Cid::for_content(b"other"));
        let cached_object = cache.keep(first_cid, ReadableObject::new(b"one".to_vec()));
        assert!(
            cache
                .find(first_cid)
                .is_some_and(|object| Arc::ptr_eq(&object, &cached_object))
        );
        assert!(cache.find(other_cid).is_none());
        cache.keep(other_cid, ReadableObject::new(vec![b'x'; MAX_CACHED + 1]));
        assert!(cache.find(other_cid).is_none() && cache.find(first_cid).is_some());
        cache.keep(other_cid, ReadableObject::new(b"other".to_vec()));
        assert!(cache.find(first_cid).is_none() && cache.find(other_cid).is_some());
    }

    /// A client that reads often delays only itself.
    #[tokio::test]
    async fn a_client_waits_for_itself() {
        let objects = KeptObjects::default();
        // Clients without a session (2026-07-28) are told apart only by their declared names.
        let identity = |name: &str| ClientIdentity {
            principal: Principal::Anonymous,
            session: None,
            client: Some(ClientInfo {
                name: name.to_owned(),
                version: "1".to_owned(),
            }),
        };
        let greedy_turns = objects
            .acquire_turns(&identity("greedy"), Reading::AsText)
            .await;
        for _ in 0..MAX_READERS {
            let second_attempt = objects
                .acquire_turns(&identity("greedy"), Reading::AsText)
                .now_or_never();
            assert!(second_attempt.is_none());
        }
        let other_turns = objects
            .acquire_turns(&identity("other"), Reading::AsValues)
            .now_or_never();
        assert!(other_turns.is_some());
        let last_identity = identity("third");
        let third_turns = objects.acquire_turns(&last_identity, Reading::AsValues);
        tokio::pin!(third_turns);
        assert!(
            (&mut third_turns).now_or_never().is_none(),
            "one document at a time"
        );
        drop(other_turns);
        assert!(third_turns.now_or_never().is_some());
        drop(greedy_turns);
        objects.expire();
        assert!(objects.clients.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn unread_results_are_released() {
        let objects = KeptObjects::default();
        let cid = Cid::for_content(b"x");
        objects.last.keep(cid, ReadableObject::new(b"x".to_vec()));
        tokio::time::advance(CACHED_FOR / 2).await;
        assert!(objects.last.find(cid).is_some());
        tokio::time::advance(CACHED_FOR / 2).await;
        objects.expire();
        assert!(objects.last.find(cid).is_some(), "it was read meanwhile");
        tokio::time::advance(CACHED_FOR).await;
        objects.expire();
        assert!(objects.last.find(cid).is_none());
    }
}
