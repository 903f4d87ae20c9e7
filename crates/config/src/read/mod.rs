//! Reads the file as a whole: settings at the top, and the entries of the servers in any of their shapes.

mod access;
mod alerts;
mod entry;
mod env_file;
mod expand;
pub(crate) mod fields;
pub(crate) mod http;
mod inline;
pub(crate) mod journal;
pub(crate) mod listener;
mod network;
pub(crate) mod node;
mod numbers;
pub(crate) mod oauth;
pub(crate) mod options;
pub(crate) mod policies;
mod profiles;
pub(crate) mod reach;
pub(crate) mod report;
pub(crate) mod server_name;
mod sign_in;
pub(crate) mod syntax;
mod telemetry;
mod unreadable;
pub(crate) mod withheld;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use mainstay_core::{
    builtin::OwnToolGroup,
    config::{Broken, Config, ConfigError, ConfigErrors, Launch, ServerConfig},
    ids::ServerName,
    lifecycle::Preset,
    spelling::nearest,
};

use self::{
    entry::Context,
    fields::Fields,
    node::Node,
    policies::Policies,
    report::{FindingReport, KeyPath, Lines},
};
pub use self::{
    expand::{
        Environment, MAX_EXPANDED, References, SECRET_NAME_RULE, is_secret_name, named_secrets,
    },
    http::{InvalidHeader, check_header, is_ours},
    inline::{Inline, InvalidInline},
    listener::{CERTIFICATE_KEY, CLIENT_CA_KEY, PRIVATE_KEY_KEY},
    server_name::adopt,
    syntax::Syntax,
    telemetry::telemetry_of_environment,
    unreadable::{UnreadableFile, UnreadableSecret},
    withheld::{ALLOWED_TOOLS, DISABLED_TOOLS},
};
use crate::{
    foreign::{self, Foreign, choice::Choice, dialect::Dialect},
    words::{
        self,
        settings::{self, SettingValue},
    },
};

/// The syntax and the origin of a text.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSource<'a> {
    pub syntax: Syntax,
    /// The file's path. `${file:…}` and `cwd` are resolved against its folder. The path may also reveal
    /// the program to which the file belongs.
    pub path: &'a Path,
    /// True for a file of `--mcp-clients` or `--mcp-clients-config`. Then each server must have a
    /// `transport`, and the defaults are preset `bounded` and the own tools [`CLIENTS_TOOLS`].
    pub is_of_clients: bool,
}

impl<'a> ConfigSource<'a> {
    /// The source for a file at this path.
    pub fn file(path: &'a Path) -> Self {
        Self {
            syntax: Syntax::of_path(path),
            path,
            is_of_clients: false,
        }
    }

    /// The default policies of the file.
    fn policies(&self) -> Policies {
        if self.is_of_clients {
            Policies::of_preset(Preset::Bounded)
        } else {
            Policies::default()
        }
    }

    fn folder(&self) -> &'a Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// A configuration with its warnings.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub config: Config,
    pub warnings: Vec<ConfigError>,
}

/// The own tools at `/mcp` if a file of `--mcp-clients` does not list them.
const CLIENTS_TOOLS: &[OwnToolGroup] = &[OwnToolGroup::External, OwnToolGroup::Records];

/// Parses a configuration. Problems of one server's entry are in [`Config::problems`]. An error means
/// that the file cannot be used, and includes those problems.
pub fn parse(
    text: &str,
    source: &ConfigSource<'_>,
    environment: &dyn Environment,
) -> Result<Parsed, ConfigErrors> {
    parse_as(text, source, environment, References::Replaced)
}

/// Parses a configuration, and keeps or replaces its references.
pub fn parse_as(
    text: &str,
    source: &ConfigSource<'_>,
    environment: &dyn Environment,
    references: References,
) -> Result<Parsed, ConfigErrors> {
    // Some editors on Windows begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines::new(text);
    let tree = syntax::tree(text, source.syntax, &lines).map_err(|error| {
        ConfigErrors(vec![
            foreign_text(text, source.path, &lines).unwrap_or(error),
        ])
    })?;
    let root = Node::root(&tree, &words::FILE_SHAPE);
    let mut report = FindingReport::new(lines);
    let mut config = Config::default();
    if root.is_object() {
        read_root(
            &root,
            &mut config,
            source,
            environment,
            references,
            &mut report,
        );
    } else {
        let hint = format!("found {}", root.kind());
        report.error_with_hint(&root.place, "Config must be an object", hint);
    }

    let FindingReport {
        mut errors,
        mut warnings,
        ..
    } = report;
    if errors.is_empty() {
        warnings.sort_by_key(|warning| warning.position);
        return Ok(Parsed { config, warnings });
    }
    errors.extend(config.problems().map(|(_, problem)| problem.clone()));
    errors.sort_by_key(|error| error.position);
    Err(ConfigErrors(errors))
}

/// The line and column of a value in a text, by the keys that lead to it. The value of an outer key stands for
/// inner ones that are missing. `None` if the text cannot be read.
pub fn position_of(text: &str, syntax: Syntax, keys: &[&str]) -> Option<(usize, usize)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines::new(text);
    let tree = syntax::tree(text, syntax, &lines).ok()?;
    let mut node = Node::root(&tree, &words::FILE_SHAPE);
    for key in keys {
        match node.member(key) {
            Some(member) => node = member,
            None => break,
        }
    }
    Some(lines.position(node.place.offset))
}

/// Recognises an unreadable text as another program's file.
fn foreign_text(text: &str, path: &Path, lines: &Lines<'_>) -> Option<ConfigError> {
    let in_json = || {
        let tree = syntax::tree(text, Syntax::Jsonc, lines).ok()?;
        let root = Node::root(&tree, &words::FILE_SHAPE);
        let has_servers = ["mcpServers", "servers"].map(|key| root.member(key).is_some());
        let fields = Fields::open(&root, &mut FindingReport::new(Lines::new(text)))?;
        foreign::in_json(&fields).filter(|_| has_servers == [false, false])
    };
    let Foreign { message, hint } = foreign::in_text(text, path).or_else(in_json)?;
    Some(ConfigError {
        path: String::new(),
        message: (*message).to_owned(),
        hint: Some((*hint).to_owned()),
        position: Some((1, 1)),
        awaits_file: false,
    })
}

/// Finds the entries of all servers, even in a file with errors.
fn entry_nodes<'a>(root: &Node<'a>) -> Vec<Node<'a>> {
    let lists = ["mcpServers", "servers"].into_iter();
    let lists = lists.filter_map(|key| root.member(key));
    let entries = lists.flat_map(|list| {
        let elements: Vec<_> = list.elements().into_iter().flatten().collect();
        list.values().chain(elements)
    });
    entries.collect()
}

/// One server's entry that does not come from the file.
#[derive(Clone, Debug)]
pub struct ParsedEntry {
    /// May be [`Launch::Broken`].
    pub config: ServerConfig,
    pub warnings: Vec<ConfigError>,
}

/// Reads an entry as if it were in this file: it has the file's inputs and policies. Findings have a path
/// within the entry, and no position. An error means that the file cannot be used.
pub fn parse_entry(
    name: ServerName,
    entry: &serde_json::Map<String, serde_json::Value>,
    file: &str,
    source: &ConfigSource<'_>,
    environment: &dyn Environment,
    references: References,
) -> Result<ParsedEntry, ConfigErrors> {
    let unusable = |error| ConfigErrors(vec![error]);
    let entry = serde_json::to_string(entry).unwrap_or_default(); // a map of texts cannot fail
    if entry.len() > MAX_EXPANDED {
        return Ok(ParsedEntry {
            config: ServerConfig::new(
                name,
                Launch::Broken(Broken {
                    problem: too_long(),
                    transport: "unknown",
                }),
            ),
            warnings: Vec::new(),
        });
    }
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let (lines, entry_lines) = (Lines::new(file), Lines::new(&entry));
    let tree = syntax::tree(file, source.syntax, &lines).map_err(unusable)?;
    let entry_tree = syntax::tree(&entry, Syntax::Json, &entry_lines).map_err(unusable)?;
    // Findings about the file itself are ignored here: reading the whole file reports them.
    let mut ignored = FindingReport::new(lines);
    let mut fields = Fields::open(&Node::root(&tree, &words::FILE_SHAPE), &mut ignored);
    let inputs_node = fields.as_mut().and_then(|fields| fields.take("inputs"));
    let inputs = inputs_node
        .map(|node| inputs(&node, &mut ignored))
        .unwrap_or_default();
    let policies = fields.map_or_else(
        || source.policies(),
        |mut fields| Policies::read(&source.policies(), &mut fields, &mut ignored),
    );
    let node = Node::root(&entry_tree, &words::ENTRY);
    let mut others = entry_nodes(&Node::root(&tree, &words::FILE_SHAPE));
    others.push(node.clone());
    let dialect = Dialect::of_file(source.path, &others, environment);
    let context = Context {
        environment,
        references,
        path: source.path,
        folder: source.folder(),
        dialect: &dialect,
        inputs: &inputs,
        // Only entries of the file must state a transport.
        require_transport: false,
        policies,
    };
    let mut report = FindingReport::new(entry_lines);
    let label = name.clone();
    let mut config = entry::read(name, label.as_str(), &node, &context, &mut report);
    config.unplace();
    let mut warnings = report.warnings;
    for warning in &mut warnings {
        warning.position = None;
    }
    Ok(ParsedEntry { config, warnings })
}

/// The problem of an entry whose JSON is longer than [`MAX_EXPANDED`].
fn too_long() -> ConfigError {
    ConfigError {
        path: String::new(),
        message: "the entry has more than 1 MiB".to_owned(),
        hint: Some("have the server read large values from a file itself".to_owned()),
        position: None,
        awaits_file: false,
    }
}

fn read_root<'a>(
    root: &Node<'a>,
    config: &mut Config,
    source: &ConfigSource<'a>,
    environment: &'a dyn Environment,
    references: References,
    report: &mut FindingReport<'_>,
) {
    let Some(mut fields) = Fields::open(root, report) else {
        return;
    };
    settings::read(config, &mut fields, report);
    if let Some(tls) = &mut config.tls {
        listener::resolve(tls, source.folder(), environment);
    }
    let inputs = fields
        .take("inputs")
        .map(|node| inputs(&node, report))
        .unwrap_or_default();
    let isolation = fields.take("isolation");
    let dialect = Dialect::of_file(source.path, &entry_nodes(root), environment);
    let context = Context {
        environment,
        references,
        path: source.path,
        folder: source.folder(),
        dialect: &dialect,
        inputs: &inputs,
        require_transport: source.is_of_clients,
        policies: Policies {
            isolation: isolation.and_then(|node| SettingValue::read(&node, report)),
            ..Policies::read(&source.policies(), &mut fields, report)
        },
    };
    if let Some(node) = fields.take("alerts") {
        config.alerts = alerts::read(&node, &context, report);
    }
    config.telemetry = match fields.take("telemetry") {
        Some(node) => telemetry::read(&node, &context, report),
        None => telemetry_of_environment(environment),
    };
    let entries = entries(&mut fields, report);
    let choice = Choice::take(&mut fields, report);
    let mut used_names = HashSet::new();
    for WrittenServer { label, place, node } in entries {
        let Some(name) = claim(label, &place, &mut used_names, report) else {
            continue;
        };
        let mut server = entry::read(name, label, &node, &context, report);
        choice.restrict(label, &mut server, report);
        config.servers.push(server);
    }
    let own_tools: &[OwnToolGroup] = if source.is_of_clients {
        CLIENTS_TOOLS
    } else {
        &[]
    };
    profiles::read(&mut fields, own_tools, config, report);
    if let Some(node) = fields.take("access") {
        config.access = access::read(&node, config, report);
    }
    fields.finish(report);
}

/// Reads the defaults of VS Code's `inputs`, by id. VS Code asks the user for these values. Mainstay
/// cannot ask, so it ignores the other members.
fn inputs(node: &Node<'_>, report: &mut FindingReport<'_>) -> BTreeMap<String, String> {
    let mut defaults = BTreeMap::new();
    for input in node.array(report) {
        let Some(mut fields) = Fields::open(&input, report) else {
            continue;
        };
        let Some(id) = fields.take("id") else {
            report.error(&input.place, "an input needs an `id`");
            continue;
        };
        let (id, default) = (id.string(report), fields.take("default"));
        let default = default.and_then(|node| node.scalar(report));
        if let (Some(id), Some((default, _))) = (id, default) {
            defaults.insert(id.to_owned(), default.into_owned());
        }
    }
    defaults
}

/// The entry of a server in the file.
struct WrittenServer<'a> {
    label: &'a str,
    /// The place of its name.
    place: KeyPath,
    node: Node<'a>,
}

/// Finds the servers of `mcpServers` and `servers`, in the order of the file.
fn entries<'a>(fields: &mut Fields<'a>, report: &mut FindingReport<'_>) -> Vec<WrittenServer<'a>> {
    let (map, either) = (fields.take("mcpServers"), fields.take("servers"));
    if map.is_none() && either.is_none() {
        let near = fields
            .left()
            .find(|key| nearest(key, &["mcpServers", "servers"]).is_some());
        let missing = "Missing mcpServers field";
        let (message, hint) = match (near, foreign::in_json(fields)) {
            (Some(key), None) => (missing, format!("it is called {key:?} here")),
            (_, Some(foreign)) => (foreign.message, foreign.hint.to_owned()),
            (None, None) => {
                let hint = r#"servers stand in {"mcpServers": {NAME: {…}}}"#;
                (missing, hint.to_owned())
            }
        };
        report.error_with_hint(&fields.place, message, hint);
    }
    let mut written: Vec<WrittenServer<'a>> = Vec::new();
    for node in [
        map.as_ref(),
        either.as_ref().filter(|node| !node.is_array()),
    ]
    .into_iter()
    .flatten()
    {
        let members = node.members(report).unwrap_or_default().into_iter();
        written.extend(members.map(|m| WrittenServer {
            label: m.key,
            place: m.key_place,
            node: m.node,
        }));
    }
    for node in either.iter().filter_map(Node::elements).flatten() {
        match node.member("name") {
            _ if !node.is_object() => {
                report.error(
                    &node.place,
                    format!("expected an object, found {}", node.kind()),
                );
            }
            None => report.error(&node.place, "a server in an array needs a `name`"),
            Some(name) => {
                if let Some(label) = name.string(report) {
                    written.push(WrittenServer {
                        label,
                        place: name.place,
                        node,
                    });
                }
            }
        }
    }
    written.sort_by_key(|server| server.place.offset);
    written
}

/// Adopts the name of a server. Returns `None` if the name is empty or already used.
fn claim(
    label: &str,
    place: &KeyPath,
    used_names: &mut HashSet<ServerName>,
    report: &mut FindingReport<'_>,
) -> Option<ServerName> {
    let (name, fault) = server_name::adopt(label)
        .map_err(|fault| report.error(place, fault.to_string()))
        .ok()?;
    if !used_names.insert(name.clone()) {
        let hint = fault.map(|_| format!("{label:?} becomes \"{name}\""));
        report.error_about(place, &format!("duplicate server name \"{name}\""), hint);
        return None;
    }
    if let Some(fault) = fault {
        report.warn_with_hint(
            place,
            fault.to_string(),
            Some(format!("it is called \"{name}\" here")),
        );
    }
    Some(name)
}
