//! Pages of tools (MCP Apps): resources with `ui://` URIs. A tool refers to its page by a URI
//! without a server. If several servers have a page with this URI, the URI alone is ambiguous. A
//! page of one server must not show data of another server's tool.

use std::collections::HashMap;

use super::CatalogItem;
use crate::{
    ids::ServerName,
    message::{member, text_member},
};

const SCHEME: &str = "ui://";

/// The servers that have each page, by URI.
#[derive(Debug, Default)]
pub struct Pages(HashMap<Box<str>, Vec<PageServer>>);

#[derive(Debug)]
pub struct PageServer {
    pub name: ServerName,
    /// False if the server no longer offers the page.
    pub is_offered: bool,
}

/// True if this is the URI or URI template of a page.
pub fn is_page(uri: &str) -> bool {
    let prefix = uri.as_bytes().get(..SCHEME.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

impl Pages {
    /// Adds a server to a page. Ignores resources that are not pages.
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

    /// Adds the pages that a tool refers to. All of them count as offered.
    pub fn add_of_tool(&mut self, tool: &CatalogItem, server: &ServerName) {
        if memchr::memmem::find(tool.raw.as_bytes(), SCHEME.as_bytes()).is_none() {
            return;
        }
        let Some(meta) = member(&tool.raw, "_meta") else {
            return;
        };
        // The members of the extension, of its draft, and of older clients.
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

    /// True if more than one server has the page.
    pub fn is_shared(&self, uri: &str) -> bool {
        self.servers(uri).len() > 1
    }
}
