//! What all commands share: how they find their daemon, print, fail, and put into words what the daemon says.
//! No command is here.
//!
//! Only [`screen`] writes to stdout and stderr. What only the program can do for a command, such as starting a
//! daemon, is a trait, [`host::Host`].

pub mod clients;
pub mod connect;
mod error;
mod fate;
pub mod happened;
mod hint;
pub mod host;
pub mod known;
pub mod listen;
pub mod news;
pub mod output;
pub mod pending;
pub mod progress;
pub mod run_command;
pub mod screen;
pub mod shape;
pub mod signals;
pub mod starting;
pub mod stderr;
mod stderr_queue;
pub mod style;
pub mod suggest;
pub mod table;
mod template;
pub mod time;
pub mod trouble;
pub mod when;
pub mod wrap;
pub mod yaml;

pub use self::error::{CommandError, Exit, JournalFault};
