//! Unixes other than Linux: nothing ties a child to Mainstay, and nothing shows which processes left
//! its group. Not tested: see the platform table of the README.

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
