//! Starts a server once in this process before it is saved, to check that it starts and to list its tools.

use std::time::Duration;

use mainstay_command_line::{CommandError, output, screen::complain, signals::Signals};
use mainstay_core::{
    catalog::ListKind,
    config::{Launch, ServerConfig},
};
use mainstay_gateway::{
    supervisor::ServerHandle,
    trial::{Trial, Tried},
};
use mainstay_platform::lineage::Lineage;
use mainstay_transport::asks_for_login;
use tokio::time::{Instant, sleep};

/// The delay before the first report of a slow start. Each later report waits twice as long as the one
/// before.
const SLOW_START: Duration = Duration::from_secs(2);

/// The maximum number of tools that a line names.
const MAX_TOOLS: usize = 30;

/// The result of a trial.
pub enum TrialResult {
    /// The names of the server's tools.
    Tools(Vec<String>),
    /// The server has to be added before a person can log in to it.
    NeedsLogin,
}

/// Starts the server of this entry, lists its tools, and stops it with all its processes.
pub async fn run(
    server: ServerConfig,
    lineage: Lineage,
    signals: &mut Signals,
) -> Result<TrialResult, CommandError> {
    let trial = Trial::begin(server, lineage);
    let settled = async {
        tokio::select! {
            () = trial.settled() => {}
            () = report_progress(trial.server()) => {}
        }
    };
    let outcome = tokio::select! {
        () = settled => outcome(&trial),
        signal = signals.next() => Err(CommandError::Interrupted {
            name: signal.name,
            exit: signal.exit_code(),
        }),
    };
    trial.end().await;
    outcome
}

/// Reports the progress of a slow start on stderr, with the last line of the server's stderr. Never returns.
async fn report_progress(server: &ServerHandle) {
    let started_at = Instant::now();
    let mut patience = SLOW_START;
    loop {
        sleep(patience).await;
        let words = server.start_words();
        let words = words.unwrap_or_else(|| "an attempt is under way".to_owned());
        let elapsed = output::span(started_at.elapsed());
        complain(&format!("  {} ({elapsed})", output::one_line(&words)));
        patience *= 2;
    }
}

/// The result of a trial that has ended, or an error with the reason of the failure.
fn outcome(trial: &Trial) -> Result<TrialResult, CommandError> {
    let reason = match trial.outcome() {
        Tried::Up { catalog, .. } => {
            let tools = trial.visible_items(&catalog, ListKind::Tools, |tool| tool.key.to_string());
            return Ok(TrialResult::Tools(tools));
        }
        Tried::Down { reason } if asks_for_login(&reason) => return Ok(TrialResult::NeedsLogin),
        Tried::Down { reason } => reason,
    };
    let server = trial.server();
    let is_command = matches!(server.config().launch, Launch::Stdio(_));
    Err(CommandError::NotStarted {
        server: server.name.to_string(),
        reason,
        stderr: trial.stderr(),
        hint: if is_command {
            "with --no-check it is saved without being started"
        } else {
            "with --no-check it is saved without being asked"
        },
    })
}

/// `3 tools: echo, add, weird`
pub fn tools_line(tools: &[String]) -> String {
    let count = output::count(tools.len(), "tool");
    if tools.is_empty() {
        return count;
    }
    let names: Vec<_> = tools
        .iter()
        .take(MAX_TOOLS)
        .map(|tool| output::one_line(tool))
        .collect();
    let more = match tools.len().saturating_sub(MAX_TOOLS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{count}: {}{more}", names.join(", "))
}
