//! Sessions of browsers that signed in on the web page. A browser has two secrets. The cookie's
//! secret goes to every port of the host. The page key is in storage that only Mainstay's page can
//! read. Mainstay stores the SHA-256 of both, and the end of the session.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use mainstay_platform::hex;

use super::book::{Book, Fingerprint, bytes, moment, seconds};

/// Maximum number of sessions. A person has a few browsers. A further session ends the oldest one.
const MAX_SESSIONS: usize = 64;

/// Lifetime of a browser session.
pub const LIFETIME: Duration = Duration::from_hours(30 * 24);

/// One browser that is signed in.
#[derive(Clone, Debug)]
pub struct BrowserSession {
    fingerprint: Fingerprint,
    page_key: Fingerprint,
    expires_at: SystemTime,
}

impl BrowserSession {
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// True if this is the page key of the session.
    pub fn has_page_key(&self, key: &[u8]) -> bool {
        self.page_key == Fingerprint::new(key)
    }
}

impl Book {
    /// The session with this secret, unless it has expired.
    pub fn session(&self, secret: &[u8], now: SystemTime) -> Option<&BrowserSession> {
        let fingerprint = Fingerprint::new(secret);
        let is_match = |session: &&BrowserSession| session.fingerprint == fingerprint;
        let session = self.sessions.iter().find(is_match)?;
        (session.expires_at > now).then_some(session)
    }

    /// Adds a session and returns the time at which it ends. Removes expired sessions.
    pub fn sign_in(
        &mut self,
        secret: &[u8],
        page_key: &[u8],
        lifetime: Duration,
        now: SystemTime,
    ) -> SystemTime {
        self.sessions.retain(|session| session.expires_at > now);
        let excess = (self.sessions.len() + 1).saturating_sub(MAX_SESSIONS);
        self.sessions.drain(..excess);
        let expires_at = now + lifetime;
        self.sessions.push(BrowserSession {
            fingerprint: Fingerprint::new(secret),
            page_key: Fingerprint::new(page_key),
            expires_at,
        });
        expires_at
    }

    pub fn sign_out(&mut self, secret: &[u8]) {
        let fingerprint = Fingerprint::new(secret);
        self.sessions
            .retain(|session| session.fingerprint != fingerprint);
    }
}

/// The content of `browsers.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredSessions {
    /// The SHA-256 of the control token at the sign-in. The sessions are valid only with this
    /// token.
    control_sha256: String,
    sessions: Vec<StoredSession>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredSession {
    sha256: String,
    page_key_sha256: String,
    expires_unix_seconds: u64,
}

/// The content of `browsers.json` for the sessions of a book, oldest first.
pub fn to_json(book: &Book) -> serde_json::Result<Vec<u8>> {
    let to_stored = |session: &BrowserSession| StoredSession {
        sha256: hex::encode(&session.fingerprint.0),
        page_key_sha256: hex::encode(&session.page_key.0),
        expires_unix_seconds: seconds(session.expires_at),
    };
    serde_json::to_vec_pretty(&StoredSessions {
        control_sha256: hex::encode(&book.control.0),
        sessions: book.sessions.iter().map(to_stored).collect(),
    })
}

/// Returns the stored sessions. Empty if the control token has been replaced.
pub fn from_json(text: &[u8], control: &Fingerprint) -> serde_json::Result<Vec<BrowserSession>> {
    let invalid_digest = || serde::de::Error::custom("a bad sha256");
    let stored_sessions: StoredSessions = serde_json::from_slice(text)?;
    if bytes(&stored_sessions.control_sha256)
        .map(Fingerprint)
        .ok_or_else(invalid_digest)?
        != *control
    {
        return Ok(Vec::new());
    }
    let to_session = |stored: &StoredSession| {
        Ok(BrowserSession {
            fingerprint: bytes(&stored.sha256)
                .map(Fingerprint)
                .ok_or_else(invalid_digest)?,
            page_key: bytes(&stored.page_key_sha256)
                .map(Fingerprint)
                .ok_or_else(invalid_digest)?,
            expires_at: moment(stored.expires_unix_seconds),
        })
    };
    stored_sessions
        .sessions
        .iter()
        .take(MAX_SESSIONS)
        .map(to_session)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn book() -> Book {
        Book::new(Fingerprint::new(b"control"), Vec::new())
    }

    fn session_end(book: &Book, secret: &[u8], now: SystemTime) -> Option<SystemTime> {
        book.session(secret, now).map(BrowserSession::expires_at)
    }

    #[test]
    fn a_session_lasts_until_it_expires_or_is_signed_out() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let end = book.sign_in(b"one", b"key", HOUR, now);
        book.sign_in(b"two", b"key", 2 * HOUR, now);
        assert_eq!(session_end(&book, b"one", now), Some(end));
        assert_eq!(
            session_end(&book, b"one", end - Duration::from_millis(1)),
            Some(end)
        );
        assert_eq!(session_end(&book, b"one", end), None);
        for unknown_secret in [&b""[..], b"control", b"on", b"onee"] {
            assert_eq!(session_end(&book, unknown_secret, now), None);
        }
        book.sign_out(b"two");
        assert_eq!(session_end(&book, b"two", now), None);
        // The secret of a cookie is not a bearer token.
        assert_eq!(book.bearer(b"one", now), None);
    }

    #[test]
    fn the_oldest_sessions_are_removed() {
        let (mut book, now) = (book(), SystemTime::now());
        book.sign_in(b"expired", b"key", Duration::ZERO, now);
        for number in 0..=MAX_SESSIONS {
            book.sign_in(&number.to_be_bytes(), b"key", HOUR, now);
        }
        assert_eq!(book.sessions.len(), MAX_SESSIONS);
        assert_eq!(session_end(&book, &0_usize.to_be_bytes(), now), None);
        for number in 1..=MAX_SESSIONS {
            assert!(
                book.session(&number.to_be_bytes(), now).is_some(),
                "{number}"
            );
        }
    }

    #[test]
    fn sessions_are_read_back_with_the_same_control_token() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        book.sign_in(b"secret", b"key", HOUR, now);
        let json = to_json(&book).expect("JSON");
        let text = String::from_utf8(json.clone()).expect("UTF-8");
        assert!(!text.contains("\"secret\"") && !text.contains("\"control\""));
        book.sessions = from_json(&json, &book.control).expect("what was written");
        assert_eq!(session_end(&book, b"secret", now), Some(now + HOUR));
        let other_token = Fingerprint::new(b"another control token");
        assert!(from_json(&json, &other_token).expect("JSON").is_empty());
        let session = book.session(b"secret", now).expect("it is read");
        assert!(session.has_page_key(b"key") && !session.has_page_key(b"secret"));
        for damaged_text in [
            String::new(),
            text[..text.len() - 2].to_owned(),
            text.replace("\"sha256\": \"", "\"sha256\": \"0"),
            text.replace("controlSha256", "control"),
            text.replace("pageKeySha256", "pageKey"),
            text.replace("expiresUnixSeconds", "expires"),
        ] {
            from_json(damaged_text.as_bytes(), &book.control).expect_err(&damaged_text);
        }
    }
}
