//! Names from clients, against their rule: a name leads to the server that it names, or nowhere, for any
//! lists and any states of the servers. [`Catalog`], [`Claims`].

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use mainstay_config::{ConfigSource, Environment, Syntax, UnreadableFile, UnreadableSecret};
use mainstay_core::{
    builtin,
    catalog::{self, Catalog, Claims, ItemTarget, ListKind, Owner, Part, ServerCatalog},
    config::{self, Naming, ProfileConfig},
    ids::ServerName,
    names::Unresolved,
};
use serde_json::{Map, Value, json};

/// Number of servers, and of items in a list, at most: the spellings of all of them are tried.
const MAX_SERVERS: usize = 4;
const MAX_ITEMS: usize = 4;

/// Number of pieces of a name or URI at most.
const MAX_PIECES: usize = 6;

const SERVERS: [&str; 12] = [
    "victim",
    "evil",
    "mcp",
    "Victim",
    "victim_x",
    "victim-x",
    "MCP",
    "mcp_victim",
    "v",
    "x",
    "a--b",
    "a-very-long-name-of-a-server-that-is-cut",
];

const PIECES: [&str; 32] = [
    "victim",
    "__",
    "push",
    "/",
    "mcp",
    "evil",
    "x",
    "_",
    ".",
    "\u{200b}",
    "Victim",
    "MCP",
    "v",
    "-",
    "é",
    "a--b",
    "victim-x",
    "execute_tool",
    "mainstay",
    "+",
    ":",
    "own://",
    "{x}",
    "{+x}",
    "own://secret",
    "mainstay+victim:",
    "a rather long name of a tool",
    "__push",
    "victim__",
    "a-very-long-name",
    " ",
    "\"",
];

/// Complete names and URIs, so that several servers often list the same item.
const COMMON: [&str; 8] = [
    "push",
    "x",
    "victim__push",
    "mcp__evil__x",
    "evil/x",
    "own://secret",
    "own://{x}",
    "mainstay+victim:own://secret",
];

const NAMINGS: [(&str, Naming); 4] = [
    ("double_underscore", Naming::DoubleUnderscore),
    ("slash", Naming::Slash),
    ("none", Naming::None),
    ("mcp_prefix", Naming::McpPrefix),
];

/// Parses a world, and resolves everything in it by every spelling.
pub fn check(data: &[u8]) {
    let Some(world) = World::read(&mut Bytes(data.iter())) else {
        return;
    };
    world.check();
}

/// The state of a server before the names are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryState {
    Up,
    /// Stopped or disabled after it was listed.
    Stopped,
    Removed,
    /// Configured, and not listed in this run.
    NotListed,
    /// Known only from an earlier run.
    Former,
    /// Up, and not in the profile.
    Denied,
    /// Up and in the profile, but its tools are not.
    ToolsDenied,
}

const STATES: [HistoryState; 7] = [
    HistoryState::Up,
    HistoryState::Stopped,
    HistoryState::Removed,
    HistoryState::NotListed,
    HistoryState::Former,
    HistoryState::Denied,
    HistoryState::ToolsDenied,
];

#[derive(Clone, Debug, Default)]
struct Lists([Vec<String>; ListKind::ALL.len()]);

#[derive(Debug)]
struct Server {
    name: ServerName,
    state: HistoryState,
    /// The server's first lists, before the current lists.
    before: Lists,
    now: Lists,
}

impl Server {
    fn is_up(&self) -> bool {
        matches!(
            self.state,
            HistoryState::Up | HistoryState::Denied | HistoryState::ToolsDenied
        )
    }

    fn is_configured(&self) -> bool {
        !matches!(self.state, HistoryState::Removed | HistoryState::Former)
    }

    fn was_listed(&self) -> bool {
        !matches!(self.state, HistoryState::NotListed | HistoryState::Former)
    }

    /// True if the profile includes the server's items of this kind.
    fn is_in_profile(&self, kind: ListKind) -> bool {
        match self.state {
            HistoryState::Denied => false,
            HistoryState::ToolsDenied => kind != ListKind::Tools,
            _ => true,
        }
    }

    fn lists(&self, kind: ListKind, key: &str) -> bool {
        self.is_up() && self.is_in_profile(kind) && has(&self.now, kind, key)
    }

    /// True if the server lists the item, or listed it in this run.
    fn had(&self, kind: ListKind, key: &str) -> bool {
        let before = self.was_listed() && has(&self.before, kind, key);
        self.is_in_profile(kind) && (before || self.lists(kind, key))
    }

    fn part(&self, lists: &Lists) -> Part {
        let mut catalog = ServerCatalog::default();
        for kind in ListKind::ALL {
            let key = match kind {
                ListKind::Tools | ListKind::Prompts => "name",
                ListKind::Resources => "uri",
                ListKind::Templates => "uriTemplate",
            };
            let items: Vec<Value> = lists.0[kind as usize]
                .iter()
                .map(|item| json!({key: item}))
                .collect();
            let page = json!({kind.member(): items}).to_string();
            catalog.set(
                kind,
                catalog::page(kind, &page, usize::MAX)
                    .expect("a list")
                    .items,
            );
        }
        Part {
            server: self.name.clone(),
            catalog: Arc::new(catalog),
            withheld: config::Withheld::default(),
            cuts_results: false,
        }
    }
}

fn has(lists: &Lists, kind: ListKind, key: &str) -> bool {
    lists.0[kind as usize].iter().any(|item| item == key)
}

#[derive(Debug)]
struct World {
    servers: Vec<Server>,
    naming: Naming,
    max_length: usize,
    profile: ProfileConfig,
    /// The tools with a given name, if they may have it.
    renamed: BTreeSet<String>,
    /// Additional names that are resolved.
    extra_names: Vec<String>,
}

impl World {
    fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        let (word, naming) = *bytes.choose(&NAMINGS);
        let max_length = 16 + bytes.next() % 48;
        let mut servers: Vec<Server> = Vec::new();
        for _ in 0..=bytes.next() % MAX_SERVERS {
            let name: &str = bytes.choose::<&str>(&SERVERS);
            let name = ServerName::new(name).expect("a legal name");
            let (state, before) = (*bytes.choose(&STATES), bytes.lists());
            let now = if bytes.next().is_multiple_of(2) {
                before.clone()
            } else {
                bytes.lists()
            };
            if servers.iter().all(|earlier| earlier.name != name) {
                servers.push(Server {
                    name,
                    state,
                    before,
                    now,
                });
            }
        }
        let extra_names = (0..MAX_ITEMS).map(|_| bytes.text()).collect();
        let mut renamed = Map::new();
        for _ in 0..bytes.next() % 3 {
            let server = bytes.choose(&servers);
            if let Some(tool) = server.now.0[ListKind::Tools as usize]
                .first()
                .filter(|tool| !tool.is_empty())
            {
                renamed.insert(format!("{}/{tool}", server.name), bytes.text().into());
            }
        }
        let profile = profile(&servers, word, max_length, &renamed)?;
        Some(Self {
            servers,
            naming,
            max_length,
            profile,
            renamed: renamed.into_iter().map(|(tool, _)| tool).collect(),
            extra_names,
        })
    }

    /// The catalog of a client at the end of the world's history.
    fn catalog(&self) -> Catalog {
        let servers_that =
            |is_one: fn(&Server) -> bool| self.servers.iter().filter(move |server| is_one(server));
        let names = |is_one| {
            servers_that(is_one)
                .map(|server| server.name.clone())
                .collect::<Vec<_>>()
        };
        let claims = Claims::new(
            names(|server| server.state == HistoryState::Former),
            Vec::new(),
        );
        let before: Vec<Part> = servers_that(Server::was_listed)
            .map(|server| server.part(&server.before))
            .collect();
        let now: Vec<Part> = servers_that(Server::is_up)
            .map(|server| server.part(&server.now))
            .collect();
        let listed = names(|server| server.state != HistoryState::Former);
        let claims = claims.updated(listed, &[], &before).unwrap_or(claims);
        let configured = names(Server::is_configured);
        let claims = claims.updated(configured, &before, &now).unwrap_or(claims);
        Catalog::merge(
            now,
            &self.profile,
            self.naming,
            self.max_length,
            &Arc::new(claims),
        )
    }

    fn check(&self) {
        let catalog = self.catalog();
        for kind in [ListKind::Tools, ListKind::Prompts] {
            self.check_list(&catalog, kind);
            for name in self.spellings(&catalog, kind) {
                self.check_name(&catalog, kind, &name);
            }
        }
        check_listed_resources(&catalog);
        for uri in self.uris(&catalog) {
            self.check_uri(&catalog, &uri);
        }
    }

    /// Every item has one exposed name, which leads to the item.
    fn check_list(&self, catalog: &Catalog, kind: ListKind) {
        let mut exposed_names = HashSet::new();
        for (exposed, target) in catalog.names(kind) {
            assert!(exposed_names.insert(exposed), "{exposed:?} twice");
            let full = format!("{}/{}", target.server, target.original);
            for name in [exposed, &full] {
                assert_eq!(
                    resolve(catalog, kind, name).as_ref(),
                    Ok(target),
                    "{name:?}"
                );
            }
            let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let is_exposable = exposed.len() <= self.max_length && exposed.chars().all(is_legal);
            assert!(
                is_exposable || self.naming == Naming::Slash && exposed == full,
                "{exposed:?}"
            );
        }
        for server in &self.servers {
            for item in &server.now.0[kind as usize] {
                let is_listed = catalog
                    .names(kind)
                    .any(|(_, target)| target.server == server.name && *target.original == **item);
                assert_eq!(
                    is_listed,
                    server.lists(kind, item),
                    "{item:?} of {}",
                    server.name
                );
            }
        }
    }

    fn check_name(&self, catalog: &Catalog, kind: ListKind, name: &str) {
        let Ok(target) = resolve(catalog, kind, name) else {
            return;
        };
        let target_server = self
            .servers
            .iter()
            .find(|server| server.name == target.server);
        let server = target_server.expect("a server of the world");
        assert!(
            server.lists(kind, &target.original),
            "{name:?} leads to what is not listed"
        );
        if let Some(named) = self.named_by(name) {
            assert_eq!(target.server, named.name, "{name:?} names {}", named.name);
            return;
        }
        let target_name = target.server.as_str();
        for other in self
            .servers
            .iter()
            .filter(|server| server.name != target.server)
        {
            // If only case distinguishes two servers, the case counts.
            if other.name.as_str().eq_ignore_ascii_case(target_name) && name.contains(target_name) {
                continue;
            }
            // The prefix of a spelling has precedence over a server named `mcp`.
            if other.name.as_str().eq_ignore_ascii_case("mcp")
                && reads_as_behind_mcp(name, target_name)
            {
                continue;
            }
            assert!(
                !reads_as(name, other.name.as_str()),
                "{name:?} reads as {}'s",
                other.name
            );
        }
        let exposed = catalog
            .names(kind)
            .find(|(_, candidate)| **candidate == target);
        let (exposed, _) = exposed.expect("it is listed");
        let original = &*target.original;
        assert!(
            name == exposed || name == original,
            "{name:?} is no spelling of {exposed:?}"
        );
        if name != exposed {
            assert!(!builtin::is_tool(name), "{name:?} is an own tool's");
        }
        // A name without a server cannot belong to two. A name that reads as the target's own has its server.
        let says_nobody =
            (name != exposed || self.naming == Naming::None) && !reads_as(name, target_name);
        if name == original && says_nobody {
            let others = self
                .servers
                .iter()
                .filter(|server| server.name != target.server);
            for other in others.filter(|server| server.had(kind, name)) {
                let is_renamed = self.renamed.contains(&format!("{}/{name}", other.name));
                assert!(is_renamed, "{name:?} was {}'s", other.name);
            }
        }
    }

    /// The server that a name names in one of the documented spellings.
    fn named_by(&self, name: &str) -> Option<&Server> {
        let prefixed = |before: &str, after: &str| {
            self.servers
                .iter()
                .find(|server| name.starts_with(&format!("{before}{}{after}", server.name)))
        };
        prefixed("", "/")
            .or_else(|| prefixed("mcp__", "__"))
            .or_else(|| prefixed("mcp__", "/"))
            .or_else(|| prefixed("", "__"))
    }

    fn spellings(&self, catalog: &Catalog, kind: ListKind) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.extra_names.iter().cloned().collect();
        names.extend(catalog.names(kind).map(|(exposed, _)| exposed.to_owned()));
        names.extend(
            builtin::OwnToolGroup::ALL
                .iter()
                .flat_map(|group| group.tools())
                .map(|tool| (*tool).to_owned()),
        );
        for item in self.items(kind) {
            names.insert(item.clone());
            for server in self.servers.iter().map(|server| &server.name) {
                let (upper, lower) = (
                    server.as_str().to_uppercase(),
                    server.as_str().to_lowercase(),
                );
                for server in [server.as_str(), &upper, &lower] {
                    for (before, after) in [
                        ("", "__"),
                        ("", "/"),
                        ("mcp__", "__"),
                        ("mcp__", "/"),
                        ("mcp/", "/"),
                        ("", "_/"),
                    ] {
                        names.insert(format!("{before}{server}{after}{item}"));
                    }
                }
            }
        }
        names
    }

    fn items(&self, kind: ListKind) -> impl Iterator<Item = &String> {
        let lists = self
            .servers
            .iter()
            .flat_map(|server| [&server.before, &server.now]);
        lists.flat_map(move |lists| &lists.0[kind as usize])
    }

    fn uris(&self, catalog: &Catalog) -> BTreeSet<String> {
        let mut uris: BTreeSet<String> = self.extra_names.iter().cloned().collect();
        for item in self
            .items(ListKind::Resources)
            .chain(self.items(ListKind::Templates))
        {
            uris.insert(item.clone());
            uris.extend(
                self.servers
                    .iter()
                    .map(|server| format!("mainstay+{}:{item}", server.name)),
            );
        }
        for (item, _) in catalog.items(ListKind::Templates).iter().zip(0..) {
            let item: Value = serde_json::from_str(item).expect("JSON");
            uris.insert(item["uriTemplate"].as_str().expect("a template").to_owned());
        }
        uris
    }

    fn check_uri(&self, catalog: &Catalog, uri: &str) {
        let template = catalog.template(uri).cloned();
        for target in catalog.resource(uri).target().into_iter().chain(template) {
            let target_server = self
                .servers
                .iter()
                .find(|server| server.name == target.server);
            let server = target_server.expect("a server of the world");
            assert!(
                server.is_up() && server.state != HistoryState::Denied,
                "{uri:?} leads to {}",
                server.name
            );
            if uri.to_lowercase().starts_with("mainstay+") {
                assert_eq!(
                    uri,
                    format!("mainstay+{}:{}", target.server, target.original)
                );
                continue;
            }
            assert_eq!(*target.original, *uri);
            // Servers that are gone for good come first.
            let (configured, gone): (Vec<_>, Vec<_>) = self
                .servers
                .iter()
                .partition(|server| server.is_configured());
            let mut servers = gone.into_iter().chain(configured);
            if let Some(first) = servers.find(|server| server.had(ListKind::Resources, uri)) {
                let is_template = server.lists(ListKind::Templates, uri);
                assert!(
                    first.name == target.server || is_template,
                    "{uri:?} is {}'s",
                    first.name
                );
            }
        }
    }
}

/// Every listed resource is found by its URI.
fn check_listed_resources(catalog: &Catalog) {
    for (item, target) in catalog
        .items(ListKind::Resources)
        .iter()
        .zip(catalog.targets(ListKind::Resources))
    {
        let item: Value = serde_json::from_str(item).expect("JSON");
        let uri = item["uri"].as_str().expect("a URI");
        assert_eq!(
            catalog.resource(uri),
            Owner::Server(target.clone()),
            "{uri:?}"
        );
    }
}

fn resolve(catalog: &Catalog, kind: ListKind, name: &str) -> Result<ItemTarget, Unresolved> {
    let found = match kind {
        ListKind::Prompts => catalog.prompt(name),
        _ => catalog.tool(name),
    };
    found.cloned()
}

/// True if a careless reader takes a name for one of this server's.
fn reads_as(name: &str, server: &str) -> bool {
    behind(&folded(name), &server.to_lowercase()).is_some() || reads_as_behind_mcp(name, server)
}

/// True if a name is a careless spelling of `mcp__server__item`.
fn reads_as_behind_mcp(name: &str, server: &str) -> bool {
    let (name, server) = (folded(name), server.to_lowercase());
    behind(&name, "mcp").is_some_and(|rest| behind(rest, &server).is_some())
}

fn folded(name: &str) -> String {
    let plain = |c: char| match c {
        '/' | '-' => c,
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '_',
    };
    name.chars().map(plain).collect()
}

/// The rest behind a prefix and a separator.
fn behind<'a>(folded: &'a str, prefix: &str) -> Option<&'a str> {
    let separators = ['_', '/'];
    let rest = folded.trim_start_matches(separators).strip_prefix(prefix)?;
    let is_separated = ["/", "__", "_/"]
        .iter()
        .any(|separator| rest.starts_with(separator));
    is_separated.then(|| rest.trim_start_matches(separators))
}

/// An environment without readable files.
struct Nowhere;

impl Environment for Nowhere {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, _: &Path) -> Result<String, UnreadableFile> {
        Err(UnreadableFile::Absent)
    }

    fn secret(&self, _: &str) -> Result<mainstay_core::config::Secret, UnreadableSecret> {
        Err(UnreadableSecret::Absent)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        None
    }
}

/// The profile of a world, if its names are valid.
fn profile(
    servers: &[Server],
    naming: &str,
    max_length: usize,
    renamed: &Map<String, Value>,
) -> Option<ProfileConfig> {
    let in_profile = servers
        .iter()
        .filter(|server| server.state != HistoryState::Denied);
    let denied = servers
        .iter()
        .filter(|server| server.state == HistoryState::ToolsDenied);
    let entries = servers
        .iter()
        .map(|server| (server.name.to_string(), json!({"command": "x"})));
    let text = json!({
        "mcpServers": entries.collect::<Map<_, _>>(),
        "maxNameLength": max_length,
        "profiles": {"world": {
            "servers": in_profile.map(|server| server.name.as_str()).collect::<Vec<_>>(),
            "tools": {"deny": denied.map(|server| format!("{}/*", server.name)).collect::<Vec<_>>()},
            "naming": naming,
            "rename": renamed,
        }},
    });
    let source = ConfigSource {
        syntax: Syntax::Json,
        path: Path::new("/config.json"),
        is_of_clients: false,
    };
    let parsed = mainstay_config::parse(&text.to_string(), &source, &Nowhere).ok()?;
    let profiles = parsed.config.profiles;
    profiles
        .into_iter()
        .find(|profile| profile.name.as_str() == "world")
}

/// Choices from bytes; zeros after the last one.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        self.0.next().copied().unwrap_or_default().into()
    }

    fn choose<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.next() % choices.len()]
    }

    fn text(&mut self) -> String {
        if self.next().is_multiple_of(2) {
            return (*self.choose(&COMMON)).to_owned();
        }
        (0..=self.next() % MAX_PIECES)
            .map(|_| *self.choose(&PIECES))
            .collect()
    }

    fn lists(&mut self) -> Lists {
        Lists(std::array::from_fn(|_| {
            let items: BTreeSet<String> =
                (0..self.next() % MAX_ITEMS).map(|_| self.text()).collect();
            items.into_iter().collect()
        }))
    }
}
