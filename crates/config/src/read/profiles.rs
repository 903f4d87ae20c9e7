//! Reads `profiles`: named sets of servers and tools, each with its own endpoint.
//!
//! ```json
//! {"review": {"servers": ["git", "docs-*"], "tools": {"deny": ["git/push*"]}, "naming": "none"}}
//! ```

use std::collections::HashSet;

use mainstay_core::{
    builtin::OwnToolGroup,
    config::{Config, Expose, Glob, ProfileConfig, ToolEdit},
    ids::{ProfileName, ServerName},
    names::{NamedServer, ServerNames},
    spelling::nearest,
};

use crate::{
    read::{fields::Fields, node::Node, report::FindingReport},
    words::settings::SettingValue,
};

/// Reads the top level's `ownTools`, with the default `own_tools`, and `profiles`. The servers must
/// already have been read.
pub(crate) fn read(
    fields: &mut Fields<'_>,
    own_tools: &[OwnToolGroup],
    config: &mut Config,
    report: &mut FindingReport<'_>,
) {
    config.profiles = ProfileConfig::built_in();
    config.profiles[0].own_tools = match fields.take("ownTools") {
        Some(node) => groups(&node, report),
        None => own_tools.to_vec(),
    };
    let members = fields
        .take("profiles")
        .and_then(|node| node.distinct_members(report));
    for member in members.into_iter().flatten() {
        let name = match ProfileName::new(member.key) {
            Ok(name) => name,
            Err(error) => {
                report.error(&member.key_place, error.to_string());
                continue;
            }
        };
        let known_index = config
            .profiles
            .iter()
            .position(|profile| profile.name == name);
        let base = match known_index {
            Some(index) => config.profiles.swap_remove(index),
            None => ProfileConfig::everything(name),
        };
        let index = known_index.unwrap_or(config.profiles.len());
        let profile = profile(base, &member.node, config, report);
        config.profiles.push(profile);
        let last = config.profiles.len() - 1;
        config.profiles.swap(index, last);
    }
}

/// Reads one profile. `base` has the settings that the profile does not set.
fn profile(
    base: ProfileConfig,
    node: &Node<'_>,
    config: &Config,
    report: &mut FindingReport<'_>,
) -> ProfileConfig {
    let mut profile = base;
    let Some(mut fields) = Fields::open(node, report) else {
        return profile;
    };
    if let Some(node) = fields.take("servers") {
        profile.servers = servers(&node, config, report);
    }
    if let Some(mut tools) = fields
        .take("tools")
        .and_then(|node| Fields::open(&node, report))
    {
        if let Some(node) = tools.take("allow") {
            profile.tools.allow = tool_globs(&node, report);
        }
        if let Some(node) = tools.take("deny") {
            profile.tools.deny = tool_globs(&node, report);
        }
        tools.finish(report);
    }
    if let Some(node) = fields.take("rename") {
        renames(&mut profile, &node, config, report);
    }
    if let Some(node) = fields.take("descriptions") {
        edits(
            &mut profile,
            &node,
            config,
            report,
            |_, edit, text, _, _| {
                edit.description = Some(text.to_owned());
            },
        );
    }
    if let Some(node) = fields.take("expose") {
        let words = [("direct", Expose::Direct), ("meta", Expose::Meta)];
        profile.expose = node.word(report, &words).unwrap_or(profile.expose);
    }
    if let Some(node) = fields.take("naming") {
        profile.naming = SettingValue::read(&node, report);
    }
    match fields.take("ownTools") {
        Some(node) => profile.own_tools = groups(&node, report),
        None if profile.expose == Expose::Meta && profile.own_tools.is_empty() => {
            profile.own_tools = vec![OwnToolGroup::Meta];
        }
        None => {}
    }
    fields.finish(report);
    profile
}

fn servers(node: &Node<'_>, config: &Config, report: &mut FindingReport<'_>) -> Vec<Glob> {
    let elements = node.array(report);
    let globs = elements.iter().filter_map(|node| {
        let glob = Glob::new(node.string(report)?);
        let is_known = config
            .servers
            .iter()
            .any(|server| glob.matches(server.name.as_str()));
        if !is_known && !glob.as_str().contains('*') {
            unknown_server(glob.as_str(), node, config, report);
        }
        Some(glob)
    });
    globs.collect()
}

/// Warns of an unknown server. This is not an error: a server may be added later.
pub(super) fn unknown_server(
    name: &str,
    node: &Node<'_>,
    config: &Config,
    report: &mut FindingReport<'_>,
) {
    let names: Vec<&str> = config
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    let hint = nearest(name, &names).map(|similar| format!("did you mean \"{similar}\"?"));
    let message = format!("there is no server \"{name}\" in this file");
    report.warn_with_hint(&node.place, message, hint);
}

/// Reads patterns of `server/tool`. A pattern that can match nothing is an error, because people rely on a
/// denial.
fn tool_globs(node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<Glob> {
    let elements = node.array(report);
    let globs = elements.iter().filter_map(|node| {
        let pattern = node.string(report)?;
        if !pattern.contains(['/', '*']) {
            let hint = match pattern {
                "" => "`*` matches every tool".to_owned(),
                name => format!("\"{name}/*\" matches every tool of a server \"{name}\""),
            };
            let message = "a pattern of tools has the form \"server/tool\"";
            report.error_with_hint(&node.place, message, hint);
        }
        Some(Glob::new(pattern))
    });
    globs.collect()
}

/// Reads an object of texts by `server/tool`, and applies each to the edit of that tool in the profile.
fn edits(
    profile: &mut ProfileConfig,
    node: &Node<'_>,
    config: &Config,
    report: &mut FindingReport<'_>,
    mut apply: impl FnMut(&ServerName, &mut ToolEdit, &str, &Node<'_>, &mut FindingReport<'_>),
) {
    for member in node.distinct_members(report).into_iter().flatten() {
        let path = member.key.split_once('/');
        let path = path.and_then(|(server, tool)| Some((ServerName::new(server).ok()?, tool)));
        let Some((server, tool)) = path.filter(|(_, tool)| !tool.is_empty()) else {
            let message = "a tool is named \"server/tool\", as its server calls it";
            report.error(&member.key_place, message);
            continue;
        };
        if !config
            .servers
            .iter()
            .any(|known_server| known_server.name == server)
        {
            unknown_server(server.as_str(), &member.node, config, report);
        }
        if let Some(text) = member.node.string(report) {
            let edit = profile.edit_mut(&server, tool);
            apply(&server, edit, text, &member.node, report);
        }
    }
}

fn renames(
    profile: &mut ProfileConfig,
    node: &Node<'_>,
    config: &Config,
    report: &mut FindingReport<'_>,
) {
    let longest = config.max_name_length;
    let mut used_names = HashSet::new();
    let servers = ServerNames::new(config.servers.iter().map(|server| &server.name));
    edits(
        profile,
        node,
        config,
        report,
        |server, edit, name, node, report| {
            let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if name.is_empty() || name.len() > longest || !name.chars().all(is_legal) {
                let message = format!(
                    "a tool's name has 1 to {longest} characters (maxNameLength): letters, digits, '_' and '-'"
                );
                report.error(&node.place, message);
            } else if !used_names.insert(name.to_owned()) {
                let message = format!("another tool is renamed to \"{name}\" already");
                report.error(&node.place, message);
            } else if let NamedServer::Server(named) = servers.named_by(name)
                && named != server
            {
                let message = format!("\"{name}\" names a tool of server \"{named}\"");
                let hint =
                    "the tool is called as without `rename`; give it a name without that prefix";
                report.warn_with_hint(&node.place, message, Some(hint.to_owned()));
            }
            edit.name = Some(name.to_owned());
        },
    );
}

fn groups(node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<OwnToolGroup> {
    let words = OwnToolGroup::ALL.map(|group| (group.name(), group));
    let mut groups = Vec::new();
    for node in node.array(report) {
        let group = node.word(report, &words);
        groups.extend(group.filter(|group| !groups.contains(group)));
    }
    groups
}
