//! The servers themselves: asked through the daemon that runs, or started once.

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

use super::{credentials::Credentials, finding::Finding};

/// Lines of stderr that are shown of each server.
const STDERR: usize = 5;

/// Many clients give a server up that takes longer to start.
const SLOW: Duration = Duration::from_secs(10);

/// The servers as they are, and what is found of them.
#[derive(Debug, Default)]
pub struct Asked {
    pub servers: Vec<Server>,
    pub findings: Vec<Finding>,
}

/// Asks the daemon, which asks each server.
pub async fn ask(client: &Client, credentials: &Credentials<'_>) -> Result<Asked, CommandError> {
    let health = client.health(None).await?;
    let servers = client.servers().await?.servers;
    let findings = servers.iter().map(|server| {
        let mut health = health.servers.iter();
        of_running(
            server,
            health.find(|it| it.name == server.name),
            credentials,
        )
    });
    Ok(Asked {
        findings: findings.collect(),
        servers,
    })
}

fn of_running(
    server: &Server,
    health: Option<&ServerHealth>,
    credentials: &Credentials<'_>,
) -> Finding {
    let name = &server.name;
    if let Some(finding) = unwanted(server) {
        return finding;
    }
    match health {
        Some(health) if server.connected && health.status == HealthStatus::Healthy => {
            let answers = health.ping_ms.map(|ping| format!(", answers in {ping} ms"));
            let what = format!(
                "connected, {}{}: {}",
                handshake(server),
                answers.unwrap_or_default(),
                offer(server)
            );
            with_stderr(connected(server, what).of(name), server)
        }
        Some(health) if server.connected => {
            let message = health.message.clone();
            let message = message.unwrap_or_else(|| "it does not answer".to_owned());
            let what = format!("connected, and not well: {message}");
            with_stderr(Finding::error("server.unwell", what).of(name), server)
                .why("its calls may hang or fail")
                .mend(format!("mainstay restart {name}"))
        }
        _ => down(server, credentials),
    }
}

/// A server that is well, with what to set in its entry nevertheless.
fn connected(server: &Server, what: String) -> Finding {
    match &server.advice {
        Some(advice) => Finding::note("server.advice", format!("{what}; {advice}"))
            .why("each start of Mainstay starts it twice until then")
            .mend(format!(
                "mainstay config edit  # the entry of {}",
                server.name
            )),
        None => Finding::ok("server.connected", what),
    }
}

/// Servers that are down because somebody wants it so.
fn unwanted(server: &Server) -> Option<Finding> {
    let name = &server.name;
    let finding = if server.pending.is_some() {
        Finding::note("server.pending", "waits for your approval")
            .why("an MCP client added it, and nothing of it runs before you have looked at it")
            .mend(format!("mainstay approve {name}"))
    } else if !server.enabled {
        Finding::note("server.disabled", "is disabled")
            .why("clients do not get its tools")
            .mend(format!("mainstay enable {name}"))
    } else if !server.wanted && !server.connected {
        Finding::note("server.stopped", "is not started")
            .why("clients do not get its tools")
            .mend(format!("mainstay start {name}"))
    } else {
        return None;
    };
    Some(finding.of(name))
}

fn down(server: &Server, credentials: &Credentials<'_>) -> Finding {
    let name = &server.name;
    let what = trouble::trouble(server).unwrap_or_else(|| server.status.clone());
    let finding = Finding::error("server.down", format!("{}: {what}", server.status)).of(name);
    mended(
        finding,
        server,
        credentials,
        format!("mainstay logs {name}"),
    )
}

/// Whether the server accepts no credentials of its entry.
fn is_refused(server: &Server) -> bool {
    server.next_action == Some(NextAction::SetCredentials)
}

/// A server that is down, with what mends it: its cache of packages where its stderr shows that it is broken, its
/// credentials where they are refused, else `mend`.
fn mended(
    finding: Finding,
    server: &Server,
    credentials: &Credentials<'_>,
    mend: String,
) -> Finding {
    let finding = with_stderr(finding, server);
    if let Some(BrokenCache { folder, mend }) = BrokenCache::in_lines(&server.stderr) {
        return finding
            .why(format!("its package is broken in the cache {folder}"))
            .mend(format!("{mend}  # then mainstay start {}", server.name));
    }
    finding
        .why("clients do not get its tools")
        .mend(if is_refused(server) {
            credentials.mend(&server.name)
        } else {
            mend
        })
}

fn with_stderr(mut finding: Finding, server: &Server) -> Finding {
    let lines = &server.stderr;
    finding.stderr = lines[lines.len().saturating_sub(STDERR)..].to_vec();
    finding
}

/// How long the handshake of its session took, with the start of its process.
fn took(server: &Server) -> Duration {
    Duration::from_millis(server.handshake_ms.unwrap_or_default())
}

fn handshake(server: &Server) -> String {
    format!("handshake done in {}", output::span(took(server)))
}

/// `14 tools, 9 resources`
fn offer(server: &Server) -> String {
    let mut offers = vec![output::count(server.tool_count, "tool")];
    let others = [
        (server.resource_count, "resource"),
        (server.prompt_count, "prompt"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    offers.extend(others.map(|(count, what)| output::count(*count, what)));
    offers.join(", ")
}

/// Starts each enabled server once, beside nothing that is kept, and stops it again.
pub async fn start(
    host: &dyn Host,
    loaded: &Loaded,
    limit: Duration,
    credentials: &Credentials<'_>,
) -> Result<Asked, CommandError> {
    let mut config = loaded.config.clone();
    // This is an examination: nobody is to be told, and nothing is to be sent.
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
    outcome.and_then(|asked| stopped.map(|_| asked))
}

/// Waits for each server until it is up, or is known not to be.
async fn examined(
    occasion: &dyn Occasion,
    limit: Duration,
    credentials: &Credentials<'_>,
) -> Result<Asked, CommandError> {
    occasion.examined(limit).await;
    let servers = occasion.client().servers().await?.servers;
    let findings = servers
        .iter()
        .map(|server| of_started(server, limit, credentials));
    Ok(Asked {
        findings: findings.collect(),
        servers,
    })
}

fn of_started(server: &Server, limit: Duration, credentials: &Credentials<'_>) -> Finding {
    let name = &server.name;
    if let Some(finding) = unwanted(server) {
        return finding;
    }
    if server.connected {
        let what = format!("{}: {}", handshake(server), offer(server));
        let finding = if took(server) > SLOW {
            Finding::warning("server.slow", what)
                .why("clients that start it themselves may give it up")
                .mend("mainstay service install  # a daemon keeps it running")
        } else {
            connected(server, what)
        };
        return with_stderr(finding.of(name), server);
    }
    if server.last_error.is_none() && server.status == "connecting" {
        let what = format!("no handshake within {}", output::span(limit));
        return with_stderr(Finding::error("server.slow", what).of(name), server)
            .why("clients do not get its tools")
            .mend("mainstay doctor --timeout 120  # then set `connectTimeoutMs` in its entry");
    }
    // There is no daemon whose logs could be read, and what it does next is of no interest.
    let reason = mainstay_core::trouble::explained(
        server.last_error.as_deref().unwrap_or(&server.status),
        &server.stderr,
        server.stdout.as_deref(),
    );
    let mend = format!("mainstay get {name}  # shows its entry; correct what the reason names");
    mended(
        Finding::error("server.down", reason).of(name),
        server,
        credentials,
        mend,
    )
}
