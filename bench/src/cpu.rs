//! CPU time of process trees and of everything else, from Linux's `/proc`.
//!
//! Resolution is one clock tick (10 ms) per process, so windows of seconds are needed.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io};

/// CPU time spent so far, in clock ticks.
#[derive(Debug)]
pub struct Sample {
    trees: BTreeMap<u32, Process>,
    machine: u64,
}

/// CPU time spent between two samples.
#[derive(Debug)]
pub struct Spent {
    /// By the sampled trees, summed by the processes' names.
    pub by_name: BTreeMap<String, Duration>,
    /// By everything else on the machine, what a hypervisor withheld included: it disturbs.
    pub by_others: Duration,
}

#[derive(Debug)]
struct Process {
    name: String,
    parent: u32,
    ticks: u64,
}

impl Sample {
    /// The processes `roots` and all their descendants, as of now.
    pub fn take(roots: &[u32]) -> io::Result<Self> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // A process may end between the listing and the reading: it is not in this sample.
            if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat"))
                && let Some(process) = Process::parse(&stat)
            {
                all.insert(pid, process);
            }
        }
        let in_trees: Vec<u32> = all
            .keys()
            .copied()
            .filter(|&pid| {
                let ancestry = std::iter::successors(Some(pid), |pid| Some(all.get(pid)?.parent));
                ancestry.take(all.len()).any(|pid| roots.contains(&pid))
            })
            .collect();
        all.retain(|pid, _| in_trees.contains(pid));
        Ok(Self {
            trees: all,
            machine: machine_ticks(&fs::read_to_string("/proc/stat")?),
        })
    }

    /// The time spent since `earlier`.
    pub fn since(&self, earlier: &Self) -> Spent {
        let mut by_name: BTreeMap<String, Duration> = BTreeMap::new();
        for (pid, process) in &self.trees {
            let before = earlier.trees.get(pid).map_or(0, |process| process.ticks);
            *by_name.entry(process.name.clone()).or_default() +=
                from_ticks(process.ticks.saturating_sub(before));
        }
        let machine = from_ticks(self.machine.saturating_sub(earlier.machine));
        Spent {
            by_others: machine.saturating_sub(by_name.values().sum()),
            by_name,
        }
    }
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// All but idle time, from the first line of `/proc/stat`: `cpu user nice system idle iowait irq
/// softirq steal …` (guests' time is part of `user`).
fn machine_ticks(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default();
    let fields = fields.split_ascii_whitespace().skip(1).take(8).enumerate();
    fields
        .filter(|(index, _)| !matches!(index, 3 | 4))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum()
}

impl Process {
    /// One line of `/proc/PID/stat`: `pid (name) state ppid … utime stime …`, the name being
    /// anything, parentheses included.
    fn parse(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            name: name.to_owned(),
            parent: number(1)? as u32,
            ticks: number(11)? + number(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_around_its_name() {
        let line =
            "70 (a) b (c)) R 66 66 2441 0 -1 4194304 102 0 0 0 250 50 0 0 20 0 1 0 105848 31334";
        let process = Process::parse(line).expect("a valid line");
        assert_eq!(process.name, "a) b (c)");
        assert_eq!((process.parent, process.ticks), (66, 300));
    }

    #[test]
    fn a_tree_contains_its_root_and_not_its_parent() {
        let own = std::process::id();
        let sample = Sample::take(&[own]).expect("procfs");
        assert!(sample.trees.contains_key(&own));
        assert!(!sample.trees.contains_key(&sample.trees[&own].parent));
    }

    #[test]
    fn idle_time_is_nobodys() {
        assert_eq!(
            machine_ticks("cpu  1 2 4 100 200 8 16 32 64 128\ncpu0 9 9"),
            63
        );
    }
}
