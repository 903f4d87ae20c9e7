//! Catalogs: the lists of one server, and the merged lists that clients see.
//!
//! Items keep their bytes. Only the key (name or URI) of an item is read, and replaced if the
//! exposed key is different (invariant 5).

mod claims;
mod item;
mod listing;
mod pages;
mod resources;
mod stored;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::{
    claims::{Claims, MAX_FORMER},
    item::{
        CatalogItem, ITEM_OVERHEAD, ListKind, ListPage, NotAList, digest_of, next_cursor, page,
    },
    listing::without_output_schema,
    pages::is_page,
    resources::{Owner, address},
    stored::{StoredCatalog, UnusableCatalog},
};
use self::{
    listing::{Listing, prompts, tools},
    resources::MergedResources,
};
use crate::{
    access::ToolEffect,
    config::{Naming, ProfileConfig, Withheld},
    era::Capabilities,
    ids::ServerName,
    names::{NameTable, Unresolved},
};

/// All items that a server offered when it was last listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCatalog {
    pub capabilities: Capabilities,
    pub instructions: Option<String>,
    pub tools: Vec<CatalogItem>,
    pub prompts: Vec<CatalogItem>,
    pub resources: Vec<CatalogItem>,
    pub templates: Vec<CatalogItem>,
}

impl ServerCatalog {
    pub fn list(&self, kind: ListKind) -> &[CatalogItem] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// Sets a list. Of items with the same key, only the first one stays.
    pub fn set(&mut self, kind: ListKind, mut items: Vec<CatalogItem>) {
        let mut seen_keys = std::collections::HashSet::new();
        items.retain(|item| seen_keys.insert(item.key.clone()));
        match kind {
            ListKind::Tools => self.tools = items,
            ListKind::Prompts => self.prompts = items,
            ListKind::Resources => self.resources = items,
            ListKind::Templates => self.templates = items,
        }
    }

    /// Returns a line for each name in `disabledTools` and `allowedTools` that is not a tool of
    /// this server.
    pub fn unmatched(&self, withheld: &Withheld) -> Vec<String> {
        withheld.unmatched(self.tools.iter().map(|tool| &*tool.key))
    }

    /// The items of a list, without hidden tools.
    pub fn visible_items<'a>(
        &'a self,
        kind: ListKind,
        withheld: &'a Withheld,
    ) -> impl Iterator<Item = &'a CatalogItem> {
        let items = self.list(kind).iter();
        items.filter(move |item| kind != ListKind::Tools || !withheld.has(&item.key))
    }

    /// The tools that `strictToolNames` hides.
    pub fn refused_names<'a>(&'a self, withheld: &'a Withheld) -> impl Iterator<Item = &'a str> {
        let names = self.tools.iter().map(|tool| &*tool.key);
        names.filter(|name| withheld.refuses_name(name))
    }

    /// Approximate memory of a list, in bytes.
    pub fn size(&self, kind: ListKind) -> usize {
        self.list(kind).iter().map(CatalogItem::size).sum()
    }

    pub fn item(&self, kind: ListKind, key: &str) -> Option<&CatalogItem> {
        self.list(kind).iter().find(|item| *item.key == *key)
    }
}

/// The server and the original name or URI of an exposed item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemTarget {
    pub server: ServerName,
    /// The original name or URI.
    pub original: Arc<str>,
    /// The effect of a tool. Items of other kinds have the default, which means nothing there.
    pub effect: ToolEffect,
}

impl ItemTarget {
    /// Creates the target of an item that is not a tool.
    pub fn new(server: ServerName, original: impl Into<Arc<str>>) -> Self {
        Self {
            server,
            original: original.into(),
            effect: ToolEffect::default(),
        }
    }
}

/// One server's part of a merged catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub server: ServerName,
    pub catalog: Arc<ServerCatalog>,
    pub withheld: Withheld,
    /// True if results of the server's tools may be cut (`result.maxInlineBytes`). A cut result may
    /// violate the tool's `outputSchema`, which clients check.
    pub cuts_results: bool,
}

impl Part {
    /// The items of a list, without hidden tools.
    pub fn visible_items(&self, kind: ListKind) -> impl Iterator<Item = &CatalogItem> {
        self.catalog.visible_items(kind, &self.withheld)
    }

    /// The tools that `strictToolNames` hides.
    pub fn refused_names(&self) -> impl Iterator<Item = &str> {
        self.catalog.refused_names(&self.withheld)
    }
}

/// The items of a profile's servers with their exposed names. A snapshot: a change replaces the
/// whole catalog.
#[derive(Debug, Default)]
pub struct Catalog {
    parts: Vec<Part>,
    tools: Listing,
    tool_names: NameTable,
    prompts: Listing,
    prompt_names: NameTable,
    resources: MergedResources,
    claims: Arc<Claims>,
}

impl Catalog {
    /// Merges the parts of the profile's servers. `parts` are in configuration order. `naming` is
    /// used if the profile sets none. `claims` covers all servers, including those without a part.
    pub fn merge(
        mut parts: Vec<Part>,
        profile: &ProfileConfig,
        naming: Naming,
        max_name_length: usize,
        claims: &Arc<Claims>,
    ) -> Self {
        parts.retain(|part| profile.has_server(&part.server));
        let naming = profile.naming.unwrap_or(naming);
        let (tools, tool_names) = tools(&parts, profile, naming, max_name_length, claims);
        let (prompts, prompt_names) = prompts(&parts, profile, naming, max_name_length, claims);
        Self {
            tools,
            tool_names,
            prompts,
            prompt_names,
            resources: MergedResources::merge(&parts, profile, claims),
            parts,
            claims: Arc::clone(claims),
        }
    }

    /// Returns a catalog with these claims and no items.
    pub fn empty(claims: &Arc<Claims>) -> Self {
        Self {
            claims: Arc::clone(claims),
            ..Self::default()
        }
    }

    /// The claims that were used for the merge.
    pub fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn listing(&self, kind: ListKind) -> &Listing {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources.listing,
            ListKind::Templates => &self.resources.templates,
        }
    }

    /// The items of a list, as JSON text with exposed keys.
    pub fn items(&self, kind: ListKind) -> &[Box<str>] {
        &self.listing(kind).items
    }

    /// Total size of the items of a list, in bytes.
    pub fn bytes(&self, kind: ListKind) -> usize {
        self.listing(kind).bytes
    }

    /// The exposed name and the target of each tool or prompt.
    pub fn names(&self, kind: ListKind) -> impl Iterator<Item = (&str, &ItemTarget)> {
        let table = if kind == ListKind::Prompts {
            &self.prompt_names
        } else {
            &self.tool_names
        };
        let targets = if kind == ListKind::Prompts {
            &self.prompts.targets
        } else {
            &self.tools.targets
        };
        targets
            .iter()
            .enumerate()
            .map(|(index, target)| (table.exposed(index), target))
    }

    /// The exposed name, the target and the JSON text of the tool at an index of the list.
    pub fn tool_at(&self, index: usize) -> (&str, &ItemTarget, &str) {
        (
            self.tool_names.exposed(index),
            &self.tools.targets[index],
            &self.tools.items[index],
        )
    }

    /// The tools whose `rename` was refused, with their actual exposed names.
    pub fn refused_renames(&self) -> impl Iterator<Item = (&ItemTarget, &str)> {
        let refused_indexes = self.tool_names.refused_renames().iter();
        refused_indexes.map(|&index| (&self.tools.targets[index], self.tool_names.exposed(index)))
    }

    /// The target of each item of a list, in the order of [`Catalog::items`].
    pub fn targets(&self, kind: ListKind) -> &[ItemTarget] {
        &self.listing(kind).targets
    }

    /// A digest that changes if and only if the list changes.
    pub fn digest(&self, kind: ListKind) -> [u8; 32] {
        self.listing(kind).digest
    }

    pub fn tool(&self, name: &str) -> Result<&ItemTarget, Unresolved> {
        self.tool_names
            .resolve(name)
            .map(|index| &self.tools.targets[index])
    }

    pub fn prompt(&self, name: &str) -> Result<&ItemTarget, Unresolved> {
        self.prompt_names
            .resolve(name)
            .map(|index| &self.prompts.targets[index])
    }

    /// The server that a tool's or prompt's name contains, even if the profile excludes the server.
    pub fn named_by(&self, name: &str) -> Option<&ServerName> {
        self.claims.named_by(name)
    }

    /// The owner of the resource with this URI.
    pub fn resource(&self, uri: &str) -> Owner {
        self.resources.owner(uri)
    }

    /// The target of a template, by its exact text, as `completion/complete` names it.
    pub fn template(&self, template: &str) -> Option<&ItemTarget> {
        self.resources.template(template)
    }
}
