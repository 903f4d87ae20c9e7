//! Starts a server once, in this process, before it is saved: whether it can be started, and its tools.

use std::time::Duration;

use mainstay_core::{
    catalog::ListKind,
    config::{Config, Launch, ServerConfig},
    lifecycle::State,
    trouble,
};
use mainstay_gateway::{Gateway, GatewayOptions, supervisor::Server};
use mainstay_platform::lineage::Lineage;
use tokio::time::{Instant, sleep, timeout};

use super::super::{CommandError, output, screen::complain, signals::Signals};

/// A start that takes longer is told of; again when it has taken twice as long, and so on.
const SLOW_START: Duration = Duration::from_secs(2);

/// What reading the lists may take beyond the start.
const LISTS: Duration = Duration::from_secs(40);

/// Tools that are named.
const SHOWN_TOOLS: usize = 30;

/// Lines of stderr that are shown beside a failure.
const SHOWN_STDERR: usize = 10;

/// Starts the server of this entry, lists its tools, and ends it with everything that it started.
pub async fn run(
    server: ServerConfig,
    lineage: Lineage,
    signals: &mut Signals,
) -> Result<Vec<String>, CommandError> {
    let limit = server.longest_start() + LISTS;
    // Whether it is to be up later does not matter now.
    let server = ServerConfig {
        enabled: true,
        auto_start: true,
        ..server
    };
    let config = Config {
        servers: vec![server],
        // Otherwise a first start, which downloads, would not be waited for.
        startup_wait: limit,
        ..Config::default()
    };
    let gateway = Gateway::start(
        &config,
        GatewayOptions {
            lineage,
            ..GatewayOptions::default()
        },
    );
    let outcome = match gateway.registry.servers().first() {
        Some(server) => {
            let settled = async {
                tokio::select! {
                    () = gateway.registry.settled() => {}
                    () = tell_progress(server) => {}
                }
            };
            tokio::select! {
                _ = timeout(limit, settled) => outcome(server),
                signal = signals.next() => Err(CommandError::Interrupted {
                    name: signal.name,
                    exit: signal.exit_code(),
                }),
            }
        }
        None => Ok(Vec::new()),
    };
    gateway.stop().await;
    outcome
}

/// Says on stderr what a slow start does, with the last line of the server's stderr. Never returns.
async fn tell_progress(server: &Server) {
    let begun = Instant::now();
    let mut patience = SLOW_START;
    loop {
        sleep(patience).await;
        let words = server.start_words();
        let words = words.unwrap_or_else(|| "an attempt is under way".to_owned());
        let took = output::span(begun.elapsed());
        complain(&format!("  {} ({took})", output::one_line(&words)));
        patience *= 2;
    }
}

/// The names of its tools, or why it is not up.
fn outcome(server: &Server) -> Result<Vec<String>, CommandError> {
    let view = server.view();
    let status = &view.status;
    if status.state == State::Connected && view.is_ready(status.epoch) {
        let withheld = &server.config().withheld;
        let tools = view.catalog.iter().flat_map(|catalog| {
            let tools = catalog.shown(ListKind::Tools, withheld);
            tools.map(|tool| tool.key.to_string()).collect::<Vec<_>>()
        });
        return Ok(tools.collect());
    }
    let stderr = server.log.tail.texts();
    let stray = server.log.last_stray_line();
    let reason = match (&status.reason, view.list_note()) {
        (Some(reason), _) => trouble::explained(reason, &stderr, stray.as_deref()),
        (None, Some(note)) => note,
        (None, None) => "it was not up in time".to_owned(),
    };
    let is_command = matches!(server.config().launch, Launch::Stdio(_));
    Err(CommandError::NotStarted {
        server: server.name.to_string(),
        reason,
        stderr: stderr[stderr.len().saturating_sub(SHOWN_STDERR)..].to_vec(),
        hint: if is_command {
            "with --no-check it is saved without being started"
        } else {
            "with --no-check it is saved without being asked"
        },
    })
}

/// `3 tools: echo, add, weird`
pub fn told(tools: &[String]) -> String {
    let count = output::count(tools.len(), "tool");
    if tools.is_empty() {
        return count;
    }
    let names: Vec<_> = tools
        .iter()
        .take(SHOWN_TOOLS)
        .map(|it| output::one_line(it))
        .collect();
    let more = match tools.len().saturating_sub(SHOWN_TOOLS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{count}: {}{more}", names.join(", "))
}
