//! The merged lists of the aggregate.

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
    reply::Reply,
};

/// The cache hints of a modern list. It changes whenever any server does, and a server may be missing:
/// a client that wants to keep it listens for changes.
const NOT_TO_BE_KEPT: &str = r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// Room for what stands around the items of a list.
const ENVELOPE: usize = 256;

/// The merged list, in one page or in pages of the configured size.
pub async fn answer(asked: RequestContext<'_>, kind: ListKind) -> Reply {
    asked.settled().await;
    let start = match asked.frame.param("cursor") {
        None | Some("null") => 0,
        // One that is none stands behind all items.
        Some(cursor) => read_cursor(cursor).unwrap_or(usize::MAX),
    };
    let list = List {
        kind,
        shown: asked.view.shown(),
        view: asked.view.clone(),
        has_objects: kind == ListKind::Templates && asked.cuts_results(),
        start,
        page_size: asked.shared.page_size.unwrap_or(usize::MAX),
        era: asked.era(),
        id: asked.id().to_owned(),
    };
    // Thousands of tools take milliseconds to write.
    let bytes = list.shown.catalog.bytes(kind);
    off_the_runtime_if_long(bytes, move || list.answer()).await
}

/// A page of a merged list that is asked for.
struct List {
    kind: ListKind,
    shown: Arc<ProfileSnapshot>,
    view: View,
    /// Whether the template of kept objects is among the items.
    has_objects: bool,
    start: usize,
    page_size: usize,
    era: Era,
    id: String,
}

impl List {
    /// Takes as long as the list is.
    fn answer(&self) -> Reply {
        let (kind, shown) = (self.kind, &self.shown);
        let seen = shown
            .items(kind)
            .filter(|(target, _)| !self.view.hides(kind, target));
        // Own tools stand first.
        let own = match kind {
            ListKind::Tools => shown.own_tools(),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => &[],
        };
        let objects = self.has_objects.then_some(objects::TEMPLATE);
        let items: Vec<&str> = builtin::descriptors(own)
            .chain(objects)
            .chain(seen.map(|(_, item)| item))
            .collect();
        let (start, id) = (self.start, &self.id);
        if start > 0 && start >= items.len() {
            return Reply::error(id, code::INVALID_PARAMS, "unknown cursor");
        }
        let end = items.len().min(start.saturating_add(self.page_size));
        let page = &items[start..end];
        // The text is as long as it will be, for growing copies it.
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
            text.push_str(NOT_TO_BE_KEPT);
        }
        text.push_str("}}");
        Reply::whole(text)
    }
}

/// Our cursors are the index of the next item. Some clients make a number of what looks like one.
fn read_cursor(cursor: &str) -> Option<usize> {
    let quoted = cursor.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    quoted.unwrap_or(cursor).parse().ok()
}
