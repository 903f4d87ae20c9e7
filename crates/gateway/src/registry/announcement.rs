//! The announcements of the registry to its listeners.

use mainstay_core::{
    catalog::ListKind,
    ids::{ProfileName, ServerName},
};
use mainstay_transport::Notice;
use tokio::time::Instant;

/// An announcement of the registry to its listeners.
#[derive(Clone, Debug)]
pub enum Announcement {
    /// A list of a profile has changed; the new one had been published at that time.
    ListChanged(ProfileName, ListKind, Instant),
    /// There is no such profile any more.
    ProfileGone(ProfileName),
    /// A server says that a list of its own has changed.
    ServerListChanged(ServerName, ListKind),
    /// A server has a new shared session, which knows nothing of log levels and subscriptions.
    Opened(ServerName),
    /// Servers have come or gone.
    ServersChanged,
    /// Other things are switched off for the clients of these names.
    Switched(Vec<String>),
    /// A log message or a changed resource of a server.
    Notice(ServerName, Notice),
}
