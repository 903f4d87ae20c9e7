//! The error for an endpoint that the daemon does not have. A hint suggests a similar name.

use mainstay_command_line::{
    connect::{self, LocatedDaemon},
    suggest,
};
use mainstay_core::config::Config;
use mainstay_platform::environment::ConfigurationSource;

use super::daemon::Finder;

/// An endpoint that the daemon does not have, with a hint for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} not found; {hint}")]
pub struct Absent {
    /// The machine-readable error code, such as `server_not_found`.
    pub kind: &'static str,
    pub subject: String,
    pub hint: String,
}

impl Absent {
    /// Describes the missing endpoint of `finder`. The hint has the most similar name if the
    /// daemon's servers or the configuration's profiles can be read.
    pub async fn at(finder: &Finder) -> Self {
        let path = &finder.path;
        let server = path.strip_prefix("/servers/");
        if let Some(name) = server.and_then(|rest| rest.strip_suffix("/mcp")) {
            let servers = match connect::running(finder.url.clone()) {
                Ok(client) => client.servers().await.ok(),
                Err(_) => None,
            };
            let servers = servers.map(|list| list.servers).unwrap_or_default();
            let names = servers.iter().map(|server| server.name.as_str());
            return Self {
                kind: "server_not_found",
                subject: format!("server {name}"),
                hint: hint(
                    suggest::nearest(name, names),
                    "`mainstay list` shows the servers",
                ),
            };
        }
        if let Some(name) = path.strip_prefix("/mcp/") {
            let config = connect::locate(finder.url.clone()).ok().and_then(config_of);
            let profiles = config.map(|config| config.profiles).unwrap_or_default();
            let names = profiles.iter().map(|profile| profile.name.as_str());
            return Self {
                kind: "profile_not_found",
                subject: format!("profile {name}"),
                hint: hint(
                    suggest::nearest(name, names),
                    "the configuration's `profiles` names them",
                ),
            };
        }
        Self {
            kind: "not_found",
            subject: format!("the endpoint {path}"),
            hint: "check --url and MAINSTAY_URL; another program may listen there".to_owned(),
        }
    }
}

fn hint(name: Option<&str>, next_step: &str) -> String {
    let question = name.map_or_else(String::new, |name| format!("did you mean {name}? "));
    format!("{question}{next_step}")
}

/// The daemon's configuration; `None` if its file is on another machine or cannot be loaded.
fn config_of(located_daemon: LocatedDaemon) -> Option<Config> {
    let origin = ConfigurationSource {
        flag: Some(located_daemon.file?.config?.into()),
        ..ConfigurationSource::default()
    };
    Some(origin.load().ok()?.config)
}
