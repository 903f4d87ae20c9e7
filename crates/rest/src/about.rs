//! `GET /api/about`: facts about the daemon and its journal.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_core::{config::Durability, era::Revision};
use mainstay_doorway::json_views::servers::millis;
use mainstay_gateway::Gateway;
use mainstay_journal::Journal;
use mainstay_platform::{blocking::off_the_runtime, files, utc};
use tokio::time::{Instant, timeout};

use super::{RestDoor, servers::warnings};

/// Time limit for reads of the file system. If a mount hangs, only the fields that need it are
/// missing.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// Facts about the daemon that do not change while it runs.
#[derive(Clone, Debug)]
pub struct DaemonFacts {
    pub started_at: SystemTime,
    /// `started_at` on the monotonic clock.
    pub since: Instant,
    /// The state directory; `None` without one.
    pub state: Option<PathBuf>,
    /// The addresses of the HTTP listeners.
    pub listen: Vec<String>,
    /// True if the web page shows tools of servers (`ui.externalTools`).
    pub external_tools: bool,
}

impl DaemonFacts {
    /// The facts of a daemon that starts now.
    pub fn now(state: Option<PathBuf>) -> Self {
        Self {
            started_at: SystemTime::now(),
            since: Instant::now(),
            state,
            listen: Vec::new(),
            external_tools: true,
        }
    }
}

/// Answers `GET /api/about`.
pub async fn about(State(door): State<RestDoor>) -> Json<api::About> {
    let daemon = &door.daemon;
    let journal = journal(door.gateway.calls.journal().map(|journal| &**journal)).await;
    let gateway = Arc::clone(&door.gateway);
    let looking = off_the_runtime(move || (configuration(&gateway), own_memory()));
    let (configuration, memory_bytes) = timeout(LOOK_LIMIT, looking).await.unwrap_or_default();
    Json(api::About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: utc::rfc3339(daemon.started_at),
        uptime_ms: millis(daemon.since.elapsed()),
        state_directory: daemon.state.as_ref().map(|dir| dir.display().to_string()),
        configuration,
        listen: daemon.listen.clone(),
        platform: format!("{OS} {ARCH}"),
        revisions: Revision::ALL
            .map(|revision| revision.as_str().to_owned())
            .into(),
        journal,
        memory_bytes,
        external_tools: daemon.external_tools,
        warnings: warnings(&door),
    })
}

/// The path of the configuration file, and whether it can be replaced. Reads the file system.
fn configuration(gateway: &Gateway) -> api::AboutConfiguration {
    let path = gateway
        .reloader
        .as_ref()
        .and_then(|reloader| reloader.path());
    api::AboutConfiguration {
        writable: path.as_deref().is_some_and(files::is_replaceable),
        path: path.map(|path| path.display().to_string()),
    }
}

async fn journal(journal: Option<&Journal>) -> api::AboutJournal {
    let Some(journal) = journal else {
        return api::AboutJournal {
            durability: "off".to_owned(),
            ..api::AboutJournal::default()
        };
    };
    let (span, error) = match journal.span().await {
        Ok(span) => (Some(span), journal.error()),
        Err(error) => (None, Some(error.to_string())),
    };
    let counters = journal.counters();
    let settings = journal.settings();
    api::AboutJournal {
        enabled: true,
        durability: match settings.durability {
            Durability::Relaxed => "relaxed",
            Durability::Strict => "strict",
        }
        .to_owned(),
        path: Some(journal.folder().display().to_string()),
        bytes: journal.bytes(),
        max_bytes: Some(settings.max_bytes),
        records: span.map(|span| span.records),
        oldest: span.and_then(|span| span.oldest).map(utc::rfc3339),
        lost: counters.dropped + counters.lost,
        error,
    }
}

#[cfg(target_os = "linux")]
fn own_memory() -> Option<u64> {
    Some(mainstay_platform::processes::own_memory()).filter(|bytes| *bytes > 0)
}

#[cfg(not(target_os = "linux"))]
fn own_memory() -> Option<u64> {
    None
}
