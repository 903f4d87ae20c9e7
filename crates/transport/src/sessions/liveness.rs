//! Signs of life of one connection. Readers and callers write them, and the supervisor reads them.
//!
//! Every message updates them, so they are atomics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    health::{FailingCalls, Fault, FaultKind, HealthPolicy},
    message,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Frame, Interruption};

/// The shortest time over which the CPU time of processes is measured. The kernel counts in ticks of 10 ms,
/// and 5 % of this time is more than two ticks.
const CPU_WINDOW: Duration = Duration::from_millis(500);

/// The time that new calls wait for an answer to the first probe after the server has stalled.
const GRACE: Duration = Duration::from_secs(1);

/// The maximum number of bytes of an error that a reason quotes.
const SHOWN_ERROR: usize = 300;

/// The failure reason of a call that timed out.
const NO_ANSWER: &str = "no answer in time";

/// The interval between checks while calls wait for that answer.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The signs of life of one connection: counts and times of its messages and calls.
#[derive(Debug)]
pub struct Liveness {
    opened: Instant,
    /// Time of the last protocol message. All times are milliseconds since `opened`.
    last_message_at: AtomicU64,
    /// Consecutive calls that failed with a [`Fault`], counted since the last message.
    failed: AtomicU32,
    /// Consecutive calls that failed or timed out. Only an answered call resets the count.
    failed_in_row: AtomicU32,
    /// Calls that ended, with or without an answer.
    ended: AtomicU32,
    /// The reason of the last failed call. Locked only to copy the text.
    failure: Mutex<String>,
    /// The fault of the server that the last failed call showed. Locked only to copy the fault.
    fault: Mutex<Option<Fault>>,
    /// Consecutive calls that timed out, counted since the last message.
    unanswered: AtomicU32,
    /// True while new calls are refused because too many calls are unanswered.
    is_stalled: AtomicBool,
    /// Start of the CPU measurement after unanswered calls, and the CPU time of the processes at that moment.
    /// Locked for a copy only.
    watched: Mutex<Option<(Instant, Duration)>>,
    /// Time at which calls began to be refused, in milliseconds since `opened`.
    stalled_at: AtomicU64,
    in_flight: AtomicU32,
    /// Probes without an answer yet.
    probes: AtomicU32,
    /// The start of the current wait: the first call or probe since the last message, or since nothing was in
    /// flight. In milliseconds since `opened`. Meaningless while nothing is in flight.
    waiting_since: AtomicU64,
    /// The latest deadline of the calls that the server may be at work on.
    busy_until: AtomicU64,
    hang_after: Duration,
}

impl Liveness {
    /// After a silence of `hang_after`, a new call does not excuse further silence.
    pub fn new(hang_after: Duration) -> Self {
        Self {
            opened: Instant::now(),
            last_message_at: AtomicU64::new(0),
            failed: AtomicU32::new(0),
            failed_in_row: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            failure: Mutex::default(),
            fault: Mutex::default(),
            unanswered: AtomicU32::new(0),
            is_stalled: AtomicBool::new(false),
            watched: Mutex::default(),
            stalled_at: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            probes: AtomicU32::new(0),
            waiting_since: AtomicU64::new(0),
            busy_until: AtomicU64::new(0),
            hang_after,
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Records a protocol message of the server.
    pub fn note_message(&self) {
        self.last_message_at
            .store(self.millis(Instant::now()), Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) != 0 {
            self.failed.store(0, Ordering::Relaxed);
        }
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
            self.is_stalled.store(false, Ordering::Relaxed);
        }
    }

    /// True while calls are refused. The next message of the server ends the refusals.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Waits until a message of the server arrives, at most [`GRACE`] after calls began to be refused. A
    /// probe is due at that moment. If only one tool hangs, the server answers the probe.
    pub async fn grace(&self) {
        let end = self.time(self.stalled_at.load(Ordering::Relaxed)) + GRACE;
        while self.is_stalled() && Instant::now() < end {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Number of consecutive unanswered calls. `None` if calls are not refused.
    pub fn stalled(&self) -> Option<u32> {
        let calls = self.unanswered.load(Ordering::Relaxed);
        self.is_stalled().then_some(calls)
    }

    /// Counts an answer as a sign of life, unless it is an error that names no request.
    pub fn note_answer(&self, answer: &Result<Frame, Interruption>) {
        if answer.as_ref().is_ok_and(|frame| !frame.names_nothing()) {
            self.note_message();
        }
    }

    /// Number of consecutive calls that failed with a fault since the last message, and the fault of the last
    /// one.
    pub fn failed(&self) -> (u32, Option<Fault>) {
        let fault = self.fault.lock();
        (self.failed.load(Ordering::Relaxed), fault.clone())
    }

    /// Number of calls that have failed since the last answered call.
    pub fn failed_in_row(&self) -> u32 {
        self.failed_in_row.load(Ordering::Relaxed)
    }

    /// The calls that have failed since the last answered call, with the reason of the last failure.
    pub fn failing_calls(&self) -> FailingCalls {
        FailingCalls {
            failed: self.failed_in_row(),
            total: self.ended.load(Ordering::Relaxed),
            reason: self.failure.lock().clone(),
        }
    }

    /// True if a message came in the millisecond of `at`, or later.
    pub fn is_heard_since(&self, at: Instant) -> bool {
        self.last_message_at.load(Ordering::Relaxed) >= self.millis(at)
    }

    /// Time of the last message.
    pub fn last_message_at(&self) -> Instant {
        self.time(self.last_message_at.load(Ordering::Relaxed))
    }

    fn time(&self, millis: u64) -> Instant {
        self.opened + Duration::from_millis(millis)
    }

    /// Counts a call in flight. The server may work on it until `deadline`.
    pub fn call(self: &Arc<Self>, deadline: Instant) -> InFlight {
        let calls = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let last_message_at = self.last_message_at.load(Ordering::Relaxed);
        let now = Instant::now();
        self.note_request(now, calls + self.probes.load(Ordering::Relaxed));
        // A call that is sent into a long silence does not excuse the server: otherwise a stream of calls
        // would hide a hang.
        if now.saturating_duration_since(self.time(last_message_at)) < self.hang_after {
            self.busy_until
                .fetch_max(self.millis(deadline), Ordering::Relaxed);
        }
        InFlight {
            liveness: Arc::clone(self),
            last_message_at,
        }
    }

    /// Counts a probe in flight.
    pub fn probe(self: &Arc<Self>) -> Probing {
        let probes = self.probes.fetch_add(1, Ordering::Relaxed);
        self.note_request(Instant::now(), probes + self.in_flight());
        Probing(Arc::clone(self))
    }

    /// The start of the wait for a message while calls or probes are in flight. `None` if none is in flight,
    /// or if a message has come since. The oldest call may have been abandoned in the meantime.
    pub fn waiting_since(&self) -> Option<Instant> {
        let waits = self.in_flight() > 0 || self.probes.load(Ordering::Relaxed) > 0;
        let waiting_since = self.waiting_since.load(Ordering::Relaxed);
        let is_silent = waiting_since >= self.last_message_at.load(Ordering::Relaxed);
        (waits && is_silent).then(|| self.time(waiting_since))
    }

    /// Sets `waiting_since` for a new call or probe. `others` is the number of calls and probes already in
    /// flight.
    fn note_request(&self, now: Instant, others: u32) {
        let waiting_since = self.waiting_since.load(Ordering::Relaxed);
        if others == 0 || waiting_since < self.last_message_at.load(Ordering::Relaxed) {
            self.waiting_since
                .store(self.millis(now), Ordering::Relaxed);
        }
    }

    /// Returns the start of the CPU measurement and the CPU time at that moment. Starts a new measurement
    /// with `spent` if there is none or if `anew` is set.
    fn watched(&self, anew: bool, spent: Duration) -> (Instant, Duration) {
        let now = (Instant::now(), spent);
        let mut watched = self.watched.lock();
        if anew {
            *watched = None;
        }
        *watched.get_or_insert(now)
    }

    /// Ends the CPU measurement, because the processes were at work. The next unanswered call starts another.
    fn forget_watched(&self) {
        *self.watched.lock() = None;
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// True if the server may be at work on a call within its deadline. False once calls are refused.
    pub fn may_be_at_work(&self) -> bool {
        !self.is_stalled()
            && self.in_flight() > 0
            && self.millis(Instant::now()) < self.busy_until.load(Ordering::Relaxed)
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight {
    liveness: Arc<Liveness>,
    /// Time of the last message when the call was sent, in milliseconds since `opened`.
    last_message_at: u64,
}

impl InFlight {
    /// Counts the call as answered. This ends the row of failed calls.
    pub fn answered(&self) {
        self.liveness.ended.fetch_add(1, Ordering::Relaxed);
        let failed = &self.liveness.failed_in_row;
        if failed.load(Ordering::Relaxed) != 0 {
            failed.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the call as failed, if the interruption shows a fault of the server.
    pub fn interrupted(&self, interruption: &Interruption) {
        if let Some(fault) = interruption.fault() {
            self.failed(fault);
        }
    }

    /// Counts the call as refused by an error that names no request.
    pub fn refused(&self, error: &str) {
        self.failed(Fault {
            kind: FaultKind::Foreign,
            reason: format!(
                "the server refused the request as a whole: {}",
                message::shortened(error.to_owned(), SHOWN_ERROR)
            ),
        });
    }

    fn failed(&self, fault: Fault) {
        let liveness = &self.liveness;
        self.unanswered(fault.reason.clone());
        *liveness.fault.lock() = Some(fault);
        liveness.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call without an answer. An answer to a probe does not reset this count.
    fn unanswered(&self, reason: String) {
        let liveness = &self.liveness;
        *liveness.failure.lock() = reason;
        liveness.ended.fetch_add(1, Ordering::Relaxed);
        liveness.failed_in_row.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the call as timed out. The timeout is a sign of a hang if no message has come since the call
    /// was sent. Before calls are refused, the CPU time of the server's processes is measured for at least
    /// [`CPU_WINDOW`], beginning with the first unanswered call: a server that uses the CPU is at work.
    pub async fn timed_out<F>(&self, policy: &HealthPolicy, cpu: Option<impl Fn() -> F>)
    where
        F: Future<Output = Duration>,
    {
        self.unanswered(NO_ANSWER.to_owned());
        let liveness = &self.liveness;
        let is_silent = || liveness.last_message_at.load(Ordering::Relaxed) == self.last_message_at;
        let Some(limit) = policy.unanswered_calls.filter(|_| is_silent()) else {
            return;
        };
        let calls = liveness.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        let (since, before) = liveness.watched(calls == 1, spent(cpu.as_ref()).await);
        if calls < limit || liveness.is_stalled() {
            return;
        }
        if cpu.is_some() {
            tokio::time::sleep_until(since + CPU_WINDOW).await;
        }
        let spent = spent(cpu.as_ref()).await.saturating_sub(before);
        if !policy.stalls(calls, spent, since.elapsed()) {
            liveness.forget_watched();
            return;
        }
        let now = liveness.millis(Instant::now());
        liveness.stalled_at.store(now, Ordering::Relaxed);
        // A message may arrive during the store. It must end the refusals, so check again.
        liveness.is_stalled.store(is_silent(), Ordering::Relaxed);
        if !is_silent() {
            liveness.is_stalled.store(false, Ordering::Relaxed);
        }
    }
}

/// The CPU time that `cpu` returns. Zero without a process.
async fn spent<F: Future<Output = Duration>>(cpu: Option<&impl Fn() -> F>) -> Duration {
    match cpu {
        Some(cpu) => cpu().await,
        None => Duration::ZERO,
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.liveness.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A probe in flight, until it is dropped.
#[derive(Debug)]
pub struct Probing(Arc<Liveness>);

impl Drop for Probing {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use super::*;
    use crate::InterruptionKind;

    const SECOND: Duration = Duration::from_secs(1);

    /// A call excuses the silence of its server until its deadline.
    #[tokio::test(start_paused = true)]
    async fn a_server_at_work_is_excused_until_the_calls_deadline() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        let call = liveness.call(Instant::now() + SECOND * 30);
        assert!(liveness.may_be_at_work());
        tokio::time::advance(SECOND * 31).await;
        assert!(!liveness.may_be_at_work());
        drop(call);
        assert_eq!(liveness.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_owes_an_answer_until_it_is_heard_or_not_asked_any_more() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        assert_eq!(liveness.waiting_since(), None);
        let waiting_since = Instant::now();
        let call = liveness.call(waiting_since + SECOND * 30);
        tokio::time::advance(SECOND).await;
        let probe = liveness.probe();
        assert_eq!(
            liveness.waiting_since(),
            Some(waiting_since),
            "the oldest question"
        );
        drop(call);
        assert_eq!(
            liveness.waiting_since(),
            Some(waiting_since),
            "the probe waits"
        );
        tokio::time::advance(SECOND).await;
        liveness.note_message();
        assert_eq!(liveness.waiting_since(), None);
        drop(probe);
        let probe = liveness.probe();
        assert_eq!(liveness.waiting_since(), Some(waiting_since + SECOND * 2));
        drop(probe);
        assert_eq!(liveness.waiting_since(), None);
    }

    fn policy(unanswered_calls: Option<u32>) -> HealthPolicy {
        HealthPolicy {
            unanswered_calls,
            ..HealthPolicy::default()
        }
    }

    /// Lets `calls` calls time out, one after the other. Meanwhile the process uses the CPU for `share` of
    /// the time.
    async fn run_out(
        liveness: &Arc<Liveness>,
        policy: &HealthPolicy,
        calls: u32,
        share: Option<f64>,
    ) {
        let start = Instant::now();
        for _ in 0..calls {
            let call = liveness.call(Instant::now() + SECOND * 30);
            tokio::time::advance(SECOND * 30).await;
            let cpu = share.map(|share| move || ready(start.elapsed().mul_f64(share)));
            call.timed_out(policy, cpu).await;
        }
    }

    /// After the second unanswered call in a row without a message, calls are refused until a message comes.
    #[tokio::test(start_paused = true)]
    async fn the_second_call_without_an_answer_stalls_a_server() {
        for share in [None, Some(0.04)] {
            let liveness = Arc::new(Liveness::new(SECOND * 120));
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), None);
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), Some(2));
            // A call in flight does not excuse the server: a probe is due.
            let _call = liveness.call(Instant::now() + SECOND * 30);
            assert!(!liveness.may_be_at_work());
            liveness.note_message();
            assert_eq!(liveness.stalled(), None);
            assert!(liveness.may_be_at_work());
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), None);
        }
    }

    /// Other messages, CPU time, or the policy prevent the refusals.
    #[tokio::test(start_paused = true)]
    async fn a_server_at_work_does_not_stall() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        run_out(&liveness, &policy(None), 9, None).await;
        run_out(&liveness, &policy(Some(2)), 9, Some(0.06)).await;
        assert_eq!(liveness.stalled(), None);
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        for _ in 0..9 {
            let call = liveness.call(Instant::now() + SECOND * 30);
            tokio::time::advance(SECOND * 10).await;
            liveness.note_message();
            tokio::time::advance(SECOND * 20).await;
            call.timed_out(&policy(Some(2)), None::<fn() -> Ready<Duration>>)
                .await;
            assert_eq!(liveness.stalled(), None);
        }
    }

    /// If the server answers the probe at once, the next call waits briefly and does not fail.
    #[tokio::test(start_paused = true)]
    async fn the_next_call_waits_for_the_first_probe() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        run_out(&liveness, &policy(Some(2)), 2, None).await;
        let since = Instant::now();
        let probed = async {
            tokio::time::sleep(SECOND / 2).await;
            liveness.note_message();
        };
        tokio::join!(liveness.grace(), probed);
        assert!(!liveness.is_stalled() && since.elapsed() < SECOND);
        run_out(&liveness, &policy(Some(2)), 2, None).await;
        let since = Instant::now();
        liveness.grace().await;
        assert!(liveness.is_stalled() && since.elapsed() <= SECOND + CHECK_INTERVAL);
        let since = Instant::now();
        liveness.grace().await;
        assert_eq!(since.elapsed(), Duration::ZERO);
    }

    /// Only a message about a request resets the count of failed calls.
    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_in_a_row_are_counted() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        let call = liveness.call(Instant::now() + SECOND * 30);
        let answer = |body: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0",{body}}}"#);
            Ok(Frame::read(text.into()).expect("a message"))
        };
        let unavailable = || {
            Interruption::sent(InterruptionKind::Refused {
                status: 503,
                body: String::new(),
            })
        };
        call.interrupted(&unavailable());
        liveness.note_answer(&Err(unavailable()));
        let (failed, fault) = liveness.failed();
        let reason = fault.expect("a fault").reason;
        assert_eq!(
            (failed, reason.as_str()),
            (1, "the server answered HTTP 503")
        );
        let error = r#"{"code":-32000,"message":"no"}"#;
        call.refused(error);
        liveness.note_answer(&answer(&format!(r#""id":null,"error":{error}"#)));
        let (failed, fault) = liveness.failed();
        let reason = fault.expect("a fault").reason;
        let expected = format!("the server refused the request as a whole: {error}");
        assert_eq!((failed, reason), (2, expected));
        liveness.note_answer(&answer(&format!(r#""id":1,"error":{error}"#)));
        assert_eq!(liveness.failed().0, 0);
    }

    /// A stream of calls must not hide a hang.
    #[tokio::test(start_paused = true)]
    async fn calls_sent_into_a_long_silence_are_no_excuse() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        tokio::time::advance(SECOND * 120).await;
        let _call = liveness.call(Instant::now() + SECOND * 30);
        assert!(!liveness.may_be_at_work());
        liveness.note_message();
        let _call = liveness.call(Instant::now() + SECOND * 30);
        assert!(liveness.may_be_at_work());
    }
}
