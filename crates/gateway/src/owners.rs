//! Finds the server that has a resource: in the merged lists, or by requests to the servers.

use std::collections::HashMap;

use mainstay_core::{
    catalog::{ItemTarget, Owner, address, is_page},
    failure::{Failure, FailureKind},
    ids::{ProfileName, ServerName},
};
use parking_lot::Mutex;

use crate::{Gateway, view::View};

/// Maximum number of unlisted resources whose owners are remembered.
const MAX_FOUND: usize = 1000;

/// A resource's URI, and the profile in which it was requested. Each profile has its own servers.
type Key = (ProfileName, Box<str>);

/// Known owners of resources that are in no list.
#[derive(Debug, Default)]
pub(crate) struct FoundOwners(Mutex<HashMap<Key, ItemTarget>>);

impl FoundOwners {
    fn get(&self, view: &View, uri: &str) -> Option<ItemTarget> {
        self.0.lock().get(&key(view, uri)).cloned()
    }

    fn add(&self, view: &View, uri: &str, owner: ItemTarget) {
        let mut found = self.0.lock();
        // Clear the map rather than evict. The owners of resources in use are found again.
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(key(view, uri), owner);
    }
}

fn key(view: &View, uri: &str) -> Key {
    (view.profile.name.clone(), uri.into())
}

/// The failure of a request for a page (`ui://`) that several servers have.
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
    /// The owner of a resource among the servers that a client sees, without a request to a server.
    pub fn owner(&self, view: &View, uri: &str) -> Owner {
        match view.resource(uri) {
            Owner::Unlisted => {
                let found = self.found_owners.get(view, uri);
                let visible = found.filter(|target| view.has_resource(&target.server, uri));
                visible.map_or(Owner::Unlisted, Owner::Server)
            }
            owner => owner,
        }
    }

    /// Requests a resource that is in no list from the servers that a client sees, and remembers the
    /// owner.
    pub async fn find_owner(&self, view: &View, uri: &str) -> Owner {
        let mut servers = self.servers_of(view);
        servers.retain(|server| view.has_resource(&server.name, uri));
        let found = if is_page(uri) {
            // Find all owners: a page that several servers have must not be read from any of them.
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
        let owner = ItemTarget::new(server, uri);
        self.found_owners.add(view, uri, owner.clone());
        Owner::Server(owner)
    }

    /// The owner of a resource among the servers that a client sees. Waits for the lists, and
    /// requests the resource from the servers if it is in no list.
    pub async fn settled_owner(&self, view: &View, uri: &str) -> Option<ItemTarget> {
        self.registry.profile_settled(&view.profile).await;
        match self.owner(view, uri) {
            Owner::Server(owner) => return Some(owner),
            Owner::Absent(_) | Owner::Shared(_) => return None,
            Owner::Unlisted => {}
        }
        self.find_owner(view, uri).await.target()
    }
}
