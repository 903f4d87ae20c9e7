//! Reads the server's lists when they are due, and publishes the result.

use std::{io, sync::Arc, time::Duration};

use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    config::ListChanged,
    era::Eras,
    event::EventKind,
    message::Method,
};
use mainstay_platform::blocking::try_off_the_runtime;
use mainstay_transport::{Notice, UpstreamSession};
use tokio::{sync::oneshot, time::Instant};

use super::Task;
use crate::supervisor::{
    catalog_file::Declarations,
    fleet::SupervisorReport,
    listing::{self, ListOutcome},
    listing_schedule::FinishedListing,
};

/// Interval of the events about tools while their list changes too often.
const PUBLISH_EVERY: Duration = Duration::from_mins(10);

/// A change of the tools whose event is delayed.
pub(super) struct PendingToolsEvent {
    /// The tool names at the last published event.
    published_names: Vec<Box<str>>,
    pub at: Instant,
}

fn tool_names(catalog: &ServerCatalog) -> Vec<Box<str>> {
    catalog
        .tools
        .iter()
        .map(|tool| Box::from(&*tool.key))
        .collect()
}

impl Task {
    /// Starts reading lists of the live session.
    pub(super) fn list(&mut self, kinds: Vec<ListKind>, announced: Vec<ListKind>) {
        let before = self.view.borrow().catalog.clone();
        let Some(session) = self.shared.session.clone() else {
            return;
        };
        let (epoch, server) = (self.shared.epoch(), self.config.name.clone());
        let shares = self.lists.shares.clone();
        self.lists.listings.start(async move {
            FinishedListing {
                epoch,
                listed: listing::list(&session, &server, &kinds, before, shares).await,
                announced,
            }
        });
    }

    pub(super) async fn handle_listing(&mut self, done: FinishedListing) {
        let FinishedListing {
            epoch,
            mut listed,
            announced,
        } = done;
        let is_over = |session: &Arc<UpstreamSession>| session.is_over();
        if epoch != self.shared.epoch() || self.shared.session.as_ref().is_none_or(is_over) {
            // The listed session is gone. The next session is listed again.
            return;
        }
        for (kind, outcome) in &mut listed.lists {
            if let ListOutcome::Failed(reason) = outcome {
                *reason = self.log.redacted(reason).into_owned();
                if self.lists.listings.is_known_failure(*kind, reason) {
                    continue;
                }
                tracing::warn!(server = %self.config.name, reason, "a list cannot be read");
            }
        }
        let before = self.view.borrow().catalog.clone();
        let had = before.as_ref().map_or(0, |before| before.tools.len());
        let catalog = listed.catalog;
        let trouble = self
            .lists
            .listings
            .settled(&listed.lists, had, catalog.tools.len());
        self.lists.shares = listed.shares;
        // An unchanged catalog is the same `Arc`.
        let changed = before
            .as_ref()
            .is_none_or(|before| !Arc::ptr_eq(before, &catalog));
        self.view.send_modify(|view| {
            view.list_trouble = trouble;
            view.catalog = Some(Arc::clone(&catalog));
            view.update_since();
        });
        let unmatched = catalog.unmatched(&self.config.withheld);
        if changed {
            self.lists.offered_to = Declarations::default();
        }
        let is_new_declaration = !self.lists.offered_to.contain(&self.shared.begun_with);
        if is_new_declaration {
            self.lists.offered_to.add(&self.shared.begun_with);
        }
        let eras = self.view.borrow().eras;
        if is_new_declaration || eras != self.lists.kept_eras {
            self.lists.kept_eras = eras;
            self.save_catalog(Arc::clone(&catalog), eras).await;
        }
        let is_first = self.view.borrow().listed != Some(epoch);
        // Merge the catalog before `listed` is set, so that callers that wait for it find the items.
        self.report_catalog(announced).await;
        self.view.send_modify(|view| {
            view.listed = Some(epoch);
            view.attempted = true;
        });
        self.log_unmatched(unmatched);
        if let Some(kind) = listed.tools_changed {
            self.publish_tools_changed(kind, before);
        }
        let tools = listed
            .lists
            .iter()
            .find(|(kind, _)| *kind == ListKind::Tools);
        if let Some((_, outcome)) = tools
            && is_first
            && catalog.tools.is_empty()
        {
            self.handle_empty_listing(outcome);
        }
    }

    /// Publishes that tools were added or removed. While the list changes too often, publishes one
    /// event per [`PUBLISH_EVERY`], so that other events are not displaced from the ring.
    fn publish_tools_changed(&mut self, kind: EventKind, before: Option<Arc<ServerCatalog>>) {
        if self.lists.pending_tools_event.is_none()
            && !self.lists.listings.is_unsettled(ListKind::Tools)
        {
            self.publish_event(kind);
            return;
        }
        self.lists
            .pending_tools_event
            .get_or_insert_with(|| PendingToolsEvent {
                published_names: before.map_or_else(Vec::new, |before| tool_names(&before)),
                at: Instant::now() + PUBLISH_EVERY,
            });
    }

    /// Publishes delayed events about lists, and updates the trouble when lists have settled.
    pub(super) fn settle_lists(&mut self) {
        let has_settled = self.lists.listings.settle();
        if has_settled {
            let trouble = self.lists.listings.trouble();
            self.view.send_modify(|view| {
                view.list_trouble = trouble;
                view.update_since();
            });
        }
        let now = Instant::now();
        if let Some(pending) = self
            .lists
            .pending_tools_event
            .take_if(|event| has_settled || event.at <= now)
        {
            let catalog = self.view.borrow().catalog.clone();
            let names = catalog.map_or_else(Vec::new, |catalog| tool_names(&catalog));
            let names_before = pending.published_names.iter().map(|name| &**name);
            let names_now = names.iter().map(|name| &**name);
            if let Some(kind) = EventKind::tools_changed(names_before, names_now) {
                self.publish_event(kind);
            }
        }
    }

    /// Logs the names in the deny and allow lists that match no tool. Logs the same names only once.
    fn log_unmatched(&mut self, unmatched: Vec<String>) {
        if unmatched == self.lists.unmatched {
            return;
        }
        for line in &unmatched {
            tracing::warn!(server = %self.config.name, "{line}");
            self.log.note(line);
        }
        self.lists.unmatched = unmatched;
    }

    /// Stores the catalog and the eras for the next run.
    async fn save_catalog(&self, catalog: Arc<ServerCatalog>, eras: Eras) {
        let Some(file) = self.lists.catalog_file.clone() else {
            return;
        };
        let declared = self.lists.offered_to.clone();
        // Off the runtime, because disks may be slow.
        let secrets = self.log.secrets();
        let saving =
            try_off_the_runtime(move || file.save(&declared, &catalog, eras, secrets.as_deref()));
        let saved = saving.await.map_err(io::Error::other).flatten();
        if let Err(error) = saved {
            tracing::warn!(server = %self.config.name, %error, "the catalog could not be kept");
        }
    }

    /// Makes the registry merge the catalogs, and returns when the merged catalogs are published.
    pub(super) async fn report_catalog(&self, announced: Vec<ListKind>) {
        let (merged, done) = oneshot::channel();
        self.report(SupervisorReport::CatalogChanged { announced, merged })
            .await;
        // An error means that the registry has ended.
        done.await.ok();
    }

    pub(super) async fn handle_notice(&mut self, notice: Notice) {
        let changed: Vec<ListKind> = ListKind::ALL
            .into_iter()
            .filter(|kind| kind.changed() == notice.method)
            .collect();
        if self.config.list_changed == ListChanged::Propagate {
            for kind in &changed {
                self.lists.listings.announced(*kind);
            }
        }
        match notice.method {
            _ if !changed.is_empty() => {}
            Method::LogMessage | Method::ResourceUpdated => {
                self.report(SupervisorReport::Notice(notice)).await;
            }
            other => {
                tracing::debug!(server = %self.config.name, ?other, "a notification was ignored");
            }
        }
    }
}
