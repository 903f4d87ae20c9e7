//! A token that was checked, and its standing later on.

use std::{fmt, sync::Arc, time::SystemTime};

use crate::{
    claims::{ClaimWords, Claims},
    digest::KeyDigest,
    issuer::Issuer,
};

/// A token that was found good. A clone needs no allocation.
#[derive(Clone)]
pub struct VerifiedToken {
    /// The issuer's URL.
    pub issuer: Arc<str>,
    /// The subject, by the claim of the issuer's setting. It is unique at this issuer only.
    pub subject: Arc<str>,
    pub groups: ClaimWords,
    pub scopes: ClaimWords,
    /// The client to which the token was issued.
    pub client_id: Option<Arc<str>>,
    /// The end of the token, with the leeway of its issuer.
    pub expires_at: SystemTime,
    pub token_version: Option<u64>,
    pub(crate) proof: Proof,
    /// The issuer that has checked the token. Another configuration has other issuers.
    pub(crate) checked_by: Arc<Issuer>,
}

/// The evidence for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The signature by this key.
    Key(KeyDigest),
    /// The issuer's answer at this time.
    Answer(SystemTime),
}

/// The standing of a token that was good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Good,
    /// The evidence is too old: the token must be checked again ([`crate::Issuers::check_now`]), and may be good.
    Unproven,
    /// The token opens nothing any more.
    Ended,
}

impl VerifiedToken {
    pub(crate) fn new(claims: Claims, proof: Proof, checked_by: Arc<Issuer>) -> Self {
        Self {
            issuer: Arc::clone(&checked_by.name),
            subject: claims.subject,
            groups: claims.groups,
            scopes: claims.scopes,
            client_id: claims.client_id,
            expires_at: claims.expires_at,
            token_version: claims.token_version,
            proof,
            checked_by,
        }
    }
}

impl fmt::Debug for VerifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedToken")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .field("groups", &self.groups)
            .field("scopes", &self.scopes)
            .field("client_id", &self.client_id)
            .field("expires_at", &self.expires_at)
            .field("token_version", &self.token_version)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}
