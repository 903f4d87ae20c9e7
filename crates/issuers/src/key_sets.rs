//! Decides when the keys of an issuer are fetched, and how long they are used. Pure: time is an argument.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::keys::KeySet;

/// The shortest time between two fetches for the sake of a key that is not in the set. Anybody can send tokens with
/// invented key ids.
pub const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);

/// The shortest and the longest time for which keys are fresh, whatever their issuer says. The longest is an hour less
/// than [`MAX_AGE`], so that there is time for attempts before the keys end.
pub const MIN_FRESHNESS: Duration = Duration::from_mins(5);
pub const MAX_FRESHNESS: Duration = Duration::from_hours(23);

/// The time for which keys are fresh if their issuer does not say.
pub const DEFAULT_FRESHNESS: Duration = Duration::from_hours(1);

/// The time for which keys are used after their last successful fetch, while fetches fail.
pub const MAX_AGE: Duration = Duration::from_hours(24);

/// The pauses after failed fetches: the first, doubled each time, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The keys of an issuer, and the history of their fetches.
#[derive(Clone, Debug, Default)]
pub struct CachedKeys {
    fetched: Option<FetchedKeys>,
    /// True while a fetch is under way. There is one at a time.
    is_fetching: bool,
    /// Beginning of the last fetch.
    attempted_at: Option<SystemTime>,
    failure: Option<Failure>,
}

#[derive(Clone, Debug)]
struct FetchedKeys {
    keys: Arc<KeySet>,
    at: SystemTime,
    freshness: Duration,
}

/// Failed fetches in a row.
#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    at: SystemTime,
    count: u32,
}

/// Tells if a set has the key of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPresence {
    Present,
    Absent,
}

/// The next step for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAdvice {
    /// Answer from the keys at hand.
    Answer { fetch: FetchAdvice },
    /// Wait for a fetch.
    Wait { fetch: FetchAdvice },
    /// There are no keys, and it is too early for another fetch.
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
}

/// The caller carries out `Begin`, once it has noted that the fetch has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchAdvice {
    Begin,
    None,
}

impl FetchAdvice {
    /// `Begin` if either is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, Self::None) => Self::None,
            (Self::Begin, _) | (_, Self::Begin) => Self::Begin,
        }
    }
}

/// The state of an issuer's keys, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// Time of the last successful fetch.
    pub fetched_at: Option<SystemTime>,
    /// Keys that can be used.
    pub keys: usize,
    /// Keys of the issuer that cannot be used.
    pub skipped: usize,
    /// The reason that the last fetch failed. `None` if it succeeded.
    pub error: Option<String>,
}

/// The change that a fetch has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Each former key is still there.
    KeptAll,
    /// A key is gone. Tokens that it signed have ended.
    Removed,
}

impl CachedKeys {
    /// The keys that may be used at this time.
    pub fn usable(&self, now: SystemTime) -> Option<&Arc<KeySet>> {
        let fetched = self.fetched.as_ref()?;
        (age(fetched.at, now) < MAX_AGE).then_some(&fetched.keys)
    }

    /// Like [`Self::advise`]. A fetch that is advised has begun: the caller must carry it out.
    pub fn take_advice(&mut self, presence: KeyPresence, now: SystemTime) -> KeyAdvice {
        let advice = self.advise(presence, now);
        match advice {
            KeyAdvice::Answer {
                fetch: FetchAdvice::Begin,
            }
            | KeyAdvice::Wait {
                fetch: FetchAdvice::Begin,
            } => self.begin(now),
            KeyAdvice::Answer {
                fetch: FetchAdvice::None,
            }
            | KeyAdvice::Wait {
                fetch: FetchAdvice::None,
            }
            | KeyAdvice::Unavailable { .. } => {}
        }
        advice
    }

    /// The next step for a token whose key is present or absent in [`Self::usable`].
    pub fn advise(&self, presence: KeyPresence, now: SystemTime) -> KeyAdvice {
        let begin = |is_due: bool| {
            if is_due && !self.is_fetching && self.pause(now).is_zero() {
                FetchAdvice::Begin
            } else {
                FetchAdvice::None
            }
        };
        if self.usable(now).is_none() {
            return match (begin(true), self.is_fetching) {
                (FetchAdvice::None, false) => KeyAdvice::Unavailable {
                    reason: (self.failure.as_ref())
                        .map_or_else(String::new, |failure| failure.reason.clone()),
                    retry_after: self.pause(now),
                },
                (fetch, _) => KeyAdvice::Wait { fetch },
            };
        }
        match presence {
            KeyPresence::Present => KeyAdvice::Answer {
                fetch: begin(self.is_stale(now)),
            },
            KeyPresence::Absent => {
                let is_rested = (self.attempted_at)
                    .is_none_or(|attempt| age(attempt, now) >= UNKNOWN_KEY_PAUSE);
                match (begin(is_rested), self.is_fetching) {
                    (FetchAdvice::None, false) => KeyAdvice::Answer {
                        fetch: FetchAdvice::None,
                    },
                    (fetch, _) => KeyAdvice::Wait { fetch },
                }
            }
        }
    }

    /// A fetch begins. It ends with [`Self::succeed`] or [`Self::fail`].
    pub fn begin(&mut self, now: SystemTime) {
        self.is_fetching = true;
        self.attempted_at = Some(now);
    }

    /// A fetch has succeeded. `max_age` is the time that the issuer's `Cache-Control` says.
    pub fn succeed(
        &mut self,
        keys: KeySet,
        max_age: Option<Duration>,
        now: SystemTime,
    ) -> KeyChange {
        let has_all = (self.fetched.as_ref()).is_none_or(|former| keys.has_all(&former.keys));
        let freshness = max_age.unwrap_or(DEFAULT_FRESHNESS);
        self.fetched = Some(FetchedKeys {
            keys: Arc::new(keys),
            at: now,
            freshness: freshness.clamp(MIN_FRESHNESS, MAX_FRESHNESS),
        });
        self.is_fetching = false;
        self.failure = None;
        if has_all {
            KeyChange::KeptAll
        } else {
            KeyChange::Removed
        }
    }

    /// A fetch has failed. The known keys stay until they are too old.
    pub fn fail(&mut self, reason: String, now: SystemTime) {
        let count = self.failure.as_ref().map_or(0, |failure| failure.count);
        self.is_fetching = false;
        self.failure = Some(Failure {
            reason,
            at: now,
            count: count.saturating_add(1),
        });
    }

    pub fn status(&self) -> KeyStatus {
        let keys = self.fetched.as_ref().map(|fetched| &fetched.keys);
        KeyStatus {
            fetched_at: self.fetched.as_ref().map(|fetched| fetched.at),
            keys: keys.map_or(0, |keys| keys.count()),
            skipped: keys.map_or(0, |keys| keys.skipped),
            error: self.failure.as_ref().map(|failure| failure.reason.clone()),
        }
    }

    fn is_stale(&self, now: SystemTime) -> bool {
        (self.fetched.as_ref()).is_none_or(|fetched| age(fetched.at, now) >= fetched.freshness)
    }

    /// The time until the next attempt. Zero without a failure.
    fn pause(&self, now: SystemTime) -> Duration {
        self.failure.as_ref().map_or(Duration::ZERO, |failure| {
            pause_after(failure.count).saturating_sub(age(failure.at, now))
        })
    }
}

/// The pause after this many failures in a row.
pub fn pause_after(failures: u32) -> Duration {
    let factor = 1_u32 << failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * factor).min(MAX_PAUSE)
}

/// The time since `then`. A clock that was set back makes everything old: it must not stop fetches.
pub fn age(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use FetchAdvice::{Begin, None as Idle};
    use KeyPresence::{Absent, Present};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn keys(letter: &str) -> KeySet {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "x": letter.repeat(42) + "A"});
        KeySet::read(json!({"keys": [key]}).to_string().as_bytes()).expect("keys")
    }

    fn answer(fetch: FetchAdvice) -> KeyAdvice {
        KeyAdvice::Answer { fetch }
    }

    fn wait(fetch: FetchAdvice) -> KeyAdvice {
        KeyAdvice::Wait { fetch }
    }

    fn fetched_at(seconds: u64, max_age: Option<Duration>) -> CachedKeys {
        let mut cache = CachedKeys::default();
        cache.begin(at(seconds));
        let change = cache.succeed(keys("a"), max_age, at(seconds));
        assert_eq!(change, KeyChange::KeptAll);
        cache
    }

    #[test]
    fn the_first_token_waits_for_one_fetch() {
        let mut cache = CachedKeys::default();
        assert_eq!(cache.advise(Absent, at(0)), wait(Begin));
        cache.begin(at(0));
        assert_eq!(cache.advise(Absent, at(1)), wait(Idle));
        cache.succeed(keys("a"), None, at(1));
        assert_eq!(cache.advise(Present, at(1)), answer(Idle));
    }

    #[test]
    fn keys_are_fetched_again_when_they_are_stale() {
        let seconds = Duration::from_secs;
        for (max_age, freshness) in [
            (None, 3600),
            (Some(seconds(0)), 300),
            (Some(seconds(299)), 300),
            (Some(seconds(7200)), 7200),
            (Some(seconds(86_400)), 23 * 3600),
            (Some(Duration::MAX), 23 * 3600),
        ] {
            let cache = fetched_at(0, max_age);
            assert_eq!(cache.advise(Present, at(freshness - 1)), answer(Idle));
            assert_eq!(cache.advise(Present, at(freshness)), answer(Begin));
        }
    }

    /// Anybody can invent key ids.
    #[test]
    fn unknown_keys_cost_a_fetch_each_half_minute() {
        let mut cache = fetched_at(0, None);
        let mut fetches = 0;
        for second in 0..3600 {
            match cache.advise(Absent, at(second)) {
                KeyAdvice::Wait { fetch: Begin } => {
                    fetches += 1;
                    cache.begin(at(second));
                    if second % 2 == 0 {
                        cache.succeed(keys("a"), None, at(second));
                    } else {
                        cache.fail("down".to_owned(), at(second));
                    }
                }
                other => assert_eq!(other, answer(Idle)),
            }
        }
        assert_eq!(fetches, 119);
    }

    #[test]
    fn failed_fetches_keep_the_keys_for_a_day() {
        let day = 24 * 3600;
        let mut cache = fetched_at(0, None);
        let mut fetches = 0;
        for second in 3600..day {
            match cache.advise(Present, at(second)) {
                KeyAdvice::Answer { fetch: Idle } => {}
                other => {
                    assert_eq!(other, answer(Begin));
                    fetches += 1;
                    cache.begin(at(second));
                    cache.fail("down".to_owned(), at(second));
                }
            }
        }
        // One each minute, after some quick ones.
        assert!((1380..1390).contains(&fetches), "{fetches}");
        assert_eq!(cache.usable(at(day)), None);
        let unavailable = cache.advise(Present, at(day));
        let KeyAdvice::Unavailable {
            reason,
            retry_after,
        } = unavailable
        else {
            panic!("{unavailable:?}");
        };
        assert_eq!(reason, "down");
        assert!(retry_after <= MAX_PAUSE);
        assert_eq!(cache.advise(Absent, at(day) + retry_after), wait(Begin));
        assert_eq!(cache.status().error.as_deref(), Some("down"));
        cache.succeed(keys("a"), None, at(day));
        let status = cache.status();
        assert_eq!((status.error, status.keys), (None, 1));
    }

    #[test]
    fn failures_without_keys_back_off() {
        let mut cache = CachedKeys::default();
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            cache.begin(at(0));
            cache.fail("down".to_owned(), at(0));
            let advice = cache.advise(Absent, at(0));
            let expected = KeyAdvice::Unavailable {
                reason: "down".to_owned(),
                retry_after: Duration::from_secs(pause),
            };
            assert_eq!(advice, expected);
            assert_eq!(cache.advise(Absent, at(pause)), wait(Begin));
        }
        assert_eq!(pause_after(u32::MAX), MAX_PAUSE);
    }

    #[test]
    fn a_key_that_is_gone_is_told() {
        let mut cache = fetched_at(0, None);
        cache.begin(at(60));
        assert_eq!(cache.succeed(keys("b"), None, at(60)), KeyChange::Removed);
        cache.begin(at(90));
        assert_eq!(cache.succeed(keys("b"), None, at(90)), KeyChange::KeptAll);
    }

    /// A clock that was wrong by years when the keys were fetched.
    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let cache = fetched_at(1_000_000_000, None);
        assert_eq!(cache.advise(Present, at(0)), wait(Begin));
        let mut cache = CachedKeys::default();
        cache.fail("down".to_owned(), at(1_000_000_000));
        assert_eq!(cache.advise(Present, at(0)), wait(Begin));
    }
}
