//! One issuer: its settings, its keys, its answers, and the checks of its tokens. Nothing here waits.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use mainstay_core::config::{SignatureAlgorithm, TrustedIssuer};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    claims::{Claims, check_claims, missing_scopes},
    digest::{KeyDigest, TokenDigest},
    fetch::IssuerClient,
    introspection::{ACTIVE_FOR, IntrospectionAdvice, IntrospectionResult, Introspections},
    jwt::Jwt,
    key_sets::{CachedKeys, FetchAdvice, KeyAdvice, KeyPresence, KeyStatus, age},
    keys::{Candidates, KeySet, MAX_CANDIDATES},
    refusal::TokenRefusal,
    verified::{Proof, Standing, VerifiedToken},
};

/// Subjects of one issuer whose token version was raised, at most.
pub const MAX_RAISED_SUBJECTS: usize = 10_000;

/// An issuer and everything known about its tokens. Each lock is held for one operation.
pub(crate) struct Issuer {
    pub settings: Arc<TrustedIssuer>,
    pub name: Arc<str>,
    pub client: IssuerClient,
    pub keys: Mutex<CachedKeys>,
    pub introspections: Mutex<Introspections>,
    /// The lowest version of a subject's tokens that is still good.
    versions: Mutex<HashMap<Arc<str>, u64>>,
    /// Notified when a fetch or an introspection has ended.
    pub settled: watch::Sender<()>,
    required_scopes: Arc<[String]>,
}

/// The answer of an issuer about a token, for now.
#[derive(Debug)]
pub(crate) enum IssuerAnswer {
    Decided(Result<VerifiedToken, TokenRefusal>),
    /// Keys or an introspection have to be fetched first.
    Pending,
}

/// A token's version that cannot be raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    #[error("{0} is no issuer of the configuration")]
    UnknownIssuer(String),
    #[error("the issuer {0} has no `tokenVersion`, so that its tokens have no version")]
    NoVersions(String),
    #[error("the versions of {MAX_RAISED_SUBJECTS} subjects were raised already")]
    TooMany,
}

impl Issuer {
    /// An issuer with settings that were checked.
    pub fn new(settings: TrustedIssuer) -> Arc<Self> {
        let settings = Arc::new(settings);
        Arc::new(Self {
            name: settings.issuer.as_str().into(),
            client: IssuerClient::new(Arc::clone(&settings)),
            keys: Mutex::default(),
            introspections: Mutex::default(),
            versions: Mutex::default(),
            settled: watch::Sender::new(()),
            required_scopes: settings.required_scopes.as_slice().into(),
            settings,
        })
    }

    /// Checks a JWT that names this issuer. `Begin` beside the answer says that a fetch of keys was begun, which the
    /// caller must carry out.
    pub fn check_jwt(
        self: &Arc<Self>,
        jwt: &Jwt<'_>,
        now: SystemTime,
    ) -> (IssuerAnswer, FetchAdvice) {
        let refused = |refusal| (IssuerAnswer::Decided(Err(refusal)), FetchAdvice::None);
        // Everything that is cheap precedes the signature, and the fetch of an unknown key.
        let pinned = |algorithm: &_| self.settings.algorithms.contains(algorithm);
        let Some(algorithm) = jwt.algorithm.filter(pinned) else {
            return refused(TokenRefusal::Algorithm);
        };
        let claims = match check_claims(&jwt.claims, &self.settings, now) {
            Ok(claims) => claims,
            Err(refusal) => return refused(refusal),
        };
        let key_id = jwt.key_id.as_deref();
        let (keys, advice) = {
            let mut cache = self.keys.lock();
            let keys = cache.usable(now).cloned();
            let found = keys.as_ref().map(|keys| keys.candidates(algorithm, key_id));
            let presence = match found {
                Some(Candidates::Keys(_) | Candidates::TooMany) => KeyPresence::Present,
                Some(Candidates::None) | None => KeyPresence::Absent,
            };
            let advice = cache.take_advice(presence, now);
            (keys, advice)
        };
        let fetch = match advice {
            KeyAdvice::Answer { fetch } => fetch,
            KeyAdvice::Wait { fetch } => return (IssuerAnswer::Pending, fetch),
            KeyAdvice::Unavailable {
                reason,
                retry_after,
            } => {
                return refused(TokenRefusal::Unavailable {
                    reason,
                    retry_after,
                });
            }
        };
        let signed_by = find_signer(keys.as_deref(), algorithm, jwt);
        if signed_by == Err(TokenRefusal::Signature) {
            // The issuer may have another key under the same id, or keys without ids. Such a token costs no more
            // fetches than one with an unknown id.
            let advice = self.keys.lock().take_advice(KeyPresence::Absent, now);
            if let KeyAdvice::Wait { fetch: other } = advice {
                return (IssuerAnswer::Pending, fetch.or(other));
            }
        }
        let verdict = signed_by.and_then(|key| {
            self.check_authentic(&claims)?;
            let proof = Proof::Key(key);
            Ok(VerifiedToken::new(claims, proof, Arc::clone(self)))
        });
        (IssuerAnswer::Decided(verdict), fetch)
    }

    /// Checks a token that is no JWT. `Begin` beside the answer says that the caller must ask the issuer.
    pub fn check_opaque(
        self: &Arc<Self>,
        digest: TokenDigest,
        now: SystemTime,
    ) -> (IssuerAnswer, FetchAdvice) {
        let advice = {
            let mut introspections = self.introspections.lock();
            let advice = introspections.advise(&digest, now);
            if let IntrospectionAdvice::Wait {
                ask: FetchAdvice::Begin,
            } = advice
            {
                introspections.begin(digest);
            }
            advice
        };
        let verdict = match advice {
            IntrospectionAdvice::Answer { verdict, at } => verdict.and_then(|claims| {
                self.check_authentic(&claims)?;
                let proof = Proof::Answer(at);
                Ok(VerifiedToken::new(claims, proof, Arc::clone(self)))
            }),
            IntrospectionAdvice::Wait { ask } => return (IssuerAnswer::Pending, ask),
            IntrospectionAdvice::Unavailable {
                reason,
                retry_after,
            } => Err(TokenRefusal::Unavailable {
                reason,
                retry_after,
            }),
        };
        (IssuerAnswer::Decided(verdict), FetchAdvice::None)
    }

    /// The checks that tell something about the subject. They follow the proof that the issuer has issued the token.
    fn check_authentic(&self, claims: &Claims) -> Result<(), TokenRefusal> {
        if self.was_ended(&claims.subject, claims.token_version) {
            return Err(TokenRefusal::Ended);
        }
        let missing = missing_scopes(&claims.scopes, &self.required_scopes);
        if missing.is_empty() {
            return Ok(());
        }
        Err(TokenRefusal::Scopes {
            missing,
            required: Arc::clone(&self.required_scopes),
        })
    }

    /// The standing of a token of this issuer. A fetch that is due is begun: the caller must carry it out.
    pub fn standing(&self, token: &VerifiedToken, now: SystemTime) -> (Standing, FetchAdvice) {
        if token.expires_at <= now || self.was_ended(&token.subject, token.token_version) {
            return (Standing::Ended, FetchAdvice::None);
        }
        match token.proof {
            Proof::Answer(at) if age(at, now) < ACTIVE_FOR => (Standing::Good, FetchAdvice::None),
            Proof::Answer(_) => (Standing::Unproven, FetchAdvice::None),
            Proof::Key(digest) => {
                let mut cache = self.keys.lock();
                let Some(keys) = cache.usable(now) else {
                    return (Standing::Unproven, FetchAdvice::None);
                };
                if !keys.contains(&digest) {
                    return (Standing::Ended, FetchAdvice::None);
                }
                match cache.take_advice(KeyPresence::Present, now) {
                    KeyAdvice::Answer { fetch } => (Standing::Good, fetch),
                    KeyAdvice::Wait { .. } | KeyAdvice::Unavailable { .. } => {
                        (Standing::Unproven, FetchAdvice::None)
                    }
                }
            }
        }
    }

    /// True if the version of the subject's tokens was raised beyond this one. A token without a version is older than
    /// all others.
    fn was_ended(&self, subject: &str, version: Option<u64>) -> bool {
        let lowest = self.versions.lock().get(subject).copied();
        lowest.is_some_and(|lowest| version.unwrap_or_default() < lowest)
    }

    /// Raises the lowest version that is good. Returns `false` if it was as high already.
    pub fn raise_version(&self, subject: &str, version: u64) -> Result<bool, VersionError> {
        if self.settings.token_version_claim.is_none() {
            return Err(VersionError::NoVersions(self.settings.issuer.clone()));
        }
        let mut versions = self.versions.lock();
        if let Some(lowest) = versions.get_mut(subject) {
            let is_raised = *lowest < version;
            *lowest = version.max(*lowest);
            return Ok(is_raised);
        }
        if versions.len() >= MAX_RAISED_SUBJECTS {
            return Err(VersionError::TooMany);
        }
        versions.insert(subject.into(), version);
        Ok(version > 0)
    }

    /// Begins a fetch of keys if none were fetched yet and none is under way.
    pub fn begin_first_fetch(&self, now: SystemTime) -> FetchAdvice {
        let mut cache = self.keys.lock();
        if cache.usable(now).is_some() {
            return FetchAdvice::None;
        }
        match cache.take_advice(KeyPresence::Absent, now) {
            KeyAdvice::Wait { fetch } | KeyAdvice::Answer { fetch } => fetch,
            KeyAdvice::Unavailable { .. } => FetchAdvice::None,
        }
    }

    pub fn key_status(&self) -> KeyStatus {
        self.keys.lock().status()
    }

    pub fn finish_introspection(
        &self,
        digest: TokenDigest,
        result: IntrospectionResult,
        now: SystemTime,
    ) {
        self.introspections.lock().finish(digest, result, now);
        self.settled.send_replace(());
    }
}

/// The key that has signed a token.
fn find_signer(
    keys: Option<&KeySet>,
    algorithm: SignatureAlgorithm,
    jwt: &Jwt<'_>,
) -> Result<KeyDigest, TokenRefusal> {
    let candidates = keys.map_or(Candidates::None, |keys| {
        keys.candidates(algorithm, jwt.key_id.as_deref())
    });
    match candidates {
        Candidates::Keys(keys) => keys
            .into_iter()
            .find(|key| key.verifies(algorithm, jwt.signed, &jwt.signature))
            .map(|key| key.digest)
            .ok_or(TokenRefusal::Signature),
        Candidates::None => Err(TokenRefusal::UnknownKey),
        Candidates::TooMany => Err(TokenRefusal::ManyKeys {
            limit: MAX_CANDIDATES,
        }),
    }
}
