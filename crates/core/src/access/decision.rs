//! The decision about one server or item, and the reason for it.

use std::{fmt, sync::Arc};

use super::{
    effect::ToolEffect,
    limits::TokenLimits,
    policy::{AccessPolicy, AccessRule},
    uris::other_forms,
};
use crate::{catalog::ListKind, principal::Principal};

/// The access of one principal at one endpoint.
#[derive(Clone, Debug)]
pub struct PrincipalAccess {
    policy: Option<Arc<AccessPolicy>>,
    /// The indexes of the policy's rules that concern the principal here.
    rules: Box<[usize]>,
    is_read_only: bool,
    is_operator: bool,
}

/// An item of a server about which a decision is needed.
#[derive(Clone, Copy, Debug)]
pub struct ItemQuestion<'a> {
    pub kind: ListKind,
    pub server: &'a str,
    /// The original name of a tool or prompt, the URI of a resource, or a URI template.
    pub original: &'a str,
    /// The effect of a tool. Ignored for other kinds of items.
    pub effect: ToolEffect,
}

/// A decision, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub is_allowed: bool,
    pub reason: DecisionReason,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    /// The configuration has no rules.
    NoRules,
    /// The operator may use everything.
    Operator,
    /// The rule with this name allows or refuses the item.
    Rule(String),
    /// The rule with this name allows only tools that are read-only.
    RuleReadOnly(String),
    /// The rule with this name refuses tools that may be destructive.
    RuleDestructive(String),
    /// No rule concerns the item, so the default decides.
    Default,
    /// The token allows only tools that are read-only.
    TokenReadOnly,
    /// The token does not open this endpoint.
    TokenProfiles,
    /// Parsers of URIs do not agree on this URI.
    UnclearUri,
}

impl DecisionReason {
    /// The name of the rule that decides, if one does.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Rule(name) | Self::RuleReadOnly(name) | Self::RuleDestructive(name) => Some(name),
            Self::NoRules
            | Self::Operator
            | Self::Default
            | Self::TokenReadOnly
            | Self::TokenProfiles
            | Self::UnclearUri => None,
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRules => f.write_str("the configuration has no rules of access"),
            Self::Operator => f.write_str("the operator may use everything"),
            Self::Rule(name) => write!(f, "the rule \"{name}\" decides"),
            Self::RuleReadOnly(name) => write!(
                f,
                "the rule \"{name}\" allows only tools that their servers mark as read-only"
            ),
            Self::RuleDestructive(name) => write!(
                f,
                "the rule \"{name}\" refuses tools that may be destructive"
            ),
            Self::Default => f.write_str("no rule concerns it, and `access.default` decides"),
            Self::TokenReadOnly => {
                f.write_str("the token allows only tools that their servers mark as read-only")
            }
            Self::TokenProfiles => f.write_str("the token does not open this endpoint"),
            Self::UnclearUri => f.write_str(
                "the URI has control characters or spaces at its ends, or is encoded too often",
            ),
        }
    }
}

impl PrincipalAccess {
    /// The access of a principal at the endpoint of a profile. `None` as profile is the endpoint of
    /// a single server, or REST. Returns `None` if the principal may use everything.
    pub fn new(
        policy: Option<&Arc<AccessPolicy>>,
        limits: Option<&TokenLimits>,
        principal: &Principal,
        profile: Option<&str>,
    ) -> Option<Self> {
        let is_read_only = limits.is_some_and(|limits| limits.is_read_only);
        if *principal == Principal::Operator || policy.is_none() && !is_read_only {
            return None;
        }
        let access = Self::explained(policy, limits, principal, profile);
        (!access.allows_everything()).then_some(access)
    }

    /// The access of a principal whose token does not exist any more.
    pub fn nothing() -> Self {
        Self {
            policy: Some(Arc::new(AccessPolicy::default())),
            rules: Box::default(),
            is_read_only: false,
            is_operator: false,
        }
    }

    /// Like [`PrincipalAccess::new`], also for a principal that may use everything.
    pub fn explained(
        policy: Option<&Arc<AccessPolicy>>,
        limits: Option<&TokenLimits>,
        principal: &Principal,
        profile: Option<&str>,
    ) -> Self {
        let rules = policy.map(|policy| policy.rules_of(principal, profile));
        Self {
            rules: rules.unwrap_or_default(),
            policy: policy.cloned(),
            is_read_only: limits.is_some_and(|limits| limits.is_read_only),
            is_operator: *principal == Principal::Operator,
        }
    }

    fn allows_everything(&self) -> bool {
        let first_rule = self.rules().next();
        let by_rules = first_rule.map_or_else(|| self.allows_rest(), AccessRule::allows_everything);
        self.is_operator || by_rules && !self.is_read_only
    }

    fn rules(&self) -> impl Iterator<Item = &AccessRule> {
        let rules = self.policy.iter().map(|policy| &policy.rules);
        rules.flat_map(|rules| self.rules.iter().map(move |index| &rules[*index]))
    }

    fn allows_rest(&self) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.allows_rest)
    }

    /// True if the principal may see the server: no rule refuses all items of the server.
    pub fn allows_server(&self, server: &str) -> bool {
        self.server_rule(server)
            .map_or_else(|| self.allows_rest(), |rule| rule.allows)
    }

    /// The rule that decides whether the principal may see a server.
    fn server_rule(&self, server: &str) -> Option<&AccessRule> {
        let mut rules = self.rules().filter(|rule| rule.concerns_server(server));
        rules.find(|rule| rule.allows || rule.items.is_none())
    }

    /// The decision about a server, with its reason.
    pub fn decide_server(&self, server: &str) -> Decision {
        let rule = self.server_rule(server);
        Decision {
            is_allowed: self.is_operator || self.allows_server(server),
            reason: match rule {
                Some(rule) if !self.is_operator => DecisionReason::Rule(rule.name.clone()),
                _ => self.reason_without_rule(),
            },
        }
    }

    fn reason_without_rule(&self) -> DecisionReason {
        if self.is_operator {
            DecisionReason::Operator
        } else if self.policy.is_none() {
            DecisionReason::NoRules
        } else {
            DecisionReason::Default
        }
    }

    /// True if the principal may use the item. For a resource, the rules must allow each form in
    /// which a server may take its URI.
    pub fn allows_item(&self, question: &ItemQuestion<'_>) -> bool {
        if question.kind != ListKind::Resources {
            return self.allows_text(question);
        }
        let allows = |form: &String| self.allows_text(&question.about(form));
        self.allows_text(question)
            && other_forms(question.original).is_some_and(|forms| forms.iter().all(allows))
    }

    fn allows_text(&self, question: &ItemQuestion<'_>) -> bool {
        let is_tool = question.kind == ListKind::Tools;
        if self.is_read_only && is_tool && question.effect != ToolEffect::ReadOnly {
            return false;
        }
        self.deciding_rule(question)
            .map_or_else(|| self.allows_rest(), |rule| rule.allows(question))
    }

    fn deciding_rule(&self, question: &ItemQuestion<'_>) -> Option<&AccessRule> {
        self.rules().find(|rule| {
            rule.concerns_server(question.server)
                && rule.concerns_item(question.kind, question.original)
        })
    }

    /// The decision about an item, with its reason.
    pub fn decide(&self, question: &ItemQuestion<'_>) -> Decision {
        if question.kind != ListKind::Resources || self.is_operator {
            return self.decide_text(question);
        }
        let Some(forms) = other_forms(question.original) else {
            return Decision {
                is_allowed: false,
                reason: DecisionReason::UnclearUri,
            };
        };
        let refused = forms
            .iter()
            .find(|form| !self.allows_text(&question.about(form)));
        match refused {
            Some(form) if self.allows_text(question) => self.decide_text(&question.about(form)),
            _ => self.decide_text(question),
        }
    }

    fn decide_text(&self, question: &ItemQuestion<'_>) -> Decision {
        let is_allowed = self.is_operator || self.allows_text(question);
        let rule = self.deciding_rule(question);
        let reason = match rule {
            _ if self.is_operator => DecisionReason::Operator,
            _ if self.is_read_only
                && !is_allowed
                && rule.is_none_or(|rule| rule.allows(question)) =>
            {
                DecisionReason::TokenReadOnly
            }
            Some(rule) => rule.reason(question),
            None => self.reason_without_rule(),
        };
        Decision { is_allowed, reason }
    }
}

impl<'a> ItemQuestion<'a> {
    /// The same question about another text.
    fn about(self, original: &'a str) -> Self {
        Self { original, ..self }
    }
}

impl AccessRule {
    fn allows_everything(&self) -> bool {
        self.allows && self.concerns_everything() && !self.read_only && !self.refuses_destructive
    }

    fn allows(&self, question: &ItemQuestion<'_>) -> bool {
        if !self.allows || question.kind != ListKind::Tools {
            return self.allows;
        }
        match question.effect {
            ToolEffect::ReadOnly => true,
            ToolEffect::Additive => !self.read_only,
            ToolEffect::Destructive => !self.read_only && !self.refuses_destructive,
        }
    }

    fn reason(&self, question: &ItemQuestion<'_>) -> DecisionReason {
        let name = self.name.clone();
        if self.allows && !self.allows(question) {
            if self.read_only {
                DecisionReason::RuleReadOnly(name)
            } else {
                DecisionReason::RuleDestructive(name)
            }
        } else {
            DecisionReason::Rule(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use ToolEffect::{Additive, Destructive, ReadOnly};

    use super::*;
    use crate::{
        access::{ItemPatterns, RuleSubject},
        config::Glob,
        principal::ClientName,
    };

    fn globs(patterns: &[&str]) -> Vec<Glob> {
        patterns.iter().map(|pattern| Glob::new(*pattern)).collect()
    }

    /// A rule that allows everything on these servers to these subjects.
    fn rule(name: &str, subjects: &[&str], servers: &[&str]) -> AccessRule {
        let subject = |text: &&str| RuleSubject::parse(text).expect("a subject");
        AccessRule {
            name: name.to_owned(),
            subjects: subjects.iter().map(subject).collect(),
            profiles: Vec::new(),
            servers: globs(servers),
            items: None,
            allows: true,
            read_only: false,
            refuses_destructive: false,
        }
    }

    fn policy() -> Arc<AccessPolicy> {
        let tools = |patterns: &[&str]| {
            Some(ItemPatterns {
                tools: globs(patterns),
                ..ItemPatterns::default()
            })
        };
        Arc::new(AccessPolicy {
            groups: [("agents".into(), globs(&["ci", "night-*"]))].into(),
            rules: vec![
                AccessRule {
                    items: tools(&["drop_*"]),
                    allows: false,
                    ..rule("no drops", &[], &["db"])
                },
                AccessRule {
                    read_only: true,
                    ..rule("agents read", &["group:agents"], &["db", "git-*"])
                },
                AccessRule {
                    refuses_destructive: true,
                    ..rule("people", &["anna", "bert"], &[])
                },
                AccessRule {
                    profiles: globs(&["open"]),
                    ..rule("open", &["anonymous"], &["docs"])
                },
            ],
            allows_rest: false,
        })
    }

    fn client(name: &str) -> Principal {
        Principal::Client(ClientName::new(name).expect("a name"))
    }

    fn tool<'a>(server: &'a str, original: &'a str, effect: ToolEffect) -> ItemQuestion<'a> {
        ItemQuestion {
            kind: ListKind::Tools,
            server,
            original,
            effect,
        }
    }

    #[test]
    fn the_first_rule_that_concerns_a_tool_decides() {
        let policy = policy();
        let read_only_rule = || DecisionReason::RuleReadOnly("agents read".to_owned());
        let destructive_rule = || DecisionReason::RuleDestructive("people".to_owned());
        let by = |name: &str| DecisionReason::Rule(name.to_owned());
        let default = || DecisionReason::Default;
        for (principal, profile, question, is_allowed, reason) in [
            (
                client("ci"),
                None,
                tool("db", "query", ReadOnly),
                true,
                by("agents read"),
            ),
            (
                client("ci"),
                None,
                tool("db", "insert", Additive),
                false,
                read_only_rule(),
            ),
            (
                client("night-1"),
                None,
                tool("git-a", "log", ReadOnly),
                true,
                by("agents read"),
            ),
            (
                client("night"),
                None,
                tool("git-a", "log", ReadOnly),
                false,
                default(),
            ),
            (
                client("ci"),
                None,
                tool("db", "drop_table", ReadOnly),
                false,
                by("no drops"),
            ),
            (
                client("ci"),
                None,
                tool("mail", "read", ReadOnly),
                false,
                default(),
            ),
            (
                client("anna"),
                None,
                tool("mail", "send", Additive),
                true,
                by("people"),
            ),
            (
                client("anna"),
                None,
                tool("mail", "delete", Destructive),
                false,
                destructive_rule(),
            ),
            (
                client("anna"),
                None,
                tool("db", "drop_x", Additive),
                false,
                by("no drops"),
            ),
            (
                Principal::Anonymous,
                Some("open"),
                tool("docs", "x", Destructive),
                true,
                by("open"),
            ),
            (
                Principal::Anonymous,
                Some("other"),
                tool("docs", "x", ReadOnly),
                false,
                default(),
            ),
            (
                Principal::Anonymous,
                None,
                tool("docs", "x", ReadOnly),
                false,
                default(),
            ),
        ] {
            let access = PrincipalAccess::new(Some(&policy), None, &principal, profile);
            let access = access.expect("rules");
            let decision = access.decide(&question);
            let expected = Decision { is_allowed, reason };
            assert_eq!(decision, expected, "{principal} {profile:?} {question:?}");
            assert_eq!(access.allows_item(&question), is_allowed);
        }
        assert!(PrincipalAccess::new(Some(&policy), None, &Principal::Operator, None).is_none());
    }

    #[test]
    fn a_client_that_may_use_everything_has_no_rules() {
        let mut policy = AccessPolicy::clone(&policy());
        policy.rules.truncate(1);
        policy.rules.insert(0, rule("admins", &["anna"], &[]));
        let is_free = |policy: &AccessPolicy, name: &str| {
            let policy = Arc::new(policy.clone());
            PrincipalAccess::new(Some(&policy), None, &client(name), None).is_none()
        };
        assert!(is_free(&policy, "anna") && !is_free(&policy, "bert"));
        policy.rules[0].read_only = true;
        assert!(!is_free(&policy, "anna"));
        policy.rules.clear();
        assert!(!is_free(&policy, "anna"));
        policy.allows_rest = true;
        assert!(is_free(&policy, "anna"));
    }

    #[test]
    fn a_server_is_seen_unless_everything_of_it_is_refused() {
        let policy = policy();
        let mut closed = AccessPolicy::clone(&policy);
        closed.allows_rest = true;
        closed.rules.push(AccessRule {
            allows: false,
            ..rule("no mail", &[], &["mail"])
        });
        let closed = Arc::new(closed);
        for (policy, principal, server, is_seen) in [
            (&policy, client("ci"), "db", true),
            (&policy, client("ci"), "mail", false),
            (&policy, client("anna"), "mail", true),
            (&policy, Principal::Anonymous, "db", false),
            (&closed, Principal::Anonymous, "mail", false),
            (&closed, Principal::Anonymous, "db", true),
            (&closed, client("anna"), "mail", true),
        ] {
            let access = PrincipalAccess::new(Some(policy), None, &principal, None);
            let access = access.expect("rules");
            assert_eq!(
                access.allows_server(server),
                is_seen,
                "{principal} {server}"
            );
        }
    }

    #[test]
    fn rules_of_effects_do_not_concern_other_items() {
        let access = PrincipalAccess::new(Some(&policy()), None, &client("ci"), None);
        let access = access.expect("rules");
        for kind in [ListKind::Prompts, ListKind::Resources, ListKind::Templates] {
            let question = ItemQuestion {
                kind,
                ..tool("db", "drop_x", Destructive)
            };
            assert!(access.allows_item(&question), "{kind:?}");
        }
    }

    #[test]
    fn a_read_only_token_needs_the_hint_and_the_rule() {
        let limits = TokenLimits {
            is_read_only: true,
            ..TokenLimits::default()
        };
        let policy = policy();
        let by_token = || DecisionReason::TokenReadOnly;
        for (policy, question, is_allowed, reason) in [
            (
                None,
                tool("db", "query", ReadOnly),
                true,
                DecisionReason::NoRules,
            ),
            (None, tool("db", "insert", Additive), false, by_token()),
            (
                Some(&policy),
                tool("mail", "send", Additive),
                false,
                by_token(),
            ),
            (
                Some(&policy),
                tool("mail", "delete", Destructive),
                false,
                DecisionReason::RuleDestructive("people".to_owned()),
            ),
            (
                Some(&policy),
                tool("mail", "read", ReadOnly),
                true,
                DecisionReason::Rule("people".to_owned()),
            ),
        ] {
            let access = PrincipalAccess::new(policy, Some(&limits), &client("anna"), None);
            let access = access.expect("limits");
            let expected = Decision { is_allowed, reason };
            assert_eq!(access.decide(&question), expected, "{question:?}");
        }
        let none = TokenLimits::default();
        assert!(PrincipalAccess::new(None, Some(&none), &client("anna"), None).is_none());
    }
}
