//! Turns transparent huge pages off for Mainstay. Its heap is small and scattered, and with them the
//! allocator holds twice the memory. Children get them back.

use std::{
    env,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Tells a daemon that its guardian has turned them off: a process inherits that.
pub const TURNED_OFF: &str = "MAINSTAY_HUGE_PAGES_OFF";

static TURNED_OFF_BY_US: AtomicBool = AtomicBool::new(false);

/// To be called before much memory is used: what is huge stays so.
pub fn turn_off() {
    let inherited = env::var_os(TURNED_OFF).is_some();
    // A kernel without them has nothing to turn off.
    if inherited || transparent_huge_pages_are_disabled().is_ok_and(|disabled| !disabled) {
        let done = disable_transparent_huge_pages(true).is_ok();
        TURNED_OFF_BY_US.store(done, Ordering::Relaxed);
    }
}

/// Whether this process or its guardian did it, and not the process that started Mainstay.
pub fn are_turned_off_by_us() -> bool {
    TURNED_OFF_BY_US.load(Ordering::Relaxed)
}

/// In a child, for the program that it will run. One that stays without them is only slow.
pub fn turn_on() {
    disable_transparent_huge_pages(false).ok();
}
