//! Merges the catalogs of all servers, and publishes the result.

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
    profiles::{Change, Profile, Profiles, Retired},
    servers::Servers,
};
use crate::supervisor::Report;

/// Reports that may wait for the registry.
pub(super) const MAX_REPORTS: usize = 256;

/// How often Mainstay checks whether replaced catalogs have no reader any more, and frees them. A reader must not
/// free one: thousands of tools take milliseconds.
const RETIREMENT: Duration = Duration::from_millis(100);

/// The task that turns the servers' catalogs into the published ones.
pub(super) struct Merger {
    pub servers: Arc<ArcSwap<Servers>>,
    /// The claims of servers, offered at present or not.
    pub claims: Arc<Claims>,
    /// What all servers offer.
    pub everything: Arc<Profile>,
    pub profiles: Arc<Profiles>,
    pub announcements: broadcast::Sender<Announcement>,
    /// Replaced catalogs that still have readers.
    pub retired: Vec<Retired>,
}

impl Merger {
    pub async fn run(
        mut self,
        mut reports: mpsc::Receiver<(ServerName, Report)>,
        mut asked: mpsc::Receiver<oneshot::Sender<()>>,
        stop: CancellationToken,
    ) {
        let mut waiting = Vec::new();
        let mut free_at = Instant::now();
        loop {
            let mut told = Vec::new();
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(free_at), if !self.retired.is_empty() => {
                    self.free().await;
                    free_at = Instant::now() + RETIREMENT;
                    continue;
                }
                // The registry holds a sender, too.
                1.. = reports.recv_many(&mut waiting, MAX_REPORTS) => {}
                Some(merged) = asked.recv() => told.push(merged),
            }
            let has_retired = !self.retired.is_empty();
            self.handle(waiting.drain(..), told).await;
            if !has_retired {
                free_at = Instant::now() + RETIREMENT;
            }
        }
    }

    /// Frees replaced catalogs without readers.
    async fn free(&mut self) {
        let mut retired = std::mem::take(&mut self.retired);
        self.retired = off_the_runtime(move || {
            free(&mut retired);
            retired
        })
        .await;
    }

    /// Reports that wait together cost one merge: it goes through what all servers offer, and with one
    /// for each of them many servers that start at once would take quadratic time.
    async fn handle(
        &mut self,
        reports: impl Iterator<Item = (ServerName, Report)>,
        mut told: Vec<oneshot::Sender<()>>,
    ) {
        let mut said = Vec::new();
        for (server, report) in reports {
            match report {
                Report::CatalogChanged { announced, merged } => {
                    for kind in announced {
                        self.announce(Announcement::ServerListChanged(server.clone(), kind));
                        said.push((server.clone(), kind));
                    }
                    told.push(merged);
                }
                Report::Opened => self.announce(Announcement::Opened(server)),
                Report::Notice(notice) => self.announce(Announcement::Notice(server, notice)),
            }
        }
        if told.is_empty() {
            return;
        }
        self.merge(&said).await;
        for merged in told {
            // The supervisor may have been stopped meanwhile.
            merged.send(()).ok();
        }
    }

    async fn merge(&mut self, said: &[(ServerName, ListKind)]) {
        let merge = Merge {
            servers: self.servers.load_full(),
            claims: Arc::clone(&self.claims),
            everything: Arc::clone(&self.everything),
            profiles: Arc::clone(&self.profiles),
            retired: std::mem::take(&mut self.retired),
        };
        // Thousands of tools take longer than calls shall wait.
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
                Change::Listed(profile, kind) => changed.push((profile, kind)),
                Change::Gone(profile) => self.announce(Announcement::ProfileGone(profile)),
            }
        }
        for (server, kind) in said {
            for profile in self.profiles.concerned(server, *kind) {
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
    retired.retain(|it| Arc::strong_count(it) > 1);
}

/// The input of one merge.
struct Merge {
    servers: Arc<Servers>,
    claims: Arc<Claims>,
    everything: Arc<Profile>,
    profiles: Arc<Profiles>,
    retired: Vec<Retired>,
}

/// The result of one merge.
struct Merged {
    claims: Arc<Claims>,
    changes: Vec<Change>,
    retired: Vec<Retired>,
}

impl Merge {
    /// Merges and publishes the present catalogs. The more tools there are, the longer it takes.
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
        let shown = everything.shown();
        let before = &shown.catalog;
        let configured = servers.list.iter().map(|server| server.name.clone());
        let updated = claims.updated(configured.collect(), before.parts(), &parts);
        let is_claimed_otherwise = updated.is_some();
        let claims = updated.map_or(claims, Arc::new);
        // A server that came back as it was costs nothing; the digests of its list are the same.
        let is_same = profiles.is_merged_by(&rules) && before.parts() == parts;
        if is_same && !is_claimed_otherwise {
            return Merged {
                claims,
                changes: Vec::new(),
                retired,
            };
        }
        warn_of_refused_names(&parts, before.parts());
        let whole = Arc::new(rules.merge(parts, &shown.config, &claims));
        everything.publish(Arc::clone(&whole));
        let changes = profiles.merge(&rules, &whole, &mut retired);
        // After what was shown of it, which is dropped first.
        let before = Arc::clone(before);
        retired.push(shown);
        retired.push(before);
        free(&mut retired);
        Merged {
            claims,
            changes,
            retired,
        }
    }
}

/// Says in the log which tools are hidden. Once, and not each time that something else
/// changes.
fn warn_of_refused_names(parts: &[Part], before: &[Part]) {
    for part in parts {
        if part.refused_names().next().is_none() {
            continue;
        }
        let known = before.iter().find(|known| known.server == part.server);
        let known = known.into_iter().flat_map(Part::refused_names);
        if part.refused_names().eq(known) {
            continue;
        }
        tracing::warn!(
            server = %part.server,
            count = part.refused_names().count(),
            names = ?event::told_names(part.refused_names()),
            "tools are hidden for their names, which strictToolNames does not allow"
        );
    }
}
