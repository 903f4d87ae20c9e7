//! Browser sessions: people who signed in on the web page. The browser has a secret in its cookie, which it sends to
//! every port of the host, and a page key in storage that only our page can read. Kept are the SHA-256 of both, and
//! the end of the session.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::book::{Book, Fingerprint, bytes, hexadecimal, moment, seconds};

/// A person has a few browsers. With one more, the oldest session ends.
const MAX_SESSIONS: usize = 64;

/// How long a browser stays signed in.
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

    /// Whether this is the key that the page got when it signed in.
    pub fn has_page_key(&self, key: &[u8]) -> bool {
        self.page_key == Fingerprint::of(key)
    }
}

impl Book {
    /// The session of this secret, if there is one now.
    pub fn session(&self, secret: &[u8], now: SystemTime) -> Option<&BrowserSession> {
        let given = Fingerprint::of(secret);
        let mut sessions = self.sessions.iter();
        let session = sessions.find(|session| session.fingerprint == given)?;
        (session.expires_at > now).then_some(session)
    }

    /// Adds a session, and returns its end. Sessions that have expired are forgotten.
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
            fingerprint: Fingerprint::of(secret),
            page_key: Fingerprint::of(page_key),
            expires_at,
        });
        expires_at
    }

    pub fn sign_out(&mut self, secret: &[u8]) {
        let given = Fingerprint::of(secret);
        self.sessions.retain(|session| session.fingerprint != given);
    }
}

/// `browsers.json`
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    /// The SHA-256 of the control token under which they signed in. Sessions end with the token, however it
    /// was replaced.
    control_sha256: String,
    sessions: Vec<KeptSession>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeptSession {
    sha256: String,
    page_key_sha256: String,
    expires_unix_seconds: u64,
}

/// The sessions of a book as they are kept, the oldest first.
pub fn to_json(book: &Book) -> serde_json::Result<Vec<u8>> {
    let kept = |session: &BrowserSession| KeptSession {
        sha256: hexadecimal(&session.fingerprint.0),
        page_key_sha256: hexadecimal(&session.page_key.0),
        expires_unix_seconds: seconds(session.expires_at),
    };
    serde_json::to_vec_pretty(&Kept {
        control_sha256: hexadecimal(&book.control.0),
        sessions: book.sessions.iter().map(kept).collect(),
    })
}

/// The sessions that were kept under this control token.
pub fn from_json(text: &[u8], control: &Fingerprint) -> serde_json::Result<Vec<BrowserSession>> {
    let bad = || serde::de::Error::custom("a bad sha256");
    let kept: Kept = serde_json::from_slice(text)?;
    if bytes(&kept.control_sha256)
        .map(Fingerprint)
        .ok_or_else(bad)?
        != *control
    {
        return Ok(Vec::new());
    }
    let session = |kept: &KeptSession| {
        Ok(BrowserSession {
            fingerprint: bytes(&kept.sha256).map(Fingerprint).ok_or_else(bad)?,
            page_key: bytes(&kept.page_key_sha256)
                .map(Fingerprint)
                .ok_or_else(bad)?,
            expires_at: moment(kept.expires_unix_seconds),
        })
    };
    kept.sessions
        .iter()
        .take(MAX_SESSIONS)
        .map(session)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn book() -> Book {
        Book::new(Fingerprint::of(b"control"), Vec::new())
    }

    fn ends(book: &Book, secret: &[u8], now: SystemTime) -> Option<SystemTime> {
        book.session(secret, now).map(BrowserSession::expires_at)
    }

    #[test]
    fn a_session_lasts_until_its_end_or_until_it_is_signed_out() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let end = book.sign_in(b"one", b"key", HOUR, now);
        book.sign_in(b"two", b"key", 2 * HOUR, now);
        assert_eq!(ends(&book, b"one", now), Some(end));
        assert_eq!(
            ends(&book, b"one", end - Duration::from_millis(1)),
            Some(end)
        );
        assert_eq!(ends(&book, b"one", end), None);
        for nobody in [&b""[..], b"control", b"on", b"onee"] {
            assert_eq!(ends(&book, nobody, now), None);
        }
        book.sign_out(b"two");
        assert_eq!(ends(&book, b"two", now), None);
        // A secret of a cookie is no bearer token.
        assert_eq!(book.bearer(b"one", now), None);
    }

    #[test]
    fn the_oldest_sessions_make_room() {
        let (mut book, now) = (book(), SystemTime::now());
        book.sign_in(b"expired", b"key", Duration::ZERO, now);
        for number in 0..=MAX_SESSIONS {
            book.sign_in(&number.to_be_bytes(), b"key", HOUR, now);
        }
        assert_eq!(book.sessions.len(), MAX_SESSIONS);
        assert_eq!(ends(&book, &0_usize.to_be_bytes(), now), None);
        for number in 1..=MAX_SESSIONS {
            assert!(
                book.session(&number.to_be_bytes(), now).is_some(),
                "{number}"
            );
        }
    }

    #[test]
    fn what_is_kept_is_read_again_under_the_same_control_token() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        book.sign_in(b"secret", b"key", HOUR, now);
        let json = to_json(&book).expect("JSON");
        let text = String::from_utf8(json.clone()).expect("UTF-8");
        assert!(!text.contains("\"secret\"") && !text.contains("\"control\""));
        book.sessions = from_json(&json, &book.control).expect("what was written");
        assert_eq!(ends(&book, b"secret", now), Some(now + HOUR));
        let other = Fingerprint::of(b"another control token");
        assert!(from_json(&json, &other).expect("JSON").is_empty());
        let session = book.session(b"secret", now).expect("it is read");
        assert!(session.has_page_key(b"key") && !session.has_page_key(b"secret"));
        for damaged in [
            String::new(),
            text[..text.len() - 2].to_owned(),
            text.replace("\"sha256\": \"", "\"sha256\": \"0"),
            text.replace("controlSha256", "control"),
            text.replace("pageKeySha256", "pageKey"),
            text.replace("expiresUnixSeconds", "expires"),
        ] {
            from_json(damaged.as_bytes(), &book.control).expect_err(&damaged);
        }
    }
}
