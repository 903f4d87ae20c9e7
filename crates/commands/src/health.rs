//! `mainstay health`: probes each server now, and shows the results.

use std::time::Duration;

use clap::Args;
use mainstay_api::{Client, HealthReport, HealthStatus, ServerHealth};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{self, ItemList, OutputShape, Tabular},
    stderr::complain,
    style::{Palette, Tone},
    table,
};

use super::watch::{self, Block};

const EXAMPLES: &str = "\
Examples:
  mainstay health
  mainstay health files
  mainstay health --watch                  again after each change, until Ctrl-C
  mainstay health --format '{name} {status} {pingMs}'";

/// The interval of `--watch` between updates on a terminal while no event arrives.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// The minimum width of the name column. It aligns the rows of several reports.
const MIN_NAME_WIDTH: usize = 16;

/// The minimum width after the name on a terminal: the status and the beginning of its reason.
const MIN_DETAIL_WIDTH: usize = 32;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Health {
    /// Only this server
    name: Option<String>,
    /// Ask again after each change, until Ctrl-C
    #[arg(short, long, conflicts_with = "format")]
    watch: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

impl RunCommand for Health {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    /// Prints the report. The exit code is 1 if a server is not healthy.
    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let ask = async |client: &Client| Ok(client.health(self.name.as_deref()).await?);
        if self.watch {
            let form = self.shape.watched(self.daemon.json)?;
            let look = async |client: &Client| {
                let report = ask(client).await?;
                Ok(match form {
                    Some(tabular) => Block::Lines(lines(&report, tabular, output::width())),
                    None => Block::Json(shape::value(&report)?),
                })
            };
            return watch::watch(host, &self.daemon, WATCH_INTERVAL, look).await;
        }
        let report = self.daemon.with(host, ask).await?;
        let found = ItemList::list::<ServerHealth>(&report, &["servers"], &["name"]);
        if let Some(tabular) = self.shape.print(self.daemon.json, &found)? {
            for warning in &report.warnings {
                complain(&format!("warning: {warning}"));
            }
            if report.servers.is_empty() {
                complain("no servers are to be up; `mainstay list` shows them all");
            } else {
                let width = output::width().filter(|_| !tabular.wide);
                output::escaped(&lines(&report, tabular, width))?;
            }
        }
        let well = |server: &ServerHealth| server.status == HealthStatus::Healthy;
        Ok(if report.servers.iter().all(well) {
            Exit::DONE
        } else {
            Exit::FAILED
        })
    }
}

/// The width of the column of names.
fn names(servers: &[ServerHealth]) -> usize {
    let names = servers.iter().map(|server| server.name.len());
    names.max().unwrap_or_default().max(MIN_NAME_WIDTH)
}

pub(super) fn lines(report: &HealthReport, tabular: Tabular, width: Option<usize>) -> Vec<String> {
    let Tabular { wide } = tabular;
    let palette = output::palette();
    let width = width.filter(|_| !wide).unwrap_or(usize::MAX);
    let most = width.saturating_sub(MIN_DETAIL_WIDTH).max(MIN_NAME_WIDTH);
    let names = names(&report.servers).min(most);
    let rows = report
        .servers
        .iter()
        .map(|server| row(server, names, width, palette));
    let head = palette.paint("Server Health", Tone::Head);
    [head].into_iter().chain(rows).collect()
}

/// A line such as `  geocoder         healthy    ping: 12ms`.
fn row(server: &ServerHealth, names: usize, width: usize, palette: Palette) -> String {
    let message = || server.message.clone().unwrap_or_default();
    let (word, detail) = match server.status {
        HealthStatus::Healthy => (
            "healthy",
            format!("ping: {}ms", server.ping_ms.unwrap_or_default()),
        ),
        HealthStatus::Unhealthy => ("unhealthy", unhealthy(server)),
        HealthStatus::Timeout => ("timeout", message()),
        HealthStatus::Error => ("error", message()),
    };
    let name = table::cut(&output::one_line(&server.name), names);
    let row = format!("  {name:<names$} {word:<10} {}", output::one_line(&detail));
    let row = table::cut(row.trim_end(), width);
    // The name may contain the status word, so colour only the rest of the row.
    let (before, after) = row.split_at(row.floor_char_boundary(3 + name.len().max(names)));
    let after = after.replacen(word, &palette.paint(word, Tone::for_status(word)), 1);
    format!("{before}{after}")
}

fn unhealthy(server: &ServerHealth) -> String {
    // The server answers pings, so it has another problem. Its message names the problem.
    if server.consecutive_failures == 0 || server.ping_ms.is_some() {
        return server.message.clone().unwrap_or_default();
    }
    let ago = server
        .last_success_ms
        .map_or_else(|| "never".to_owned(), |ms| short(Duration::from_millis(ms)));
    format!(
        "last success: {ago}, {} consecutive failures",
        server.consecutive_failures
    )
}

/// `45s ago`, `3m ago`, `2h ago`
fn short(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s ago"),
        seconds @ 60..3600 => format!("{}m ago", seconds / 60),
        seconds => format!("{}h ago", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, status: HealthStatus) -> ServerHealth {
        ServerHealth {
            name: name.to_owned(),
            status,
            ping_ms: None,
            last_success_ms: None,
            consecutive_failures: 0,
            message: None,
        }
    }

    /// Scripts parse these lines, so their form must not change.
    #[test]
    fn rows_read_as_in_the_document() {
        let healthy = ServerHealth {
            ping_ms: Some(12),
            ..server("geocoder", HealthStatus::Healthy)
        };
        let unhealthy = ServerHealth {
            last_success_ms: Some(190_000),
            consecutive_failures: 5,
            ..server("celestial", HealthStatus::Unhealthy)
        };
        let late = ServerHealth {
            message: Some("ping timed out after 5s".to_owned()),
            ..server("time", HealthStatus::Timeout)
        };
        let failed = ServerHealth {
            message: Some("failed: process exited unexpectedly (code 1)\nat once".to_owned()),
            ..server("broken", HealthStatus::Error)
        };
        let servers = [healthy, unhealthy, late, failed];
        let rows: Vec<String> = servers
            .iter()
            .map(|server| row(server, names(&servers), usize::MAX, Palette::PLAIN))
            .collect();
        assert_eq!(
            rows,
            [
                "  geocoder         healthy    ping: 12ms",
                "  celestial        unhealthy  last success: 3m ago, 5 consecutive failures",
                "  time             timeout    ping timed out after 5s",
                "  broken           error      failed: process exited unexpectedly (code 1) at once",
            ]
        );
        // A longer name widens the column for all rows.
        let long = server("a-server-with-a-name-of-32-bytes", HealthStatus::Timeout);
        let servers = [server("short", HealthStatus::Timeout), long];
        let rows = servers
            .iter()
            .map(|server| row(server, names(&servers), usize::MAX, Palette::PLAIN));
        let columns: Vec<_> = rows.map(|row| row.find("timeout")).collect();
        assert_eq!(columns, [Some(35), Some(35)]);
    }
}
