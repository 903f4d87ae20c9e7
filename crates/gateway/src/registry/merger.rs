//! The merger: merges the catalogs of all servers, and publishes the result.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use mainstay_core::{
    catalog::{Claims, ListKind, Part},
    event,
    ids::ServerName,
};
use mainstay_platform::blocking::off_the_runtime;
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    announcement::Announcement,
    profiles::{ProfileChange, Profiles, PublishedProfile, Retired},
    servers::Servers,
};
use crate::supervisor::SupervisorReport;

/// Maximum number of queued reports of supervisors.
pub(super) const MAX_REPORTS: usize = 256;

/// Interval at which the merger frees replaced catalogs that have no reader any more. Readers must
/// not free a catalog, because that takes milliseconds for thousands of tools.
const RETIREMENT: Duration = Duration::from_millis(100);

/// The task that merges the servers' catalogs and publishes the merged catalogs.
pub(super) struct Merger {
    pub servers: Arc<ArcSwap<Servers>>,
    /// The claims of all servers, including servers whose items are not visible now.
    pub claims: Arc<Claims>,
    /// All servers as one profile.
    pub everything: Arc<PublishedProfile>,
    pub profiles: Arc<Profiles>,
    pub announcements: broadcast::Sender<Announcement>,
    /// Replaced catalogs that still have readers.
    pub retired: Vec<Retired>,
}

impl Merger {
    pub async fn run(
        mut self,
        mut reports: mpsc::Receiver<(ServerName, SupervisorReport)>,
        mut merge_requests: mpsc::Receiver<oneshot::Sender<()>>,
        stop: CancellationToken,
    ) {
        let mut waiting = Vec::new();
        let mut free_at = Instant::now();
        loop {
            let mut done_senders = Vec::new();
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(free_at), if !self.retired.is_empty() => {
                    self.free().await;
                    free_at = Instant::now() + RETIREMENT;
                    continue;
                }
                // The channel never closes, because the registry's fleet holds a sender.
                1.. = reports.recv_many(&mut waiting, MAX_REPORTS) => {}
                Some(merged) = merge_requests.recv() => done_senders.push(merged),
            }
            let has_retired = !self.retired.is_empty();
            self.handle(waiting.drain(..), done_senders).await;
            if !has_retired {
                free_at = Instant::now() + RETIREMENT;
            }
        }
    }

    /// Frees replaced catalogs that have no reader any more.
    async fn free(&mut self) {
        let mut retired = std::mem::take(&mut self.retired);
        self.retired = off_the_runtime(move || {
            free(&mut retired);
            retired
        })
        .await;
    }

    /// Handles all waiting reports with a single merge. A merge takes time for each server, so one
    /// merge per report would take quadratic time when many servers start at the same time.
    async fn handle(
        &mut self,
        reports: impl Iterator<Item = (ServerName, SupervisorReport)>,
        mut done_senders: Vec<oneshot::Sender<()>>,
    ) {
        let mut announced_lists = Vec::new();
        for (server, report) in reports {
            match report {
                SupervisorReport::CatalogChanged { announced, merged } => {
                    for kind in announced {
                        self.announce(Announcement::ServerListChanged(server.clone(), kind));
                        announced_lists.push((server.clone(), kind));
                    }
                    done_senders.push(merged);
                }
                SupervisorReport::Opened => self.announce(Announcement::Opened(server)),
                SupervisorReport::Notice(notice) => {
                    self.announce(Announcement::Notice(server, notice))
                }
            }
        }
        if done_senders.is_empty() {
            return;
        }
        self.merge(&announced_lists).await;
        for merged in done_senders {
            // The supervisor may have ended.
            merged.send(()).ok();
        }
    }

    async fn merge(&mut self, announced_lists: &[(ServerName, ListKind)]) {
        let merge = Merge {
            servers: self.servers.load_full(),
            claims: Arc::clone(&self.claims),
            everything: Arc::clone(&self.everything),
            profiles: Arc::clone(&self.profiles),
            retired: std::mem::take(&mut self.retired),
        };
        // Off the runtime, because merging thousands of tools would delay calls.
        let Merged {
            claims,
            changes,
            retired,
        } = off_the_runtime(move || merge.run()).await;
        self.claims = claims;
        self.retired = retired;
        let mut changed = Vec::new();
        for change in changes {
            match change {
                ProfileChange::Listed(profile, kind) => changed.push((profile, kind)),
                ProfileChange::Gone(profile) => self.announce(Announcement::ProfileGone(profile)),
            }
        }
        for (server, kind) in announced_lists {
            for profile in self.profiles.profiles_passing_on(server, *kind) {
                if !changed.contains(&(profile.clone(), *kind)) {
                    changed.push((profile, *kind));
                }
            }
        }
        let now = Instant::now();
        for (profile, kind) in changed {
            self.announce(Announcement::ListChanged(profile, kind, now));
        }
    }

    fn announce(&self, announcement: Announcement) {
        // An error means that there is no listener.
        self.announcements.send(announcement).ok();
    }
}

/// Drops the catalogs that have no other holder.
fn free(retired: &mut Vec<Retired>) {
    retired.retain(|holder| Arc::strong_count(holder) > 1);
}

/// The input of one merge.
struct Merge {
    servers: Arc<Servers>,
    claims: Arc<Claims>,
    everything: Arc<PublishedProfile>,
    profiles: Arc<Profiles>,
    retired: Vec<Retired>,
}

/// The result of one merge.
struct Merged {
    claims: Arc<Claims>,
    changes: Vec<ProfileChange>,
    retired: Vec<Retired>,
}

impl Merge {
    /// Merges and publishes the current catalogs. The time grows with the number of tools.
    fn run(self) -> Merged {
        let Self {
            servers,
            claims,
            everything,
            profiles,
            mut retired,
        } = self;
        let parts: Vec<Part> = servers
            .list
            .iter()
            .filter(|server| server.is_offered())
            .filter_map(|server| {
                Some(Part {
                    server: server.name.clone(),
                    catalog: server.catalog()?,
                    withheld: server.config().withheld.clone(),
                    cuts_results: server.config().max_inline_bytes.is_some(),
                })
            })
            .collect();
        let rules = profiles.rules();
        let snapshot = everything.snapshot();
        let before = &snapshot.catalog;
        let configured = servers.list.iter().map(|server| server.name.clone());
        let updated = claims.updated(configured.collect(), before.parts(), &parts);
        let have_claims_changed = updated.is_some();
        let claims = updated.map_or(claims, Arc::new);
        // Nothing has changed, for example because a server came back with the same lists.
        let is_same = profiles.was_merged_with(&rules) && before.parts() == parts;
        if is_same && !have_claims_changed {
            return Merged {
                claims,
                changes: Vec::new(),
                retired,
            };
        }
        warn_of_refused_names(&parts, before.parts());
        let whole = Arc::new(rules.merge(parts, &snapshot.config, &claims));
        everything.publish(Arc::clone(&whole));
        let changes = profiles.merge(&rules, &whole, &mut retired);
        // Retire the snapshot before its catalog, because the snapshot holds the catalog.
        let before = Arc::clone(before);
        retired.push(snapshot);
        retired.push(before);
        free(&mut retired);
        Merged {
            claims,
            changes,
            retired,
        }
    }
}

/// Logs the tools that are hidden because of their names. Logs the same set of names only once.
fn warn_of_refused_names(parts: &[Part], before: &[Part]) {
    for part in parts {
        if part.refused_names().next().is_none() {
            continue;
        }
        let part_before = before.iter().find(|before| before.server == part.server);
        let names_before = part_before.into_iter().flat_map(Part::refused_names);
        if part.refused_names().eq(names_before) {
            continue;
        }
        tracing::warn!(
            server = %part.server,
            count = part.refused_names().count(),
            names = ?event::listed_names(part.refused_names()),
            "tools are hidden for their names, which strictToolNames does not allow"
        );
    }
}
