//! Defaults of the settings that a file leaves out.

use std::time::Duration;

/// With the client's own prefix `mcp__mainstay__`, a tool's name stays below the 64 characters that
/// model APIs allow.
pub const MAX_NAME_LENGTH: usize = 48;
/// Many clients list tools once and ignore `list_changed`, so the first list is worth a wait.
pub const STARTUP_WAIT: Duration = Duration::from_secs(5);
/// Enough for a large file as base64, and a limit for the memory that one client can use.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Four of the largest bodies at once. One client gets two of them.
pub const MAX_BODIES_BYTES: usize = 4 * MAX_BODY_BYTES;
pub const MAX_UNREAD_BYTES: usize = 4 * MAX_BODY_BYTES;
/// Enough for the largest body over a slow line: 64 MiB at 2 Mbit/s.
pub const BODY_TIMEOUT: Duration = Duration::from_mins(5);
/// An idle session costs at most 20 kB, so this number costs at most 400 MB. A large deployment
/// whose clients share one proxy has 10,000 sessions. The same number remains for clients at other
/// addresses.
pub const MAX_CLIENT_SESSIONS: usize = 20_000;
pub const MAX_SESSIONS_PER_CLIENT: usize = 10_000;
/// One address leaves a quarter of the connections to other addresses.
pub const MAX_CONNECTIONS: usize = 4096;
pub const MAX_CONNECTIONS_PER_ADDRESS: usize = 3072;
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// The limit of preset `desktop`.
pub const MAX_MESSAGE_BYTES_DESKTOP: usize = 1024 * 1024;
/// Enough for a useful beginning of the result and the link to the whole.
pub const LEAST_INLINE_BYTES: u32 = 1024;
/// Less than the ten seconds that container engines give a program and its servers to exit.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Prevents a storm of attempts when many servers come back at once.
pub const MAX_ATTEMPTS_PER_SECOND: u32 = 50;
/// Each session of a stdio server is a process.
pub const MAX_SESSIONS_STDIO: usize = 8;
pub const MAX_SESSIONS_HTTP: usize = 64;

/// Default limit to which progress may extend a call with this timeout.
pub fn max_call_timeout(call_timeout: Duration) -> Duration {
    (call_timeout * 10).max(Duration::from_secs(600))
}
