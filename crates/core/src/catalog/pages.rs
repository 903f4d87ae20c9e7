//! Pages of tools (MCP Apps): resources whose URIs begin with `ui://`. A tool refers to its page by
//! a URI without a server name. If several servers have a page with the same URI, the URI does not
//! identify the page. A page of another server must not show the tool's data.

use std::collections::HashMap;

use super::CatalogItem;
use crate::{
    ids::ServerName,
    message::{member, text_member},
};

const SCHEME: &str = "ui://";

/// The servers of each page, by URI.
#[derive(Debug, Default)]
pub struct Pages(HashMap<Box<str>, Vec<PageServer>>);

#[derive(Debug)]
pub struct PageServer {
    pub name: ServerName,
    /// True if the server offers the page now.
    pub is_offered: bool,
}

/// True if this is the URI of a page, or a template of such URIs.
pub fn is_page(uri: &str) -> bool {
    let prefix = uri.as_bytes().get(..SCHEME.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

impl Pages {
    /// Adds the server of a page. Other resources are ignored.
    pub fn add(&mut self, uri: &str, server: &ServerName, is_offered: bool) {
        if !is_page(uri) {
            return;
        }
        let servers = self.0.entry(uri.into()).or_default();
        match servers.iter_mut().find(|entry| entry.name == *server) {
            Some(entry) => entry.is_offered |= is_offered,
            None => servers.push(PageServer {
                name: server.clone(),
                is_offered,
            }),
        }
    }

    /// Adds the pages that a tool refers to.
    pub fn add_of_tool(&mut self, tool: &CatalogItem, server: &ServerName) {
        if memchr::memmem::find(tool.raw.as_bytes(), SCHEME.as_bytes()).is_none() {
            return;
        }
        let Some(meta) = member(&tool.raw, "_meta") else {
            return;
        };
        // Member names of the extension, of its draft, and of earlier clients.
        let page_uris = [
            member(meta, "ui").and_then(|ui| text_member(ui, "resourceUri")),
            text_member(meta, "ui/resourceUri"),
            text_member(meta, "openai/outputTemplate"),
        ];
        for uri in page_uris.into_iter().flatten() {
            self.add(&uri, server, true);
        }
    }

    pub fn servers(&self, uri: &str) -> &[PageServer] {
        self.0.get(uri).map_or(&[], Vec::as_slice)
    }

    /// True if several servers have the page.
    pub fn is_shared(&self, uri: &str) -> bool {
        self.servers(uri).len() > 1
    }
}
