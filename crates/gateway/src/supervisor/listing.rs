//! Reads a server's lists, page by page.

use std::{collections::HashSet, sync::Arc, time::Duration};

use mainstay_core::{
    catalog::{self, CatalogItem, ITEM_OVERHEAD, ListKind, ServerCatalog},
    era::{Capabilities, code},
    event::EventKind,
    ids::ServerName,
    message,
};
use mainstay_platform::blocking::off_the_runtime_if_long;
use mainstay_transport::{Budget, InterruptionKind, MAX_LIST_BYTES, UpstreamSession};
use tokio::time::timeout;

use super::shares::{Shares, mib};

/// Maximum number of pages of a list. A list with more pages is cut off, with a warning.
const MAX_PAGES: usize = 1000;

/// Time limit of one page. The timeout of calls does not apply to lists.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of bytes of a server's error in the trouble.
const MAX_ERROR: usize = 1024;

/// The result of a listing.
#[derive(Debug)]
pub struct ListingResult {
    /// The new catalog. The same `Arc` as before if nothing has changed.
    pub catalog: Arc<ServerCatalog>,
    /// The event to publish if tools were added or removed.
    pub tools_changed: Option<EventKind>,
    pub lists: Vec<(ListKind, ListOutcome)>,
    /// The memory budgets of all lists, including lists that were not read.
    pub shares: Shares,
}

/// The outcome of reading one list.
#[derive(Debug)]
pub enum ListOutcome {
    Read,
    /// The list was cut off at a limit. The catalog has the items before the limit. If there are
    /// none, it keeps the last list.
    Cut(String),
    /// The list could not be read. The catalog keeps the last list.
    Failed(String),
}

/// Reads the lists of these `kinds`. Other lists, and lists that cannot be read, are taken from the
/// catalog `before`: a failure must not look like an empty list.
pub async fn list(
    session: &UpstreamSession,
    server: &ServerName,
    kinds: &[ListKind],
    before: Option<Arc<ServerCatalog>>,
    mut shares: Shares,
) -> ListingResult {
    let capabilities = session.greeting.capabilities;
    let instructions = session.greeting.instructions.clone();
    let (mut read, mut budgets, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for &kind in kinds {
        if !kind.offered(&capabilities) {
            read.push((kind, Vec::new()));
            shares.set(kind, None);
            ends.push((kind, Ok(None)));
            continue;
        }
        let budget = shares.budget(kind);
        let end = match pages(session, server, kind, &budget).await {
            Ok(Pages { items, cut }) => {
                if !(items.is_empty() && cut.is_some()) {
                    read.push((kind, items));
                    shares.set(kind, Some(budget.clone()));
                    budgets.push((kind, budget));
                }
                Ok(cut)
            }
            Err(error) => Err(format!("its {} cannot be listed: {error}", kind.member())),
        };
        ends.push((kind, end));
    }
    let items = read.iter().flat_map(|(_, items)| items);
    let bytes = items.map(CatalogItem::size).sum();
    let renewing = move || renewed(before.as_ref(), capabilities, instructions, read);
    let (catalog, tools_changed) = off_the_runtime_if_long(bytes, renewing).await;
    // Release surplus memory only now, because the limit applies to the reading of all lists, too.
    for (kind, budget) in budgets {
        budget.shrink_to(catalog.size(kind));
    }
    let outcome = |(kind, end)| match end {
        Ok(None) => (kind, ListOutcome::Read),
        Ok(Some(limit)) => {
            let limit: ListLimit = limit;
            let reason = limit.describe(kind, catalog.list(kind).len(), &shares);
            tracing::warn!(%server, reason, "a list is cut off");
            (kind, ListOutcome::Cut(reason))
        }
        Err(reason) => (kind, ListOutcome::Failed(reason)),
    };
    let lists = ends.into_iter().map(outcome).collect();
    ListingResult {
        catalog,
        tools_changed,
        lists,
        shares,
    }
}

/// The catalog with the lists that were `read`, and the event to publish if its tools have changed.
fn renewed(
    before: Option<&Arc<ServerCatalog>>,
    capabilities: Capabilities,
    instructions: Option<String>,
    mut read: Vec<(ListKind, Vec<CatalogItem>)>,
) -> (Arc<ServerCatalog>, Option<EventKind>) {
    let mut catalog = ServerCatalog {
        capabilities,
        instructions,
        ..ServerCatalog::default()
    };
    for kind in ListKind::ALL {
        let items = match read
            .iter_mut()
            .find(|(listed_kind, _)| *listed_kind == kind)
        {
            Some((_, items)) => std::mem::take(items),
            None => before
                .as_ref()
                .map_or_else(Vec::new, |before| before.list(kind).to_vec()),
        };
        catalog.set(kind, items);
    }
    if let Some(same) = before.filter(|before| ***before == catalog) {
        return (Arc::clone(same), None);
    }
    let names_before = before.into_iter().flat_map(|before| tool_names(before));
    let tools_changed = EventKind::tools_changed(names_before, tool_names(&catalog));
    (Arc::new(catalog), tools_changed)
}

fn tool_names(catalog: &ServerCatalog) -> impl Iterator<Item = &str> {
    catalog.tools.iter().map(|tool| &*tool.key)
}

/// The limit at which a list was cut off.
#[derive(Debug)]
enum ListLimit {
    Pages,
    /// The memory limit of all lists of one server.
    Server,
    /// The memory limit of the long lists of all servers.
    Fleet,
}

impl ListLimit {
    fn exceeded(budget: &Budget) -> Self {
        if budget.was_refused_by_reserve() {
            Self::Fleet
        } else {
            Self::Server
        }
    }

    fn describe(&self, kind: ListKind, has: usize, shares: &Shares) -> String {
        let bound = match self {
            Self::Pages => format!("a list may have {MAX_PAGES} pages"),
            Self::Server => {
                let bound = mib(MAX_LIST_BYTES);
                format!("all lists of a server together may have {bound}")
            }
            Self::Fleet => {
                let bound = mib(shares.reserve().limit());
                format!("the long lists of all servers together may have {bound}")
            }
        };
        format!("its {} are cut off after {has}: {bound}", kind.member())
    }
}

/// The reason why a list could not be read.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("no answer within {} s", PAGE_LIMIT.as_secs())]
    Timeout,
    #[error(transparent)]
    Interrupted(#[from] mainstay_transport::Interruption),
    #[error("the server answered {0}")]
    Refused(String),
    #[error(transparent)]
    NotAList(#[from] catalog::NotAList),
}

/// The items on the pages of a list.
#[derive(Debug)]
struct Pages {
    items: Vec<catalog::CatalogItem>,
    /// The limit at which the list was cut off.
    cut: Option<ListLimit>,
}

async fn pages(
    session: &UpstreamSession,
    server: &ServerName,
    kind: ListKind,
    budget: &Budget,
) -> Result<Pages, ListError> {
    let mut items = Vec::new();
    let mut params = None::<String>;
    let mut cursors = HashSet::new();
    for _ in 0..MAX_PAGES {
        let request = session.ask_within(kind.method(), params.as_deref(), budget);
        let answer = match timeout(PAGE_LIMIT, request).await {
            Err(_) => return Err(ListError::Timeout),
            Ok(Err(error)) => match error.kind {
                // The budget was exceeded. Another limit is `maxMessageBytes`, which is an error.
                InterruptionKind::TooLarge(limit) if limit == budget.limit() => {
                    let cut = Some(ListLimit::exceeded(budget));
                    return Ok(Pages { items, cut });
                }
                _ => return Err(error.into()),
            },
            Ok(Ok(answer)) => answer,
        };
        let Some(result) = answer.result() else {
            // The server does not know the method, such as that of templates. The list is empty.
            if answer.error_code() == Some(code::METHOD_NOT_FOUND) {
                return Ok(Pages { items, cut: None });
            }
            let error = answer.error().unwrap_or_default().to_owned();
            return Err(ListError::Refused(message::shortened(error, MAX_ERROR)));
        };
        let (bytes, max_items) = (result.len(), budget.left() / ITEM_OVERHEAD);
        let reading = move || catalog::page(kind, answer.result().unwrap_or_default(), max_items);
        let page = off_the_runtime_if_long(bytes, reading).await?;
        if page.unusable > 0 {
            tracing::warn!(%server, count = page.unusable, "{} without a name were skipped", kind.member());
        }
        if !budget.take(page.items.len() * ITEM_OVERHEAD) {
            let cut = Some(ListLimit::exceeded(budget));
            return Ok(Pages { items, cut });
        }
        items.extend(page.items);
        if page.is_cut {
            let cut = Some(ListLimit::Server);
            return Ok(Pages { items, cut });
        }
        let Some(cursor) = page.next_cursor else {
            return Ok(Pages { items, cut: None });
        };
        params = Some(format!(r#"{{"cursor":{}}}"#, message::one_line(&cursor)));
        if !cursors.insert(cursor) {
            tracing::warn!(%server, "the pages of {} repeat themselves; the list ends there", kind.member());
            return Ok(Pages { items, cut: None });
        }
    }
    let cut = Some(ListLimit::Pages);
    Ok(Pages { items, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> Vec<CatalogItem> {
        let tools: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{{"name":"{name}"}}"#))
            .collect();
        let list = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
        let page = catalog::page(ListKind::Tools, &list, usize::MAX);
        page.expect("a list").items
    }

    /// Lists that were not read stay unchanged. A catalog without changes is the same `Arc`, so that
    /// nothing is merged.
    #[test]
    fn a_catalog_is_renewed_where_it_has_changed() {
        let read = |before: Option<&Arc<ServerCatalog>>, names: Option<&[&str]>| {
            let read = names.map(|names| (ListKind::Tools, tools(names)));
            let read = read.into_iter().collect();
            renewed(before, Capabilities::default(), None, read)
        };
        let (first, event) = read(None, Some(&["a", "b"]));
        assert!(matches!(
            event,
            Some(EventKind::ToolsChanged { count: 2, .. })
        ));
        for names in [Some(&["a", "b", "a"][..]), None] {
            let (same, event) = read(Some(&first), names);
            assert!(Arc::ptr_eq(&same, &first), "{names:?}");
            assert_eq!(event, None);
        }
        let (second, event) = read(Some(&first), Some(&["b", "c"]));
        let expected = EventKind::ToolsChanged {
            added: vec!["c".to_owned()],
            removed: vec!["a".to_owned()],
            count: 2,
        };
        assert_eq!((second.tools.len(), event), (2, Some(expected)));
    }
}
