//! A hundred processes that start together, each with a handshake of 200 ms.

use std::path::Path;
use std::time::Duration;

use mainstay_bench::gateway::Gateway;
use serde::Serialize;
use serde_json::json;

use crate::ms;

const SERVERS: u32 = 100;
const HANDSHAKE: Duration = Duration::from_millis(200);

/// `startup.maxConcurrent`: by default as many as the load allows, which must not be slower than twice the
/// cores; and a number.
pub const LIMITS: [Option<u32>; 2] = [None, Some(25)];

#[derive(Debug, Serialize)]
pub struct Start {
    servers: u32,
    handshake_ms: u128,
    limit: u32,
    /// From the start of Mainstay until every server is up and its lists are read.
    took_ms: f64,
    /// 1.5 times what the limit makes it take.
    bar_ms: f64,
}

impl Start {
    pub fn missed(&self) -> Option<String> {
        let Self {
            servers,
            limit,
            took_ms,
            bar_ms,
            ..
        } = self;
        (took_ms > bar_ms).then(|| {
            format!("{servers} servers, {limit} at once, took {took_ms} ms to start; {bar_ms} ms are allowed")
        })
    }
}

pub async fn measure(mainstay: &Path, limit: Option<u32>) -> anyhow::Result<Start> {
    let delay = HANDSHAKE.as_millis().to_string();
    let entry = json!({"command": fake_server::binary(), "args": ["--handshake-delay", delay]});
    let servers = (0..SERVERS).map(|number| (format!("s{number}"), entry.clone()));
    let settings = limit.map(|limit| json!({"startup": {"maxConcurrent": limit}}));
    let gateway =
        Gateway::start(mainstay, servers.collect(), settings.unwrap_or(json!({}))).await?;
    let took = gateway.took;
    gateway.stop().await?;
    let cores = std::thread::available_parallelism()?.get();
    let limit = limit.unwrap_or(2 * u32::try_from(cores)?);
    Ok(Start {
        servers: SERVERS,
        handshake_ms: HANDSHAKE.as_millis(),
        limit,
        took_ms: ms(took),
        bar_ms: ms(HANDSHAKE * SERVERS.div_ceil(limit) * 3 / 2),
    })
}
