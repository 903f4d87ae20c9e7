//! Child processes on Windows. Not tested: see the platform table of the README.

use std::{io, process::ExitStatus};

use mainstay_platform::lineage::Marks;
use tokio::process::{Child, Command};

const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

#[expect(clippy::unused_async, reason = "Linux waits here")]
pub async fn spawn(mut command: Command, marks: Option<&Marks>) -> io::Result<Child> {
    if let Some(marks) = marks {
        command.envs(marks.variables());
    }
    command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW);
    command.spawn()
}

/// Does nothing: `taskkill /T` has ended the tree.
#[expect(clippy::unused_async, reason = "Linux waits here")]
pub async fn end_marked(_marks: &Marks) {}

/// Does nothing: Windows has no polite signal for a process without a console. The stdin of the
/// process was closed before.
pub fn terminate(_child: &Child) {}

pub fn kill(child: &Child) {
    group(child).kill_rest();
}

#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup(Option<u32>);

pub fn group(child: &Child) -> ProcessGroup {
    ProcessGroup(child.id())
}

impl ProcessGroup {
    /// Ends the process and its descendants by `taskkill /T`.
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
