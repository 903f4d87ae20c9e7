//! Claims: the names and URIs of a server, including those that it no longer offers. A claimed name
//! never leads to another server.

use std::collections::{HashMap, HashSet};

use super::{ListKind, Part};
use crate::{
    ids::ServerName,
    names::{NamedServer, ServerNames},
};

/// Maximum number of former servers to remember. The latest ones stay. Mainstay is designed for a
/// thousand servers.
pub const MAX_FORMER: usize = 1000;

/// Maximum size of the dropped names or URIs of one list, in bytes. The latest ones stay. All names
/// of a stopped server fit (more than 20,000). The limit matters for a server that keeps changing
/// its list.
const MAX_GONE_BYTES: usize = 2 << 20;

/// Memory that a name needs besides its bytes.
const ENTRY_BYTES: usize = 32;

/// All present and former servers, and the names and URIs that present servers no longer offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// All configured servers, in configuration order, in any state.
    configured: Vec<ServerName>,
    /// Former servers, oldest first.
    former: Vec<ServerName>,
    names: ServerNames,
    dropped_keys: HashMap<ServerName, Gone>,
}

/// The keys that a server offered earlier in this run, for each kind of list, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gone([Vec<Box<str>>; ListKind::ALL.len()]);

impl Claims {
    /// The claims at the start of a run. `former` are the servers of earlier runs.
    pub fn new(former: Vec<ServerName>, configured: Vec<ServerName>) -> Self {
        let claims = Self {
            former,
            ..Self::default()
        };
        claims.reconfigured(configured)
    }

    /// Returns the claims after a change of the configured servers, and of the offered items from
    /// `before` to `now`. `None` if nothing changes.
    pub fn updated(
        &self,
        configured: Vec<ServerName>,
        before: &[Part],
        now: &[Part],
    ) -> Option<Self> {
        let mut updated = None;
        if self.configured != configured {
            updated = Some(self.reconfigured(configured));
        }
        let before: HashMap<&ServerName, &Part> = before.iter().map(server_and_part).collect();
        let now: HashMap<&ServerName, &Part> = now.iter().map(server_and_part).collect();
        let parts = before.values().chain(now.values());
        let servers: HashSet<&ServerName> = parts.map(|part| &part.server).collect();
        for server in servers {
            let (before, now) = (before.get(server).copied(), now.get(server).copied());
            if before == now {
                continue;
            }
            let previous_keys = updated.as_ref().unwrap_or(self).dropped_keys.get(server);
            let mut dropped_keys = previous_keys.cloned().unwrap_or_default();
            dropped_keys.update_keys(before, now);
            if Some(&dropped_keys) != previous_keys
                && !(previous_keys.is_none() && dropped_keys == Gone::default())
            {
                let updated = updated.get_or_insert_with(|| self.clone());
                updated.dropped_keys.insert(server.clone(), dropped_keys);
            }
        }
        updated
    }

    fn reconfigured(&self, configured: Vec<ServerName>) -> Self {
        let configured_names: HashSet<&ServerName> = configured.iter().collect();
        let servers = self.former.iter().chain(&self.configured);
        let mut former: Vec<ServerName> = servers.cloned().collect();
        former.retain(|server| !configured_names.contains(server));
        former.drain(..former.len().saturating_sub(MAX_FORMER));
        let names = ServerNames::new(configured.iter().chain(&former));
        let mut dropped_keys = self.dropped_keys.clone();
        let remembered_names: HashSet<&ServerName> = configured.iter().chain(&former).collect();
        dropped_keys.retain(|server, _| remembered_names.contains(server));
        Self {
            configured,
            former,
            names,
            dropped_keys,
        }
    }

    /// All servers, configured and former, that a name can contain.
    pub fn names(&self) -> &ServerNames {
        &self.names
    }

    /// The server that this name contains, configured or former.
    pub fn named_by(&self, name: &str) -> Option<&ServerName> {
        match self.names.named_by(name) {
            NamedServer::Server(server) => Some(server),
            NamedServer::Nobody | NamedServer::Unclear => None,
        }
    }

    /// The server with exactly this name, configured or former.
    pub fn server(&self, name: &str) -> Option<&ServerName> {
        self.names.server(name)
    }

    /// The keys that are no longer offered, in configuration order of their servers. Former servers
    /// have no position and come first.
    pub fn dropped_keys(&self, kind: ListKind) -> impl Iterator<Item = (&ServerName, &str)> {
        let servers = self.former.iter().chain(&self.configured);
        let dropped_keys =
            servers.filter_map(|server| Some((server, self.dropped_keys.get(server)?)));
        dropped_keys.flat_map(move |(server, dropped_keys)| {
            let keys = dropped_keys.0[kind as usize].iter();
            keys.map(move |key| (server, &**key))
        })
    }

    /// The positions of the configured servers in the file, from 1. Former servers have none.
    pub fn places(&self) -> HashMap<&ServerName, usize> {
        self.configured
            .iter()
            .enumerate()
            .map(|(index, name)| (name, index + 1))
            .collect()
    }
}

fn server_and_part(part: &Part) -> (&ServerName, &Part) {
    (&part.server, part)
}

impl Gone {
    fn update_keys(&mut self, before: Option<&Part>, now: Option<&Part>) {
        for kind in ListKind::ALL {
            let list = &mut self.0[kind as usize];
            let now: HashSet<&str> = keys(now, kind).collect();
            list.retain(|key| !now.contains(&**key));
            let noted_keys: HashSet<Box<str>> = list.iter().cloned().collect();
            let still_dropped =
                keys(before, kind).filter(|key| !now.contains(key) && !noted_keys.contains(*key));
            list.extend(still_dropped.map(Box::from));
            let size = |key: &str| key.len() + ENTRY_BYTES;
            let mut bytes: usize = list.iter().map(|key| size(key)).sum();
            let mut excess_bytes = 0;
            while bytes > MAX_GONE_BYTES {
                bytes -= size(&list[excess_bytes]);
                excess_bytes += 1;
            }
            list.drain(..excess_bytes);
        }
    }
}

fn keys(part: Option<&Part>, kind: ListKind) -> impl Iterator<Item = &str> {
    let items = part.map(|part| part.visible_items(kind));
    items.into_iter().flatten().map(|item| &*item.key)
}
