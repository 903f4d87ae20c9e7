//! The `mainstay serve` under test, from outside: its processes, its configuration and its REST API.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{processes, usage::Usage};

/// Time limit of an orderly stop.
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Time limit of a REST request.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// Time limit of a REST request that waits for a server, or reads a page of records.
const LONG_REST_LIMIT: Duration = Duration::from_secs(10);

/// Time in which a changed file takes effect, including the stop of a process.
const RELOAD_LIMIT: Duration = Duration::from_secs(20);

/// Pause between two polls of the servers' states.
const GLANCE: Duration = Duration::from_millis(50);

/// Number of records in a page: the maximum of REST.
const PAGE: usize = 1000;

pub struct MainstayProcess {
    pub url: String,
    guardian: Child,
    pid: u32,
    token: String,
    configuration: Configuration,
    rest: Client<HttpConnector, Full<Bytes>>,
}

/// The configuration file and its content.
struct Configuration {
    path: PathBuf,
    // The lock is held for a change and its write, so that no change is lost.
    now: Mutex<Value>,
}

/// The output of `serve --json`.
#[derive(Deserialize)]
struct Started {
    url: String,
    pid: u32,
}

/// A call in the journal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub id: String,
    pub door: String,
    pub server: Option<String>,
    pub state: String,
    pub status: String,
    #[serde(default)]
    pub arguments: Value,
}

#[derive(Deserialize)]
struct Page {
    calls: Vec<Record>,
    next: Option<String>,
}

impl MainstayProcess {
    /// Starts the program with a state directory and a configuration below `folder`.
    pub async fn start(
        program: &Path,
        configuration: Value,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let configuration = Configuration::write(configuration, &folder.join("config"))?;
        let state = folder.join("state");
        let mut command = Command::new(program);
        let ours =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTAY_"));
        for (name, _) in ours {
            command.env_remove(name);
        }
        let mut guardian = command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(&configuration.path)
            .env("HOME", folder)
            .env("MAINSTAY_HOME", &state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.join("stderr"))?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = guardian.stdout.take().context("no stdout")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let stderr = || fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        let line = line.with_context(|| format!("mainstay did not start: {}", stderr()))?;
        let Started { url, pid } = serde_json::from_str(&line)?;
        anyhow::ensure!(guardian.id() != Some(pid), "it has no guardian");
        Ok(Self {
            url,
            guardian,
            pid,
            token: fs::read_to_string(state.join("token"))?,
            configuration,
            rest: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// The resources of guardian and daemon.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let guardian = self.guardian.id().context("mainstay has ended")?;
        Ok(Usage::of_process(guardian)?.plus(Usage::of_process(self.pid)?))
    }

    /// The state of every server from REST.
    pub async fn states(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let all = self.ask(Method::GET, "/api/servers", REST_LIMIT).await?;
        let servers = all["servers"].as_array().context("no servers")?;
        let named = |server: &Value| Some((server["name"].as_str()?.to_owned(), server.clone()));
        Ok(servers.iter().filter_map(named).collect())
    }

    /// Reconnects a server as its operator would, and waits until it is connected.
    pub async fn reconnect(&self, server: &str) -> anyhow::Result<()> {
        let path = format!("/api/servers/{server}/reconnect");
        self.ask(Method::POST, &path, LONG_REST_LIMIT).await?;
        Ok(())
    }

    /// Changes a server's entry in the file, and waits until it has a new session.
    pub async fn rewrite(&self, server: &str) -> anyhow::Result<()> {
        let session = async || {
            let states = self.states().await.ok()?;
            Some(states.get(server)?["connectedAt"].as_str()?.to_owned())
        };
        let before = session().await;
        self.configuration.change(server)?;
        let started_at = Instant::now();
        loop {
            let now = session().await;
            if now.is_some() && now != before {
                return Ok(());
            }
            anyhow::ensure!(started_at.elapsed() < RELOAD_LIMIT, "it is not reloaded");
            sleep(GLANCE).await;
        }
    }

    /// All records of a tool, newest first.
    pub async fn records(&self, tool: &str) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut before = String::new();
        loop {
            let path = format!("/api/call-records?tool={tool}&limit={PAGE}{before}");
            let page = self.ask(Method::GET, &path, LONG_REST_LIMIT).await?;
            let Page { calls, next } = serde_json::from_value(page)?;
            records.extend(calls);
            match next {
                Some(id) => before = format!("&before={id}"),
                None => return Ok(records),
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, limit: Duration) -> anyhow::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::default())?;
        let answer = async {
            let response = self.rest.request(request).await?;
            let status = response.status();
            anyhow::ensure!(status.is_success(), "REST answers {status} to {path}");
            let body = response.into_body().collect().await?.to_bytes();
            Ok(serde_json::from_slice(&body)?)
        };
        let answered = timeout(limit, answer).await;
        answered.with_context(|| format!("REST does not answer {path}"))?
    }

    /// Stops the daemon in order. Returns an error if that takes too long.
    pub async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        processes::send(
            self.guardian.id().context("mainstay has ended")?,
            Signal::TERM,
        );
        let ended = timeout(STOP_LIMIT, self.guardian.wait()).await;
        Ok(ended.context("Mainstay did not stop in time")??)
    }
}

impl Configuration {
    /// Writes the file to a folder of its own, because the folder is watched.
    fn write(now: Value, folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir(folder)?;
        let path = folder.join("config.json");
        fs::write(&path, now.to_string())?;
        let now = Mutex::new(now);
        Ok(Self { path, now })
    }

    /// Increments a variable of a process, or a header of requests.
    fn change(&self, server: &str) -> anyhow::Result<()> {
        let mut now = self.now.lock();
        let entry = &mut now["mcpServers"][server];
        let place = if entry["command"].is_null() {
            &mut entry["headers"]["x-edition"]
        } else {
            &mut entry["env"]["EDITION"]
        };
        let edition = place
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        *place = json!((edition + 1).to_string());
        // Replaces the file atomically, as editors do.
        let new = self.path.with_extension("new");
        fs::write(&new, now.to_string())?;
        Ok(fs::rename(&new, &self.path)?)
    }
}
