//! What goes to stderr: our own log, panics, and lines for people.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic,
};

use tracing_subscriber::EnvFilter;

use super::screen::Log;
pub use super::screen::complain;

/// `MAINSTAY_LOG` (filter directives, such as `debug` or `mainstay::calls=trace`) wins over
/// `--verbose`. A quiet command says itself what a warning would.
pub fn start(verbose: u8, quiet: bool) {
    let level = match verbose {
        0 if quiet => "error",
        0 => "warn",
        1 => "mainstay=info,warn",
        2 => "mainstay=debug,info",
        _ => "trace",
    };
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::WARN.into())
        .parse_lossy(std::env::var("MAINSTAY_LOG").as_deref().unwrap_or(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Log::new())
        .with_ansi(false)
        .with_target(false)
        .init();
    panic::set_hook(Box::new(tell_panic));
}

/// Says what the usual hook says. The message of a panic may quote text from outside.
fn tell_panic(panic: &panic::PanicHookInfo) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    complain(&format!("thread '{name}' {panic}"));
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        trace.to_string().lines().for_each(complain);
    }
}
