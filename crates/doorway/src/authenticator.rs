//! Authenticates requests by token or cookie. The token of a connection is looked up once, and
//! again after the tokens have changed.

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, header};
use mainstay_core::{config::Secret, principal::Principal};
use mainstay_tokens::{self as tokens, Edition, PREFIX, Pass, Tokens};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::browser;

/// The condition under which a path requires a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    Never,
    /// Required if any client has a token.
    WithTokens,
    Always,
}

/// Decides whether a request at one listener is admitted. Each door has its own [`Demand`].
#[derive(Debug)]
pub struct Authenticator {
    tokens: Tokens,
    pub mcp: Demand,
    pub metrics: Demand,
}

/// The reason for an answer with status 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    #[error("a token is needed: Authorization: Bearer TOKEN (`mainstay token add` makes one)")]
    Missing,
    #[error("the token is unknown, has expired, or was removed")]
    Invalid,
}

impl Unauthorized {
    /// The value of `WWW-Authenticate` (RFC 6750, section 3).
    pub fn challenge(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Missing => "Bearer",
            Self::Invalid => r#"Bearer error="invalid_token""#,
        })
    }
}

/// The principal of the last request on a connection. HTTP/1.1 answers requests in order, so the
/// current answer is for the same principal.
#[derive(Debug, Default)]
pub struct Visit(Mutex<Last>);

#[derive(Debug, Default)]
enum Last {
    /// No request yet, or a request that needed no token.
    #[default]
    Anyone,
    /// A request without a valid token. Its path has this demand.
    Anonymous(Demand),
    Bearer(CheckedToken),
    /// A request of a signed-in browser, with its cookie's secret.
    Browser(Secret),
}

/// A valid token, and the edition of the tokens in which it was found.
#[derive(Debug)]
struct CheckedToken {
    header: HeaderValue,
    pass: Pass,
    edition: Edition,
}

impl Visit {
    fn last(&self) -> MutexGuard<'_, Last> {
        // Locked for a comparison or an assignment, never across an await.
        self.0.lock()
    }
}

impl Authenticator {
    /// `required_setting` is the configured value. `is_exposed` is true if other machines can reach
    /// the listener.
    pub fn new(tokens: Tokens, required_setting: Option<bool>, is_exposed: bool) -> Self {
        let mcp = match (required_setting, is_exposed) {
            (Some(false), _) => Demand::Never,
            (None, false) => Demand::WithTokens,
            (Some(true), _) | (None, true) => Demand::Always,
        };
        let metrics = if is_exposed {
            Demand::Always
        } else {
            Demand::Never
        };
        Self {
            tokens,
            mcp,
            metrics,
        }
    }

    /// Returns the principal of a request, or refuses the request if `demand` requires a token.
    pub fn admit(
        &self,
        demand: Demand,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<Principal, Unauthorized> {
        let refusal = match self.look_up(headers, visit) {
            Some(Ok(principal)) => return Ok(principal),
            // An invalid token with Mainstay's prefix is always refused. A token without it may be
            // meant for another program.
            Some(Err(token)) if token.starts_with(PREFIX.as_bytes()) => {
                return Err(Unauthorized::Invalid);
            }
            Some(Err(_)) => Unauthorized::Invalid,
            None => Unauthorized::Missing,
        };
        *visit.last() = Last::Anonymous(demand);
        if self.is_in_force(demand) {
            Err(refusal)
        } else {
            Ok(Principal::Anonymous)
        }
    }

    /// Stores the principal of a request to a door that authenticates requests itself, by token or
    /// cookie.
    pub fn note(&self, headers: &HeaderMap, visit: &Visit) {
        if headers.contains_key(header::AUTHORIZATION) {
            if !matches!(self.look_up(headers, visit), Some(Ok(_))) {
                *visit.last() = Last::Anyone;
            }
            return;
        }
        let session = browser::session(&self.tokens, headers);
        *visit.last() = session.map_or(Last::Anyone, |session| Last::Browser(session.secret));
    }

    /// True if the last principal may still get its answer. Tokens and sessions may have ended.
    pub fn is_open_to(&self, visit: &Visit) -> bool {
        match &*visit.last() {
            Last::Anyone => true,
            Last::Anonymous(demand) => !self.is_in_force(*demand),
            Last::Browser(secret) => self.tokens.session(secret.expose().as_bytes()).is_some(),
            Last::Bearer(checked) => {
                bearer(&checked.header).is_some_and(|token| self.tokens.bearer(token).is_some())
            }
        }
    }

    /// Notifies of changes that may affect [`Authenticator::is_open_to`].
    pub fn changes(&self) -> watch::Receiver<()> {
        self.tokens.changes()
    }

    fn is_in_force(&self, demand: Demand) -> bool {
        match demand {
            Demand::Never => false,
            Demand::WithTokens => self.tokens.has_clients(),
            Demand::Always => true,
        }
    }

    /// The principal of the request's token, or the token itself if it is unknown. `None` if the
    /// request has no token.
    fn look_up<'h>(
        &self,
        headers: &'h HeaderMap,
        visit: &Visit,
    ) -> Option<Result<Principal, &'h [u8]>> {
        let header = headers.get(header::AUTHORIZATION)?;
        let mut last_sign = visit.last();
        if let Last::Bearer(checked_token) = &*last_sign
            && checked_token.holds(header, &self.tokens)
        {
            return Some(Ok(checked_token.pass.principal.clone()));
        }
        let token = bearer(header)?;
        // Take the edition before the lookup. If the tokens change between both, the result then
        // counts as outdated.
        let edition = self.tokens.edition();
        let Some(bearer_token) = self.tokens.bearer(token) else {
            return Some(Err(token));
        };
        let principal = bearer_token.principal.clone();
        *last_sign = Last::Bearer(CheckedToken {
            header: header.clone(),
            pass: bearer_token,
            edition,
        });
        Some(Ok(principal))
    }
}

impl CheckedToken {
    fn holds(&self, header: &HeaderValue, tokens: &Tokens) -> bool {
        let has_ended = |end| end <= SystemTime::now();
        self.edition.is_current(tokens)
            && tokens::same(self.header.as_bytes(), header.as_bytes())
            && !self.pass.expires_at.is_some_and(has_ended)
    }
}

/// The token in an `Authorization: Bearer` header. The scheme is case-insensitive (RFC 9110).
pub fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = header.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            let value = HeaderValue::from_str(authorization).expect("ASCII");
            headers.insert(header::AUTHORIZATION, value);
        }
        headers
    }

    fn admitted(authenticator: &Authenticator, authorization: &str, visit: &Visit) -> String {
        match authenticator.admit(authenticator.mcp, &headers(authorization), visit) {
            Ok(principal) => principal.to_string(),
            Err(Unauthorized::Missing) => "missing".to_owned(),
            Err(Unauthorized::Invalid) => "invalid".to_owned(),
        }
    }

    /// The setting decides whether a token is required. Without a setting, a token is required if
    /// other machines reach the address or if client tokens exist.
    #[test]
    fn a_token_is_demanded_where_others_reach_or_clients_have_one() {
        for (required_setting, is_exposed, has_clients, expected) in [
            (None, false, false, false),
            (None, false, true, true),
            (None, true, false, true),
            (None, true, true, true),
            (Some(true), false, false, true),
            (Some(false), false, true, false),
            (Some(false), true, true, false),
        ] {
            let tokens = Tokens::from(Secret::new("control"));
            if has_clients {
                tokens.add("a", None).expect("added");
            }
            let authenticator = Authenticator::new(tokens, required_setting, is_exposed);
            for (authorization, error) in [
                ("", "missing"),
                ("Basic eA==", "missing"),
                ("Bearer x", "invalid"),
            ] {
                let expected = if expected { error } else { "anonymous" };
                let admission = admitted(&authenticator, authorization, &Visit::default());
                assert_eq!(
                    admission, expected,
                    "{required_setting:?} {is_exposed} {has_clients} {authorization:?}"
                );
            }
            // Mainstay's own tokens are checked even if the path requires none.
            for (authorization, expected) in [
                ("Bearer mst_x", "invalid"),
                ("bearer  control ", "operator"),
            ] {
                assert_eq!(
                    admitted(&authenticator, authorization, &Visit::default()),
                    expected,
                    "{authorization}"
                );
            }
        }
    }

    /// A cached result is valid for the same header until the tokens change.
    #[test]
    fn a_connection_is_known_by_its_token_until_the_tokens_change() {
        let tokens = Tokens::from(Secret::new("control"));
        let authenticator = Authenticator::new(tokens.clone(), None, false);
        let (visit, other_visit) = (Visit::default(), Visit::default());
        assert_eq!(admitted(&authenticator, "", &other_visit), "anonymous");
        let (token, _) = tokens.add("a", None).expect("added");
        assert!(!authenticator.is_open_to(&other_visit) && authenticator.is_open_to(&visit));

        let authorization = format!("Bearer {}", token.expose());
        for _ in 0..2 {
            assert_eq!(admitted(&authenticator, &authorization, &visit), "client:a");
        }
        assert_eq!(
            admitted(&authenticator, "Bearer control", &visit),
            "operator"
        );
        assert_eq!(
            admitted(
                &authenticator,
                &authorization[..authorization.len() - 1],
                &visit
            ),
            "invalid"
        );
        assert_eq!(admitted(&authenticator, &authorization, &visit), "client:a");
        tokens.add("b", None).expect("added");
        assert!(authenticator.is_open_to(&visit));
        tokens.remove("a").expect("removed");
        assert!(!authenticator.is_open_to(&visit));
        assert_eq!(admitted(&authenticator, &authorization, &visit), "invalid");
    }

    /// A connection with a cookie ends with its browser session. A cookie opens no MCP path.
    #[test]
    fn a_connection_of_the_page_lasts_as_long_as_its_session() {
        let tokens = Tokens::from(Secret::new("control"));
        let authenticator = Authenticator::new(tokens.clone(), Some(true), false);
        let sign_in = |lifetime| tokens.sign_in(None, lifetime).expect("signed in").secret;
        let visit_with_cookie = |secret: &Secret, authorization: &str| {
            let mut headers = headers(authorization);
            let cookie = format!("mainstay-7420={}", secret.expose());
            headers.insert(header::COOKIE, cookie.parse().expect("a header"));
            headers.insert(header::HOST, HeaderValue::from_static("[::1]:7420"));
            let visit = Visit::default();
            authenticator.note(&headers, &visit);
            let at_mcp = authenticator.admit(authenticator.mcp, &headers, &Visit::default());
            (visit, at_mcp.is_ok())
        };
        let long_session = sign_in(Duration::from_hours(1));
        let (visit, at_mcp) = visit_with_cookie(&long_session, "");
        let (bearer, _) = visit_with_cookie(&long_session, "Bearer control");
        assert!(!at_mcp && authenticator.is_open_to(&visit));
        tokens.sign_out(&long_session).expect("signed out");
        assert!(!authenticator.is_open_to(&visit));
        // If a request has a token and a cookie, the token decides.
        assert!(authenticator.is_open_to(&bearer));

        let short_session = sign_in(Duration::from_millis(1));
        *visit.last() = Last::Browser(short_session.clone());
        while tokens.session(short_session.expose().as_bytes()).is_some() {
            std::thread::yield_now();
        }
        assert!(!authenticator.is_open_to(&visit));

        let (visit, _) = visit_with_cookie(&sign_in(Duration::from_hours(1)), "");
        tokens.rotate().expect("rotated");
        assert!(!authenticator.is_open_to(&visit));
    }
}
