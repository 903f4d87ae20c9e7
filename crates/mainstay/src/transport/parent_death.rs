//! Ties a child's life to ours: the kernel kills it when we end, however we end.
#![expect(
    unsafe_code,
    reason = "what a child does between fork and exec cannot be said otherwise"
)]

use rustix::{
    io::Errno,
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
};
use tokio::process::Command;

/// The signal comes when the *thread* ends that starts the child.
pub fn tie(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that ended before will not be reported.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(Errno::SRCH.into())
        }
    };
    // SAFETY: three system calls and comparisons; nothing allocates, locks or reads shared state.
    unsafe {
        command.pre_exec(tie);
    }
}
