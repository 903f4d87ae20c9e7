//! `mainstay records`: lists, follows and exports calls, or prints one record.

mod export;
mod follow;
mod follow_text;

use std::time::Duration;

use clap::{Args, Subcommand, builder::RangedU64ValueParser as AtLeast};
use mainstay_api::{CallRecord, CallRecords, Client, ClientError, Raw, WholeCallRecord};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    style::Tone,
    suggest,
    table::{Cell, Column},
    time::local,
    when::{self, TypedTime, when},
};
use mainstay_journal::{PrincipalFilter, RecordFilter};
use mainstay_platform::utc;

use mainstay_core::{
    display,
    message::foreign,
    record::{Door, RecordId, Status, TraceId},
};

use self::export::Export;
use super::{
    archive::{self, Archive},
    history,
    store::StoreHost,
    warnings,
};

const EXAMPLES: &str = "\
Examples:
  mainstay records --since 14:03 --until 14:04
  mainstay records --server files --status unknown
  mainstay records --text 'access denied' --limit 20 --before 4711
  mainstay records 4711
  mainstay records --since 'yesterday 23:50' --until 00:30
  mainstay records --since 1h --json
  mainstay records --follow --server files
  mainstay records export --format sqlite --output calls.sqlite --since 7d

Without a daemon, what it left is read, and what `mainstay mcp` and commands
with --config recorded: their records are named INSTANCE/ID.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "mainstay records [OPTIONS] [[INSTANCE/]ID]\n       mainstay records export [OPTIONS] --format <FORMAT>",
    mut_arg("output", |form| form.global(false)),
    mut_arg("format", |template| template.global(false)),
)]
pub struct Records {
    /// One record, with its arguments and its result
    #[arg(value_name = "[INSTANCE/]ID")]
    id: Option<String>,
    /// Calls of this server
    #[arg(long, global = true, value_name = "NAME")]
    server: Option<String>,
    /// Calls of this tool: its own name, or SERVER/TOOL
    #[arg(long, global = true, value_name = "NAME")]
    tool: Option<String>,
    /// Calls that ended so: ok, error, timeout, cancelled, unknown, refused; or open
    #[arg(long, global = true, value_name = "STATUS")]
    status: Option<String>,
    /// Calls that came through this door: mcp_http, mcp_stdio, mcp_sse, rest, cli, own
    #[arg(long, global = true, value_name = "DOOR")]
    door: Option<String>,
    /// Calls of the client of this name
    #[arg(long, global = true, value_name = "NAME")]
    client: Option<String>,
    /// Calls of this session, by the name that records give it
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
    /// Calls of this trace: 32 hexadecimal digits, as `trace_id` of records and of OpenTelemetry
    #[arg(long, global = true, value_name = "ID", value_parser = trace)]
    trace: Option<TraceId>,
    /// Calls with this in SERVER/TOOL, in their error or in their arguments, in either case
    #[arg(long, global = true, value_name = "TEXT")]
    text: Option<String>,
    /// Calls since then: 14:03, "yesterday 23:50", 2026-11-25, 10m (ago), or 2026-11-25T14:03:00Z
    #[arg(long, global = true, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    since: Option<TypedTime>,
    /// Calls until then
    #[arg(long, global = true, value_name = "TIME", value_parser = when, allow_hyphen_values = true)]
    until: Option<TypedTime>,
    /// Show at most this many calls [default: 50; all in an export]
    #[arg(long, value_name = "N", global = true, value_parser = AtLeast::<usize>::new().range(1..))]
    limit: Option<usize>,
    /// Only what is older than this record: the next page
    #[arg(long, global = true, value_name = "ID")]
    before: Option<String>,
    /// Read the journal of this instance, which needs no daemon
    #[arg(long, value_name = "NAME", global = true, conflicts_with_all = ["url", "config"])]
    instance: Option<String>,
    /// Show calls as they end, until Ctrl-C; a daemon that is started anew is found again
    #[arg(short, long, conflicts_with_all = ["id", "output", "format", "limit", "before", "until", "instance", "config"])]
    follow: bool,
    /// With --follow: show calls as they begin, too
    #[arg(long = "begun", requires = "follow")]
    prints_starts: bool,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<RecordsAction>,
}

#[derive(Debug, Subcommand)]
enum RecordsAction {
    /// Write all calls that fit as a table for other programs
    Export(Export),
}

/// The default number of calls in a list.
const DEFAULT_CALLS: usize = 50;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hexadecimal digits that are not all 0")]
struct BadTrace;

fn trace(text: &str) -> Result<TraceId, BadTrace> {
    TraceId::parse(text).ok_or(BadTrace)
}

impl RunCommand for Records {
    type Host<'h> = dyn StoreHost + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(mut self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        // Check the filters before any request.
        self.parsed_status()?;
        self.parsed_door()?;
        self.until = when::end(self.since, self.until)?;
        match (&self.action, &self.id) {
            (Some(RecordsAction::Export(_)), Some(id)) => Err(CommandError::Usage {
                message: format!("{id:?} is one record, and export is for many"),
                hint: Some(
                    "filters such as --since and --server come before and after it".to_owned(),
                ),
            }),
            (Some(RecordsAction::Export(export)), None) => export.run(&self, host).await,
            (None, Some(id)) => self.show(host, id).await,
            (None, None) if self.follow => self.follow(host).await,
            (None, None) => self.list(host).await,
        }
    }
}

impl Records {
    async fn show(&self, host: &dyn StoreHost, id: &str) -> Result<Exit, CommandError> {
        let (instance, number) = archive::split(id);
        let ask = async |client: &Client| Ok(client.call_record(number).await?);
        let read = async |archive: &mut Archive| archive.record(number);
        let record = self.look_up(host, instance, ask, read).await?;
        let found = ItemList::one(&record, &["id"]);
        if self.shape.print(self.daemon.json, &found)?.is_some() {
            output::text(&described(&record))?;
        }
        Ok(Exit::DONE)
    }

    /// Queries the daemon. Without a daemon, or with an `instance`, reads the journal.
    async fn look_up<T>(
        &self,
        host: &dyn StoreHost,
        instance: Option<&str>,
        ask: impl AsyncFnOnce(&Client) -> Result<T, CommandError>,
        read: impl AsyncFnOnce(&mut Archive) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        if let Some(instance) = instance.or(self.instance.as_deref()) {
            return read(&mut Archive::of_instance(host, instance)?).await;
        }
        match self.daemon.with(host, ask).await {
            Err(CommandError::Client(ClientError::NotRunning { dir })) => {
                let archive = Archive::all(host, &dir)?;
                read(&mut archive.ok_or(ClientError::NotRunning { dir })?).await
            }
            answer => answer,
        }
    }

    async fn list(&self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let (instance, before) = self.before.as_deref().map(archive::split).unzip();
        let limit = self.limit.unwrap_or(DEFAULT_CALLS);
        let mut query = self.query(before);
        query.push(("limit", limit.to_string()));
        let ask = async |client: &Client| {
            warnings::print(client).await;
            let found = client.call_records(&query).await?;
            if let Some(server) = self.server.as_ref().filter(|_| found.calls.is_empty()) {
                // Fails if the server does not exist and never existed.
                client.history(Some(server), &[]).await?;
            }
            Ok(found)
        };
        let read = async |archive: &mut Archive| archive.records(&self.filter(before)?, limit);
        let found = self.look_up(host, instance.flatten(), ask, read).await?;
        let list = ItemList::list::<CallRecord>(&found, &["calls"], &["id"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &list)? else {
            return Ok(Exit::DONE);
        };
        for gap in &found.gaps {
            complain(&history::missing(gap));
        }
        if found.calls.is_empty() {
            complain(&match searched(&found) {
                Some(searched) => format!("no calls that fit, {searched}"),
                None => "no calls on record that fit".to_owned(),
            });
            return Ok(Exit::DONE);
        }
        let rows = found.calls.iter().map(row);
        output::rows_of(&COLUMNS, rows, wide)?;
        if let Some(searched) = searched(&found) {
            complain(&searched);
        } else if found.truncated {
            complain(&left_out(&found, self.is_search()));
        }
        Ok(Exit::DONE)
    }

    /// True if the daemon has to read records to find the calls. Such a search has no count.
    fn is_search(&self) -> bool {
        self.text.is_some() || self.trace.is_some()
    }

    /// The filters as a query of the REST API.
    fn query(&self, before: Option<&str>) -> Vec<(&'static str, String)> {
        let words = [
            ("server", self.server.as_deref()),
            ("tool", self.tool.as_deref()),
            ("status", self.status.as_deref()),
            ("door", self.door.as_deref()),
            ("client", self.client.as_deref()),
            ("session", self.session.as_deref()),
            ("text", self.text.as_deref()),
            ("before", before),
        ];
        let given_words = words
            .into_iter()
            .filter_map(|(name, word)| Some((name, word?.to_owned())));
        let times = [("since", self.since), ("until", self.until)];
        let given_times = times
            .into_iter()
            .filter_map(|(name, time)| Some((name, utc::rfc3339(time?.at()))));
        let trace = self.trace.map(|trace| ("trace_id", trace.to_string()));
        given_words.chain(given_times).chain(trace).collect()
    }

    fn parsed_status(&self) -> Result<Option<Status>, CommandError> {
        let words: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        parse_word("status", self.status.as_deref(), &words, Status::parse)
    }

    fn parsed_door(&self) -> Result<Option<Door>, CommandError> {
        let words: Vec<&str> = Door::ALL.iter().map(|door| door.as_str()).collect();
        parse_word("door", self.door.as_deref(), &words, Door::parse)
    }

    /// The filters in the form for reading a journal.
    fn filter(&self, before: Option<&str>) -> Result<RecordFilter, CommandError> {
        Ok(RecordFilter {
            servers: self.server.iter().cloned().collect(),
            tools: self.tool.iter().cloned().collect(),
            statuses: self.parsed_status()?.into_iter().collect(),
            states: Vec::new(),
            door: self.parsed_door()?,
            clients: self.client.iter().cloned().collect(),
            session: self.session.clone(),
            trace: self.trace,
            principal: PrincipalFilter::Anybodys,
            since: self.since.map(TypedTime::at),
            until: self.until.map(TypedTime::at),
            text: self.text.clone(),
            before: parse_word("record", before, &[], |id| id.parse::<RecordId>().ok())?,
            uncounted: false,
        })
    }
}

/// Parses a word of a filter. The error has a hint with the valid words.
fn parse_word<T>(
    noun: &str,
    word: Option<&str>,
    words: &[&str],
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, CommandError> {
    word.map(|word| {
        let unknown = || {
            let near = suggest::nearest(word, words.iter().copied());
            let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            CommandError::Usage {
                message: format!("there is no {noun} {word:?}"),
                hint: Some(match words {
                    [] => "`mainstay records` shows which there are".to_owned(),
                    words => format!("{near}there are {}", words.join(", ")),
                }),
            }
        };
        parse(word).ok_or_else(unknown)
    })
    .transpose()
}

fn left_out(found: &CallRecords, is_search: bool) -> String {
    let (count, all) = (found.calls.len(), found.total_count);
    match &found.next {
        Some(next) if is_search => format!("the newest {count}; the next page: --before {next}"),
        Some(next) => format!("{count} of {all}; the next page: --before {next}"),
        None if is_search => format!("the newest {count}; --limit and --until show more"),
        None => format!("the newest {count} of {all}; --limit and --until show more"),
    }
}

/// A sentence about a search that ended at its time limit.
fn searched(found: &CallRecords) -> Option<String> {
    let back_to = local(found.searched_back_to.as_ref()?);
    Some(match &found.next {
        Some(next) => format!("searched back to {back_to}; --before {next} searches on"),
        None => format!("searched back to {back_to}; --until searches before it"),
    })
}

pub(super) const COLUMNS: [Column; 7] = [
    Column::new("ID"),
    Column::new("TIME"),
    Column::new("CALL").cut_to(20),
    Column::new("STATUS"),
    Column::new("TOOK").rank(1),
    Column::new("BY").cut_to(10).rank(2),
    Column::new("ERROR").cut_to(10).rank(3),
];

fn row(record: &CallRecord) -> [Cell; 7] {
    let error = record.error.as_ref().map(|error| error.message.clone());
    [
        record.id.clone().into(),
        local(&record.started_at).into(),
        record.name.clone().into(),
        Cell::from(status(record)).tone(Tone::for_status(&record.status)),
        duration_text(record.duration_ms).into(),
        by(record).into(),
        error.unwrap_or_default().into(),
    ]
}

/// The status, such as `ok` or `timeout, sent`. Leaves out the state if the status implies it.
fn status(record: &CallRecord) -> String {
    let implied = match &*record.status {
        "ok" | "error" => "answered",
        "unknown" => "sent",
        "refused" => "not_sent",
        _ => "",
    };
    if record.state == implied {
        return record.status.clone();
    }
    format!("{}, {}", record.status, record.state.replace('_', " "))
}

/// The client's name, or else the door.
fn by(record: &CallRecord) -> String {
    match &record.client {
        Some(client) => client.name.clone(),
        None => record.door.clone(),
    }
}

pub fn duration_text(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "-".to_owned(),
        Some(short) if short < 10.0 => format!("{short:.1} ms"),
        Some(long) => output::span(Duration::from_secs_f64(long / 1000.0)),
    }
}

fn described(record: &WholeCallRecord) -> String {
    let call = &record.call;
    let mut lines = vec![
        format!("{} {} ({})", call.method, call.name, call.id),
        format!("  started    {}", local(&call.started_at)),
        format!(
            "  took       {}, of which {} waiting and {} at the server",
            duration_text(call.duration_ms),
            duration_text(Some(call.queue_ms)),
            duration_text(Some(call.upstream_ms)),
        ),
        format!("  status     {}", call.status),
        format!("  state      {}", call.state),
        format!("  attempts   {}", call.attempt),
        format!("  by         {} through {}", by(call), call.door),
    ];
    for (number, attempt) in (1..).zip(&call.earlier_attempts) {
        lines.push(format!(
            "  attempt {number}  {} after {}: {}: {}",
            attempt.state.replace('_', " "),
            duration_text(Some(attempt.ended_ms)),
            attempt.error.kind,
            attempt.error.message,
        ));
    }
    let rest = [
        ("session", &call.session),
        ("principal", &call.principal),
        ("profile", &call.profile),
        ("trace", &call.trace_id),
    ];
    for (name, value) in rest {
        if let Some(value) = value {
            lines.push(format!("  {name:<10} {value}"));
        }
    }
    if let Some(error) = &call.error {
        lines.push(format!("  error      {}: {}", error.kind, error.message));
    }
    for line in &mut lines {
        *line = output::one_line(line).into_owned();
    }
    for (name, cid, payload) in [
        ("arguments", &call.arguments_cid, &record.arguments),
        ("result", &call.result_cid, &record.result),
    ] {
        let Some(cid) = cid else { continue };
        lines.push(format!("  {name:<10} {cid}"));
        if let Some(payload) = payload {
            lines.extend(pretty(payload).lines().map(|line| format!("    {line}")));
        }
    }
    lines.join("\n")
}

fn pretty(payload: &Raw) -> String {
    display::json(&foreign::pretty(payload.get())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that ends at its time limit reports that, with and without matches.
    #[test]
    fn a_search_says_how_far_it_got() {
        let mut found = CallRecords {
            calls: Vec::new(),
            total_count: 51,
            truncated: true,
            next: Some("4711".to_owned()),
            searched_back_to: None,
            gaps: Vec::new(),
        };
        let next = "the next page: --before 4711";
        assert_eq!(left_out(&found, true), format!("the newest 0; {next}"));
        assert_eq!(left_out(&found, false), format!("0 of 51; {next}"));
        assert_eq!(searched(&found), None);
        let at = "2026-11-25T14:03:00Z";
        found.searched_back_to = Some(at.to_owned());
        let back = format!("searched back to {}; ", local(at));
        let on = format!("{back}--before 4711 searches on");
        assert_eq!(searched(&found), Some(on));
        found.next = None;
        let on = format!("{back}--until searches before it");
        assert_eq!(searched(&found), Some(on));
    }

    #[test]
    fn short_calls_are_told_apart() {
        assert_eq!(duration_text(Some(0.25)), "0.2 ms");
        assert_eq!(duration_text(Some(12.9)), "12 ms");
        assert_eq!(duration_text(Some(1500.0)), "1.5 s");
        assert_eq!(duration_text(None), "-");
    }
}
