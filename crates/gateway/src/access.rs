//! The rules of access in force, and the limits of clients' tokens. `view` applies them.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use mainstay_core::{
    access::{AccessPolicy, Decision, DecisionReason, PrincipalAccess, TokenLimits},
    ids::{ProfileName, ServerName},
    principal::{ClientName, Principal},
};

/// The limits of one client's token.
#[derive(Clone, Debug)]
pub enum ClientLimits {
    /// There is no such token, or it was removed while a request was under way. It opens nothing.
    NoToken,
    Unlimited,
    Limited(Arc<TokenLimits>),
}

/// Knows the limits of clients' tokens.
pub trait TokenLimitSource: fmt::Debug + Send + Sync {
    /// The limits of the token of this name. Asked at each request of the client, so it must not
    /// block.
    fn limits_of(&self, client: &ClientName) -> ClientLimits;
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

    /// Replaces the rules. `None` allows everything.
    pub fn set_policy(&self, policy: Option<Arc<AccessPolicy>>) {
        self.policy.store(policy);
    }

    /// The limits of a principal's token. Only clients have some.
    fn limits_of(&self, principal: &Principal) -> ClientLimits {
        match (principal, &self.token_limits) {
            (Principal::Client(name), Some(source)) => source.limits_of(name),
            (Principal::Client(_) | Principal::Anonymous | Principal::Operator, _) => {
                ClientLimits::Unlimited
            }
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
        let limits = match self.limits_of(principal) {
            ClientLimits::NoToken => return Some(PrincipalAccess::nothing()),
            ClientLimits::Unlimited => None,
            ClientLimits::Limited(limits) => Some(limits),
        };
        let profile = profile.map(ProfileName::as_str);
        PrincipalAccess::new(policy.as_ref(), limits.as_deref(), principal, profile)
    }

    /// Explains a decision at the endpoint of a profile, or of a single server (`profile` is `None`).
    /// Also explains what a client may use whose token is still to be made. `decide` is asked unless
    /// the limits of the token decide.
    pub fn explain(
        &self,
        principal: &Principal,
        profile: Option<&ProfileName>,
        decide: impl FnOnce(&PrincipalAccess) -> Decision,
    ) -> Decision {
        let policy = self.policy.load();
        let limits = match self.limits_of(principal) {
            ClientLimits::NoToken | ClientLimits::Unlimited => None,
            ClientLimits::Limited(limits) => Some(limits),
        };
        if limits.as_ref().is_some_and(|limits| !limits.opens(profile)) {
            return Decision {
                is_allowed: false,
                reason: DecisionReason::TokenProfiles,
            };
        }
        let profile = profile.map(ProfileName::as_str);
        decide(&PrincipalAccess::explained(
            policy.as_ref(),
            limits.as_deref(),
            principal,
            profile,
        ))
    }

    /// True if a principal may use the endpoint of this profile, or of single servers (`None`).
    pub fn opens(&self, principal: &Principal, profile: Option<&ProfileName>) -> bool {
        match self.limits_of(principal) {
            ClientLimits::NoToken => false,
            ClientLimits::Unlimited => true,
            ClientLimits::Limited(limits) => limits.opens(profile),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Limits(ClientLimits);

    impl TokenLimitSource for Limits {
        fn limits_of(&self, _: &ClientName) -> ClientLimits {
            self.0.clone()
        }
    }

    /// A request that is under way when its token is removed must not lose its limits.
    #[test]
    fn a_removed_token_opens_nothing() {
        let server = ServerName::new("fs").expect("a name");
        let client = Principal::Client(ClientName::new("ci").expect("a name"));
        for (limits, is_open) in [
            (ClientLimits::NoToken, false),
            (ClientLimits::Unlimited, true),
            (ClientLimits::Limited(Arc::default()), true),
        ] {
            let access = AccessControl::new(None, Some(Arc::new(Limits(limits.clone()))));
            assert_eq!(access.opens(&client, None), is_open, "{limits:?}");
            assert_eq!(access.is_unlimited(&client), is_open, "{limits:?}");
            assert_eq!(access.allows_server(&client, None, &server), is_open);
            let allows = access
                .access_of(&client, None)
                .is_none_or(|access| access.allows_server("fs"));
            assert_eq!(allows, is_open, "{limits:?}");
            assert!(access.opens(&Principal::Operator, None));
        }
    }
}
