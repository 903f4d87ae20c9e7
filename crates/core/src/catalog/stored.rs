//! The JSON text of a server's catalog and eras, stored for the next run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CatalogItem, ListKind, NotAList, ServerCatalog, page};
use crate::era::{Capabilities, Eras, bounded_instructions};

/// A stored catalog, with the digest of the server's launch.
#[derive(Debug)]
pub struct StoredCatalog {
    pub launch: String,
    /// Digests of the client capabilities that the server saw when it offered this catalog.
    pub declared: Vec<String>,
    pub catalog: ServerCatalog,
    pub eras: Eras,
}

/// The error of a text that is not a stored catalog.
#[derive(Debug, thiserror::Error)]
pub enum UnusableCatalog {
    #[error("not a kept catalog")]
    Malformed(#[from] serde_json::Error),
    #[error("a list is missing")]
    List(#[from] NotAList),
}

/// The members of the text other than the lists.
#[derive(Serialize, Deserialize)]
struct Head {
    launch: String,
    #[serde(default)]
    declared: Vec<String>,
    capabilities: Capabilities,
    instructions: Option<String>,
    #[serde(default)]
    eras: Eras,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(flatten)]
    head: Head,
    tools: Vec<&'a RawValue>,
    prompts: Vec<&'a RawValue>,
    resources: Vec<&'a RawValue>,
    #[serde(rename = "resourceTemplates")]
    templates: Vec<&'a RawValue>,
}

impl StoredCatalog {
    /// Reads a stored catalog, with at most `max_items` items in each list.
    pub fn read(text: &str, max_items: usize) -> Result<Self, UnusableCatalog> {
        let head: Head = serde_json::from_str(text)?;
        let mut catalog = ServerCatalog {
            capabilities: head.capabilities,
            instructions: head.instructions.map(bounded_instructions),
            ..ServerCatalog::default()
        };
        for kind in ListKind::ALL {
            catalog.set(kind, page(kind, text, max_items)?.items);
        }
        Ok(Self {
            launch: head.launch,
            declared: head.declared,
            catalog,
            eras: head.eras,
        })
    }

    pub fn write(launch: &str, declared: &[String], catalog: &ServerCatalog, eras: Eras) -> String {
        let text = Text {
            head: Head {
                launch: launch.to_owned(),
                declared: declared.to_vec(),
                capabilities: catalog.capabilities,
                instructions: catalog.instructions.clone(),
                eras,
            },
            tools: raw(&catalog.tools),
            prompts: raw(&catalog.prompts),
            resources: raw(&catalog.resources),
            templates: raw(&catalog.templates),
        };
        serde_json::to_string(&text).expect("raw JSON and plain members are serialized")
    }
}

/// The items as JSON. Each item was parsed before, so none is skipped.
fn raw(items: &[CatalogItem]) -> Vec<&RawValue> {
    items
        .iter()
        .filter_map(|item| serde_json::from_str(&item.raw).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::Era;

    #[test]
    fn a_stored_catalog_is_read_back_byte_for_byte() {
        let tools = r#"{"tools":[{"inputSchema":{"n":1e3},"name":"a","x":[]},{"name":"b"}]}"#;
        let mut catalog = ServerCatalog {
            instructions: Some("say \"please\"".to_owned()),
            ..ServerCatalog::default()
        };
        catalog.capabilities.tools = true;
        let list_page = page(ListKind::Tools, tools, 9).expect("a list");
        catalog.set(ListKind::Tools, list_page.items);
        let eras = Eras::only(Era::Modern);
        let capability_digests = ["d".to_owned()];
        let text = StoredCatalog::write("x", &capability_digests, &catalog, eras);
        let stored_catalog = StoredCatalog::read(&text, 9).expect("readable");
        assert_eq!(stored_catalog.declared, capability_digests);
        assert_eq!(
            (
                stored_catalog.launch.as_str(),
                stored_catalog.catalog,
                stored_catalog.eras
            ),
            ("x", catalog, eras)
        );
    }

    #[test]
    fn an_invalid_catalog_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"launch":"x","capabilities":{},"instructions":null}"#,
        ] {
            StoredCatalog::read(text, 9).expect_err(text);
        }
    }
}
