//! Finds and ends processes of this machine, from /proc (Linux): descendants of a process, and processes with
//! given marks.

mod ending;

use std::{
    collections::{HashMap, HashSet},
    env, fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getppid, kill_process};

pub use self::ending::end_marked;

/// The process id of the guardian, in the daemon's environment.
pub const GUARDIAN: &str = "MAINSTAY_GUARDIAN";

/// The time that killed processes may take to end. The kernel holds a process that takes longer, because a
/// disk or a network share does not answer. Such a process cannot be ended.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The first and the longest pause between two walks. The first is short, for processes that end at once.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// This daemon's guardian, if there is one. It adopts every process of ours whose parent ends.
pub fn guardian() -> Option<Pid> {
    named_guardian().filter(|guardian| getppid() == Some(*guardian))
}

/// The guardian that the environment names. It may belong to a Mainstay further up in the chain.
pub fn named_guardian() -> Option<Pid> {
    Pid::from_raw(env::var(GUARDIAN).ok()?.parse().ok()?)
}

/// The living processes and their children at one moment. Zombies do not count.
pub struct Processes(HashMap<Pid, Vec<Pid>>);

impl Processes {
    pub fn now() -> Self {
        let mut children = HashMap::<Pid, Vec<Pid>>::new();
        // Without /proc no process is found.
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw)
                && let Some(parent) = living_parent(pid)
            {
                children.entry(parent).or_default().push(pid);
            }
        }
        Self(children)
    }

    /// All descendants of `roots` at any depth, without `roots`.
    pub fn below(&self, roots: &[Pid]) -> HashSet<Pid> {
        let mut found = HashSet::new();
        let mut parents = roots.to_vec();
        while let Some(parent) = parents.pop() {
            for &child in self.0.get(&parent).into_iter().flatten() {
                if found.insert(child) {
                    parents.push(child);
                }
            }
        }
        found
    }

    /// All processes that may be ours: the guardian's descendants, or all processes if there is no guardian.
    fn ours(&self) -> Vec<Pid> {
        match guardian() {
            Some(guardian) => self.below(&[guardian]).into_iter().collect(),
            None => self.0.values().flatten().copied().collect(),
        }
    }
}

/// The number and memory of processes that were started together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub processes: u64,
    /// Resident memory in bytes. Shared memory counts for each process.
    pub memory: u64,
}

/// The processes with these marks (`NAME=value`) and their descendants, grouped by the value of `variable` in
/// their environment. Reads only descendants of this process or of its guardian.
pub fn trees(marks: &[String], variable: &str) -> HashMap<String, Tree> {
    let now = Processes::now();
    let parents = Pid::from_raw(std::process::id().cast_signed()).into_iter();
    let roots = parents
        .chain(guardian())
        .filter_map(|parent| now.0.get(&parent))
        .flatten();
    let mut trees = HashMap::<String, Tree>::new();
    for &root in roots {
        let Some(value) = environment(root, marks, variable) else {
            continue;
        };
        let tree = trees.entry(value).or_default();
        for pid in now.below(&[root]).into_iter().chain([root]) {
            tree.processes += 1;
            tree.memory += resident(pid);
        }
    }
    trees
}

/// The value of a variable in a process's environment, if the environment has all of these marks.
fn environment(pid: Pid, marks: &[String], variable: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let has = |mark: &String| {
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_bytes())
    };
    let value = environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(variable.as_bytes())?;
        value.strip_prefix(b"=")
    });
    value
        .filter(|_| marks.iter().all(has))
        .map(|value| String::from_utf8_lossy(value).into_owned())
}

/// The resident memory of a process in bytes (proc(5), `/proc/pid/statm`). 0 if the process has ended.
fn resident(pid: Pid) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_pid()));
    let pages = statm.ok().and_then(|statm| {
        let pages = statm.split(' ').nth(1)?;
        pages.parse::<u64>().ok()
    });
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

/// The resident memory of this process in bytes. 0 if it is unknown.
pub fn own_memory() -> u64 {
    Pid::from_raw(std::process::id().cast_signed()).map_or(0, resident)
}

/// The memory, the open files and the CPU time of this process.
#[derive(Clone, Copy, Debug)]
pub struct OwnUsage {
    /// Resident memory in bytes.
    pub memory: u64,
    pub open_files: u64,
    /// User and system time.
    pub cpu: Duration,
}

impl OwnUsage {
    pub fn now() -> Self {
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name may contain anything. User and system time are fields 14 and 15.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let times = fields.split(' ').skip(11).take(2);
        let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Self {
            memory: own_memory(),
            open_files: files as u64,
            cpu: Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()),
        }
    }
}

/// The parent of a living process, from `/proc/PID/stat`. The format is `PID (NAME) STATE PARENT …`, and the
/// name may contain anything.
fn living_parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let after_name = &stat[memchr::memrchr(b')', &stat)? + 1..];
    let mut fields = std::str::from_utf8(after_name)
        .ok()?
        .split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    Pid::from_raw(fields.next()?.parse().ok()?)
}

/// Ends the processes that `find` returns, until `find` returns none. Sends SIGTERM first, and SIGKILL once
/// `grace` has passed. Blocks the thread for at most `grace` and [`KILL_LIMIT`]. Returns the ids of processes
/// that could not be ended.
pub fn end(find: impl Fn(&Processes) -> HashSet<Pid>, grace: Duration) -> Vec<i32> {
    let since = Instant::now();
    let mut terminated = HashSet::new();
    let mut pause = FIRST_PAUSE;
    loop {
        let found = find(&Processes::now());
        let elapsed = since.elapsed();
        if found.is_empty() || elapsed > grace + KILL_LIMIT {
            return found.into_iter().map(Pid::as_raw_pid).collect();
        }
        for &pid in &found {
            // An error means that the process is gone.
            if elapsed >= grace {
                kill_process(pid, Signal::KILL).ok();
            } else if terminated.insert(pid) {
                kill_process(pid, Signal::TERM).ok();
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::lineage::Lineage;

    /// The time limit for processes to start.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn soon<T>(goal: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < until, "waited in vain for {goal}");
            thread::sleep(FIRST_PAUSE);
        }
    }

    /// A shell with marks, and its child without marks. Both end with the test in any case.
    struct Tree(Child);

    impl Tree {
        fn start<'m>(marks: impl IntoIterator<Item = (&'m str, &'m str)>) -> Self {
            let mut command = Command::new("sh");
            // `env -i` starts the child without marks.
            command.args(["-c", "env -i sleep 600; :"]).envs(marks);
            Self(command.spawn().expect("sh is there"))
        }

        fn root(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
                let root = self.root();
                for pid in Processes::now().below(&[root]).into_iter().chain([root]) {
                    // The process may be gone.
                    kill_process(pid, Signal::KILL).ok();
                }
                self.0.wait().ok();
            }
        }
    }

    #[test]
    fn a_tree_is_known_by_the_environment_of_its_root() {
        let root = std::process::id().to_string();
        let mark = format!("TEST_TREES_OF={root}");
        let _marked = Tree::start([("TEST_TREES_OF", &*root), ("TEST_TREE", "one:1")]);
        let trees = soon("the tree", || {
            let trees = trees(std::slice::from_ref(&mark), "TEST_TREE");
            let tree = trees.get("one:1")?;
            (tree.processes == 2).then_some(trees)
        });
        assert_eq!(trees.len(), 1, "{trees:?}");
        assert!(trees["one:1"].memory > 0, "{trees:?}");
        assert!(super::trees(&["TEST_TREES_OF=0".to_owned()], "TEST_TREE").is_empty());

        let usage = OwnUsage::now();
        assert!(usage.memory > 0 && usage.open_files > 2, "{usage:?}");
    }

    #[tokio::test]
    async fn the_marked_are_ended_with_those_below() {
        let lineage = Lineage::default();
        let (one, other) = (lineage.marks("one:1"), lineage.marks("other:1"));
        let (mut marked, mut spared) =
            (Tree::start(one.variables()), Tree::start(other.variables()));
        // Wait until each shell has its child.
        let below = |tree: &Tree| Processes::now().below(&[tree.root()]);
        let child = soon("those below", || below(&marked).into_iter().next());
        soon("those below", || below(&spared).into_iter().next());

        assert_eq!(end_marked(&one).await, Vec::<i32>::new());
        marked.0.wait().expect("ended");
        assert!(
            living_parent(child).is_none(),
            "it has no marks, but an ancestor with them"
        );
        assert!(
            spared.0.try_wait().expect("it can be asked").is_none(),
            "another server's"
        );

        assert_eq!(end_marked(&lineage.marks_of_all()).await, Vec::<i32>::new());
        spared.0.wait().expect("ended");
    }
}
