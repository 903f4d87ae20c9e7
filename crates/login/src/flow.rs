//! Started logins in a browser. Each waits up to ten minutes for its redirect.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use mainstay_core::config::Secret;
use oauth2::url::Url;

use crate::discovery::IssuerMetadata;

/// Time limit of a login.
pub const LOGIN_LIMIT: Duration = Duration::from_mins(10);

/// Maximum number of logins that wait at the same time. A new login replaces the oldest.
const MAX_PENDING: usize = 100;

/// A login that waits for its redirect. `T` is the caller's context for completing the login.
#[derive(Debug)]
pub struct PendingLogin<T> {
    /// The name of the login. A second login with this name replaces the first.
    pub name: String,
    pub redirect: Url,
    /// The URL to open in a browser.
    pub authorization_url: Url,
    pub verifier: Secret,
    /// The issuer. Its metadata was validated before the browser was opened (RFC 9207).
    pub issuer: IssuerMetadata,
    pub context: T,
}

/// The way in which the answer to a login arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A browser requested a path of Mainstay. `port` is `None` if a proxy may have changed it.
    Browser { path: &'a str, port: Option<u16> },
    /// A user pasted the URL, for the login with this name.
    Pasted(&'a str),
}

impl Arrival<'_> {
    /// True if this login expects its answer in this way.
    fn is_of<T>(self, login: &PendingLogin<T>) -> bool {
        match self {
            Self::Browser { path, port } => {
                login.redirect.path() == path
                    && port.is_none_or(|port| login.redirect.port_or_known_default() == Some(port))
            }
            Self::Pasted(name) => login.name == name,
        }
    }
}

/// Logins by the `state` of their requests.
#[derive(Debug)]
pub struct PendingLogins<T> {
    by_state: HashMap<String, (SystemTime, PendingLogin<T>)>,
    /// States of logins that have ended, with the reason. Kept while a browser may still arrive with them.
    over: HashMap<String, (SystemTime, StateError)>,
}

impl<T> Default for PendingLogins<T> {
    fn default() -> Self {
        Self {
            by_state: HashMap::new(),
            over: HashMap::new(),
        }
    }
}

/// A `state` that belongs to no pending login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("this address belongs to no login that Mainstay has begun")]
    Unknown,
    #[error("this login has been completed already")]
    Used,
    #[error("another login to the same server has begun since")]
    Replaced,
    #[error("this login belongs to another server or another address")]
    Elsewhere,
    #[error("this login was begun more than ten minutes ago; begin it again")]
    TooLate,
}

impl<T> PendingLogins<T> {
    pub fn begin(&mut self, state: &Secret, login: PendingLogin<T>, now: SystemTime) {
        self.sweep(now);
        let older = self
            .by_state
            .iter()
            .find(|(_, (_, pending))| pending.name == login.name);
        let older = older.map(|(state, _)| state.clone());
        if let Some(state) = older {
            self.end(&state, StateError::Replaced, now);
        } else if self.by_state.len() >= MAX_PENDING {
            let oldest = self
                .by_state
                .iter()
                .min_by_key(|(_, (started_at, _))| *started_at);
            let oldest = oldest.map(|(state, _)| state.clone());
            if let Some(state) = oldest {
                self.end(&state, StateError::Replaced, now);
            }
        }
        self.by_state
            .insert(state.expose().to_owned(), (now, login));
    }

    /// Takes the login of a state. A state is valid once. An answer that arrives in another way does not use
    /// it up.
    pub fn take(
        &mut self,
        state: &str,
        arrival: Arrival<'_>,
        now: SystemTime,
    ) -> Result<PendingLogin<T>, StateError> {
        self.sweep(now);
        let pending = self.by_state.get(state);
        if pending.is_some_and(|(_, login)| !arrival.is_of(login)) {
            return Err(StateError::Elsewhere);
        }
        match self.end(state, StateError::Used, now) {
            Some(login) => Ok(login),
            None => Err(self
                .over
                .get(state)
                .map_or(StateError::Unknown, |(_, reason)| *reason)),
        }
    }

    /// Cancels the login with this name. Returns `false` if there is none.
    pub fn cancel(&mut self, name: &str, now: SystemTime) -> bool {
        let state = self
            .by_state
            .iter()
            .find(|(_, (_, login))| login.name == name);
        let state = state.map(|(state, _)| state.clone());
        state.is_some_and(|state| self.end(&state, StateError::Replaced, now).is_some())
    }

    /// The login with this name that waits for its redirect.
    pub fn pending(&self, name: &str, now: SystemTime) -> Option<&PendingLogin<T>> {
        let (_, login) = self
            .by_state
            .values()
            .find(|(started_at, login)| login.name == name && !is_over(*started_at, now))?;
        Some(login)
    }

    fn end(&mut self, state: &str, reason: StateError, now: SystemTime) -> Option<PendingLogin<T>> {
        let (state, (_, login)) = self.by_state.remove_entry(state)?;
        if self.over.len() < MAX_PENDING {
            self.over.insert(state, (now, reason));
        }
        Some(login)
    }

    fn sweep(&mut self, now: SystemTime) {
        self.over.retain(|_, (ended, _)| !is_over(*ended, now));
        let late: Vec<String> = self
            .by_state
            .iter()
            .filter(|(_, (started_at, _))| is_over(*started_at, now))
            .map(|(state, _)| state.clone())
            .collect();
        for state in late {
            self.end(&state, StateError::TooLate, now);
        }
    }
}

/// True if the login has exceeded its time limit. False if the clock was set back.
fn is_over(started_at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(started_at)
        .is_ok_and(|age| age > LOGIN_LIMIT)
}

/// The parameters of a redirect (RFC 6749, 4.1.2; RFC 9207, 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    pub state: Option<String>,
    pub code: Option<Secret>,
    pub issuer: Option<String>,
    pub error: Option<String>,
    pub error_description: Option<String>,
}

/// An answer in a redirect that brings no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// The text is not quoted, because it may be a code.
    #[error("this is no address that a browser comes back to after a login")]
    NoAddress,
    #[error("the address has no `{0}`")]
    Missing(&'static str),
    #[error("the address has `{0}` twice")]
    Twice(&'static str),
    /// The answer is not quoted, because another server may have written it (RFC 9207, 2.4).
    #[error("the answer comes from another authorization server than the one that was asked")]
    OtherIssuer,
    #[error("the answer does not say which authorization server it comes from")]
    NoIssuer,
    #[error("{}", refusal(.error, .description.as_deref()))]
    Refused {
        error: String,
        description: Option<String>,
    },
}

fn refusal(error: &str, description: Option<&str>) -> String {
    match (error, description) {
        ("access_denied", None) => "the login was refused or given up".to_owned(),
        (error, None) => format!("the authorization server says {error}"),
        (error, Some(description)) => {
            format!("the authorization server says {error}: {description}")
        }
    }
}

/// Maximum length of a text of an authorization server that is shown, in characters.
pub const MAX_SHOWN: usize = 300;

impl Redirect {
    /// Parses the query of a redirect.
    pub fn from_query(query: &str) -> Result<Self, RedirectError> {
        let mut redirect = Self::default();
        for (name, value) in oauth2::url::form_urlencoded::parse(query.as_bytes()) {
            let (name, place) = match name.as_ref() {
                "state" => ("state", &mut redirect.state),
                "iss" => ("iss", &mut redirect.issuer),
                "error" => ("error", &mut redirect.error),
                "error_description" => ("error_description", &mut redirect.error_description),
                "code" => {
                    if redirect.code.replace(Secret::new(value)).is_some() {
                        return Err(RedirectError::Twice("code"));
                    }
                    continue;
                }
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(RedirectError::Twice(name));
            }
        }
        Ok(redirect)
    }

    /// Parses a URL that a user pasted: the whole URL, or only its query.
    pub fn from_pasted(text: &str) -> Result<Self, RedirectError> {
        let text = text.trim();
        let query = match text.split_once('?') {
            Some((_, query)) => query,
            None if text.contains("code=") || text.contains("error=") => text,
            None => return Err(RedirectError::NoAddress),
        };
        let query = query.split('#').next().unwrap_or_default();
        Self::from_query(query)
    }

    pub fn state(&self) -> Result<&str, RedirectError> {
        self.state.as_deref().ok_or(RedirectError::Missing("state"))
    }

    /// Returns the code if the answer comes from this issuer ("Authorization Response Validation").
    pub fn code(self, issuer: &IssuerMetadata) -> Result<Secret, RedirectError> {
        match &self.issuer {
            Some(named) if *named != issuer.issuer => return Err(RedirectError::OtherIssuer),
            None if issuer.authorization_response_iss_parameter_supported => {
                return Err(RedirectError::NoIssuer);
            }
            Some(_) | None => {}
        }
        if let Some(error) = self.error {
            let short = |text: String| text.chars().take(MAX_SHOWN).collect::<String>();
            return Err(RedirectError::Refused {
                error: short(error),
                description: self.error_description.map(short),
            });
        }
        self.code.ok_or(RedirectError::Missing("code"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn issuer() -> IssuerMetadata {
        IssuerMetadata::legacy_endpoints(&url("https://a"))
    }

    const HERE: Arrival<'_> = Arrival::Browser {
        path: "/callback",
        port: Some(1),
    };

    fn login(name: &str) -> PendingLogin<()> {
        PendingLogin {
            name: name.to_owned(),
            redirect: url("http://127.0.0.1:1/callback"),
            authorization_url: url("https://a/authorize"),
            verifier: Secret::new("v"),
            issuer: issuer(),
            context: (),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_state_is_valid_once_and_for_ten_minutes() {
        let mut logins = PendingLogins::default();
        for (name, started_at) in [("one", 0), ("two", 0), ("three", 0)] {
            logins.begin(&Secret::new(name), login(name), at(started_at));
        }
        assert_eq!(
            logins.take("one", HERE, at(600)).expect("a login").name,
            "one"
        );
        assert_eq!(
            logins.take("one", HERE, at(600)).err(),
            Some(StateError::Used)
        );
        assert!(logins.pending("two", at(600)).is_some());
        assert!(logins.pending("two", at(601)).is_none());
        assert_eq!(
            logins.take("two", HERE, at(601)).err(),
            Some(StateError::TooLate)
        );
        assert_eq!(
            logins.take("guess", HERE, at(601)).err(),
            Some(StateError::Unknown)
        );
        assert_eq!(
            logins.take("one", HERE, at(2000)).err(),
            Some(StateError::Unknown)
        );
    }

    #[test]
    fn an_answer_that_arrives_elsewhere_uses_no_login_up() {
        let mut logins = PendingLogins::default();
        logins.begin(&Secret::new("s"), login("files"), at(0));
        let other_port = Arrival::Browser {
            path: "/callback",
            port: Some(2),
        };
        let other_path = Arrival::Browser {
            path: "/oauth/callback",
            port: None,
        };
        for arrival in [other_port, other_path, Arrival::Pasted("mail")] {
            let login = logins.take("s", arrival, at(1));
            assert_eq!(login.err(), Some(StateError::Elsewhere), "{arrival:?}");
        }
        assert!(logins.take("s", Arrival::Pasted("files"), at(1)).is_ok());
    }

    #[test]
    fn a_second_login_to_a_server_takes_the_place_of_the_first() {
        let mut logins = PendingLogins::default();
        logins.begin(&Secret::new("first"), login("files"), at(0));
        logins.begin(&Secret::new("second"), login("files"), at(1));
        assert_eq!(
            logins.take("first", HERE, at(2)).err(),
            Some(StateError::Replaced)
        );
        assert!(logins.take("second", HERE, at(2)).is_ok());
        logins.begin(&Secret::new("third"), login("files"), at(3));
        assert!(logins.cancel("files", at(4)));
        assert!(!logins.cancel("files", at(4)));
    }

    #[test]
    fn abandoned_logins_are_bounded() {
        let mut logins = PendingLogins::default();
        for number in 0..3 * MAX_PENDING {
            let name = number.to_string();
            logins.begin(&Secret::new(&*name), login(&name), at(number as u64));
        }
        assert_eq!(logins.by_state.len(), MAX_PENDING);
        assert!(logins.over.len() <= MAX_PENDING);
        assert!(logins.take("299", HERE, at(300)).is_ok());
        assert!(logins.take("0", HERE, at(300)).is_err());
    }

    #[test]
    fn a_clock_that_is_set_back_ends_no_login() {
        let mut logins = PendingLogins::default();
        logins.begin(&Secret::new("s"), login("files"), at(1000));
        assert!(logins.take("s", HERE, at(400)).is_ok());
    }

    #[test]
    fn a_redirect_is_read_from_a_query_or_what_a_person_pastes() {
        let expected = Redirect {
            state: Some("s t".to_owned()),
            code: Some(Secret::new("c&")),
            issuer: Some("https://a".to_owned()),
            ..Redirect::default()
        };
        let query = "code=c%26&state=s+t&iss=https%3A%2F%2Fa&other=1";
        assert_eq!(Redirect::from_query(query), Ok(expected.clone()));
        for text in [
            format!("http://127.0.0.1:1/callback?{query}"),
            format!(" http://127.0.0.1:1/callback?{query}#_=_\n"),
            query.to_owned(),
        ] {
            assert_eq!(Redirect::from_pasted(&text), Ok(expected.clone()), "{text}");
        }
        assert!(matches!(
            Redirect::from_pasted("hello"),
            Err(RedirectError::NoAddress)
        ));
        assert_eq!(
            Redirect::from_query("code=a&code=b"),
            Err(RedirectError::Twice("code"))
        );
        assert_eq!(
            Redirect::from_query("state=a&state=b"),
            Err(RedirectError::Twice("state"))
        );
        assert_eq!(
            Redirect::default().state(),
            Err(RedirectError::Missing("state"))
        );
    }

    #[test]
    fn an_answer_counts_from_the_issuer_that_was_asked() {
        let supporting = IssuerMetadata {
            authorization_response_iss_parameter_supported: true,
            ..issuer()
        };
        for (issuer, query, expected) in [
            (&issuer(), "code=c", Ok("c")),
            (&issuer(), "code=c&iss=https%3A%2F%2Fa", Ok("c")),
            (
                &issuer(),
                "code=c&iss=https%3A%2F%2Fb",
                Err(RedirectError::OtherIssuer),
            ),
            (
                &issuer(),
                "code=c&iss=https%3A%2F%2Fa%2F",
                Err(RedirectError::OtherIssuer),
            ),
            (&supporting, "code=c&iss=https%3A%2F%2Fa", Ok("c")),
            (&supporting, "code=c", Err(RedirectError::NoIssuer)),
            (
                &issuer(),
                "error=phish&iss=https%3A%2F%2Fb",
                Err(RedirectError::OtherIssuer),
            ),
            (&issuer(), "state=s", Err(RedirectError::Missing("code"))),
        ] {
            let redirect = Redirect::from_query(query).expect(query);
            let code = redirect.code(issuer);
            assert_eq!(
                code.as_ref().map(Secret::expose),
                expected.as_ref().copied(),
                "{query}"
            );
        }
    }

    #[test]
    fn a_refusal_is_told_in_words() {
        for (query, text) in [
            ("error=access_denied", "the login was refused or given up"),
            (
                "error=server_error&error_description=try+later",
                "the authorization server says server_error: try later",
            ),
            (
                "error=invalid_scope",
                "the authorization server says invalid_scope",
            ),
        ] {
            let error = Redirect::from_query(query).expect(query).code(&issuer());
            assert_eq!(error.expect_err(query).to_string(), text);
        }
    }
}
