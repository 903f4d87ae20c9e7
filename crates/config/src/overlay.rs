//! Changes to servers at run time, on top of the file.
//!
//! A change holds until Mainstay ends, or until the file changes that server.

use std::{fmt::Write as _, sync::Arc, time::SystemTime};

use mainstay_core::{
    config::{Launch, ServerConfig},
    ids::ServerName,
    record::CallOrigin,
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::ServerTarget;

/// A server whose entry was added or replaced at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// The configuration. Its references are not replaced while the server is pending.
    pub config: ServerConfig,
    /// The original entry, with unexpanded references and with its secrets.
    pub entry: Arc<Map<String, Value>>,
    pub approval: Approval,
    /// The target of traffic under the server's name.
    pub target: ServerTarget,
    /// The earlier target of the name, if it differs and the server is pending.
    pub formerly: Option<ServerTarget>,
    /// The request of an MCP client that caused the change. `None` without such a request.
    pub requested: Option<Requested>,
}

/// A request of an MCP client for a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Requested {
    pub origin: Arc<CallOrigin>,
    pub at: SystemTime,
}

/// The decision of a person about a server that an MCP client requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Given,
    Pending,
}

/// The origin of a server's entry.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerStanding {
    /// From the file, or from the command line.
    Configured,
    /// Added or replaced at run time, and lost at a restart.
    Ephemeral(Arc<Runtime>),
    /// Like `Ephemeral`, but never started before a person approves it.
    Pending(Arc<Runtime>),
}

/// A change to one server at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeChange {
    /// The entry was added or replaced.
    Entry(Arc<Runtime>),
    Removed,
    Switched {
        enabled: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct RecordedChange {
    name: ServerName,
    change: RuntimeChange,
    /// The server in the file at the time of the change.
    file: Option<ServerConfig>,
}

/// All changes in force, at most one for each server, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Overlay(Vec<RecordedChange>);

impl Overlay {
    pub fn change(&self, name: &ServerName) -> Option<&RuntimeChange> {
        let recorded = self.0.iter().find(|recorded| recorded.name == *name);
        recorded.map(|recorded| &recorded.change)
    }

    /// Records a change, which replaces an earlier change of the same server. `file` has the servers of the
    /// file.
    pub fn record(&mut self, name: &ServerName, change: RuntimeChange, file: &[ServerConfig]) {
        let recorded = RecordedChange {
            name: name.clone(),
            change,
            file: file.iter().find(|server| server.name == *name).cloned(),
        };
        match self.0.iter_mut().find(|earlier| earlier.name == *name) {
            Some(earlier) => *earlier = recorded,
            None => self.0.push(recorded),
        }
    }

    /// Removes the change of a server.
    pub fn forget(&mut self, name: &ServerName) {
        self.0.retain(|recorded| recorded.name != *name);
    }

    /// Returns all servers: first those of the file in its order, then those that only exist at run time.
    /// Removes changes that a later edit of the file supersedes.
    pub fn apply_to(&mut self, file: &[ServerConfig]) -> Vec<(ServerConfig, ServerStanding)> {
        let named = |name: &ServerName| file.iter().find(|server| server.name == *name);
        self.0
            .retain(|recorded| recorded.holds(named(&recorded.name)));
        let written = file
            .iter()
            .filter_map(|server| match self.change(&server.name) {
                None => Some((server.clone(), ServerStanding::Configured)),
                Some(RuntimeChange::Removed) => None,
                Some(RuntimeChange::Entry(runtime)) => Some(runtime.with_standing()),
                Some(RuntimeChange::Switched { enabled }) => {
                    let mut switched = server.clone();
                    switched.enabled = *enabled;
                    Some((switched, ServerStanding::Configured))
                }
            });
        let added = self.0.iter().filter_map(|recorded| match &recorded.change {
            RuntimeChange::Entry(runtime) if recorded.file.is_none() => {
                Some(runtime.with_standing())
            }
            _ => None,
        });
        written.chain(added).collect()
    }
}

impl RecordedChange {
    /// True while no edit of the file supersedes the change. `file` is the server in the file now.
    fn holds(&self, file: Option<&ServerConfig>) -> bool {
        match (&self.change, &self.file, file) {
            (RuntimeChange::Entry(_) | RuntimeChange::Removed, before, now) => {
                before.as_ref() == now
            }
            // Edits of other keys do not end a switch.
            (RuntimeChange::Switched { .. }, Some(before), Some(now)) => {
                before.enabled == now.enabled
            }
            (RuntimeChange::Switched { .. }, _, _) => false,
        }
    }
}

impl Runtime {
    fn with_standing(self: &Arc<Self>) -> (ServerConfig, ServerStanding) {
        match self.approval {
            Approval::Given => (
                self.config.clone(),
                ServerStanding::Ephemeral(Arc::clone(self)),
            ),
            Approval::Pending => (self.stand_in(), ServerStanding::Pending(Arc::clone(self))),
        }
    }

    /// A placeholder for the server while it is pending, so that nothing can start it.
    fn stand_in(&self) -> ServerConfig {
        let mut server = ServerConfig::new(self.config.name.clone(), Launch::Unapproved);
        server.enabled = false;
        server
    }

    /// Returns this entry with the server enabled or disabled.
    #[must_use]
    pub fn switched(&self, enabled: bool) -> Self {
        let mut runtime = self.clone();
        runtime.config.enabled = enabled;
        let entry = Arc::make_mut(&mut runtime.entry);
        entry.shift_remove("disabled");
        entry.insert("enabled".to_owned(), enabled.into());
        runtime
    }

    /// The SHA-256 of the whole entry, in hexadecimal. An approval repeats the digest, so that only the
    /// entry that the person has read is approved.
    pub fn digest(&self) -> String {
        digest_of_entry(&self.config.name, &self.entry)
    }
}

/// The SHA-256 of a server's name and entry, secrets included, in hexadecimal.
pub fn digest_of_entry(name: &ServerName, entry: &Map<String, Value>) -> String {
    // The keys are texts, so writing JSON cannot fail. A name has no line break, so the line break
    // separates it from the entry.
    let text = serde_json::to_string(entry).unwrap_or_default();
    let digest = Sha256::digest(format!("{name}\n{text}"));
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::config::StdioLaunch;

    fn name(text: &str) -> ServerName {
        ServerName::new(text).expect("a legal name")
    }

    fn server(text: &str, command: &str) -> ServerConfig {
        let launch = StdioLaunch {
            command: command.to_owned(),
            ..StdioLaunch::default()
        };
        ServerConfig::new(name(text), Launch::Stdio(launch))
    }

    fn entry(text: &str, command: &str, approval: Approval) -> RuntimeChange {
        RuntimeChange::Entry(Arc::new(Runtime {
            config: server(text, command),
            entry: Arc::default(),
            approval,
            target: ServerTarget::default(),
            formerly: None,
            requested: None,
        }))
    }

    /// Returns `name=command` for each server that could be started, `name!` for the others.
    fn startable(overlay: &mut Overlay, file: &[ServerConfig]) -> String {
        let servers = overlay.apply_to(file);
        let words = servers.iter().map(|(server, _)| match &server.launch {
            Launch::Stdio(launch) if server.enabled => {
                format!("{}={}", server.name, launch.command)
            }
            _ => format!("{}!", server.name),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// A server that is added at run time outlives a reload of the file.
    #[test]
    fn a_word_holds_until_the_file_says_something_else() {
        let file = [server("a", "1"), server("b", "1")];
        let mut overlay = Overlay::default();
        overlay.record(&name("c"), entry("c", "x", Approval::Given), &file);
        overlay.record(&name("a"), RuntimeChange::Removed, &file);
        overlay.record(&name("b"), entry("b", "x", Approval::Given), &file);
        assert_eq!(startable(&mut overlay, &file), "b=x c=x");
        let other = [server("b", "1"), server("a", "1"), server("d", "1")];
        assert_eq!(
            startable(&mut overlay, &other),
            "b=x d=1 c=x",
            "another order"
        );
        let edited = [server("a", "2"), server("b", "2"), server("c", "2")];
        assert_eq!(startable(&mut overlay, &edited), "a=2 b=2 c=2");
        assert_eq!(
            startable(&mut overlay, &file),
            "a=1 b=1",
            "nothing is left of it"
        );
    }

    #[test]
    fn a_switch_outlives_other_changes_of_the_entry() {
        let file = [server("a", "1")];
        let mut overlay = Overlay::default();
        overlay.record(
            &name("a"),
            RuntimeChange::Switched { enabled: false },
            &file,
        );
        assert_eq!(startable(&mut overlay, &file), "a!");
        assert_eq!(startable(&mut overlay, &[server("a", "2")]), "a!");
        let mut disabled = server("a", "2");
        disabled.enabled = false;
        assert_eq!(startable(&mut overlay, &[disabled]), "a!");
        assert_eq!(startable(&mut overlay, &[server("a", "2")]), "a=2");
    }

    /// A pending server cannot be launched.
    #[test]
    fn what_is_pending_could_not_be_started() {
        let mut overlay = Overlay::default();
        overlay.record(&name("p"), entry("p", "x", Approval::Pending), &[]);
        let (server, standing) = overlay.apply_to(&[]).remove(0);
        assert!(!server.connects_at_start());
        assert_eq!(server.launch, Launch::Unapproved);
        let ServerStanding::Pending(runtime) = standing else {
            panic!("{standing:?}")
        };
        let approved = Runtime {
            approval: Approval::Given,
            ..Runtime::clone(&runtime)
        };
        overlay.record(&name("p"), RuntimeChange::Entry(Arc::new(approved)), &[]);
        assert_eq!(startable(&mut overlay, &[]), "p=x");
    }
}
