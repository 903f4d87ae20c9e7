//! The process above the daemon. It outlives the daemon and ends all processes that the daemon leaves behind
//! (docs/dev/design.md, "Guardian and processes").
//!
//! A command that starts servers becomes two processes. The first process is the guardian, and the daemon is
//! its only direct child. Every descendant that loses its parent becomes a child of the guardian, so that no
//! process gets lost. Systems without such a mechanism have no guardian.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use self::linux::take_post;

/// The role of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// The process runs the command.
    Daemon,
    /// The process was the guardian and has nothing more to do. It exits with the daemon's code.
    Relieved { exit: u8 },
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub fn take_post() -> std::io::Result<Post> {
    Ok(Post::Daemon)
}
