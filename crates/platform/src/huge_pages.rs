//! Disables transparent huge pages for Mainstay. Its heap is small and scattered, and with huge pages it
//! would take twice the memory. Children get huge pages back.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Set by a guardian that has disabled huge pages, because its daemon inherits the setting.
pub const TURNED_OFF: &str = "MAINSTAY_HUGE_PAGES_OFF";

static TURNED_OFF_BY_US: AtomicBool = AtomicBool::new(false);

/// Disables huge pages. Call it before the process uses much memory, because existing huge pages stay.
pub fn turn_off() {
    let inherited = env::var_os(TURNED_OFF).is_some();
    // A kernel without huge pages has nothing to disable.
    if inherited || transparent_huge_pages_are_disabled().is_ok_and(|disabled| !disabled) {
        let done = disable_transparent_huge_pages(true).is_ok();
        TURNED_OFF_BY_US.store(done, Ordering::Relaxed);
    }
}

/// True if this process or its guardian has disabled huge pages. False if they were disabled before Mainstay
/// started.
pub fn are_turned_off_by_us() -> bool {
    TURNED_OFF_BY_US.load(Ordering::Relaxed)
}

/// Enables huge pages in a child, before it runs its program. A failure only makes the program slower.
pub fn turn_on() {
    disable_transparent_huge_pages(false).ok();
}
