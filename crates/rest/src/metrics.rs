//! `GET /metrics`: counters and gauges in the format that the scraper accepts. A removed server has
//! no samples. docs/metrics.md describes each family.

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

use self::{exposition::Exposition, format::MetricsFormat};
use super::RestDoor;

pub async fn scrape(State(door): State<RestDoor>, headers: HeaderMap) -> Response {
    let format = MetricsFormat::from_headers(&headers);
    // Reads some files in /proc for each process, and writes about twenty lines for each tool.
    match off_the_runtime(move || write(door.gateway, format)).await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        // A write to a `String` does not fail.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn write(gateway: Arc<Gateway>, format: MetricsFormat) -> Result<String, fmt::Error> {
    let usage = ProcessUsage::now(&gateway.lineage.marks_of_all().entries());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { gateway, usage }));
    format.write(&registry)
}

/// The resources that processes use. Empty where the operating system does not report them.
#[derive(Debug, Default)]
pub(super) struct ProcessUsage {
    /// For each server, the number of its processes and their resident memory in bytes.
    pub(super) servers: HashMap<String, (u64, u64)>,
    own_usage: Option<OwnUsage>,
}

/// The resources that Mainstay itself uses.
#[derive(Debug)]
struct OwnUsage {
    memory: u64,
    open_files: u64,
    cpu_seconds: f64,
}

impl ProcessUsage {
    #[cfg(target_os = "linux")]
    pub(super) fn now(marks: &[String]) -> Self {
        use mainstay_platform::{lineage, processes};

        let mut servers = HashMap::<String, (u64, u64)>::new();
        // A server may have several sessions, each with a process tree. Add them up.
        for (tag, tree) in processes::trees(marks, lineage::SERVER) {
            let server = servers
                .entry(lineage::server_of(&tag).to_owned())
                .or_default();
            server.0 += tree.processes;
            server.1 += tree.memory;
        }
        let own_usage = processes::OwnUsage::now();
        Self {
            servers,
            own_usage: Some(OwnUsage {
                memory: own_usage.memory,
                open_files: own_usage.open_files,
                cpu_seconds: own_usage.cpu.as_secs_f64(),
            }),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn now(_marks: &[String]) -> Self {
        Self::default()
    }
}
