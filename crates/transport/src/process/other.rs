//! Unixes other than Linux: a child is not tied to Mainstay, and processes that left its group cannot be
//! found. Not tested: see the platform table of the README.

#![expect(clippy::unused_async, reason = "Linux waits here")]

use std::io;

use mainstay_platform::lineage::Marks;
use tokio::process::{Child, Command};

use super::isolate;

pub async fn spawn(mut command: Command, marks: Option<&Marks>) -> io::Result<Child> {
    if let Some(marks) = marks {
        command.envs(marks.variables());
    }
    isolate(&mut command);
    command.spawn()
}

pub async fn end_marked(_marks: &Marks) {}
