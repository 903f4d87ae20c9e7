//! Checks the servers: through the running daemon, or by starting each server once.

use std::time::Duration;

use mainstay_api::{Client, HealthStatus, NextAction, Server, ServerHealth};
use mainstay_command_line::{
    CommandError,
    host::{Host, Occasion},
    output,
    signals::Signals,
    trouble,
};
use mainstay_core::programs::BrokenCache;
use mainstay_platform::{environment::Loaded, lineage::Lineage};

use super::{credentials::Credentials, finding::DoctorFinding};

/// The maximum number of lines from each server's stderr.
const MAX_STDERR_LINES: usize = 5;

/// The time of a start after which many clients give up.
const SLOW: Duration = Duration::from_secs(10);

/// The servers and the findings about them.
#[derive(Debug, Default)]
pub struct ServerReport {
    pub servers: Vec<Server>,
    pub findings: Vec<DoctorFinding>,
}

/// Checks the servers through the daemon, which probes each of them.
pub async fn ask(
    client: &Client,
    credentials: &Credentials<'_>,
) -> Result<ServerReport, CommandError> {
    let health = client.health(None).await?;
    let servers = client.servers().await?.servers;
    let findings = servers.iter().map(|server| {
        let mut health = health.servers.iter();
        running_server(
            server,
            health.find(|health| health.name == server.name),
            credentials,
        )
    });
    Ok(ServerReport {
        findings: findings.collect(),
        servers,
    })
}

fn running_server(
    server: &Server,
    health: Option<&ServerHealth>,
    credentials: &Credentials<'_>,
) -> DoctorFinding {
    let name = &server.name;
    if let Some(finding) = turned_off(server) {
        return finding;
    }
    match health {
        Some(health) if server.connected && health.status == HealthStatus::Healthy => {
            let answers = health.ping_ms.map(|ping| format!(", answers in {ping} ms"));
            let summary = format!(
                "connected, {}{}: {}",
                handshake(server),
                answers.unwrap_or_default(),
                offer(server)
            );
            with_stderr(connected(server, summary).about(name), server)
        }
        Some(health) if server.connected => {
            let message = health.message.clone();
            let message = message.unwrap_or_else(|| "it does not answer".to_owned());
            let message = format!("connected, and not well: {message}");
            with_stderr(
                DoctorFinding::error("server.unwell", message).about(name),
                server,
            )
            .consequence("its calls may hang or fail")
            .mend(format!("mainstay restart {name}"))
        }
        _ => down(server, credentials),
    }
}

/// A finding about a connected server, with advice about its entry if there is any.
fn connected(server: &Server, message: String) -> DoctorFinding {
    match &server.advice {
        Some(advice) => DoctorFinding::note("server.advice", format!("{message}; {advice}"))
            .consequence("each start of Mainstay starts it twice until then")
            .mend(format!(
                "mainstay config edit  # the entry of {}",
                server.name
            )),
        None => DoctorFinding::ok("server.connected", message),
    }
}

/// A finding about a server that is down on purpose.
fn turned_off(server: &Server) -> Option<DoctorFinding> {
    let name = &server.name;
    let finding = if server.pending.is_some() {
        DoctorFinding::note("server.pending", "waits for your approval")
            .consequence(
                "an MCP client added it, and nothing of it runs before you have looked at it",
            )
            .mend(format!("mainstay approve {name}"))
    } else if !server.enabled {
        DoctorFinding::note("server.disabled", "is disabled")
            .consequence("clients do not get its tools")
            .mend(format!("mainstay enable {name}"))
    } else if !server.wanted && !server.connected {
        DoctorFinding::note("server.stopped", "is not started")
            .consequence("clients do not get its tools")
            .mend(format!("mainstay start {name}"))
    } else {
        return None;
    };
    Some(finding.about(name))
}

fn down(server: &Server, credentials: &Credentials<'_>) -> DoctorFinding {
    let name = &server.name;
    let reason = trouble::trouble(server).unwrap_or_else(|| server.status.clone());
    let finding =
        DoctorFinding::error("server.down", format!("{}: {reason}", server.status)).about(name);
    mended(
        finding,
        server,
        credentials,
        format!("mainstay logs {name}"),
    )
}

/// True if the server refuses the credentials of its entry.
fn is_refused(server: &Server) -> bool {
    server.next_action == Some(NextAction::SetCredentials)
}

/// Adds advice to a finding about a server that is down. If its stderr shows a broken package cache, the
/// advice is about the cache. If the server refuses its credentials, the advice is about them. Otherwise it
/// is `mend`.
fn mended(
    finding: DoctorFinding,
    server: &Server,
    credentials: &Credentials<'_>,
    mend: String,
) -> DoctorFinding {
    let finding = with_stderr(finding, server);
    if let Some(BrokenCache { folder, mend }) = BrokenCache::in_lines(&server.stderr) {
        return finding
            .consequence(format!("its package is broken in the cache {folder}"))
            .mend(format!("{mend}  # then mainstay start {}", server.name));
    }
    finding
        .consequence("clients do not get its tools")
        .mend(if is_refused(server) {
            credentials.mend(&server.name)
        } else {
            mend
        })
}

fn with_stderr(mut finding: DoctorFinding, server: &Server) -> DoctorFinding {
    let lines = &server.stderr;
    finding.stderr = lines[lines.len().saturating_sub(MAX_STDERR_LINES)..].to_vec();
    finding
}

/// The duration of the session's handshake, including the start of the process.
fn handshake_time(server: &Server) -> Duration {
    Duration::from_millis(server.handshake_ms.unwrap_or_default())
}

fn handshake(server: &Server) -> String {
    format!("handshake done in {}", output::span(handshake_time(server)))
}

/// `14 tools, 9 resources`
fn offer(server: &Server) -> String {
    let mut offers = vec![output::count(server.tool_count, "tool")];
    let others = [
        (server.resource_count, "resource"),
        (server.prompt_count, "prompt"),
    ];
    let present = others.iter().filter(|(count, _)| *count > 0);
    offers.extend(present.map(|(count, noun)| output::count(*count, noun)));
    offers.join(", ")
}

/// Starts each enabled server once in a daemon that stores nothing, and then stops it.
pub async fn start(
    host: &dyn Host,
    loaded: &Loaded,
    limit: Duration,
    credentials: &Credentials<'_>,
) -> Result<ServerReport, CommandError> {
    let mut config = loaded.config.clone();
    // Send no alerts and no telemetry from a check.
    config.alerts.clear();
    config.telemetry = None;
    for server in &mut config.servers {
        server.auto_start = true;
    }
    let lineage = Lineage::begin(loaded.path.as_deref())?;
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let occasion = host.try_out(&config, lineage)?;
    let outcome = tokio::select! {
        outcome = examined(&*occasion, limit, credentials) => outcome,
        signal = signals.next() => Err(CommandError::Interrupted {
            name: signal.name,
            exit: signal.exit_code(),
        }),
    };
    let stopped = occasion.stop(&mut signals).await;
    outcome.and_then(|report| stopped.map(|_| report))
}

/// Waits for each server until it is up or has failed.
async fn examined(
    occasion: &dyn Occasion,
    limit: Duration,
    credentials: &Credentials<'_>,
) -> Result<ServerReport, CommandError> {
    occasion.examined(limit).await;
    let servers = occasion.client().servers().await?.servers;
    let findings = servers
        .iter()
        .map(|server| started_server(server, limit, credentials));
    Ok(ServerReport {
        findings: findings.collect(),
        servers,
    })
}

fn started_server(
    server: &Server,
    limit: Duration,
    credentials: &Credentials<'_>,
) -> DoctorFinding {
    let name = &server.name;
    if let Some(finding) = turned_off(server) {
        return finding;
    }
    if server.connected {
        let message = format!("{}: {}", handshake(server), offer(server));
        let finding = if handshake_time(server) > SLOW {
            DoctorFinding::warning("server.slow", message)
                .consequence("clients that start it themselves may give it up")
                .mend("mainstay service install  # a daemon keeps it running")
        } else {
            connected(server, message)
        };
        return with_stderr(finding.about(name), server);
    }
    if server.last_error.is_none() && server.status == "connecting" {
        let message = format!("no handshake within {}", output::span(limit));
        return with_stderr(
            DoctorFinding::error("server.slow", message).about(name),
            server,
        )
        .consequence("clients do not get its tools")
        .mend("mainstay doctor --timeout 120  # then set `connectTimeoutMs` in its entry");
    }
    // Do not mention the daemon's logs or the next attempt: no daemon runs, and the server is stopped now.
    let reason = mainstay_core::trouble::explained(
        server.last_error.as_deref().unwrap_or(&server.status),
        &server.stderr,
        server.stdout.as_deref(),
    );
    let mend = format!("mainstay get {name}  # shows its entry; correct what the reason names");
    mended(
        DoctorFinding::error("server.down", reason).about(name),
        server,
        credentials,
        mend,
    )
}
