//! A trial: the one start of a server before it is saved, which shows whether the server starts and
//! which items it offers.
//!
//! A trial is a separate gateway. It stores and records nothing, and its processes have their own
//! marks. It does not affect a running server of the same name.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    catalog::{CatalogItem, ListKind, ServerCatalog},
    config::{Config, Launch, ServerConfig},
    lifecycle::SessionState,
    trouble,
};
use mainstay_platform::lineage::Lineage;
use tokio::time::timeout_at;

use crate::{
    Gateway, GatewayOptions,
    supervisor::{ServerHandle, ServerView},
};

/// Time limit for reading the lists, in addition to the limit of the start.
const LISTS_LIMIT: Duration = Duration::from_secs(40);

/// Maximum number of stderr lines in a failure.
const MAX_STDERR_LINES: usize = 10;

/// A server on trial. The caller must end it with [`Trial::end`].
#[derive(Debug)]
pub struct Trial {
    gateway: Arc<Gateway>,
    server: Arc<ServerHandle>,
    until: tokio::time::Instant,
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub enum Tried {
    /// The server is up and has been listed.
    Up {
        view: Box<ServerView>,
        catalog: Arc<ServerCatalog>,
    },
    /// The server is not up. The reason includes the line of its output that explains most.
    Down { reason: String },
}

impl Trial {
    /// Starts the server, even if its entry disables it. Must be called within a tokio runtime.
    pub fn begin(server: ServerConfig, lineage: Lineage) -> Self {
        let limit = server.longest_start() + LISTS_LIMIT;
        let server = ServerConfig {
            enabled: true,
            auto_start: true,
            ..server
        };
        let config = Config {
            servers: vec![server],
            // The first start of a server may download a package, so wait longer than usual.
            startup_wait: limit,
            // A trial has no calls, so the stop need not wait for calls.
            shutdown_grace: Duration::ZERO,
            ..Config::default()
        };
        let options = GatewayOptions {
            lineage,
            ..GatewayOptions::default()
        };
        let gateway = Gateway::start(&config, options);
        let mut servers = gateway.registry.servers();
        Self {
            server: servers.swap_remove(0),
            gateway,
            until: tokio::time::Instant::now() + limit,
        }
    }

    pub fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Resolves when the first attempt has ended, including its listing, or the time limit has
    /// passed.
    pub async fn settled(&self) {
        // An error means that the time limit has passed. Both end the wait.
        timeout_at(self.until, self.gateway.registry.settled())
            .await
            .ok();
    }

    /// The result so far.
    pub fn outcome(&self) -> Tried {
        let view = self.server.view();
        let status = &view.status;
        let is_up = status.state == SessionState::Connected && view.is_ready(status.epoch);
        if let (true, Some(catalog)) = (is_up, &view.catalog) {
            let catalog = Arc::clone(catalog);
            return Tried::Up {
                view: Box::new(view),
                catalog,
            };
        }
        let (stderr, stray) = (self.stderr(), self.server.log.last_stray_line());
        let reason = match (&status.reason, view.list_note()) {
            (Some(reason), _) => {
                let reason = trouble::explained(reason, &stderr, stray.as_deref());
                self.server.with_foreign_ids(reason, &view)
            }
            (None, Some(note)) => note,
            (None, None) => "it was not up in time".to_owned(),
        };
        Tried::Down { reason }
    }

    /// The last lines of the server's stderr, without secrets.
    pub fn stderr(&self) -> Vec<String> {
        let mut lines = self.server.log.tail.texts();
        lines.drain(..lines.len().saturating_sub(MAX_STDERR_LINES));
        lines
    }

    /// A text of the server with its secrets redacted.
    pub fn redacted(&self, text: &str) -> String {
        self.server.log.redacted(text).into_owned()
    }

    /// The items of a list that clients would see.
    pub fn visible_items<T>(
        &self,
        catalog: &ServerCatalog,
        kind: ListKind,
        convert: fn(&CatalogItem) -> T,
    ) -> Vec<T> {
        let withheld = &self.server.config().withheld;
        catalog.visible_items(kind, withheld).map(convert).collect()
    }

    /// The next step for a person if the server is down for this reason.
    pub fn next_step(&self, reason: &str) -> &'static str {
        match &self.server.config().launch {
            Launch::Stdio(_) => {
                "correct the command, its arguments or its variables, and try it again"
            }
            _ if ["401", "403"].iter().any(|status| reason.contains(status)) => {
                "give it `headers` or a `bearerToken` that lets Mainstay in, and try it again"
            }
            _ => "check the URL and that its server runs, and try it again",
        }
    }

    /// Ends the server and all its processes. Returns when they have ended.
    pub async fn end(self) {
        self.gateway.stop().await;
    }
}
