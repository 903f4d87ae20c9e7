//! The resources of processes, from /proc.

use std::{fs, io};

/// Maximum growth from the warm-up to the end, in percent.
const GROWTH: usize = 10;

/// Maximum growth as an absolute number, if that is more than [`GROWTH`] allows. Of few threads and descriptors, one is
/// more than a tenth.
const SMALL: usize = 2;

/// Like [`SMALL`], for threads. A burst of blocking work starts threads, which stay until there is no blocking work for
/// ten seconds. A leak of a thread for each call or each fault would exceed this number.
const SMALL_THREADS: usize = 8;

/// Like [`SMALL`], for memory in KiB. In a short run of an unoptimised build, the first round may have no flood, and
/// the allocator keeps the memory of a flood for a while. A long run needs no such allowance.
const SMALL_MEMORY: usize = if cfg!(debug_assertions) {
    16 * 1024
} else {
    SMALL
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    pub threads: usize,
    pub descriptors: usize,
    /// Proportional set size (PSS): shared memory is divided among its users.
    pub memory_kib: usize,
}

impl Usage {
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let count =
            |folder| Ok::<_, io::Error>(fs::read_dir(format!("/proc/{pid}/{folder}"))?.count());
        let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let pss = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
        let pss = pss.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Ok(Self {
            threads: count("task")?,
            descriptors: count("fd")?,
            memory_kib: pss.ok_or(io::ErrorKind::InvalidData)?,
        })
    }

    /// Returns the sum of each figure.
    pub fn plus(self, other: Self) -> Self {
        Self {
            threads: self.threads + other.threads,
            descriptors: self.descriptors + other.descriptors,
            memory_kib: self.memory_kib + other.memory_kib,
        }
    }

    /// Returns the minimum of each figure, because calls in flight are not a leak.
    pub fn least(self, other: Self) -> Self {
        Self {
            threads: self.threads.min(other.threads),
            descriptors: self.descriptors.min(other.descriptors),
            memory_kib: self.memory_kib.min(other.memory_kib),
        }
    }
}

/// Returns the figures that have grown too much, from the first of these, after the warm-up, to the last.
pub fn growth(rounds: &[Usage]) -> Vec<String> {
    let [first, _, .., last] = rounds else {
        return Vec::new();
    };
    [
        ("threads", first.threads, last.threads, SMALL_THREADS),
        ("descriptors", first.descriptors, last.descriptors, SMALL),
        (
            "KiB of memory",
            first.memory_kib,
            last.memory_kib,
            SMALL_MEMORY,
        ),
    ]
    .into_iter()
    .filter(|(_, first, last, small)| *last > first + (first * GROWTH / 100).max(*small))
    .map(|(unit, first, last, _)| {
        format!("{last} {unit} after the last round, {first} after the warm-up")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_no_growth_and_more_is() {
        let grown = |to: usize| {
            let held = |memory_kib| Usage {
                threads: 6,
                descriptors: 150,
                memory_kib,
            };
            growth(&[held(1_000_000), held(2_000_000), held(to)]).len()
        };
        assert_eq!([1_100_000, 1_100_001].map(grown), [0, 1]);
    }
}
