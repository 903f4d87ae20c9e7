//! The servers: their processes, the gates in front of them, and their faults.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use fake_server::gate::{Gate, GateMode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::Mutex,
    time::sleep,
};

use crate::{
    caller::CallLine,
    daemon::MainstayProcess,
    peer::{PeerTarget, PlainPeer},
    plan::{self, Fault, Strike, Transport, UNCALLED},
    processes::{self, BACKEND, DIRECT, MARK, SERVED},
};

/// The policy of the servers: the default preset, ten times as fast.
pub const INITIAL_DELAY: Duration = Duration::from_millis(200);
pub const MAX_DELAY: Duration = Duration::from_secs(2);
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);
pub const HANG_AFTER: Duration = Duration::from_secs(4);
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Time after which a probe of the server without calls is pending: a probe interval with jitter and slack.
const PROBE_IS_OUT: Duration = Duration::from_millis(1500);

/// The probe timeout of the server without calls. It is long, so that a probe can outlive its session.
const UNCALLED_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time of the stop sequence. The server may ignore a closed stdin and SIGTERM.
const STOP_SEQUENCE: Duration = Duration::from_secs(6);

/// Time for start, handshake and lists on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// Time after which an idle connection is not used again (`transport/http1`).
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// Pause between two kills, about as long as a handshake.
const FLAP_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a flood.
const FLOOD: usize = 20_000_000;

pub struct FleetServer {
    pub name: String,
    pub transport: Transport,
    /// A line to the same fake, or to another fake with the same faults, to compare with calls through
    /// Mainstay.
    pub direct: Arc<CallLine>,
    /// The folder in which the fakes of this server log their runs.
    counts: PathBuf,
    run: String,
    network: Option<Network>,
}

/// A server that Mainstay does not start.
struct Network {
    gate: Gate,
    port: u16,
    backend: Mutex<Child>,
}

impl FleetServer {
    async fn start(
        number: usize,
        transport: Transport,
        run: &str,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let name = format!("s{number}");
        let counts = folder.join(format!("{name}.count"));
        let network = match transport {
            Transport::Stdio => None,
            _ => Some(Network::start(&name, transport, run, &counts).await?),
        };
        let target = match &network {
            None => PeerTarget::Process {
                program: fake_server::binary(),
                args: args(&counts),
                env: BTreeMap::from([mark(run, &name, DIRECT)]),
            },
            Some(network) => network.target(transport),
        };
        Ok(Self {
            name,
            transport,
            direct: Arc::new(CallLine::new(target)),
            counts,
            run: run.to_owned(),
            network,
        })
    }

    /// The server's entry in the configuration.
    fn entry(&self) -> Value {
        let mut entry = match &self.direct.target {
            PeerTarget::Http(url) => json!({"type": "http", "url": url}),
            PeerTarget::Sse(url) => json!({"type": "sse", "url": url}),
            PeerTarget::Process { program, .. } => {
                let mut args = args(&self.counts);
                args.push("--spawn-grandchild".to_owned());
                let env = BTreeMap::from([mark(&self.run, &self.name, SERVED)]);
                json!({"command": program, "args": args, "env": env})
            }
        };
        entry["timeout"] = json!(CALL_TIMEOUT.as_millis() as u64);
        entry
    }

    /// Performs the fault, and returns when it has ended. `served` reaches the server through `mainstay`.
    pub async fn strike(
        &self,
        strike: &Strike,
        served: &CallLine,
        mainstay: &MainstayProcess,
    ) -> anyhow::Result<()> {
        let last = || sleep(strike.lasts);
        match (strike.fault, &self.network) {
            (Fault::Kill, None) => processes::signal(&self.run, &self.name, Signal::KILL),
            (Fault::Kill, Some(network)) => {
                network.kill().await?;
                last().await;
                network.restart(self).await?;
            }
            (Fault::Flap, _) => {
                let started_at = Instant::now();
                while started_at.elapsed() < strike.lasts {
                    processes::signal(&self.run, &self.name, Signal::KILL);
                    sleep(FLAP_PAUSE).await;
                }
            }
            (Fault::Rewrite, _) => mainstay.rewrite(&self.name).await?,
            (Fault::Stop, _) => {
                processes::signal(&self.run, &self.name, Signal::STOP);
                last().await;
                processes::signal(&self.run, &self.name, Signal::CONT);
            }
            (Fault::CrashInCall, None) => self.both(served, "crash", &json!({})).await,
            (Fault::CrashInCall, Some(network)) => {
                self.through(served, "crash", &json!({})).await;
                last().await;
                network.restart(self).await?;
            }
            (Fault::Hang, None) => self.both(served, "hang_server", &json!({})).await,
            (Fault::Hang, Some(network)) => {
                self.through(served, "hang_server", &json!({})).await;
                last().await;
                network.kill().await?;
                network.restart(self).await?;
            }
            (Fault::FloodOut, _) => {
                let flood = json!({"to": "stdout", "bytes": FLOOD});
                self.both(served, "flood", &flood).await;
            }
            (Fault::FloodErr, _) => {
                let flood = json!({"to": "stderr", "bytes": FLOOD});
                self.both(served, "flood", &flood).await;
            }
            (Fault::BreakOff, None) => self.both(served, "break_off", &json!({})).await,
            (Fault::BreakOff, Some(_)) => self.through(served, "break_off", &json!({})).await,
            (Fault::Close, Some(network)) => {
                network.gate.set(GateMode::Closed).await?;
                network.gate.reset();
                last().await;
                network.gate.set(GateMode::Forward).await?;
            }
            (Fault::Reset, Some(network)) => network.gate.reset(),
            (Fault::Silence, Some(network)) => {
                network.gate.set(GateMode::Silent).await?;
                last().await;
                network.gate.set(GateMode::Forward).await?;
            }
            (Fault::Strand, Some(network)) => {
                network.gate.strand();
                self.direct.hang_up().await;
                sleep(IDLE_LIMIT).await;
            }
            (Fault::Forget, Some(_)) => self.by_hand("forget_sessions", &json!({})).await?,
            (Fault::Unavailable, Some(_)) => {
                let ms = strike.lasts.as_millis() as u64;
                let unavailable = json!({"ms": ms, "retryAfter": "1"});
                self.by_hand("unavailable", &unavailable).await?;
                last().await;
            }
            (Fault::DropStreams, Some(_)) => self.by_hand("drop_streams", &json!({})).await?,
            (Fault::Overtake, Some(network)) => {
                // After this time only the connection of the probes is open, so that the end of the session
                // opens a new connection.
                sleep(IDLE_LIMIT).await;
                network.gate.strand();
                sleep(PROBE_IS_OUT).await;
                mainstay.reconnect(&self.name).await?;
            }
            (fault, None) => unreachable!("{fault:?} is none of a process"),
        }
        Ok(())
    }

    /// The key of a call for each time that the server ran it.
    pub fn runs(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.counts).unwrap_or_default();
        let key = |line: &str| line.split(' ').nth(2)?.strip_prefix('k')?.parse().ok();
        text.lines().filter_map(key).collect()
    }

    /// Maximum time from the end of a fault to the recovery of the server: the delays of its policy, plus
    /// the time of the steps themselves.
    pub fn bound(&self, fault: Fault) -> Duration {
        let retry = MAX_DELAY.mul_f64(1.1) + SLACK;
        match fault {
            // No connection is lost, but answers may be slow.
            Fault::FloodOut | Fault::FloodErr | Fault::Stop => SLACK + CALL_TIMEOUT,
            // Mainstay notices these at once.
            Fault::Flap
            | Fault::Rewrite
            | Fault::CrashInCall
            | Fault::BreakOff
            | Fault::Reset
            | Fault::Forget
            | Fault::DropStreams
            | Fault::Overtake => retry,
            Fault::Kill if self.network.is_none() => retry,
            // An attempt may wait for an answer that was lost in the fault.
            Fault::Kill | Fault::Close | Fault::Silence | Fault::Unavailable => {
                retry + CONNECT_TIMEOUT
            }
            Fault::Hang if self.network.is_some() => retry + CONNECT_TIMEOUT,
            // Mainstay notices these only by missing answers.
            Fault::Hang | Fault::Strand => {
                HANG_AFTER
                    + CALL_TIMEOUT
                    + HEALTH_INTERVAL.mul_f64(1.1)
                    + HEALTH_TIMEOUT * 2
                    + STOP_SEQUENCE
                    + retry
            }
        }
    }

    /// Calls through Mainstay as a client. The call and its failure are part of the fault.
    async fn through(&self, served: &CallLine, tool: &str, arguments: &Value) {
        let tool = format!("{}__{tool}", self.name);
        drop(served.call(&tool, arguments, CALL_TIMEOUT * 2).await);
    }

    /// Calls a tool in Mainstay's process and in the process for direct calls, so that both have the fault.
    async fn both(&self, served: &CallLine, tool: &str, arguments: &Value) {
        let direct = self.direct.call(tool, arguments, CALL_TIMEOUT * 2);
        let ((), outcome) = tokio::join!(self.through(served, tool, arguments), direct);
        drop(outcome);
    }

    /// Requests a fault on a separate connection.
    async fn by_hand(&self, tool: &str, arguments: &Value) -> anyhow::Result<()> {
        let peer = tokio::time::timeout(SLACK, PlainPeer::open(&self.direct.target)).await??;
        // The fault may break this connection.
        drop(tokio::time::timeout(SLACK, peer.call(tool, arguments)).await);
        Ok(())
    }
}

impl Network {
    async fn start(
        name: &str,
        transport: Transport,
        run: &str,
        counts: &Path,
    ) -> anyhow::Result<Self> {
        let (backend, address) = spawn(name, transport, run, counts, 0).await?;
        Ok(Self {
            gate: Gate::open(address)?,
            port: address.port(),
            backend: Mutex::new(backend),
        })
    }

    fn target(&self, transport: Transport) -> PeerTarget {
        let origin = format!("http://{}", self.gate.address());
        match transport {
            Transport::Sse => PeerTarget::Sse(format!("{origin}/sse")),
            _ => PeerTarget::Http(format!("{origin}/mcp")),
        }
    }

    async fn kill(&self) -> anyhow::Result<()> {
        Ok(self.backend.lock().await.kill().await?)
    }

    async fn restart(&self, server: &FleetServer) -> anyhow::Result<()> {
        let mut backend = self.backend.lock().await;
        // The process may already be ending.
        backend.kill().await?;
        let started = spawn(
            &server.name,
            server.transport,
            &server.run,
            &server.counts,
            self.port,
        );
        *backend = started.await?.0;
        Ok(())
    }
}

async fn spawn(
    name: &str,
    transport: Transport,
    run: &str,
    counts: &Path,
    port: u16,
) -> anyhow::Result<(Child, SocketAddr)> {
    let word = if transport == Transport::Sse {
        "sse"
    } else {
        "http"
    };
    let mut child = Command::new(fake_server::binary())
        .args([word, "--until-stdin-ends", "--port", &port.to_string()])
        .args(args(counts))
        .envs([mark(run, name, BACKEND)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("no stdout")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let address = line
        .as_deref()
        .and_then(|line| line.strip_prefix("listening on "));
    let address = address.context("a server did not start")?.parse()?;
    Ok((child, address))
}

fn args(counts: &Path) -> Vec<String> {
    vec!["--count-file".to_owned(), counts.display().to_string()]
}

fn mark(run: &str, name: &str, role: &str) -> (String, String) {
    (MARK.to_owned(), format!("{run}/{name}/{role}"))
}

/// Starts the servers that Mainstay does not start.
pub async fn start(run: &str, folder: &Path) -> anyhow::Result<Vec<FleetServer>> {
    let mut servers = Vec::new();
    for (number, transport) in plan::fleet().enumerate() {
        servers.push(FleetServer::start(number, transport, run, folder).await?);
    }
    Ok(servers)
}

/// The configuration with these servers.
pub fn configuration(servers: &[FleetServer]) -> Value {
    let ms = |time: Duration| time.as_millis() as u64;
    let entry = |(number, server): (usize, &FleetServer)| {
        let mut entry = server.entry();
        if number == UNCALLED {
            // A single failed probe ends the session, so that the run notices a probe report that must not
            // count.
            entry["health"] =
                json!({"timeoutMs": ms(UNCALLED_TIMEOUT), "threshold": 1, "action": "reconnect"});
        }
        (server.name.clone(), entry)
    };
    let entries: serde_json::Map<_, _> = servers.iter().enumerate().map(entry).collect();
    json!({
        "mcpServers": entries,
        "reconnect": {"initialDelayMs": ms(INITIAL_DELAY), "maxDelayMs": ms(MAX_DELAY)},
        // No limit, because a run has more crashes than the limit allows. Other tests check the limit.
        "restart": {"maxAttempts": 0},
        "health": {
            "intervalMs": ms(HEALTH_INTERVAL),
            "timeoutMs": ms(HEALTH_TIMEOUT),
            "hangAfterMs": ms(HANG_AFTER),
        },
        "connectTimeoutMs": ms(CONNECT_TIMEOUT),
    })
}
