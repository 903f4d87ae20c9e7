//! Turns core dumps off for Mainstay, whose memory holds the secrets of all servers. Servers get them back.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A byte. To the kernel it says that a dump is not to be handed to a program either, which zero does not (core(5)).
const NONE: u64 = 1;

static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// To be called early in a process that will read secrets.
pub fn turn_off() {
    let before = getrlimit(Resource::Core);
    let none = Rlimit {
        current: Some(before.maximum.map_or(NONE, |most| most.min(NONE))),
        ..before
    };
    if setrlimit(Resource::Core, none).is_ok() {
        BEFORE.get_or_init(|| before);
    }
}

/// The limit that children are to have, where it was changed.
pub fn before() -> Option<Rlimit> {
    BEFORE.get().copied()
}
