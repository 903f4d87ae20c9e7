//! Child processes on Windows. Not tested by us: see the platform table of the README.

use std::process::ExitStatus;

use tokio::process::{Child, Command};

const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

pub fn isolate(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW);
}

/// Windows has no polite signal for a process without a console: its stdin was closed before.
pub fn terminate(_child: &Child) {}

pub fn kill(child: &Child) {
    group(child).kill_rest();
}

#[derive(Clone, Copy, Debug)]
pub struct Group(Option<u32>);

pub fn group(child: &Child) -> Group {
    Group(child.id())
}

impl Group {
    /// `taskkill /T` ends the tree below the process.
    pub fn kill_rest(self) {
        let Some(pid) = self.0 else { return };
        let result = std::process::Command::new("taskkill")
            .args(["/T", "/F", "/PID", &pid.to_string()])
            .status();
        if let Err(error) = result {
            tracing::debug!(%error, pid, "taskkill failed");
        }
    }
}

pub fn exit(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), None)
}
