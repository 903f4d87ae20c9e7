//! Ties a child's life to Mainstay's: the kernel kills the child when Mainstay ends, however it ends.
//! Mainstay turns off huge pages and core dumps for itself, and the child gets both back. The child also gets
//! the brand of its server.
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

/// Makes the kernel kill the child when the *thread* that starts the child ends. `real_time` is the resource
/// limit that brands the child and all its descendants.
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
            // If the system refuses the limit, the process only has the marks in its environment.
            setrlimit(Resource::Rttime, brand).ok();
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The kernel sends no signal for a parent that ended before the call.
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
