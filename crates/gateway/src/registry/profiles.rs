//! Profiles, each with a catalog of its own.
//!
//! Only the registry's merging task changes what they show. All others read a snapshot.

use std::{any::Any, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use mainstay_core::{
    builtin::Group,
    catalog::{Catalog, Claims, ListKind, Part, Target},
    config::{self, Config, Expose, Naming},
    ids::{ProfileName, ServerName},
    names::Unresolved,
};

use super::search::Index;

/// The settings by which catalogs are merged.
#[derive(Debug)]
pub(super) struct Rules {
    naming: Naming,
    max_name_length: usize,
    profiles: Vec<config::Profile>,
}

impl Rules {
    pub fn of(config: &Config) -> Self {
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
        profile: &config::Profile,
        claims: &Arc<Claims>,
    ) -> Catalog {
        Catalog::merge(parts, profile, self.naming, self.max_name_length, claims)
    }
}

/// One endpoint, for as long as the configuration has it.
#[derive(Debug)]
pub struct Profile {
    pub name: ProfileName,
    shown: ArcSwap<ProfileSnapshot>,
}

impl Profile {
    /// The snapshot of now.
    pub fn shown(&self) -> Arc<ProfileSnapshot> {
        self.shown.load_full()
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.shown.load().config.has_server(server)
    }
}

impl Profile {
    /// All servers, under the names of the merged catalog. No client connects to it; REST shows it.
    pub(super) fn of_everything(catalog: Arc<Catalog>) -> Arc<Self> {
        let config = config::Profile::everything(ProfileName::of_everything());
        profile_of(config, catalog, &[])
    }

    /// Shows another catalog.
    pub(super) fn publish(&self, catalog: Arc<Catalog>) {
        let config = self.shown.load().config.clone();
        self.shown
            .store(Arc::new(ProfileSnapshot::new(config, catalog, &[])));
    }
}

/// The default profile, which shows nothing yet.
impl Default for Profile {
    fn default() -> Self {
        Self {
            name: ProfileName::default(),
            shown: ArcSwap::from_pointee(ProfileSnapshot {
                config: config::Profile::everything(ProfileName::default()),
                catalog: Arc::default(),
                index: Arc::default(),
            }),
        }
    }
}

/// What the clients of a profile can see at a moment. It is replaced as a whole.
#[derive(Debug)]
pub struct ProfileSnapshot {
    pub config: config::Profile,
    /// Everything that the profile has, shown in lists or not.
    pub catalog: Arc<Catalog>,
    /// The tools of the catalog, where clients can search them.
    pub index: Arc<Index>,
}

impl ProfileSnapshot {
    /// Takes as long as there are many tools that none of the `known` indexes has.
    fn new(config: config::Profile, catalog: Arc<Catalog>, known: &[Arc<Index>]) -> Self {
        let is_searched = config.own_tools.contains(&Group::Meta);
        let index = is_searched.then(|| Arc::new(Index::of(&catalog, known)));
        Self {
            config,
            catalog,
            index: index.unwrap_or_default(),
        }
    }

    /// The groups of Mainstay's own tools that it offers.
    pub fn own_tools(&self) -> &[Group] {
        &self.config.own_tools
    }

    /// Whether the servers' items of this kind are shown, and so may be named by its clients.
    pub fn shows(&self, kind: ListKind) -> bool {
        match self.config.expose {
            Expose::Direct => true,
            Expose::Meta => kind != ListKind::Tools,
        }
    }

    /// The servers' items of a list, each as JSON text under its exposed key, and where it leads.
    pub fn items(&self, kind: ListKind) -> impl Iterator<Item = (&Target, &str)> {
        let shown = if self.shows(kind) { usize::MAX } else { 0 };
        let items = self.catalog.items(kind).iter().map(|item| &**item);
        self.catalog.targets(kind).iter().zip(items).take(shown)
    }

    /// The tool of a server that a client of this profile may call by this name.
    pub fn tool(&self, name: &str) -> Result<&Target, Unresolved> {
        if self.shows(ListKind::Tools) {
            self.catalog.tool(name)
        } else {
            Err(Unresolved::Unknown)
        }
    }

    pub fn prompt(&self, name: &str) -> Result<&Target, Unresolved> {
        self.catalog.prompt(name)
    }

    fn lists_like(&self, other: &Self, kind: ListKind) -> bool {
        let digest = |shown: &Self| shown.shows(kind).then(|| shown.catalog.digest(kind));
        let own = kind != ListKind::Tools || self.own_tools() == other.own_tools();
        own && digest(self) == digest(other)
    }

    /// Whether a server's announcement that a list has changed is to be passed on. It is believed even
    /// if the list is the same. Where tools are left out, its meaning is unknown.
    fn passes_on(&self, server: &ServerName, kind: ListKind) -> bool {
        let whole = kind != ListKind::Tools || self.config.tools.is_everything();
        whole && self.shows(kind) && self.config.has_server(server)
    }
}

/// A replaced catalog, or a replaced profile snapshot.
pub(super) type Retired = Arc<dyn Any + Send + Sync>;

/// A change of a profile.
pub(super) enum Change {
    Listed(ProfileName, ListKind),
    Gone(ProfileName),
}

/// All of them.
#[derive(Debug)]
pub(super) struct Profiles {
    rules: ArcSwap<Rules>,
    /// Those by which the catalogs were merged last.
    merged: ArcSwapOption<Rules>,
    /// The one at `/mcp`, which no reload takes away.
    pub default: Arc<Profile>,
    /// In configuration order, that one first.
    list: ArcSwap<Vec<Arc<Profile>>>,
}

impl Profiles {
    /// All of them show `nothing` until the first merge.
    pub fn new(config: &Config, nothing: &Arc<Catalog>) -> Self {
        let rules = Rules::of(config);
        let empty =
            |profile: &config::Profile| profile_of(profile.clone(), Arc::clone(nothing), &[]);
        let list: Vec<_> = rules.profiles.iter().map(empty).collect();
        Self {
            default: Arc::clone(&list[0]),
            list: ArcSwap::from_pointee(list),
            rules: ArcSwap::from_pointee(rules),
            merged: ArcSwapOption::empty(),
        }
    }

    pub fn named(&self, name: &str) -> Option<Arc<Profile>> {
        let list = self.list.load();
        list.iter()
            .find(|profile| profile.name.as_str() == name)
            .cloned()
    }

    pub fn all(&self) -> Arc<Vec<Arc<Profile>>> {
        self.list.load_full()
    }

    pub fn names(&self) -> Vec<ProfileName> {
        let list = self.list.load();
        list.iter().map(|profile| profile.name.clone()).collect()
    }

    /// Other rules, for the next merge.
    pub fn set(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Whether the catalogs were merged by these.
    pub fn is_merged_by(&self, rules: &Arc<Rules>) -> bool {
        let merged = self.merged.load();
        merged
            .as_ref()
            .is_some_and(|merged| Arc::ptr_eq(merged, rules))
    }

    /// Merges what each profile has of all that there is; says what its clients are to be told. What is replaced
    /// goes to `retired`.
    pub fn merge(
        &self,
        rules: &Arc<Rules>,
        whole: &Arc<Catalog>,
        retired: &mut Vec<Retired>,
    ) -> Vec<Change> {
        let before = self.list.load_full();
        let everything = config::Profile::everything(ProfileName::default());
        let is_known_rule = self.is_merged_by(rules);
        let mut changes = Vec::new();
        let mut indexes: Vec<Arc<Index>> = before
            .iter()
            .map(|known| Arc::clone(&known.shown().index))
            .collect();
        let list = rules.profiles.iter().map(|wanted| {
            let known = before.iter().find(|known| known.name == wanted.name);
            let parts: Vec<Part> = whole
                .parts()
                .iter()
                .filter(|part| wanted.has_server(&part.server))
                .cloned()
                .collect();
            if let Some(known) = known.filter(|_| is_known_rule) {
                let catalog = &known.shown.load().catalog;
                if catalog.parts() == parts && Arc::ptr_eq(catalog.claims(), whole.claims()) {
                    return Arc::clone(known);
                }
            }
            let catalog = if wanted.selects_like(&everything) {
                Arc::clone(whole)
            } else {
                Arc::new(rules.merge(parts, wanted, whole.claims()))
            };
            let Some(known) = known else {
                warn_of_renames(wanted, &catalog, &Catalog::default());
                let new = profile_of(wanted.clone(), catalog, &indexes);
                indexes.push(Arc::clone(&new.shown().index));
                return new;
            };
            let before = known.shown();
            warn_of_renames(wanted, &catalog, &before.catalog);
            let shown = ProfileSnapshot::new(wanted.clone(), catalog, &indexes);
            indexes.push(Arc::clone(&shown.index));
            let kinds = ListKind::ALL.into_iter();
            let differing = kinds.filter(|kind| !shown.lists_like(&before, *kind));
            changes.extend(differing.map(|kind| Change::Listed(known.name.clone(), kind)));
            known.shown.store(Arc::new(shown));
            retired.push(before);
            Arc::clone(known)
        });
        let list: Vec<_> = list.collect();
        let gone = before
            .iter()
            .filter(|known| !list.iter().any(|kept| kept.name == known.name));
        changes.extend(gone.map(|profile| Change::Gone(profile.name.clone())));
        self.list.store(Arc::new(list));
        self.merged.store(Some(Arc::clone(rules)));
        changes
    }

    /// The profiles that a server's changed list concerns.
    pub fn concerned(&self, server: &ServerName, kind: ListKind) -> Vec<ProfileName> {
        let list = self.list.load();
        list.iter()
            .filter(|profile| profile.shown.load().passes_on(server, kind))
            .map(|profile| profile.name.clone())
            .collect()
    }
}

fn profile_of(
    config: config::Profile,
    catalog: Arc<Catalog>,
    indexes: &[Arc<Index>],
) -> Arc<Profile> {
    Arc::new(Profile {
        name: config.name.clone(),
        shown: ArcSwap::from_pointee(ProfileSnapshot::new(config, catalog, indexes)),
    })
}

/// Says which given names are not used: once, and not each time that something else changes.
fn warn_of_renames(profile: &config::Profile, catalog: &Catalog, before: &Catalog) {
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
