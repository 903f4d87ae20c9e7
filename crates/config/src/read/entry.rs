//! Reads one server's entry. `reach` reads the transport, and `options` everything else.
//!
//! A reader records a problem and goes on with a placeholder value, so that one run finds every
//! problem. An entry with a problem is never launched.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use mainstay_core::{
    config::{Broken, Launch, Secret, ServerConfig, StdioLaunch},
    ids::ServerName,
};

use crate::{
    Environment, MAX_EXPANDED, References, UnreadableFile,
    foreign::dialect::Dialect,
    read::{
        env_file,
        expand::{ReferenceScope, Unresolved},
        fields::Fields,
        http,
        node::{Member, Node},
        policies::Policies,
        reach,
        report::{FindingReport, KeyPath},
    },
};

/// The parts of a file that all of its entries share.
pub(crate) struct Context<'e> {
    pub environment: &'e dyn Environment,
    pub references: References,
    /// The path of the file.
    pub path: &'e Path,
    pub folder: &'e Path,
    pub dialect: &'e Dialect,
    pub inputs: &'e BTreeMap<String, String>,
    pub require_transport: bool,
    /// The policies at the top of the file.
    pub policies: Policies,
}

/// Reads an entry, or another object whose texts may have references.
pub(crate) struct EntryReader<'e, 'r, 't> {
    /// The server's name in the file.
    pub label: &'e str,
    pub fields: Fields<'e>,
    pub report: &'r mut FindingReport<'t>,
    pub scope: ReferenceScope<'e>,
    /// The path of the file with the entry.
    pub file: &'e Path,
    /// Variables of `env` that are `null`.
    pub unset: BTreeSet<String>,
}

impl<'e> Context<'e> {
    /// The scope of references outside of entries.
    pub fn scope(&self) -> ReferenceScope<'e> {
        ReferenceScope {
            environment: self.environment,
            references: self.references,
            folder: self.folder,
            dialect: self.dialect,
            inputs: self.inputs,
            params: BTreeMap::new(),
            env: BTreeMap::new(),
            room: Cell::new(Some(MAX_EXPANDED)),
            reads_files: Cell::new(false),
            vault_secrets: RefCell::default(),
        }
    }
}

pub(crate) fn read<'e>(
    name: ServerName,
    label: &'e str,
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> ServerConfig {
    let before = report.errors.len();
    let (mut server, transport) = match Fields::open(node, report) {
        Some(fields) => {
            let server = read_fields(name, label, fields, context, report);
            let transport = server.transport();
            (server, transport)
        }
        // A placeholder: an entry with a problem is never launched.
        None => {
            let launch = Launch::Stdio(StdioLaunch::default());
            (ServerConfig::new(name, launch), "unknown")
        }
    };
    let mut problems = report.errors.split_off(before);
    problems.sort_by_key(|problem| problem.position);
    let mut sorted = problems.into_iter();
    if let Some(problem) = sorted.next() {
        server.launch = Launch::Broken(Broken { problem, transport });
        server.further_problems = sorted.collect();
    }
    server
}

fn read_fields<'e>(
    name: ServerName,
    label: &'e str,
    fields: Fields<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> ServerConfig {
    let mut entry = EntryReader::new(label, fields, context, report);
    entry.read_params();
    entry.read_env_file();
    entry.read_env();
    let launch = entry.launch(context.require_transport);
    let mut server = ServerConfig::new(name, launch);
    let policies = Policies::read(&context.policies, &mut entry.fields, entry.report);
    entry.options(&mut server, policies);
    server.reads_files = entry.scope.reads_files.get();
    server.vault_secrets = entry.scope.vault_secrets.take();
    entry.fields.finish(entry.report);
    server
}

impl<'e, 'r, 't> EntryReader<'e, 'r, 't> {
    pub fn new(
        label: &'e str,
        fields: Fields<'e>,
        context: &Context<'e>,
        report: &'r mut FindingReport<'t>,
    ) -> Self {
        Self {
            label,
            fields,
            report,
            scope: context.scope(),
            file: context.path,
            unset: BTreeSet::new(),
        }
    }
}

impl<'e> EntryReader<'e, '_, '_> {
    /// Reads `inputParams`. Each is a text, or an object that describes the parameter and contains its
    /// value.
    fn read_params(&mut self) {
        for Member { key, node, .. } in self.members("inputParams") {
            let value = if node.is_object() {
                let members = node.distinct_members(self.report).unwrap_or_default();
                let value_of = |key| {
                    members
                        .iter()
                        .find(|member| member.key == key && !member.node.is_null())
                };
                value_of("value")
                    .or_else(|| value_of("default"))
                    .map(|member| member.node.clone())
            } else {
                (!node.is_null()).then_some(node)
            };
            if let Some((text, _)) = value.and_then(|value| value.scalar(self.report)) {
                self.scope.params.insert(key.to_owned(), text.into_owned());
            }
        }
    }

    /// Reads `envFile`. `env` overrides its variables, as in VS Code.
    fn read_env_file(&mut self) {
        let is_remote = reach::URL_KEYS.iter().any(|key| self.fields.has(key));
        if is_remote && !self.fields.has("command") {
            return;
        }
        let Some(node) = self.fields.take("envFile") else {
            return;
        };
        let path = self.text(&node).filter(|path| !path.is_empty());
        // The entry is not approved yet, so the file that it names is not read.
        let Some(path) = path.filter(|_| self.scope.references == References::Replaced) else {
            return;
        };
        let text = match self.scope.file(&path) {
            Err(
                absent @ Unresolved::File {
                    reason: UnreadableFile::Absent,
                    ..
                },
            ) => {
                let hint = "create it, or leave `envFile` out".to_owned();
                self.report.error_of_file(&node.place, &absent, Some(hint));
                return;
            }
            Ok(text) if text.contains('\0') => Err(Unresolved::Nul),
            read => read.and_then(|text| self.scope.charge(text.len()).map(|()| text)),
        };
        let Some(text) = self.resolved(&node.place, text) else {
            return;
        };
        match env_file::read(&text) {
            Ok(variables) => self.scope.env.extend(
                variables
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), Secret::new(value))),
            ),
            Err(fault) => self.report.error(&node.place, fault.to_string()),
        }
    }

    fn read_env(&mut self) {
        for Member {
            key,
            key_place,
            node,
        } in self.members("env")
        {
            if key.is_empty() || key.contains(['=', '\0']) {
                self.report.error(
                    &key_place,
                    "not a variable's name: empty, or with '=' or NUL",
                );
            } else if node.is_null() {
                // As in VS Code, `null` removes an inherited variable, too.
                self.scope.env.remove(key);
                self.unset.insert(key.to_owned());
            } else if let Some(value) = self.scalar(&node) {
                self.scope.env.insert(key.to_owned(), Secret::new(value));
            }
        }
    }

    /// Reads a required text, which must not be empty. Returns it with its place. `absent` is the error
    /// message if the text is missing. `keys` are the keys that may hold the text.
    pub fn required(
        &mut self,
        node: Option<Node<'e>>,
        keys: &[&'static str],
        absent: &str,
    ) -> Option<(KeyPath, String)> {
        let Some(node) = node else {
            let misspelt = keys
                .iter()
                .find_map(|key| Some((self.fields.misspelt(key)?, key)));
            let hint = misspelt
                .map(|(key, legal_key)| format!("it has `{key}`; did you mean `{legal_key}`?"));
            self.report.error_about(&self.fields.place, &absent, hint);
            return None;
        };
        if node.as_str().is_none() {
            let hint = format!("expected a string, found {}", node.kind());
            self.report.error_with_hint(&node.place, absent, hint);
            return None;
        }
        let text = self.text(&node)?;
        if text.trim().is_empty() {
            self.report
                .error_with_hint(&node.place, absent, "it is empty");
            return None;
        }
        Some((node.place, text))
    }

    /// Checks a URL. A URL that still has references is checked later, when they are replaced.
    pub fn checked_url(&mut self, place: &KeyPath, url: String) -> Option<String> {
        if self.scope.is_open(&url) {
            return Some(url);
        }
        match http::check_url(&url) {
            Ok(()) => Some(url),
            Err(fault) => {
                self.report.error(place, fault.to_string());
                None
            }
        }
    }

    /// Reads a string, and replaces its references.
    pub fn text(&mut self, node: &Node<'_>) -> Option<String> {
        let text = node.string(self.report)?;
        self.look_for_variable(&node.place, text);
        self.resolved(&node.place, self.scope.expand(text))
    }

    fn look_for_variable(&mut self, place: &KeyPath, text: &str) {
        // An argument of several words may be a script, which has variables of its own.
        let is_script = place.path.contains(".args[") && text.contains(char::is_whitespace);
        let within = !is_script && self.scope.has_variable_within(text);
        if within || self.scope.looks_like_a_variable(text) {
            let message = "`$` and a name are taken as they stand here";
            let hint = "${NAME} stands for a variable".to_owned();
            self.report.warn_with_hint(place, message, Some(hint));
        }
    }

    /// Reads a text that clients also write as a number or a boolean.
    pub fn scalar(&mut self, node: &Node<'_>) -> Option<String> {
        let (text, converted) = node.scalar(self.report)?;
        if converted {
            self.report.warn(
                &node.place,
                format!("{} is taken as the text {text:?}", node.kind()),
            );
        }
        self.look_for_variable(&node.place, &text);
        self.resolved(&node.place, self.scope.expand(&text))
    }

    pub fn resolved<T>(&mut self, place: &KeyPath, resolved: Result<T, Unresolved>) -> Option<T> {
        match resolved {
            Ok(text) => Some(text),
            // The entry was already reported as too long. A finding for each further text would only
            // repeat that.
            Err(Unresolved::NoRoom) => None,
            Err(fault @ (Unresolved::File { .. } | Unresolved::Keyring { .. })) => {
                self.report.error_of_file(place, &fault, fault.hint());
                None
            }
            Err(fault) => {
                self.report.error_about(place, &fault, fault.hint());
                None
            }
        }
    }

    pub fn members(&mut self, key: &'static str) -> Vec<Member<'e>> {
        let node = self.fields.take(key);
        node.and_then(|node| node.distinct_members(self.report))
            .unwrap_or_default()
    }

    /// Warns about a key that this kind of server does not use, unless it is empty. Some programs write
    /// the keys of all kinds of servers, and leave the unused ones empty.
    pub fn unused(&mut self, key: &'static str, message: &str) {
        if let Some(node) = self.fields.take(key).filter(|node| !node.is_empty()) {
            self.report.warn(&node.place, message);
        }
    }
}
