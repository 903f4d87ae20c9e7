//! Logs of servers: what they write to stderr, their stray output on stdout, and Mainstay's own words
//! about them. Messages of the protocol, and so arguments and results, are never written.
//!
//! Readers of pipes append to a bounded queue and never wait. One thread for all servers writes the
//! queues and rotates the files. A line that finds its queue full is dropped and counted, and the log
//! says how many were: a flood costs neither memory nor other servers' time.

mod line;
mod log_file;
mod paths;
mod queue;
mod read;
mod rotating;
mod server_log;
mod tail;
#[cfg(test)]
mod tests;
mod throttle;
mod token_bucket;
mod wake;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay_core::ids::ServerName;

pub use self::{
    line::{Line, Source},
    log_file::{Batch, Followed},
    read::{MAX_TAIL, left_behind},
    server_log::{Diagnostics, LogStream, ServerLog},
    throttle::{Throttle, Verdict},
    token_bucket::{MESSAGE_COST, TokenBucket, pause, rest},
};
use self::{
    log_file::{LogFile, Redaction},
    paths::{file_name, folder},
    writer::Writer,
};

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
                let errors = writer.open(dir.join("mcp-errors.log"), None, Redaction::Done);
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
                files
                    .writer
                    .open(path, Some(name.clone()), Redaction::AtWriting)
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
