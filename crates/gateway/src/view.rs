//! What one client sees of a profile, and may therefore name: what the profile has, less what is
//! switched off for that client (docs/dev/design.md, "Names, profiles, access"). Whatever a client
//! names on the aggregate is looked up here, so that no spelling reaches anything else.

use std::sync::Arc;

use crate::registry::{Profile, ProfileSnapshot};
use mainstay_core::{
    catalog::{ListKind, Owner, Target},
    ids::ServerName,
    names::Unresolved,
    switches::Off,
};

/// One client's view, as of one request: what it shows while a request waits may change.
#[derive(Clone, Debug)]
pub struct View {
    pub profile: Arc<Profile>,
    off: Option<Arc<Off>>,
}

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    Unresolved(Unresolved),
    /// It is this client's switch that hides it.
    SwitchedOff(Target),
}

impl View {
    pub fn new(profile: Arc<Profile>, off: Option<Arc<Off>>) -> Self {
        Self { profile, off }
    }

    pub fn shown(&self) -> Arc<ProfileSnapshot> {
        self.profile.shown()
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.profile.has_server(server) && !self.is_off(|off| off.has_server(server))
    }

    fn is_off(&self, is_off: impl FnOnce(&Off) -> bool) -> bool {
        self.off.as_deref().is_some_and(is_off)
    }

    /// Whether an item of this list is switched off.
    pub fn hides(&self, kind: ListKind, target: &Target) -> bool {
        self.is_off(|off| match kind {
            ListKind::Tools => off.has_tool(&target.server, &target.original),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => {
                off.has_server(&target.server)
            }
        })
    }

    /// Whether a server's tool is part of it, listed at present or not.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        let config = &self.shown().config;
        config.has_server(server)
            && config.has_tool(server, tool)
            && !self.is_off(|off| off.has_tool(server, tool))
    }

    /// Whether no tool of its servers can be hidden.
    pub fn has_all_tools(&self) -> bool {
        self.shown().config.tools.is_everything() && self.off.is_none()
    }

    pub fn tool(&self, name: &str) -> Result<Target, Unseen> {
        self.named(ListKind::Tools, self.shown().tool(name))
    }

    pub fn prompt(&self, name: &str) -> Result<Target, Unseen> {
        self.named(ListKind::Prompts, self.shown().prompt(name))
    }

    fn named(&self, kind: ListKind, found: Result<&Target, Unresolved>) -> Result<Target, Unseen> {
        let target = found.map_err(Unseen::Unresolved)?.clone();
        if self.hides(kind, &target) {
            return Err(Unseen::SwitchedOff(target));
        }
        Ok(target)
    }

    /// The server that a tool's or prompt's name names, if the client may know of it. It may be one that is
    /// not there any more.
    pub fn named_by(&self, name: &str) -> Option<ServerName> {
        let shown = self.shown();
        let named = shown.catalog.named_by(name);
        named.filter(|server| self.has_server(server)).cloned()
    }

    /// The owner of this URI, as far as the lists tell. What is hidden from the client has no owner.
    pub fn resource(&self, uri: &str) -> Owner {
        match self.shown().catalog.resource(uri) {
            Owner::Server(Target { server, .. }) | Owner::Absent(Some(server))
                if !self.has_server(&server) =>
            {
                Owner::Absent(None)
            }
            Owner::Shared(mut servers) => {
                servers.retain(|server| self.has_server(server));
                match &servers[..] {
                    [] => Owner::Absent(None),
                    [server] => Owner::Server(Target {
                        server: server.clone(),
                        original: uri.into(),
                    }),
                    _ => Owner::Shared(servers),
                }
            }
            owner => owner,
        }
    }

    /// Whose template this is.
    pub fn template(&self, template: &str) -> Option<Target> {
        let shown = self.shown();
        let found = shown.catalog.template(template).cloned();
        found.filter(|target| self.has_server(&target.server))
    }
}
