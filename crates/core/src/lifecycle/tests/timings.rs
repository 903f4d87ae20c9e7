//! The exact times of docs/dev/requirements.md, "Contradictions, and what Mainstay does", in
//! milliseconds. Jitter depends only on seed and epoch, so it is exact too.

use super::*;
use crate::health::{HealthAction, ProbeMethod};

/// Returns the first eight delays of an outage in which every attempt fails, and the final state.
fn outage(policy: Policy, loss: &Loss) -> (Vec<u64>, SessionState) {
    let mut course = Course::after_loss(policy, loss.clone());
    let mut waits = Vec::new();
    while waits.len() < 8
        && let Some(wait) = course.due()
    {
        waits.push(wait);
        let epoch = course.life.epoch.0 + 1;
        assert_eq!(course.tick(), open_effect(epoch));
        course.report(SessionReport::Begun);
        course.end_session(loss.clone());
    }
    (waits, course.state())
}

struct Row {
    preset: Preset,
    /// The delays and the final state: after a lost connection (`lost`), and after a crash
    /// (`crashed`).
    lost: (&'static [u64], SessionState),
    crashed: (&'static [u64], SessionState),
    first_refused: SessionState,
    /// The silence before a probe, and the time limit for its answer, in milliseconds.
    probe: Option<(u64, u64)>,
    method: ProbeMethod,
    threshold: u32,
    action: HealthAction,
}

const FIVE_WAITS: &[u64] = &[1000, 2000, 4000, 8000, 16_000];

const ROWS: [Row; 6] = [
    Row {
        preset: Preset::Default,
        lost: (
            &[1013, 2036, 3691, 7890, 15_638, 31_439, 29_339, 30_711],
            SessionState::Reconnecting,
        ),
        crashed: (&[1013, 2036, 3691, 7890, 15_638], SessionState::Failed),
        first_refused: SessionState::Reconnecting,
        probe: Some((30_399, 10_000)),
        method: ProbeMethod::Ping,
        threshold: 3,
        action: HealthAction::Verify,
    },
    Row {
        preset: Preset::Persistent,
        lost: (
            &[1013, 2036, 3691, 7890, 15_638, 33_535, 62_590, 131_034],
            SessionState::Reconnecting,
        ),
        crashed: (
            &[1013, 2036, 3691, 7890, 15_638, 33_535, 62_590, 131_034],
            SessionState::Reconnecting,
        ),
        first_refused: SessionState::Reconnecting,
        probe: Some((121_597, 60_000)),
        method: ProbeMethod::ToolsList,
        threshold: 3,
        action: HealthAction::Event,
    },
    Row {
        preset: Preset::Router,
        lost: (FIVE_WAITS, SessionState::Failed),
        crashed: (FIVE_WAITS, SessionState::Failed),
        first_refused: SessionState::Error,
        probe: Some((30_000, 5_000)),
        method: ProbeMethod::Http,
        threshold: 3,
        action: HealthAction::Reconnect,
    },
    Row {
        preset: Preset::Bounded,
        lost: (FIVE_WAITS, SessionState::Failed),
        crashed: (FIVE_WAITS, SessionState::Failed),
        first_refused: SessionState::Error,
        probe: Some((30_000, 10_000)),
        method: ProbeMethod::Ping,
        threshold: 1,
        action: HealthAction::Reconnect,
    },
    Row {
        preset: Preset::Desktop,
        lost: (&[], SessionState::Disconnected),
        crashed: (&[], SessionState::Crashed),
        first_refused: SessionState::Error,
        probe: None,
        method: ProbeMethod::Ping,
        threshold: 3,
        action: HealthAction::Verify,
    },
    Row {
        preset: Preset::Manual,
        lost: (&[], SessionState::Disconnected),
        crashed: (&[], SessionState::Crashed),
        first_refused: SessionState::Error,
        probe: None,
        method: ProbeMethod::Ping,
        threshold: 5,
        action: HealthAction::Verify,
    },
];

#[test]
fn y_every_preset_has_its_timings() {
    assert_eq!(ROWS.each_ref().map(|row| row.preset), Preset::ALL);
    for row in ROWS {
        let preset = row.preset;
        let owned = |(waits, state): (&[u64], SessionState)| (waits.to_vec(), state);
        let policy = preset.policy();
        assert_eq!(
            outage(policy.clone(), &connection_loss()),
            owned(row.lost),
            "{preset:?}"
        );
        assert_eq!(
            outage(policy.clone(), &crash()),
            owned(row.crashed),
            "{preset:?} crashes"
        );

        let mut course = Course::new(policy.clone());
        course.step(Event::Start);
        course.report(SessionReport::Begun);
        assert_eq!(course.due(), Some(30_000), "{preset:?} connects"); // E7
        assert_eq!(policy.start_timeout, Duration::from_mins(10), "{preset:?}");
        course.end_session(connect_failure());
        assert_eq!(course.state(), row.first_refused, "{preset:?} at first");

        let course = Course::connected(policy.clone());
        assert_eq!(
            course.due(),
            row.probe.map(|(silence, _)| silence),
            "{preset:?}"
        );
        let health = policy.health;
        if let Some((_, timeout)) = row.probe {
            assert_eq!(health.timeout, Duration::from_millis(timeout), "{preset:?}");
        }
        assert_eq!(
            (health.method, health.threshold, health.action),
            (row.method, row.threshold, row.action),
            "{preset:?}"
        );
    }
}

/// Two presets refuse calls to a server that answers no calls. The others never refuse calls.
#[test]
fn two_presets_refuse_calls() {
    let limits = Preset::ALL.map(|preset| preset.policy().health.unanswered_calls);
    assert_eq!(limits, [Some(2), Some(2), None, None, None, None]);
}

/// A server that refuses the credentials is retried every ten minutes. The preset limits the number
/// of attempts.
#[test]
fn a_refused_server_is_retried_every_ten_minutes() {
    const REFUSED_WAIT: u64 = 600_000;
    let unauthorized = Loss::Unauthorized("HTTP 401".to_owned());
    for preset in Preset::ALL {
        let (count, state) = match preset {
            Preset::Default | Preset::Persistent => (8, SessionState::Error),
            Preset::Router | Preset::Bounded => (5, SessionState::Failed),
            Preset::Desktop | Preset::Manual => (0, SessionState::Error),
        };
        let result = outage(steady(preset), &unauthorized);
        assert_eq!(result, (vec![REFUSED_WAIT; count], state), "{preset:?}");
    }
}

/// G1, G14: delays of 1, 2, 4, 8 and 16 s, then `failed`. Document 000's summary also mentions 30
/// s, which never occur.
#[test]
fn g1_five_attempts_then_failed() {
    for preset in [Preset::Router, Preset::Bounded] {
        let (waits, state) = outage(preset.policy(), &connect_failure());
        assert_eq!((&waits[..], state), (FIVE_WAITS, SessionState::Failed));
        let words = state.words();
        assert_eq!(
            words.page_message,
            Some("Connection failed after max retries")
        );
    }
}

#[test]
fn g5_waits_stay_below_the_cap() {
    let mut policy = Preset::Router.policy();
    policy.reconnect.initial_delay = Duration::from_millis(500);
    policy.reconnect.max_delay = Duration::from_millis(1000);
    assert_eq!(
        outage(policy, &connection_loss()).0,
        [500, 1000, 1000, 1000, 1000]
    );
}

/// Y, row `default`: delays of 1, 2, 4, 8, 16, 30 and 30 s.
#[test]
fn y_default_doubles_up_to_its_cap() {
    let (waits, _) = outage(steady(Preset::Default), &connection_loss());
    assert_eq!(
        waits,
        [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    );
}

/// G7: 180 s. The jitter is applied after the maximum, so delays range from 162 to 198 s.
#[test]
fn g7_persistent_stays_around_its_cap() {
    let policy = Preset::Persistent.policy();
    let waits: Vec<_> = (0..1000)
        .map(|epoch| policy.delay(20, Epoch(epoch)).as_millis())
        .collect();
    assert!(waits.iter().all(|wait| (162_000..=198_000).contains(wait)));
    assert!(waits.iter().any(|wait| *wait < 163_000));
    assert!(waits.iter().any(|wait| *wait > 197_000));
}

#[test]
fn g7_jitter_follows_the_seed() {
    let delay = |seed, epoch| {
        let policy = Policy {
            seed,
            ..Policy::default()
        };
        policy.delay(1, Epoch(epoch))
    };
    assert_eq!(delay(1, 5), delay(1, 5));
    assert_ne!(delay(1, 5), delay(2, 5));
    assert_ne!(delay(1, 5), delay(1, 6));
}

/// The delay does not overflow, even after the maximum number of attempts.
#[test]
fn the_longest_outage_has_a_wait() {
    let policy = steady(Preset::Persistent);
    assert_eq!(policy.delay(u32::MAX, Epoch(1)), Duration::from_secs(180));
}
