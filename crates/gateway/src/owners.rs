//! The server that has a resource: as the lists say, or as the servers answered when they were asked.

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    catalog::{Owner, Target},
    ids::ProfileName,
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
    ) -> Option<Target> {
        let server = self.calls.find_owner(servers, uri).await?;
        let owner = Target {
            server: server.name.clone(),
            original: uri.into(),
        };
        self.found_owners.add(profile, uri, owner.clone());
        Some(owner)
    }

    /// The owner of a resource among the servers that a client sees; where no list names it, the servers
    /// are asked.
    pub async fn settled_owner(&self, view: &View, uri: &str) -> Option<Target> {
        self.registry.profile_settled(&view.profile).await;
        match self.owner(view, uri) {
            Owner::Server(owner) => return Some(owner),
            Owner::Absent(_) => return None,
            Owner::Unlisted => {}
        }
        self.find_owner(Some(&view.profile), self.servers_of(view), uri)
            .await
    }
}
