//! The process above the daemon. It outlives the daemon and ends whatever the daemon leaves
//! (docs/dev/design.md, "Guardian and processes").
//!
//! A command that starts servers becomes two processes. The one that was started is the guardian; the
//! daemon is its only own child. Every process below that loses its parent becomes the guardian's
//! child, so that none gets lost. Systems without such a mechanism have no guardian.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use self::linux::take_post;

/// What this process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// The command's own work.
    Daemon,
    /// Nothing more: it was the guardian, and ends as the daemon did.
    Relieved { exit: u8 },
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub fn take_post() -> std::io::Result<Post> {
    Ok(Post::Daemon)
}
