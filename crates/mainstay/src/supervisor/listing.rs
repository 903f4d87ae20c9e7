//! Reads what a server offers: its lists, page by page.

use std::{collections::HashSet, time::Duration};

use mainstay_core::{
    catalog::{self, ListKind, ServerCatalog},
    era::code,
    ids::{Epoch, ServerName},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::transport::Session;

/// Pages that are followed per list (J17); a server that offers more is cut off there, with a warning.
const MAX_PAGES: usize = 1000;

/// What one page may take; K6 has 30 s for everything but `tools/call`.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// What came of a listing.
#[derive(Debug)]
pub struct Listed {
    pub catalog: ServerCatalog,
    /// Lists that could not be read, and why; the catalog has their last good state.
    pub failed: Vec<(ListKind, String)>,
}

/// Lists everything, or only `kinds`, over what was known before. A list that fails keeps its last
/// good state: green means evidence, and a list that fails is not an empty list.
pub async fn list(
    session: &Session,
    server: &ServerName,
    kinds: &[ListKind],
    before: Option<&ServerCatalog>,
) -> Listed {
    let mut catalog = before.cloned().unwrap_or_default();
    catalog.capabilities = session.greeting.capabilities;
    catalog
        .instructions
        .clone_from(&session.greeting.instructions);
    let mut failed = Vec::new();
    for &kind in kinds {
        if !kind.offered(&catalog.capabilities) {
            catalog.set(kind, Vec::new());
            continue;
        }
        match pages(session, server, kind).await {
            Ok(items) => catalog.set(kind, items),
            Err(error) => {
                tracing::warn!(%server, %error, "cannot list {}", kind.member());
                failed.push((kind, error.to_string()));
            }
        }
    }
    Listed { catalog, failed }
}

/// Why a list could not be read.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("no answer within {} s", PAGE_LIMIT.as_secs())]
    Timeout,
    #[error(transparent)]
    Interrupted(#[from] crate::transport::Interruption),
    #[error("the server answered {0}")]
    Refused(String),
    #[error(transparent)]
    NotAList(#[from] catalog::NotAList),
}

async fn pages(
    session: &Session,
    server: &ServerName,
    kind: ListKind,
) -> Result<Vec<catalog::Item>, ListError> {
    let mut items = Vec::new();
    let mut params = None::<String>;
    let mut cursors = HashSet::new();
    for _ in 0..MAX_PAGES {
        let asked = timeout(PAGE_LIMIT, session.ask(kind.method(), params.as_deref())).await;
        let answer = asked.map_err(|_| ListError::Timeout)??;
        let Some(result) = answer.result() else {
            let error = answer.error().unwrap_or_default();
            // A server may have resources and know no templates.
            if answer.error_code() == Some(code::METHOD_NOT_FOUND) {
                return Ok(Vec::new());
            }
            return Err(ListError::Refused(error.to_owned()));
        };
        let page = catalog::page(kind, result)?;
        if page.unusable > 0 {
            tracing::warn!(%server, count = page.unusable, "{} without a name were skipped", kind.member());
        }
        items.extend(page.items);
        let Some(cursor) = page.next_cursor else {
            return Ok(items);
        };
        params = Some(format!(
            r#"{{"cursor":{}}}"#,
            mainstay_core::message::quote(&cursor)
        ));
        if !cursors.insert(cursor) {
            tracing::warn!(%server, "the pages of {} repeat themselves; the list ends there", kind.member());
            return Ok(items);
        }
    }
    tracing::warn!(%server, pages = MAX_PAGES, "{} has more pages than are followed", kind.member());
    Ok(items)
}

/// A server that changes its lists in a burst is listed once (Y7).
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Lists that could not be read are read again after this time.
const RETRY: Duration = Duration::from_secs(10);

/// When to list, and the listing that runs.
#[derive(Default)]
pub struct Listings {
    running: JoinSet<Done>,
    /// Lists to be read at `at`; the flag says that the server announced a change.
    stale: Vec<(ListKind, bool)>,
    at: Option<Instant>,
}

/// A listing that has ended.
#[derive(Debug)]
pub struct Done {
    /// The attempt whose session was asked.
    pub epoch: Epoch,
    pub listed: Listed,
    /// The lists that the server had said have changed.
    pub announced: Vec<ListKind>,
}

impl Listings {
    /// The server says that a list has changed.
    pub fn announced(&mut self, kind: ListKind) {
        self.stale.retain(|(stale, _)| *stale != kind);
        self.stale.push((kind, true));
        self.at.get_or_insert(Instant::now() + DEBOUNCE);
    }

    /// These could not be read.
    pub fn failed(&mut self, kinds: impl Iterator<Item = ListKind>) {
        for kind in kinds {
            if !self.stale.iter().any(|(stale, _)| *stale == kind) {
                self.stale.push((kind, false));
            }
            self.at.get_or_insert(Instant::now() + RETRY);
        }
    }

    pub fn due(&self) -> Option<Instant> {
        self.at
    }

    /// What is due now, and nothing while a listing runs: an older one must not overwrite a newer one.
    pub fn take_due(&mut self) -> Option<(Vec<ListKind>, Vec<ListKind>)> {
        if self.at? > Instant::now() {
            return None;
        }
        if !self.running.is_empty() {
            self.at = Some(Instant::now() + DEBOUNCE);
            return None;
        }
        self.at = None;
        let stale = std::mem::take(&mut self.stale);
        let announced = stale.iter().filter(|(_, announced)| *announced);
        Some((
            stale.iter().map(|(kind, _)| *kind).collect(),
            announced.map(|(kind, _)| *kind).collect(),
        ))
    }

    /// A new session begins: what was to be asked of the one before does not matter any more.
    pub fn reset(&mut self) {
        self.running.abort_all();
        self.stale.clear();
        self.at = None;
    }

    pub fn start(&mut self, listing: impl Future<Output = Done> + Send + 'static) {
        self.running.spawn(listing);
    }

    /// Resolves only while a listing runs, and to `None` if it was given up. Cancel-safe.
    pub async fn done(&mut self) -> Option<Done> {
        match self.running.join_next().await {
            Some(Ok(done)) => Some(done),
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(%error, "a listing failed");
                None
            }
            Some(Err(_)) => None,
            None => std::future::pending().await,
        }
    }

    pub async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}
