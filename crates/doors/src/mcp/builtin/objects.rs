//! Arguments and results that the journal keeps, read in parts by a tool (`read_object`) and as
//! resources (`mainstay://objects/CID`). The query of such a URI has the tool's arguments.
//!
//! An identifier can be computed from a guess of the content. So a client reads only the objects of its
//! own calls ([`Reach`]). Objects of others are answered as unknown.
//!
//! A client reads a large result in thousands of parts. The latest object stays in memory, so that it
//! is loaded and checked once. Few objects are read at a time.

use std::{sync::Arc, time::Duration};

use axum::{extract::Query, http::Uri};
use mainstay_core::{
    era::{Era, result},
    failure::{Failure, FailureKind},
    message::Method,
    record::{Cid, OBJECTS},
};
use mainstay_gateway::calls::Calls;
use mainstay_journal::JournalError;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
    task::spawn_blocking,
    time::Instant,
};

use super::{
    Outcome, Reach, Refusal, Said,
    context::Context,
    excerpt::{Excerpt, Object, Wanted},
    here,
};
use crate::{
    json_views::records::{failure, journal},
    mcp::{hub::Hub, reply::Reply},
};

/// What clients are told of these resources.
pub const TEMPLATE: &str = r#"{"uriTemplate":"mainstay://objects/{cid}{?offset,length,lines,pattern,path,raw}","name":"objects","title":"Whole results","description":"Results of which only the beginning was given, read in parts: offset and length in characters, lines as 10-40, pattern as a regular expression, path as a JSON path, raw=true for JSON as it is kept.","mimeType":"text/plain"}"#;

pub fn is_one(uri: &str) -> bool {
    uri.starts_with(OBJECTS)
}

/// Objects that are read at once: each may take a processor for a while, and a hundred megabytes.
const MAX_READERS: usize = 4;

/// Bytes of the object that is kept at hand, with its text; one that is larger is loaded for each part.
const MAX_HELD: usize = 64 << 20;

/// How long it is kept after it was read last: models take their time between two parts.
const HELD_FOR: Duration = Duration::from_mins(1);

/// Reads objects.
#[derive(Debug)]
pub struct Objects {
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

impl Default for Objects {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(MAX_READERS)),
            last: Arc::default(),
        }
    }
}

impl Objects {
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
    pub(super) async fn read<T: Send + 'static>(
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
        let reading = spawn_blocking(move || {
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

/// Answers `resources/read`; `reach` is `None` where objects cannot be read at all.
pub async fn read(
    hub: &Hub,
    reach: Option<Reach>,
    id: &str,
    uri: &str,
    client: Era,
    cancelled: oneshot::Receiver<String>,
) -> Reply {
    let part = match here(cancelled, part(hub, reach, uri)).await {
        Ok(part) => part,
        // Like the tools that read objects, this is no call of a server.
        Err(refusal) => return Reply::failure(id, &failed(refusal, uri)).refused_as(None),
    };
    let mut meta = json!({"mainstay/offset": part.offset, "mainstay/total": part.total});
    if let Some(next) = part.next_offset {
        meta["mainstay/nextOffset"] = next.into();
    }
    let contents =
        json!([{"uri": uri, "mimeType": "text/plain", "text": part.text, "_meta": meta}]);
    let result = json!({ "contents": contents }).to_string();
    match client {
        Era::Legacy => Reply::result(id, &result),
        Era::Modern => Reply::result(id, &result::to_modern(Method::ResourcesRead, &result)),
    }
}

async fn part(hub: &Hub, reach: Option<Reach>, uri: &str) -> Result<Excerpt, Refusal> {
    let (cid, query) = bare(uri).split_once('?').unwrap_or((bare(uri), ""));
    let unclear = |why: &dyn std::fmt::Display| Refusal::Arguments(format!("{uri}: {why}"));
    // Anything but letters and digits would say something else in the query.
    let cid: Cid = cid
        .parse()
        .map_err(|_| Refusal::CidNotFound(cid.to_owned()))?;
    let asked: Uri = format!("/?cid={cid}&{query}")
        .parse()
        .map_err(|why| unclear(&why))?;
    let Query(wanted) = Query::<Wanted>::try_from_uri(&asked).map_err(|why| unclear(&why))?;
    let reach = reach.ok_or_else(|| Refusal::CidNotFound(cid.to_string()))?;
    excerpt(hub, reach, wanted).await
}

fn failed(refusal: Refusal, uri: &str) -> Failure {
    match refusal {
        Refusal::Failed(failure) => failure,
        Refusal::CidNotFound(_) => {
            Failure::new(FailureKind::ResourceNotFound, "Resource not found").with("uri", uri)
        }
        other => Failure::new(FailureKind::InvalidRequest, other.to_string()),
    }
}

/// Part of an object (`read_object`).
pub(super) async fn read_part(context: &Context<'_>) -> Outcome {
    let wanted: Wanted = context.arguments()?;
    let cid = bare(&wanted.cid).to_owned();
    let Excerpt {
        text,
        offset,
        total,
        next_offset,
    } = excerpt(context.hub, context.reach(), wanted).await?;
    let mut said = json!({"cid": cid, "text": text, "offset": offset, "total": total});
    if let Some(next) = next_offset {
        said["next_offset"] = next.into();
    }
    Ok(Said::json(&said))
}

async fn excerpt(hub: &Hub, reach: Reach, wanted: Wanted) -> Result<Excerpt, Refusal> {
    let cid = wanted.cid.clone();
    let read = hub
        .objects
        .read(&hub.calls, reach, &cid, move |object| wanted.of(object));
    read.await?
        .map_err(|error| Refusal::Arguments(error.to_string()))
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
        let objects = Objects::default();
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
