//! A configuration as Mainstay understands it, in the words of its file: other programs' spellings are
//! translated, policies stand where they hold, and secrets are placeholders.

use std::collections::HashMap;

use mainstay_core::{
    config::{
        Config, Expose, HttpTransport, InheritEnv, Launch, Naming, PathOrder, Profile,
        ServerConfig, defaults,
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

/// A note that Mainstay passes over, for what is wrong with an entry.
const PROBLEM: &str = "_problem";

/// Keys of an entry that are needed where references were kept, and that nothing else says.
const OF_REFERENCES: [&str; 2] = ["envFile", "inputParams"];

/// What becomes of settings that the file leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    LeftOut,
    Shown,
}

/// The configuration without its secrets, to be read by people. `config` was parsed from `document` with
/// [`crate::References::Kept`]. It can be read as a configuration again, placeholders aside.
pub fn shown(config: &Config, document: &Document, defaults: Defaults) -> Value {
    let written: HashMap<ServerName, Entry> = document.entries().into_iter().collect();
    let servers = config.servers.iter().map(|server| {
        let entry = entry(server, written.get(&server.name), defaults);
        (server.name.to_string(), Value::Object(entry))
    });
    let mut file = Map::new();
    file.insert("mcpServers".to_owned(), Value::Object(servers.collect()));
    let asked = document.value().ok();
    if let Some(inputs) = asked.as_ref().and_then(|whole| whole.get("inputs")) {
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

/// The members that differ from those of another object.
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

/// A server's entry. One that cannot be used is shown as it is written, with what is wrong.
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
    // It says where PATH is looked for, and nothing else does.
    if preset != Preset::Default {
        entry.insert("preset".to_owned(), preset.as_str().into());
    }
    entry.extend(options);
    entry
}

/// The preset that an entry must name; what others set is shown by itself.
fn preset(server: &ServerConfig) -> Preset {
    match &server.launch {
        Launch::Stdio(launch) if launch.path_order == PathOrder::StandardFirst => Preset::Desktop,
        _ => Preset::Default,
    }
}

/// A server of which the file says no more than how it is reached, and its preset.
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

/// How a server is reached. `None` if its entry cannot be used.
fn launch(launch: &Launch, defaults: Defaults) -> Option<Map<String, Value>> {
    let is_whole = defaults == Defaults::Shown;
    match launch {
        Launch::Stdio(launch) => {
            let set = launch.env.iter();
            let set = set.map(|(name, value)| (name.clone(), Value::from(value.expose())));
            let unset = launch.unset.iter();
            let unset = unset.map(|name| (name.clone(), Value::Null));
            let env: Map<String, Value> = set.chain(unset).collect();
            let inherits = match launch.inherit_env {
                InheritEnv::Process => is_whole.then_some("process"),
                InheritEnv::LoginShell => Some("loginShell"),
                InheritEnv::None => Some("none"),
            };
            let shown = |value: Value, is_empty: bool| {
                if is_empty && !is_whole {
                    Value::Null
                } else {
                    value
                }
            };
            Some(object([
                ("type", json!(is_whole.then_some("stdio"))),
                ("command", launch.command.as_str().into()),
                ("args", shown(json!(launch.args), launch.args.is_empty())),
                ("env", shown(json!(env), env.is_empty())),
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
            ]))
        }
        Launch::Broken(_) | Launch::Unapproved => None,
    }
}

/// An entry's switches, limits, times and policies.
fn options(server: &ServerConfig) -> Map<String, Value> {
    let mut options = settings::file_values(server, &SERVER);
    options.extend(settings::file_values(&Policies::of_server(server), &SERVER));
    options
}

fn profiles(config: &Config, defaults: Defaults) -> Map<String, Value> {
    let built_in = Profile::built_in();
    let shown = config.profiles.iter().filter_map(|it| {
        let known = built_in.iter().find(|known| known.name == it.name);
        let members = profile(it);
        if defaults == Defaults::Shown {
            return Some((it.name.to_string(), members.into()));
        }
        let base = match known {
            Some(known) => profile(known),
            None => profile(&Profile::everything(it.name.clone())),
        };
        let own_tools = members.get("ownTools").cloned();
        let mut members = without(members, &base);
        if known.is_some() && members.is_empty() {
            return None;
        }
        // Where nothing else is exposed, own tools that are left out are not none.
        if it.expose == Expose::Meta {
            members.extend(own_tools.map(|own_tools| ("ownTools".to_owned(), own_tools)));
        }
        Some((it.name.to_string(), members.into()))
    });
    shown.collect()
}

fn profile(profile: &Profile) -> Map<String, Value> {
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
    let own_tools = profile.own_tools.iter().map(|group| group.name());
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
        ("ownTools", own_tools.collect()),
    ])
}
