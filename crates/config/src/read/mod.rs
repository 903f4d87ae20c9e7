//! The file as a whole: settings at the top, and the entries of the servers in any of their shapes.

mod alerts;
mod entry;
mod env_file;
mod expand;
pub(crate) mod fields;
pub(crate) mod http;
mod inline;
pub(crate) mod journal;
pub(crate) mod node;
mod numbers;
pub(crate) mod options;
pub(crate) mod policies;
mod profiles;
pub(crate) mod reach;
pub(crate) mod report;
pub(crate) mod server_name;
pub(crate) mod syntax;
mod telemetry;
mod unreadable;
pub(crate) mod withheld;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use mainstay_core::{
    builtin::Group,
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
    report::{KeyPath, Lines, Report},
};
pub use self::{
    expand::{Environment, MAX_EXPANDED, References},
    inline::{Inline, InvalidInline},
    server_name::adopt,
    syntax::Syntax,
    telemetry::telemetry_of_environment,
    unreadable::Unreadable,
    withheld::{ALLOWED_TOOLS, DISABLED_TOOLS},
};
use crate::{
    foreign::{self, Foreign, choice::Choice, dialect::Dialect},
    words::{
        self,
        settings::{self, SettingValue},
    },
};

/// What is known of the text that is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub syntax: Syntax,
    /// The file's path. `${file:…}` and `cwd` are resolved against its folder, and its place may tell
    /// whose file it is.
    pub path: &'a Path,
    /// Whether the file was given by `--mcp-clients` or `--mcp-clients-config`. Then each server must say its
    /// `transport`, and where the file is silent, preset `bounded` and the own tools [`CLIENTS_TOOLS`] hold.
    pub is_of_clients: bool,
}

impl<'a> Source<'a> {
    /// What a file's path tells.
    pub fn file(path: &'a Path) -> Self {
        Self {
            syntax: Syntax::of(path),
            path,
            is_of_clients: false,
        }
    }

    /// What holds where the file is silent.
    fn policies(&self) -> Policies {
        if self.is_of_clients {
            Policies::of(Preset::Bounded)
        } else {
            Policies::default()
        }
    }

    fn folder(&self) -> &'a Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// A configuration, and what is odd about it without being wrong.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub config: Config,
    pub warnings: Vec<ConfigError>,
}

/// The own tools at `/mcp` where a file given by `--mcp-clients` does not say which.
const CLIENTS_TOOLS: &[Group] = &[Group::External, Group::Records];

/// Reads a configuration. What is wrong with one server's entry is found in
/// [`Config::problems`]; an error means that the file cannot be used, and names those problems, too.
pub fn parse(
    text: &str,
    source: &Source<'_>,
    environment: &dyn Environment,
) -> Result<Parsed, ConfigErrors> {
    parse_as(text, source, environment, References::Replaced)
}

/// Reads a configuration, and leaves references as they are where they are to be kept.
pub fn parse_as(
    text: &str,
    source: &Source<'_>,
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
    let mut report = Report::new(lines);
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

    let Report {
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

/// What a text is that cannot be read, if another program's.
fn foreign_text(text: &str, path: &Path, lines: &Lines<'_>) -> Option<ConfigError> {
    let in_json = || {
        let tree = syntax::tree(text, Syntax::Jsonc, lines).ok()?;
        let root = Node::root(&tree, &words::FILE_SHAPE);
        let has_servers = ["mcpServers", "servers"].map(|key| root.member(key).is_some());
        let fields = Fields::open(&root, &mut Report::new(Lines::new(text)))?;
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

/// The entries of servers, whatever else is wrong.
fn entry_nodes<'a>(root: &Node<'a>) -> Vec<Node<'a>> {
    let lists = ["mcpServers", "servers"].into_iter();
    let lists = lists.filter_map(|key| root.member(key));
    let entries = lists.flat_map(|list| {
        let elements: Vec<_> = list.elements().into_iter().flatten().collect();
        list.values().chain(elements)
    });
    entries.collect()
}

/// One server's entry beside a file.
#[derive(Clone, Debug)]
pub struct ParsedEntry {
    /// May be [`Launch::Broken`].
    pub config: ServerConfig,
    pub warnings: Vec<ConfigError>,
}

/// Reads an entry as if it stood in this file: it has the file's inputs and policies. Findings have a
/// path within the entry, and no place. An error means that the file cannot be used.
pub fn parse_entry(
    name: ServerName,
    entry: &serde_json::Map<String, serde_json::Value>,
    file: &str,
    source: &Source<'_>,
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
    // Reading the whole file reports what is wrong with it.
    let mut unheard = Report::new(lines);
    let mut fields = Fields::open(&Node::root(&tree, &words::FILE_SHAPE), &mut unheard);
    let asked = fields.as_mut().and_then(|fields| fields.take("inputs"));
    let inputs = asked
        .map(|node| inputs(&node, &mut unheard))
        .unwrap_or_default();
    let policies = fields.map_or_else(
        || source.policies(),
        |mut fields| Policies::read(&source.policies(), &mut fields, &mut unheard),
    );
    let node = Node::root(&entry_tree, &words::ENTRY);
    let mut others = entry_nodes(&Node::root(&tree, &words::FILE_SHAPE));
    others.push(node.clone());
    let dialect = Dialect::of(source.path, &others, environment);
    let context = Context {
        environment,
        references,
        path: source.path,
        folder: source.folder(),
        dialect: &dialect,
        inputs: &inputs,
        // Only the file has to say it.
        require_transport: false,
        policies,
    };
    let mut report = Report::new(entry_lines);
    let label = name.clone();
    let mut config = entry::read(name, label.as_str(), &node, &context, &mut report);
    config.unplace();
    let mut warnings = report.warnings;
    for warning in &mut warnings {
        warning.position = None;
    }
    Ok(ParsedEntry { config, warnings })
}

/// What is wrong with an entry that is longer than its texts may ever be.
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
    source: &Source<'a>,
    environment: &'a dyn Environment,
    references: References,
    report: &mut Report<'_>,
) {
    let Some(mut fields) = Fields::open(root, report) else {
        return;
    };
    settings::read(config, &mut fields, report);
    let inputs = fields
        .take("inputs")
        .map(|node| inputs(&node, report))
        .unwrap_or_default();
    let isolation = fields.take("isolation");
    let dialect = Dialect::of(source.path, &entry_nodes(root), environment);
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
    let mut taken = HashSet::new();
    for Written { label, place, node } in entries {
        let Some(name) = claim(label, &place, &mut taken, report) else {
            continue;
        };
        let mut server = entry::read(name, label, &node, &context, report);
        choice.restrict(label, &mut server, report);
        config.servers.push(server);
    }
    let own_tools: &[Group] = if source.is_of_clients {
        CLIENTS_TOOLS
    } else {
        &[]
    };
    profiles::read(&mut fields, own_tools, config, report);
    fields.finish(report);
}

/// VS Code's questions to the user. Mainstay cannot ask, so only their defaults count. The other
/// members belong to the question.
fn inputs(node: &Node<'_>, report: &mut Report<'_>) -> BTreeMap<String, String> {
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

/// A server as the file has it.
struct Written<'a> {
    label: &'a str,
    /// Where its name stands.
    place: KeyPath,
    node: Node<'a>,
}

/// The servers of `mcpServers` and `servers`, in the order of the file.
fn entries<'a>(fields: &mut Fields<'a>, report: &mut Report<'_>) -> Vec<Written<'a>> {
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
    let mut written: Vec<Written<'a>> = Vec::new();
    for node in [
        map.as_ref(),
        either.as_ref().filter(|node| !node.is_array()),
    ]
    .into_iter()
    .flatten()
    {
        let members = node.members(report).unwrap_or_default().into_iter();
        written.extend(members.map(|m| Written {
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
                    written.push(Written {
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

/// The name by which a server goes, if it is not taken.
fn claim(
    label: &str,
    place: &KeyPath,
    taken: &mut HashSet<ServerName>,
    report: &mut Report<'_>,
) -> Option<ServerName> {
    let (name, fault) = server_name::adopt(label)
        .map_err(|fault| report.error(place, fault.to_string()))
        .ok()?;
    if !taken.insert(name.clone()) {
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
