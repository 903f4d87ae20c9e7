//! Child processes on Unix. Each has a process group and is ended as a group, together with processes that
//! left the group.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod spawning;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod spawning;

pub use self::spawning::{end_marked, spawn};

/// Makes the child lead a process group, so that its own children (npx starts node, uvx starts python) can be
/// ended with it.
fn isolate(command: &mut Command) {
    command.process_group(0);
}

/// Sends SIGTERM to every process of the child's group.
pub fn terminate(child: &Child) {
    signal(child, Signal::TERM);
}

/// Kills every process of the child's group.
pub fn kill(child: &Child) {
    signal(child, Signal::KILL);
}

/// Sends a signal to the child's group. The id still belongs to the group: a child keeps its id until it is
/// reaped, and tokio reports no id for a reaped child.
fn signal(child: &Child, signal: Signal) {
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else {
        return;
    };
    if let Err(error) = kill_process_group(pid, signal) {
        tracing::debug!(%error, ?signal, "the process group is gone already");
    }
}

/// A group whose leader may have been reaped. No other process can get the id of the group while a member
/// lives.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup(Option<Pid>);

pub fn group(child: &Child) -> ProcessGroup {
    ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
}

impl ProcessGroup {
    /// Kills the members that outlived the leader.
    pub fn kill_rest(self) {
        if let Some(pid) = self.0 {
            // An error means that no process is left.
            kill_process_group(pid, Signal::KILL).ok();
        }
    }
}

/// The exit code, and the signal that ended the process.
pub fn exit(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}
