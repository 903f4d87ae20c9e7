//! A list with exposed keys, as the clients of a profile see it.

use std::{borrow::Cow, collections::HashMap};

use sha2::{Digest as _, Sha256};

use super::{CatalogItem, Claims, ItemTarget, ListKind, Part};
use crate::{
    config::{Naming, ProfileConfig, ToolEdit},
    ids::ServerName,
    message::JsonObjectEditor,
    names::{NameOrigin, NameTable, Rules},
};

/// One list of a profile.
#[derive(Debug, Default)]
pub struct Listing {
    pub targets: Vec<ItemTarget>,
    /// The items as JSON text with exposed keys, in the order of `targets`.
    pub items: Vec<Box<str>>,
    /// Total size of the items, in bytes.
    pub bytes: usize,
    /// A digest that changes if and only if the list changes.
    pub digest: [u8; 32],
}

impl Listing {
    pub fn push(&mut self, server: &ServerName, item: &CatalogItem, exposed: &str) {
        self.add(server, item, item.with_key(exposed));
    }

    fn add(&mut self, server: &ServerName, item: &CatalogItem, text: Box<str>) {
        self.targets.push(ItemTarget {
            server: server.clone(),
            original: (*item.key).into(),
            effect: item.effect,
        });
        self.bytes += text.len();
        self.items.push(text);
    }

    pub fn seal(mut self) -> Self {
        let mut hash = Sha256::new();
        for item in &self.items {
            hash.update(item.as_bytes());
            hash.update([0]);
        }
        self.digest = hash.finalize().into();
        self
    }
}

pub fn tools(
    parts: &[Part],
    profile: &ProfileConfig,
    naming: Naming,
    max_length: usize,
    claims: &Claims,
) -> (Listing, NameTable) {
    let visible_items: Vec<(&Part, &CatalogItem, Option<&ToolEdit>)> = parts
        .iter()
        .flat_map(|part| {
            part.visible_items(ListKind::Tools)
                .map(move |item| (part, item))
        })
        .filter(|(part, item)| profile.has_tool(&part.server, &item.key))
        .map(|(part, item)| (part, item, profile.edit(&part.server, &item.key)))
        .collect();
    let origins: Vec<NameOrigin<'_>> = visible_items
        .iter()
        .map(|(part, item, edit)| NameOrigin {
            server: &part.server,
            original: &item.key,
            renamed: edit.and_then(|edit| edit.name.as_deref()),
        })
        .collect();
    let rules = Rules {
        naming,
        max_length,
        reserved: &|name| profile.is_reserved(name),
        servers: claims.names(),
        gone: &dropped_names(claims, ListKind::Tools, |server, tool| {
            profile.has_server(server) && profile.has_tool(server, tool)
        }),
    };
    let table = NameTable::build(&origins, &rules);
    let mut listing = Listing::default();
    for (index, (part, item, edit)) in visible_items.into_iter().enumerate() {
        let text = item.with_key(table.exposed(index));
        let text = if part.cuts_results {
            without_output_schema(&text).into()
        } else {
            text
        };
        let text = match edit.and_then(|edit| edit.description.as_deref()) {
            Some(description) => with_description(&text, description),
            None => text,
        };
        listing.add(&part.server, item, text);
    }
    (listing.seal(), table)
}

/// Removes `outputSchema` from a tool (JSON text).
pub fn without_output_schema(tool: &str) -> Cow<'_, str> {
    let mut editor = JsonObjectEditor::read(tool).unwrap_or_default();
    if editor.remove("outputSchema") {
        Cow::Owned(editor.to_string())
    } else {
        Cow::Borrowed(tool)
    }
}

/// Replaces the description of an item (JSON text).
fn with_description(item: &str, description: &str) -> Box<str> {
    let mut object = JsonObjectEditor::read(item).unwrap_or_default();
    object.set_text("description", description);
    object.to_string().into()
}

/// The original names that a profile's servers no longer offer. Names that contain another server
/// are left out.
fn dropped_names(
    claims: &Claims,
    kind: ListKind,
    is_part: impl Fn(&ServerName, &str) -> bool,
) -> HashMap<&str, Vec<&ServerName>> {
    let mut dropped_names: HashMap<&str, Vec<&ServerName>> = HashMap::new();
    for (server, name) in claims.dropped_keys(kind) {
        if is_part(server, name) && claims.names().may_lead(name, server) {
            dropped_names.entry(name).or_default().push(server);
        }
    }
    dropped_names
}

pub fn prompts(
    parts: &[Part],
    profile: &ProfileConfig,
    naming: Naming,
    max_length: usize,
    claims: &Claims,
) -> (Listing, NameTable) {
    let visible_items: Vec<(&ServerName, &CatalogItem)> = parts
        .iter()
        .flat_map(|part| {
            let items = part.catalog.prompts.iter();
            items.map(move |item| (&part.server, item))
        })
        .collect();
    let origins: Vec<NameOrigin<'_>> = visible_items
        .iter()
        .map(|(server, item)| NameOrigin {
            server,
            original: &item.key,
            renamed: None,
        })
        .collect();
    let rules = Rules {
        naming,
        max_length,
        reserved: &|_| false,
        servers: claims.names(),
        gone: &dropped_names(claims, ListKind::Prompts, |server, _| {
            profile.has_server(server)
        }),
    };
    let table = NameTable::build(&origins, &rules);
    let mut listing = Listing::default();
    for (index, (server, item)) in visible_items.into_iter().enumerate() {
        listing.push(server, item, table.exposed(index));
    }
    (listing.seal(), table)
}
