//! Helpers for the tests of several crates: waits, time limits, and runs of `mainstay`. This crate is
//! never shipped. It uses no other crate of Mainstay, so that each crate can use it in its tests.

pub mod certificates;
#[cfg(unix)]
mod home;
pub mod limits;
#[cfg(unix)]
mod running;
mod runtime;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod transcript;
mod wait;
pub mod zip;

#[cfg(unix)]
pub use home::{Home, Serving, get};
#[cfg(unix)]
pub use running::{Running, lines};
pub use runtime::runtime_that_waits;
#[cfg(unix)]
pub use terminal::Terminal;
#[cfg(unix)]
pub use transcript::Run;
pub use wait::{found, glances, soon, until, within};

/// A [`Home`] for the program that cargo has built for these tests.
#[macro_export]
macro_rules! home {
    () => {
        $crate::Home::new(env!("CARGO_BIN_EXE_mainstay"))
    };
}
