//! Servers and tools that are switched off for single clients. Everything is on by default.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};

use crate::{ids::ServerName, message, principal::Principal};

/// Returns the name under which a client's switches are stored: the name of its token, or the name
/// in its `clientInfo` (JSON text). A client without a token chooses its own name, so switches are
/// a convenience and not an access control.
pub fn client_name<'c>(principal: &'c Principal, client_info: Option<&'c str>) -> Cow<'c, str> {
    match principal {
        Principal::Client(name) => Cow::Borrowed(name.as_str()),
        Principal::Anonymous | Principal::Operator => client_info
            .and_then(|info| message::text_member(info, "name"))
            .unwrap_or_default(),
    }
}

/// The servers and tools that are off, by client name. A client with everything on has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientSwitches(BTreeMap<String, Off>);

/// The servers and tools that are off for one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Off {
    #[serde(default)]
    pub servers: BTreeSet<ServerName>,
    /// Original names of tools, by server.
    #[serde(default)]
    pub tools: BTreeMap<ServerName, BTreeSet<String>>,
}

/// Identifies one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pub server: ServerName,
    /// `None` is the switch of the whole server.
    pub tool: Option<String>,
}

impl Off {
    /// True if the whole server is off.
    pub fn has_server(&self, server: &ServerName) -> bool {
        self.servers.contains(server)
    }

    /// True if the tool or its whole server is off.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        let tools = self.tools.get(server);
        self.has_server(server) || tools.is_some_and(|tools| tools.contains(tool))
    }

    fn set(&mut self, switch: &Switch, on: bool) {
        let Switch { server, tool } = switch;
        match (tool, on) {
            (None, false) => drop(self.servers.insert(server.clone())),
            (None, true) => drop(self.servers.remove(server)),
            (Some(tool), false) => {
                let tools = self.tools.entry(server.clone()).or_default();
                tools.insert(tool.clone());
            }
            (Some(tool), true) => {
                let tools = self.tools.get_mut(server);
                if tools.is_some_and(|tools| tools.remove(tool) && tools.is_empty()) {
                    self.tools.remove(server);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.tools.is_empty()
    }
}

impl ClientSwitches {
    pub fn set(&mut self, client: &str, switch: &Switch, on: bool) {
        let client_switches = self.0.entry(client.to_owned()).or_default();
        client_switches.set(switch, on);
        if client_switches.is_empty() {
            self.0.remove(client);
        }
    }

    /// True if the switch is on. If a server is off, all of its tools are off.
    pub fn is(&self, client: &str, switch: &Switch) -> bool {
        let client_switches = self.0.get(client);
        !client_switches.is_some_and(|client_switches| match &switch.tool {
            Some(tool) => client_switches.has_tool(&switch.server, tool),
            None => client_switches.has_server(&switch.server),
        })
    }

    /// Switches everything on for one client.
    pub fn clear(&mut self, client: &str) {
        self.0.remove(client);
    }

    pub fn clear_all(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Off)> {
        self.0
            .iter()
            .map(|(client, client_switches)| (client.as_str(), client_switches))
    }

    /// The names of clients whose switches are different in `other`.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let names: BTreeSet<&str> = self
            .0
            .keys()
            .chain(other.0.keys())
            .map(String::as_str)
            .collect();
        let differs = |name: &&str| self.0.get(*name) != other.0.get(*name);
        names.into_iter().filter(differs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(server: &str, tool: Option<&str>) -> Switch {
        Switch {
            server: ServerName::new(server).expect("a legal name"),
            tool: tool.map(str::to_owned),
        }
    }

    /// Everything is on by default. Switches can be set, read and cleared, for one client or all.
    #[test]
    fn everything_is_on_except_switched_off_tools() {
        let (server, tool) = (switch("fs", None), switch("git", Some("push")));
        let mut switches = ClientSwitches::default();
        assert!(switches.is("one", &server) && switches.is("one", &tool));
        switches.set("one", &server, false);
        switches.set("one", &tool, false);
        assert!(!switches.is("one", &server) && !switches.is("one", &tool));
        assert!(
            !switches.is("one", &switch("fs", Some("read"))),
            "with its server"
        );
        assert!(switches.is("one", &switch("git", None)));
        assert!(switches.is("two", &server));
        switches.set("two", &tool, false);
        switches.set("one", &tool, true);
        assert!(switches.is("one", &tool) && !switches.is("two", &tool));
        switches.clear("one");
        assert!(switches.is("one", &server) && !switches.is("two", &tool));
        switches.clear_all();
        assert_eq!(switches, ClientSwitches::default());
    }

    #[test]
    fn a_switch_that_is_on_again_leaves_no_entry() {
        let mut switches = ClientSwitches::default();
        for switch in [switch("fs", None), switch("git", Some("push"))] {
            switches.set("one", &switch, false);
            switches.set("one", &switch, true);
            switches.set("one", &switch, true);
        }
        assert_eq!(switches, ClientSwitches::default());
    }

    #[test]
    fn switches_are_read_back() {
        let mut switches = ClientSwitches::default();
        switches.set("one", &switch("fs", None), false);
        switches.set("ü \" two", &switch("git", Some("a/b")), false);
        let text = serde_json::to_string(&switches).expect("JSON");
        assert_eq!(
            text,
            r#"{"one":{"servers":["fs"],"tools":{}},"ü \" two":{"servers":[],"tools":{"git":["a/b"]}}}"#
        );
        let parsed: ClientSwitches = serde_json::from_str(&text).expect("readable");
        assert_eq!(parsed, switches);
        let mut other_switches = switches.clone();
        other_switches.clear("one");
        assert_eq!(
            switches.differing(&other_switches).collect::<Vec<_>>(),
            ["one"]
        );
    }
}
