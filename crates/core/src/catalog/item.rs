//! A server's list, as it is read: of each item only its key (name or URI), and where that stands.

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::{
    era::Capabilities,
    message::{self, Method, Span},
};

/// The four lists of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The list that this method asks for.
    pub fn of(method: Method) -> Option<Self> {
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

    /// The member of the result that holds the items.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member that identifies an item.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The notification by which a server says that this list changed.
    pub fn changed(self) -> Method {
        match self {
            Self::Tools => Method::ToolsChanged,
            Self::Prompts => Method::PromptsChanged,
            Self::Resources | Self::Templates => Method::ResourcesChanged,
        }
    }

    /// Whether a server with these capabilities has this list.
    pub fn offered(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::Tools => capabilities.tools,
            Self::Prompts => capabilities.prompts,
            Self::Resources | Self::Templates => capabilities.resources,
        }
    }
}

/// One tool, prompt, resource or template, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name, URI or URI template.
    pub key: Box<str>,
    pub raw: Box<str>,
    key_span: Span,
}

impl Item {
    pub(super) fn read(kind: ListKind, raw: &str) -> Option<Self> {
        let raw: Box<str> = message::one_line(raw).into();
        let key = message::text_member(&raw, kind.key())?
            .into_owned()
            .into_boxed_str();
        let key_span = message::locate(&raw, Span::whole(&raw), &[kind.key()])?;
        Some(Self { key, raw, key_span })
    }

    /// The item under another key.
    pub(super) fn under(&self, key: &str) -> Box<str> {
        if *key == *self.key {
            return self.raw.clone();
        }
        message::splice(&self.raw, &mut [(self.key_span, &message::quote(key))]).into()
    }

    /// A member that holds a text, for surfaces that show a few of them.
    pub fn text(&self, member: &str) -> Option<String> {
        message::text_member(&self.raw, member).map(std::borrow::Cow::into_owned)
    }

    /// A member as it stands.
    pub fn member(&self, member: &str) -> Option<&str> {
        message::member(&self.raw, member)
    }
}

/// One page of a server's list.
#[derive(Debug)]
pub struct Page {
    pub items: Vec<Item>,
    /// Items without a key, which nobody could address.
    pub unusable: usize,
    pub next_cursor: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("the server's answer to {method} is no list", method = kind.method().name())]
pub struct NotAList {
    kind: ListKind,
    #[source]
    source: Option<serde_json::Error>,
}

/// Reads one page out of a list result.
pub fn page(kind: ListKind, result: &str) -> Result<Page, NotAList> {
    let not_a_list = |source| NotAList { kind, source };
    let list = message::member(result, kind.member()).ok_or_else(|| not_a_list(None))?;
    let raws: Vec<&RawValue> =
        serde_json::from_str(list).map_err(|error| not_a_list(Some(error)))?;
    let items: Vec<Item> = raws
        .iter()
        .filter_map(|raw| Item::read(kind, raw.get()))
        .collect();
    Ok(Page {
        unusable: raws.len() - items.len(),
        items,
        next_cursor: message::text_member(result, "nextCursor").map(std::borrow::Cow::into_owned),
    })
}

/// A short word that differs where any of the parts does.
pub fn digest_of(parts: &[&str]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let bytes = hash.finalize();
    bytes.iter().take(16).fold(String::new(), |mut word, byte| {
        let _ = write!(word, "{byte:02x}");
        word
    })
}
