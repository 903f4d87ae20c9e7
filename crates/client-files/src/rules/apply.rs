//! Applies the rules of a client to a server.

use serde_json::{Value, json};

use super::{Effect, Rule, RuleScope, Tools, behind, has_agents};
use crate::{
    client::ClientKind,
    read::{FoundServer, KeyFate},
};

/// The maximum number of rules in one note. Further rules are only counted.
const MAX_NAMED: usize = 3;

/// The rules that decide about a server.
#[derive(Default)]
struct Verdict<'r> {
    /// The rule for all tools.
    all: Option<&'r Rule>,
    /// Rules for single tools, with the names of the tools.
    named: Vec<(&'r str, &'r Rule)>,
    patterns: Vec<&'r Rule>,
}

impl<'r> Verdict<'r> {
    fn from_rules(rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut verdict = Self::default();
        for rule in rules {
            match &rule.tools {
                Tools::All => {
                    verdict = Self {
                        all: Some(rule),
                        ..Self::default()
                    };
                }
                Tools::One(tool) => {
                    verdict.named.retain(|(earlier, _)| earlier != tool);
                    verdict.named.push((tool, rule));
                }
                Tools::Pattern(_) => verdict.patterns.push(rule),
            }
        }
        verdict
    }

    fn refusal(&self) -> Option<&'r Rule> {
        self.all.filter(|rule| rule.effect == Effect::Refused)
    }

    /// The tools that are allowed although the rule for all tools refuses them.
    fn exceptions(&self) -> Vec<String> {
        self.named
            .iter()
            .filter(|(_, rule)| rule.effect != Effect::Refused)
            .map(|(tool, _)| (*tool).to_owned())
            .collect()
    }
}

/// The rule that leaves the client without any tools of the server.
pub(super) fn refusal<'r>(server: &FoundServer, rules: &'r [Rule]) -> Option<&'r Rule> {
    let server_rules = rules.iter().filter(|rule| rule.server == server.label);
    let verdict = Verdict::from_rules(server_rules.filter(|rule| rule.is_whole(server)));
    let has_some = verdict
        .patterns
        .iter()
        .any(|rule| rule.effect != Effect::Refused);
    verdict
        .refusal()
        .filter(|_| !has_some && verdict.exceptions().is_empty())
}

/// Restricts the server like its client, and reports rules that no longer apply.
pub(crate) fn apply(server: &mut FoundServer, rules: &[Rule]) {
    // Skip rules that ask a person and also match behind Mainstay. They stay in force, and must not
    // override a refusal.
    let is_kept = |rule: &Rule| rule.effect == Effect::Asked && rule.holds_behind;
    let server_rules = rules
        .iter()
        .filter(|rule| rule.server == server.label && !is_kept(rule));
    let (whole, part): (Vec<&Rule>, Vec<&Rule>) =
        server_rules.partition(|rule| rule.is_whole(server));
    let verdict = Verdict::from_rules(whole.into_iter());
    let client = server.client;
    let mut lost: Vec<&Rule> = Vec::new();
    if let Some(rule) = verdict.refusal() {
        let mut elsewhere = part.iter();
        let elsewhere = elsewhere.find(|rule| rule.effect == Effect::Allowed);
        let is_pattern = |rule: &&&Rule| rule.effect != Effect::Refused;
        let exceptions = verdict.exceptions();
        if let Some(pattern) = verdict.patterns.iter().find(is_pattern) {
            let text = without_patterns(client, pattern);
            return refuse(server, pattern, text);
        } else if let Some(RuleScope::Part(part)) = elsewhere.map(|rule| &rule.place) {
            let text = format!(
                "{client} has its tools in {part} only, and clients of Mainstay have them everywhere"
            );
            return refuse(server, rule, text);
        } else if exceptions.is_empty() {
            return leave_out(server, rule);
        }
        allow(server, rule, exceptions);
    } else {
        let is_refused = |rule: &&Rule| rule.effect == Effect::Refused && !rule.holds_behind;
        let refused = verdict.patterns.iter().copied().find(is_refused);
        if let Some(pattern) = refused {
            let text = without_patterns(client, pattern);
            refuse(server, pattern, text);
        }
        disable(server, &verdict);
        lost.extend(verdict.all);
        lost.extend(verdict.patterns);
    }
    let for_tools = verdict.named.iter().map(|(_, rule)| *rule);
    lost.extend(for_tools);
    lost.retain(|rule| rule.effect == Effect::Asked);
    lost.extend(part.iter().filter(|rule| rule.effect != Effect::Allowed));
    lost.retain(|rule| !rule.holds_behind);
    report(server, &lost);
}

fn without_patterns(client: ClientKind, rule: &Rule) -> String {
    if has_agents(client) {
        return "Mainstay chooses tools by their names, without patterns".to_owned();
    }
    format!(
        "{client} has the rule {}{}, and Mainstay chooses tools by their names, without patterns",
        rule.text,
        of_file(rule)
    )
}

fn of_file(rule: &Rule) -> String {
    let file = rule.file.as_ref();
    file.map_or_else(String::new, |file| format!(" ({})", file.display()))
}

/// Disables a server with a restriction that Mainstay cannot express.
fn refuse(server: &mut FoundServer, rule: &Rule, text: String) {
    server.note(&rule.key, KeyFate::Unsupported, text);
    if server.entry.get("enabled") != Some(&Value::Bool(false)) {
        server.entry.insert("enabled".to_owned(), json!(false));
        let text = "the server is disabled until you enable it".to_owned();
        server.note(&rule.key, KeyFate::Reported, text);
    }
}

/// Disables a server that a list of its client excludes.
fn leave_out(server: &mut FoundServer, rule: &Rule) {
    server.entry.insert("enabled".to_owned(), json!(false));
    let text = format!(
        "{} leaves it out{}, so it is disabled here",
        server.client,
        of_file(rule)
    );
    server.note(&rule.key, KeyFate::Reported, text);
}

/// Allows only these tools.
fn allow(server: &mut FoundServer, rule: &Rule, mut tools: Vec<String>) {
    const OURS: &str = "allowedTools";
    if let Some(allowed) = crate::read::names(server.entry.get(OURS)) {
        tools.retain(|name| allowed.contains(name));
    }
    server.entry.insert(OURS.to_owned(), json!(tools));
    let subject = match server.client {
        client if has_agents(client) => "its agent".to_owned(),
        client => client.to_string(),
    };
    let text = format!("{subject} has {} of its tools only", tools.join(", "));
    server.note(&rule.key, KeyFate::Honoured, text);
}

/// Hides the tools that the client refuses by name.
fn disable(server: &mut FoundServer, verdict: &Verdict<'_>) {
    const OURS: &str = "disabledTools";
    let mut refused = verdict
        .named
        .iter()
        .filter(|(_, rule)| rule.effect == Effect::Refused)
        .peekable();
    let Some((_, first)) = refused.peek() else {
        return;
    };
    let (key, file) = (first.key.clone(), of_file(first));
    let mut names = crate::read::names(server.entry.get(OURS)).unwrap_or_default();
    let tools: Vec<&str> = refused.map(|(tool, _)| *tool).collect();
    for tool in &tools {
        if !names.iter().any(|name| name == tool) {
            names.push((*tool).to_owned());
        }
    }
    server.entry.insert(OURS.to_owned(), json!(names));
    let text = format!(
        "{} refuses {}{file}, and so does Mainstay, to all clients",
        server.client,
        first_of(&tools)
    );
    server.note(&key, KeyFate::Reported, text);
}

/// The first texts, and the number of the other texts.
fn first_of(texts: &[&str]) -> String {
    let named = texts[..texts.len().min(MAX_NAMED)].join(", ");
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Reports rules that do not apply to the tools behind Mainstay, in one note for each file.
fn report(server: &mut FoundServer, lost: &[&Rule]) {
    let client = server.client;
    let is_absence = |rule: &&&Rule| rule.effect == Effect::Refused && rule.tools == Tools::All;
    let (absences, mut others): (Vec<&Rule>, Vec<&Rule>) = lost.iter().partition(is_absence);
    if let Some(rule) = absences.first() {
        let places = absences
            .iter()
            .map(|rule| scope_words(rule))
            .collect::<Vec<_>>();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let text = format!(
            "{client} leaves it out in {}, where Mainstay has it, too",
            first_of(&places)
        );
        server.note(&rule.key, KeyFate::Reported, text);
    }
    while let Some(first) = others.first().copied() {
        let is_same = |rule: &mut &Rule| rule.file == first.file;
        let same: Vec<&Rule> = others.extract_if(.., is_same).collect();
        let mut keys: Vec<&str> = same.iter().map(|rule| rule.key.as_str()).collect();
        keys.dedup();
        let texts: Vec<String> = same.iter().map(|rule| rule_words(rule)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let tool = match same.as_slice() {
            [
                Rule {
                    tools: Tools::One(tool),
                    ..
                },
            ] => tool,
            _ => "TOOL",
        };
        let (rules, verb) = match same.len() {
            1 => ("rule", "does"),
            _ => ("rules", "do"),
        };
        let text = format!(
            "the {rules} {}{} {verb} not hold for its tools behind Mainstay, which {client} calls {}",
            first_of(&texts),
            of_file(first),
            behind(client, server.name.as_str(), tool)
        );
        server.note(&keys.join(", "), KeyFate::Reported, text);
    }
}

fn scope_words(rule: &Rule) -> String {
    match &rule.place {
        RuleScope::Everywhere => "all projects".to_owned(),
        RuleScope::Project(folder) => folder.display().to_string(),
        RuleScope::Part(part) => part.clone(),
    }
}

/// The rule, with the part of the client in which it applies.
fn rule_words(rule: &Rule) -> String {
    match &rule.place {
        RuleScope::Everywhere | RuleScope::Project(_) => rule.text.clone(),
        RuleScope::Part(part) => format!("{} of {part}", rule.text),
    }
}
