//! The one gate: what one client sees, and may therefore name. A view is what an endpoint has, less what is
//! switched off for the client, less what the access rules refuse to its principal (docs/dev/design.md,
//! "Names, profiles, access"). Whatever a client names, at every endpoint and over REST, is looked up here,
//! so that no spelling reaches anything else.

use std::sync::Arc;

use mainstay_core::{
    catalog::{ListKind, Owner, Target},
    era::Caller,
    event::{Event, EventKind},
    failure::Failure,
    ids::ServerName,
    names::Unresolved,
    principal::Principal,
    switches::{Off, client_name},
};

use crate::{
    Gateway,
    access_rules::AccessRules,
    registry::{Profile, ProfileSnapshot, unknown_server},
    supervisor::Server,
};

/// The access rules for one principal.
#[derive(Clone, Debug)]
struct Access {
    rules: Arc<dyn AccessRules>,
    principal: Principal,
}

/// One client's view, as of one request: what it shows while a request waits may change.
#[derive(Clone, Debug)]
pub struct View {
    pub profile: Arc<Profile>,
    /// The one server of a transparent endpoint. Its own settings withhold tools there; in a catalog these
    /// tools are missing already.
    only: Option<Arc<Server>>,
    off: Option<Arc<Off>>,
    /// `None` allows everything.
    access: Option<Access>,
}

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    Unresolved(Unresolved),
    /// It is this client's switch that hides it.
    SwitchedOff(Target),
}

impl Gateway {
    /// What a client sees of a profile, under the names of its catalog.
    pub fn view(&self, profile: &Arc<Profile>, principal: &Principal, caller: &Caller) -> View {
        let name = || client_name(principal, caller.client_info.as_deref());
        View {
            profile: Arc::clone(profile),
            only: None,
            off: self.switches.of(name),
            access: self.access(principal),
        }
    }

    /// What a client sees at the transparent endpoint of a server, under the server's own names. Switches
    /// are for profiles only.
    pub fn view_of_server(&self, server: &Arc<Server>, principal: &Principal) -> View {
        View {
            only: Some(Arc::clone(server)),
            ..self.view_of_all(principal)
        }
    }

    /// What REST shows: all servers. A person's own calls belong to no client, so no switch concerns them.
    pub fn view_of_all(&self, principal: &Principal) -> View {
        View {
            profile: Arc::clone(self.registry.everything()),
            only: None,
            off: None,
            access: self.access(principal),
        }
    }

    fn access(&self, principal: &Principal) -> Option<Access> {
        let rules = self.access_rules.as_ref()?;
        Some(Access {
            rules: Arc::clone(rules),
            principal: principal.clone(),
        })
    }

    /// Whether this principal may know of a server. A view decides what it may use of it.
    pub fn allows_server(&self, principal: &Principal, server: &ServerName) -> bool {
        let rules = self.access_rules.as_ref();
        rules.is_none_or(|rules| rules.allows_server(principal, server))
    }

    /// The server of this name. One that the view does not have is like one that is not there.
    pub fn server(&self, view: &View, name: &str) -> Result<Arc<Server>, Failure> {
        let server = self.registry.server(name)?;
        if view.has_server(&server.name) {
            Ok(server)
        } else {
            Err(unknown_server(name))
        }
    }

    /// The servers that a client sees, in configuration order.
    pub fn servers_of(&self, view: &View) -> Vec<Arc<Server>> {
        let mut servers = self.registry.servers_of(&view.profile);
        servers.retain(|server| view.has_server(&server.name));
        servers
    }
}

impl View {
    pub fn shown(&self) -> Arc<ProfileSnapshot> {
        self.profile.shown()
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.profile.has_server(server)
            && self.is_within(server)
            && !self.is_off(|off| off.has_server(server))
            && self.allows(|access| access.rules.allows_server(&access.principal, server))
    }

    fn is_within(&self, server: &ServerName) -> bool {
        self.only.as_ref().is_none_or(|only| only.name == *server)
    }

    fn is_off(&self, is_off: impl FnOnce(&Off) -> bool) -> bool {
        self.off.as_deref().is_some_and(is_off)
    }

    fn allows(&self, allows: impl FnOnce(&Access) -> bool) -> bool {
        self.access.as_ref().is_none_or(allows)
    }

    fn allows_item(&self, kind: ListKind, server: &ServerName, original: &str) -> bool {
        self.allows(|Access { rules, principal }| {
            rules.allows_server(principal, server)
                && rules.allows_item(principal, kind, server, original)
        })
    }

    /// Whether an item of this list is hidden from the client.
    pub fn hides(&self, kind: ListKind, target: &Target) -> bool {
        self.hides_item(kind, &target.server, &target.original)
    }

    /// Whether an item of one of its servers is hidden from the client, listed at present or not. `original`
    /// is what the server itself calls it.
    pub fn hides_item(&self, kind: ListKind, server: &ServerName, original: &str) -> bool {
        let is_off = self.is_off(|off| match kind {
            ListKind::Tools => off.has_tool(server, original),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => off.has_server(server),
        });
        let is_withheld = || {
            let only = self.only.as_ref().filter(|_| kind == ListKind::Tools);
            only.is_some_and(|server| server.config().withheld.has(original))
        };
        is_off || is_withheld() || !self.allows_item(kind, server, original)
    }

    /// Whether any item of this kind can be hidden at the endpoint of one server.
    pub fn may_hide(&self, kind: ListKind) -> bool {
        let only = self.only.as_ref().filter(|_| kind == ListKind::Tools);
        let withholds = |server: &Arc<Server>| !server.config().withheld.is_nothing();
        self.off.is_some() || self.access.is_some() || only.is_some_and(withholds)
    }

    /// Whether a server's tool is part of it, listed at present or not.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        let config = &self.shown().config;
        config.has_server(server)
            && config.has_tool(server, tool)
            && self.is_within(server)
            && !self.is_off(|off| off.has_tool(server, tool))
            && self.allows_item(ListKind::Tools, server, tool)
    }

    /// Whether no tool of any server can be hidden.
    pub fn has_all_tools(&self) -> bool {
        self.shown().config.tools.is_everything()
            && self.only.is_none()
            && self.off.is_none()
            && self.access.is_none()
    }

    pub fn tool(&self, name: &str) -> Result<Target, Unseen> {
        self.named(ListKind::Tools, self.shown().tool(name))
    }

    pub fn prompt(&self, name: &str) -> Result<Target, Unseen> {
        self.named(ListKind::Prompts, self.shown().prompt(name))
    }

    fn named(&self, kind: ListKind, found: Result<&Target, Unresolved>) -> Result<Target, Unseen> {
        let target = found.map_err(Unseen::Unresolved)?;
        if !self.allows_item(kind, &target.server, &target.original) {
            return Err(Unseen::Unresolved(Unresolved::Unknown));
        }
        if self.hides(kind, target) {
            return Err(Unseen::SwitchedOff(target.clone()));
        }
        Ok(target.clone())
    }

    /// The tool or prompt of this name, whether the profile lists tools or not.
    pub fn find(&self, kind: ListKind, name: &str) -> Result<Target, Unresolved> {
        let catalog = &self.shown().catalog;
        let target = match kind {
            ListKind::Prompts => catalog.prompt(name)?,
            _ => catalog.tool(name)?,
        };
        if self.hides(kind, target) {
            return Err(Unresolved::Unknown);
        }
        Ok(target.clone())
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
            Owner::Server(target) if !self.has_resource(&target.server, &target.original) => {
                Owner::Absent(None)
            }
            Owner::Absent(Some(server)) if !self.has_server(&server) => Owner::Absent(None),
            Owner::Shared(mut servers) => {
                servers.retain(|server| self.has_resource(server, uri));
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

    /// Whether a server may be asked for this resource, as it calls it.
    pub fn has_resource(&self, server: &ServerName, uri: &str) -> bool {
        self.has_server(server) && !self.hides_item(ListKind::Resources, server, uri)
    }

    /// The part of an event that is about servers that the client sees; `None` if there is none.
    pub fn visible_event(&self, event: &Event) -> Option<Event> {
        if let Some(server) = &event.server {
            return self.has_server(server).then(|| event.clone());
        }
        let mut event = event.clone();
        if let EventKind::ConfigReloaded {
            added,
            removed,
            changed,
        } = &mut event.kind
        {
            let lists = [added, removed, changed];
            let all: usize = lists.iter().map(|names| names.len()).sum();
            let mut left = 0;
            for names in lists {
                names.retain(|name| self.has_server(name));
                left += names.len();
            }
            // A reload that changed no server at all, but other settings, is shown as it is.
            if left == 0 && all > 0 {
                return None;
            }
        }
        Some(event)
    }

    /// The owner of what a completion is about: a template, which is named literally, or a resource.
    pub fn reference(&self, uri: &str) -> Owner {
        match self.shown().catalog.template(uri) {
            Some(target)
                if self.has_server(&target.server) && !self.hides(ListKind::Templates, target) =>
            {
                Owner::Server(target.clone())
            }
            // Not looked up as a URI: it would fit its own pattern.
            Some(_) => Owner::Absent(None),
            None => self.resource(uri),
        }
    }
}
