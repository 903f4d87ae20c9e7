//! Owns the supervisors, and publishes what all servers offer: as one catalog, and as one for each
//! profile.

mod approval;
mod desired;
mod profiles;
mod search;
mod targets;

use std::{any::Any, sync::Arc, time::Duration};

use arc_swap::{ArcSwap, ArcSwapOption};
use foldhash::HashMap;
use futures_util::future::join_all;
use mainstay_core::{
    catalog::{Catalog, Claims, ListKind, Part},
    config::{self, Config, Overlay, Standing},
    event,
    failure::{Failure, FailureKind},
    ids::{ProfileName, ServerName},
    switches::ClientKey,
};
use mainstay_platform::{blocking::off_the_runtime, clock::SleepClock, environment::Origin, state};
use mainstay_transport::{self as transport, Notice, logs::Logs};
use tokio::{
    sync::{Mutex, broadcast, mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::desired::duplicate;
pub use self::desired::{Known, NewServer};
use self::profiles::{Change, Profiles};
pub use self::profiles::{Profile, Shown};
use self::{desired::DesiredServers, targets::KnownTargets};
use crate::{
    events::Events,
    options::GatewayOptions,
    supervisor::{self, Fleet, Pace, Queue, Report, Server, Sole},
};

/// Announcements that a slow listener may fall behind before it misses some.
const MAX_ANNOUNCEMENTS: usize = 1024;

/// Reports that may wait for the registry.
const MAX_REPORTS: usize = 256;

/// How often replaced catalogs are looked at that somebody still reads. The reader shall not be the last to hold
/// one: to free thousands of tools takes milliseconds.
const RETIREMENT: Duration = Duration::from_millis(100);

/// How often the clock is looked at, and what counts as sleep.
const CLOCK_LOOK: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);

/// Announcements of the registry to its listeners.
#[derive(Clone, Debug)]
pub enum Announcement {
    /// A list of a profile has changed; the new one had been published at that time.
    ListChanged(ProfileName, ListKind, Instant),
    /// There is no such profile any more.
    ProfileGone(ProfileName),
    /// A server says that a list of its own has changed.
    ServerListChanged(ServerName, ListKind),
    /// A server has a new shared session, which knows nothing of log levels and subscriptions.
    Opened(ServerName),
    /// Servers have come or gone.
    ServersChanged,
    /// Other things are switched off for these clients.
    Switched(Vec<ClientKey>),
    /// A log message or a changed resource of a server.
    Notice(ServerName, Notice),
}

/// All servers; a snapshot, replaced as a whole by every change.
#[derive(Debug, Default)]
struct Servers {
    /// In configuration order.
    list: Vec<Arc<Server>>,
    by_name: HashMap<ServerName, usize>,
    /// Standings of the servers that are not in the file.
    standings: HashMap<ServerName, Standing>,
}

impl Servers {
    fn new(list: Vec<Arc<Server>>, standings: HashMap<ServerName, Standing>) -> Self {
        let by_name = list
            .iter()
            .enumerate()
            .map(|(index, server)| (server.name.clone(), index))
            .collect();
        Self {
            list,
            by_name,
            standings,
        }
    }

    fn named(&self, name: &ServerName) -> Option<&Arc<Server>> {
        self.by_name.get(name).map(|&index| &self.list[index])
    }
}

/// Owns every server.
#[derive(Debug)]
pub struct Registry {
    servers: Arc<ArcSwap<Servers>>,
    catalog: Arc<ArcSwap<Catalog>>,
    profiles: Arc<Profiles>,
    /// Asks for a merge that no server asks for; answered when it is done.
    remerge: mpsc::Sender<oneshot::Sender<()>>,
    announcements: broadcast::Sender<Announcement>,
    fleet: Arc<Fleet>,
    startup_wait: Duration,
    /// Where the configuration comes from, if it can be read again.
    origin: Option<Origin>,
    /// The text of the file in force, if there is one.
    text: ArcSwapOption<String>,
    /// One change at a time: held through it.
    desired: Mutex<DesiredServers>,
    /// Changes under way.
    operations: TaskTracker,
    /// The tasks that merge and that watch the clock, until `stop`.
    own: Mutex<JoinSet<()>>,
    stop: CancellationToken,
}

impl Registry {
    /// Starts every server of the configuration, all at once.
    pub fn start(config: &Config, options: GatewayOptions) -> Arc<Self> {
        let (reports, inbox) = mpsc::channel(MAX_REPORTS);
        // A folder that others write to is not read either.
        let catalogs = options.catalogs.filter(|folder| {
            let made = state::private_dir(folder);
            if let Err(error) = &made {
                tracing::warn!(%error, "catalogs cannot be kept");
            }
            made.is_ok()
        });
        let fleet = Arc::new(Fleet {
            pace: Pace::new(config.max_attempts_per_second, config.max_concurrent_starts),
            reports,
            events: Events::default(),
            logs: options
                .state
                .as_deref()
                .map(Logs::start)
                .unwrap_or_default(),
            catalogs,
            lineage: options.lineage,
            reserve: supervisor::reserve(),
            queue: Arc::default(),
            sole: options.sole_client.then(Sole::default),
            watched_file: options.origin.as_ref().and_then(Origin::path),
        });
        let mut supervisors = JoinSet::new();
        let list: Vec<_> = config
            .servers
            .iter()
            .map(|server| {
                let (config, fleet) = (Arc::new(server.clone()), Arc::clone(&fleet));
                // The doors are closed: reading kept files delays no client.
                watch(supervisor::supervise(config, fleet), &mut supervisors)
            })
            .collect();
        let former = fleet.catalogs.as_deref().map(targets::former);
        let configured = list.iter().map(|server| server.name.clone()).collect();
        let claims = Arc::new(Claims::new(former.unwrap_or_default(), configured));
        let servers = Arc::new(ArcSwap::from_pointee(Servers::new(
            list,
            HashMap::default(),
        )));
        let (announcements, _) = broadcast::channel(MAX_ANNOUNCEMENTS);
        let (remerge, asked) = mpsc::channel(1);
        let nothing = Arc::new(Catalog::empty(&claims));
        let merger = Merger {
            servers: Arc::clone(&servers),
            claims,
            profiles: Arc::new(Profiles::new(config, &nothing)),
            catalog: Arc::new(ArcSwap::new(nothing)),
            announcements: announcements.clone(),
            retired: Vec::new(),
        };
        let (catalog, profiles) = (Arc::clone(&merger.catalog), Arc::clone(&merger.profiles));
        let stop = CancellationToken::new();
        let mut own = JoinSet::new();
        own.spawn(merger.run(inbox, asked, stop.clone()));
        own.spawn(wake(Arc::clone(&servers), options.clock, stop.clone()));
        let known = KnownTargets::new(fleet.catalogs.clone());
        let registry = Arc::new(Self {
            servers,
            catalog,
            profiles,
            remerge,
            announcements,
            fleet,
            startup_wait: config.startup_wait,
            // It was read a moment ago; if it has gone since, there is none.
            text: ArcSwapOption::new(
                options
                    .origin
                    .as_ref()
                    .and_then(|origin| origin.text().ok().flatten())
                    .map(Arc::new),
            ),
            origin: options.origin,
            desired: Mutex::new(DesiredServers {
                supervisors,
                file: config.servers.clone(),
                overlay: Overlay::default(),
                targets: known,
                leaving: HashMap::default(),
                closed: false,
            }),
            operations: TaskTracker::new(),
            own: Mutex::new(own),
            stop,
        });
        registry.operations.spawn({
            let this = Arc::clone(&registry);
            async move { this.note_file(&mut *this.desired.lock().await).await }
        });
        registry
    }

    /// In configuration order.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.load().list.clone()
    }

    /// A server that the catalog names.
    pub fn named(&self, name: &ServerName) -> Option<Arc<Server>> {
        self.servers.load().named(name).cloned()
    }

    pub fn server(&self, name: &str) -> Result<Arc<Server>, Failure> {
        let found = ServerName::new(name)
            .ok()
            .and_then(|name| self.named(&name));
        found.ok_or_else(|| unknown_server(name))
    }

    /// The configuration's text in force, if it comes from a file.
    pub fn text(&self) -> Option<Arc<String>> {
        self.text.load_full()
    }

    /// The text has changed, and says what it said.
    pub fn note_text(&self, text: Option<String>) {
        self.text.store(text.map(Arc::new));
    }

    /// What all servers offer, as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The profile at `/mcp`.
    pub fn default_profile(&self) -> Arc<Profile> {
        Arc::clone(&self.profiles.default)
    }

    pub fn profiles(&self) -> Arc<Vec<Arc<Profile>>> {
        self.profiles.all()
    }

    pub fn profile(&self, name: &str) -> Result<Arc<Profile>, Failure> {
        self.profiles.named(name).ok_or_else(|| {
            let known: Vec<String> = self
                .profiles
                .names()
                .iter()
                .map(ToString::to_string)
                .collect();
            let message = format!("Profile '{name}' not found; there are {}", known.join(", "));
            Failure::new(FailureKind::ProfileNotFound, message).with("profile", name)
        })
    }

    /// The servers of a profile, in configuration order.
    pub fn servers_of(&self, profile: &Profile) -> Vec<Arc<Server>> {
        let shown = profile.shown();
        let servers = self.servers.load();
        let list = servers.list.iter();
        list.filter(|server| shown.config.has_server(&server.name))
            .cloned()
            .collect()
    }

    /// Resolves when every server has had its first attempt, or its time for it (docs/dev/design.md,
    /// "Supervision": each is waited for once, after its own start, never again by later lists).
    pub async fn settled(&self) {
        self.all_settled(&self.servers()).await;
    }

    /// Resolves when the servers of a profile have had their first attempts, or their time for it.
    pub async fn profile_settled(&self, profile: &Profile) {
        self.all_settled(&self.servers_of(profile)).await;
    }

    async fn all_settled(&self, servers: &[Arc<Server>]) {
        let settled = servers.iter();
        join_all(settled.map(|server| server.settled(self.startup_wait))).await;
    }

    /// Resolves when a server has had its first attempt, or its time for it.
    pub async fn attempted(&self, server: &Server) {
        server.settled(self.startup_wait).await;
    }

    /// Resolves when a server that is up has been listed once, or its time for that is over.
    pub async fn listed(&self, server: &Server) {
        server.listed(self.startup_wait).await;
    }

    /// Waits for a server that a call names. One that was never listed has as long as the call may take,
    /// and an error says that this time is over.
    pub async fn listed_for_call(&self, server: &Server) -> Result<(), Failure> {
        let never_listed = server.catalog().is_none();
        let limit = if never_listed {
            server.config().call_timeout
        } else {
            self.startup_wait
        };
        if server.listed(limit).await || !never_listed {
            Ok(())
        } else {
            Err(server.not_in_time(limit))
        }
    }

    /// Whether every server has had its first attempt, or its time for it.
    pub fn is_settled(&self) -> bool {
        let servers = self.servers();
        servers
            .iter()
            .all(|server| server.is_settled(self.startup_wait))
    }

    pub(crate) fn announce(&self, announcement: Announcement) {
        // No listener is no error.
        self.announcements.send(announcement).ok();
    }

    pub fn listen(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    /// What servers ask and no client could be asked.
    pub fn queue(&self) -> &Queue {
        &self.fleet.queue
    }

    /// The one client, where there can be no other.
    pub fn sole(&self) -> Option<&Sole> {
        self.fleet.sole.as_ref()
    }

    /// What happens to the servers, and to the configuration.
    pub fn events(&self) -> &Events {
        &self.fleet.events
    }

    /// Has the catalogs merged anew; returns when they are published.
    async fn merge(&self) {
        let (merged, done) = oneshot::channel();
        // The merging task ends after the last change.
        self.remerge.send(merged).await.ok();
        done.await.ok();
    }

    /// Ends every process of every server, when [`Registry::stop`] is not to be waited for any longer.
    pub async fn kill(&self) {
        transport::kill_all(&self.fleet.lineage).await;
    }

    /// Stops every server, all at once, and returns when nothing of them is left.
    pub async fn stop(&self) {
        self.desired.lock().await.closed = true;
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.end())).await;
        let supervisors = std::mem::take(&mut self.desired.lock().await.supervisors);
        join(supervisors).await;
        self.operations.close();
        self.operations.wait().await;
        self.stop.cancel();
        join(std::mem::take(&mut *self.own.lock().await)).await;
        // After the last words of the servers.
        self.fleet.logs.close().await;
    }
}

/// There is no server of this name, or none for this client.
pub fn unknown_server(name: &str) -> Failure {
    let message = format!("Server '{name}' not found");
    Failure::new(FailureKind::ServerNotFound, message).with("server", name)
}

/// Waits for all of these tasks.
async fn join(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a task of the registry failed");
        }
    }
}

/// Hears when a supervisor ends.
fn watch((server, task): (Arc<Server>, JoinHandle<()>), tasks: &mut JoinSet<()>) -> Arc<Server> {
    tasks.spawn(async move {
        if let Err(error) = task.await {
            tracing::error!(%error, "a supervisor failed");
        }
    });
    server
}

/// Tells every server when the machine has slept.
async fn wake(servers: Arc<ArcSwap<Servers>>, clock: SleepClock, stop: CancellationToken) {
    let mut slept = clock.slept();
    let mut look = tokio::time::interval(CLOCK_LOOK);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = look.tick() => {}
        }
        let now = clock.slept();
        if now.saturating_sub(slept) >= SHORTEST_SLEEP {
            tracing::info!(slept = ?now.saturating_sub(slept), "the machine slept");
            for server in &servers.load().list {
                server.resumed();
            }
        }
        slept = now;
    }
}

/// The task that turns the servers' catalogs into the published ones.
struct Merger {
    servers: Arc<ArcSwap<Servers>>,
    /// What belongs to servers, offered at present or not.
    claims: Arc<Claims>,
    catalog: Arc<ArcSwap<Catalog>>,
    profiles: Arc<Profiles>,
    announcements: broadcast::Sender<Announcement>,
    /// What was replaced, and is still read by somebody.
    retired: Vec<Retired>,
}

/// A replaced catalog, or what was shown of one.
type Retired = Arc<dyn Any + Send + Sync>;

impl Merger {
    async fn run(
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

    /// Frees what nobody reads any more.
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
            catalog: Arc::clone(&self.catalog),
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

/// Drops what nobody else holds.
fn free(retired: &mut Vec<Retired>) {
    retired.retain(|it| Arc::strong_count(it) > 1);
}

/// One merge, and all that it takes.
struct Merge {
    servers: Arc<Servers>,
    claims: Arc<Claims>,
    catalog: Arc<ArcSwap<Catalog>>,
    profiles: Arc<Profiles>,
    retired: Vec<Retired>,
}

/// What came of it.
struct Merged {
    claims: Arc<Claims>,
    changes: Vec<Change>,
    retired: Vec<Retired>,
}

impl Merge {
    /// Publishes what the servers offer now. Takes as long as there is much of it.
    fn run(self) -> Merged {
        let Self {
            servers,
            claims,
            catalog,
            profiles,
            mut retired,
        } = self;
        let parts: Vec<Part> = servers
            .list
            .iter()
            .filter(|server| server.is_wanted())
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
        let before = catalog.load_full();
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
        let everything = config::Profile::everything(ProfileName::default());
        let whole = Arc::new(rules.merge(parts, &everything, &claims));
        catalog.store(Arc::clone(&whole));
        let changes = profiles.merge(&rules, &whole, &mut retired);
        // After what was shown of it, which is dropped first.
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
