//! Owns the supervisors, and publishes what all servers offer: as one catalog, and as one for each
//! profile.

mod announcement;
mod approval;
mod changes;
mod desired;
mod entries;
mod merger;
mod profiles;
mod run_to_end;
mod search;
mod servers;
mod targets;
mod wake;

use std::{sync::Arc, time::Duration};

use arc_swap::{ArcSwap, ArcSwapOption};
use foldhash::HashMap;
use futures_util::{FutureExt as _, future::join_all};
use mainstay_config::Overlay;
use mainstay_core::{
    catalog::{Catalog, Claims},
    config::{Config, Naming},
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use mainstay_platform::{environment::Origin, state};
use mainstay_transport::{self as transport, logs::Logs};
use tokio::{
    sync::{Mutex, broadcast, mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    announcement::Announcement,
    desired::{NewServer, OnDuplicate, duplicate},
    profiles::{Profile, ProfileSnapshot},
    run_to_end::{Changing, RunToEnd},
};
use self::{
    desired::{DesiredServers, watch},
    entries::Entries,
    merger::{MAX_REPORTS, Merger},
    profiles::Profiles,
    servers::Servers,
    targets::KnownTargets,
    wake::wake,
};
use crate::{
    events::Events,
    history::History,
    options::GatewayOptions,
    supervisor::{self, Fleet, Pace, Queue, Server, Sole},
};

/// Announcements that a slow listener may fall behind before it misses some.
const MAX_ANNOUNCEMENTS: usize = 1024;

/// Owns every server.
#[derive(Debug)]
pub struct Registry {
    servers: Arc<ArcSwap<Servers>>,
    /// What all servers offer.
    everything: Arc<Profile>,
    profiles: Arc<Profiles>,
    /// Asks for a merge that no server asks for; answered when it is done.
    remerge: mpsc::Sender<oneshot::Sender<()>>,
    announcements: broadcast::Sender<Announcement>,
    fleet: Arc<Fleet>,
    startup_wait: Duration,
    /// Where the configuration comes from, if it can be read again.
    origin: Option<Origin>,
    /// The text of the file in force, if there is one.
    text: Arc<ArcSwapOption<String>>,
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
        // It was read a moment ago; if it has gone since, there is none.
        let text = options.origin.as_ref();
        let text = text.and_then(|origin| origin.text().ok().flatten());
        let text = Arc::new(ArcSwapOption::new(text.map(Arc::new)));
        let entries = Entries::new(options.origin.clone(), Arc::clone(&text));
        let events = Events::default();
        events.keep_for(config.servers.len());
        let fleet = Arc::new(Fleet {
            pace: Pace::new(config.max_attempts_per_second, config.max_concurrent_starts),
            reports,
            queue: Arc::new(Queue::new(events.clone())),
            events,
            history: History::new(options.journal),
            logs: options
                .state
                .as_deref()
                .map(Logs::start)
                .unwrap_or_default(),
            catalogs,
            lineage: options.lineage,
            reserve: supervisor::reserve(),
            sole: options.sole_client.then(Sole::default),
            entries: Some(Arc::new(entries.clone())),
            watched_file: options.origin.as_ref().and_then(Origin::path),
            inline: options
                .origin
                .as_ref()
                .map(Origin::inline)
                .unwrap_or_default(),
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
        entries.set_servers(Arc::clone(&servers));
        let (announcements, _) = broadcast::channel(MAX_ANNOUNCEMENTS);
        let (remerge, asked) = mpsc::channel(1);
        let nothing = Arc::new(Catalog::empty(&claims));
        let merger = Merger {
            servers: Arc::clone(&servers),
            claims,
            profiles: Arc::new(Profiles::new(config, &nothing)),
            everything: Profile::of_everything(nothing),
            announcements: announcements.clone(),
            retired: Vec::new(),
        };
        let everything = Arc::clone(&merger.everything);
        let profiles = Arc::clone(&merger.profiles);
        let stop = CancellationToken::new();
        let mut own = JoinSet::new();
        own.spawn(merger.run(inbox, asked, stop.clone()).boxed());
        own.spawn(wake(Arc::clone(&servers), options.clock, stop.clone()).boxed());
        let known = KnownTargets::new(fleet.catalogs.clone());
        let registry = Arc::new(Self {
            servers,
            everything,
            profiles,
            remerge,
            announcements,
            fleet,
            startup_wait: config.startup_wait,
            text,
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
        let this = Arc::clone(&registry);
        // Nothing waits for it.
        drop(registry.run_to_end(async move {
            this.note_file(&mut *this.desired.lock().await).await;
        }));
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
        Arc::clone(&self.everything.shown().catalog)
    }

    /// All servers as one profile, which no client connects to.
    pub fn everything(&self) -> &Arc<Profile> {
        &self.everything
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

    /// How tools are named where a profile does not say otherwise.
    pub fn naming(&self) -> Naming {
        self.profiles.rules().naming()
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

    /// Resolves when no list needs to wait: every server has lists of an earlier run, or has had its first attempt
    /// or its time for it (docs/dev/design.md, "Supervision": each is waited for once, after its own start, never
    /// again by later lists).
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

    /// Resolves when every server has had its first attempt of this run, or its time for it.
    pub async fn tried(&self) {
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.tried(self.startup_wait))).await;
    }

    /// Whether every server has had its first attempt of this run, or its time for it.
    pub fn is_tried(&self) -> bool {
        let servers = self.servers();
        servers
            .iter()
            .all(|server| server.is_tried(self.startup_wait))
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

    /// Where changes of the servers' statuses are put on record.
    pub fn history(&self) -> &History {
        &self.fleet.history
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
