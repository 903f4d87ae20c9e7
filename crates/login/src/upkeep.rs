//! Decides when a login is refreshed, and what follows from the answer. The decisions are pure: the clock, the network
//! and the vault belong to the caller.

use std::time::{Duration, SystemTime};

use mainstay_core::config::{Grant, Secret};

use crate::{
    challenge::Challenge, flow::MAX_SHOWN, grant_answer::GrantError, scopes::Scopes,
    stored::StoredLogin,
};

/// Pause after the first temporary failure of a refresh. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Maximum pause between two attempts to refresh.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Minimum age of a token whose refusal starts a refresh. A server that refuses a younger token probably refuses every
/// token. For tokens with a short lifetime, the minimum is a quarter of the lifetime.
const FRESH: Duration = Duration::from_secs(30);

/// The refresh state of one login.
#[derive(Clone, Debug, Default)]
pub struct LoginUpkeep {
    login: Option<StoredLogin>,
    grant: Grant,
    /// The reason that a person must log in.
    end: Option<String>,
    /// The last attempt to refresh.
    last_refresh: Option<RefreshReport>,
    /// Consecutive attempts that failed temporarily.
    failures: u32,
    retry_at: Option<SystemTime>,
    /// True if the server has refused the current token, and no refresh has succeeded since.
    is_refused: bool,
}

/// One attempt to refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshReport {
    pub at: SystemTime,
    /// `None` if the attempt succeeded.
    pub error: Option<String>,
}

/// The credentials of the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextToken {
    /// There is no login, and no server has required one.
    NoLogin,
    Ready(Secret),
    /// A refresh must come first: at once, or at this time if the last one failed.
    AfterRefresh(Option<SystemTime>),
    /// A person must log in, for this reason.
    Ended(String),
}

/// The next step after the server's refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// There is already another token.
    Use(Secret),
    Refresh,
    /// The login has ended for this reason, and a person must log in.
    LogIn(String),
    /// A person must log in again to get these additional scopes. The login stays valid for other requests.
    StepUp(Scopes),
    /// The server denies a permission for this reason, although the login has every scope that the server names.
    Denied(String),
    /// The refusal is not about the login.
    NotOurs,
}

/// The next step after a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterRefresh {
    /// The new tokens must be saved before anything else.
    Save,
    /// The next attempt is due at this time.
    Retry(SystemTime),
    /// The login has ended for this reason.
    Ended(String),
}

impl LoginUpkeep {
    pub fn new(grant: Grant, login: Option<StoredLogin>) -> Self {
        // Do not restore the end of a machine login, because its settings may have been corrected.
        let ended = login.as_ref().filter(|_| grant == Grant::Person);
        Self {
            end: ended.and_then(|login| login.ended.clone()),
            login,
            grant,
            ..Self::default()
        }
    }

    pub fn login(&self) -> Option<&StoredLogin> {
        self.login.as_ref()
    }

    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// The time of the next attempt, if the last one failed temporarily.
    pub fn retry_at(&self, now: SystemTime) -> Option<SystemTime> {
        self.next_retry(now)
    }

    pub fn last_refresh(&self) -> Option<&RefreshReport> {
        self.last_refresh.as_ref()
    }

    /// Replaces the login by a new one of a person, or by one that another process has refreshed.
    pub fn replace(&mut self, login: StoredLogin) {
        *self = Self::new(self.grant, Some(login));
    }

    pub fn log_out(&mut self) {
        *self = Self::new(self.grant, None);
    }

    /// True if a token can be requested without a person.
    fn can_refresh(&self) -> bool {
        match (self.grant, &self.login) {
            (Grant::ClientCredentials, _) => true,
            (Grant::Person, Some(login)) => login.tokens.refresh.is_some(),
            (Grant::Person, None) => false,
        }
    }

    /// The time of the next attempt. After the clock was set back, the next attempt is due at once.
    fn next_retry(&self, now: SystemTime) -> Option<SystemTime> {
        self.retry_at
            .filter(|retry_at| *retry_at <= now + LONGEST_PAUSE)
    }

    pub fn next_token(&self, now: SystemTime) -> NextToken {
        if let Some(reason) = &self.end {
            return NextToken::Ended(reason.clone());
        }
        let tokens = self.login.as_ref().map(|login| &login.tokens);
        match tokens {
            Some(tokens) if !tokens.has_expired(now) && !self.is_refused => {
                NextToken::Ready(tokens.access.clone())
            }
            _ if self.can_refresh() => NextToken::AfterRefresh(self.next_retry(now)),
            // A token that has expired by our clock may still be valid by the server's clock.
            Some(tokens) => NextToken::Ready(tokens.access.clone()),
            None => NextToken::NoLogin,
        }
    }

    /// The time of the next refresh in the background. `jitter` is from 0 to 1.
    pub fn refresh_at(&self, jitter: f64) -> Option<SystemTime> {
        if self.end.is_some() || !self.can_refresh() {
            return None;
        }
        let tokens = &self.login.as_ref()?.tokens;
        let due = if self.is_refused {
            tokens.obtained_at
        } else {
            tokens.refresh_at(jitter)?
        };
        Some(self.retry_at.map_or(due, |retry_at| retry_at.max(due)))
    }

    /// Handles the server's refusal of a request with this token. `challenge` is its `Bearer` challenge, if it sent
    /// one.
    pub fn handle_refusal(
        &mut self,
        status: u16,
        token: Option<&Secret>,
        challenge: Option<&Challenge>,
        now: SystemTime,
    ) -> AfterRefusal {
        if status == 403 {
            return self.handle_missing_scope(challenge);
        }
        if let Some(reason) = &self.end {
            return AfterRefusal::LogIn(reason.clone());
        }
        let Some(login) = &self.login else {
            return match (self.grant, challenge) {
                (Grant::ClientCredentials, _) => AfterRefusal::Refresh,
                (Grant::Person, Some(_)) => {
                    AfterRefusal::LogIn("the server requires a login".to_owned())
                }
                (Grant::Person, None) => AfterRefusal::NotOurs,
            };
        };
        if token != Some(&login.tokens.access) {
            return AfterRefusal::Use(login.tokens.access.clone());
        }
        let tokens = &login.tokens;
        let lifetime = tokens
            .expires_at
            .and_then(|end| end.duration_since(tokens.obtained_at).ok());
        let fresh = lifetime.map_or(FRESH, |lifetime| FRESH.min(lifetime / 4));
        let is_fresh = now
            .duration_since(tokens.obtained_at)
            .is_ok_and(|age| age < fresh);
        match (self.can_refresh(), is_fresh) {
            (true, false) => {
                self.is_refused = true;
                AfterRefusal::Refresh
            }
            (true, true) => AfterRefusal::LogIn(
                "the server refuses the token that was just issued (a wrong clock, or another audience?)"
                    .to_owned(),
            ),
            (false, _) => AfterRefusal::LogIn(
                "the login has expired, and the authorization server gave no refresh token"
                    .to_owned(),
            ),
        }
    }

    fn handle_missing_scope(&self, challenge: Option<&Challenge>) -> AfterRefusal {
        let Some(challenge) = challenge.filter(|challenge| challenge.is_insufficient_scope())
        else {
            return AfterRefusal::NotOurs;
        };
        let Some(login) = &self.login else {
            return AfterRefusal::LogIn("the server requires a login".to_owned());
        };
        let named = challenge.scopes.clone().unwrap_or_default();
        let missing = named.lacking(&login.tokens.scopes);
        if !missing.is_empty() {
            return AfterRefusal::StepUp(missing);
        }
        let mut reason = if named.is_empty() {
            "the login lacks a scope, and the server does not say which one".to_owned()
        } else {
            format!(
                "the login has the scopes {named}, and the server says that they are not sufficient"
            )
        };
        if let Some(description) = &challenge.error_description {
            reason.push_str(": ");
            reason.extend(description.chars().take(MAX_SHOWN));
        }
        AfterRefusal::Denied(reason)
    }

    /// True if the authorization server does not accept the client of the configuration, such as a secret that was
    /// replaced. The login lasts, and the settings may be corrected.
    fn is_about_settings(&self, error: &GrantError) -> bool {
        let login = self.login.as_ref();
        let is_configured = login.is_some_and(|login| login.registered_for.is_none());
        self.grant == Grant::Person && is_configured && error.is_client_unknown()
    }

    /// Handles the answer to a refresh: the login with its new tokens. `jitter` is from 0 to 1.
    pub fn handle_refresh(
        &mut self,
        answer: Result<StoredLogin, GrantError>,
        now: SystemTime,
        jitter: f64,
    ) -> AfterRefresh {
        self.last_refresh = Some(RefreshReport {
            at: now,
            error: answer.as_ref().err().map(ToString::to_string),
        });
        match answer {
            Ok(login) => {
                (self.failures, self.retry_at, self.end) = (0, None, None);
                self.is_refused = false;
                self.login = Some(login);
                AfterRefresh::Save
            }
            Err(error) if error.is_transient() || self.is_about_settings(&error) => {
                let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
                let pause = doubled
                    .min(LONGEST_PAUSE)
                    .mul_f64(1.0 - 0.5 * jitter.clamp(0.0, 1.0));
                let requested = error.pause().unwrap_or_default().min(LONGEST_PAUSE);
                let pause = pause.max(requested);
                self.failures += 1;
                let retry_at = now + pause;
                self.retry_at = Some(retry_at);
                AfterRefresh::Retry(retry_at)
            }
            Err(error) => {
                let reason = error.to_string();
                self.end = Some(reason.clone());
                if let Some(login) = &mut self.login {
                    login.ended = Some(reason.clone());
                }
                AfterRefresh::Ended(reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use oauth2::url::Url;

    use super::*;
    use crate::{
        discovery::IssuerMetadata,
        identity::{AuthMethod, ClientIdentity},
        tokens::Tokens,
    };

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn tokens(
        access: &str,
        obtained_at: u64,
        lifetime: Option<u64>,
        refresh: Option<&str>,
    ) -> Tokens {
        Tokens {
            access: Secret::new(access),
            refresh: refresh.map(Secret::new),
            obtained_at: at(obtained_at),
            expires_at: lifetime.map(|lifetime| at(obtained_at + lifetime)),
            scopes: Scopes::parse("read"),
        }
    }

    fn login(tokens: Tokens) -> StoredLogin {
        StoredLogin {
            server_url: "https://h/mcp".to_owned(),
            resource: "https://h/mcp".to_owned(),
            issuer: IssuerMetadata::legacy_endpoints(&Url::parse("https://h").expect("a URL")),
            client: ClientIdentity {
                id: "c".to_owned(),
                secret: Some(Secret::new("s")),
                auth_method: AuthMethod::ClientSecretBasic,
            },
            requested_scopes: Scopes::parse("read"),
            tokens,
            logged_in_at: at(0),
            registered_for: None,
            ended: None,
        }
    }

    fn upkeep(lifetime: Option<u64>, refresh: Option<&str>) -> LoginUpkeep {
        LoginUpkeep::new(
            Grant::Person,
            Some(login(tokens("one", 0, lifetime, refresh))),
        )
    }

    fn down() -> GrantError {
        GrantError::Unavailable {
            reason: "down".to_owned(),
            is_sent: false,
        }
    }

    #[test]
    fn an_issuer_that_asks_for_a_pause_gets_it() {
        for (seconds, expected) in [(120, 120), (3600, 300)] {
            let mut upkeep = upkeep(Some(100), Some("r"));
            let busy = GrantError::Busy {
                reason: "busy".to_owned(),
                pause: Duration::from_secs(seconds),
            };
            let after = upkeep.handle_refresh(Err(busy), at(100), 0.0);
            assert_eq!(after, AfterRefresh::Retry(at(100 + expected)), "{seconds}");
        }
    }

    fn refused() -> GrantError {
        GrantError::Refused {
            code: "invalid_grant".to_owned(),
            description: None,
        }
    }

    /// The secret of a configured client may be wrong for a while. A client that Mainstay registered itself is gone.
    #[test]
    fn an_unknown_client_ends_no_login_if_the_configuration_names_it() {
        let unknown = || GrantError::Refused {
            code: "invalid_client".to_owned(),
            description: None,
        };
        let mut configured = upkeep(Some(100), Some("r"));
        let after = configured.handle_refresh(Err(unknown()), at(100), 0.0);
        assert!(matches!(after, AfterRefresh::Retry(_)), "{after:?}");
        assert_eq!(configured.end(), None);
        let mut registered = login(tokens("one", 0, Some(100), Some("r")));
        registered.registered_for = Some("http://127.0.0.1:1/callback".to_owned());
        let mut registered = LoginUpkeep::new(Grant::Person, Some(registered));
        let after = registered.handle_refresh(Err(unknown()), at(100), 0.0);
        assert!(matches!(after, AfterRefresh::Ended(_)), "{after:?}");
        let mut machine = LoginUpkeep::new(Grant::ClientCredentials, None);
        let after = machine.handle_refresh(Err(unknown()), at(100), 0.0);
        assert!(matches!(after, AfterRefresh::Ended(_)), "{after:?}");
    }

    fn challenge(header: &str) -> Challenge {
        Challenge::parse([header]).expect("a challenge")
    }

    #[test]
    fn a_login_survives_being_stored() {
        let login = login(tokens("one", 0, Some(100), Some("r")));
        assert_eq!(StoredLogin::from_bytes(&login.to_bytes()), Ok(login));
        let error = StoredLogin::from_bytes(br#"{"serverUrl": "secret"#).expect_err("an error");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn a_token_is_used_until_it_expires_and_then_refreshed() {
        let upkeep = upkeep(Some(100), Some("r"));
        assert_eq!(
            upkeep.next_token(at(99)),
            NextToken::Ready(Secret::new("one"))
        );
        assert_eq!(upkeep.next_token(at(100)), NextToken::AfterRefresh(None));
        assert_eq!(upkeep.refresh_at(0.0), Some(at(80)));
        assert_eq!(upkeep.refresh_at(1.0), Some(at(70)));
    }

    #[test]
    fn a_token_without_an_end_or_a_refresh_token_is_used_until_it_is_refused() {
        for (lifetime, refresh) in [(None, Some("r")), (None, None), (Some(100), None)] {
            let mut upkeep = upkeep(lifetime, refresh);
            assert_eq!(
                upkeep.next_token(at(1000)),
                NextToken::Ready(Secret::new("one"))
            );
            assert_eq!(upkeep.refresh_at(0.0), None);
            let after = upkeep.handle_refusal(401, Some(&Secret::new("one")), None, at(1000));
            assert_eq!(
                after == AfterRefusal::Refresh,
                refresh.is_some(),
                "{after:?}"
            );
        }
    }

    #[test]
    fn many_refusals_of_one_token_are_one_refresh() {
        let mut upkeep = upkeep(Some(100), Some("r"));
        let old = Secret::new("one");
        assert_eq!(
            upkeep.handle_refusal(401, Some(&old), None, at(50)),
            AfterRefusal::Refresh
        );
        let after = upkeep.handle_refresh(
            Ok(login(tokens("two", 50, Some(100), Some("r2")))),
            at(50),
            0.0,
        );
        assert_eq!(after, AfterRefresh::Save);
        for _ in 0..10 {
            let after = upkeep.handle_refusal(401, Some(&old), None, at(50));
            assert_eq!(after, AfterRefusal::Use(Secret::new("two")));
        }
        assert_eq!(
            upkeep.last_refresh(),
            Some(&RefreshReport {
                at: at(50),
                error: None
            })
        );
    }

    #[test]
    fn a_server_that_refuses_every_token_causes_no_loop() {
        let mut upkeep = upkeep(Some(1000), Some("r"));
        upkeep.handle_refresh(
            Ok(login(tokens("two", 50, Some(1000), Some("r2")))),
            at(50),
            0.0,
        );
        let two = Secret::new("two");
        let after = upkeep.handle_refusal(401, Some(&two), None, at(51));
        assert!(matches!(after, AfterRefusal::LogIn(_)), "{after:?}");
        assert_eq!(
            upkeep.handle_refusal(401, Some(&two), None, at(80)),
            AfterRefusal::Refresh
        );
    }

    #[test]
    fn a_refused_token_is_not_used_again_before_a_refresh() {
        let mut upkeep = upkeep(None, Some("r"));
        let one = Secret::new("one");
        assert_eq!(upkeep.refresh_at(0.0), None);
        upkeep.handle_refusal(401, Some(&one), None, at(50));
        assert_eq!(upkeep.next_token(at(50)), NextToken::AfterRefresh(None));
        assert!(upkeep.refresh_at(0.0).is_some_and(|time| time <= at(50)));
        let AfterRefresh::Retry(retry_at) = upkeep.handle_refresh(Err(down()), at(50), 0.0) else {
            panic!("the login is over");
        };
        assert_eq!(upkeep.refresh_at(0.0), Some(retry_at));
        upkeep.handle_refresh(Ok(login(tokens("two", 60, None, Some("r")))), at(60), 0.0);
        assert_eq!(
            upkeep.next_token(at(60)),
            NextToken::Ready(Secret::new("two"))
        );
    }

    #[test]
    fn a_token_with_a_short_lifetime_is_fresh_for_a_quarter_of_it() {
        let mut upkeep = upkeep(Some(20), Some("r"));
        let one = Secret::new("one");
        let after = upkeep.handle_refusal(401, Some(&one), None, at(4));
        assert!(matches!(after, AfterRefusal::LogIn(_)), "{after:?}");
        let after = upkeep.handle_refusal(401, Some(&one), None, at(5));
        assert_eq!(after, AfterRefusal::Refresh);
    }

    #[test]
    fn an_authorization_server_that_is_down_costs_no_login() {
        let mut upkeep = upkeep(Some(100), Some("r"));
        let mut pauses = Vec::new();
        let mut now = at(100);
        for _ in 0..14 {
            let AfterRefresh::Retry(next) = upkeep.handle_refresh(Err(down()), now, 0.0) else {
                panic!("the login is over");
            };
            pauses.push(next.duration_since(now).expect("later").as_millis());
            assert_eq!(upkeep.next_token(now), NextToken::AfterRefresh(Some(next)));
            now = next;
        }
        assert_eq!(pauses[..4], [500, 1000, 2000, 4000]);
        assert_eq!(pauses[13], 300_000);
        assert_eq!(
            upkeep
                .last_refresh()
                .and_then(|refresh| refresh.error.as_deref()),
            Some("down")
        );
        assert_eq!(upkeep.refresh_at(0.0), Some(now));
        upkeep.handle_refresh(
            Ok(login(tokens("two", 9000, Some(100), None))),
            at(9000),
            0.0,
        );
        assert_eq!(
            upkeep.next_token(at(9000)),
            NextToken::Ready(Secret::new("two"))
        );
    }

    #[test]
    fn a_revoked_grant_ends_the_login_and_no_attempt_follows() {
        let mut upkeep = upkeep(Some(100), Some("r"));
        let after = upkeep.handle_refresh(Err(refused()), at(80), 0.0);
        let reason = "the authorization server says invalid_grant".to_owned();
        assert_eq!(after, AfterRefresh::Ended(reason.clone()));
        assert_eq!(upkeep.refresh_at(0.0), None);
        assert_eq!(upkeep.next_token(at(81)), NextToken::Ended(reason.clone()));
        let after = upkeep.handle_refusal(401, Some(&Secret::new("one")), None, at(81));
        assert_eq!(after, AfterRefusal::LogIn(reason));
        let stored = upkeep.login().cloned().expect("a login");
        let restarted = LoginUpkeep::new(Grant::Person, Some(stored.clone()));
        assert!(matches!(restarted.next_token(at(82)), NextToken::Ended(_)));
        let machine = LoginUpkeep::new(Grant::ClientCredentials, Some(stored));
        assert!(matches!(machine.next_token(at(82)), NextToken::Ready(_)));
        upkeep.replace(login(tokens("new", 90, Some(100), Some("r"))));
        assert_eq!(
            upkeep.next_token(at(91)),
            NextToken::Ready(Secret::new("new"))
        );
    }

    #[test]
    fn a_401_to_no_login_asks_for_one_where_the_server_names_bearer_tokens() {
        let mut upkeep = LoginUpkeep::new(Grant::Person, None);
        assert_eq!(upkeep.next_token(at(0)), NextToken::NoLogin);
        assert_eq!(
            upkeep.handle_refusal(401, None, None, at(0)),
            AfterRefusal::NotOurs
        );
        let after = upkeep.handle_refusal(401, None, Some(&challenge("Bearer")), at(0));
        assert!(matches!(after, AfterRefusal::LogIn(_)), "{after:?}");
        let mut machine = LoginUpkeep::new(Grant::ClientCredentials, None);
        assert_eq!(machine.next_token(at(0)), NextToken::AfterRefresh(None));
        assert_eq!(
            machine.handle_refusal(401, None, None, at(0)),
            AfterRefusal::Refresh
        );
        let first = login(tokens("first", 0, Some(100), None));
        assert_eq!(
            machine.handle_refresh(Ok(first), at(0), 0.0),
            AfterRefresh::Save
        );
        assert_eq!(
            machine.next_token(at(1)),
            NextToken::Ready(Secret::new("first"))
        );
        assert_eq!(machine.next_token(at(100)), NextToken::AfterRefresh(None));
    }

    #[test]
    fn a_missing_scope_asks_for_more_and_keeps_the_login() {
        let mut upkeep = upkeep(Some(100), Some("r"));
        let missing = challenge(r#"Bearer error="insufficient_scope", scope="read write""#);
        let after = upkeep.handle_refusal(403, Some(&Secret::new("one")), Some(&missing), at(1));
        assert_eq!(after, AfterRefusal::StepUp(Scopes::parse("write")));
        assert_eq!(
            upkeep.next_token(at(1)),
            NextToken::Ready(Secret::new("one"))
        );
        let other = challenge("Bearer");
        for challenge in [None, Some(&other)] {
            assert_eq!(
                upkeep.handle_refusal(403, None, challenge, at(1)),
                AfterRefusal::NotOurs
            );
        }
    }

    #[test]
    fn a_denied_permission_names_no_missing_scopes() {
        let mut upkeep = upkeep(Some(100), Some("r"));
        for (header, reason) in [
            (
                r#"Bearer error="insufficient_scope", scope="read""#,
                "the login has the scopes read, and the server says that they are not sufficient",
            ),
            (
                r#"Bearer error="insufficient_scope", error_description="for owners only""#,
                "the login lacks a scope, and the server does not say which one: for owners only",
            ),
        ] {
            let token = Secret::new("one");
            let after = upkeep.handle_refusal(403, Some(&token), Some(&challenge(header)), at(1));
            assert_eq!(after, AfterRefusal::Denied(reason.to_owned()));
            assert_eq!(upkeep.next_token(at(1)), NextToken::Ready(token));
        }
    }

    #[test]
    fn a_clock_that_jumps_costs_a_refresh_at_most() {
        let mut late = upkeep(Some(100), Some("r"));
        late.handle_refresh(Err(down()), at(100_000), 0.0);
        // The clock was set back after a failure, so the next attempt does not wait for the old time.
        assert_eq!(late.next_token(at(200)), NextToken::AfterRefresh(None));
        let upkeep = upkeep(Some(100), Some("r"));
        // The clock was set back, so the token seems valid for longer. Only the server's 401 shows that it is not.
        assert_eq!(
            upkeep.next_token(SystemTime::UNIX_EPOCH),
            NextToken::Ready(Secret::new("one"))
        );
        // The clock was set ahead.
        assert_eq!(upkeep.next_token(at(700)), NextToken::AfterRefresh(None));
    }
}
