//! CPU time of a server's processes: a server that computes is not hung (design section 6).

use std::time::Duration;

/// User and system time that the group of `leader` has spent so far.
#[cfg(target_os = "linux")]
pub fn cpu_time(leader: u32) -> Duration {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let ticks: u64 = processes
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // Only processes are numbers.
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            ticks_in_group(&stat, leader)
        })
        .sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// There is no cheap way to tell: nothing speaks for a silent server.
#[cfg(not(target_os = "linux"))]
pub fn cpu_time(_leader: u32) -> Duration {
    Duration::ZERO
}

/// Ticks that a process has spent, if it belongs to the group (proc(5), `/proc/pid/stat`).
#[cfg(target_os = "linux")]
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    // The name may hold blanks and parentheses; what follows it does not.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    // state, ppid, pgrp … utime, stime, and the same of children that were waited for.
    let pgrp: u32 = fields.nth(2)?.parse().ok()?;
    if pgrp != group {
        return None;
    }
    fields
        .skip(8)
        .take(4)
        .map(|ticks| ticks.parse::<u64>().ok())
        .sum()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_past_any_name() {
        let stat = "7 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5";
        assert_eq!(ticks_in_group(stat, 42), Some(4330));
        assert_eq!(ticks_in_group(stat, 7), None);
    }
}
