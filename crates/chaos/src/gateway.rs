//! The gateway's process: a Mainstay with its doors, and commands on its stdin.
//!
//! The first line on stdout is `listening on HTTP-ADDRESS STDIO-ADDRESS`; each connection to the latter
//! is a client on stdio. Then `jump MS` lets the machine sleep, and `stats` answers a line of JSON. It
//! stops in order when stdin ends.
#![expect(clippy::print_stdout, reason = "stdout is how it answers")]

use std::{io, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use mainstay::{clock::SleepClock, daemon::Daemon, setting::Setting, surroundings};
use mainstay_core::config::Secret;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    task::JoinSet,
};

/// `chaos gateway`
#[derive(Debug, clap::Args)]
pub struct Gateway {
    #[arg(long)]
    config: PathBuf,
    /// The state directory
    #[arg(long)]
    state: PathBuf,
    /// What REST asks for
    #[arg(long)]
    token: String,
}

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub tasks: usize,
    pub threads: usize,
    pub descriptors: usize,
    pub resident_kib: usize,
}

impl Gateway {
    pub async fn run(self) -> anyhow::Result<()> {
        let config = surroundings::load(Some(&self.config))?.config;
        let clock = SleepClock::manual();
        let setting = Setting {
            catalogs: Some(self.state.join("catalogs")),
            state: Some(self.state),
            clock: clock.clone(),
            ..Setting::default()
        };
        let daemon = Arc::new(Daemon::start(&config, setting));
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = http.local_addr()?;
        let pipes = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("listening on {address} {}", pipes.local_addr()?);
        let door = daemon.serve_http(http, address, Secret::new(self.token));

        let mut clients = JoinSet::new();
        let mut commands = BufReader::new(tokio::io::stdin()).lines();
        loop {
            tokio::select! {
                accepted = pipes.accept() => {
                    let (stream, _) = accepted?;
                    // A pipe does not wait for acknowledgements.
                    stream.set_nodelay(true)?;
                    let daemon = Arc::clone(&daemon);
                    clients.spawn(async move {
                        let (input, output) = stream.into_split();
                        let profile = daemon.hub.registry.default_profile();
                        daemon.serve_stdio(profile, input, output).await;
                    });
                }
                Some(_) = clients.join_next() => {}
                command = commands.next_line() => match command? {
                    Some(command) => obey(&command, &clock)?,
                    None => break,
                },
            }
        }
        daemon.stopping().cancel();
        while clients.join_next().await.is_some() {}
        let daemon = Arc::try_unwrap(daemon)
            .ok()
            .context("a client is still there")?;
        daemon.stop(Some(door)).await;
        Ok(())
    }
}

fn obey(command: &str, clock: &SleepClock) -> anyhow::Result<()> {
    match command.split_once(' ') {
        Some(("jump", ms)) => clock.sleep(Duration::from_millis(ms.parse()?)),
        None if command == "stats" => println!("{}", serde_json::to_string(&Stats::now()?)?),
        _ => anyhow::bail!("unknown command: {command}"),
    }
    Ok(())
}

impl Stats {
    fn now() -> io::Result<Self> {
        let count = |path| Ok::<_, io::Error>(std::fs::read_dir(path)?.count());
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Ok(Self {
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            threads: count("/proc/self/task")?,
            // The directory itself is open meanwhile.
            descriptors: count("/proc/self/fd")? - 1,
            resident_kib: resident.unwrap_or_default(),
        })
    }

    /// The least of both, figure by figure: what is in flight at a moment is no leak.
    pub fn least(self, other: Self) -> Self {
        Self {
            tasks: self.tasks.min(other.tasks),
            threads: self.threads.min(other.threads),
            descriptors: self.descriptors.min(other.descriptors),
            resident_kib: self.resident_kib.min(other.resident_kib),
        }
    }
}
