//! `mainstay stats`: calls, errors, latencies and bytes of each tool.

use clap::{Args, ValueEnum};
use mainstay_api::{Client, ToolStatistics};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    table::Column,
    when::{self, TypedTime, when},
};
use mainstay_platform::utc;

use super::{records::duration_text, warnings};

/// The width of buckets, in milliseconds. Only the total of all buckets is printed. Periods below an hour are
/// exact to the minute while the journal still stores minutes.
const BUCKET_MS: u64 = 30 * 60 * 1000;

const EXAMPLES: &str = "\
Examples:
  mainstay stats                       the last 24 hours
  mainstay stats --since 10m
  mainstay stats --sort p95            the slowest tool first
  mainstay stats --server files --since 09:00 --until 12:00 --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Stats {
    /// Calls of this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Calls of this tool, by its own name
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Calls since then: 14:03, "yesterday 23:50", 2026-11-25, 10m (ago), or 2026-11-25T14:03:00Z
    /// [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    since: Option<TypedTime>,
    /// Calls until then
    #[arg(long, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    until: Option<TypedTime>,
    /// The most first: calls, errors, p50, p95 or p99 [default: by name]
    #[arg(long, value_name = "BY", hide_possible_values = true)]
    sort: Option<Order>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Calls,
    Errors,
    P50,
    P95,
    P99,
}

impl Order {
    fn sort(self, tools: &mut [ToolStatistics]) {
        tools.sort_by(|one, other| {
            let (one, other) = (&one.total, &other.total);
            match self {
                Self::Calls => other.calls.cmp(&one.calls),
                Self::Errors => other.errors.cmp(&one.errors),
                Self::P50 => other.p50_ms.total_cmp(&one.p50_ms),
                Self::P95 => other.p95_ms.total_cmp(&one.p95_ms),
                Self::P99 => other.p99_ms.total_cmp(&one.p99_ms),
            }
        });
    }
}

impl RunCommand for Stats {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let until = when::end(self.since, self.until)?;
        let time = |when: TypedTime| utc::rfc3339(when.at());
        let server = self.server;
        let query = [
            ("server", server.clone()),
            ("tool", self.tool),
            ("since", self.since.map(time)),
            ("until", until.map(time)),
            ("bucketMs", Some(BUCKET_MS.to_string())),
        ];
        let query: Vec<_> = query
            .into_iter()
            .filter_map(|(name, word)| Some((name, word?)))
            .collect();
        let ask = async |client: &Client| {
            warnings::print(client).await;
            let found = client.statistics(&query).await?;
            if let Some(server) = server.as_ref().filter(|_| found.tools.is_empty()) {
                // Fails if the server does not exist and never existed.
                client.history(Some(server), &[]).await?;
            }
            Ok(found)
        };
        let mut found = self.daemon.with(host, ask).await?;
        if let Some(order) = self.sort {
            order.sort(&mut found.tools);
        }
        let list = ItemList::list::<ToolStatistics>(&found, &["tools"], &["tool"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &list)? else {
            return Ok(Exit::DONE);
        };
        if found.tools.is_empty() {
            complain("no calls on record that fit");
        } else {
            output::rows_of(&COLUMNS, found.tools.iter().map(row), wide)?;
        }
        Ok(Exit::DONE)
    }
}

pub(super) const COLUMNS: [Column; 8] = [
    Column::new("CALL").cut_to(20),
    Column::new("CALLS").right(),
    Column::new("ERRORS").right(),
    Column::new("P50").rank(4).right(),
    Column::new("P95").rank(1).right(),
    Column::new("P99").rank(3).right(),
    Column::new("SENT").rank(6).right(),
    Column::new("GOT").rank(5).right(),
];

fn row(tool: &ToolStatistics) -> [String; 8] {
    let total = &tool.total;
    [
        name(tool),
        total.calls.to_string(),
        total.errors.to_string(),
        duration_text(Some(total.p50_ms)),
        duration_text(Some(total.p95_ms)),
        duration_text(Some(total.p99_ms)),
        bytes(total.argument_bytes),
        bytes(total.result_bytes),
    ]
}

/// The name of a tool as `server/tool`. Other items also show their method.
fn name(tool: &ToolStatistics) -> String {
    if tool.server.is_empty() {
        return format!("unknown names ({})", tool.method);
    }
    match (&*tool.method, &*tool.tool) {
        ("tools/call", name) => format!("{}/{name}", tool.server),
        // Resources have one common count, because there may be any number of them.
        (method, "") => format!("{} ({method})", tool.server),
        (method, name) => format!("{}/{name} ({method})", tool.server),
    }
}

/// `812 B`, `1.2 kB`, `3.4 MB`
fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
    let mut rest = count as f64;
    for unit in ["B", "kB", "MB"] {
        if rest < 1000.0 {
            return match unit {
                "B" => format!("{count} B"),
                unit => format!("{rest:.1} {unit}"),
            };
        }
        rest /= 1000.0;
    }
    format!("{rest:.1} GB")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_comes_first() {
        let tool = |name: &str, calls, errors, p50_ms, p95_ms| {
            let total = json!({"start": "", "calls": calls, "errors": errors, "p50_ms": p50_ms, "p95_ms": p95_ms,
                "p99_ms": p95_ms, "argument_bytes": 0, "result_bytes": 0});
            json!({"server": "s", "method": "tools/call", "tool": name, "total": total, "buckets": []})
        };
        let tools = json!([
            tool("a", 3, 1, 5.0, 10.0),
            tool("b", 2, 2, 1.0, 90.0),
            tool("c", 1, 0, 9.0, 20.0)
        ]);
        for (order, expected) in [
            (Order::Calls, ["a", "b", "c"]),
            (Order::Errors, ["b", "a", "c"]),
            (Order::P50, ["c", "a", "b"]),
            (Order::P95, ["b", "c", "a"]),
            (Order::P99, ["b", "c", "a"]),
        ] {
            let mut tools: Vec<ToolStatistics> =
                serde_json::from_value(tools.clone()).expect("statistics");
            order.sort(&mut tools);
            let names: Vec<_> = tools.iter().map(|tool| tool.tool.as_str()).collect();
            assert_eq!(names, expected, "{order:?}");
        }
    }

    #[test]
    fn bytes_are_short() {
        for (count, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1_234_567, "1.2 MB"),
            (5_000_000_000_000, "5000.0 GB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
