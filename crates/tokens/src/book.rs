//! The tokens and browser sessions at one moment. Decides about access by token and time. Pure.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mainstay_core::{
    access::TokenLimits,
    ids::ProfileName,
    principal::{ClientName, Principal},
};
use mainstay_platform::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{TokenError, browsers::BrowserSession};

/// Maximum number of clients with a token. A received token is compared with each stored one.
const MAX_CLIENTS: usize = 1000;

/// Maximum lifetime of a token: ten years. A token may also have no end.
const MAX_LIFETIME_DAYS: u64 = 10 * 365;
const MAX_LIFETIME: Duration = Duration::from_hours(MAX_LIFETIME_DAYS * 24);

/// The SHA-256 of a token. A slow hash has no benefit, because 256 random bits cannot be guessed.
#[derive(Clone, Copy)]
pub struct Fingerprint(pub(super) [u8; 32]);

impl Fingerprint {
    pub fn new(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

/// Compares in constant time, so that the duration reveals no byte.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    let difference = left
        .iter()
        .zip(right)
        .fold(0, |bits, (a, b)| bits | (a ^ b));
    left.len() == right.len() && std::hint::black_box(difference) == 0
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A client's token as it is stored: name, hash and times.
#[derive(Clone, Debug)]
pub struct ClientToken {
    pub name: ClientName,
    fingerprint: Fingerprint,
    pub created_at: SystemTime,
    /// `None` for a token that does not expire.
    pub expires_at: Option<SystemTime>,
    pub limits: Arc<TokenLimits>,
}

impl ClientToken {
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The principal that a token stands for, and the time at which the token expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    pub principal: Principal,
    pub expires_at: Option<SystemTime>,
}

#[derive(Clone, Debug)]
pub struct Book {
    pub control: Fingerprint,
    clients: Vec<ClientToken>,
    /// The limits of each token.
    limits: HashMap<ClientName, Arc<TokenLimits>>,
    /// Oldest first.
    pub sessions: Vec<BrowserSession>,
}

impl Book {
    pub fn new(control: Fingerprint, clients: Vec<ClientToken>) -> Self {
        let limits = clients
            .iter()
            .map(|client| (client.name.clone(), Arc::clone(&client.limits)));
        Self {
            control,
            limits: limits.collect(),
            clients,
            sessions: Vec::new(),
        }
    }

    pub fn clients(&self) -> &[ClientToken] {
        &self.clients
    }

    /// The limits of a client's token. `None` if there is no token of this name.
    pub fn limits_of(&self, client: &ClientName) -> Option<&Arc<TokenLimits>> {
        self.limits.get(client)
    }

    /// The bearer of this token at this time.
    pub fn bearer(&self, token: &[u8], now: SystemTime) -> Option<Pass> {
        let fingerprint = Fingerprint::new(token);
        if fingerprint == self.control {
            return Some(Pass {
                principal: Principal::Operator,
                expires_at: None,
            });
        }
        let client = self
            .clients
            .iter()
            .find(|client| client.fingerprint == fingerprint)?;
        (!client.has_expired(now)).then(|| Pass {
            principal: Principal::Client(client.name.clone()),
            expires_at: client.expires_at,
        })
    }

    pub fn add(
        &mut self,
        name: ClientName,
        token: &[u8],
        lifetime: Option<Duration>,
        limits: TokenLimits,
        now: SystemTime,
    ) -> Result<ClientToken, TokenError> {
        if self.clients.iter().any(|client| client.name == name) {
            return Err(TokenError::Taken(name));
        }
        if self.clients.len() >= MAX_CLIENTS {
            return Err(TokenError::TooMany(MAX_CLIENTS));
        }
        if lifetime.is_some_and(|lifetime| lifetime.is_zero() || lifetime > MAX_LIFETIME) {
            return Err(TokenError::Lifetime(MAX_LIFETIME_DAYS));
        }
        let client = ClientToken {
            name,
            fingerprint: Fingerprint::new(token),
            created_at: now,
            expires_at: lifetime.map(|lifetime| now + lifetime),
            limits: Arc::new(limits),
        };
        let limits = Arc::clone(&client.limits);
        self.limits.insert(client.name.clone(), limits);
        self.clients.push(client.clone());
        Ok(client)
    }

    pub fn remove(&mut self, name: &str) -> Result<ClientToken, TokenError> {
        let is_named = |client: &ClientToken| client.name.as_str() == name;
        match self.clients.iter().position(is_named) {
            Some(index) => {
                let client = self.clients.remove(index);
                self.limits.remove(&client.name);
                Ok(client)
            }
            None => Err(TokenError::Unknown(name.to_owned())),
        }
    }
}

/// The content of `tokens.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredTokens {
    clients: Vec<StoredToken>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredToken {
    name: ClientName,
    sha256: String,
    created_unix_seconds: u64,
    /// Always written, and required: a missing member would mean a token without an end.
    #[serde(deserialize_with = "Option::deserialize")]
    expires_unix_seconds: Option<u64>,
    /// The names of profiles. An older version does not know the limits, and refuses the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
}

/// The content of `tokens.json` for these tokens.
pub fn to_json(clients: &[ClientToken]) -> serde_json::Result<Vec<u8>> {
    let to_stored = |client: &ClientToken| StoredToken {
        name: client.name.clone(),
        sha256: hex::encode(&client.fingerprint.0),
        created_unix_seconds: seconds(client.created_at),
        expires_unix_seconds: client.expires_at.map(seconds),
        profiles: (client.limits.profiles.iter())
            .map(ToString::to_string)
            .collect(),
        read_only: client.limits.is_read_only,
    };
    serde_json::to_vec_pretty(&StoredTokens {
        clients: clients.iter().map(to_stored).collect(),
    })
}

pub fn from_json(text: &[u8]) -> serde_json::Result<Vec<ClientToken>> {
    let client = |stored_tokens: StoredToken| {
        let fingerprint = bytes(&stored_tokens.sha256).map(Fingerprint);
        let profiles: Result<_, _> = stored_tokens
            .profiles
            .iter()
            .map(|name| ProfileName::new(name))
            .collect();
        let limits = TokenLimits {
            profiles: profiles.map_err(serde::de::Error::custom)?,
            is_read_only: stored_tokens.read_only,
        };
        Ok(ClientToken {
            fingerprint: fingerprint.ok_or_else(|| serde::de::Error::custom("a bad sha256"))?,
            name: stored_tokens.name,
            created_at: moment(stored_tokens.created_unix_seconds),
            expires_at: stored_tokens.expires_unix_seconds.map(moment),
            limits: Arc::new(limits),
        })
    };
    let stored_tokens: StoredTokens = serde_json::from_slice(text)?;
    stored_tokens.clients.into_iter().map(client).collect()
}

pub fn seconds(time: SystemTime) -> u64 {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_secs()
}

/// The time at this number of seconds since 1970. A number that is too large is read as 1970.
pub fn moment(seconds: u64) -> SystemTime {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.unwrap_or(UNIX_EPOCH)
}

pub fn bytes(text: &str) -> Option<[u8; 32]> {
    hex::decode(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn name(text: &str) -> ClientName {
        ClientName::new(text).expect("a name")
    }

    fn book() -> Book {
        Book::new(Fingerprint::new(b"control"), Vec::new())
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_removed() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        book.add(
            name("short"),
            b"mst_1",
            Some(HOUR),
            TokenLimits::default(),
            now,
        )
        .expect("added");
        book.add(name("long"), b"mst_2", None, TokenLimits::default(), now)
            .expect("added");
        let bearer = |book: &Book, token: &[u8], now| {
            let pass = book.bearer(token, now);
            pass.map(|pass| pass.principal.to_string())
        };
        let last_moment = now + HOUR - Duration::from_millis(1);
        assert_eq!(
            bearer(&book, b"mst_1", last_moment).as_deref(),
            Some("client:short")
        );
        assert_eq!(bearer(&book, b"mst_1", now + HOUR), None);
        assert_eq!(
            bearer(&book, b"mst_2", now + HOUR).as_deref(),
            Some("client:long")
        );
        assert_eq!(bearer(&book, b"control", now).as_deref(), Some("operator"));
        for unknown_token in [
            &b""[..],
            b"mst_",
            b"mst_3",
            b"mst_22",
            b"contro",
            b"controll",
        ] {
            assert_eq!(bearer(&book, unknown_token, now), None);
        }
        book.remove("long").expect("removed");
        assert_eq!(bearer(&book, b"mst_2", now), None);
        assert!(matches!(book.remove("long"), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn names_are_unique_and_lifetimes_are_finite() {
        let (mut book, now) = (book(), SystemTime::now());
        book.add(name("a"), b"1", None, TokenLimits::default(), now)
            .expect("added");
        let second_result = book.add(name("a"), b"2", None, TokenLimits::default(), now);
        assert!(matches!(second_result, Err(TokenError::Taken(_))));
        for lifetime in [Duration::ZERO, MAX_LIFETIME + HOUR, Duration::MAX] {
            let added = book.add(name("b"), b"2", Some(lifetime), TokenLimits::default(), now);
            assert!(
                matches!(added, Err(TokenError::Lifetime(_))),
                "{lifetime:?}"
            );
        }
        for number in 1..MAX_CLIENTS {
            book.add(
                name(&format!("n{number}")),
                &number.to_be_bytes(),
                None,
                TokenLimits::default(),
                now,
            )
            .expect("room");
        }
        let full_result = book.add(name("b"), b"2", None, TokenLimits::default(), now);
        assert!(matches!(full_result, Err(TokenError::TooMany(MAX_CLIENTS))));
    }

    #[test]
    fn stored_clients_are_read_back_without_tokens() {
        let (mut book, now) = (book(), UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let limits = TokenLimits {
            profiles: vec![ProfileName::new("build").expect("a name")],
            is_read_only: true,
        };
        book.add(name("a"), b"mst_secret", Some(HOUR), limits.clone(), now)
            .expect("added");
        book.add(name("free"), b"mst_free", None, TokenLimits::default(), now)
            .expect("added");
        let json = to_json(&book.clients).expect("JSON");
        assert!(!String::from_utf8_lossy(&json).contains("secret"));
        book = Book::new(book.control, from_json(&json).expect("what was written"));
        assert_eq!(
            book.limits_of(&name("a")).map(|limits| &**limits),
            Some(&limits)
        );
        assert!(
            book.limits_of(&name("free"))
                .is_some_and(|limits| limits.is_nothing())
        );
        assert_eq!(book.limits_of(&name("nobody")), None);
        assert!(book.bearer(b"mst_secret", now).is_some());
        assert!(book.bearer(b"mst_secret", now + HOUR).is_none());
        let text = String::from_utf8(json).expect("UTF-8");
        for damaged_text in [
            String::new(),
            text[..text.len() - 2].to_owned(),
            text.replace("sha256\": \"", "sha256\": \"0"),
            text.replace("sha256\": \"", "sha256\": \"x"),
            text.replace("expiresUnixSeconds", "expires"),
            text.replace(",\n      \"expiresUnixSeconds\": 1800003600", ""),
            text.replace("\"a\"", "\"a:b\""),
            text.replace("\"build\"", "\"a b\""),
            text.replace("readOnly", "onlyRead"),
        ] {
            from_json(damaged_text.as_bytes()).expect_err(&damaged_text);
        }
    }
}
