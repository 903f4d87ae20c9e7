//! Owns the supervisors, and publishes what all servers offer as one catalog.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use mainstay_core::{
    catalog::{Catalog, ListKind, Part},
    config::{Config, Naming},
    failure::{Failure, FailureKind},
    ids::ServerName,
};
use tokio::{
    sync::{Mutex, broadcast, mpsc},
    task::JoinSet,
    time::Instant,
};

use crate::logs::Logs;
use crate::setting::Setting;
use crate::supervisor::{self, Report, Server};
use crate::transport::Notice;

/// Announcements that a slow listener may fall behind before it misses some.
const MAX_ANNOUNCEMENTS: usize = 1024;

/// Reports that may wait for the registry.
const MAX_REPORTS: usize = 256;

/// What the registry tells everyone who listens.
#[derive(Clone, Debug)]
pub enum Announcement {
    /// A list of the merged catalog has changed; the new one had been published at that time.
    ListChanged(ListKind, Instant),
    /// A server has a new shared session, which knows nothing of log levels and subscriptions.
    Opened(ServerName),
    /// A log message or a changed resource of a server.
    Notice(ServerName, Notice),
}

/// All servers, in configuration order.
#[derive(Debug)]
pub struct Registry {
    servers: Vec<Arc<Server>>,
    by_name: HashMap<ServerName, usize>,
    catalog: Arc<ArcSwap<Catalog>>,
    announcements: broadcast::Sender<Announcement>,
    startup_wait: Duration,
    logs: Logs,
    /// Supervisors, and the task that merges; taken once, at shutdown.
    tasks: Mutex<JoinSet<()>>,
}

impl Registry {
    /// Starts every server of the configuration, all at once (C14).
    pub fn start(config: &Config, setting: Setting) -> Arc<Self> {
        let logs = setting
            .state
            .as_deref()
            .map(Logs::start)
            .unwrap_or_default();
        let (reports, inbox) = mpsc::channel(MAX_REPORTS);
        let mut tasks = JoinSet::new();
        let mut servers = Vec::with_capacity(config.servers.len());
        for server in &config.servers {
            let (server, task) =
                supervisor::supervise(Arc::new(server.clone()), &logs, reports.clone());
            servers.push(server);
            tasks.spawn(async move {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a supervisor failed");
                }
            });
        }
        let by_name = servers
            .iter()
            .enumerate()
            .map(|(index, server)| (server.name.clone(), index))
            .collect();
        let (announcements, _) = broadcast::channel(MAX_ANNOUNCEMENTS);
        let merger = Merger {
            servers: servers.clone(),
            catalog: Arc::default(),
            announcements: announcements.clone(),
            naming: config.naming,
            max_name_length: config.max_name_length,
        };
        let catalog = Arc::clone(&merger.catalog);
        tasks.spawn(merger.run(inbox));
        Arc::new(Self {
            servers,
            by_name,
            catalog,
            announcements,
            startup_wait: config.startup_wait,
            logs,
            tasks: Mutex::new(tasks),
        })
    }

    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// A server that is known to be configured: the catalog names no other.
    pub fn named(&self, name: &ServerName) -> Option<&Arc<Server>> {
        self.by_name.get(name).map(|&index| &self.servers[index])
    }

    pub fn server(&self, name: &str) -> Result<&Arc<Server>, Failure> {
        let found = ServerName::new(name)
            .ok()
            .and_then(|name| self.by_name.get(&name).copied());
        found.map(|index| &self.servers[index]).ok_or_else(|| {
            Failure::new(
                FailureKind::ServerNotFound,
                format!("Server '{name}' not found"),
            )
            .with("server", name)
        })
    }

    /// What all servers offer, as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Resolves when every server has had its first attempt, or its time for it (design section 12:
    /// each is waited for once, after its own start, never again by later lists).
    pub async fn settled(&self) {
        join_all(
            self.servers
                .iter()
                .map(|server| server.settled(self.startup_wait)),
        )
        .await;
    }

    /// Whether every server has had its first attempt, or its time for it.
    pub fn is_settled(&self) -> bool {
        use futures_util::FutureExt as _;
        self.settled().now_or_never().is_some()
    }

    pub fn listen(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    /// Stops every server, all at once, and returns when nothing of them is left.
    pub async fn stop(&self) {
        for server in &self.servers {
            server.stop();
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock().await);
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task of the registry failed");
            }
        }
        // After the last words of the servers.
        self.logs.close().await;
    }
}

/// The task that turns the servers' catalogs into the published one.
struct Merger {
    servers: Vec<Arc<Server>>,
    catalog: Arc<ArcSwap<Catalog>>,
    announcements: broadcast::Sender<Announcement>,
    naming: Naming,
    max_name_length: usize,
}

impl Merger {
    /// Ends when all supervisors have.
    async fn run(self, mut reports: mpsc::Receiver<(ServerName, Report)>) {
        while let Some((server, report)) = reports.recv().await {
            match report {
                Report::CatalogChanged { announced, merged } => {
                    self.merge(&announced);
                    // The supervisor may have been stopped meanwhile.
                    merged.send(()).ok();
                }
                Report::Opened => self.announce(Announcement::Opened(server)),
                Report::Notice(notice) => self.announce(Announcement::Notice(server, notice)),
            }
        }
    }

    fn merge(&self, announced: &[ListKind]) {
        let parts = self
            .servers
            .iter()
            .filter(|server| server.is_wanted())
            .filter_map(|server| {
                Some(Part {
                    server: server.name.clone(),
                    catalog: server.catalog()?,
                    disabled_tools: server.config.disabled_tools.clone().into(),
                })
            })
            .collect();
        let merged = Catalog::merge(parts, self.naming, self.max_name_length);
        let before = self.catalog.swap(Arc::new(merged));
        let (after, now) = (self.catalog.load(), Instant::now());
        for kind in ListKind::ALL {
            if announced.contains(&kind) || before.digest(kind) != after.digest(kind) {
                self.announce(Announcement::ListChanged(kind, now));
            }
        }
    }

    fn announce(&self, announcement: Announcement) {
        // An error means that nobody listens.
        self.announcements.send(announcement).ok();
    }
}
