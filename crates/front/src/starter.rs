//! Starts a daemon if the front's daemon does not return, for example because the `mainstay mcp`
//! with the daemon has ended. Several fronts may try. The lock of the state directory admits one.

use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use mainstay_command_line::screen::complain;
use tokio::{
    process::{Child, Command},
    time::{Instant, timeout},
};

/// Time without a daemon before one is started. A restart of the daemon is faster.
const START_DELAY: Duration = Duration::from_secs(2);

/// Minimum time between two starts.
const RESTART_PAUSE: Duration = Duration::from_secs(5);

/// Time limit for the daemon to stop itself and its servers.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The configuration for new daemons, and the daemon that was started.
pub struct Starter {
    config: PathBuf,
    since: Option<Instant>,
    not_before: Option<Instant>,
    child: Option<Child>,
}

impl Starter {
    pub fn new(config: PathBuf) -> Self {
        Self {
            config,
            since: None,
            not_before: None,
            child: None,
        }
    }

    /// Records that a daemon is attached again.
    pub fn is_back(&mut self) {
        self.since = None;
    }

    /// Records that no daemon is attached. Starts a daemon after `START_DELAY`.
    pub fn is_away(&mut self) {
        let now = Instant::now();
        let start = *self.since.get_or_insert(now);
        if self.is_running()
            || now - start < START_DELAY
            || self.not_before.is_some_and(|time| now < time)
        {
            return;
        }
        self.not_before = Some(now + RESTART_PAUSE);
        complain("the daemon is gone; starting the servers here");
        match self.start() {
            Ok(child) => self.child = Some(child),
            Err(error) => complain(&format!("cannot start a daemon: {error}")),
        }
    }

    fn is_running(&mut self) -> bool {
        let Some(child) = &mut self.child else {
            return false;
        };
        match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                tracing::debug!(%status, "the daemon that was started here has ended");
                self.child = None;
                false
            }
            Err(error) => {
                tracing::debug!(%error, "the daemon that was started here cannot be waited for");
                self.child = None;
                false
            }
        }
    }

    /// Starts a daemon that ends with this process, because its stdin then closes.
    fn start(&self) -> io::Result<Child> {
        Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .arg("--config")
            .arg(&self.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
    }

    /// Ends the daemon that was started, if any.
    pub async fn end(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        drop(child.stdin.take());
        let ended: io::Result<ExitStatus> = match timeout(END_LIMIT, child.wait()).await {
            Ok(ended) => ended,
            Err(_) => child.kill().await.map(|()| ExitStatus::default()),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "the daemon that was started here may still run");
        }
    }
}
