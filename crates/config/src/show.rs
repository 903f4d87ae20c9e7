//! Renders a configuration as Mainstay understands it, with the keys of Mainstay's own file: keys of other
//! programs are translated, each entry has its policies, and secrets are placeholders.

use std::collections::HashMap;

use mainstay_core::{
    config::{
        Config, Expose, HttpTransport, InheritEnv, Launch, Naming, PathOrder, ProfileConfig,
        ProxyChoice, ServerConfig, defaults,
    },
    ids::ServerName,
    lifecycle::Preset,
};
use serde_json::{Map, Value, json};

use crate::{
    edit::{Document, Entry},
    masking,
    read::policies::Policies,
    words::{
        FILE, SERVER, settings,
        values::{globs, headers, object},
    },
};

/// The key of a note with the problems of an entry. Mainstay ignores this key.
const PROBLEM: &str = "_problem";

/// Keys that the references of an entry need. They are copied from the written entry, because no
/// rendered setting contains them.
const OF_REFERENCES: [&str; 2] = ["envFile", "inputParams"];

/// The treatment of settings that the file does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    LeftOut,
    Shown,
}

/// Renders the configuration without its secrets, for people. `config` was parsed from `document` with
/// [`crate::References::Kept`]. The result can be parsed again, apart from its placeholders.
pub fn file_view(config: &Config, document: &Document, defaults: Defaults) -> Value {
    let written: HashMap<ServerName, Entry> = document.entries().into_iter().collect();
    let entries = config.servers.iter().map(|server| {
        let entry = entry(server, written.get(&server.name), defaults);
        (server.name.to_string(), Value::Object(entry))
    });
    let mut file = Map::new();
    file.insert("mcpServers".to_owned(), Value::Object(entries.collect()));
    let whole_value = document.value().ok();
    if let Some(inputs) = whole_value.as_ref().and_then(|whole| whole.get("inputs")) {
        file.insert("inputs".to_owned(), inputs.clone());
    }
    let settings = settings::file_values(config, &FILE);
    file.extend(match defaults {
        Defaults::Shown => settings,
        Defaults::LeftOut => without(settings, &settings::file_values(&Config::default(), &FILE)),
    });
    let profiles = profiles(config, defaults);
    if !profiles.is_empty() {
        file.insert("profiles".to_owned(), profiles.into());
    }
    masking::masked(&Value::Object(file), "")
}

/// Returns the members that differ from those of another object.
fn without(object: Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    let differing = object.into_iter().filter_map(|(key, value)| {
        let value = match (value, other.get(&key)) {
            (value, Some(other)) if value == *other => return None,
            (Value::Object(members), Some(Value::Object(other))) => without(members, other).into(),
            (value, _) => value,
        };
        Some((key, value))
    });
    differing.collect()
}

/// Renders a server's entry. An unusable entry is rendered as it is written, with its problems.
fn entry(server: &ServerConfig, written: Option<&Entry>, defaults: Defaults) -> Map<String, Value> {
    let Some(mut entry) = launch(&server.launch, defaults) else {
        let problems: Vec<String> = server.problems().map(ToString::to_string).collect();
        let mut entry = written.cloned().unwrap_or_default();
        entry.insert(PROBLEM.to_owned(), problems.join("; ").into());
        return entry;
    };
    let of_references = written.into_iter().flatten();
    let of_references = of_references.filter(|(key, _)| OF_REFERENCES.contains(&key.as_str()));
    entry.extend(of_references.map(|(key, value)| (key.clone(), value.clone())));
    let preset = preset(server);
    let options = options(server);
    let options = match defaults {
        Defaults::Shown => options,
        Defaults::LeftOut => without(options, &self::options(&base(server, preset))),
    };
    // Only a preset can set the order of `PATH`, so the entry must name it.
    if preset != Preset::Default {
        entry.insert("preset".to_owned(), preset.as_str().into());
    }
    entry.extend(options);
    entry
}

/// The preset that the entry must name. Settings of any other preset are written one by one.
fn preset(server: &ServerConfig) -> Preset {
    match &server.launch {
        Launch::Stdio(launch) if launch.path_order == PathOrder::StandardFirst => Preset::Desktop,
        _ => Preset::Default,
    }
}

/// A server with only its launch and the settings of its preset.
fn base(server: &ServerConfig, preset: Preset) -> ServerConfig {
    let mut base = ServerConfig::new(server.name.clone(), server.launch.clone());
    base.policy = preset.policy();
    if preset == Preset::Desktop {
        base.max_message_bytes = defaults::MAX_MESSAGE_BYTES_DESKTOP;
        base.withheld.strict_names = true;
    }
    base.max_call_timeout = defaults::max_call_timeout(server.call_timeout);
    base
}

/// Renders the launch of a server. Returns `None` if its entry cannot be used.
fn launch(launch: &Launch, defaults: Defaults) -> Option<Map<String, Value>> {
    let is_whole = defaults == Defaults::Shown;
    match launch {
        Launch::Stdio(launch) => {
            let set = launch.env.iter();
            let set = set.map(|(name, value)| (name.clone(), Value::from(value.expose())));
            let nulls = launch.unset.iter().map(|name| (name.clone(), Value::Null));
            let env: Map<String, Value> = set.chain(nulls).collect();
            let inherits = match launch.inherit_env {
                InheritEnv::Process => is_whole.then_some("process"),
                InheritEnv::LoginShell => Some("loginShell"),
                InheritEnv::None => Some("none"),
            };
            let unless_empty = |value: Value, is_empty: bool| {
                if is_empty && !is_whole {
                    Value::Null
                } else {
                    value
                }
            };
            Some(object([
                ("type", json!(is_whole.then_some("stdio"))),
                ("command", launch.command.as_str().into()),
                (
                    "args",
                    unless_empty(json!(launch.args), launch.args.is_empty()),
                ),
                ("env", unless_empty(json!(env), env.is_empty())),
                ("cwd", json!(launch.cwd)),
                ("inheritEnv", json!(inherits)),
            ]))
        }
        Launch::Http(launch) => {
            let kind = match launch.transport {
                HttpTransport::Detect => is_whole.then_some("remote"),
                HttpTransport::StreamableHttp => Some("http"),
                HttpTransport::Sse => Some("sse"),
            };
            Some(object([
                ("type", json!(kind)),
                ("url", launch.url.as_str().into()),
                ("headers", headers(&launch.headers)),
                ("proxy", proxy(&launch.network.proxy)),
                ("caFile", json!(launch.network.ca_file)),
                ("clientCert", json!(launch.network.client_cert)),
                ("clientKey", json!(launch.network.client_key)),
            ]))
        }
        Launch::Broken(_) | Launch::Unapproved => None,
    }
}

/// Renders the choice of a proxy. `null` is the default: the proxy of the environment.
fn proxy(choice: &ProxyChoice) -> Value {
    match choice {
        ProxyChoice::OfEnvironment => Value::Null,
        ProxyChoice::None => false.into(),
        ProxyChoice::Through(url) => url.expose().into(),
    }
}

/// Renders an entry's switches, limits, times and policies.
fn options(server: &ServerConfig) -> Map<String, Value> {
    let mut options = settings::file_values(server, &SERVER);
    options.extend(settings::file_values(&Policies::of_server(server), &SERVER));
    options
}

fn profiles(config: &Config, defaults: Defaults) -> Map<String, Value> {
    let built_in = ProfileConfig::built_in();
    let members = config.profiles.iter().filter_map(|profile| {
        let standard = built_in
            .iter()
            .find(|standard| standard.name == profile.name);
        let members = self::profile(profile);
        if defaults == Defaults::Shown {
            return Some((profile.name.to_string(), members.into()));
        }
        let base = match standard {
            Some(standard) => self::profile(standard),
            None => self::profile(&ProfileConfig::everything(profile.name.clone())),
        };
        let own_tools = members.get("ownTools").cloned();
        let mut members = without(members, &base);
        if standard.is_some() && members.is_empty() {
            return None;
        }
        // With `expose: meta`, a profile without `ownTools` still has own tools.
        if profile.expose == Expose::Meta {
            members.extend(own_tools.map(|own_tools| ("ownTools".to_owned(), own_tools)));
        }
        Some((profile.name.to_string(), members.into()))
    });
    members.collect()
}

fn profile(profile: &ProfileConfig) -> Map<String, Value> {
    let (mut rename, mut descriptions) = (Map::new(), Map::new());
    for (server, tool, edit) in profile.edits() {
        let path = format!("{server}/{tool}");
        if let Some(name) = &edit.name {
            rename.insert(path.clone(), name.as_str().into());
        }
        if let Some(description) = &edit.description {
            descriptions.insert(path, description.as_str().into());
        }
    }
    let expose = match profile.expose {
        Expose::Direct => "direct",
        Expose::Meta => "meta",
    };
    let groups = profile.own_tools.iter().map(|group| group.name());
    object([
        ("servers", globs(&profile.servers)),
        (
            "tools",
            json!({"allow": globs(&profile.tools.allow), "deny": globs(&profile.tools.deny)}),
        ),
        ("rename", rename.into()),
        ("descriptions", descriptions.into()),
        ("expose", expose.into()),
        ("naming", json!(profile.naming.map(Naming::word))),
        ("ownTools", groups.collect()),
    ])
}
