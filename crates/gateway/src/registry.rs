//! The registry: owns the supervisors of all servers, and publishes the merged catalog of all
//! servers and of each profile.

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
    ids::{ProfileName, ServerName},
};
use mainstay_platform::{environment::ConfigurationSource, state};
use mainstay_transport::{self as transport, HeadersHelpers, logs::ServerLogs};
use tokio::{
    sync::{Mutex, broadcast, mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    announcement::Announcement,
    desired::{NewServer, OnDuplicate, duplicate},
    profiles::{ProfileSnapshot, PublishedProfile},
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
    events::EventRing,
    history::StatusHistory,
    options::GatewayOptions,
    supervisor::{self, Fleet, Pace, Queue, ServerHandle, Sole},
};

/// Number of announcements that are buffered for a slow listener. Beyond it, the listener misses
/// announcements.
const MAX_ANNOUNCEMENTS: usize = 1024;

/// The servers with their supervisors, and the published catalogs.
#[derive(Debug)]
pub struct Registry {
    servers: Arc<ArcSwap<Servers>>,
    /// All servers as one profile.
    everything: Arc<PublishedProfile>,
    profiles: Arc<Profiles>,
    /// Requests a merge after a change of the servers or the rules. The merger replies on the sent
    /// channel when the merge is done.
    remerge: mpsc::Sender<oneshot::Sender<()>>,
    announcements: broadcast::Sender<Announcement>,
    fleet: Arc<Fleet>,
    startup_wait: Duration,
    /// The source of the configuration. `None` if it cannot be read again.
    origin: Option<ConfigurationSource>,
    /// The text of the configuration file in force. `None` without a file.
    text: Arc<ArcSwapOption<String>>,
    /// The lock is held throughout a change, so that changes run one after the other.
    desired: Mutex<DesiredServers>,
    /// The running changes.
    operations: TaskTracker,
    /// The tasks that merge catalogs and watch the clock, until `stop`.
    tasks: Mutex<JoinSet<()>>,
    stop: CancellationToken,
}

impl Registry {
    /// Starts all servers of the configuration at the same time. Does not wait for them.
    pub fn start(config: &Config, options: GatewayOptions) -> Arc<Self> {
        let (reports, inbox) = mpsc::channel(MAX_REPORTS);
        // If other users can write to the folder, neither read nor store catalogs there.
        let catalogs = options.catalogs.filter(|folder| {
            let created = state::private_dir(folder);
            if let Err(error) = &created {
                tracing::warn!(%error, "catalogs cannot be kept");
            }
            created.is_ok()
        });
        // The caller has just parsed this file. If the file was deleted since, there is no text.
        let text = options.origin.as_ref();
        let text = text.and_then(|origin| origin.text().ok().flatten());
        let text = Arc::new(ArcSwapOption::new(text.map(Arc::new)));
        let entries = Entries::new(options.origin.clone(), Arc::clone(&text));
        let events = EventRing::default();
        events.fit_to_servers(config.servers.len());
        let fleet = Arc::new(Fleet {
            pace: Pace::new(config.max_attempts_per_second, config.max_concurrent_starts),
            reports,
            queue: Arc::new(Queue::new(events.clone())),
            events,
            history: StatusHistory::new(options.journal),
            logs: options
                .state
                .as_deref()
                .map(ServerLogs::start)
                .unwrap_or_default(),
            catalogs,
            headers_helpers: HeadersHelpers::new(options.lineage.clone()),
            lineage: options.lineage,
            credential_sources: options.credential_sources,
            reserve: supervisor::reserve(),
            sole: options.sole_client.then(Sole::default),
            entries: Some(Arc::new(entries.clone())),
            watched_file: options.origin.as_ref().and_then(ConfigurationSource::path),
            inline: options
                .origin
                .as_ref()
                .map(ConfigurationSource::inline)
                .unwrap_or_default(),
        });
        let mut supervisors = JoinSet::new();
        let list: Vec<_> = config
            .servers
            .iter()
            .map(|server| {
                let (config, fleet) = (Arc::new(server.clone()), Arc::clone(&fleet));
                // This blocks on reading stored catalogs. No client can connect yet, so none is
                // delayed.
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
        let (remerge, merge_requests) = mpsc::channel(1);
        let nothing = Arc::new(Catalog::empty(&claims));
        let merger = Merger {
            servers: Arc::clone(&servers),
            claims,
            profiles: Arc::new(Profiles::new(config, &nothing)),
            everything: PublishedProfile::of_everything(nothing),
            announcements: announcements.clone(),
            retired: Vec::new(),
        };
        let everything = Arc::clone(&merger.everything);
        let profiles = Arc::clone(&merger.profiles);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(merger.run(inbox, merge_requests, stop.clone()).boxed());
        tasks.spawn(wake(Arc::clone(&servers), options.clock, stop.clone()).boxed());
        let targets = KnownTargets::new(fleet.catalogs.clone());
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
                targets,
                leaving: HashMap::default(),
                closed: false,
            }),
            operations: TaskTracker::new(),
            tasks: Mutex::new(tasks),
            stop,
        });
        let this = Arc::clone(&registry);
        // Runs in the background. No caller waits for it.
        drop(registry.run_to_end(async move {
            this.record_file_targets(&mut *this.desired.lock().await)
                .await;
        }));
        registry
    }

    /// All servers, in configuration order.
    pub fn servers(&self) -> Vec<Arc<ServerHandle>> {
        self.servers.load().list.clone()
    }

    /// A server by its name.
    pub fn named(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        self.servers.load().named(name).cloned()
    }

    pub fn server(&self, name: &str) -> Result<Arc<ServerHandle>, Failure> {
        let found = ServerName::new(name)
            .ok()
            .and_then(|name| self.named(&name));
        found.ok_or_else(|| unknown_server(name))
    }

    /// The text of the configuration in force, if it comes from a file.
    pub fn text(&self) -> Option<Arc<String>> {
        self.text.load_full()
    }

    /// Sets the text after a change that leaves the configuration the same, such as a new comment.
    pub fn set_text(&self, text: Option<String>) {
        self.text.store(text.map(Arc::new));
    }

    /// The current merged catalog of all servers.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.everything.snapshot().catalog)
    }

    /// All servers as one profile, for REST. No client connects to this profile.
    pub fn everything(&self) -> &Arc<PublishedProfile> {
        &self.everything
    }

    /// The profile at `/mcp`.
    pub fn default_profile(&self) -> Arc<PublishedProfile> {
        Arc::clone(&self.profiles.default)
    }

    pub fn profiles(&self) -> Arc<Vec<Arc<PublishedProfile>>> {
        self.profiles.all()
    }

    pub fn profile(&self, name: &str) -> Result<Arc<PublishedProfile>, Failure> {
        self.profiles
            .named(name)
            .ok_or_else(|| self.unknown_profile(name, |_| true))
    }

    /// The failure for a profile that does not exist, or that the client may not use. `is_open`
    /// tells which profiles the client may use.
    pub fn unknown_profile(&self, name: &str, is_open: impl Fn(&ProfileName) -> bool) -> Failure {
        let mut names = self.profiles.names();
        names.retain(is_open);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let message = format!("Profile '{name}' not found; there are {}", names.join(", "));
        Failure::new(FailureKind::ProfileNotFound, message).with("profile", name)
    }

    /// The naming of tools in profiles that do not set one.
    pub fn naming(&self) -> Naming {
        self.profiles.rules().naming()
    }

    /// The servers of a profile, in configuration order.
    pub fn servers_of(&self, profile: &PublishedProfile) -> Vec<Arc<ServerHandle>> {
        let snapshot = profile.snapshot();
        let servers = self.servers.load();
        servers
            .list
            .iter()
            .filter(|server| snapshot.config.has_server(&server.name))
            .cloned()
            .collect()
    }

    /// Resolves when no list needs to wait for a server: each server has lists of an earlier run, or
    /// its first attempt is over, or the startup wait has passed since its start
    /// (docs/dev/design.md, "Supervision").
    pub async fn settled(&self) {
        self.all_settled(&self.servers()).await;
    }

    /// Like [`Self::settled`], for the servers of a profile.
    pub async fn profile_settled(&self, profile: &PublishedProfile) {
        self.all_settled(&self.servers_of(profile)).await;
    }

    async fn all_settled(&self, servers: &[Arc<ServerHandle>]) {
        let settling = servers
            .iter()
            .map(|server| server.settled(self.startup_wait));
        join_all(settling).await;
    }

    /// Like [`Self::settled`], for one server.
    pub async fn attempted(&self, server: &ServerHandle) {
        server.settled(self.startup_wait).await;
    }

    /// Waits until the lists of a server have been read ([`ServerHandle::listed`]), at most for the
    /// startup wait.
    pub async fn listed(&self, server: &ServerHandle) {
        server.listed(self.startup_wait).await;
    }

    /// Waits until the server of a call has been listed. If the server was never listed, waits up to
    /// the timeout of the call, and then fails with that timeout.
    pub async fn listed_for_call(&self, server: &ServerHandle) -> Result<(), Failure> {
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

    /// Resolves when the first attempt of every server in this run is over, or the startup wait has
    /// passed. Unlike [`Self::settled`], ignores lists of earlier runs.
    pub async fn tried(&self) {
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.tried(self.startup_wait))).await;
    }

    /// True if [`Self::tried`] would resolve at once.
    pub fn startup_is_over(&self) -> bool {
        let servers = self.servers();
        servers
            .iter()
            .all(|server| server.is_tried(self.startup_wait))
    }

    pub(crate) fn announce(&self, announcement: Announcement) {
        // An error means that there is no listener.
        self.announcements.send(announcement).ok();
    }

    pub fn listen(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    /// The questions of servers that wait for a person, because no client could be asked.
    pub fn queue(&self) -> &Queue {
        &self.fleet.queue
    }

    /// The only client. `None` if there can be several clients.
    pub fn sole(&self) -> Option<&Sole> {
        self.fleet.sole.as_ref()
    }

    /// The events of the servers and of the configuration.
    pub fn events(&self) -> &EventRing {
        &self.fleet.events
    }

    /// Records changes of the servers' statuses.
    pub fn history(&self) -> &StatusHistory {
        &self.fleet.history
    }

    /// Merges the catalogs, and returns when the merged catalogs are published.
    async fn merge(&self) {
        let (merged, done) = oneshot::channel();
        // Errors mean that the merger has ended: the registry is stopping.
        self.remerge.send(merged).await.ok();
        done.await.ok();
    }

    /// Kills all processes of all servers. For the case that [`Registry::stop`] takes too long.
    pub async fn kill(&self) {
        transport::kill_all(&self.fleet.lineage).await;
    }

    /// Stops all servers at the same time, and returns when all of them have ended.
    pub async fn stop(&self) {
        self.desired.lock().await.closed = true;
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.end())).await;
        let supervisors = std::mem::take(&mut self.desired.lock().await.supervisors);
        join(supervisors).await;
        self.operations.close();
        self.operations.wait().await;
        self.fleet.headers_helpers.stop().await;
        self.stop.cancel();
        join(std::mem::take(&mut *self.tasks.lock().await)).await;
        // Close the logs last, after the last output of the servers.
        self.fleet.logs.close().await;
    }
}

/// The failure of a request for a server that does not exist, or that the client may not use.
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
