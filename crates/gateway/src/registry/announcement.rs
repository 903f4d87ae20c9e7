//! [`Announcement`]: news of the registry for its listeners, such as client sessions.

use mainstay_core::{
    catalog::ListKind,
    ids::{ProfileName, ServerName},
};
use mainstay_transport::Notice;
use tokio::time::Instant;

/// News of the registry for its listeners.
#[derive(Clone, Debug)]
pub enum Announcement {
    /// A list of a profile has changed. The time is when the list was published.
    ListChanged(ProfileName, ListKind, Instant),
    /// The profile does not exist any more.
    ProfileGone(ProfileName),
    /// The server has announced that one of its lists has changed.
    ServerListChanged(ServerName, ListKind),
    /// The server has a new shared session. Its log level and subscriptions are not set yet.
    Opened(ServerName),
    /// Servers were added or removed.
    ServersChanged,
    /// The switches of the clients with these names have changed.
    Switched(Vec<String>),
    /// The rules of access, or the limits of a token, have changed.
    AccessChanged,
    /// A log message or a changed resource of the server.
    Notice(ServerName, Notice),
}
