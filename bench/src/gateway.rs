//! A `mainstay serve` in a home of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mainstay_api::{Client, Server};
use mainstay_core::config::Secret;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::http::Endpoint;

/// Longer than anything takes that is waited for here.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often the servers are looked at.
const GLANCE: Duration = Duration::from_millis(100);

pub struct Gateway {
    guardian: Child,
    pub client: Client,
    pub endpoint: Endpoint,
    /// From the start of the program until every server was up.
    pub took: Duration,
    /// Reads what it says, so that it is not held up.
    listening: JoinHandle<()>,
    _home: TempDir,
}

impl Gateway {
    /// Starts it in front of these servers, and waits until all are up.
    pub async fn start(
        program: &Path,
        servers: Map<String, Value>,
        mut config: Value,
    ) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let path = home.path().join("config.json");
        let ready = format!("ready: {0} of {0} server", servers.len());
        config["mcpServers"] = Value::Object(servers);
        // It is ready when the first attempts of all are over.
        config["startup"]["waitMs"] = json!(PATIENCE.as_millis());
        std::fs::write(&path, config.to_string())?;
        let began = Instant::now();
        let mut guardian = Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(&path)
            .env("HOME", home.path())
            .env("MAINSTAY_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut stdout = BufReader::new(guardian.stdout.take().context("a pipe")?).lines();
        let mut stderr = BufReader::new(guardian.stderr.take().context("a pipe")?).lines();
        let up = async {
            while let Some(line) = stderr.next_line().await? {
                if line.starts_with("ready: ") {
                    ensure!(line.starts_with(&ready), "{line}");
                    return Ok(began.elapsed());
                }
            }
            bail!("it ended before it was ready")
        };
        let took = timeout(PATIENCE, up).await.context("it is not ready")??;
        let first = stdout
            .next_line()
            .await?
            .context("it says where it listens")?;
        let started: Value = serde_json::from_str(&first)?;
        let url = started["url"].as_str().context("a URL")?;
        let token = std::fs::read_to_string(home.path().join("token"))?;
        Ok(Self {
            guardian,
            client: Client::new(url, Some(Secret::new(token)))?,
            endpoint: format!("{url}/mcp").parse()?,
            took,
            listening: tokio::spawn(
                async move { while let Ok(Some(_)) = stderr.next_line().await {} },
            ),
            _home: home,
        })
    }

    /// The process id of its guardian.
    pub fn pid(&self) -> Option<u32> {
        self.guardian.id()
    }

    pub async fn servers(&self) -> anyhow::Result<Vec<Server>> {
        Ok(self.client.servers().await?.servers)
    }

    /// Waits until all servers fit.
    pub async fn until(&self, what: &str, fits: impl Fn(&Server) -> bool) -> anyhow::Result<()> {
        let mut glance = tokio::time::interval(GLANCE);
        let all_fit = async {
            while !self.servers().await?.iter().all(&fits) {
                glance.tick().await;
            }
            Ok(())
        };
        let timely = timeout(PATIENCE, all_fit).await;
        timely.with_context(|| format!("waited in vain until {what}"))?
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.pid().and_then(|id| Pid::from_raw(id.cast_signed()));
        kill_process(pid.context("it has ended by itself")?, Signal::TERM)?;
        timeout(PATIENCE, self.guardian.wait()).await??;
        Ok(self.listening.await?)
    }
}
