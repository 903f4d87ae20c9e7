//! Memory of the lists of one server, and of all servers together.

use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    ids::ServerName,
};
use mainstay_transport::{Budget, MAX_LIST_BYTES, Reserve};

/// The bytes that each list has in any case: room for some two hundred tools. A
/// thousand servers have 1 GiB by this at most.
const OWN_BYTES: usize = 256 * 1024;

/// The bytes that all lists of all servers together may have beyond that: a thousand servers that list at once,
/// each up to its bound, would else take 64 GiB.
const FLEET_BYTES: usize = 512 * 1024 * 1024;

/// The reserve of a fleet.
pub fn reserve() -> Reserve {
    Reserve::new(FLEET_BYTES, OWN_BYTES)
}

/// The memory of each list of one server. Clones share it.
#[derive(Clone, Debug)]
pub struct Shares {
    reserve: Reserve,
    lists: [Option<Budget>; ListKind::ALL.len()],
}

impl Shares {
    pub fn new(reserve: Reserve) -> Self {
        let lists = std::array::from_fn(|_| None);
        Self { reserve, lists }
    }

    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// The budget for a list that is about to be read, less the memory of the others.
    pub fn budget(&self, kind: ListKind) -> Budget {
        let others = ListKind::ALL.into_iter().filter(|other| *other != kind);
        let taken: usize = others
            .filter_map(|other| self.lists[other as usize].as_ref())
            .map(Budget::used)
            .sum();
        Budget::of(MAX_LIST_BYTES.saturating_sub(taken), &self.reserve)
    }

    /// A list has been read, and takes the bytes that its budget has counted.
    pub fn set(&mut self, kind: ListKind, budget: Option<Budget>) {
        self.lists[kind as usize] = budget;
    }

    /// Counts the lists of a kept catalog; those that are too large are dropped.
    pub fn admit(&mut self, server: &ServerName, catalog: &mut ServerCatalog) {
        for kind in ListKind::ALL {
            let budget = self.budget(kind);
            if budget.take(catalog.size(kind)) {
                self.set(kind, Some(budget));
            } else {
                tracing::warn!(
                    %server,
                    list = kind.member(),
                    "a kept list is too large, and is dropped"
                );
                catalog.set(kind, Vec::new());
            }
        }
    }
}

/// A size for people.
pub fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}
