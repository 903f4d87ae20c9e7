//! Writes to stderr: the log, panics, and lines for people.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    ffi::OsString,
    fmt, panic,
    sync::{Mutex, PoisonError},
};

use chrono::{DateTime, FixedOffset, Local, Offset as _, Utc};
use tracing_subscriber::{
    EnvFilter,
    filter::ParseError as Invalid,
    fmt::{format::Writer, time::FormatTime},
};

pub use super::screen::complain;
use super::{screen::Log, time};

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
    let filter = match std::env::var_os("MAINSTAY_LOG").map(filter) {
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            complain(&format!("MAINSTAY_LOG is ignored: {error}"));
            EnvFilter::new(level)
        }
        None => EnvFilter::new(level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Log::new())
        .with_ansi(false)
        .with_target(false)
        .with_timer(LocalTime::default())
        .init();
    panic::set_hook(Box::new(tell_panic));
}

/// The log's times: local, as commands print them, and with the offset of the time zone.
#[derive(Default)]
struct LocalTime(Mutex<Offset>);

/// The time zone's offset, as it was looked up last.
#[derive(Default)]
struct Offset {
    /// When, in quarters of an hour: offsets change on the quarter.
    quarter: i64,
    known: Option<FixedOffset>,
}

impl LocalTime {
    /// Files of the time zone are read once in a quarter of an hour, and not for each line.
    fn of(&self, time: DateTime<Utc>) -> DateTime<FixedOffset> {
        let quarter = time.timestamp().div_euclid(15 * 60);
        // Locked for the look.
        let mut offset = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if offset.known.is_none() || offset.quarter != quarter {
            let now = time.with_timezone(&Local);
            *offset = Offset {
                quarter,
                known: Some(*now.offset()),
            };
        }
        let known = offset.known.unwrap_or(Utc.fix());
        time.with_timezone(&known)
    }
}

impl FormatTime for LocalTime {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{}", time::with_offset(self.of(Utc::now())))
    }
}

/// Reads the directives of `MAINSTAY_LOG`. The error quotes them.
fn filter(directives: OsString) -> Result<EnvFilter, ParseError> {
    let text = directives.into_string().map_err(|_| ParseError::NotText)?;
    Ok(EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::WARN.into())
        .parse(text)?)
}

#[derive(Debug, thiserror::Error)]
enum ParseError {
    #[error("it is not UTF-8")]
    NotText,
    #[error(transparent)]
    Directive(#[from] Invalid),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_strictly() {
        for (directives, is_valid) in [
            ("", true),
            ("debug", true),
            ("mainstay::calls=trace,info", true),
            ("mainstay=loud", false),
            ("\x1b]0;title\x07=\x1b[31m", false),
        ] {
            let read = filter(directives.into());
            assert_eq!(read.is_ok(), is_valid, "{directives:?}: {read:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn directives_are_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let read = filter(OsString::from_vec(vec![0xff]));
        assert!(matches!(read, Err(ParseError::NotText)));
    }
}
