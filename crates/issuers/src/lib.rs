//! Checks the access tokens that authorization servers have issued to clients of Mainstay: Mainstay as a resource
//! server of OAuth 2.1 (MCP specification 2026-07-28, "Authorization"; RFC 9068, RFC 7662, RFC 9728).
//!
//! A door asks [`Issuers::check_now`], which never waits. If keys or an introspection have to be fetched first, it
//! awaits [`PendingCheck::wait`]. What a token was found to be is kept beside the connection, and its
//! [`Issuers::standing`] is asked before each use.
//!
//! The decisions are pure and have a file each: `jwt` and `claims` (the token), `keys` (a set of keys and a
//! signature), `key_sets` (when keys are fetched), `introspection` (when an issuer is asked). `fetch` sends the
//! requests, `issuers` carries the decisions out.

mod claims;
mod digest;
mod fetch;
mod generations;
mod introspection;
mod issuer;
mod issuers;
mod jwt;
mod key_sets;
mod keys;
mod refusal;
mod resource;
mod strict_json;
mod verified;

pub use self::{
    claims::ClaimWords,
    introspection::INACTIVE_BURST,
    issuer::{MAX_RAISED_SUBJECTS, VersionError},
    issuers::{Checked, IssuerStatus, Issuers, PendingCheck, WAIT_LIMIT, WallClock},
    jwt::MAX_TOKEN,
    key_sets::KeyStatus,
    refusal::TokenRefusal,
    resource::{challenge, protected_resource_metadata, required_scopes, resource_metadata_url},
    verified::{Standing, VerifiedToken},
};

/// The readers of foreign bytes, for `crates/fuzz`.
pub mod readers {
    pub use crate::{
        claims::{Claims, check_claims},
        jwt::{Jwt, JwtText, TokenShape},
        keys::{Candidates, IssuerKey, KeySet, KeySetError, MAX_CANDIDATES, MAX_KEYS},
    };
}
