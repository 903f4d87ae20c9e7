//! Plans a reload by comparing two configurations. `reload --dry-run` shows the plan, and a reload
//! carries it out (invariant 11). The plan names keys. It contains no values, because values may be
//! secret.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use mainstay_core::{
    config::{Config, HttpLaunch, Launch, NetworkSettings, ServerConfig, SignIn, StdioLaunch},
    ids::ServerName,
};

pub use crate::words::schema::TakesEffect;
use crate::{
    read::policies::Policies,
    words::{FILE, SERVER, settings},
};

/// The changes from one configuration to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadPlan {
    /// All servers of both configurations: first those of the new one in its order, then the removed
    /// ones.
    pub servers: Vec<ServerChange>,
    /// True if the remaining servers have another order. The order decides which server gets a contested
    /// name or URI.
    pub reordered: bool,
    /// Changed settings outside of the servers' entries.
    pub settings: Vec<SettingChange>,
}

/// The change of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerChange {
    pub name: ServerName,
    pub action: ServerAction,
    /// The changed keys of its entry, if the server is in both configurations.
    pub keys: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerAction {
    /// New and started.
    Added,
    /// New and not started: disabled, or without `autoStart`.
    AddedIdle,
    /// Missing in the new configuration, so it is stopped.
    Removed,
    /// Now enabled, or now with `autoStart`, so it is started.
    Started,
    /// Now disabled, so it is stopped.
    Stopped,
    /// The launch has changed. A running server is restarted.
    Relaunched,
    /// The settings have changed. They take effect without a restart, or the server is disabled.
    Changed,
    Unchanged,
}

/// A changed setting outside of the servers' entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The path of the setting in the file, such as `http.maxSessions`.
    pub key: String,
    pub takes_effect: TakesEffect,
}

impl ReloadPlan {
    pub fn between(old: &Config, new: &Config) -> Self {
        let before: HashMap<_, _> = old.servers.iter().map(|s| (&s.name, s)).collect();
        let after: HashMap<_, _> = new.servers.iter().map(|s| (&s.name, s)).collect();
        let is_staying =
            |one: &&ServerConfig| before.contains_key(&one.name) && after.contains_key(&one.name);
        let order = |config: &'_ Config| -> Vec<ServerName> {
            let staying = config.servers.iter().filter(is_staying);
            staying.map(|server| server.name.clone()).collect()
        };
        let current = new
            .servers
            .iter()
            .map(|server| match before.get(&server.name) {
                Some(before) => ServerChange::between(before, server),
                None => ServerChange::added(server),
            });
        let gone = old.servers.iter().filter(|server| !is_staying(server));
        Self {
            servers: current.chain(gone.map(ServerChange::removed)).collect(),
            reordered: order(old) != order(new),
            settings: settings_between(old, new),
        }
    }

    /// True if the reload changes nothing.
    pub fn is_empty(&self) -> bool {
        let unchanged = |change: &ServerChange| change.action == ServerAction::Unchanged;
        self.servers.iter().all(unchanged) && !self.reordered && self.settings.is_empty()
    }

    /// The keys of the changed settings that take effect at this time.
    fn keys(&self, takes_effect: TakesEffect) -> Vec<&str> {
        self.settings
            .iter()
            .filter(|setting| setting.takes_effect == takes_effect)
            .map(|setting| setting.key.as_str())
            .collect()
    }
}

impl ServerChange {
    fn added(server: &ServerConfig) -> Self {
        let action = if server.connects_at_start() {
            ServerAction::Added
        } else {
            ServerAction::AddedIdle
        };
        Self {
            name: server.name.clone(),
            action,
            keys: Vec::new(),
        }
    }

    fn removed(server: &ServerConfig) -> Self {
        Self {
            name: server.name.clone(),
            action: ServerAction::Removed,
            keys: Vec::new(),
        }
    }

    fn between(old: &ServerConfig, new: &ServerConfig) -> Self {
        let keys = changed_keys(old, new);
        let action = match (old.connects_at_start(), new.connects_at_start()) {
            (false, true) => ServerAction::Started,
            // A running server keeps running if it only lost `autoStart`.
            (true, false) if !new.enabled => ServerAction::Stopped,
            _ if old.is_reached_otherwise(new) && new.enabled => ServerAction::Relaunched,
            _ if keys.is_empty() => ServerAction::Unchanged,
            _ => ServerAction::Changed,
        };
        Self {
            name: new.name.clone(),
            action,
            keys,
        }
    }
}

/// Returns the keys whose values differ.
fn differing_keys<const N: usize>(differ: [(&'static str, bool); N]) -> Vec<&'static str> {
    let differing = differ.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(key, _)| key).collect()
}

/// The keys in which two entries of one server differ.
fn changed_keys(old: &ServerConfig, new: &ServerConfig) -> Vec<&'static str> {
    let mut keys = launch_keys(&old.launch, &new.launch);
    if old.further_problems != new.further_problems {
        keys.push("problems");
    }
    let policies = [old, new].map(Policies::of_server);
    let differing = settings::differing(old, new, &SERVER)
        .into_iter()
        .chain(settings::differing(&policies[0], &policies[1], &SERVER));
    keys.extend(differing.map(|(path, _)| path[0]));
    if old.health_interval_stated != new.health_interval_stated {
        keys.push("health");
    }
    let mut distinct = HashSet::new();
    keys.retain(|key| distinct.insert(*key));
    keys
}

fn launch_keys(old: &Launch, new: &Launch) -> Vec<&'static str> {
    match (old, new) {
        (Launch::Stdio(old), Launch::Stdio(new)) => {
            let StdioLaunch {
                command,
                args,
                env,
                unset,
                cwd,
                inherit_env,
                path_order,
            } = new;
            differing_keys([
                ("command", old.command != *command),
                ("args", old.args != *args),
                ("env", old.env != *env || old.unset != *unset),
                ("cwd", old.cwd != *cwd),
                ("inheritEnv", old.inherit_env != *inherit_env),
                ("preset", old.path_order != *path_order),
            ])
        }
        (Launch::Http(old), Launch::Http(new)) => {
            let HttpLaunch {
                url,
                headers,
                transport,
                sign_in,
                network,
            } = new;
            let NetworkSettings {
                proxy,
                ca_file,
                client_cert,
                client_key,
            } = network;
            differing_keys([
                ("url", old.url != *url),
                ("headers", old.headers != *headers),
                ("transport", old.transport != *transport),
                (sign_in_key(&old.sign_in, sign_in), old.sign_in != *sign_in),
                ("proxy", old.network.proxy != *proxy),
                ("caFile", old.network.ca_file != *ca_file),
                ("clientCert", old.network.client_cert != *client_cert),
                ("clientKey", old.network.client_key != *client_key),
            ])
        }
        (Launch::Broken(old), Launch::Broken(new)) => differing_keys([("problems", old != new)]),
        (Launch::Broken(_), _) | (_, Launch::Broken(_)) => vec!["problems"],
        // No entry of a file is unapproved.
        (Launch::Unapproved, _) | (_, Launch::Unapproved) => Vec::new(),
        (Launch::Stdio(_), Launch::Http(_)) | (Launch::Http(_), Launch::Stdio(_)) => {
            vec!["transport"]
        }
    }
}

/// The key of the entry that defines the way of signing in.
fn sign_in_key(old: &SignIn, new: &SignIn) -> &'static str {
    match (old, new) {
        (SignIn::Helper(_), _) | (_, SignIn::Helper(_)) => "headersHelper",
        (SignIn::OAuth(_) | SignIn::HeadersOnly, SignIn::OAuth(_) | SignIn::HeadersOnly) => "oauth",
    }
}

/// The changed settings outside of the servers' entries.
fn settings_between(old: &Config, new: &Config) -> Vec<SettingChange> {
    let differing = settings::differing(old, new, &FILE);
    let mut changes: Vec<_> = differing
        .into_iter()
        .filter_map(|(path, row)| {
            Some(SettingChange {
                key: path.join("."),
                takes_effect: row.takes_effect?,
            })
        })
        .collect();
    changes.sort_by_key(|change| change.takes_effect == TakesEffect::Now);
    changes
}

/// One line for each changed server, then the number of unchanged servers and the changed settings.
impl fmt::Display for ReloadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing changes");
        }
        let (unchanged, changes): (Vec<_>, Vec<_>) = self
            .servers
            .iter()
            .partition(|change| change.action == ServerAction::Unchanged);
        let width = changes.iter().map(|change| change.name.as_str().len());
        let width = width.max().unwrap_or_default();
        let mut lines: Vec<String> = changes
            .iter()
            .map(|change| {
                let name = change.name.as_str();
                let line = format!("{} {name:width$}  {}", change.action.sign(), change.action);
                match change.keys.join(", ") {
                    keys if keys.is_empty() => line,
                    keys => format!("{line} ({keys})"),
                }
            })
            .collect();
        if !unchanged.is_empty() {
            lines.push(format!("= {} unchanged", unchanged.len()));
        }
        if self.reordered {
            lines.push("the order of the servers changes".to_owned());
        }
        for (words, when) in [
            ("settings that change", TakesEffect::Now),
            (
                "settings that need a restart of Mainstay",
                TakesEffect::AtRestart,
            ),
        ] {
            let keys = self.keys(when);
            if !keys.is_empty() {
                lines.push(format!("{words}: {}", keys.join(", ")));
            }
        }
        f.write_str(&lines.join("\n"))
    }
}

impl ServerAction {
    const fn sign(self) -> char {
        match self {
            Self::Added | Self::AddedIdle => '+',
            Self::Removed => '-',
            Self::Started | Self::Stopped | Self::Relaunched | Self::Changed => '~',
            Self::Unchanged => '=',
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Added => "is added and started",
            Self::AddedIdle => "is added, not started",
            Self::Removed => "is stopped and removed",
            Self::Started => "is started",
            Self::Stopped => "is stopped",
            Self::Relaunched => "is restarted if it runs",
            Self::Changed => "changes without a restart",
            Self::Unchanged => "is unchanged",
        }
    }
}

impl fmt::Display for ServerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
