//! The objects that clients read in parts, a few at a time.
//!
//! A client reads a large result in thousands of parts. The latest object stays in memory, so that it
//! is loaded and checked once.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    failure::{Failure, FailureKind},
    record::{Cid, OBJECTS},
};
use mainstay_gateway::calls::Calls;
use mainstay_journal::JournalError;
use mainstay_platform::blocking::try_off_the_runtime;
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::Semaphore, time::Instant};

use super::builtin::{excerpt::Object, reach::Reach, refusal::Refusal};
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
    last: Arc<Last>,
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
            last: Arc::default(),
        }
    }
}

impl KeptObjects {
    /// Drops the object that is not read any more.
    pub fn expire(&self) {
        let mut last = self.last.get();
        if last
            .as_ref()
            .is_some_and(|held| held.read.elapsed() >= HELD_FOR)
        {
            *last = None;
        }
    }

    /// Reads an object that is within reach, in its turn, on a thread where that may take a while.
    pub async fn read<T: Send + 'static>(
        &self,
        calls: &Calls,
        reach: Reach,
        cid: &str,
        read: impl FnOnce(&Object) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let unknown = Refusal::CidNotFound(bare(cid).to_owned());
        let Ok(known) = bare(cid).parse::<Cid>() else {
            return Err(unknown);
        };
        let (journal, last) = (Arc::clone(journal(calls)?), Arc::clone(&self.last));
        let stopped = |error: &dyn std::error::Error| {
            Failure::new(FailureKind::JournalUnreadable, error.to_string())
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|error| stopped(&error))?;
        let runtime = Handle::current();
        let reading = try_off_the_runtime(move || {
            // Held to the end, even if the caller stopped waiting.
            let _turn = turn;
            // Each time: the object in memory may be there because of another client.
            if !runtime.block_on(journal.is_held(known, move |holder| reach.shows(holder)))? {
                return Err(JournalError::NoSuchObject(known));
            }
            let object = match last.find(known) {
                Some(object) => object,
                None => last.keep(known, Object::new(runtime.block_on(journal.object(known))?)),
            };
            Ok(read(&object))
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
