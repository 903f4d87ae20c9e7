//! `GET /metrics`: counts and current figures, in the format that the scraper asks for. Servers that
//! are gone have no figures. docs/metrics.md has a line for each family.

mod exposition;
mod families;
mod format;

use std::{collections::HashMap, fmt, sync::Arc};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use mainstay_gateway::Gateway;
use mainstay_platform::blocking::off_the_runtime;
use prometheus_client::registry::Registry;

use self::{exposition::Exposition, format::Format};
use super::RestDoor;

pub async fn scrape(State(door): State<RestDoor>, headers: HeaderMap) -> Response {
    let format = Format::asked(&headers);
    // Reads /proc, a few files for each process, and writes some twenty lines for each tool.
    match off_the_runtime(move || write(door.gateway, format)).await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        // Nothing writes to a text in vain.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn write(gateway: Arc<Gateway>, format: Format) -> Result<String, fmt::Error> {
    let held = Held::now(&gateway.lineage.marks_of_all().entries());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { gateway, held }));
    format.write(&registry)
}

/// What processes hold, as far as the system tells.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Number and resident memory in bytes of servers' processes, by server.
    pub(super) servers: HashMap<String, (u64, u64)>,
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
    pub(super) fn now(marks: &[String]) -> Self {
        use mainstay_platform::{lineage, processes};

        let mut servers = HashMap::<String, (u64, u64)>::new();
        // A server may have many sessions, each with its tree.
        for (tag, tree) in processes::trees(marks, lineage::SERVER) {
            let server = servers
                .entry(lineage::server_of(&tag).to_owned())
                .or_default();
            server.0 += tree.processes;
            server.1 += tree.memory;
        }
        let own = processes::OwnUsage::now();
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
    pub(super) fn now(_marks: &[String]) -> Self {
        Self::default()
    }
}
