//! Defaults of the settings that the configuration file leaves out.

use std::time::Duration;

/// Clients add a prefix such as `mcp__mainstay__`. The result must stay below the limit of 64
/// characters that model APIs set.
pub const MAX_NAME_LENGTH: usize = 48;
/// Many clients list tools once and ignore `list_changed`, so the first list waits for the servers.
pub const STARTUP_WAIT: Duration = Duration::from_secs(5);
/// Large enough for a big file in base64, and small enough to limit the memory of one client.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Room for four bodies of maximum size. One client can use half of it.
pub const MAX_BODIES_BYTES: usize = 4 * MAX_BODY_BYTES;
pub const MAX_UNREAD_BYTES: usize = 4 * MAX_BODY_BYTES;
/// Time for the largest body on a slow connection: 64 MiB at 2 Mbit/s.
pub const BODY_TIMEOUT: Duration = Duration::from_mins(5);
/// 20,000 idle sessions use at most 400 MB (20 kB each). One token or address gets half of them,
/// which is enough for a large deployment whose clients share one proxy.
pub const MAX_CLIENT_SESSIONS: usize = 20_000;
pub const MAX_SESSIONS_PER_CLIENT: usize = 10_000;
/// One address can use three quarters of the connections. The rest stays free for other addresses.
pub const MAX_CONNECTIONS: usize = 4096;
pub const MAX_CONNECTIONS_PER_ADDRESS: usize = 3072;
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// [`MAX_MESSAGE_BYTES`] of preset `desktop`.
pub const MAX_MESSAGE_BYTES_DESKTOP: usize = 1024 * 1024;
/// Minimum of `result.maxInlineBytes`: room for a useful beginning of the result and the link.
pub const LEAST_INLINE_BYTES: u32 = 1024;
/// Container engines kill a program after 10 seconds. The servers need some of this time to exit.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Prevents a burst of attempts when many servers come back at the same time.
pub const MAX_ATTEMPTS_PER_SECOND: u32 = 50;
/// Each session of a stdio server is a process.
pub const MAX_SESSIONS_STDIO: usize = 8;
pub const MAX_SESSIONS_HTTP: usize = 64;

/// The default of `maxTimeoutMs`: the limit to which progress may extend a call with this timeout.
pub fn max_call_timeout(call_timeout: Duration) -> Duration {
    (call_timeout * 10).max(Duration::from_secs(600))
}
