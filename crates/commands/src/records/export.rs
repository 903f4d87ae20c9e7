//! `mainstay records export`: writes calls as a table for other programs. Reads records page by page, so that
//! memory use does not grow with their number.

use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use mainstay_api::{
    CallRecord, Client,
    export::{csv_head, csv_record, json_line},
};
use mainstay_command_line::{
    CommandError, Exit, output, progress,
    screen::{self, complain},
    signals::Signals,
};
use tempfile::{NamedTempFile, TempPath};

use super::{Archive, Records, StoreHost, archive};
use crate::store::CallTable;

/// The maximum number of records in a page of the REST API.
const PAGE: usize = 1000;

const EXAMPLES: &str = "\
Examples:
  mainstay records export --format jsonl --since 1h | jq .tool
  mainstay records export --format csv --output calls.csv --server files
  mainstay records export --format sqlite --output calls.sqlite
  sqlite3 calls.sqlite 'SELECT tool, count(*) FROM calls GROUP BY tool'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// jsonl (a JSON object on each line), csv, or sqlite (a file with one table)
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    format: Format,
    /// Write to this file [default: stdout, which cannot be sqlite]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
    Csv,
    Sqlite,
}

/// The destination of the rows.
enum Sink {
    Stdout,
    /// A temporary file in the folder of the requested file, until it is complete.
    File(BufWriter<NamedTempFile>),
    Table(Box<dyn CallTable>, TempPath),
}

impl Export {
    pub async fn run(&self, records: &Records, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let sink = RefCell::new(self.open(host)?);
        let (written, total) = (Cell::new(0), Cell::new(None));
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let work = async {
            if self.format == Format::Csv
                && self.put(&mut sink.borrow_mut(), &csv_head())?.is_break()
            {
                return Ok(());
            }
            let handle_page = |mut calls: Vec<CallRecord>| {
                let left = records
                    .limit
                    .map_or(usize::MAX, |limit| limit - written.get());
                calls.truncate(left);
                written.set(written.get() + calls.len());
                let flow = self.write(&mut sink.borrow_mut(), &calls)?;
                let is_full = records.limit == Some(written.get());
                Ok(if is_full {
                    ControlFlow::Break(())
                } else {
                    flow
                })
            };
            records.pages(host, &total, handle_page).await
        };
        let show = |_| {
            let total_part = total
                .get()
                .map_or_else(String::new, |total: u64| format!(" of {total}"));
            progress::show(&format!("exporting calls: {}{total_part}", written.get()));
        };
        tokio::select! {
            done = progress::ticking(work, show) => done?,
            signal = signals.next() => {
                return Err(CommandError::Interrupted { name: signal.name, exit: signal.exit_code() });
            }
        }
        self.finish(sink.into_inner())?;
        if let Some(path) = &self.output {
            let calls = output::count(written.get(), "call");
            complain(&format!("{calls} written to {}", path.display()));
        }
        Ok(Exit::DONE)
    }

    fn open(&self, host: &dyn StoreHost) -> Result<Sink, CommandError> {
        let Some(path) = &self.output else {
            if self.format == Format::Sqlite {
                return Err(CommandError::Usage {
                    message: "a SQLite file cannot be written to stdout".to_owned(),
                    hint: Some("name it: --output calls.sqlite".to_owned()),
                });
            }
            return Ok(Sink::Stdout);
        };
        if !self.force && path.symlink_metadata().is_ok() {
            return Err(file_exists(path));
        }
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Check the folder first. An error of the temporary file would name that file instead of the folder.
        let file = fs::metadata(folder).and_then(|_| NamedTempFile::new_in(folder));
        let file = file.map_err(|source| self.unwritten(source))?;
        if self.format != Format::Sqlite {
            return Ok(Sink::File(BufWriter::new(file)));
        }
        let path = file.into_temp_path();
        Ok(Sink::Table(host.call_table(&path)?, path))
    }

    /// Writes a page of calls. Returns `Break` if the reader has closed the pipe.
    fn write(
        &self,
        sink: &mut Sink,
        calls: &[CallRecord],
    ) -> Result<ControlFlow<()>, CommandError> {
        if let Sink::Table(table, _) = sink {
            table.insert(calls)?;
            return Ok(ControlFlow::Continue(()));
        }
        let line = |call: &CallRecord| match self.format {
            Format::Csv => csv_record(call),
            Format::Jsonl | Format::Sqlite => json_line(call),
        };
        if calls.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        self.put(sink, &calls.iter().map(line).collect::<String>())
    }

    fn put(&self, sink: &mut Sink, lines: &str) -> Result<ControlFlow<()>, CommandError> {
        match sink {
            Sink::Stdout => screen::stream(lines, self.format == Format::Jsonl),
            Sink::File(file) => {
                let written = file.write_all(lines.as_bytes());
                written.map_err(|source| self.unwritten(source))?;
                Ok(ControlFlow::Continue(()))
            }
            Sink::Table(..) => Ok(ControlFlow::Continue(())),
        }
    }

    /// Renames the complete file to the requested name.
    fn finish(&self, sink: Sink) -> Result<(), CommandError> {
        let Some(path) = &self.output else {
            return Ok(());
        };
        let complete = match sink {
            Sink::Stdout => return Ok(()),
            Sink::File(file) => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error);
                file.map_err(|source| self.unwritten(source))?
                    .into_temp_path()
            }
            Sink::Table(table, path) => {
                table.finish()?;
                path
            }
        };
        let synced = File::open(&complete).and_then(|file| file.sync_all());
        synced.map_err(|source| self.unwritten(source))?;
        let named = if self.force {
            complete.persist(path)
        } else {
            complete.persist_noclobber(path)
        };
        named.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => file_exists(path),
            _ => self.unwritten(error.error),
        })
    }

    fn unwritten(&self, source: io::Error) -> CommandError {
        let path = self.output.as_deref().unwrap_or(Path::new("stdout"));
        CommandError::Write {
            path: path.display().to_string(),
            source,
        }
    }
}

fn file_exists(path: &Path) -> CommandError {
    CommandError::Cannot {
        code: "file_exists",
        message: format!("{} is there already", path.display()),
        hint: Some("--force replaces it".to_owned()),
    }
}

impl Records {
    /// Passes all matching calls to `see`, the newest first, until `see` breaks.
    async fn pages(
        &self,
        host: &dyn StoreHost,
        total: &Cell<Option<u64>>,
        mut see: impl FnMut(Vec<CallRecord>) -> Result<ControlFlow<()>, CommandError>,
    ) -> Result<(), CommandError> {
        let (instance, before) = self.before.as_deref().map(archive::split).unzip();
        let see = RefCell::new(&mut see);
        let ask = async |client: &Client| {
            let mut before = before.map(str::to_owned);
            loop {
                let mut query = self.query(before.as_deref());
                query.push(("limit", PAGE.to_string()));
                // Only the first page needs the total count, for the progress. A search has no count.
                if total.get().is_some() || self.is_search() {
                    query.push(("count", "false".to_owned()));
                }
                let page = client.call_records(&query).await?;
                if !self.is_search() {
                    total.set(total.get().or(Some(page.total_count)));
                }
                let flow = (see.borrow_mut())(page.calls)?;
                before = page.next;
                if flow.is_break() || before.is_none() {
                    return Ok(());
                }
            }
        };
        let read = async |archive: &mut Archive| {
            let filter = self.filter(before)?;
            archive
                .pages(&filter, PAGE, |calls| (see.borrow_mut())(calls))
                .await
        };
        self.look_up(host, instance.flatten(), ask, read).await
    }
}
