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
use mainstay_transport::{Notice, Session};
use tokio::{sync::oneshot, time::Instant};

use super::Task;
use crate::supervisor::{
    catalog_file::Declarations,
    fleet::Report,
    listing::{self, Outcome},
    listing_schedule::Done,
};

/// How often an event tells what became of a list that changes again and again.
const TELL_EVERY: Duration = Duration::from_mins(10);

/// Tools that came or went, which no event has told yet.
pub(super) struct Untold {
    /// The names in the list that was told last.
    told: Vec<Box<str>>,
    pub at: Instant,
}

fn tool_names(catalog: &ServerCatalog) -> Vec<Box<str>> {
    let tools = catalog.tools.iter();
    tools.map(|tool| Box::from(&*tool.key)).collect()
}

impl Task {
    /// Starts reading lists of the live session.
    pub(super) fn list(&mut self, kinds: Vec<ListKind>, announced: Vec<ListKind>) {
        let before = self.view.borrow().catalog.clone();
        let Some(session) = self.shared.session.clone() else {
            return;
        };
        let (epoch, server) = (self.shared.epoch(), self.config.name.clone());
        let shares = self.shares.clone();
        self.listings.start(async move {
            Done {
                epoch,
                listed: listing::list(&session, &server, &kinds, before, shares).await,
                announced,
            }
        });
    }

    pub(super) async fn listed(&mut self, done: Done) {
        let Done {
            epoch,
            mut listed,
            announced,
        } = done;
        let is_over = |session: &Arc<Session>| session.is_over();
        if epoch != self.shared.epoch() || self.shared.session.as_ref().is_none_or(is_over) {
            // The session is gone. The lists of the next session are read anew.
            return;
        }
        for (kind, outcome) in &mut listed.lists {
            if let Outcome::Failed(reason) = outcome {
                *reason = self.log.shown(reason).into_owned();
                if self.listings.is_known(*kind, reason) {
                    continue;
                }
                tracing::warn!(server = %self.config.name, reason, "a list cannot be read");
            }
        }
        let before = self.view.borrow().catalog.clone();
        let had = before.as_ref().map_or(0, |before| before.tools.len());
        let catalog = listed.catalog;
        let trouble = self
            .listings
            .settled(&listed.lists, had, catalog.tools.len());
        self.shares = listed.shares;
        // The same one where nothing changed: then there is nothing to merge.
        let changed = before
            .as_ref()
            .is_none_or(|before| !Arc::ptr_eq(before, &catalog));
        self.view.send_modify(|view| {
            view.list_trouble = trouble;
            view.catalog = Some(Arc::clone(&catalog));
            view.note_since();
        });
        let unmatched = catalog.unmatched(&self.config.withheld);
        if changed {
            self.offered_to = Declarations::default();
        }
        let is_new_to = !self.offered_to.contain(&self.shared.begun_with);
        if is_new_to {
            self.offered_to.add(&self.shared.begun_with);
        }
        let eras = self.view.borrow().eras;
        if is_new_to || eras != self.kept_eras {
            self.kept_eras = eras;
            self.keep(Arc::clone(&catalog), eras).await;
        }
        let is_first = self.view.borrow().listed != Some(epoch);
        // Merged before it counts as listed, so that waiting callers find it there.
        self.tell_catalog(announced).await;
        self.view.send_modify(|view| {
            view.listed = Some(epoch);
            view.attempted = true;
        });
        self.tell_unmatched(unmatched);
        if let Some(kind) = listed.tools_changed {
            self.tell_tools(kind, before);
        }
        let tools = listed
            .lists
            .iter()
            .find(|(kind, _)| *kind == ListKind::Tools);
        if let Some((_, outcome)) = tools
            && is_first
            && catalog.tools.is_empty()
        {
            self.suspect_probe(outcome);
        }
    }

    /// Tells that tools have come or gone. While the list changes again and again, what became of it is told now and
    /// then: other events shall not be lost for it.
    fn tell_tools(&mut self, kind: EventKind, before: Option<Arc<ServerCatalog>>) {
        if self.untold.is_none() && !self.listings.is_unsettled(ListKind::Tools) {
            self.tell(kind);
            return;
        }
        self.untold.get_or_insert_with(|| Untold {
            told: before.map_or_else(Vec::new, |before| tool_names(&before)),
            at: Instant::now() + TELL_EVERY,
        });
    }

    /// What is due of lists that change again and again.
    pub(super) fn settle_lists(&mut self) {
        let has_settled = self.listings.settle();
        if has_settled {
            let trouble = self.listings.trouble();
            self.view.send_modify(|view| {
                view.list_trouble = trouble;
                view.note_since();
            });
        }
        let now = Instant::now();
        if let Some(untold) = self.untold.take_if(|it| has_settled || it.at <= now) {
            let catalog = self.view.borrow().catalog.clone();
            let names = catalog.map_or_else(Vec::new, |catalog| tool_names(&catalog));
            let told = untold.told.iter().map(|name| &**name);
            if let Some(kind) = EventKind::tools_changed(told, names.iter().map(|name| &**name)) {
                self.tell(kind);
            }
        }
    }

    /// Tells once which names of its deny and allow lists protect nothing.
    fn tell_unmatched(&mut self, unmatched: Vec<String>) {
        if unmatched == self.unmatched {
            return;
        }
        for line in &unmatched {
            tracing::warn!(server = %self.config.name, "{line}");
            self.log.note(line);
        }
        self.unmatched = unmatched;
    }

    /// Saves the catalog and the eras for the next run.
    async fn keep(&self, catalog: Arc<ServerCatalog>, eras: Eras) {
        let Some(file) = self.catalog_file.clone() else {
            return;
        };
        let declared = self.offered_to.clone();
        // Disks may take their time, and the runtime has other work.
        let saving = try_off_the_runtime(move || file.save(&declared, &catalog, eras));
        let saved = saving.await.map_err(io::Error::other).flatten();
        if let Err(error) = saved {
            tracing::warn!(server = %self.config.name, %error, "the catalog could not be kept");
        }
    }

    /// Has the servers' catalogs merged anew, and returns when that is done.
    pub(super) async fn tell_catalog(&self, announced: Vec<ListKind>) {
        let (merged, done) = oneshot::channel();
        self.report(Report::CatalogChanged { announced, merged })
            .await;
        // An error means that the registry has ended, and no caller waits any more.
        done.await.ok();
    }

    pub(super) async fn notice(&mut self, notice: Notice) {
        let changed: Vec<ListKind> = ListKind::ALL
            .into_iter()
            .filter(|kind| kind.changed() == notice.method)
            .collect();
        if self.config.list_changed == ListChanged::Propagate {
            for kind in &changed {
                self.listings.announced(*kind);
            }
        }
        match notice.method {
            _ if !changed.is_empty() => {}
            Method::LogMessage | Method::ResourceUpdated => {
                self.report(Report::Notice(notice)).await;
            }
            other => {
                tracing::debug!(server = %self.config.name, ?other, "a notification was ignored");
            }
        }
    }
}
