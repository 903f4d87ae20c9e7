//! The server that has a resource: as the lists say, or as the servers answered when they were asked.

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    catalog::{Owner, Target, address, is_page},
    failure::{Failure, FailureKind},
    ids::{ProfileName, ServerName},
};
use parking_lot::Mutex;

use crate::{Gateway, registry::Profile, supervisor::Server, view::View};

/// Owners of unlisted resources that are remembered.
const MAX_FOUND: usize = 1000;

/// A resource, and the profile in which it was looked for: each profile has servers of its own. `None` is
/// all servers.
type Key = (Option<ProfileName>, Box<str>);

/// Owners of resources that no list names, as far as they have been found.
#[derive(Debug, Default)]
pub(crate) struct FoundOwners(Mutex<HashMap<Key, Target>>);

impl FoundOwners {
    fn get(&self, profile: Option<&Profile>, uri: &str) -> Option<Target> {
        self.0.lock().get(&key(profile, uri)).cloned()
    }

    fn add(&self, profile: Option<&Profile>, uri: &str, owner: Target) {
        let mut found = self.0.lock();
        // What is still in use will be found again.
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(key(profile, uri), owner);
    }
}

fn key(profile: Option<&Profile>, uri: &str) -> Key {
    (profile.map(|profile| profile.name.clone()), uri.into())
}

/// The owner of a resource, or the server that was found to have it where no list names it.
fn or_found(owner: Owner, found: impl FnOnce() -> Option<Target>) -> Owner {
    match owner {
        Owner::Unlisted => found().map_or(Owner::Unlisted, Owner::Server),
        owner => owner,
    }
}

/// The failure of a request about a page that each of these servers has.
pub fn shared_page(uri: &str, servers: &[ServerName]) -> Failure {
    let list = |item: &dyn Fn(&ServerName) -> String, or: &str| {
        let items: Vec<String> = servers.iter().map(item).collect();
        items.join(or)
    };
    let (names, addresses) = (
        list(&|server| server.to_string(), " and "),
        list(&|server| address(server, uri), " or "),
    );
    let message = format!(
        "{uri} is a page of the servers {names}, and does not say whose is meant; ask for {addresses}, or connect to /servers/NAME/mcp"
    );
    let servers: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
    Failure::new(FailureKind::ResourceNotFound, message)
        .with("uri", uri)
        .with("servers", servers)
}

impl Gateway {
    /// The owner of a resource among the servers that a client sees, as far as is known.
    pub fn owner(&self, view: &View, uri: &str) -> Owner {
        let found = || {
            let found = self.found_owners.get(Some(&view.profile), uri);
            found.filter(|target| view.has_server(&target.server))
        };
        or_found(view.resource(uri), found)
    }

    /// The owner of a resource among all servers, as far as is known.
    pub fn owner_of_all(&self, uri: &str) -> Owner {
        let owner = self.registry.catalog().resource(uri);
        or_found(owner, || self.found_owners.get(None, uri))
    }

    /// Asks these servers which of them has a resource that no list names, and remembers the answer.
    /// `profile` is where it is looked for; `None` is everywhere.
    pub async fn find_owner(
        &self,
        profile: Option<&Profile>,
        servers: Vec<Arc<Server>>,
        uri: &str,
    ) -> Owner {
        let found = if is_page(uri) {
            // Another server's page must not be taken for it.
            self.calls.find_owners(servers, uri).await
        } else {
            Vec::from_iter(self.calls.find_owner(servers, uri).await)
        };
        let server = match &found[..] {
            [] => return Owner::Unlisted,
            [server] => server.name.clone(),
            _ => {
                let servers = found.iter().map(|server| server.name.clone());
                return Owner::Shared(servers.collect());
            }
        };
        let owner = Target {
            server,
            original: uri.into(),
        };
        self.found_owners.add(profile, uri, owner.clone());
        Owner::Server(owner)
    }

    /// The owner of a resource among the servers that a client sees; where no list names it, the servers
    /// are asked.
    pub async fn settled_owner(&self, view: &View, uri: &str) -> Option<Target> {
        self.registry.profile_settled(&view.profile).await;
        match self.owner(view, uri) {
            Owner::Server(owner) => return Some(owner),
            Owner::Absent(_) | Owner::Shared(_) => return None,
            Owner::Unlisted => {}
        }
        self.find_owner(Some(&view.profile), self.servers_of(view), uri)
            .await
            .target()
    }
}
