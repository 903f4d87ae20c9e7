//! Memory budgets for the lists of one server, and for the lists of all servers together.

use mainstay_core::{
    catalog::{ListKind, ServerCatalog},
    ids::ServerName,
};
use mainstay_transport::{Budget, MAX_LIST_BYTES, Reserve};

/// Bytes of each list that do not count towards [`FLEET_BYTES`]: enough for about two hundred tools.
/// The four lists of a thousand servers take at most 1 GiB of this.
const OWN_BYTES: usize = 256 * 1024;

/// Bytes that all lists of all servers together may have beyond their [`OWN_BYTES`]. Without this
/// limit, the lists of a thousand servers could take 64 GiB.
const FLEET_BYTES: usize = 512 * 1024 * 1024;

/// A new reserve for long lists. All servers share one reserve.
pub fn reserve() -> Reserve {
    Reserve::new(FLEET_BYTES, OWN_BYTES)
}

/// The memory budget of each list of one server. Clones share the budgets.
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

    /// The budget for a listing of this kind: the server's limit minus the memory of its other lists.
    pub fn budget(&self, kind: ListKind) -> Budget {
        let others = ListKind::ALL.into_iter().filter(|other| *other != kind);
        let used: usize = others
            .filter_map(|other| self.lists[other as usize].as_ref())
            .map(Budget::used)
            .sum();
        Budget::with_reserve(MAX_LIST_BYTES.saturating_sub(used), &self.reserve)
    }

    /// Sets the budget of a list that has been read. The budget counts the list's bytes.
    pub fn set(&mut self, kind: ListKind, budget: Option<Budget>) {
        self.lists[kind as usize] = budget;
    }

    /// Sets the budgets for the lists of a stored catalog. Drops lists that are too large.
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

/// A size in MiB, as text for people.
pub fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}
