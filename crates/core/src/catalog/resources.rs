//! Finds the owner of a resource: by the lists, by Mainstay's own addresses, or by templates.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use super::{
    CatalogItem, Claims, ItemTarget, ListKind, Part,
    listing::Listing,
    pages::{Pages, is_page},
};
use crate::{config::ProfileConfig, ids::ServerName};

/// The scheme of Mainstay's own URIs. `mainstay+SERVER:URI` is the address of a resource, and
/// `mainstay://objects/CID` is an object.
const SCHEME: &str = "mainstay";

/// The server of a profile to which a URI belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Server(ItemTarget),
    /// The URI belongs to this server, which does not offer it now. `None` if the URI has
    /// Mainstay's scheme and names no server of the profile. No other server may get the request.
    Absent(Option<ServerName>),
    /// Each of these servers has a page with the URI. The URI alone does not tell which page is
    /// meant, so no server gets the request.
    Shared(Vec<ServerName>),
    /// The URI is in no list. Only the servers themselves know it.
    Unlisted,
}

impl Owner {
    /// The target of requests for the URI, if it is known.
    pub fn target(self) -> Option<ItemTarget> {
        match self {
            Self::Server(target) => Some(target),
            Self::Absent(_) | Self::Shared(_) | Self::Unlisted => None,
        }
    }
}

/// The resources and templates of a merged catalog, with the owners of their URIs.
#[derive(Debug, Default)]
pub struct MergedResources {
    pub listing: Listing,
    by_uri: HashMap<Box<str>, usize>,
    pub templates: Listing,
    by_template: HashMap<Box<str>, usize>,
    /// Templates, most specific first, then in configuration order. Includes dropped templates.
    patterns: Vec<Pattern>,
    /// The servers that offered a URI or template earlier in this run.
    gone: HashMap<Box<str>, ServerName>,
    pages: Pages,
    /// The servers that an address may name.
    servers: HashMap<Box<str>, ServerName>,
    claims: Arc<Claims>,
}

/// A template with its server.
#[derive(Debug)]
struct Pattern {
    server: ServerName,
    template: Arc<str>,
    is_gone: bool,
}

impl MergedResources {
    /// Merges the parts of the profile's servers, which are in configuration order.
    pub fn merge(parts: &[Part], profile: &ProfileConfig, claims: &Arc<Claims>) -> Self {
        let mut resources = Self {
            claims: Arc::clone(claims),
            ..Self::default()
        };
        let dropped_items = |kind| {
            let dropped_keys = claims.dropped_keys(kind);
            dropped_keys.filter(|(server, _)| profile.has_server(server))
        };
        for (server, key) in
            dropped_items(ListKind::Resources).chain(dropped_items(ListKind::Templates))
        {
            resources
                .gone
                .entry(key.into())
                .or_insert_with(|| server.clone());
        }
        for (server, uri) in dropped_items(ListKind::Resources) {
            resources.pages.add(uri, server, false);
        }
        for Part {
            server, catalog, ..
        } in parts
        {
            for page in &catalog.resources {
                resources.pages.add(&page.key, server, true);
            }
            for tool in &catalog.tools {
                resources.pages.add_of_tool(tool, server);
            }
        }
        let places = claims.places();
        for part in parts {
            // A URI belongs to the first server in the file that offers it or has offered it.
            let is_others = |uri: &str| {
                let owner = resources.gone.get(uri);
                resources.pages.is_shared(uri)
                    || owner.is_some_and(|owner| places.get(owner) < places.get(&part.server))
            };
            let name = part.server.as_str().into();
            resources.servers.insert(name, part.server.clone());
            for item in &part.catalog.resources {
                let list = (&mut resources.listing, &mut resources.by_uri);
                add(list, &part.server, item, is_others(&item.key));
            }
            for item in &part.catalog.templates {
                let list = (&mut resources.templates, &mut resources.by_template);
                add(list, &part.server, item, is_others(&item.key));
            }
        }
        let listed_patterns = resources.templates.targets.iter().map(|target| Pattern {
            server: target.server.clone(),
            template: Arc::clone(&target.original),
            is_gone: false,
        });
        let dropped_patterns =
            dropped_items(ListKind::Templates).map(|(server, template)| Pattern {
                server: server.clone(),
                template: template.into(),
                is_gone: true,
            });
        resources.patterns = listed_patterns.chain(dropped_patterns).collect();
        // A template with a longer literal beginning is more specific.
        resources.patterns.sort_by_cached_key(|pattern| {
            let literal_length = pattern.template.find('{').unwrap_or(pattern.template.len());
            (
                Reverse(literal_length),
                places.get(&pattern.server).copied(),
            )
        });
        resources.listing = resources.listing.seal();
        resources.templates = resources.templates.seal();
        resources
    }

    /// Finds the owner of a URI: in the list, by its address, or by a template.
    pub fn owner(&self, uri: &str) -> Owner {
        if is_page(uri) {
            return self.page_owner(uri);
        }
        if let Some(index) = self.by_uri.get(uri) {
            return Owner::Server(self.listing.targets[*index].clone());
        }
        if is_ours(uri) {
            return self.find_by_address(uri);
        }
        if let Some(server) = self.gone.get(uri) {
            return Owner::Absent(Some(server.clone()));
        }
        let pattern = self
            .patterns
            .iter()
            .find(|pattern| template_matches(&pattern.template, uri));
        match pattern {
            Some(pattern) if pattern.is_gone => Owner::Absent(Some(pattern.server.clone())),
            Some(pattern) => Owner::Server(ItemTarget::new(pattern.server.clone(), uri)),
            None => Owner::Unlisted,
        }
    }

    /// Finds the owner of a page: the only server that lists the page or whose tools refer to it,
    /// or else the only server with a matching template.
    fn page_owner(&self, uri: &str) -> Owner {
        let mut servers: Vec<(&ServerName, bool)> = self
            .pages
            .servers(uri)
            .iter()
            .map(|server| (&server.name, server.is_offered))
            .collect();
        if servers.is_empty() {
            let matching_patterns = self.patterns.iter().filter(|pattern| {
                is_page(&pattern.template) && template_matches(&pattern.template, uri)
            });
            for pattern in matching_patterns {
                let is_offered = !pattern.is_gone;
                match servers
                    .iter_mut()
                    .find(|(server, _)| **server == pattern.server)
                {
                    Some((_, offered)) => *offered |= is_offered,
                    None => servers.push((&pattern.server, is_offered)),
                }
            }
        }
        match servers[..] {
            [] => Owner::Unlisted,
            [(server, true)] => Owner::Server(ItemTarget::new(server.clone(), uri)),
            [(server, false)] => Owner::Absent(Some(server.clone())),
            _ => {
                let names = servers.into_iter().map(|(server, _)| server.clone());
                Owner::Shared(names.collect())
            }
        }
    }

    pub fn template(&self, template: &str) -> Option<&ItemTarget> {
        let index = self.by_template.get(template)?;
        Some(&self.templates.targets[*index])
    }

    /// Finds the server of an address `mainstay+SERVER:URI`.
    fn find_by_address(&self, uri: &str) -> Owner {
        let address = uri
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.strip_prefix('+'));
        let Some((server, original)) = address.and_then(|address| address.split_once(':')) else {
            return Owner::Absent(None);
        };
        match self.servers.get(server) {
            Some(server) => Owner::Server(ItemTarget::new(server.clone(), original)),
            None => Owner::Absent(self.claims.server(server).cloned()),
        }
    }
}

/// Returns the address of a server's resource. Addresses of different servers differ.
pub fn address(server: &ServerName, uri: &str) -> String {
    format!("{SCHEME}+{server}:{uri}")
}

/// Adds an item under its URI. The item gets its address if another server owns the URI, or if the
/// URI looks like one of Mainstay's.
fn add(
    (listing, indexes): (&mut Listing, &mut HashMap<Box<str>, usize>),
    server: &ServerName,
    item: &CatalogItem,
    is_others: bool,
) {
    let uri = &item.key;
    let exposed = if is_others || indexes.contains_key(uri) || is_ours(uri) {
        address(server, uri).into()
    } else {
        uri.clone()
    };
    listing.push(server, item, &exposed);
    indexes.insert(exposed, listing.targets.len() - 1);
}

/// True if a lenient parser would read Mainstay's scheme in this URI.
fn is_ours(uri: &str) -> bool {
    let uri = uri.trim_start_matches(|c: char| !c.is_ascii_graphic());
    let (scheme, rest) = uri.split_at_checked(SCHEME.len()).unwrap_or_default();
    scheme.eq_ignore_ascii_case(SCHEME) && rest.starts_with(['+', ':'])
}

/// True if a URI matches a template (RFC 6570): the literal parts occur in order, with at least one
/// character for each expression.
pub fn template_matches(template: &str, uri: &str) -> bool {
    let mut literals = Vec::new();
    let mut rest = template;
    while let Some(open_index) = rest.find('{') {
        let Some(close_index) = rest[open_index..].find('}') else {
            return false;
        };
        literals.push(&rest[..open_index]);
        rest = &rest[open_index + close_index + 1..];
    }
    let (Some((first_literal, middle_literals)), last_literal) = (literals.split_first(), rest)
    else {
        return template == uri;
    };
    let Some(mut remaining) = uri.strip_prefix(first_literal) else {
        return false;
    };
    for literal in middle_literals {
        let Some(index) = remaining
            .char_indices()
            .skip(1)
            .map(|(index, _)| index)
            .find(|&index| remaining[index..].starts_with(literal))
        else {
            return false;
        };
        remaining = &remaining[index + literal.len()..];
    }
    remaining.len() > last_literal.len() && remaining.ends_with(last_literal)
}
