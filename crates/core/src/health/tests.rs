//! Verdicts from evidence, policy by policy.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn unanswered(excuse: Option<Excuse>) -> Outcome {
    Outcome::Unanswered(excuse)
}

/// Y2: a server that answers late is degraded, not dead.
#[test]
fn verify_degrades_a_slow_server_and_keeps_its_connection() {
    let (policy, start) = (Policy::default(), Instant::now());
    let mut tally = Tally::new(start, &policy, 0);
    for second in 1..=5 {
        let now = start + SECOND * second;
        assert_eq!(
            tally.judge(unanswered(None), now, &policy, 0),
            Verdict::Keep
        );
        assert_eq!(tally.health(&policy).degraded, second >= 3);
    }
    tally.heard(start + SECOND * 6, &policy, 0);
    assert!(!tally.health(&policy).degraded);
}

/// Design section 6: a hang is hard evidence once nothing speaks for the server any more.
#[test]
fn a_hang_takes_silence_and_the_absence_of_every_excuse() {
    let (policy, start) = (Policy::default(), Instant::now());
    let (early, late) = (start + SECOND * 119, start + SECOND * 120);
    for (now, excuse, expected) in [
        (early, None, Verdict::Keep),
        (late, Some(Excuse::Call), Verdict::Keep),
        (late, Some(Excuse::Cpu), Verdict::Keep),
        (late, None, Verdict::Reconnect),
    ] {
        let mut tally = Tally::new(start, &policy, 0);
        assert_eq!(
            tally.judge(unanswered(excuse), now, &policy, 0),
            expected,
            "{excuse:?}"
        );
    }
}
