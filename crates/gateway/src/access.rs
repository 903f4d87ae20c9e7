//! The rules of access in force, and the limits of clients' tokens. `view` applies them.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    access::{AccessPolicy, PrincipalAccess, TokenLimits},
    ids::{ProfileName, ServerName},
    principal::{ClientName, Principal},
};

/// Knows the limits of clients' tokens.
pub trait TokenLimitSource: fmt::Debug + Send + Sync {
    /// The limits of the client's token. `None` if the token has no limits.
    fn limits_of(&self, client: &ClientName) -> Option<Arc<TokenLimits>>;
}

/// Decides who may use what. A change takes effect at the next request.
#[derive(Debug, Default)]
pub struct AccessControl {
    /// `None` allows everything.
    policy: ArcSwapOption<AccessPolicy>,
    /// `None`: no token has limits.
    token_limits: Option<Arc<dyn TokenLimitSource>>,
}

impl AccessControl {
    pub fn new(
        policy: Option<Arc<AccessPolicy>>,
        token_limits: Option<Arc<dyn TokenLimitSource>>,
    ) -> Self {
        Self {
            policy: ArcSwapOption::new(policy),
            token_limits,
        }
    }

    /// The rules in force. `None` allows everything.
    pub fn policy(&self) -> Option<Arc<AccessPolicy>> {
        self.policy.load_full()
    }

    pub fn set_policy(&self, policy: Option<Arc<AccessPolicy>>) {
        self.policy.store(policy);
    }

    pub fn limits_of(&self, principal: &Principal) -> Option<Arc<TokenLimits>> {
        match principal {
            Principal::Client(name) => self.token_limits.as_ref()?.limits_of(name),
            Principal::Anonymous | Principal::Operator => None,
        }
    }

    /// Returns the access of a principal at the endpoint of a profile, or of a single server
    /// (`profile` is `None`). Returns `None` if the principal may use everything.
    pub fn access_of(
        &self,
        principal: &Principal,
        profile: Option<&ProfileName>,
    ) -> Option<PrincipalAccess> {
        let policy = self.policy.load();
        let limits = self.limits_of(principal);
        let profile = profile.map(ProfileName::as_str);
        PrincipalAccess::new(policy.as_ref(), limits.as_deref(), principal, profile)
    }

    /// Like [`AccessControl::access_of`], also for a principal that may use everything.
    pub fn explained_access_of(
        &self,
        principal: &Principal,
        profile: Option<&ProfileName>,
    ) -> PrincipalAccess {
        let policy = self.policy.load();
        let limits = self.limits_of(principal);
        let profile = profile.map(ProfileName::as_str);
        PrincipalAccess::explained(policy.as_ref(), limits.as_deref(), principal, profile)
    }

    /// True if a principal may use the endpoint of this profile, or of single servers (`None`).
    pub fn opens(&self, principal: &Principal, profile: Option<&ProfileName>) -> bool {
        let limits = self.limits_of(principal);
        limits.is_none_or(|limits| limits.opens(profile))
    }

    /// True if no rule and no limit of its token restricts a principal.
    pub fn is_unlimited(&self, principal: &Principal) -> bool {
        self.opens(principal, None) && self.access_of(principal, None).is_none()
    }

    /// True if a principal may see a server at the endpoint of a profile, or of the server itself
    /// (`None`).
    pub fn allows_server(
        &self,
        principal: &Principal,
        profile: Option<&ProfileName>,
        server: &ServerName,
    ) -> bool {
        self.opens(principal, profile)
            && self
                .access_of(principal, profile)
                .is_none_or(|access| access.allows_server(server.as_str()))
    }
}
