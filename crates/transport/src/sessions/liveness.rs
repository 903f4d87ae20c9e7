//! Signs of life of one connection. Readers and callers write them, the supervisor reads them.
//!
//! They are written at every message, so they are a few atomics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use mainstay_core::{
    health::{FailingCalls, Fault, FaultKind, Policy},
    message,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Frame, Interruption};

/// How long processes are watched at least before they count as idle: 5 % of it are more than the two
/// ticks of the clock in which the kernel counts.
const CPU_WINDOW: Duration = Duration::from_millis(500);

/// How long calls wait for an answer to the first probe when they begin to be refused.
const GRACE: Duration = Duration::from_secs(1);

/// The bytes that a reason quotes of an error.
const SHOWN_ERROR: usize = 300;

/// How a call failed that ran out of time.
const NO_ANSWER: &str = "no answer in time";

/// How often they check for it.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// What messages and calls show about the life of a server.
#[derive(Debug)]
pub struct Liveness {
    opened: Instant,
    /// When a message of the protocol came last; times are milliseconds since `opened`.
    heard: AtomicU64,
    /// Calls in a row, since that message, that got something else than an answer.
    failed: AtomicU32,
    /// Calls in a row that got something else than an answer, or none in time. Only an answered call resets it.
    failed_in_row: AtomicU32,
    /// Calls that ended, answered or not.
    ended: AtomicU32,
    /// How the last of these calls failed. Held for a copy only, and by calls that fail only.
    failure: Mutex<String>,
    /// What the last failed call got. Held for a copy only, and by calls that fail only.
    fault: Mutex<Option<Fault>>,
    /// Calls in a row, since the last message, that had no answer within their time.
    unanswered: AtomicU32,
    /// There are so many unanswered calls that further calls are refused.
    is_stalled: AtomicBool,
    /// Since when the processes are watched because of unanswered calls, and their CPU time by then. Held
    /// for a copy only.
    watched: Mutex<Option<(Instant, Duration)>>,
    /// Since when calls are refused, in milliseconds since `opened`.
    stalled_at: AtomicU64,
    in_flight: AtomicU32,
    /// Probes that wait for their answer.
    probes: AtomicU32,
    /// When the first question was asked since none waited, or since the server was heard, in
    /// milliseconds since `opened`. It means nothing while no question waits.
    asked: AtomicU64,
    /// The latest deadline of the calls that the server may be at work on.
    busy_until: AtomicU64,
    hang_after: Duration,
}

impl Liveness {
    /// After a silence of `hang_after`, a new call does not excuse further silence.
    pub fn new(hang_after: Duration) -> Self {
        Self {
            opened: Instant::now(),
            heard: AtomicU64::new(0),
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
            asked: AtomicU64::new(0),
            busy_until: AtomicU64::new(0),
            hang_after,
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// A message of the protocol came from the server.
    pub fn hear(&self) {
        self.heard
            .store(self.millis(Instant::now()), Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) != 0 {
            self.failed.store(0, Ordering::Relaxed);
        }
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
            self.is_stalled.store(false, Ordering::Relaxed);
        }
    }

    /// Whether calls are refused until the server is heard.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Waits for as long as the probe is given that follows when calls begin to be refused, unless the
    /// server is heard before: one whose tool hangs answers that probe.
    pub async fn grace(&self) {
        let end = self.time(self.stalled_at.load(Ordering::Relaxed)) + GRACE;
        while self.is_stalled() && Instant::now() < end {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Calls in a row without an answer, if calls are refused.
    pub fn stalled(&self) -> Option<u32> {
        let calls = self.unanswered.load(Ordering::Relaxed);
        self.is_stalled().then_some(calls)
    }

    /// Counts an answer as a sign of life. An error that names no request is none.
    pub fn weigh(&self, answer: &Result<Frame, Interruption>) {
        if answer.as_ref().is_ok_and(|frame| !frame.names_nothing()) {
            self.hear();
        }
    }

    /// How many calls in a row have got something else than an answer, and what the last one got.
    pub fn failed(&self) -> (u32, Option<Fault>) {
        let fault = self.fault.lock();
        (self.failed.load(Ordering::Relaxed), fault.clone())
    }

    /// How many calls have failed since one was answered.
    pub fn failed_in_row(&self) -> u32 {
        self.failed_in_row.load(Ordering::Relaxed)
    }

    /// The calls that have failed since one was answered, and how the last one did.
    pub fn failing_calls(&self) -> FailingCalls {
        FailingCalls {
            failed: self.failed_in_row(),
            of: self.ended.load(Ordering::Relaxed),
            reason: self.failure.lock().clone(),
        }
    }

    /// Whether something came in the millisecond of this time, or later.
    pub fn is_heard_since(&self, at: Instant) -> bool {
        self.heard.load(Ordering::Relaxed) >= self.millis(at)
    }

    /// When something came last.
    pub fn heard(&self) -> Instant {
        self.time(self.heard.load(Ordering::Relaxed))
    }

    fn time(&self, millis: u64) -> Instant {
        self.opened + Duration::from_millis(millis)
    }

    /// Notes a call that may take until `deadline`.
    pub fn call(self: &Arc<Self>, deadline: Instant) -> InFlight {
        let calls = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let heard = self.heard.load(Ordering::Relaxed);
        let now = Instant::now();
        self.asks(now, calls + self.probes.load(Ordering::Relaxed));
        // A call that is sent into a long silence is no excuse for the server: otherwise calls that
        // keep coming would hide a hang.
        if now.saturating_duration_since(self.time(heard)) < self.hang_after {
            self.busy_until
                .fetch_max(self.millis(deadline), Ordering::Relaxed);
        }
        InFlight {
            liveness: Arc::clone(self),
            heard,
        }
    }

    /// Notes a probe that waits for its answer.
    pub fn probe(self: &Arc<Self>) -> Probing {
        let probes = self.probes.fetch_add(1, Ordering::Relaxed);
        self.asks(Instant::now(), probes + self.in_flight());
        Probing(Arc::clone(self))
    }

    /// Since when calls or probes have waited without any message from the server. The first of them may
    /// have been given up since.
    pub fn asked(&self) -> Option<Instant> {
        let waits = self.in_flight() > 0 || self.probes.load(Ordering::Relaxed) > 0;
        let asked = self.asked.load(Ordering::Relaxed);
        let is_silent = asked >= self.heard.load(Ordering::Relaxed);
        (waits && is_silent).then(|| self.time(asked))
    }

    /// A question is asked while so many others wait.
    fn asks(&self, now: Instant, others: u32) {
        let asked = self.asked.load(Ordering::Relaxed);
        if others == 0 || asked < self.heard.load(Ordering::Relaxed) {
            self.asked.store(self.millis(now), Ordering::Relaxed);
        }
    }

    /// Since when the server's processes are watched, and the CPU time that they had spent by then.
    fn watched(&self, anew: bool, spent: Duration) -> (Instant, Duration) {
        let now = (Instant::now(), spent);
        let mut watched = self.watched.lock();
        if anew {
            *watched = None;
        }
        *watched.get_or_insert(now)
    }

    /// What was watched was at work, and is watched from the next call on.
    fn forget_watched(&self) {
        *self.watched.lock() = None;
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the server may be at work on a call that is within its deadline. Calls are no excuse any
    /// more once so many were not answered that others are refused.
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
    /// When the server had been heard last when the call was sent.
    heard: u64,
}

impl InFlight {
    /// The call is answered.
    pub fn answered(&self) {
        self.liveness.ended.fetch_add(1, Ordering::Relaxed);
        let failed = &self.liveness.failed_in_row;
        if failed.load(Ordering::Relaxed) != 0 {
            failed.store(0, Ordering::Relaxed);
        }
    }

    /// The call ends without an answer.
    pub fn interrupted(&self, why: &Interruption) {
        if let Some(fault) = why.fault() {
            self.failed(fault);
        }
    }

    /// The call is refused with an error that names no request.
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

    /// The call ends without an answer, which no answer to a probe makes good.
    fn unanswered(&self, reason: String) {
        let liveness = &self.liveness;
        *liveness.failure.lock() = reason;
        liveness.ended.fetch_add(1, Ordering::Relaxed);
        liveness.failed_in_row.fetch_add(1, Ordering::Relaxed);
    }

    /// The call has run out of time. It counts as a sign of a hang if nothing was heard since it was sent. Before calls are
    /// refused, the server's processes are watched for [`CPU_WINDOW`] at least, from the first call on
    /// that was not answered: a server that computes is at work.
    pub async fn timed_out<F>(&self, policy: &Policy, cpu: Option<impl Fn() -> F>)
    where
        F: Future<Output = Duration>,
    {
        self.unanswered(NO_ANSWER.to_owned());
        let liveness = &self.liveness;
        let is_silent = || liveness.heard.load(Ordering::Relaxed) == self.heard;
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
        // Whatever is heard from here on ends it.
        liveness.is_stalled.store(is_silent(), Ordering::Relaxed);
        if !is_silent() {
            liveness.is_stalled.store(false, Ordering::Relaxed);
        }
    }
}

/// What `cpu` says; nothing where there is no process.
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

/// A probe that waits for its answer, until it is dropped.
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

    /// A call protects its server until its deadline, and no longer.
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
        assert_eq!(liveness.asked(), None);
        let asked = Instant::now();
        let call = liveness.call(asked + SECOND * 30);
        tokio::time::advance(SECOND).await;
        let probe = liveness.probe();
        assert_eq!(liveness.asked(), Some(asked), "the oldest question");
        drop(call);
        assert_eq!(liveness.asked(), Some(asked), "the probe waits");
        tokio::time::advance(SECOND).await;
        liveness.hear();
        assert_eq!(liveness.asked(), None);
        drop(probe);
        let probe = liveness.probe();
        assert_eq!(liveness.asked(), Some(asked + SECOND * 2));
        drop(probe);
        assert_eq!(liveness.asked(), None);
    }

    fn policy(unanswered_calls: Option<u32>) -> Policy {
        Policy {
            unanswered_calls,
            ..Policy::default()
        }
    }

    /// Lets calls run out of time, one after the other, while a process spends this CPU time.
    async fn run_out(liveness: &Arc<Liveness>, policy: &Policy, calls: u32, share: Option<f64>) {
        let start = Instant::now();
        for _ in 0..calls {
            let call = liveness.call(Instant::now() + SECOND * 30);
            tokio::time::advance(SECOND * 30).await;
            let cpu = share.map(|share| move || ready(start.elapsed().mul_f64(share)));
            call.timed_out(policy, cpu).await;
        }
    }

    /// The second call in a row without an answer, and with nothing heard, has the next ones refused
    /// until something is heard.
    #[tokio::test(start_paused = true)]
    async fn the_second_call_without_an_answer_stalls_a_server() {
        for share in [None, Some(0.04)] {
            let liveness = Arc::new(Liveness::new(SECOND * 120));
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), None);
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), Some(2));
            // What is in flight is no excuse: it is to be asked.
            let _call = liveness.call(Instant::now() + SECOND * 30);
            assert!(!liveness.may_be_at_work());
            liveness.hear();
            assert_eq!(liveness.stalled(), None);
            assert!(liveness.may_be_at_work());
            run_out(&liveness, &policy(Some(2)), 1, share).await;
            assert_eq!(liveness.stalled(), None);
        }
    }

    /// Not where something else is heard, where its processes compute, or where the policy has it so.
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
            liveness.hear();
            tokio::time::advance(SECOND * 20).await;
            call.timed_out(&policy(Some(2)), None::<fn() -> Ready<Duration>>)
                .await;
            assert_eq!(liveness.stalled(), None);
        }
    }

    /// A server that answers the probe at once costs the next call a moment, and no failure.
    #[tokio::test(start_paused = true)]
    async fn the_next_call_waits_for_the_first_probe() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        run_out(&liveness, &policy(Some(2)), 2, None).await;
        let since = Instant::now();
        let probed = async {
            tokio::time::sleep(SECOND / 2).await;
            liveness.hear();
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

    /// Only a message about a request forgives calls that failed.
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
        liveness.weigh(&Err(unavailable()));
        let (failed, fault) = liveness.failed();
        let reason = fault.expect("a fault").reason;
        assert_eq!(
            (failed, reason.as_str()),
            (1, "the server answered HTTP 503")
        );
        let error = r#"{"code":-32000,"message":"no"}"#;
        call.refused(error);
        liveness.weigh(&answer(&format!(r#""id":null,"error":{error}"#)));
        let (failed, fault) = liveness.failed();
        let reason = fault.expect("a fault").reason;
        let expected = format!("the server refused the request as a whole: {error}");
        assert_eq!((failed, reason), (2, expected));
        liveness.weigh(&answer(&format!(r#""id":1,"error":{error}"#)));
        assert_eq!(liveness.failed().0, 0);
    }

    /// Calls that keep coming must not hide a hang.
    #[tokio::test(start_paused = true)]
    async fn calls_sent_into_a_long_silence_are_no_excuse() {
        let liveness = Arc::new(Liveness::new(SECOND * 120));
        tokio::time::advance(SECOND * 120).await;
        let _call = liveness.call(Instant::now() + SECOND * 30);
        assert!(!liveness.may_be_at_work());
        liveness.hear();
        let _call = liveness.call(Instant::now() + SECOND * 30);
        assert!(liveness.may_be_at_work());
    }
}
