//! What servers offer: one server's lists, and all of them merged into what a client sees.
//!
//! Items travel as the bytes that came; of each only its key (name or URI) is read, and replaced
//! where the exposed one differs (invariant 5).

mod kept;

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

pub use self::kept::{KeptCatalog, Unusable};
use crate::{
    config::{Naming, Profile, ToolEdit, Withheld},
    era::Capabilities,
    ids::ServerName,
    message::{self, Method, Object, Span},
    names::{NameTable, Origin, Unresolved},
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
    fn key(self) -> &'static str {
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
    fn read(kind: ListKind, raw: &str) -> Option<Self> {
        let raw: Box<str> = message::one_line(raw).into();
        let key = message::text_member(&raw, kind.key())?
            .into_owned()
            .into_boxed_str();
        let key_span = message::locate(&raw, Span::whole(&raw), &[kind.key()])?;
        Some(Self { key, raw, key_span })
    }

    /// The item under another key.
    fn under(&self, key: &str) -> Box<str> {
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

/// One list as clients see it.
#[derive(Debug, Default)]
struct Listing {
    targets: Vec<Target>,
    /// The items under their exposed keys, parallel to `targets`.
    items: Vec<Box<str>>,
    /// Changes exactly when the list does.
    digest: [u8; 32],
}

impl Listing {
    fn push(&mut self, server: &ServerName, item: &Item, exposed: &str) {
        self.add(server, item, item.under(exposed));
    }

    fn add(&mut self, server: &ServerName, item: &Item, text: Box<str>) {
        self.targets.push(Target {
            server: server.clone(),
            original: (*item.key).into(),
        });
        self.items.push(text);
    }

    fn seal(mut self) -> Self {
        let mut hash = Sha256::new();
        for item in &self.items {
            hash.update(item.as_bytes());
            hash.update([0]);
        }
        self.digest = hash.finalize().into();
        self
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

fn tools(
    parts: &[Part],
    profile: &Profile,
    naming: Naming,
    max_length: usize,
) -> (Listing, NameTable) {
    let shown: Vec<(&Part, &Item, Option<&ToolEdit>)> = parts
        .iter()
        .flat_map(|part| part.shown(ListKind::Tools).map(move |item| (part, item)))
        .filter(|(part, item)| profile.has_tool(&part.server, &item.key))
        .map(|(part, item)| (part, item, profile.edit(&part.server, &item.key)))
        .collect();
    let origins: Vec<Origin<'_>> = shown
        .iter()
        .map(|(part, item, edit)| Origin {
            server: &part.server,
            original: &item.key,
            renamed: edit.and_then(|edit| edit.name.as_deref()),
        })
        .collect();
    let reserved = |name: &str| profile.is_reserved(name);
    let table = NameTable::build(&origins, naming, max_length, reserved);
    let mut listing = Listing::default();
    for (index, (part, item, edit)) in shown.into_iter().enumerate() {
        let text = item.under(table.exposed(index));
        let text = if part.cuts_results {
            without_output_schema(&text).into()
        } else {
            text
        };
        let text = match edit.and_then(|edit| edit.description.as_deref()) {
            Some(description) => described(&text, description),
            None => text,
        };
        listing.add(&part.server, item, text);
    }
    (listing.seal(), table)
}

/// A tool (JSON text) that promises nothing of its results.
pub fn without_output_schema(tool: &str) -> Cow<'_, str> {
    let mut changed = Object::read(tool).unwrap_or_default();
    if changed.remove("outputSchema") {
        Cow::Owned(changed.to_string())
    } else {
        Cow::Borrowed(tool)
    }
}

/// An item with this description; nothing else of it changes.
fn described(item: &str, description: &str) -> Box<str> {
    let mut object = Object::read(item).unwrap_or_default();
    object.set_text("description", description);
    object.to_string().into()
}

fn prompts(parts: &[Part], naming: Naming, max_length: usize) -> (Listing, NameTable) {
    let shown: Vec<(&ServerName, &Item)> = parts
        .iter()
        .flat_map(|part| {
            let prompts = part.catalog.prompts.iter();
            prompts.map(move |item| (&part.server, item))
        })
        .collect();
    let origins: Vec<Origin<'_>> = shown
        .iter()
        .map(|(server, item)| Origin {
            server,
            original: &item.key,
            renamed: None,
        })
        .collect();
    let table = NameTable::build(&origins, naming, max_length, |_| false);
    let mut listing = Listing::default();
    for (index, (server, item)) in shown.into_iter().enumerate() {
        listing.push(server, item, table.exposed(index));
    }
    (listing.seal(), table)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ProfileName;

    fn part(server: &str, tools: &[&str], resources: &[&str], templates: &[&str]) -> Part {
        let list = |kind: ListKind, keys: &[&str]| {
            let items: Vec<String> = keys
                .iter()
                .map(|key| format!(r#"{{"x":1e3,"{}":"{key}","z":null}}"#, kind.key()))
                .collect();
            page(
                kind,
                &format!(r#"{{"{}":[{}]}}"#, kind.member(), items.join(",")),
            )
            .expect("a list")
            .items
        };
        let mut catalog = ServerCatalog::default();
        catalog.set(ListKind::Tools, list(ListKind::Tools, tools));
        catalog.set(ListKind::Resources, list(ListKind::Resources, resources));
        catalog.set(ListKind::Templates, list(ListKind::Templates, templates));
        Part {
            server: ServerName::new(server).expect("a legal name"),
            catalog: Arc::new(catalog),
            withheld: Withheld::default(),
            cuts_results: false,
        }
    }

    fn merged(parts: Vec<Part>) -> Catalog {
        let everything = Profile::everything(ProfileName::default());
        Catalog::merge(parts, &everything, Naming::DoubleUnderscore, 48)
    }

    /// J4: the same tool name on two servers: both present. Invariant 5: only the name changes.
    #[test]
    fn tools_are_listed_under_their_exposed_names_and_are_otherwise_untouched() {
        let catalog = merged(vec![
            part("a", &["t"], &[], &[]),
            part("b", &["t"], &[], &[]),
        ]);
        assert_eq!(
            catalog
                .items(ListKind::Tools)
                .iter()
                .map(|item| &**item)
                .collect::<Vec<_>>(),
            [
                r#"{"x":1e3,"name":"a__t","z":null}"#,
                r#"{"x":1e3,"name":"b__t","z":null}"#
            ]
        );
        assert_eq!(catalog.tool("b__t").expect("known").server.as_str(), "b");
    }

    #[test]
    fn disabled_tools_are_neither_listed_nor_callable() {
        let mut part = part("a", &["open", "shut"], &[], &[]);
        part.withheld.disabled = Arc::new(["shut".to_owned()]);
        let catalog = merged(vec![part]);
        assert_eq!(catalog.items(ListKind::Tools).len(), 1);
        assert_eq!(catalog.tool("a__shut"), Err(Unresolved::Unknown));
    }

    /// J12, Y4: no spelling reaches what its name keeps from clients.
    #[test]
    fn tools_of_loose_names_are_neither_listed_nor_callable_where_names_are_strict() {
        let mut part = part("a", &["open", "not open"], &["x://1"], &[]);
        let loose = merged(vec![part.clone()]);
        assert_eq!(loose.items(ListKind::Tools).len(), 2);
        assert!(loose.tool("a/not open").is_ok());
        part.withheld.strict_names = true;
        let strict = merged(vec![part.clone()]);
        assert_eq!(strict.items(ListKind::Tools).len(), 1);
        for spelling in ["a/not open", "a__not open", loose.tool_names.exposed(1)] {
            assert_eq!(
                strict.tool(spelling),
                Err(Unresolved::Unknown),
                "{spelling}"
            );
        }
        let reported: Vec<_> = part.refused_names().collect();
        assert_eq!(reported, ["not open"]);
        assert_eq!(strict.items(ListKind::Resources).len(), 1, "tools alone");
    }

    /// Design section 7: the first by configuration order answers, an address reaches each.
    #[test]
    fn a_uri_of_two_servers_leads_to_the_first_and_each_is_addressable() {
        let catalog = merged(vec![
            part("a", &[], &["x://1"], &[]),
            part("b", &[], &["x://1"], &[]),
        ]);
        let server = |uri: &str| {
            catalog
                .resource(uri)
                .map(|target| target.server.to_string())
        };
        assert_eq!(server("x://1").as_deref(), Some("a"));
        assert_eq!(server("mainstay+b:x://1").as_deref(), Some("b"));
        assert_eq!(
            catalog
                .resource("mainstay+a:x://other")
                .expect("addressed")
                .original
                .as_ref(),
            "x://other"
        );
        assert!(catalog.items(ListKind::Resources)[1].contains("mainstay+b:x://1"));
    }

    #[test]
    fn templates_claim_the_uris_they_can_produce() {
        for (template, uri, expected) in [
            ("x://{id}", "x://7", true),
            ("x://{id}", "x://", false),
            ("x://{a}/b/{c}", "x://1/b/2", true),
            ("x://{a}/b/{c}", "x://1/c/2", false),
            ("x://{a}.json", "x://1.json", true),
            ("x://{a}.json", "x://1.txt", false),
            ("x://ü{a}ö{b}", "x://ü€öß", true),
            ("x://plain", "x://plain", true),
            ("x://{unclosed", "x://1", false),
        ] {
            assert_eq!(
                template_matches(template, uri),
                expected,
                "{template} against {uri}"
            );
        }
        let catalog = merged(vec![
            part("a", &[], &[], &["x://{id}"]),
            part("b", &[], &[], &["x://{id}"]),
        ]);
        assert_eq!(
            catalog
                .template("mainstay+b:x://{id}")
                .map(|target| target.server.as_str()),
            Some("b")
        );
        assert_eq!(
            catalog
                .resource("x://9")
                .expect("claimed")
                .original
                .as_ref(),
            "x://9"
        );
        assert_eq!(catalog.resource("y://9"), None);
    }

    #[test]
    fn a_page_keeps_its_cursor_and_counts_what_nobody_could_address() {
        let found = page(
            ListKind::Tools,
            r#"{"tools":[{"name":"a"},{"title":"b"},7],"nextCursor":"c"}"#,
        )
        .expect("a list");
        assert_eq!(
            (
                found.items.len(),
                found.unusable,
                found.next_cursor.as_deref()
            ),
            (1, 2, Some("c"))
        );
        assert!(page(ListKind::Tools, r#"{"content":[]}"#).is_err());
    }
}
