//! Profiles, each with its own catalog.
//!
//! Only the merger replaces a profile's snapshot. All other tasks read snapshots.

use std::{any::Any, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use mainstay_core::{
    builtin::OwnToolGroup,
    catalog::{Catalog, Claims, ItemTarget, ListKind, Part},
    config::{self, Config, Expose, Naming},
    ids::{ProfileName, ServerName},
    names::Unresolved,
};

use super::search::Index;

/// The settings with which catalogs are merged.
#[derive(Debug)]
pub(super) struct Rules {
    naming: Naming,
    max_name_length: usize,
    profiles: Vec<config::ProfileConfig>,
}

impl Rules {
    pub fn new(config: &Config) -> Self {
        Self {
            naming: config.naming,
            max_name_length: config.max_name_length,
            profiles: config.profiles.clone(),
        }
    }

    pub fn naming(&self) -> Naming {
        self.naming
    }

    pub fn merge(
        &self,
        parts: Vec<Part>,
        profile: &config::ProfileConfig,
        claims: &Arc<Claims>,
    ) -> Catalog {
        Catalog::merge(parts, profile, self.naming, self.max_name_length, claims)
    }
}

/// One profile, as long as the configuration has it.
#[derive(Debug)]
pub struct PublishedProfile {
    pub name: ProfileName,
    snapshot: ArcSwap<ProfileSnapshot>,
}

impl PublishedProfile {
    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<ProfileSnapshot> {
        self.snapshot.load_full()
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.snapshot.load().config.has_server(server)
    }
}

impl PublishedProfile {
    /// The profile of all servers, with the names of the merged catalog. Only REST shows it. No client
    /// connects to it.
    pub(super) fn of_everything(catalog: Arc<Catalog>) -> Arc<Self> {
        let config = config::ProfileConfig::everything(ProfileName::everything());
        profile_of(config, catalog, &[])
    }

    /// Publishes another catalog.
    pub(super) fn publish(&self, catalog: Arc<Catalog>) {
        let config = self.snapshot.load().config.clone();
        self.snapshot
            .store(Arc::new(ProfileSnapshot::new(config, catalog, &[])));
    }
}

/// The default profile, with an empty catalog.
impl Default for PublishedProfile {
    fn default() -> Self {
        Self {
            name: ProfileName::default(),
            snapshot: ArcSwap::from_pointee(ProfileSnapshot {
                config: config::ProfileConfig::everything(ProfileName::default()),
                catalog: Arc::default(),
                index: Arc::default(),
            }),
        }
    }
}

/// A profile's settings, catalog and search index at one moment. Each merge replaces the whole
/// snapshot.
#[derive(Debug)]
pub struct ProfileSnapshot {
    pub config: config::ProfileConfig,
    /// All items of the profile, whether or not lists show them.
    pub catalog: Arc<Catalog>,
    /// The search index of the catalog's tools. Empty if clients cannot search.
    pub index: Arc<Index>,
}

impl ProfileSnapshot {
    /// Builds the search index. Takes time for each tool that is in none of the `indexes_before`.
    fn new(
        config: config::ProfileConfig,
        catalog: Arc<Catalog>,
        indexes_before: &[Arc<Index>],
    ) -> Self {
        let is_searched = config.own_tools.contains(&OwnToolGroup::Meta);
        let index = is_searched.then(|| Arc::new(Index::new(&catalog, indexes_before)));
        Self {
            config,
            catalog,
            index: index.unwrap_or_default(),
        }
    }

    /// The groups of own tools that the profile offers.
    pub fn own_tools(&self) -> &[OwnToolGroup] {
        &self.config.own_tools
    }

    /// True if the profile lists the servers' items of this kind, so that clients may name them.
    pub fn lists_kind(&self, kind: ListKind) -> bool {
        match self.config.expose {
            Expose::Direct => true,
            Expose::Meta => kind != ListKind::Tools,
        }
    }

    /// The servers' items of a list: the target of each, and its JSON text with the exposed key.
    pub fn items(&self, kind: ListKind) -> impl Iterator<Item = (&ItemTarget, &str)> {
        let count = if self.lists_kind(kind) { usize::MAX } else { 0 };
        let items = self.catalog.items(kind).iter().map(|item| &**item);
        self.catalog.targets(kind).iter().zip(items).take(count)
    }

    /// The server's tool that a client of this profile may call by this exposed name.
    pub fn tool(&self, name: &str) -> Result<&ItemTarget, Unresolved> {
        if self.lists_kind(ListKind::Tools) {
            self.catalog.tool(name)
        } else {
            Err(Unresolved::Unknown)
        }
    }

    pub fn prompt(&self, name: &str) -> Result<&ItemTarget, Unresolved> {
        self.catalog.prompt(name)
    }

    fn has_same_list(&self, other: &Self, kind: ListKind) -> bool {
        let digest = |snapshot: &Self| {
            snapshot
                .lists_kind(kind)
                .then(|| snapshot.catalog.digest(kind))
        };
        let has_same_own_tools = kind != ListKind::Tools || self.own_tools() == other.own_tools();
        has_same_own_tools && digest(self) == digest(other)
    }

    /// True if a server's announcement of a changed list must be passed on, even if the list has the
    /// same items. False if the profile selects tools, because the change may concern other tools.
    fn passes_on(&self, server: &ServerName, kind: ListKind) -> bool {
        let whole = kind != ListKind::Tools || self.config.tools.is_everything();
        whole && self.lists_kind(kind) && self.config.has_server(server)
    }
}

/// A replaced catalog or a replaced profile snapshot. The merger frees it.
pub(super) type Retired = Arc<dyn Any + Send + Sync>;

/// A change of a profile.
pub(super) enum ProfileChange {
    Listed(ProfileName, ListKind),
    Gone(ProfileName),
}

/// All profiles.
#[derive(Debug)]
pub(super) struct Profiles {
    rules: ArcSwap<Rules>,
    /// The rules with which the profiles were merged last.
    merged: ArcSwapOption<Rules>,
    /// The profile at `/mcp`, which no reload removes.
    pub default: Arc<PublishedProfile>,
    /// All profiles in configuration order. The default profile is the first.
    list: ArcSwap<Vec<Arc<PublishedProfile>>>,
}

impl Profiles {
    /// Gives all profiles the catalog `nothing` until the first merge.
    pub fn new(config: &Config, nothing: &Arc<Catalog>) -> Self {
        let rules = Rules::new(config);
        let empty =
            |profile: &config::ProfileConfig| profile_of(profile.clone(), Arc::clone(nothing), &[]);
        let list: Vec<_> = rules.profiles.iter().map(empty).collect();
        Self {
            default: Arc::clone(&list[0]),
            list: ArcSwap::from_pointee(list),
            rules: ArcSwap::from_pointee(rules),
            merged: ArcSwapOption::empty(),
        }
    }

    pub fn named(&self, name: &str) -> Option<Arc<PublishedProfile>> {
        let list = self.list.load();
        list.iter()
            .find(|profile| profile.name.as_str() == name)
            .cloned()
    }

    pub fn all(&self) -> Arc<Vec<Arc<PublishedProfile>>> {
        self.list.load_full()
    }

    pub fn names(&self) -> Vec<ProfileName> {
        let list = self.list.load();
        list.iter().map(|profile| profile.name.clone()).collect()
    }

    /// Sets the rules of the next merge.
    pub fn set(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// True if the last merge used these rules.
    pub fn was_merged_with(&self, rules: &Arc<Rules>) -> bool {
        let merged = self.merged.load();
        merged
            .as_ref()
            .is_some_and(|merged| Arc::ptr_eq(merged, rules))
    }

    /// Merges the catalog of each profile from the parts of `whole`, and returns the changes for
    /// clients. Adds replaced snapshots to `retired`.
    pub fn merge(
        &self,
        rules: &Arc<Rules>,
        whole: &Arc<Catalog>,
        retired: &mut Vec<Retired>,
    ) -> Vec<ProfileChange> {
        let before = self.list.load_full();
        let everything = config::ProfileConfig::everything(ProfileName::default());
        let has_same_rules = self.was_merged_with(rules);
        let mut changes = Vec::new();
        let mut indexes: Vec<Arc<Index>> = before
            .iter()
            .map(|profile| Arc::clone(&profile.snapshot().index))
            .collect();
        let list = rules.profiles.iter().map(|config| {
            let existing = before.iter().find(|profile| profile.name == config.name);
            let parts: Vec<Part> = whole
                .parts()
                .iter()
                .filter(|part| config.has_server(&part.server))
                .cloned()
                .collect();
            if let Some(profile) = existing.filter(|_| has_same_rules) {
                let catalog = &profile.snapshot.load().catalog;
                if catalog.parts() == parts && Arc::ptr_eq(catalog.claims(), whole.claims()) {
                    return Arc::clone(profile);
                }
            }
            let catalog = if config.selects_like(&everything) {
                Arc::clone(whole)
            } else {
                Arc::new(rules.merge(parts, config, whole.claims()))
            };
            let Some(profile) = existing else {
                warn_of_renames(config, &catalog, &Catalog::default());
                let new = profile_of(config.clone(), catalog, &indexes);
                indexes.push(Arc::clone(&new.snapshot().index));
                return new;
            };
            let before = profile.snapshot();
            warn_of_renames(config, &catalog, &before.catalog);
            let snapshot = ProfileSnapshot::new(config.clone(), catalog, &indexes);
            indexes.push(Arc::clone(&snapshot.index));
            let kinds = ListKind::ALL.into_iter();
            let differing = kinds.filter(|kind| !snapshot.has_same_list(&before, *kind));
            changes.extend(differing.map(|kind| ProfileChange::Listed(profile.name.clone(), kind)));
            profile.snapshot.store(Arc::new(snapshot));
            retired.push(before);
            Arc::clone(profile)
        });
        let list: Vec<_> = list.collect();
        let gone = before
            .iter()
            .filter(|profile| !list.iter().any(|retained| retained.name == profile.name));
        changes.extend(gone.map(|profile| ProfileChange::Gone(profile.name.clone())));
        self.list.store(Arc::new(list));
        self.merged.store(Some(Arc::clone(rules)));
        changes
    }

    /// The profiles that pass on a server's announcement of this list.
    pub fn profiles_passing_on(&self, server: &ServerName, kind: ListKind) -> Vec<ProfileName> {
        let list = self.list.load();
        list.iter()
            .filter(|profile| profile.snapshot.load().passes_on(server, kind))
            .map(|profile| profile.name.clone())
            .collect()
    }
}

fn profile_of(
    config: config::ProfileConfig,
    catalog: Arc<Catalog>,
    indexes: &[Arc<Index>],
) -> Arc<PublishedProfile> {
    Arc::new(PublishedProfile {
        name: config.name.clone(),
        snapshot: ArcSwap::from_pointee(ProfileSnapshot::new(config, catalog, indexes)),
    })
}

/// Logs the configured names that are not used. Logs the same set of names only once.
fn warn_of_renames(profile: &config::ProfileConfig, catalog: &Catalog, before: &Catalog) {
    if catalog.refused_renames().eq(before.refused_renames()) {
        return;
    }
    for (target, exposed) in catalog.refused_renames() {
        let edit = profile.edit(&target.server, &target.original);
        tracing::warn!(
            profile = %profile.name,
            "{}/{} is called {exposed:?}, not {:?} as the profile says: that is, or may be, the name of another \
             server's tool or of one of Mainstay's own",
            target.server, target.original, edit.and_then(|edit| edit.name.as_deref()).unwrap_or_default()
        );
    }
}
