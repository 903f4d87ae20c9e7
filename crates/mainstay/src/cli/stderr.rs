//! What goes to stderr: our own log, and lines for people.

use std::io::{self, IsTerminal as _, Write as _};

use tracing_subscriber::EnvFilter;

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
        .with_writer(io::stderr)
        .with_ansi(colours())
        .with_target(false)
        .init();
}

/// Whether stderr may be coloured (<https://no-color.org>).
fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A line on stderr.
pub fn complain(line: &str) {
    // With stderr gone there is nobody left to tell.
    writeln!(io::stderr().lock(), "{line}").ok();
}
