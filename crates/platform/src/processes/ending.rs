//! Ends marked processes for all callers at once. One thread serves all callers with one walk through /proc,
//! so a thousand losses at the same time cost little more than one.

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::{LazyLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use super::{FIRST_PAUSE, KILL_LIMIT, LAST_PAUSE, Processes};
use crate::{
    blocking,
    lineage::{Brand, Marks},
};

/// The queue of the thread. Each start of a server has at most one caller in it.
static QUEUE: LazyLock<mpsc::Sender<Wait>> = LazyLock::new(|| {
    let (waits, queue) = mpsc::channel();
    let started = thread::Builder::new()
        .name("process-ending".to_owned())
        .spawn(move || serve(&queue));
    if let Err(error) = started {
        tracing::error!(%error, "the thread that ends servers' processes could not be started");
    }
    waits
});

/// Kills all processes with these marks in their environment, or with their brand, and all their descendants.
/// Returns when none of them is left, with the ids of processes that cannot be ended.
pub async fn end_marked(marks: &Marks) -> Vec<i32> {
    let (wait, receiver) = Wait::new(marks.entries(), marks.brand);
    if QUEUE.send(wait).is_ok()
        && let Ok(left) = receiver.await
    {
        return left;
    }
    // The thread could not be started. Search for these marks on a blocking thread.
    let (wait, receiver) = Wait::new(marks.entries(), marks.brand);
    blocking::off_the_runtime(move || {
        let mut waits = Waits(vec![wait]);
        while !waits.0.is_empty() {
            waits.look(&mut Machine, Instant::now());
            thread::sleep(LAST_PAUSE);
        }
    })
    .await;
    receiver.await.unwrap_or_default()
}

fn serve(queue: &mpsc::Receiver<Wait>) {
    let mut waits = Waits::default();
    let mut pause = FIRST_PAUSE;
    loop {
        if waits.0.is_empty() {
            let Ok(wait) = queue.recv() else { return };
            waits.0.push(wait);
            pause = FIRST_PAUSE;
        }
        // The walk starts after these requests have arrived, so it finds their processes.
        for wait in queue.try_iter() {
            waits.0.push(wait);
            pause = FIRST_PAUSE;
        }
        let started_at = Instant::now();
        waits.look(&mut Machine, started_at);
        // Losses in quick succession share the next walk. Walks take at most half of the time.
        let rest = if waits.0.is_empty() {
            Duration::ZERO
        } else {
            pause
        };
        thread::sleep(rest.max(started_at.elapsed()));
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// The system calls of a walk. Tests replace them.
trait ProcessTable {
    fn processes(&mut self) -> Processes;
    /// The environment: entries `NAME=value`, each followed by a zero byte.
    fn environment(&mut self, pid: Pid) -> Option<Vec<u8>>;
    /// The limit of real time of a process, in microseconds. The limit may be a [`Brand`].
    fn real_time(&mut self, pid: Pid) -> Option<u64>;
    fn kill(&mut self, pid: Pid);
}

struct Machine;

/// The label of the limit that holds a [`Brand`], in `/proc/PID/limits` (proc(5)).
const REAL_TIME: &str = "Max realtime timeout";

impl ProcessTable for Machine {
    fn processes(&mut self) -> Processes {
        Processes::now()
    }

    fn environment(&mut self, pid: Pid) -> Option<Vec<u8>> {
        // Environments of other users cannot be read. Their processes are not ours.
        fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()
    }

    fn real_time(&mut self, pid: Pid) -> Option<u64> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_pid())).ok()?;
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix(REAL_TIME))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }

    fn kill(&mut self, pid: Pid) {
        // An error means that the process is gone.
        kill_process(pid, Signal::KILL).ok();
    }
}

/// A caller that waits until no process with these marks is left.
struct Wait {
    /// Entries `NAME=value`. The last mark is the most specific.
    marks: Vec<String>,
    brand: Brand,
    since: Instant,
    ended: oneshot::Sender<Vec<i32>>,
}

impl Wait {
    fn new(marks: Vec<String>, brand: Brand) -> (Self, oneshot::Receiver<Vec<i32>>) {
        let (ended, receiver) = oneshot::channel();
        let wait = Self {
            marks,
            brand,
            since: Instant::now(),
            ended,
        };
        (wait, receiver)
    }
}

/// All callers that wait at the moment.
#[derive(Default)]
struct Waits(Vec<Wait>);

impl Waits {
    /// Walks through all processes once. Kills the marked processes, and answers the callers whose processes
    /// have ended.
    fn look(&mut self, world: &mut impl ProcessTable, now: Instant) {
        let processes = world.processes();
        let found = self.found(&processes, world);
        for pid in found.iter().flatten() {
            world.kill(*pid);
        }
        let waits = std::mem::take(&mut self.0);
        for (wait, left) in waits.into_iter().zip(found) {
            if left.is_empty() || now.duration_since(wait.since) > KILL_LIMIT {
                let left = left.into_iter().map(Pid::as_raw_pid).collect();
                // The caller may have stopped waiting.
                wait.ended.send(left).ok();
            } else {
                self.0.push(wait);
            }
        }
    }

    /// The processes of each caller. Each environment is read once for all callers.
    fn found(&self, processes: &Processes, world: &mut impl ProcessTable) -> Vec<HashSet<Pid>> {
        let mut by_mark = HashMap::<&[u8], Vec<usize>>::new();
        for (place, wait) in self.0.iter().enumerate() {
            // A caller without marks matches no process.
            if let Some(mark) = wait.marks.last() {
                by_mark.entry(mark.as_bytes()).or_default().push(place);
            }
        }
        let instances = self.0.iter().filter_map(|wait| wait.marks.first());
        let instances: HashSet<&[u8]> = instances.map(String::as_bytes).collect();
        let mut found = vec![HashSet::new(); self.0.len()];
        for pid in processes.ours() {
            // The environment of an undumpable process cannot be read.
            let environment = world.environment(pid).unwrap_or_default();
            let entries = || environment.split(|byte| *byte == 0);
            let has = |mark: &String| entries().any(|entry| entry == mark.as_bytes());
            for &place in entries().filter_map(|entry| by_mark.get(entry)).flatten() {
                if self.0[place].marks.iter().all(has) {
                    found[place].insert(pid);
                }
            }
            let is_marked = entries().any(|entry| instances.contains(entry));
            if let Some(limit) = (!is_marked).then(|| world.real_time(pid)).flatten() {
                for (place, wait) in self.0.iter().enumerate() {
                    if wait.brand.is_of(limit) {
                        found[place].insert(pid);
                    }
                }
            }
        }
        for found in &mut found {
            let marked: Vec<Pid> = found.iter().copied().collect();
            found.extend(processes.below(&marked));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::Lineage;

    const INSTANCE: &str = "INSTANCE=i";
    const ROOT: i32 = 1;

    /// Simulated processes. Counts the calls that read them, and records the processes that were killed.
    #[derive(Default)]
    struct Fake {
        /// Id, parent and environment.
        living: Vec<(i32, i32, String)>,
        /// Processes that cannot be killed.
        stuck: HashSet<i32>,
        walks: usize,
        reads: usize,
        kills: Vec<i32>,
        /// Brands of processes.
        brands: HashMap<i32, Brand>,
    }

    impl ProcessTable for Fake {
        fn processes(&mut self) -> Processes {
            self.walks += 1;
            let mut children = HashMap::<Pid, Vec<Pid>>::new();
            for (pid, parent, _) in &self.living {
                children
                    .entry(pid_of(*parent))
                    .or_default()
                    .push(pid_of(*pid));
            }
            Processes(children)
        }

        fn environment(&mut self, pid: Pid) -> Option<Vec<u8>> {
            self.reads += 1;
            let is_same = |process: &&(i32, i32, String)| process.0 == pid.as_raw_pid();
            let (.., environment) = self.living.iter().find(is_same)?;
            Some(environment.clone().into_bytes())
        }

        fn real_time(&mut self, pid: Pid) -> Option<u64> {
            let brand = self.brands.get(&pid.as_raw_pid());
            Some(brand.map_or(u64::MAX, |brand| brand.limit()))
        }

        fn kill(&mut self, pid: Pid) {
            let pid = pid.as_raw_pid();
            self.kills.push(pid);
            if !self.stuck.contains(&pid) {
                self.living.retain(|(living, ..)| *living != pid);
            }
        }
    }

    impl Fake {
        /// Creates a process for each server. Each process has a child without marks.
        fn with_servers(count: i32) -> Self {
            let pairs = (0..count).flat_map(|server| {
                let pid = 1000 + 2 * server;
                let marks = format!("A=1\0{INSTANCE}\0SERVER=s{server}:1\0");
                [(pid, ROOT, marks), (pid + 1, pid, String::new())]
            });
            Self {
                living: pairs.collect(),
                ..Self::default()
            }
        }
    }

    fn pid_of(raw: i32) -> Pid {
        Pid::from_raw(raw).expect("a process id")
    }

    fn brand_of(tag: &str) -> Brand {
        Lineage::default().marks(tag).brand
    }

    fn wait(marks: &[&str]) -> (Wait, oneshot::Receiver<Vec<i32>>) {
        let names = marks.iter().map(ToString::to_string).collect();
        Wait::new(names, brand_of(&marks.join(" ")))
    }

    #[test]
    fn a_hundred_losses_at_once_cost_two_walks() {
        const SERVERS: usize = 1000;
        let mut world = Fake::with_servers(1000);
        let mut waits = Waits::default();
        let mut receiver = Vec::new();
        for server in 0..100 {
            let (wait, ended) = wait(&[INSTANCE, &format!("SERVER=s{server}:1")]);
            waits.0.push(wait);
            receiver.push(ended);
        }
        let now = Instant::now();
        waits.look(&mut world, now);
        let killed: HashSet<i32> = world.kills.iter().copied().collect();
        assert_eq!(killed, (1000..1200).collect::<HashSet<i32>>());
        // A caller is answered only after a walk that has found nothing.
        assert!(
            receiver
                .iter_mut()
                .all(|receiver| receiver.try_recv().is_err())
        );

        waits.look(&mut world, now);
        assert!(waits.0.is_empty());
        for mut ended in receiver {
            assert_eq!(ended.try_recv().expect("told"), Vec::<i32>::new());
        }
        assert_eq!(world.walks, 2);
        assert!(world.reads <= 2 * 2 * SERVERS, "{}", world.reads);
        assert_eq!(world.living.len(), 2 * SERVERS - 200, "others' are left");
    }

    /// A daemon that has cleared its environment ends with its server. A daemon of another server stays.
    #[test]
    fn those_without_an_environment_have_their_brand() {
        let lineage = Lineage::default();
        let (one, other) = (lineage.marks("s0:1"), lineage.marks("s1:1"));
        let mut world = Fake {
            living: vec![(7, ROOT, String::new()), (8, ROOT, String::new())],
            brands: HashMap::from([(7, one.brand), (8, other.brand)]),
            ..Fake::default()
        };
        let mut waits = Waits::default();
        let (wait, mut ended) = Wait::new(one.entries(), one.brand);
        waits.0.push(wait);
        let now = Instant::now();
        waits.look(&mut world, now);
        waits.look(&mut world, now);
        assert_eq!(world.kills, [7]);
        assert_eq!(ended.try_recv().expect("told"), Vec::<i32>::new());
        let all = lineage.marks_of_all();
        waits.0.push(Wait::new(all.entries(), all.brand).0);
        waits.look(&mut world, now);
        assert_eq!(world.kills, [7, 8]);
    }

    #[test]
    fn each_is_told_of_its_own_processes() {
        let mut world = Fake::with_servers(3);
        world.stuck.insert(1002);
        let mut waits = Waits::default();
        let (of_gone, mut gone) = wait(&[INSTANCE, "SERVER=s0:1"]);
        let (of_stuck, mut stuck) = wait(&[INSTANCE, "SERVER=s1:1"]);
        let (of_nobody, mut nobody) = wait(&[INSTANCE, "SERVER=s2:2"]);
        let (of_another, mut another) = wait(&["INSTANCE=other", "SERVER=s2:1"]);
        let since = of_stuck.since;
        waits.0 = vec![of_gone, of_stuck, of_nobody, of_another];

        waits.look(&mut world, since);
        assert_eq!(nobody.try_recv().expect("told"), Vec::<i32>::new());
        assert_eq!(another.try_recv().expect("told"), Vec::<i32>::new());
        waits.look(&mut world, since);
        assert_eq!(gone.try_recv().expect("told"), Vec::<i32>::new());
        assert!(stuck.try_recv().is_err(), "it lives");
        waits.look(&mut world, since + KILL_LIMIT + LAST_PAUSE);
        assert_eq!(stuck.try_recv().expect("told"), vec![1002]);
        assert!(waits.0.is_empty());

        // The mark of an instance matches the processes of all its servers.
        let (of_all, mut all) = wait(&[INSTANCE]);
        waits.0.push(of_all);
        world.stuck.clear();
        waits.look(&mut world, since);
        waits.look(&mut world, since);
        assert_eq!(all.try_recv().expect("told"), Vec::<i32>::new());
        assert!(world.living.is_empty(), "{:?}", world.living);
    }
}
