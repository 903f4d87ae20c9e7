//! The rules of the configuration (`access`).

use std::{collections::BTreeMap, fmt};

use crate::{
    catalog::ListKind,
    config::Glob,
    principal::{ClientName, Principal},
};

/// The rules of access, in the order of the file. The first rule that concerns a principal and an
/// item decides. Without such a rule, `allows_rest` does. The operator may use everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// The clients of each group, by the names of their tokens.
    pub groups: BTreeMap<Box<str>, Vec<Glob>>,
    pub rules: Vec<AccessRule>,
    /// True if items are allowed that no rule concerns (`default: "allow"`).
    pub allows_rest: bool,
}

/// One rule. An empty list stands for everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The rule's name in the file, or its place, such as `rules[2]`.
    pub name: String,
    pub subjects: Vec<RuleSubject>,
    pub profiles: Vec<Glob>,
    pub servers: Vec<Glob>,
    /// `None` if the rule concerns all items of its servers.
    pub items: Option<ItemPatterns>,
    /// False for a rule that refuses.
    pub allows: bool,
    /// True to refuse tools that their servers do not mark as read-only.
    pub read_only: bool,
    /// True to refuse tools that may be destructive.
    pub refuses_destructive: bool,
}

/// The items that a rule concerns, by their original names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemPatterns {
    pub tools: Vec<Glob>,
    pub prompts: Vec<Glob>,
    /// Patterns of URIs and URI templates.
    pub resources: Vec<Glob>,
}

/// The principals that a rule concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    Everyone,
    /// Clients without a token.
    Anonymous,
    /// Clients whose token has such a name.
    Client(Glob),
    Group(Box<str>),
}

/// The error of a text that is not a subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names nobody; write \"*\", \"anonymous\", the name of a token such as \"ci\" or \"ci-*\", or \"group:NAME\""
)]
pub struct UnknownSubject(String);

impl RuleSubject {
    const GROUP: &str = "group:";

    pub fn parse(text: &str) -> Result<Self, UnknownSubject> {
        let unknown = || UnknownSubject(text.to_owned());
        match text {
            "*" => Ok(Self::Everyone),
            "anonymous" => Ok(Self::Anonymous),
            _ => match text.strip_prefix(Self::GROUP) {
                Some(group) if !group.is_empty() => Ok(Self::Group(group.into())),
                Some(_) => Err(unknown()),
                None => client_pattern(text).map(Self::Client).ok_or_else(unknown),
            },
        }
    }
}

/// A pattern for names of tokens. `None` if no name can match.
pub fn client_pattern(text: &str) -> Option<Glob> {
    let name = text.replace('*', "");
    let is_legal = if name.is_empty() {
        text.contains('*')
    } else {
        ClientName::new(&name).is_ok()
    };
    is_legal.then(|| Glob::new(text))
}

impl fmt::Display for RuleSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("*"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Client(pattern) => pattern.fmt(f),
            Self::Group(name) => write!(f, "{}{name}", Self::GROUP),
        }
    }
}

impl AccessPolicy {
    /// The groups of a client.
    pub fn groups_of(&self, client: &ClientName) -> impl Iterator<Item = &str> {
        self.groups
            .iter()
            .filter(|(_, members)| matches_any(members, client.as_str()))
            .map(|(name, _)| &**name)
    }

    fn concerns(&self, subject: &RuleSubject, principal: &Principal) -> bool {
        match (subject, principal) {
            (RuleSubject::Everyone, _) | (RuleSubject::Anonymous, Principal::Anonymous) => true,
            (RuleSubject::Client(pattern), Principal::Client(name)) => {
                pattern.matches(name.as_str())
            }
            (RuleSubject::Group(group), Principal::Client(name)) => self
                .groups
                .get(group)
                .is_some_and(|members| matches_any(members, name.as_str())),
            (
                RuleSubject::Anonymous | RuleSubject::Client(_) | RuleSubject::Group(_),
                Principal::Anonymous | Principal::Client(_) | Principal::Operator,
            ) => false,
        }
    }

    /// The indexes of the rules that concern a principal at the endpoint of a profile. `None` is
    /// the endpoint of a single server, or REST.
    pub(super) fn rules_of(&self, principal: &Principal, profile: Option<&str>) -> Box<[usize]> {
        let is_at = |rule: &AccessRule| match profile {
            _ if rule.profiles.is_empty() => true,
            Some(profile) => matches_any(&rule.profiles, profile),
            None => false,
        };
        let concerns = |rule: &AccessRule| {
            let concerns = |subject| self.concerns(subject, principal);
            rule.subjects.is_empty() || rule.subjects.iter().any(concerns)
        };
        self.rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| is_at(rule) && concerns(rule))
            .map(|(index, _)| index)
            .collect()
    }
}

impl AccessRule {
    /// True if the rule is about all items of all servers.
    pub fn concerns_everything(&self) -> bool {
        let is_everywhere = self.servers.is_empty() || self.servers.contains(&Glob::everything());
        is_everywhere && self.items.is_none()
    }

    pub(super) fn concerns_server(&self, server: &str) -> bool {
        self.servers.is_empty() || matches_any(&self.servers, server)
    }

    pub(super) fn concerns_item(&self, kind: ListKind, original: &str) -> bool {
        match &self.items {
            None => true,
            Some(patterns) => matches_any(patterns.of_kind(kind), original),
        }
    }
}

impl ItemPatterns {
    fn of_kind(&self, kind: ListKind) -> &[Glob] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources | ListKind::Templates => &self.resources,
        }
    }
}

fn matches_any(patterns: &[Glob], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_survives_its_text() {
        for text in ["*", "anonymous", "ci", "ci-*", "group:ops", "*-bot"] {
            let subject = RuleSubject::parse(text).expect(text);
            assert_eq!(subject.to_string(), text);
        }
        for text in ["", "group:", "a b", "client:ci", "user@example.com"] {
            RuleSubject::parse(text).expect_err(text);
        }
    }
}
