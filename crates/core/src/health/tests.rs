//! Tests of health verdicts, for each action and threshold.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn policy(action: HealthAction, threshold: u32) -> HealthPolicy {
    HealthPolicy {
        action,
        threshold,
        jitter: 0.0,
        ..HealthPolicy::default()
    }
}

/// Returns the verdicts after `count` probes with this outcome, one per second.
fn verdicts(policy: &HealthPolicy, outcome: &ProbeOutcome, count: u32) -> Vec<HealthVerdict> {
    let start = Instant::now();
    let mut tally = Tally::new(start);
    (1..=count)
        .map(|second| tally.judge(outcome.clone(), start + SECOND * second, policy))
        .collect()
}

fn failed_probe() -> ProbeOutcome {
    ProbeOutcome::Failed("HTTP 500".to_owned())
}

const LATE_ANSWER: ProbeOutcome = ProbeOutcome::Unanswered(None);
const KEEP_VERDICT: HealthVerdict = HealthVerdict::Keep;
const RECONNECT: HealthVerdict = HealthVerdict::Reconnect;

/// Y2: a slow server becomes degraded, but keeps its connection. A message restores its health
/// (H6).
#[test]
fn y2_verify_degrades_a_slow_server_and_keeps_its_connection() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    for second in 1..=5 {
        let now = start + SECOND * second;
        assert_eq!(tally.judge(LATE_ANSWER, now, &policy), KEEP_VERDICT);
        let health = tally.health(&policy);
        assert_eq!((health.degraded, health.failures), (second >= 3, second));
        assert_eq!(
            health.last_error.as_deref(),
            Some("ping timed out after 10s")
        );
    }
    tally.message_received(start + SECOND * 6);
    let health = tally.health(&policy);
    assert_eq!((health.degraded, health.failures), (false, 0));
    assert_eq!(health.last_error, None);
}

/// Y2: at the threshold, the action decides, unless the server hangs.
#[test]
fn y2_the_action_decides_at_the_threshold() {
    let check = |action, outcome: &ProbeOutcome, expected: [HealthVerdict; 4]| {
        let verdicts = verdicts(&policy(action, 3), outcome, 4);
        assert_eq!(verdicts, expected, "{action:?} {outcome:?}");
    };
    for outcome in [LATE_ANSWER, failed_probe()] {
        check(HealthAction::Verify, &outcome, [KEEP_VERDICT; 4]);
        check(HealthAction::Event, &outcome, [KEEP_VERDICT; 4]);
        check(HealthAction::Log, &outcome, [KEEP_VERDICT; 4]);
        check(
            HealthAction::Reconnect,
            &outcome,
            [KEEP_VERDICT, KEEP_VERDICT, RECONNECT, RECONNECT],
        );
    }
}

fn fault(kind: FaultKind) -> Fault {
    Fault {
        kind,
        reason: "HTTP 503".to_owned(),
    }
}

/// A fault leads to a reconnect at the threshold, if the connection was cut or the action is
/// `reconnect`. With `verify`, the server must be degraded and fail one more probe.
#[test]
fn a_fault_in_place_of_an_answer_causes_a_reconnect() {
    let check = |action, kind, expected: [HealthVerdict; 4]| {
        let outcome = ProbeOutcome::Broken(fault(kind));
        let verdicts = verdicts(&policy(action, 3), &outcome, 4);
        assert_eq!(verdicts, expected, "{action:?} {kind:?}");
    };
    let at_threshold = [KEEP_VERDICT, KEEP_VERDICT, RECONNECT, RECONNECT];
    for action in [
        HealthAction::Verify,
        HealthAction::Reconnect,
        HealthAction::Event,
        HealthAction::Log,
    ] {
        check(action, FaultKind::Cut, at_threshold);
    }
    for kind in [FaultKind::Foreign, FaultKind::Unauthorized] {
        check(HealthAction::Reconnect, kind, at_threshold);
        check(HealthAction::Event, kind, [KEEP_VERDICT; 4]);
        check(HealthAction::Log, kind, [KEEP_VERDICT; 4]);
    }
    check(
        HealthAction::Verify,
        FaultKind::Foreign,
        [KEEP_VERDICT, KEEP_VERDICT, KEEP_VERDICT, RECONNECT],
    );
    check(HealthAction::Verify, FaultKind::Unauthorized, at_threshold);
    check(
        HealthAction::Verify,
        FaultKind::Throttled,
        [KEEP_VERDICT; 4],
    );
}

/// With `verify`, a server that becomes degraded gets one more probe at once.
#[test]
fn verify_probes_once_more_at_once() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    for second in 1..=3 {
        let now = start + SECOND * second;
        let due = if second < 3 { now + SECOND * 30 } else { now };
        tally.judge(
            ProbeOutcome::Broken(fault(FaultKind::Foreign)),
            now,
            &policy,
        );
        assert_eq!(tally.due(&policy, 0), Some(due), "{second}");
    }
    assert!(tally.health(&policy).degraded);
    assert_eq!(tally.loss(), Loss::Disconnected("HTTP 503".to_owned()));
}

/// The reason contains "unreachable" only once.
#[test]
fn the_reason_contains_unreachable_once() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    let fault = Fault {
        kind: FaultKind::Unreachable,
        reason: "refused".to_owned(),
    };
    tally.judge(ProbeOutcome::Broken(fault), start + SECOND, &policy);
    let last_error = tally.health(&policy).last_error;
    assert_eq!(last_error.as_deref(), Some("cannot connect: refused"));
    assert_eq!(tally.loss().to_string(), "cannot connect: refused");
}

/// Failed calls count like failed probes, and make a probe due at once. A message resets them.
#[test]
fn calls_that_fail_in_a_row_degrade_a_server() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    let fail = |tally: &mut Tally, calls, second| {
        let fault = (calls > 0).then(|| fault(FaultKind::Foreign));
        tally.calls_failed(calls, fault, start + SECOND * second, &policy)
    };
    for calls in 1..=3 {
        assert_eq!(fail(&mut tally, calls, calls), KEEP_VERDICT);
        let health = tally.health(&policy);
        assert_eq!((health.degraded, health.failures), (calls == 3, calls));
        assert_eq!(health.last_error.as_deref(), Some("HTTP 503"));
    }
    assert_eq!(tally.due(&policy, 0), Some(start + SECOND));
    tally.message_received(start + SECOND * 4);
    let health = tally.health(&policy);
    assert_eq!((health.degraded, health.failures), (false, 0));
    assert_eq!(health.last_error, None);
    // One failure among many successes.
    for second in 5..60 {
        assert_eq!(fail(&mut tally, second % 2, second), KEEP_VERDICT);
        tally.message_received(start + SECOND * second);
        assert!(!tally.health(&policy).degraded);
    }
}

/// Failed calls alone lead to a reconnect only after the probe timeout, however many fail in one
/// moment.
#[test]
fn calls_that_fail_in_one_moment_are_no_evidence() {
    for (action, kind) in [
        (HealthAction::Verify, FaultKind::Foreign),
        (HealthAction::Verify, FaultKind::Cut),
        (HealthAction::Reconnect, FaultKind::Foreign),
    ] {
        let (policy, start) = (policy(action, 3), Instant::now());
        let mut tally = Tally::new(start);
        let mut fail = |calls, second| {
            let fault = Some(fault(kind));
            tally.calls_failed(calls, fault, start + SECOND * second, &policy)
        };
        assert_eq!(fail(100, 0), KEEP_VERDICT);
        assert_eq!(fail(200, 9), KEEP_VERDICT);
        assert_eq!(fail(200, 10), RECONNECT, "{action:?} {kind:?}");
    }
}

/// With a threshold of one, a failed call is not enough: the next probe decides.
#[test]
fn one_failed_call_is_never_enough() {
    let (policy, start) = (policy(HealthAction::Reconnect, 1), Instant::now());
    for (outcome, expected) in [
        (ProbeOutcome::Answered(SECOND), KEEP_VERDICT),
        (ProbeOutcome::Broken(fault(FaultKind::Cut)), RECONNECT),
    ] {
        let mut tally = Tally::new(start);
        let verdict = tally.calls_failed(1, Some(fault(FaultKind::Cut)), start + SECOND, &policy);
        assert_eq!(verdict, KEEP_VERDICT);
        assert!(!tally.health(&policy).degraded);
        assert_eq!(tally.due(&policy, 0), Some(start + SECOND));
        assert_eq!(tally.judge(outcome, start + SECOND * 2, &policy), expected);
    }
}

/// An answer of the health URL does not reset failed calls.
#[test]
fn a_health_url_forgives_no_calls() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    tally.calls_failed(3, Some(fault(FaultKind::Foreign)), start, &policy);
    tally.judge(ProbeOutcome::Answered(SECOND), start + SECOND, &policy);
    assert!(tally.health(&policy).degraded);
}

/// Calls are refused after several unanswered calls in a row, unless the server is busy.
#[test]
fn calls_in_a_row_without_an_answer_stall_a_server() {
    let policy = policy(HealthAction::Verify, 3);
    let stalls = |calls, spent| policy.stalls(calls, Duration::from_millis(spent), SECOND);
    assert_eq!(
        [0, 1, 2, 3].map(|calls| stalls(calls, 50)),
        [false, false, true, true]
    );
    assert!(!stalls(2, 51));
    let unlimited_policy = HealthPolicy {
        unanswered_calls: None,
        ..policy.clone()
    };
    assert!(!unlimited_policy.stalls(99, Duration::ZERO, SECOND));
}

/// While calls are refused, the server is degraded, and is probed until it sends a message.
#[test]
fn a_stalled_server_is_probed_until_it_sends_a_message() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    tally.stall(Some(2), start + SECOND * 60);
    let health = tally.health(&policy);
    assert_eq!((health.degraded, health.failures), (true, 2));
    assert_eq!(
        health.last_error.as_deref(),
        Some("2 calls in a row were not answered")
    );
    assert_eq!(tally.due(&policy, 0), Some(start + SECOND * 60));
    for second in [70, 81, 92] {
        tally.probing();
        let now = start + SECOND * second;
        assert_eq!(tally.judge(LATE_ANSWER, now, &policy), KEEP_VERDICT);
        assert_eq!(tally.due(&policy, 0), Some(now + SECOND));
        assert!(tally.health(&policy).degraded);
    }
    tally.message_received(start + SECOND * 93);
    tally.stall(None, start + SECOND * 93);
    let health = tally.health(&policy);
    assert_eq!((health.degraded, health.failures), (false, 0));
    assert_eq!(health.last_error, None);
}

/// H2: only failures in a row count.
#[test]
fn h2_a_success_resets_the_count() {
    let (policy, start) = (policy(HealthAction::Reconnect, 3), Instant::now());
    let mut tally = Tally::new(start);
    let answered_probe = ProbeOutcome::Answered(Duration::from_millis(12));
    for (second, outcome) in (1..).zip([
        LATE_ANSWER,
        failed_probe(),
        answered_probe,
        LATE_ANSWER,
        failed_probe(),
    ]) {
        let now = start + SECOND * second;
        assert_eq!(tally.judge(outcome, now, &policy), KEEP_VERDICT);
    }
    assert_eq!(tally.health(&policy).failures, 2);
    let last_ping = tally.health(&policy).last_ping;
    assert_eq!(last_ping, Some(Duration::from_millis(12)));
    assert_eq!(
        tally.judge(LATE_ANSWER, start + SECOND * 6, &policy),
        RECONNECT
    );
}

/// Even with a threshold of one, a late answer alone leads to no reconnect. A server's error does,
/// and so does a hang.
#[test]
fn a_late_answer_alone_does_not_reach_a_threshold_of_one() {
    let policy = HealthPolicy {
        hang_after: SECOND * 30,
        ..policy(HealthAction::Reconnect, 1)
    };
    assert_eq!(verdicts(&policy, &LATE_ANSWER, 29), [KEEP_VERDICT; 29]);
    assert_eq!(verdicts(&policy, &LATE_ANSWER, 30)[29], RECONNECT);
    assert_eq!(verdicts(&policy, &failed_probe(), 1), [RECONNECT]);
    for excuse in [Excuse::Call, Excuse::Cpu] {
        let excused_probe = ProbeOutcome::Unanswered(Some(excuse));
        assert_eq!(verdicts(&policy, &excused_probe, 60), [KEEP_VERDICT; 60]);
    }
}

/// A hang without an excuse leads to a reconnect, unless the policy never reconnects.
#[test]
fn a_hang_requires_silence_without_an_excuse() {
    let start = Instant::now();
    let (early_time, late_time) = (start + SECOND * 119, start + SECOND * 120);
    let hang = LATE_ANSWER;
    let (calling, busy) = (
        ProbeOutcome::Unanswered(Some(Excuse::Call)),
        ProbeOutcome::Unanswered(Some(Excuse::Cpu)),
    );
    for (action, now, outcome, expected) in [
        (HealthAction::Verify, early_time, &hang, KEEP_VERDICT),
        (HealthAction::Verify, late_time, &calling, KEEP_VERDICT),
        (HealthAction::Verify, late_time, &busy, KEEP_VERDICT),
        (
            HealthAction::Verify,
            late_time,
            &ProbeOutcome::Busy,
            KEEP_VERDICT,
        ),
        (
            HealthAction::Verify,
            late_time,
            &failed_probe(),
            KEEP_VERDICT,
        ),
        (HealthAction::Verify, late_time, &hang, RECONNECT),
        (HealthAction::Reconnect, late_time, &calling, KEEP_VERDICT),
        (HealthAction::Reconnect, late_time, &hang, RECONNECT),
        (HealthAction::Event, late_time, &hang, KEEP_VERDICT),
        (HealthAction::Log, late_time, &hang, KEEP_VERDICT),
    ] {
        let mut tally = Tally::new(start);
        let verdict = tally.judge(outcome.clone(), now, &policy(action, 3));
        assert_eq!(verdict, expected, "{action:?} {outcome:?}");
    }
}

/// A message ends the silence, even if probes fail.
#[test]
fn a_server_that_sends_messages_does_not_hang() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    tally.message_received(start + SECOND);
    let verdict = tally.judge(LATE_ANSWER, start + SECOND * 120, &policy);
    assert_eq!(verdict, KEEP_VERDICT);
    let verdict = tally.judge(LATE_ANSWER, start + SECOND * 121, &policy);
    assert_eq!(verdict, RECONNECT);
}

/// An unsent probe is neither a success nor a failure.
#[test]
fn a_busy_server_is_probed_later() {
    let (policy, start) = (policy(HealthAction::Verify, 1), Instant::now());
    let mut tally = Tally::new(start);
    tally.judge(LATE_ANSWER, start + SECOND, &policy);
    tally.probing();
    assert_eq!(tally.due(&policy, 0), None);
    let health_before = tally.health(&policy);
    assert_eq!(
        tally.judge(ProbeOutcome::Busy, start + SECOND * 2, &policy),
        KEEP_VERDICT
    );
    assert_eq!(tally.health(&policy), health_before);
    assert_eq!(tally.due(&policy, 0), Some(start + SECOND * 32));
}

/// H5: 120 s ± 10 %.
#[test]
fn h5_the_interval_varies_by_its_jitter() {
    let start = Instant::now();
    let policy = HealthPolicy {
        interval: Some(SECOND * 120),
        jitter: 0.1,
        ..HealthPolicy::default()
    };
    let tally = Tally::new(start);
    let waits: Vec<_> = (0..1000)
        .map(|seed| tally.due(&policy, seed).expect("an interval") - start)
        .collect();
    let (shortest, longest) = (waits.iter().min(), waits.iter().max());
    assert!(shortest >= Some(&(SECOND * 108)) && shortest < Some(&(SECOND * 109)));
    assert!(longest <= Some(&(SECOND * 132)) && longest > Some(&(SECOND * 131)));
}

/// The reason for refused calls stays while calls are refused, even after a failed call.
#[test]
fn the_reason_of_a_stall_is_retained() {
    let (policy, start) = (policy(HealthAction::Verify, 3), Instant::now());
    let mut tally = Tally::new(start);
    tally.stall(Some(2), start + SECOND);
    for second in 2..5 {
        tally.calls_failed(0, None, start + SECOND * second, &policy);
        tally.stall(Some(2), start + SECOND * second);
        let health = tally.health(&policy);
        assert!(health.degraded);
        assert_eq!(
            health.last_error.as_deref(),
            Some("2 calls in a row were not answered")
        );
    }
    tally.stall(None, start + SECOND * 5);
    let health = tally.health(&policy);
    assert_eq!((health.degraded, health.last_error), (false, None));
}

/// A server that answers every probe but no call is degraded, and keeps its session. Only an
/// answered call restores its health, even after a long time.
#[test]
fn failed_calls_degrade_a_server_until_a_call_is_answered() {
    let (policy, start) = (policy(HealthAction::Reconnect, 3), Instant::now());
    let mut tally = Tally::new(start);
    let failing_calls = |failed, total| FailingCalls {
        failed,
        total,
        reason: "HTTP 502".to_owned(),
    };
    let answer = || ProbeOutcome::Answered(SECOND);
    for calls in 1..=4 {
        let now = start + SECOND * calls;
        tally.calls_failed_in_row(failing_calls(calls, 7 + calls), now);
        assert_eq!(tally.judge(answer(), now, &policy), KEEP_VERDICT);
        tally.message_received(now);
        let health = tally.health(&policy);
        assert_eq!(health.degraded, calls >= 3, "{calls}");
        assert_eq!(health.failing_calls.is_some(), calls >= 3, "{calls}");
    }
    // A day without calls. Every probe is answered.
    for minute in 1..=24 * 60 {
        let now = start + SECOND * (60 * minute);
        assert_eq!(tally.judge(answer(), now, &policy), KEEP_VERDICT);
        tally.message_received(now);
        tally.calls_failed_in_row(failing_calls(4, 11), now);
    }
    let health = tally.health(&policy);
    assert!(health.degraded);
    let row = FailingRow {
        failed: 4,
        total: 11,
        since: start + SECOND,
    };
    assert_eq!((health.failing_calls, health.failures), (Some(row), 4));
    let reason = "answers pings; its last 4 calls failed: HTTP 502";
    assert_eq!(health.last_error.as_deref(), Some(reason));

    tally.calls_failed_in_row(failing_calls(0, 12), start + SECOND * 90_000);
    let health = tally.health(&policy);
    let summary = (health.degraded, health.failures, health.last_error);
    assert_eq!(summary, (false, 0, None));
    assert_eq!(health.failing_calls, None);
    // After an answered call, the count begins at zero.
    tally.calls_failed_in_row(failing_calls(2, 14), start + SECOND * 90_001);
    assert!(!tally.health(&policy).degraded);
}

/// A probe may be delayed, so that one wake-up sends several, but only within the jitter.
#[test]
fn a_delayed_probe_stays_within_its_interval() {
    let start = Instant::now();
    let mut tally = Tally::new(start);
    for jitter in [0.0, 0.1, 1.0] {
        let policy = HealthPolicy {
            jitter,
            ..policy(HealthAction::Verify, 3)
        };
        for seed in 0..100 {
            let due = tally.due(&policy, seed).expect("it is asked");
            let latest = due + tally.leeway(&policy, seed);
            let silence = latest.duration_since(start).as_secs_f64();
            assert!((silence - 30.0 * (1.0 + jitter)).abs() < 0.001, "{silence}");
        }
    }
    // A probe after a doubt must not be delayed.
    tally.doubt(start);
    assert_eq!(tally.leeway(&HealthPolicy::default(), 7), Duration::ZERO);
}
