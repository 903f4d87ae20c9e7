//! The servers and items that one client sees and may name. A view has the items of an endpoint,
//! except those that are switched off for the client and those that the access rules refuse
//! (docs/dev/design.md, "Names, profiles, access"). Every name from a client, at every endpoint and
//! over REST, is resolved here, so that no spelling circumvents the rules.

use std::sync::Arc;

use mainstay_core::{
    access::{ItemQuestion, PrincipalAccess, ToolEffect},
    catalog::{Catalog, ItemTarget, ListKind, Owner},
    era::Caller,
    event::{EventKind, ServerEvent},
    failure::Failure,
    ids::{ProfileName, ServerName},
    names::Unresolved,
    principal::Principal,
    switches::{Off, client_name},
};

use crate::{
    Gateway,
    registry::{ProfileSnapshot, PublishedProfile, unknown_server},
    supervisor::ServerHandle,
};

/// One client's view during one request. Its content may change while the request waits.
#[derive(Clone, Debug)]
pub struct View {
    pub profile: Arc<PublishedProfile>,
    /// The server of a transparent endpoint. The view then hides the tools that the server's entry
    /// withholds. The merged catalogs of other endpoints do not have these tools.
    only: Option<Arc<ServerHandle>>,
    off: Option<Arc<Off>>,
    /// `None` allows everything.
    access: Option<Arc<PrincipalAccess>>,
}

/// The reason why a name cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    Unresolved(Unresolved),
    /// The client's own switch hides the item.
    SwitchedOff(ItemTarget),
}

impl Gateway {
    /// A client's view of a profile, with exposed names.
    pub fn view(
        &self,
        profile: &Arc<PublishedProfile>,
        principal: &Principal,
        caller: &Caller,
    ) -> View {
        let name = || client_name(principal, caller.client_info.as_deref());
        View {
            profile: Arc::clone(profile),
            only: None,
            off: self.switches.off_for(name),
            access: self.access_at(principal, Some(&profile.name)),
        }
    }

    /// A client's view of the transparent endpoint of a server, with original names. Switches apply
    /// only to profiles.
    pub fn view_of_server(&self, server: &Arc<ServerHandle>, principal: &Principal) -> View {
        View {
            only: Some(Arc::clone(server)),
            ..self.view_of_all(principal)
        }
    }

    /// The view of REST: all servers. Switches are those of MCP clients, so none applies here.
    pub fn view_of_all(&self, principal: &Principal) -> View {
        View {
            profile: Arc::clone(self.registry.everything()),
            only: None,
            off: None,
            access: self.access_at(principal, None),
        }
    }

    fn access_at(
        &self,
        principal: &Principal,
        profile: Option<&ProfileName>,
    ) -> Option<Arc<PrincipalAccess>> {
        self.access.access_of(principal, profile).map(Arc::new)
    }

    /// The server of this name. A server outside of the view fails like an unknown server.
    pub fn server(&self, view: &View, name: &str) -> Result<Arc<ServerHandle>, Failure> {
        let server = self.registry.server(name)?;
        if view.has_server(&server.name) {
            Ok(server)
        } else {
            Err(unknown_server(name))
        }
    }

    /// The servers that a client sees, in configuration order.
    pub fn servers_of(&self, view: &View) -> Vec<Arc<ServerHandle>> {
        let mut servers = self.registry.servers_of(&view.profile);
        servers.retain(|server| view.has_server(&server.name));
        servers
    }
}

impl View {
    pub fn snapshot(&self) -> Arc<ProfileSnapshot> {
        self.profile.snapshot()
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.profile.has_server(server)
            && self.is_within(server)
            && !self.is_off(|off| off.has_server(server))
            && self.allows(|access| access.allows_server(server.as_str()))
    }

    fn is_within(&self, server: &ServerName) -> bool {
        self.only.as_ref().is_none_or(|only| only.name == *server)
    }

    fn is_off(&self, is_off: impl FnOnce(&Off) -> bool) -> bool {
        self.off.as_deref().is_some_and(is_off)
    }

    fn allows(&self, allows: impl FnOnce(&PrincipalAccess) -> bool) -> bool {
        self.access.as_deref().is_none_or(allows)
    }

    fn allows_item(
        &self,
        kind: ListKind,
        server: &ServerName,
        original: &str,
        effect: ToolEffect,
    ) -> bool {
        self.allows(|access| {
            access.allows_item(&ItemQuestion {
                kind,
                server: server.as_str(),
                original,
                effect,
            })
        })
    }

    /// True if access rules or the limits of a token restrict the client.
    pub fn is_restricted(&self) -> bool {
        self.access.is_some()
    }

    /// The effect of a tool or prompt in the list of its server. `None` if the server does not list
    /// it.
    fn listed_effect(
        &self,
        kind: ListKind,
        server: &ServerName,
        original: &str,
    ) -> Option<ToolEffect> {
        let catalog = match &self.only {
            Some(only) => only.catalog(),
            None => {
                let snapshot = self.snapshot();
                let mut parts = snapshot.catalog.parts().iter();
                let part = parts.find(|part| part.server == *server);
                part.map(|part| Arc::clone(&part.catalog))
            }
        };
        let item = catalog.as_deref()?.item(kind, original)?;
        Some(item.effect)
    }

    /// True if an item of this list is hidden from the client.
    pub fn hides(&self, kind: ListKind, target: &ItemTarget) -> bool {
        self.hides_listed(kind, &target.server, &target.original, target.effect)
    }

    /// True if an item of one of the view's servers is hidden from the client, whether or not the
    /// server lists it now. `original` is its original name or URI.
    pub fn hides_item(&self, kind: ListKind, server: &ServerName, original: &str) -> bool {
        let is_named_by_list = matches!(kind, ListKind::Tools | ListKind::Prompts);
        let effect = if self.is_restricted() && is_named_by_list {
            match self.listed_effect(kind, server, original) {
                Some(effect) => effect,
                // A server may take another spelling for an item that a rule refuses.
                None => return true,
            }
        } else {
            ToolEffect::default()
        };
        self.hides_listed(kind, server, original, effect)
    }

    /// Like [`View::hides_item`], for a tool whose effect is known.
    pub fn hides_listed(
        &self,
        kind: ListKind,
        server: &ServerName,
        original: &str,
        effect: ToolEffect,
    ) -> bool {
        let is_off = self.is_off(|off| match kind {
            ListKind::Tools => off.has_tool(server, original),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => off.has_server(server),
        });
        let is_withheld = || {
            let only = self.only.as_ref().filter(|_| kind == ListKind::Tools);
            only.is_some_and(|server| server.config().withheld.has(original))
        };
        is_off || is_withheld() || !self.allows_item(kind, server, original, effect)
    }

    /// True if some items of this kind may be hidden at a transparent endpoint.
    pub fn may_hide(&self, kind: ListKind) -> bool {
        let only = self.only.as_ref().filter(|_| kind == ListKind::Tools);
        let withholds = |server: &Arc<ServerHandle>| !server.config().withheld.is_nothing();
        self.off.is_some() || self.access.is_some() || only.is_some_and(withholds)
    }

    /// True if a server's tool is part of the view, whether or not the server lists it now.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        let config = &self.snapshot().config;
        config.has_server(server)
            && config.has_tool(server, tool)
            && self.is_within(server)
            && !self.is_off(|off| off.has_tool(server, tool))
            && {
                let effect = if self.is_restricted() {
                    self.listed_effect(ListKind::Tools, server, tool)
                } else {
                    None
                };
                self.allows_item(ListKind::Tools, server, tool, effect.unwrap_or_default())
            }
    }

    /// True if the view can hide no tool of any server.
    pub fn has_all_tools(&self) -> bool {
        self.snapshot().config.tools.is_everything()
            && self.only.is_none()
            && self.off.is_none()
            && self.access.is_none()
    }

    pub fn tool(&self, name: &str) -> Result<ItemTarget, Unseen> {
        let snapshot = self.snapshot();
        self.named(ListKind::Tools, &snapshot.catalog, snapshot.tool(name))
    }

    pub fn prompt(&self, name: &str) -> Result<ItemTarget, Unseen> {
        let snapshot = self.snapshot();
        self.named(ListKind::Prompts, &snapshot.catalog, snapshot.prompt(name))
    }

    fn named(
        &self,
        kind: ListKind,
        catalog: &Catalog,
        found: Result<&ItemTarget, Unresolved>,
    ) -> Result<ItemTarget, Unseen> {
        let found = self.among_allowed(kind, catalog, found);
        let target = found.map_err(Unseen::Unresolved)?;
        if !self.allows_item(kind, &target.server, &target.original, target.effect) {
            return Err(Unseen::Unresolved(Unresolved::Unknown));
        }
        if self.hides(kind, target) {
            return Err(Unseen::SwitchedOff(target.clone()));
        }
        Ok(target.clone())
    }

    /// Leaves out the candidates of an ambiguous name that the access rules refuse: they do not exist
    /// for the client. A name with one candidate left is not ambiguous.
    fn among_allowed<'c>(
        &self,
        kind: ListKind,
        catalog: &'c Catalog,
        found: Result<&'c ItemTarget, Unresolved>,
    ) -> Result<&'c ItemTarget, Unresolved> {
        let mut candidates = match found {
            Err(Unresolved::Ambiguous(candidates)) if self.access.is_some() => candidates,
            found => return found,
        };
        let target = |name: &str| match kind {
            ListKind::Prompts => catalog.prompt(name),
            ListKind::Tools | ListKind::Resources | ListKind::Templates => catalog.tool(name),
        };
        candidates.retain(|name| match target(name) {
            Ok(target) => self.allows_item(kind, &target.server, &target.original, target.effect),
            // Its server does not list the item any more.
            Err(_) => catalog
                .named_by(name)
                .is_some_and(|server| self.allows(|access| access.allows_server(server.as_str()))),
        });
        match &candidates[..] {
            [] => Err(Unresolved::Unknown),
            [name] => target(name),
            _ => Err(Unresolved::Ambiguous(candidates)),
        }
    }

    /// The tool or prompt of this name, even if the profile does not list tools (`expose: "meta"`).
    pub fn find(&self, kind: ListKind, name: &str) -> Result<ItemTarget, Unresolved> {
        let catalog = &self.snapshot().catalog;
        let found = match kind {
            ListKind::Prompts => catalog.prompt(name),
            ListKind::Tools | ListKind::Resources | ListKind::Templates => catalog.tool(name),
        };
        let target = self.among_allowed(kind, catalog, found)?;
        if self.hides(kind, target) {
            return Err(Unresolved::Unknown);
        }
        Ok(target.clone())
    }

    /// The server that an exposed name of a tool or prompt contains, if the client may see it. The
    /// server may have been removed.
    pub fn named_by(&self, name: &str) -> Option<ServerName> {
        let snapshot = self.snapshot();
        let named = snapshot.catalog.named_by(name);
        named.filter(|server| self.has_server(server)).cloned()
    }

    /// The owner of this URI according to the lists. A resource that is hidden from the client has no
    /// owner.
    pub fn resource(&self, uri: &str) -> Owner {
        match self.snapshot().catalog.resource(uri) {
            Owner::Server(target) if !self.has_resource(&target.server, &target.original) => {
                Owner::Absent(None)
            }
            Owner::Absent(Some(server)) if !self.has_server(&server) => Owner::Absent(None),
            Owner::Shared(mut servers) => {
                servers.retain(|server| self.has_resource(server, uri));
                match &servers[..] {
                    [] => Owner::Absent(None),
                    [server] => Owner::Server(ItemTarget::new(server.clone(), uri)),
                    _ => Owner::Shared(servers),
                }
            }
            owner => owner,
        }
    }

    /// True if the client may read this resource from this server. `uri` is the original URI.
    pub fn has_resource(&self, server: &ServerName, uri: &str) -> bool {
        self.has_server(server) && !self.hides_item(ListKind::Resources, server, uri)
    }

    /// Returns the event without the servers that are hidden from the client. `None` if all servers
    /// of the event are hidden.
    pub fn visible_event(&self, event: &ServerEvent) -> Option<ServerEvent> {
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
            // A reload that changed no servers is shown to every client.
            if left == 0 && all > 0 {
                return None;
            }
        }
        Some(event)
    }

    /// The owner of the reference of a completion: a template, whose URI must match literally, or a
    /// resource.
    pub fn reference(&self, uri: &str) -> Owner {
        match self.snapshot().catalog.template(uri) {
            Some(target)
                if self.has_server(&target.server) && !self.hides(ListKind::Templates, target) =>
            {
                Owner::Server(target.clone())
            }
            // Do not look the hidden template up as a URI: it matches its own pattern.
            Some(_) => Owner::Absent(None),
            None => self.resource(uri),
        }
    }
}
