//! How long a test waits for something before it fails. Each limit is many times what the thing takes on
//! a machine that does nothing else, for the tests also run beside compilers and beside each other. A
//! limit is no measurement: a test whose subject is time has a bound of its own, with its reason.

use std::time::Duration;

/// For what happens in the test's own process and over loopback: milliseconds.
pub const IN_PROCESS: Duration = Duration::from_secs(15);

/// For programs that start, speak and end: a second, most of it spent in starting them.
pub const PROGRAMS: Duration = Duration::from_secs(40);

/// For a hundred processes that start in turn, and two hundred servers that come back in turn: the limits
/// of Mainstay make that ten seconds.
pub const STORM: Duration = Duration::from_secs(60);

/// For floods of 200 MB, of which 16 MiB are read in a second: thirteen seconds.
pub const FLOOD: Duration = Duration::from_secs(100);

/// For what is written to a disk that others write to as well, and wait for: tens of milliseconds.
pub const DISK: Duration = Duration::from_mins(1);

/// The pause between two looks at a condition that is not announced.
pub const GLANCE: Duration = Duration::from_millis(10);
