//! Logs of servers: their stderr, their stray output on stdout, and Mainstay's lines about them. Protocol
//! messages are never written, because they contain arguments and results.
//!
//! Readers of pipes append to a bounded queue and never wait. One thread writes the queues of all servers and
//! rotates the files. If a queue is full, a line is dropped and counted, and the log reports the number of
//! dropped lines. A flood therefore neither fills memory nor delays other servers.

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
    line::{Line, LineSource},
    log_file::{Batch, Followed},
    read::{MAX_TAIL, left_behind},
    server_log::{CredentialMark, Diagnostics, LogStream, ServerLog},
    throttle::{Throttle, ThrottleVerdict},
    token_bucket::{MESSAGE_COST, TokenBucket, pause, rest},
};
use self::{
    log_file::{LogFile, Redaction},
    paths::{file_name, folder},
    writer::Writer,
};

/// The logs of all servers, and the thread that writes them.
#[derive(Debug, Default)]
pub struct ServerLogs(Option<Files>);

#[derive(Debug)]
struct Files {
    dir: PathBuf,
    writer: Writer,
    errors: Arc<LogFile>,
}

impl ServerLogs {
    /// Starts the logs in `logs/` of a state directory. No file is created before the first line.
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
            // Servers run even if their logs cannot be written.
            Err(error) => {
                tracing::warn!(%error, "servers' logs are not written: no thread for them");
                Self(None)
            }
        }
    }

    /// The log of a server. Without a state directory, only the last lines of stderr are stored, in memory.
    pub fn server(&self, name: &ServerName) -> Arc<ServerLog> {
        let files = self.0.as_ref().map(|files| {
            let server_file = {
                let path = files.dir.join(file_name(name));
                files
                    .writer
                    .open(path, Some(name.clone()), Redaction::AtWriting)
            };
            (server_file, Arc::clone(&files.errors))
        });
        Arc::new(ServerLog::new(name.clone(), files))
    }

    /// Writes the queued lines and ends the thread.
    pub async fn close(&self) {
        if let Some(files) = &self.0 {
            files.writer.close().await;
        }
    }
}
