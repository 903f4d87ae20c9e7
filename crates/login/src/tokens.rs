//! Tokens as an authorization server sends them (RFC 6749, 5.1), and as they are stored.

use std::time::{Duration, SystemTime};

use mainstay_core::config::Secret;
use oauth2::{AccessToken, RefreshToken, Scope, TokenResponse, basic::BasicTokenType};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{scopes::Scopes, secret_text};

/// Maximum lifetime of a token: a hundred years. Longer lifetimes are reduced to it.
const MAX_LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Minimum lifetime of a token. Without it, a token that expires at once would cause a loop of refreshes.
const MIN_LIFETIME: Duration = Duration::from_secs(5);

/// The answer of a token endpoint. It is parsed leniently: some servers send the lifetime as a text, or no type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenAnswer {
    access_token: AccessToken,
    #[serde(default = "bearer", deserialize_with = "read_type")]
    token_type: BasicTokenType,
    #[serde(default, deserialize_with = "read_lifetime")]
    expires_in: Option<Duration>,
    #[serde(default)]
    refresh_token: Option<RefreshToken>,
    #[serde(default, rename = "scope")]
    granted: Option<Scopes>,
}

fn bearer() -> BasicTokenType {
    BasicTokenType::Bearer
}

/// Accepts any case, and `null`.
fn read_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BasicTokenType, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(match text {
        None => BasicTokenType::Bearer,
        Some(text) if text.eq_ignore_ascii_case("bearer") => BasicTokenType::Bearer,
        Some(text) => BasicTokenType::Extension(text),
    })
}

/// Accepts a number, a number as a text, and `null`. An invalid lifetime counts as none.
fn read_lifetime<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let seconds = seconds.map(|seconds: f64| seconds.min(MAX_LIFETIME.as_secs_f64()));
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

impl TokenResponse for TokenAnswer {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &BasicTokenType {
        &self.token_type
    }

    fn expires_in(&self) -> Option<Duration> {
        self.expires_in
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        self.refresh_token.as_ref()
    }

    /// Always `None`, because [`Tokens::from_answer`] reads the scopes.
    fn scopes(&self) -> Option<&Vec<Scope>> {
        None
    }
}

/// The tokens of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    #[serde(with = "secret_text")]
    pub access: Secret,
    #[serde(default, with = "secret_text::optional")]
    pub refresh: Option<Secret>,
    pub obtained_at: SystemTime,
    /// `None` if the authorization server names no lifetime. Then the token is used until it is refused.
    pub expires_at: Option<SystemTime>,
    /// The granted scopes.
    pub scopes: Scopes,
}

/// A token that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableToken {
    #[error("the authorization server sent a token of type {0}; only bearer tokens can be used")]
    Type(String),
    #[error("the authorization server sent a token with characters that a header cannot hold")]
    Characters,
}

impl Tokens {
    /// The tokens of an answer. Without scopes in the answer, all requested scopes are granted (RFC 6749, 5.1). Without
    /// a refresh token in the answer, the previous one stays valid (RFC 6749, 6).
    pub fn from_answer(
        answer: &TokenAnswer,
        now: SystemTime,
        requested: &Scopes,
        refresh_before: Option<&Secret>,
    ) -> Result<Self, UnusableToken> {
        if let BasicTokenType::Extension(word) = &answer.token_type {
            return Err(UnusableToken::Type(word.chars().take(40).collect()));
        }
        let access = answer.access_token.secret();
        if access.is_empty() || !access.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            return Err(UnusableToken::Characters);
        }
        let refresh = answer.refresh_token.as_ref().map(RefreshToken::secret);
        let refresh = refresh.filter(|token| !token.is_empty()).map(Secret::new);
        Ok(Self {
            access: Secret::new(access),
            refresh: refresh.or_else(|| refresh_before.cloned()),
            obtained_at: now,
            expires_at: answer
                .expires_in
                .and_then(|lifetime| now.checked_add(lifetime.max(MIN_LIFETIME))),
            scopes: answer.granted.clone().unwrap_or_else(|| requested.clone()),
        })
    }

    /// The value of the `Authorization` header.
    pub fn authorization(&self) -> Secret {
        Secret::new(format!("Bearer {}", self.access.expose()))
    }

    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The time of the next refresh: after 80 % of the lifetime, minus up to 10 % of the lifetime by `jitter`, which is
    /// from 0 to 1. `None` if the token has no known end.
    pub fn refresh_at(&self, jitter: f64) -> Option<SystemTime> {
        let lifetime = self.expires_at?.duration_since(self.obtained_at).ok()?;
        let share = 0.8 - 0.1 * jitter.clamp(0.0, 1.0);
        Some(self.obtained_at + lifetime.mul_f64(share))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn tokens(
        answer: &serde_json::Value,
        before: Option<&Secret>,
    ) -> Result<Tokens, UnusableToken> {
        let answer: TokenAnswer = serde_json::from_value(answer.clone()).expect("an answer");
        Tokens::from_answer(&answer, now(), &Scopes::parse("asked"), before)
    }

    #[test]
    fn lifetimes_are_numbers_texts_or_missing() {
        let hour = Some(now() + Duration::from_hours(1));
        for (expires_in, expires_at) in [
            (json!(3600), hour),
            (json!("3600"), hour),
            (json!(3600.0), hour),
            (json!(null), None),
            (json!("soon"), None),
            (json!(-1), None),
            (json!(0), Some(now() + MIN_LIFETIME)),
            (json!(1), Some(now() + MIN_LIFETIME)),
            (json!(1e300), Some(now() + MAX_LIFETIME)),
            (json!(u64::MAX), Some(now() + MAX_LIFETIME)),
        ] {
            let answer =
                json!({"access_token": "t", "token_type": "Bearer", "expires_in": expires_in});
            assert_eq!(
                tokens(&answer, None).expect("tokens").expires_at,
                expires_at,
                "{answer}"
            );
        }
        let answer = json!({"access_token": "t", "token_type": "Bearer"});
        assert_eq!(tokens(&answer, None).expect("tokens").expires_at, None);
    }

    #[test]
    fn the_type_is_bearer_in_any_case() {
        for token_type in [json!("bearer"), json!("BEARER"), json!(null)] {
            let answer = json!({"access_token": "t", "token_type": token_type});
            assert!(tokens(&answer, None).is_ok(), "{answer}");
        }
        assert!(tokens(&json!({"access_token": "t"}), None).is_ok());
        let answer = json!({"access_token": "t", "token_type": "DPoP"});
        assert_eq!(
            tokens(&answer, None),
            Err(UnusableToken::Type("DPoP".to_owned()))
        );
    }

    #[test]
    fn a_token_must_fit_into_a_header() {
        for token in ["", "a\r\nx: y", "a b", "é"] {
            let answer = json!({"access_token": token});
            assert_eq!(
                tokens(&answer, None),
                Err(UnusableToken::Characters),
                "{token:?}"
            );
        }
    }

    #[test]
    fn a_refresh_token_stays_valid_until_there_is_another() {
        let before = Secret::new("old");
        for (refresh, expected) in [
            (json!("new"), "new"),
            (json!(null), "old"),
            (json!(""), "old"),
        ] {
            let answer = json!({"access_token": "t", "refresh_token": refresh});
            let tokens = tokens(&answer, Some(&before)).expect("tokens");
            assert_eq!(tokens.refresh.expect("a token").expose(), expected);
        }
    }

    #[test]
    fn scopes_that_are_not_named_are_the_requested_ones() {
        for (scope, expected) in [
            (json!("a b"), "a b"),
            (json!(["a", "b"]), "a b"),
            (json!(""), ""),
            (json!(null), "asked"),
        ] {
            let answer = json!({"access_token": "t", "scope": scope});
            assert_eq!(
                tokens(&answer, None).expect("tokens").scopes.to_string(),
                expected
            );
        }
    }

    #[test]
    fn a_token_is_refreshed_before_it_expires() {
        let answer = json!({"access_token": "t", "expires_in": 1000});
        let tokens = tokens(&answer, None).expect("tokens");
        let after = |jitter| {
            let at = tokens.refresh_at(jitter).expect("a time");
            at.duration_since(now()).expect("later").as_secs()
        };
        assert_eq!(
            [after(0.0), after(0.5), after(1.0), after(7.0)],
            [800, 750, 700, 700]
        );
        assert!(!tokens.has_expired(now() + Duration::from_secs(999)));
        assert!(tokens.has_expired(now() + Duration::from_secs(1000)));
    }
}
