//! The limits of a client's token.

use crate::ids::ProfileName;

/// Limits that the operator has given a client's token. The default limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenLimits {
    /// The profiles that the token opens. If the list is not empty, the token opens no endpoint of
    /// a single server. If the list is empty, the token opens all endpoints.
    pub profiles: Vec<ProfileName>,
    /// True if the token allows only tools that their servers mark as read-only.
    pub is_read_only: bool,
}

impl TokenLimits {
    pub fn is_nothing(&self) -> bool {
        self.profiles.is_empty() && !self.is_read_only
    }

    /// True if the token opens the endpoint of this profile, or of a single server (`None`).
    pub fn opens(&self, profile: Option<&ProfileName>) -> bool {
        self.profiles.is_empty() || profile.is_some_and(|profile| self.profiles.contains(profile))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_with_profiles_opens_these_endpoints_alone() {
        let build = ProfileName::new("build").expect("a name");
        let other = ProfileName::default();
        let bound = TokenLimits {
            profiles: vec![build.clone()],
            ..TokenLimits::default()
        };
        for (limits, profile, opens) in [
            (&bound, Some(&build), true),
            (&bound, Some(&other), false),
            (&bound, None, false),
            (&TokenLimits::default(), Some(&other), true),
            (&TokenLimits::default(), None, true),
        ] {
            assert_eq!(limits.opens(profile), opens, "{limits:?} {profile:?}");
        }
    }
}
