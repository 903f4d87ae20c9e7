//! The shared parts of all commands: finding the daemon, printing, errors, and descriptions of the daemon's
//! answers. The commands themselves are in other crates.
//!
//! Only [`screen`] writes to stdout and stderr. Services of the program for its commands, such as starting a
//! daemon, are a trait, [`host::Host`].

pub mod clients;
pub mod completion_names;
pub mod connect;
mod error;
mod fate;
pub mod happened;
mod hint;
pub mod host;
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
