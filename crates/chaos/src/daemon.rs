//! The gateway's process as the run sees it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::timeout,
};

use crate::gateway::Stats;

/// It stops in order within this (issue: "Shutdown in order, within 10 s").
pub const STOP_LIMIT: Duration = Duration::from_secs(10);

const TOKEN: &str = "chaos";

/// An answer of REST takes no longer …
const REST_LIMIT: Duration = Duration::from_secs(2);

/// … but for what waits until a server is connected.
const RECONNECT_LIMIT: Duration = Duration::from_secs(10);

pub struct Daemon {
    pub http: SocketAddr,
    pub pipes: SocketAddr,
    child: Child,
    control: Mutex<Control>,
    rest: Client<HttpConnector, Full<Bytes>>,
}

struct Control {
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Daemon {
    pub async fn start(config: &Path, state: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["gateway", "--token", TOKEN, "--config"])
            .arg(config)
            .arg("--state")
            .arg(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let commands = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut answers = BufReader::new(stdout).lines();
        let line = answers.next_line().await?.context("it did not start")?;
        let addresses = line
            .strip_prefix("listening on ")
            .and_then(|line| line.split_once(' '));
        let (http, pipes) = addresses.context("no addresses")?;
        Ok(Self {
            http: http.parse()?,
            pipes: pipes.parse()?,
            child,
            control: Mutex::new(Control { commands, answers }),
            rest: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Lets its machine sleep.
    pub async fn jump(&self, time: Duration) -> anyhow::Result<()> {
        let command = format!("jump {}\n", time.as_millis());
        let mut control = self.control.lock().await;
        Ok(control.commands.write_all(command.as_bytes()).await?)
    }

    pub async fn stats(&self) -> anyhow::Result<Stats> {
        let mut control = self.control.lock().await;
        control.commands.write_all(b"stats\n").await?;
        let line = control.answers.next_line().await?.context("it has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// The state of every server, as REST says it.
    pub async fn states(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let asked = self.ask(Method::GET, mainstay::api::SERVERS);
        let all = timeout(REST_LIMIT, asked).await;
        let all: Value = all.context("REST does not answer")??;
        let servers = all["servers"].as_array().context("no servers")?;
        let named = |server: &Value| Some((server["name"].as_str()?.to_owned(), server.clone()));
        Ok(servers.iter().filter_map(named).collect())
    }

    /// Reconnects a server as its operator would, and waits until it is there again.
    pub async fn reconnect(&self, server: &str) -> anyhow::Result<()> {
        let path = format!("{}/{server}/reconnect", mainstay::api::SERVERS);
        let asked = timeout(RECONNECT_LIMIT, self.ask(Method::POST, &path));
        asked.await.context("REST does not reconnect it")??;
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.http))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .body(Full::default())?;
        let response = self.rest.request(request).await?;
        let status = response.status();
        anyhow::ensure!(status.is_success(), "REST answers {status}");
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    }

    /// Stops it in order; an error where it takes too long.
    pub async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        drop(self.control);
        let ended = timeout(STOP_LIMIT, self.child.wait()).await;
        Ok(ended.context("Mainstay did not stop in time")??)
    }
}
