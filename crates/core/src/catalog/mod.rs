//! What servers offer: one server's lists, and all of them merged into what a client sees.
//!
//! Items travel as the bytes that came; of each only its key (name or URI) is read, and replaced
//! where the exposed one differs (invariant 5).

mod item;
mod kept;
mod listing;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use self::listing::{Listing, prompts, tools};
pub use self::{
    item::{ITEM_OVERHEAD, Item, ListKind, NotAList, Page, digest_of, page},
    kept::{KeptCatalog, Unusable},
    listing::without_output_schema,
};
use crate::{
    config::{Naming, Profile, Withheld},
    era::Capabilities,
    ids::ServerName,
    names::{NameTable, Unresolved},
};

/// Everything one server offers, as of its last listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCatalog {
    pub capabilities: Capabilities,
    pub instructions: Option<String>,
    pub tools: Vec<Item>,
    pub prompts: Vec<Item>,
    pub resources: Vec<Item>,
    pub templates: Vec<Item>,
}

impl ServerCatalog {
    pub fn list(&self, kind: ListKind) -> &[Item] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// Sets a list; of items with the same key the first counts.
    pub fn set(&mut self, kind: ListKind, mut items: Vec<Item>) {
        let mut seen = std::collections::HashSet::new();
        items.retain(|item| seen.insert(item.key.clone()));
        match kind {
            ListKind::Tools => self.tools = items,
            ListKind::Prompts => self.prompts = items,
            ListKind::Resources => self.resources = items,
            ListKind::Templates => self.templates = items,
        }
    }

    /// The items of a list, less what is kept from clients.
    pub fn shown<'a>(
        &'a self,
        kind: ListKind,
        withheld: &'a Withheld,
    ) -> impl Iterator<Item = &'a Item> {
        let items = self.list(kind).iter();
        items.filter(move |item| kind != ListKind::Tools || !withheld.has(&item.key))
    }

    /// The tools that only their names keep from clients (J12).
    pub fn refused_names<'a>(&'a self, withheld: &'a Withheld) -> impl Iterator<Item = &'a str> {
        let names = self.tools.iter().map(|tool| &*tool.key);
        names.filter(|name| withheld.refuses_name(name))
    }

    /// The bytes that a list takes, about.
    pub fn size(&self, kind: ListKind) -> usize {
        self.list(kind).iter().map(Item::size).sum()
    }

    pub fn item(&self, kind: ListKind, key: &str) -> Option<&Item> {
        self.list(kind).iter().find(|item| *item.key == *key)
    }
}

/// Where a name or URI of the merged catalog leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub server: ServerName,
    /// What the server itself calls it.
    pub original: Arc<str>,
}

/// What one server contributes to a merged catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub server: ServerName,
    pub catalog: Arc<ServerCatalog>,
    pub withheld: Withheld,
    /// Its tools' results may be cut (`result.maxInlineBytes`), and then are not what an `outputSchema`
    /// promises, which clients check.
    pub cuts_results: bool,
}

impl Part {
    /// The items of a list, less what is kept from clients.
    pub fn shown(&self, kind: ListKind) -> impl Iterator<Item = &Item> {
        self.catalog.shown(kind, &self.withheld)
    }

    /// The tools that only their names keep from clients (J12).
    pub fn refused_names(&self) -> impl Iterator<Item = &str> {
        self.catalog.refused_names(&self.withheld)
    }
}

/// What the servers of a profile offer, under the names a client sees: a snapshot, replaced as a whole.
#[derive(Debug, Default)]
pub struct Catalog {
    parts: Vec<Part>,
    tools: Listing,
    tool_names: NameTable,
    prompts: Listing,
    prompt_names: NameTable,
    resources: Listing,
    by_uri: HashMap<Box<str>, usize>,
    templates: Listing,
    by_template: HashMap<Box<str>, usize>,
}

impl Catalog {
    /// Merges what a profile has of these parts, given in configuration order. `naming` is for a
    /// profile that has none of its own.
    pub fn merge(
        mut parts: Vec<Part>,
        profile: &Profile,
        naming: Naming,
        max_name_length: usize,
    ) -> Self {
        parts.retain(|part| profile.has_server(&part.server));
        let naming = profile.naming.unwrap_or(naming);
        let mut catalog = Self::default();
        (catalog.tools, catalog.tool_names) = tools(&parts, profile, naming, max_name_length);
        (catalog.prompts, catalog.prompt_names) = prompts(&parts, naming, max_name_length);
        for part in &parts {
            for item in &part.catalog.resources {
                let exposed = expose_uri(&part.server, &item.key, &catalog.by_uri);
                catalog
                    .by_uri
                    .insert(exposed.clone(), catalog.resources.targets.len());
                catalog.resources.push(&part.server, item, &exposed);
            }
            for item in &part.catalog.templates {
                let exposed = expose_uri(&part.server, &item.key, &catalog.by_template);
                catalog
                    .by_template
                    .insert(exposed.clone(), catalog.templates.targets.len());
                catalog.templates.push(&part.server, item, &exposed);
            }
        }
        catalog.resources = catalog.resources.seal();
        catalog.templates = catalog.templates.seal();
        catalog.parts = parts;
        catalog
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn listing(&self, kind: ListKind) -> &Listing {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// The items of a list, each as JSON text under its exposed key.
    pub fn items(&self, kind: ListKind) -> &[Box<str>] {
        &self.listing(kind).items
    }

    /// The exposed key of each item of a list of tools or prompts, with its target.
    pub fn names(&self, kind: ListKind) -> impl Iterator<Item = (&str, &Target)> {
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

    /// Tools whose given name another tool would have had.
    pub fn clashes(&self) -> impl Iterator<Item = Clash<'_>> {
        let named = |index| (&self.tools.targets[index], self.tool_names.exposed(index));
        self.tool_names.clashes().iter().map(move |clash| Clash {
            renamed: named(clash.renamed),
            evaded: named(clash.evaded),
        })
    }

    /// Where the item of each list leads, in the order of [`Catalog::items`].
    pub fn targets(&self, kind: ListKind) -> &[Target] {
        &self.listing(kind).targets
    }

    /// Changes exactly when the list does.
    pub fn digest(&self, kind: ListKind) -> [u8; 32] {
        self.listing(kind).digest
    }

    pub fn tool(&self, name: &str) -> Result<&Target, Unresolved> {
        self.tool_names
            .resolve(name)
            .map(|index| &self.tools.targets[index])
    }

    pub fn prompt(&self, name: &str) -> Result<&Target, Unresolved> {
        self.prompt_names
            .resolve(name)
            .map(|index| &self.prompts.targets[index])
    }

    /// Whose resource this URI is: the listing says, else an address, else the templates. `None`
    /// where only the servers themselves can tell.
    pub fn resource(&self, uri: &str) -> Option<Target> {
        if let Some(index) = self.by_uri.get(uri) {
            return Some(self.resources.targets[*index].clone());
        }
        if let Some((server, original)) = self.address(uri) {
            return Some(Target {
                server: server.clone(),
                original: original.into(),
            });
        }
        let owner = self
            .templates
            .targets
            .iter()
            .find(|target| template_matches(&target.original, uri))?;
        Some(Target {
            server: owner.server.clone(),
            original: uri.into(),
        })
    }

    /// The server whose template this is (`completion/complete` names templates literally).
    pub fn template(&self, template: &str) -> Option<&Target> {
        let index = self.by_template.get(template)?;
        Some(&self.templates.targets[*index])
    }

    /// Reads `mainstay+<server>:<uri>`.
    fn address<'a>(&self, uri: &'a str) -> Option<(&ServerName, &'a str)> {
        let (server, original) = uri.strip_prefix("mainstay+")?.split_once(':')?;
        let part = self
            .parts
            .iter()
            .find(|part| part.server.as_str() == server)?;
        Some((&part.server, original))
    }
}

/// Two tools of one name, each with the name that it has for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash<'a> {
    pub renamed: (&'a Target, &'a str),
    pub evaded: (&'a Target, &'a str),
}

/// The URI under which a resource or template is listed: its own, or, where another server offers
/// the same, its address.
fn expose_uri(server: &ServerName, uri: &str, taken: &HashMap<Box<str>, usize>) -> Box<str> {
    if taken.contains_key(uri) {
        addressed(server, uri).into()
    } else {
        uri.into()
    }
}

fn addressed(server: &ServerName, uri: &str) -> String {
    format!("mainstay+{server}:{uri}")
}

/// Whether a URI may come from this template (RFC 6570): its literal parts occur in order, and each
/// expression stands for at least one character.
fn template_matches(template: &str, uri: &str) -> bool {
    let mut literals = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else {
            return false;
        };
        literals.push(&rest[..open]);
        rest = &rest[open + close + 1..];
    }
    let (Some((first, middle)), last) = (literals.split_first(), rest) else {
        return template == uri;
    };
    let Some(mut left) = uri.strip_prefix(first) else {
        return false;
    };
    for literal in middle {
        let Some(at) = left
            .char_indices()
            .skip(1)
            .map(|(at, _)| at)
            .find(|&at| left[at..].starts_with(literal))
        else {
            return false;
        };
        left = &left[at + literal.len()..];
    }
    left.len() > last.len() && left.ends_with(last)
}
