//! Writes the log, panics and lines for people to stderr.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    ffi::OsString,
    fmt, panic,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicI64, Ordering::Relaxed},
    },
};

use chrono::{DateTime, FixedOffset, Local, Offset as _, Utc};
use tracing_subscriber::{
    EnvFilter,
    filter::ParseError as Invalid,
    fmt::{format::Writer, time::FormatTime},
};

pub use super::screen::complain;
use super::{
    screen::{self, Log},
    time,
};

/// Starts the log. `MAINSTAY_LOG` (filter directives, such as `debug` or `mainstay_gateway::calls=trace`)
/// overrides `--verbose`. A quiet command reports errors by itself, so it logs no warnings.
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
        .with_timer(LocalTime::new())
        // It would panic if stderr cannot be written.
        .log_internal_errors(false)
        .init();
    panic::set_hook(Box::new(tell_panic));
}

/// Starts a thread that writes lines, for a program that serves others.
pub fn queue() {
    if let Err(error) = screen::queue_stderr() {
        tracing::warn!(%error, "there is no thread for stderr; a terminal that is stopped will hold everything up");
    }
}

/// Waits a moment for queued lines. Call it before the program ends.
pub fn flush() {
    screen::flush_stderr();
}

/// Formats the log's times: local times as in the output of commands, with the offset of the time zone.
struct LocalTime(Arc<Zone>);

/// The last known offset of the time zone.
#[derive(Default)]
struct Zone {
    seconds: AtomicI32,
    /// The time of the last lookup in quarters of an hour, because offsets change on the quarter.
    quarter: AtomicI64,
}

impl Zone {
    /// Reads the files of the time zone.
    fn look_up(&self, time: DateTime<Utc>) {
        let seconds = time.with_timezone(&Local).offset().local_minus_utc();
        self.seconds.store(seconds, Relaxed);
    }
}

impl LocalTime {
    fn new() -> Self {
        let (zone, now) = (Zone::default(), Utc::now());
        zone.look_up(now);
        zone.quarter.store(quarter(now), Relaxed);
        Self(Arc::new(zone))
    }

    /// The local time. Looks the offset up again every quarter of an hour, on a thread that may block. Lines
    /// that are written meanwhile use the old offset.
    fn local(&self, time: DateTime<Utc>) -> DateTime<FixedOffset> {
        let zone = &self.0;
        if zone.quarter.swap(quarter(time), Relaxed) != quarter(time) {
            let zone = Arc::clone(zone);
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || zone.look_up(time))),
                Err(_) => zone.look_up(time),
            }
        }
        let offset = FixedOffset::east_opt(zone.seconds.load(Relaxed));
        time.with_timezone(&offset.unwrap_or(Utc.fix()))
    }
}

fn quarter(time: DateTime<Utc>) -> i64 {
    time.timestamp().div_euclid(15 * 60)
}

impl FormatTime for LocalTime {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{}", time::with_offset(self.local(Utc::now())))
    }
}

/// Parses the directives of `MAINSTAY_LOG`. The error quotes them.
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

/// Prints the message of the standard hook, escaped, because it may quote external text.
fn tell_panic(panic: &panic::PanicHookInfo) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    complain(&format!("thread '{name}' {panic}"));
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        trace.to_string().lines().for_each(complain);
    }
    // The program may end now.
    flush();
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    /// Times have the offset of the time zone, and the lookup runs off the runtime.
    #[test]
    fn times_are_local() {
        // The other thread is blocked, so that the lookup is not finished when the first line is written.
        let (runtime, release) = mainstay_testkit::runtime_that_waits();
        runtime.block_on(async {
            let (clock, now) = (LocalTime::new(), Utc::now());
            let local = now.with_timezone(&Local).fixed_offset();
            assert_eq!(clock.local(now).to_rfc3339(), local.to_rfc3339());
            clock.0.seconds.store(-3600, Relaxed);
            let later = now + TimeDelta::minutes(15);
            assert_eq!(clock.local(later).offset().local_minus_utc(), -3600);
            drop(release);
            let expected = later.with_timezone(&Local).offset().local_minus_utc();
            while clock.local(later).offset().local_minus_utc() != expected {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn directives_are_read_strictly() {
        for (directives, is_valid) in [
            ("", true),
            ("debug", true),
            ("mainstay_gateway::calls=trace,info", true),
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
