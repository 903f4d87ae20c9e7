//! Answers lists of the aggregate endpoint: the merged lists of its servers.

use std::{fmt::Write as _, sync::Arc};

use mainstay_core::{
    catalog::ListKind,
    era::{Era, code},
};
use mainstay_gateway::{View, registry::ProfileSnapshot};
use mainstay_platform::blocking::off_the_runtime_if_long;

use super::request::RequestContext;
use crate::mcp::{
    builtin::{self, objects},
    reply::RpcReply,
};

/// Cache hints of a list (2026-07-28). A merged list may change with any server, so clients should
/// listen for changes instead of caching it.
const CACHE_HINTS: &str = r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// Bytes reserved for the text around the items of a list.
const ENVELOPE: usize = 256;

/// Answers with a page of a merged list. Without a configured page size, the page has all items.
pub async fn answer(request: RequestContext<'_>, kind: ListKind) -> RpcReply {
    request.settled().await;
    let start = match request.frame.param("cursor") {
        None | Some("null") => 0,
        // An invalid cursor becomes an index after the last item, which `List::answer` refuses.
        Some(cursor) => read_cursor(cursor).unwrap_or(usize::MAX),
    };
    let list = List {
        kind,
        snapshot: request.view.snapshot(),
        view: request.view.clone(),
        has_objects: kind == ListKind::Templates && request.cuts_results(),
        start,
        page_size: request.shared.page_size.unwrap_or(usize::MAX),
        era: request.era(),
        id: request.id().to_owned(),
    };
    // A list of thousands of tools takes milliseconds to write.
    let bytes = list.snapshot.catalog.bytes(kind);
    off_the_runtime_if_long(bytes, move || list.answer()).await
}

/// A requested page of a merged list.
struct List {
    kind: ListKind,
    snapshot: Arc<ProfileSnapshot>,
    view: View,
    /// True if the list includes the template of stored objects.
    has_objects: bool,
    start: usize,
    page_size: usize,
    era: Era,
    id: String,
}

impl List {
    /// Writes the page. Takes time in proportion to its length.
    fn answer(&self) -> RpcReply {
        let (kind, snapshot) = (self.kind, &self.snapshot);
        let visible_items = snapshot
            .items(kind)
            .filter(|(target, _)| !self.view.hides(kind, target));
        // Own tools come first.
        let own_tools = match kind {
            ListKind::Tools => snapshot.own_tools(),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => &[],
        };
        let objects = self.has_objects.then_some(objects::TEMPLATE);
        let items: Vec<&str> = builtin::descriptors(own_tools)
            .chain(objects)
            .chain(visible_items.map(|(_, item)| item))
            .collect();
        let (start, id) = (self.start, &self.id);
        if start > 0 && start >= items.len() {
            return RpcReply::error(id, code::INVALID_PARAMS, "unknown cursor");
        }
        let end = items.len().min(start.saturating_add(self.page_size));
        let page = &items[start..end];
        // Allocate the final length, because a growing text is copied.
        let length: usize = page.iter().map(|item| item.len() + 1).sum();
        let mut text = String::with_capacity(length + id.len() + ENVELOPE);
        let _ = write!(
            text,
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{}":["#,
            kind.member()
        );
        for (index, item) in page.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(item);
        }
        text.push(']');
        if end < items.len() {
            let _ = write!(text, r#","nextCursor":"{end}""#);
        }
        if self.era == Era::Modern {
            text.push_str(CACHE_HINTS);
        }
        text.push_str("}}");
        RpcReply::whole(text)
    }
}

/// Parses a cursor: the index of the next item. Some clients send a number instead of a string.
fn read_cursor(cursor: &str) -> Option<usize> {
    let unquoted_cursor = cursor
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    unquoted_cursor.unwrap_or(cursor).parse().ok()
}
