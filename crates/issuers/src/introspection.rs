//! Decides about tokens that only their issuer can read (RFC 7662): when the issuer is asked, and how long its answers
//! are used. Pure: time is an argument.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use mainstay_core::config::TrustedIssuer;
use serde_json::Value;

use crate::{
    claims::{Claims, check_claims},
    digest::TokenDigest,
    generations::Generations,
    key_sets::{FetchAdvice, age, pause_after},
    refusal::TokenRefusal,
    strict_json::read_object,
};

/// The longest time for which an answer is used: for a token that is active, and for one that is not. A token that its
/// issuer revokes opens Mainstay for so long.
pub const ACTIVE_FOR: Duration = Duration::from_mins(1);
pub const INACTIVE_FOR: Duration = Duration::from_secs(10);

/// Answers that are stored at most.
pub const MAX_ANSWERS: usize = 1024;

/// Requests for tokens that are not active: at once, and the time in which one more is allowed. Anybody can invent
/// tokens, and each costs the issuer a request. Active tokens do not count.
pub const INACTIVE_BURST: u32 = 100;
const INACTIVE_INTERVAL: Duration = Duration::from_millis(200);

/// The longest pause while the issuer does not answer. Each request waits for it, so it is short.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The answers of an issuer about its tokens.
#[derive(Debug)]
pub struct Introspections {
    answers: Generations<CachedAnswer>,
    /// Tokens that the issuer is being asked about.
    in_flight: HashSet<TokenDigest>,
    budget: InactiveBudget,
    failure: Option<Failure>,
}

#[derive(Clone, Debug)]
struct CachedAnswer {
    verdict: Result<Claims, TokenRefusal>,
    at: SystemTime,
    lifetime: Duration,
}

/// Requests without an answer, in a row.
#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    at: SystemTime,
    count: u32,
}

/// The end of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum IntrospectionResult {
    /// The token is active. It may lack what Mainstay demands.
    Active(Result<Claims, TokenRefusal>),
    Inactive,
    /// There is no usable answer, for this reason.
    Failed(String),
}

/// The next step for a token.
#[derive(Clone, Debug, PartialEq)]
pub enum IntrospectionAdvice {
    Answer {
        verdict: Result<Claims, TokenRefusal>,
        /// Time of the issuer's answer.
        at: SystemTime,
    },
    /// Wait for a request.
    Wait { ask: FetchAdvice },
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
}

impl Default for Introspections {
    fn default() -> Self {
        Self {
            answers: Generations::new(MAX_ANSWERS),
            in_flight: HashSet::new(),
            budget: InactiveBudget::default(),
            failure: None,
        }
    }
}

impl Introspections {
    /// The next step for a token. The caller carries out `Begin`, after [`Self::begin`].
    pub fn advise(&mut self, token: &TokenDigest, now: SystemTime) -> IntrospectionAdvice {
        if let Some(answer) = self.answers.get(token) {
            let has_ended = |claims: &Claims| claims.expires_at <= now;
            let is_over = answer.verdict.as_ref().is_ok_and(has_ended);
            if age(answer.at, now) < answer.lifetime && !is_over {
                return IntrospectionAdvice::Answer {
                    verdict: answer.verdict,
                    at: answer.at,
                };
            }
        }
        if self.in_flight.contains(token) {
            return IntrospectionAdvice::Wait {
                ask: FetchAdvice::None,
            };
        }
        if let Some((reason, retry_after)) = self.pause(now) {
            return IntrospectionAdvice::Unavailable {
                reason: reason.to_owned(),
                retry_after,
            };
        }
        if !self.budget.has_one(now) {
            if !self.in_flight.is_empty() {
                // An active token among them gives its request back.
                return IntrospectionAdvice::Wait {
                    ask: FetchAdvice::None,
                };
            }
            return IntrospectionAdvice::Unavailable {
                reason: "too many tokens that are not active were shown".to_owned(),
                retry_after: INACTIVE_INTERVAL,
            };
        }
        IntrospectionAdvice::Wait {
            ask: FetchAdvice::Begin,
        }
    }

    /// The reason and the rest of the pause after a failure. `None` if the issuer may be asked.
    pub fn pause(&self, now: SystemTime) -> Option<(&str, Duration)> {
        let failure = self.failure.as_ref()?;
        let rest = failure.pause().saturating_sub(age(failure.at, now));
        (!rest.is_zero()).then_some((failure.reason.as_str(), rest))
    }

    /// A request about this token begins. It ends with [`Self::finish`].
    pub fn begin(&mut self, token: TokenDigest) {
        self.in_flight.insert(token);
        self.budget.spend();
    }

    pub fn finish(&mut self, token: TokenDigest, result: IntrospectionResult, now: SystemTime) {
        self.in_flight.remove(&token);
        let (verdict, lifetime) = match result {
            IntrospectionResult::Active(verdict) => {
                self.budget.refund();
                let lifetime = if verdict.is_ok() {
                    ACTIVE_FOR
                } else {
                    INACTIVE_FOR
                };
                (verdict, lifetime)
            }
            IntrospectionResult::Inactive => (Err(TokenRefusal::Inactive), INACTIVE_FOR),
            IntrospectionResult::Failed(reason) => {
                self.budget.refund();
                self.fail(reason, now);
                return;
            }
        };
        self.failure = None;
        let at = now;
        self.answers.insert(
            token,
            CachedAnswer {
                verdict,
                at,
                lifetime,
            },
        );
    }

    /// Requests that fail side by side count once.
    fn fail(&mut self, reason: String, now: SystemTime) {
        let (count, is_paused) = match &self.failure {
            Some(failure) => (failure.count, age(failure.at, now) < failure.pause()),
            None => (0, false),
        };
        if !is_paused {
            self.failure = Some(Failure {
                reason,
                at: now,
                count: count.saturating_add(1),
            });
        }
    }

    /// The reason that the last requests had no answer.
    pub fn error(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.reason.as_str())
    }
}

impl Failure {
    fn pause(&self) -> Duration {
        pause_after(self.count).min(MAX_PAUSE)
    }
}

/// Permission to ask about tokens that turn out not to be active.
#[derive(Debug)]
struct InactiveBudget {
    left: u32,
    /// Time up to which permissions were added. `None` before the first request.
    filled_at: Option<SystemTime>,
}

impl Default for InactiveBudget {
    fn default() -> Self {
        Self {
            left: INACTIVE_BURST,
            filled_at: None,
        }
    }
}

impl InactiveBudget {
    fn has_one(&mut self, now: SystemTime) -> bool {
        let since = self.filled_at.map_or(Duration::MAX, |then| age(then, now));
        let added = since.as_millis() / INACTIVE_INTERVAL.as_millis();
        if added > 0 {
            let added = u32::try_from(added).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(added).min(INACTIVE_BURST);
            self.filled_at = Some(now);
        }
        self.left > 0
    }

    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    fn refund(&mut self) {
        self.left = (self.left + 1).min(INACTIVE_BURST);
    }
}

/// Reads the answer of an issuer (RFC 7662, 2.2).
pub fn read_answer(body: &[u8], issuer: &TrustedIssuer, now: SystemTime) -> IntrospectionResult {
    let members = match read_object(body) {
        Ok(members) => members,
        Err(error) => {
            return IntrospectionResult::Failed(format!(
                "the answer of {} to an introspection is not readable: {error}",
                issuer.issuer
            ));
        }
    };
    match members.get("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return IntrospectionResult::Inactive,
        _absent => {
            return IntrospectionResult::Failed(format!(
                "the answer of {} to an introspection has no `active`",
                issuer.issuer
            ));
        }
    }
    let is_other = |named: &Value| !named.is_null() && named.as_str() != Some(&issuer.issuer);
    if members.get("iss").is_some_and(is_other) {
        return IntrospectionResult::Active(Err(TokenRefusal::UnknownIssuer));
    }
    IntrospectionResult::Active(check_claims(&members, issuer, now))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(millis)
    }

    fn token(number: u32) -> TokenDigest {
        TokenDigest::new(&number.to_be_bytes())
    }

    fn active(expires_at: SystemTime) -> IntrospectionResult {
        IntrospectionResult::Active(Ok(Claims {
            subject: "ada".into(),
            groups: Arc::default(),
            scopes: Arc::default(),
            client_id: None,
            expires_at,
            token_version: None,
        }))
    }

    fn is_answered(cache: &mut Introspections, number: u32, now: SystemTime) -> bool {
        matches!(
            cache.advise(&token(number), now),
            IntrospectionAdvice::Answer { .. }
        )
    }

    const BEGIN: IntrospectionAdvice = IntrospectionAdvice::Wait {
        ask: FetchAdvice::Begin,
    };
    const JOIN: IntrospectionAdvice = IntrospectionAdvice::Wait {
        ask: FetchAdvice::None,
    };

    #[test]
    fn a_token_is_asked_about_once_at_a_time() {
        let mut cache = Introspections::default();
        assert_eq!(cache.advise(&token(1), at(0)), BEGIN);
        cache.begin(token(1));
        assert_eq!(cache.advise(&token(1), at(1)), JOIN);
        assert_eq!(cache.advise(&token(2), at(1)), BEGIN);
        cache.finish(token(1), active(at(3_600_000)), at(2));
        assert!(is_answered(&mut cache, 1, at(2)));
    }

    #[test]
    fn answers_are_used_for_a_minute_or_ten_seconds() {
        for (result, millis) in [
            (active(at(3_600_000)), 60_000),
            (active(at(5_000)), 5_000),
            (IntrospectionResult::Inactive, 10_000),
            (
                IntrospectionResult::Active(Err(TokenRefusal::Audience)),
                10_000,
            ),
        ] {
            let mut cache = Introspections::default();
            cache.begin(token(1));
            cache.finish(token(1), result.clone(), at(0));
            assert!(is_answered(&mut cache, 1, at(millis - 1)), "{result:?}");
            assert_eq!(cache.advise(&token(1), at(millis)), BEGIN, "{result:?}");
        }
    }

    #[test]
    fn invented_tokens_cost_a_bounded_number_of_requests() {
        let mut cache = Introspections::default();
        let mut requests = 0;
        for number in 0..10_000 {
            // A thousand tokens each second.
            let now = at(u64::from(number));
            if cache.advise(&token(number), now) == BEGIN {
                requests += 1;
                cache.begin(token(number));
                cache.finish(token(number), IntrospectionResult::Inactive, now);
            }
        }
        assert!((100..=150).contains(&requests), "{requests}");
        // More tokens than that at once wait for each other.
        let mut cache = Introspections::default();
        for number in 0..INACTIVE_BURST {
            assert_eq!(cache.advise(&token(number), at(0)), BEGIN);
            cache.begin(token(number));
        }
        assert_eq!(cache.advise(&token(1000), at(0)), JOIN);
        cache.finish(token(0), active(at(3_600_000)), at(0));
        assert_eq!(cache.advise(&token(1000), at(0)), BEGIN);
        for number in 1..INACTIVE_BURST {
            cache.finish(token(number), IntrospectionResult::Inactive, at(0));
        }
        cache.begin(token(1000));
        cache.finish(token(1000), IntrospectionResult::Inactive, at(0));
        let advice = cache.advise(&token(1001), at(0));
        assert!(
            matches!(advice, IntrospectionAdvice::Unavailable { .. }),
            "{advice:?}"
        );
        // An active token gives its request back.
        let mut cache = Introspections::default();
        for number in 0..1000 {
            assert_eq!(cache.advise(&token(number), at(0)), BEGIN);
            cache.begin(token(number));
            cache.finish(token(number), active(at(3_600_000)), at(0));
        }
    }

    #[test]
    fn an_issuer_that_does_not_answer_is_left_alone() {
        let mut cache = Introspections::default();
        for number in 0..50 {
            assert_eq!(cache.advise(&token(number), at(0)), BEGIN);
            cache.begin(token(number));
        }
        for number in 0..50 {
            cache.finish(
                token(number),
                IntrospectionResult::Failed("down".into()),
                at(0),
            );
        }
        let unavailable = IntrospectionAdvice::Unavailable {
            reason: "down".to_owned(),
            retry_after: Duration::from_secs(1),
        };
        assert_eq!(cache.advise(&token(0), at(0)), unavailable);
        assert_eq!(cache.error(), Some("down"));
        assert_eq!(cache.advise(&token(0), at(1000)), BEGIN);
        cache.begin(token(0));
        cache.finish(token(0), active(at(3_600_000)), at(1000));
        assert_eq!(cache.error(), None);
        assert_eq!(cache.advise(&token(1), at(1000)), BEGIN);
    }

    #[test]
    fn each_answer_is_read() {
        let issuer = TrustedIssuer::new("https://a", "https://mcp");
        let now = at(0);
        let exp = 1_000_300;
        let good = json!({"active": true, "aud": "https://mcp", "sub": "ada", "exp": exp});
        let read = |name: &str, value: Value| {
            let mut answer = good.clone();
            answer[name] = value;
            match read_answer(answer.to_string().as_bytes(), &issuer, now) {
                IntrospectionResult::Active(Ok(_)) => "good",
                IntrospectionResult::Active(Err(refusal)) => refusal.word(),
                IntrospectionResult::Inactive => "inactive",
                IntrospectionResult::Failed(_) => "failed",
            }
        };
        assert_eq!(read("active", json!(true)), "good");
        assert_eq!(read("active", json!(false)), "inactive");
        assert_eq!(read("active", json!("true")), "failed");
        assert_eq!(read("active", json!(1)), "failed");
        assert_eq!(read("iss", json!("https://a")), "good");
        assert_eq!(read("iss", json!("https://a/")), "unknown_issuer");
        assert_eq!(read("aud", json!("https://other")), "audience");
        assert_eq!(read("aud", Value::Null), "missing_claim");
        assert_eq!(read("exp", Value::Null), "missing_claim");
        assert_eq!(read("exp", json!(1)), "expired");
        assert_eq!(read("sub", Value::Null), "missing_claim");
        for text in ["", "<html>", "[]", r#"{"active":true,"active":false}"#] {
            let result = read_answer(text.as_bytes(), &issuer, now);
            assert!(matches!(result, IntrospectionResult::Failed(_)), "{text}");
        }
    }
}
