//! The items of a server's lists. Of each item, only the key (name or URI) is read.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::{
    access::ToolEffect,
    era::Capabilities,
    message::{self, Method, Span},
};

/// A kind of list in MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The list that this method requests. `None` for other methods.
    pub fn for_method(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    pub fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
        }
    }

    /// The member of the result with the items.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member that identifies an item.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The notification that this list has changed.
    pub fn changed(self) -> Method {
        match self {
            Self::Tools => Method::ToolsChanged,
            Self::Prompts => Method::PromptsChanged,
            Self::Resources | Self::Templates => Method::ResourcesChanged,
        }
    }

    /// True if a server with these capabilities has this list.
    pub fn offered(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Tools => capabilities.tools,
            Self::Prompts => capabilities.prompts,
            Self::Resources | Self::Templates => capabilities.resources,
        }
    }
}

/// Memory that an item needs besides its text: entries in the lists and name tables of all
/// profiles. It also limits lists of many tiny items.
pub const ITEM_OVERHEAD: usize = 512;

/// One tool, prompt, resource or template, as JSON text on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogItem {
    /// The name, URI or URI template.
    pub key: Box<str>,
    pub raw: Box<str>,
    /// The effect of a tool. Items of other kinds have the default.
    pub effect: ToolEffect,
    key_span: Span,
}

impl CatalogItem {
    pub(super) fn read(kind: ListKind, raw: &str) -> Option<Self> {
        let raw: Box<str> = message::one_line(raw).into();
        let key = message::text_member(&raw, kind.key())?
            .into_owned()
            .into_boxed_str();
        let key_span = message::locate(&raw, Span::whole(&raw), &[kind.key()])?;
        let effect = match kind {
            ListKind::Tools => ToolEffect::from_tool(&raw),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => ToolEffect::default(),
        };
        Some(Self {
            key,
            raw,
            effect,
            key_span,
        })
    }

    /// Returns the item as JSON text with another key.
    pub(super) fn with_key(&self, key: &str) -> Box<str> {
        if *key == *self.key {
            return self.raw.clone();
        }
        message::splice(&self.raw, &mut [(self.key_span, &message::quote(key))]).into()
    }

    /// Approximate memory of the item, in bytes.
    pub fn size(&self) -> usize {
        self.key.len() + self.raw.len() + ITEM_OVERHEAD
    }

    /// The value of a string member, for display.
    pub fn text(&self, member: &str) -> Option<String> {
        message::shown_member(&self.raw, member).map(std::borrow::Cow::into_owned)
    }

    /// The value of a member, as JSON text.
    pub fn member(&self, member: &str) -> Option<&str> {
        message::member(&self.raw, member)
    }
}

/// One page of a server's list.
#[derive(Debug)]
pub struct ListPage {
    pub items: Vec<CatalogItem>,
    /// Number of items without a key. They cannot be used.
    pub unusable: usize,
    /// True if items beyond the limit were dropped.
    pub is_cut: bool,
    /// The cursor as JSON text, to send back unchanged. It may be any JSON value.
    pub next_cursor: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("the server's answer to {method} is no list", method = kind.method().name())]
pub struct NotAList {
    kind: ListKind,
    #[source]
    source: Option<serde_json::Error>,
}

/// Reads one page of a list from a result (JSON text), with at most `max` items.
pub fn page(kind: ListKind, result: &str, max: usize) -> Result<ListPage, NotAList> {
    let not_a_list = |source| NotAList { kind, source };
    let list = message::member(result, kind.member()).ok_or_else(|| not_a_list(None))?;
    let mut deserializer = serde_json::Deserializer::from_str(list);
    let items = deserializer.deserialize_seq(Items { kind, max });
    let items = items.map_err(|error| not_a_list(Some(error)))?;
    Ok(ListPage {
        unusable: items.unusable,
        is_cut: items.is_cut,
        items: items.items,
        next_cursor: next_cursor(result).map(str::to_owned),
    })
}

/// The cursor of the next page (JSON text), from a result (JSON text).
pub fn next_cursor(result: &str) -> Option<&str> {
    message::member(result, "nextCursor").filter(|cursor| *cursor != "null")
}

/// Reads an array item by item, so that items beyond `max` need no memory.
struct Items {
    kind: ListKind,
    max: usize,
}

#[derive(Default)]
struct ReadItems {
    items: Vec<CatalogItem>,
    unusable: usize,
    is_cut: bool,
}

impl<'de> Visitor<'de> for Items {
    type Value = ReadItems;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ReadItems, A::Error> {
        let mut items = ReadItems::default();
        while items.items.len() < self.max {
            let Some(raw) = seq.next_element::<&RawValue>()? else {
                return Ok(items);
            };
            match CatalogItem::read(self.kind, raw.get()) {
                Some(item) => items.items.push(item),
                None => items.unusable += 1,
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            items.is_cut = true;
        }
        Ok(items)
    }
}

/// Returns a short digest of the parts. Different splits of the same text have different digests.
pub fn digest_of(parts: &[&str]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let bytes = hash.finalize();
    bytes.iter().take(16).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
