//! Ties a child's life to Mainstay's: the kernel kills the child when Mainstay ends, however it ends.
//! Also gives the child the huge pages that Mainstay turns off for itself.
#![expect(
    unsafe_code,
    reason = "what a child does between fork and exec cannot be said otherwise"
)]

use mainstay_platform::huge_pages;
use rustix::{
    io::Errno,
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
};
use tokio::process::Command;

/// The signal comes when the *thread* ends that starts the child.
pub fn tie(command: &mut Command) {
    let parent = getpid();
    let turn_huge_pages_on = huge_pages::are_turned_off_by_us();
    let tie = move || {
        if turn_huge_pages_on {
            huge_pages::turn_on();
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that ended before will not be reported.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(Errno::SRCH.into())
        }
    };
    // SAFETY: four system calls and comparisons; nothing allocates, locks or reads shared state.
    unsafe {
        command.pre_exec(tie);
    }
}
