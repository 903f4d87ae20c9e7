//! The effect of calls on the course of a session, and its status while it reconnects.

use super::*;

/// Sends a call every `every` milliseconds after the first loss, until the policy gives up. Returns
/// that time in milliseconds, and the number of sessions.
fn given_up(mut course: Course, every: u64) -> (u128, u64) {
    let since = course.now;
    while course.state() != SessionState::Failed {
        course.wait(every);
        for event in [Event::CallWaiting, Event::Tick] {
            if course.step(event).is_some() {
                course.opens();
                course.ends(crash());
            }
        }
    }
    let time = course.now.duration_since(since).as_millis();
    (time, course.life.epoch.0)
}

/// A budget of five crashes lasts 31 s, however many attempts calls bring forward.
#[test]
fn calls_spend_the_budget_no_faster_than_the_policy() {
    let by_itself = given_up(Course::losing(without_calls(), crash()), 100);
    assert_eq!(by_itself, (31_000, 6));
    let course = Course::losing(steady(Preset::Default), crash());
    let (time, sessions) = given_up(course, 100);
    assert!((31_000..=36_000).contains(&time), "{time}");
    assert!(sessions > 25, "{sessions}");
}

fn without_calls() -> Policy {
    let mut policy = steady(Preset::Default);
    policy.reconnect.on_call = false;
    policy
}

/// Crashes that a refused call caused do not count against the budget. That includes earlier
/// crashes.
#[test]
fn crashes_of_a_refused_call_are_not_counted() {
    let mut course = Course::losing(steady(Preset::Default), crash());
    for loss in [crash(), crash()] {
        course.tick();
        course.opens();
        course.ends(loss);
    }
    course.tick();
    course.opens();
    assert_eq!(course.report(SessionReport::Poisoned(crash(), 3)), None);
    // One crash had another cause.
    assert_eq!(
        (course.state(), course.status().attempt),
        (SessionState::Reconnecting, 1)
    );
    assert_eq!(course.due(), Some(SECOND));
    for epoch in 5..=8 {
        assert_eq!(course.tick(), open(epoch));
        course.opens();
        course.ends(crash());
        assert_eq!(course.state(), SessionState::Reconnecting);
    }
    course.tick();
    course.opens();
    course.ends(crash());
    assert_eq!(course.state(), SessionState::Failed);
}

/// If the policy does not restart a server, a refused call does not restart it either.
#[test]
fn a_refused_call_starts_nothing_that_a_person_starts() {
    let mut course = Course::up(steady(Preset::Desktop));
    course.report(SessionReport::Poisoned(crash(), 1));
    assert_eq!(
        (course.state(), course.due()),
        (SessionState::Crashed, None)
    );
}

/// The status shows the loss and the attempt until another session is up.
#[test]
fn the_last_loss_shows_while_it_is_connecting_again() {
    for loss in [Loss::SessionExpired, crash(), gone()] {
        let mut course = Course::losing(steady(Preset::Default), loss.clone());
        if loss != Loss::SessionExpired {
            course.tick();
        }
        course.report(SessionReport::Begun);
        let status = course.status();
        assert!(status.attempting && status.next_retry.is_none(), "{loss:?}");
        assert_eq!(
            (status.state, status.attempt),
            (SessionState::Reconnecting, 1)
        );
        assert_eq!(status.reason, Some(loss.to_string()));
        course.opens();
        assert_eq!(
            (course.status().reason, course.status().attempt > 0),
            (None, true)
        );
    }
}

/// Like [`the_last_loss_shows_while_it_is_connecting_again`], with a call in place of a person.
#[test]
fn the_last_loss_shows_while_a_call_opens_a_session() {
    let mut policy = steady(Preset::Manual);
    policy.reconnect.on_call = true;
    let mut course = Course::losing(policy, gone());
    assert_eq!(course.step(Event::CallWaiting), open(2));
    let status = course.status();
    assert_eq!(
        (status.state, status.attempt),
        (SessionState::Reconnecting, 1)
    );
    assert_eq!(status.reason, Some(gone().to_string()));
}

/// After a reconnect by hand the status shows no loss.
#[test]
fn a_start_forgets_the_last_loss() {
    let mut course = Course::losing(steady(Preset::Default), crash());
    course.step(Event::Start);
    let status = course.status();
    assert_eq!(
        (status.state, status.reason),
        (SessionState::Connecting, None)
    );
}
