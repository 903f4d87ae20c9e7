//! Starts a server once, beside all others, to see whether it can be started and what it offers.
//!
//! A trial is a gateway of its own: it keeps nothing, records nothing, and its processes have marks of their
//! own. A server of the same name that runs is none of its business.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    catalog::{Item, ListKind, ServerCatalog},
    config::{Config, Launch, ServerConfig},
    lifecycle::State,
    trouble,
};
use mainstay_platform::lineage::Lineage;
use tokio::time::timeout_at;

use crate::{
    Gateway, GatewayOptions,
    supervisor::{Server, ServerView},
};

/// What reading the lists may take beyond the start.
const LISTS: Duration = Duration::from_secs(40);

/// Lines of stderr that are told beside a failure.
const TOLD_STDERR: usize = 10;

/// A server that is being tried. It is to be ended by [`Trial::end`].
#[derive(Debug)]
pub struct Trial {
    gateway: Arc<Gateway>,
    server: Arc<Server>,
    until: tokio::time::Instant,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub enum Tried {
    /// It is up, and has been listed.
    Up {
        view: Box<ServerView>,
        catalog: Arc<ServerCatalog>,
    },
    /// It is not up. The reason has the most telling line of what it said.
    Down { reason: String },
}

impl Trial {
    /// Starts the server, whether it is enabled or not. Needs a tokio runtime.
    pub fn begin(server: ServerConfig, lineage: Lineage) -> Self {
        let limit = server.longest_start() + LISTS;
        let server = ServerConfig {
            enabled: true,
            auto_start: true,
            ..server
        };
        let config = Config {
            servers: vec![server],
            // Otherwise a first start, which downloads, would not be waited for.
            startup_wait: limit,
            // No call is at work at the end.
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

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Resolves when the first attempt is over with its lists, or has had its time.
    pub async fn settled(&self) {
        // Out of time is one way to be over.
        timeout_at(self.until, self.gateway.registry.settled())
            .await
            .ok();
    }

    /// What has come of it so far.
    pub fn outcome(&self) -> Tried {
        let view = self.server.view();
        let status = &view.status;
        let is_up = status.state == State::Connected && view.is_ready(status.epoch);
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

    /// The last lines of its stderr, without secrets.
    pub fn stderr(&self) -> Vec<String> {
        let mut lines = self.server.log.tail.texts();
        lines.drain(..lines.len().saturating_sub(TOLD_STDERR));
        lines
    }

    /// The items of a list that clients would be shown.
    pub fn shown<T>(&self, catalog: &ServerCatalog, kind: ListKind, of: fn(&Item) -> T) -> Vec<T> {
        let withheld = &self.server.config().withheld;
        catalog.shown(kind, withheld).map(of).collect()
    }

    /// What a person does next where it is not up for this reason.
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

    /// Ends the server with everything that it started. Returns when nothing is left.
    pub async fn end(self) {
        self.gateway.stop().await;
    }
}
