//! Time limits of tests. Each limit is many times the usual duration, because tests run at the same
//! time as compilers and other tests. A limit is not a measurement. A test of durations has its own
//! bounds, and says why.

use std::time::Duration;

/// Limit for events in the test's own process and over loopback. They take milliseconds.
pub const IN_PROCESS: Duration = Duration::from_secs(15);

/// Limit for programs that start, answer and end. They take about a second, mostly to start.
pub const PROGRAMS: Duration = Duration::from_secs(40);

/// Limit for a hundred processes that start in turn, and for two hundred servers that reconnect in
/// turn. Mainstay's own limits spread these over ten seconds.
pub const STORM: Duration = Duration::from_secs(60);

/// Limit for floods of 200 MB. Mainstay reads them at 16 MiB/s, which takes about thirteen seconds.
pub const FLOOD: Duration = Duration::from_secs(100);

/// Limit for writes to a disk that other programs use, too. They take tens of milliseconds.
pub const DISK: Duration = Duration::from_mins(1);

/// The pause between two checks of a condition.
pub const GLANCE: Duration = Duration::from_millis(10);
