//! Job control (Ctrl-Z, `fg`). The terminal is restored while the process is stopped.

pub use imp::{JobControl, ask_to_stop, stop_ourselves};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// SIGTSTP. While `top` listens for this signal, the signal does not stop the process.
    Stop,
    /// SIGCONT, after the process was stopped.
    Continue,
}

#[cfg(unix)]
mod imp {
    use std::io;

    use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
    use tokio::signal::unix::{self, SignalKind, signal};

    use super::Job;

    #[derive(Debug)]
    pub struct JobControl {
        stop: unix::Signal,
        go_on: unix::Signal,
    }

    impl JobControl {
        pub fn listen() -> io::Result<Self> {
            let kind = |signal: Signal| SignalKind::from_raw(signal.as_raw());
            Ok(Self {
                stop: signal(kind(Signal::TSTP))?,
                go_on: signal(kind(Signal::CONT))?,
            })
        }

        pub async fn next(&mut self) -> Job {
            tokio::select! {
                _ = self.stop.recv() => Job::Stop,
                _ = self.go_on.recv() => Job::Continue,
            }
        }
    }

    /// Sends SIGTSTP to the whole process group, as Ctrl-Z in a terminal does.
    pub fn ask_to_stop() {
        // Ignore the error: a process may always signal its own group.
        kill_current_process_group(Signal::TSTP).ok();
    }

    /// Stops the process. Returns when it is continued.
    pub fn stop_ourselves() {
        kill_process(getpid(), Signal::STOP).ok();
    }
}

#[cfg(windows)]
mod imp {
    use std::{future::pending, io};

    use super::Job;

    #[derive(Debug)]
    pub struct JobControl;

    impl JobControl {
        pub fn listen() -> io::Result<Self> {
            Ok(Self)
        }

        pub async fn next(&mut self) -> Job {
            pending().await
        }
    }

    pub fn ask_to_stop() {}

    pub fn stop_ourselves() {}
}
