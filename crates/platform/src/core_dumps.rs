//! Disables core dumps of Mainstay, whose memory holds the secrets of all servers. Servers get the original
//! limit back.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit of one byte. It also keeps the kernel from piping a dump to a program, which a limit of zero does
/// not (core(5)).
const NONE: u64 = 1;

static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Disables core dumps. Call it before the process reads secrets.
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

/// The limit to restore in children. `None` if it was not changed.
pub fn before() -> Option<Rlimit> {
    BEFORE.get().copied()
}
