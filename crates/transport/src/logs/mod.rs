//! Logs of servers: what they write to stderr, the noise on their stdout, and Mainstay's own words
//! about them. Messages of the protocol, and so arguments and results, are never written.
//!
//! Readers of pipes append to a bounded queue and never wait. One thread for all servers writes the
//! queues and rotates the files. A line that finds its queue full is dropped and counted, and the log
//! says how many were: a flood costs neither memory nor other servers' time.

mod allowance;
mod log_file;
mod queue;
mod read;
mod rotating;
mod server_log;
mod tail;
#[cfg(test)]
mod tests;
mod throttle;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay_core::ids::ServerName;

pub use self::{
    allowance::{Allowance, MESSAGE, pause, rest},
    log_file::{Batch, Followed},
    read::{MAX_TAIL, left_behind},
    server_log::{Diagnostics, LogStream, ServerLog},
    throttle::{Throttle, Verdict},
};
use self::{
    log_file::{LogFile, Redaction},
    writer::Writer,
};

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Stderr,
    /// What is no message.
    Stdout,
    /// Our own words about the server.
    Mainstay,
}

impl Source {
    const ALL: [Self; 3] = [Self::Stderr, Self::Stdout, Self::Mainstay];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Stdout => "stdout",
            Self::Mainstay => "mainstay",
        }
    }
}

/// One line of a server's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// RFC 3339
    pub time: String,
    pub source: Source,
    pub text: String,
}

impl Line {
    /// `TIME SOURCE TEXT`, as it stands in a file; `None` for what else may stand there, such as
    /// the rest of a line that a full disk cut off.
    pub fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (source, text) = rest.split_once(' ')?;
        let source = Source::ALL
            .into_iter()
            .find(|known| known.as_str() == source)?;
        Some(Self {
            time: time.to_owned(),
            source,
            text: text.to_owned(),
        })
    }
}

/// The logs of all servers, and the thread that writes them.
#[derive(Debug, Default)]
pub struct Logs(Option<Files>);

#[derive(Debug)]
struct Files {
    dir: PathBuf,
    writer: Writer,
    errors: Arc<LogFile>,
}

impl Logs {
    /// Logs in `logs/` of a state directory. Nothing is created before there is something to write.
    pub fn start(state: &Path) -> Self {
        let dir = folder(state);
        match Writer::start() {
            Ok(writer) => {
                let errors = writer.open(dir.join("mcp-errors.log"), Redaction::Done);
                Self(Some(Files {
                    dir,
                    writer,
                    errors,
                }))
            }
            // Servers matter more than their logs.
            Err(error) => {
                tracing::warn!(%error, "servers' logs are not written: no thread for them");
                Self(None)
            }
        }
    }

    /// A server's log. Without a state directory, the last lines of its stderr are all there is.
    pub fn server(&self, name: &ServerName) -> Arc<ServerLog> {
        let files = self.0.as_ref().map(|files| {
            let own = {
                let path = files.dir.join(file_name(name));
                files.writer.open(path, Redaction::AtWriting)
            };
            (own, Arc::clone(&files.errors))
        });
        Arc::new(ServerLog::new(name.clone(), files))
    }

    /// Writes what has gathered and ends the thread.
    pub async fn close(&self) {
        if let Some(files) = &self.0 {
            files.writer.close().await;
        }
    }
}

fn folder(state: &Path) -> PathBuf {
    state.join("logs")
}

/// `mcp-<server>.log`. No server's name ends with `_`, so a server called `errors` has a file of
/// its own, also where file names know no case.
fn file_name(server: &ServerName) -> String {
    let name = server.as_str();
    let mark = if name.eq_ignore_ascii_case("errors") {
        "_"
    } else {
        ""
    };
    format!("mcp-{name}{mark}.log")
}
