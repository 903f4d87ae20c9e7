//! An issuer, its server and its key, and the checks of tokens against it.

use mainstay_core::config::TrustedIssuer;
use mainstay_issuers::{Checked, Issuers, TokenRefusal, VerifiedToken};
use mainstay_testkit::{limits::IN_PROCESS, soon};
use serde_json::{Value, json};

use crate::{
    clock::TestClock,
    issuer_server::{IssuerServer, Reply},
    signer::Signer,
};

pub const AUDIENCE: &str = "https://mcp.example/mcp";
pub const KEYS: &str = "/keys";
pub const METADATA: &str = "/.well-known/oauth-authorization-server";

pub struct World {
    pub server: IssuerServer,
    pub signer: Signer,
    pub clock: TestClock,
    pub issuers: Issuers,
}

impl World {
    /// An issuer with one key, `k1`, whose URL is found in its metadata.
    pub async fn new() -> Self {
        Self::with(Signer::ed25519(), |_| {}).await
    }

    pub async fn with(signer: Signer, change: impl FnOnce(&mut TrustedIssuer)) -> Self {
        let server = IssuerServer::start().await;
        let clock = TestClock::new();
        publish_metadata(&server);
        publish(&server, &[signer.jwk("k1")]);
        let mut settings = TrustedIssuer::new(&server.url, AUDIENCE);
        change(&mut settings);
        let issuers = Issuers::new(vec![settings], clock.wall_clock()).expect("valid settings");
        Self {
            server,
            signer,
            clock,
            issuers,
        }
    }

    pub fn header(&self) -> Value {
        json!({"alg": self.signer.algorithm(), "kid": "k1", "typ": "at+jwt"})
    }

    /// Claims of a good token.
    pub fn claims(&self) -> Value {
        let now = self.clock.seconds();
        json!({
            "iss": self.server.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 3600,
        })
    }

    pub fn good_token(&self) -> String {
        self.signer.token(&self.header(), &self.claims())
    }

    /// A token with one claim more, or without it for `null`.
    pub fn token_with(&self, claim: &str, value: Value) -> String {
        let mut claims = self.claims();
        if value.is_null() {
            claims.as_object_mut().expect("an object").remove(claim);
        } else {
            claims[claim] = value;
        }
        self.signer.token(&self.header(), &claims)
    }

    /// The result of a check, after a wait if it takes one.
    pub async fn check(&self, token: impl AsRef<[u8]>) -> Result<VerifiedToken, TokenRefusal> {
        match self.issuers.check_now(token.as_ref(), self.clock.now()) {
            Checked::Valid(verified) => Ok(verified),
            Checked::Refused(refusal) => Err(refusal),
            Checked::NotOurs => panic!("not ours"),
            Checked::Pending(pending) => {
                soon(IN_PROCESS, "the result of a check", pending.wait()).await
            }
        }
    }

    /// The result in a word: `good`, or that of the refusal.
    pub async fn word(&self, token: impl AsRef<[u8]>) -> &'static str {
        match self.check(token).await {
            Ok(_) => "good",
            Err(refusal) => refusal.word(),
        }
    }

    /// The result without a wait.
    pub fn word_now(&self, token: impl AsRef<[u8]>) -> &'static str {
        match self.issuers.check_now(token.as_ref(), self.clock.now()) {
            Checked::Valid(_) => "good",
            Checked::Refused(refusal) => refusal.word(),
            Checked::NotOurs => "not_ours",
            Checked::Pending(_) => "pending",
        }
    }
}

/// Metadata that leads to [`KEYS`].
pub fn publish_metadata(server: &IssuerServer) {
    let url = &server.url;
    let keys = format!("{url}{KEYS}");
    let introspection = format!("{url}/introspect");
    let metadata = json!({
        "issuer": url,
        "jwks_uri": keys,
        "introspection_endpoint": introspection,
    });
    server.set(METADATA, Reply::json(metadata));
}

pub fn publish(server: &IssuerServer, keys: &[Value]) {
    server.set(KEYS, Reply::json(json!({"keys": keys})));
}
