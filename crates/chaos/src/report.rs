//! The figures of a run, and the verdict.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    account::Account,
    caller::{Door, TimedCall},
    plan::{Fault, Transport},
    run::FaultWindow,
    usage::Usage,
};

/// Maximum factor by which calls through Mainstay may be slower than direct calls. It is larger for
/// an unoptimised build, which runs at the same time as other programs.
const FACTOR: f64 = if cfg!(debug_assertions) { 5.0 } else { 2.0 };

/// Maximum difference to direct calls, if that is more than [`FACTOR`] allows: a few turns of the
/// scheduler on a busy machine. It is larger for an unoptimised build, which is slower everywhere.
const FLOOR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 25 } else { 2 });

/// Maximum number of slow calls in the report.
const SLOWEST: usize = 8;

/// Maximum number of failures of one kind in the report.
const SHOWN: usize = 20;

#[derive(Debug, Serialize)]
pub struct RunReport {
    calls: BTreeMap<Door, Calls>,
    direct_p99_ms: f64,
    mainstay_p99_ms: f64,
    /// The slowest healthy calls through Mainstay, with the faults of other servers at that time.
    slowest: Vec<String>,
    account: Account,
    /// The slowest recovery of each kind.
    recoveries: BTreeMap<String, Slowest>,
    rounds: Vec<Usage>,
    failures: Vec<String>,
}

/// The calls of one door. A call is healthy if its server had no fault.
#[derive(Debug, Default, Serialize)]
struct Calls {
    all: usize,
    healthy: usize,
    unanswered_though_healthy: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Slowest {
    count: usize,
    ms: u64,
    bound_ms: u64,
}

pub struct Recovery {
    kind: String,
    duration: Duration,
    bound: Duration,
}

impl Recovery {
    pub fn new(transport: Transport, fault: Fault, duration: Duration, bound: Duration) -> Self {
        let kind = format!("{fault:?} ({transport:?})");
        Self {
            kind,
            duration,
            bound,
        }
    }
}

impl RunReport {
    /// Calls that started before `warm` do not count for latencies.
    pub fn new(
        calls: &[TimedCall],
        warm: Instant,
        windows: &[FaultWindow],
        recoveries: Vec<Recovery>,
        mut account: Account,
        rounds: Vec<Usage>,
        mut failures: Vec<String>,
    ) -> Self {
        failures.extend(first_of(std::mem::take(&mut account.failures)));
        let mut unanswered = 0;
        let mut doors: BTreeMap<Door, (Calls, Vec<Duration>)> = BTreeMap::new();
        for call in calls {
            let (door, times) = doors.entry(call.door).or_default();
            door.all += 1;
            if !is_healthy(call, windows) {
                continue;
            }
            door.healthy += 1;
            match &call.outcome {
                Ok(()) if call.started_at < warm => {}
                Ok(()) => times.push(call.duration),
                Err(trouble) => {
                    door.unanswered_though_healthy += 1;
                    // Direct calls may fail, because they are not under test.
                    if call.door != Door::Direct {
                        unanswered += 1;
                        if unanswered <= SHOWN {
                            failures.push(format!(
                                "healthy s{} did not answer by {:?} after {:?}: {trouble}",
                                call.server, call.door, call.duration
                            ));
                        }
                    }
                }
            }
        }
        for (door, (calls, _)) in &doors {
            if calls.healthy * 2 < calls.all {
                let Calls { all, healthy, .. } = calls;
                failures.push(format!(
                    "only {healthy} of {all} calls by {door:?} say anything"
                ));
            }
        }
        if unanswered > SHOWN {
            failures.push(format!(
                "{unanswered} calls to healthy servers were not answered"
            ));
        }
        let times = |is_chosen: &dyn Fn(Door) -> bool| {
            let chosen = doors.iter().filter(|(door, _)| is_chosen(**door));
            chosen
                .flat_map(|(_, (_, times))| times.iter().copied())
                .collect()
        };
        let direct = quantile(times(&|door| door == Door::Direct), 0.99);
        let mainstay = quantile(times(&|door| door != Door::Direct), 0.99);
        let allowed = direct.mul_f64(FACTOR).max(direct + FLOOR);
        if mainstay > allowed {
            failures.push(format!(
                "p99 through Mainstay is {mainstay:?}, directly {direct:?}"
            ));
        }
        let through = |call: &&TimedCall| {
            call.door != Door::Direct && call.started_at >= warm && is_healthy(call, windows)
        };
        let mut slowest: Vec<&TimedCall> = calls.iter().filter(through).collect();
        slowest.sort_by_key(|call| std::cmp::Reverse(call.duration));
        slowest.truncate(SLOWEST);
        Self {
            calls: doors
                .into_iter()
                .map(|(door, (calls, times))| (door, calls.timed(&times)))
                .collect(),
            direct_p99_ms: ms(direct),
            mainstay_p99_ms: ms(mainstay),
            slowest: slowest
                .into_iter()
                .map(|call| circumstances(call, windows))
                .collect(),
            account,
            recoveries: by_kind(recoveries),
            rounds,
            failures,
        }
    }

    pub fn is_good(&self) -> bool {
        self.failures.is_empty()
    }
}

fn is_healthy(call: &TimedCall, windows: &[FaultWindow]) -> bool {
    !windows
        .iter()
        .any(|window| window.server == call.server && meets(window, call))
}

fn meets(window: &FaultWindow, call: &TimedCall) -> bool {
    window.from <= call.started_at + call.duration
        && window.to.is_none_or(|to| to >= call.started_at)
}

fn circumstances(call: &TimedCall, windows: &[FaultWindow]) -> String {
    let meanwhile = windows.iter().filter(|window| meets(window, call));
    let meanwhile: Vec<String> = meanwhile
        .map(|window| format!("{:?} of s{}", window.fault, window.server))
        .collect();
    format!(
        "{} ms to s{} by {:?}, meanwhile {}",
        ms(call.duration),
        call.server,
        call.door,
        meanwhile.join(", ")
    )
}

impl Calls {
    fn timed(self, times: &[Duration]) -> Self {
        let at = |share| ms(quantile(times.to_vec(), share));
        Self {
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            ..self
        }
    }
}

fn quantile(mut times: Vec<Duration>, quantile: f64) -> Duration {
    times.sort_unstable();
    let last = times.len().saturating_sub(1) as f64;
    times
        .get((last * quantile).round() as usize)
        .copied()
        .unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

fn by_kind(recoveries: Vec<Recovery>) -> BTreeMap<String, Slowest> {
    let mut kinds: BTreeMap<String, Slowest> = BTreeMap::new();
    for recovery in recoveries {
        let slowest = kinds.entry(recovery.kind).or_default();
        slowest.count += 1;
        slowest.ms = slowest.ms.max(recovery.duration.as_millis() as u64);
        slowest.bound_ms = recovery.bound.as_millis() as u64;
    }
    kinds
}

/// Cuts a list of failures of one kind to the first ones, and adds the total number.
fn first_of(mut failures: Vec<String>) -> Vec<String> {
    let count = failures.len();
    if count > SHOWN {
        failures.truncate(SHOWN);
        failures.push(format!("… {count} such failures in all"));
    }
    failures
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:12} {:>7} {:>8} {:>10} {:>8} {:>8} {:>8}",
            "calls", "all", "healthy", "unanswered", "p50 ms", "p99 ms", "max ms"
        )?;
        for (door, calls) in &self.calls {
            let door = format!("{door:?}");
            writeln!(
                f,
                "{door:12} {:>7} {:>8} {:>10} {:>8} {:>8} {:>8}",
                calls.all,
                calls.healthy,
                calls.unanswered_though_healthy,
                calls.p50_ms,
                calls.p99_ms,
                calls.max_ms
            )?;
        }
        writeln!(
            f,
            "p99: {} ms through Mainstay, {} ms directly",
            self.mainstay_p99_ms, self.direct_p99_ms
        )?;
        for slow in &self.slowest {
            writeln!(f, "slow: {slow}")?;
        }
        let Account {
            records,
            ran_twice,
            not_once,
            disagreements,
            ..
        } = &self.account;
        writeln!(
            f,
            "journal: {records} records; calls not there once: {not_once}; disagreements: {disagreements}; ran twice: {ran_twice}"
        )?;
        writeln!(
            f,
            "\n{:24} {:>5} {:>10} {:>9}",
            "back after", "times", "slowest ms", "bound ms"
        )?;
        for (kind, slowest) in &self.recoveries {
            writeln!(
                f,
                "{kind:24} {:>5} {:>10} {:>9}",
                slowest.count, slowest.ms, slowest.bound_ms
            )?;
        }
        writeln!(
            f,
            "\n{:8} {:>8} {:>12} {:>12}",
            "round", "threads", "descriptors", "memory KiB"
        )?;
        for (number, usage) in self.rounds.iter().enumerate() {
            writeln!(
                f,
                "{:8} {:>8} {:>12} {:>12}",
                number + 1,
                usage.threads,
                usage.descriptors,
                usage.memory_kib
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        Ok(())
    }
}
