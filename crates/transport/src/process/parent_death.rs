//! Ties a child's life to Mainstay's: the kernel kills the child when Mainstay ends, however it ends.
//! Also gives the child the huge pages and core dumps that Mainstay turns off for itself, and the brand of its server.
#![expect(
    unsafe_code,
    reason = "what a child does between fork and exec cannot be said otherwise"
)]

use mainstay_platform::{core_dumps, huge_pages};
use rustix::{
    io::Errno,
    process::{
        Resource, Rlimit, Signal, getpid, getppid, getrlimit, set_parent_process_death_signal,
        setrlimit,
    },
};
use tokio::process::Command;

/// The signal comes when the *thread* ends that starts the child.
/// `real_time` is the limit that the child and all that it starts have in common.
pub fn tie(command: &mut Command, real_time: Option<u64>) {
    let parent = getpid();
    let turn_huge_pages_on = huge_pages::are_turned_off_by_us();
    let core_dumps = core_dumps::before();
    let tie = move || {
        if turn_huge_pages_on {
            huge_pages::turn_on();
        }
        if let Some(before) = core_dumps {
            setrlimit(Resource::Core, before).ok();
        }
        if let Some(limit) = real_time {
            let brand = Rlimit {
                current: Some(limit),
                ..getrlimit(Resource::Rttime)
            };
            // A system that does not let it has the marks of the environment alone.
            setrlimit(Resource::Rttime, brand).ok();
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that ended before will not be reported.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(Errno::SRCH.into())
        }
    };
    // SAFETY: seven system calls and comparisons; nothing allocates, locks or reads shared state.
    unsafe {
        command.pre_exec(tie);
    }
}
