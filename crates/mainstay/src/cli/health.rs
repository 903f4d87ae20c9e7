//! `mainstay health`: asks every server now, and shows the answers.

use std::time::Duration;

use clap::Args;
use mainstay_api::{HealthStatus, ServerHealth};

use super::{CommandError, Exit, connect::DaemonArgs, output, stderr::complain};

#[derive(Debug, Args)]
pub struct Health {
    /// Only this server
    name: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl Health {
    /// Exit code 1 if a server is not healthy.
    pub async fn run(self) -> Result<Exit, CommandError> {
        let report = self
            .daemon
            .with(async |client| Ok(client.health(self.name.as_deref()).await?))
            .await?;
        if !self.daemon.json {
            for warning in &report.warnings {
                complain(&format!("warning: {warning}"));
            }
        }
        if self.daemon.json {
            output::json(&report)?;
        } else if report.servers.is_empty() {
            complain("no servers are to be up");
        } else {
            let mut lines = vec!["Server Health".to_owned()];
            lines.extend(report.servers.iter().map(row));
            output::text(&lines.join("\n"))?;
        }
        let well = |server: &ServerHealth| server.status == HealthStatus::Healthy;
        Ok(if report.servers.iter().all(well) {
            Exit::DONE
        } else {
            Exit::FAILED
        })
    }
}

/// A line such as `  geocoder         healthy    ping: 12ms`.
fn row(server: &ServerHealth) -> String {
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
    let row = format!("  {:<16} {word:<10} {detail}", server.name);
    output::one_line(row.trim_end()).into_owned()
}

fn unhealthy(server: &ServerHealth) -> String {
    if server.consecutive_failures == 0 {
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

    /// The lines have exactly this form, which scripts read.
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
        assert_eq!(row(&healthy), "  geocoder         healthy    ping: 12ms");
        assert_eq!(
            row(&unhealthy),
            "  celestial        unhealthy  last success: 3m ago, 5 consecutive failures"
        );
        assert_eq!(
            row(&late),
            "  time             timeout    ping timed out after 5s"
        );
    }
}
