//! Servers that are child processes: finding, starting, measuring and ending them.

pub mod command;
pub mod cpu;
pub mod environment;
pub mod helper_command;
#[cfg(target_os = "linux")]
pub mod parent_death;
pub mod program_folders;
pub mod signs_of_work;
pub mod stdio;

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub use self::system::{ProcessGroup, end_marked, exit, group, kill, spawn, terminate};
