//! `GET /metrics`: what was counted, and how things are, as of now, in the text format of `OpenMetrics`.
//! Servers that are gone have gone from it, too. docs/metrics.md has a line for each family.

mod exposition;
mod families;

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{encoding::text::encode, registry::Registry};

use self::exposition::Exposition;
use super::Door;

/// By which scrapers know what they get.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub async fn scrape(State(door): State<Door>) -> Response {
    let marks = door.hub.lineage.marks_of_all().entries();
    // Reads /proc, a few files for each process.
    let held = tokio::task::spawn_blocking(move || Held::now(&marks)).await;
    let held = held.unwrap_or_else(|error| {
        tracing::error!(%error, "processes could not be looked at");
        Held::default()
    });
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition {
        hub: Arc::clone(&door.hub),
        held,
    }));
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        // Nothing writes to a text in vain.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What processes hold, as far as the system tells.
#[derive(Debug, Default)]
struct Held {
    /// Of servers' processes, by server: how many there are, and their resident memory in bytes.
    servers: HashMap<String, (u64, u64)>,
    own: Option<Own>,
}

/// What we hold ourselves.
#[derive(Debug)]
struct Own {
    memory: u64,
    open_files: u64,
    cpu_seconds: f64,
}

impl Held {
    #[cfg(target_os = "linux")]
    fn now(marks: &[String]) -> Self {
        use crate::{lineage, processes};

        let mut servers = HashMap::<String, (u64, u64)>::new();
        // A server may have many sessions, each with its tree.
        for (tag, tree) in processes::trees(marks, lineage::SERVER) {
            let server = servers
                .entry(lineage::server_of(&tag).to_owned())
                .or_default();
            server.0 += tree.processes;
            server.1 += tree.memory;
        }
        let own = processes::Own::now();
        Self {
            servers,
            own: Some(Own {
                memory: own.memory,
                open_files: own.open_files,
                cpu_seconds: own.cpu.as_secs_f64(),
            }),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn now(_marks: &[String]) -> Self {
        Self::default()
    }
}
