//! `access`: rules that decide which clients may use which servers and items.
//!
//! ```json
//! {"groups": {"agents": ["ci", "night-*"]},
//!  "rules": [{"who": ["group:agents"], "servers": ["git"], "readOnly": true}]}
//! ```

use std::{collections::HashSet, sync::Arc};

use mainstay_core::{
    access::{AccessPolicy, AccessRule, ItemPatterns, RuleSubject},
    config::{Config, Glob},
    spelling::nearest,
};

use crate::read::{fields::Fields, node::Node, profiles::unknown_server, report::FindingReport};

/// Reads `access`. The servers and profiles must have been read before.
pub(crate) fn read(
    node: &Node<'_>,
    config: &Config,
    report: &mut FindingReport<'_>,
) -> Option<Arc<AccessPolicy>> {
    let mut fields = Fields::open(node, report)?;
    let mut policy = AccessPolicy::default();
    if let Some(node) = fields.take("default") {
        policy.allows_rest = verdict(&node, report).unwrap_or(false);
    }
    if let Some(node) = fields.take("groups") {
        for member in node.distinct_members(report).into_iter().flatten() {
            let members = patterns(&member.node, report, "token names");
            policy.groups.insert(member.key.into(), members);
        }
    }
    let rules = fields.take("rules");
    let rule_nodes = rules.map(|node| node.array(report)).unwrap_or_default();
    let mut reader = RuleReader {
        config,
        policy: &mut policy,
        names: HashSet::new(),
        final_rule: None,
    };
    for (index, node) in rule_nodes.iter().enumerate() {
        reader.read(index, node, report);
    }
    if rule_nodes.is_empty() && !policy.allows_rest {
        let message = "without rules nobody but the operator may use anything";
        report.warn(&fields.place, message);
    }
    fields.finish_strictly(report);
    Some(Arc::new(policy))
}

/// Reads `"allow"` or `"deny"`: true if allowed.
fn verdict(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<bool> {
    node.word(report, &[("allow", true), ("deny", false)])
}

/// Reads a list of patterns. An empty pattern matches nothing, and people rely on a denial.
fn patterns(node: &Node<'_>, report: &mut FindingReport<'_>, of_what: &str) -> Vec<Glob> {
    let elements = node.array(report);
    let globs = elements.iter().filter_map(|node| {
        let pattern = node.string(report)?;
        if pattern.is_empty() {
            let message = format!("an empty pattern of {of_what} matches nothing");
            report.error_with_hint(&node.place, message, "`*` matches everything");
        }
        Some(Glob::new(pattern))
    });
    globs.collect()
}

struct RuleReader<'c> {
    config: &'c Config,
    policy: &'c mut AccessPolicy,
    names: HashSet<String>,
    /// The name of the first rule that concerns everything.
    final_rule: Option<String>,
}

impl RuleReader<'_> {
    fn read(&mut self, index: usize, node: &Node<'_>, report: &mut FindingReport<'_>) {
        let Some(mut fields) = Fields::open(node, report) else {
            return;
        };
        let mut rule = AccessRule {
            name: format!("rules[{index}]"),
            subjects: Vec::new(),
            profiles: Vec::new(),
            servers: Vec::new(),
            items: None,
            allows: true,
            read_only: false,
            refuses_destructive: false,
        };
        if let Some(node) = fields.take("name")
            && let Some(name) = node.string(report)
        {
            if name.is_empty() || !self.names.insert(name.to_owned()) {
                let message = format!("{name:?} is empty, or the name of another rule");
                report.error(&node.place, message);
            }
            name.clone_into(&mut rule.name);
        }
        if let Some(node) = fields.take("who") {
            rule.subjects = self.subjects(&node, report);
            refuse_empty(&node, "who", report);
        }
        if let Some(node) = fields.take("profiles") {
            rule.profiles = self.profiles(&node, report);
            refuse_empty(&node, "profiles", report);
        }
        if let Some(node) = fields.take("servers") {
            rule.servers = self.servers(&node, report);
            refuse_empty(&node, "servers", report);
        }
        let [tools, prompts, resources] =
            ["tools", "prompts", "resources"].map(|key| fields.take(key));
        if tools.is_some() || prompts.is_some() || resources.is_some() {
            let mut read = |node: Option<Node<'_>>, of_what| {
                node.map(|node| patterns(&node, report, of_what))
                    .unwrap_or_default()
            };
            let items = ItemPatterns {
                tools: read(tools, "tools"),
                prompts: read(prompts, "prompts"),
                resources: read(resources, "URIs"),
            };
            if items == ItemPatterns::default() {
                let message = "the rule is about no item";
                let hint = "leave `tools`, `prompts` and `resources` out for all items";
                report.error_with_hint(&node.place, message, hint);
            }
            rule.items = Some(items);
        }
        if let Some(node) = fields.take("allow") {
            rule.allows = node.boolean(report).unwrap_or(true);
        }
        let read_only = fields.take("readOnly");
        let destructive = fields.take("destructive");
        for node in [&read_only, &destructive].into_iter().flatten() {
            if !rule.allows {
                let message = "a rule with `allow: false` refuses every effect";
                report.error_with_hint(&node.place, message, "remove this key or `allow`");
            }
        }
        if let Some(node) = read_only {
            rule.read_only = node.boolean(report).unwrap_or(true);
        }
        if let Some(node) = destructive {
            rule.refuses_destructive = !verdict(&node, report).unwrap_or(false);
        }
        fields.finish_strictly(report);
        self.add(rule, node, report);
    }

    fn add(&mut self, rule: AccessRule, node: &Node<'_>, report: &mut FindingReport<'_>) {
        if let Some(name) = &self.final_rule {
            let message = format!("the rule never decides: \"{name}\" is about everything");
            report.warn(&node.place, message);
        }
        let is_about_everyone =
            rule.subjects.is_empty() || rule.subjects.contains(&RuleSubject::Everyone);
        if self.final_rule.is_none()
            && is_about_everyone
            && rule.profiles.is_empty()
            && rule.concerns_everything()
        {
            self.final_rule = Some(rule.name.clone());
        }
        self.policy.rules.push(rule);
    }

    fn subjects(&self, node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<RuleSubject> {
        let elements = node.array(report);
        let subjects = elements.iter().filter_map(|node| {
            let subject = match RuleSubject::parse(node.string(report)?) {
                Ok(subject) => subject,
                Err(error) => {
                    report.error(&node.place, error.to_string());
                    return None;
                }
            };
            if let RuleSubject::Group(group) = &subject
                && !self.policy.groups.contains_key(group)
            {
                let names: Vec<&str> = self.policy.groups.keys().map(|name| &**name).collect();
                let message = format!("there is no group \"{group}\" in `access.groups`");
                match nearest(group, &names) {
                    Some(similar) => {
                        let hint = format!("did you mean \"group:{similar}\"?");
                        report.error_with_hint(&node.place, message, hint);
                    }
                    None => report.error(&node.place, message),
                }
            }
            Some(subject)
        });
        subjects.collect()
    }

    fn profiles(&self, node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<Glob> {
        let globs = patterns(node, report, "profiles");
        let profiles = &self.config.profiles;
        let names: Vec<&str> = profiles
            .iter()
            .map(|profile| profile.name.as_str())
            .collect();
        for (glob, node) in globs.iter().zip(node.array(report)) {
            if !names.iter().any(|name| glob.matches(name)) {
                let hint = nearest(glob.as_str(), &names);
                let hint = hint.map(|similar| format!("did you mean \"{similar}\"?"));
                let message = format!("no profile of this file matches \"{glob}\"");
                report.warn_with_hint(&node.place, message, hint);
            }
        }
        globs
    }

    fn servers(&self, node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<Glob> {
        let globs = patterns(node, report, "servers");
        let servers = &self.config.servers;
        for (glob, node) in globs.iter().zip(node.array(report)) {
            if !servers
                .iter()
                .any(|server| glob.matches(server.name.as_str()))
            {
                unknown_server(glob.as_str(), &node, self.config, report);
            }
        }
        globs
    }
}

/// Reports an empty list as an error, because people would read it as "nobody" or "nothing".
fn refuse_empty(node: &Node<'_>, key: &str, report: &mut FindingReport<'_>) {
    if node.is_array() && node.is_empty() {
        let message = format!("an empty `{key}` makes the rule void");
        report.error_with_hint(&node.place, message, "leave the key out for all of them");
    }
}
