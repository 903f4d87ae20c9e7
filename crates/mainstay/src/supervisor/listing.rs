//! Reads what a server offers: its lists, page by page.

use std::{collections::HashSet, time::Duration};

use mainstay_core::{
    catalog::{self, ListKind, ServerCatalog},
    ids::ServerName,
};
use tokio::time::timeout;

use crate::transport::Session;

/// Pages that are followed per list (J17); a server that offers more is cut off there, with a warning.
const MAX_PAGES: usize = 1000;

/// What one page may take; K6 has 30 s for everything but `tools/call`.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Lists everything, or only `kinds`, over what was known before. A list that fails keeps its last
/// good state: green means evidence, and a list that fails is not an empty list.
pub async fn list(
    session: &Session,
    server: &ServerName,
    kinds: &[ListKind],
    before: Option<&ServerCatalog>,
) -> ServerCatalog {
    let mut catalog = before.cloned().unwrap_or_default();
    catalog.capabilities = session.greeting.capabilities;
    catalog
        .instructions
        .clone_from(&session.greeting.instructions);
    for &kind in kinds {
        if !kind.offered(&catalog.capabilities) {
            catalog.set(kind, Vec::new());
            continue;
        }
        match pages(session, server, kind).await {
            Ok(items) => catalog.set(kind, items),
            Err(error) => tracing::warn!(%server, error, "cannot list {}", kind.member()),
        }
    }
    catalog
}

async fn pages(
    session: &Session,
    server: &ServerName,
    kind: ListKind,
) -> Result<Vec<catalog::Item>, String> {
    let mut items = Vec::new();
    let mut params = None::<String>;
    let mut cursors = HashSet::new();
    for _ in 0..MAX_PAGES {
        let asked = timeout(PAGE_LIMIT, session.ask(kind.method(), params.as_deref())).await;
        let answer = asked
            .map_err(|_| format!("no answer within {} s", PAGE_LIMIT.as_secs()))?
            .map_err(|interruption| interruption.to_string())?;
        let Some(result) = answer.result() else {
            let error = answer.error().unwrap_or_default();
            // A server may have resources and know no templates.
            if error.contains("-32601") {
                return Ok(Vec::new());
            }
            return Err(error.to_owned());
        };
        let page = catalog::page(kind, result).map_err(|error| error.to_string())?;
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
