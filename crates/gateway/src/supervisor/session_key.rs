//! Keys that identify the upstream sessions of a server.

/// Identifies one isolated upstream session of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IsolatedSessionId(pub u64);

/// Identifies one upstream session of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKey {
    Shared,
    Isolated(IsolatedSessionId),
}
