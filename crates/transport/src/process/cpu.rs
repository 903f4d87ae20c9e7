//! CPU time and I/O of a server's processes. A server that uses CPU time does not hang.

use std::time::Duration;

use mainstay_core::start::Tree;
#[cfg(target_os = "linux")]
use mainstay_platform::blocking::try_off_the_runtime;

/// The maximum number of processes of one server that are read.
#[cfg(target_os = "linux")]
const MAX_PROCESSES: usize = 1000;

/// User and system time that a process and all its descendants have spent so far. Descendants in another
/// process group or session count, too. A process that has lost its parent counts if Mainstay's
/// guardian has adopted it and it is in the group of `leader`.
///
/// The cost depends on the number of this server's processes, not on all processes of the machine.
#[cfg(target_os = "linux")]
pub async fn cpu_time(leader: u32) -> Duration {
    // Reading /proc may block.
    let reading = try_off_the_runtime(move || tree::spent(leader));
    // An error means that the runtime is shutting down.
    reading.await.unwrap_or_default()
}

/// Returns zero, because this system has no cheap way to measure CPU time. Zero never excuses a silent
/// server.
#[cfg(not(target_os = "linux"))]
pub async fn cpu_time(_leader: u32) -> Duration {
    Duration::ZERO
}

/// The CPU time and I/O of a process tree during its start. `None` if `leader` has ended.
#[cfg(target_os = "linux")]
pub async fn tree(leader: u32) -> Option<Tree> {
    // Reading /proc may block.
    let reading = try_off_the_runtime(move || tree::now(leader));
    // An error means that the runtime is shutting down.
    reading.await.ok().flatten()
}

/// Returns `None`, because this system has no cheap way to measure a process tree.
#[cfg(not(target_os = "linux"))]
pub async fn tree(_leader: u32) -> Option<Tree> {
    None
}

#[cfg(target_os = "linux")]
mod tree {
    use std::{fs, time::Duration};

    use super::{MAX_PROCESSES, Tree};
    use mainstay_platform::processes;

    pub fn spent(leader: u32) -> Duration {
        let mut ticks = 0;
        visit(leader, |pid| {
            ticks += stat(pid).map_or(0, |stat| stat.ticks);
        });
        time(ticks)
    }

    pub fn now(leader: u32) -> Option<Tree> {
        stat(leader)?;
        let (mut ticks, mut tree) = (0, Tree::default());
        visit(leader, |pid| {
            if let Some(stat) = stat(pid) {
                ticks += stat.ticks;
                tree.is_runnable |= stat.is_runnable;
            }
            tree.io += io(pid);
        });
        tree.cpu = time(ticks);
        Some(tree)
    }

    fn visit(leader: u32, mut each: impl FnMut(u32)) {
        let mut found = vec![leader];
        found.extend(adopted(leader));
        for _ in 0..MAX_PROCESSES {
            let Some(pid) = found.pop() else { break };
            each(pid);
            found.extend(children(pid));
        }
    }

    fn time(ticks: u64) -> Duration {
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Bytes that a process and its reaped children have read and written, including caches and pipes, and
    /// bytes that were fetched from disks for it (proc(5), `/proc/pid/io`). Some programs read sockets in
    /// ways that are not counted, but their later writes are counted.
    fn io(pid: u32) -> u64 {
        // The counts of a process that has changed its user cannot be read.
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        io.lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| matches!(*name, "rchar" | "wchar" | "read_bytes"))
            .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
            .sum()
    }

    /// The processes of this group whose parent has ended.
    fn adopted(leader: u32) -> impl Iterator<Item = u32> {
        let guardian = processes::guardian().map(|pid| pid.as_raw_pid().cast_unsigned());
        let adopted = guardian.into_iter().flat_map(children);
        adopted.filter(move |pid| stat(*pid).is_some_and(|stat| stat.group == leader))
    }

    /// The children of every thread of a process.
    fn children(pid: u32) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        let threads = tasks.into_iter().flatten().flatten();
        let lists =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let mut found = Vec::new();
        for list in lists {
            found.extend(list.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
        }
        found
    }

    fn stat(pid: u32) -> Option<Stat> {
        Stat::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    #[derive(Debug, PartialEq, Eq)]
    pub struct Stat {
        pub group: u32,
        /// True if the process runs, or waits for a processor.
        pub is_runnable: bool,
        /// Clock ticks of the process and of its reaped children.
        pub ticks: u64,
    }

    impl Stat {
        /// Parses the text of `/proc/PID/stat` (proc(5)).
        pub fn read(stat: &str) -> Option<Self> {
            // The name may contain blanks and parentheses. The fields after it do not.
            let (_, after_name) = stat.rsplit_once(") ")?;
            let mut fields = after_name.split(' ');
            // state, ppid, pgrp … utime, stime, cutime, cstime.
            let is_runnable = fields.next()? == "R";
            let group = fields.nth(1)?.parse().ok()?;
            let times = fields.skip(8).take(4);
            let ticks = times
                .map(|ticks| ticks.parse::<u64>().ok())
                .sum::<Option<u64>>()?;
            Some(Self {
                group,
                is_runnable,
                ticks,
            })
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A shell with a child that computes in its own session. Both end with the test.
    struct Apart(std::process::Child);

    impl Apart {
        fn start() -> Self {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "setsid -w timeout 60 sh -c 'while :; do :; done'; :"]);
            Self(command.spawn().expect("sh is there"))
        }
    }

    impl Drop for Apart {
        fn drop(&mut self) {
            let root = rustix::process::Pid::from_child(&self.0);
            let below = mainstay_platform::processes::Processes::now().below(&[root]);
            for pid in below.into_iter().chain([root]) {
                // The process may have ended in the meantime.
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
            self.0.wait().ok();
        }
    }

    /// The work of any process below the server's process counts.
    #[tokio::test]
    async fn work_in_another_session_is_work() {
        let apart = Apart::start();
        let busy = async {
            while cpu_time(apart.0.id()).await < Duration::from_millis(300) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), busy).await;
        assert!(found.is_ok(), "no work was seen");
    }

    #[test]
    fn ticks_are_read_past_any_name() {
        let stat = "7 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5";
        let expected = tree::Stat {
            group: 42,
            is_runnable: false,
            ticks: 4330,
        };
        assert_eq!(tree::Stat::read(stat), Some(expected));
        let running = tree::Stat::read(&stat.replace(") S ", ") R "));
        assert!(running.is_some_and(|stat| stat.is_runnable));
    }

    /// The work of a child counts, and so does its I/O.
    #[tokio::test]
    async fn work_and_io_of_a_tree_are_seen() {
        let apart = Apart::start();
        let (mut runs, mut looks) = (false, 0);
        let watching = async {
            loop {
                let tree = super::tree(apart.0.id()).await.expect("it runs");
                runs |= tree.is_runnable;
                looks += 1;
                if runs && tree.cpu > Duration::from_millis(100) && tree.io > 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), watching).await;
        assert!(found.is_ok(), "{looks} looks have shown too little");
    }
}
