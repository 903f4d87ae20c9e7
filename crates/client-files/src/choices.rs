//! Reads a client's rules about its servers from other files than the file with the servers.

use std::path::{Path, PathBuf};

use mainstay_platform::files;
use serde_json::{Map, Value};

use crate::{
    client::ClientKind,
    document,
    machine::{Machine, System},
    places::{Choices, ClientFile, FileScope, files_of, format_of},
    rules::{KEYS, MANAGED_SERVERS},
};

/// The maximum number of Claude Code's projects whose settings are read.
const MAX_PROJECTS: usize = 64;

/// The maximum number of files that are read in one folder.
const MAX_FILES: usize = 256;

/// Adds the rules about the client's servers from its other files. Reads these files.
pub fn with_choices(file: ClientFile, machine: &Machine) -> ClientFile {
    let mut choices = Vec::new();
    if let (ClientKind::ClaudeCode, Some(project)) = (file.client, file.project()) {
        choices.extend(of_project_of_claude_code(project, machine));
    }
    for (path, scope) in places(&file, machine) {
        if path == file.path {
            continue;
        }
        choices.extend(value(file.client, &path).map(|whole| Choices {
            whole: with_rules_alone(whole),
            path,
            scope,
        }));
    }
    ClientFile { choices, ..file }
}

fn value(client: ClientKind, path: &Path) -> Option<Value> {
    let text = files::configuration(path).ok()?;
    document::value(format_of(client, path), &text).ok()
}

/// The paths of files that may have rules. Files for all projects come first.
fn places(file: &ClientFile, machine: &Machine) -> Vec<(PathBuf, FileScope)> {
    let project = file.project().or(machine.project.as_deref());
    let in_project = |names: &[&str]| -> Vec<(PathBuf, FileScope)> {
        let paths = project.into_iter().flat_map(|project| {
            let paths = names.iter().map(|name| project.join(name));
            paths.map(|path| (path, FileScope::Project(project.to_owned())))
        });
        paths.collect()
    };
    let of_user = |path: PathBuf| (path, FileScope::User);
    let home = &machine.home;
    match file.client {
        ClientKind::ClaudeCode => {
            const NAMES: [&str; 2] = ["settings.json", "settings.local.json"];
            let folder = machine.claude_config_dir.clone();
            let folder = folder.unwrap_or_else(|| home.join(".claude"));
            let mut places: Vec<_> = NAMES
                .iter()
                .map(|name| of_user(folder.join(name)))
                .collect();
            if let Some(folder) = &machine.claude_managed_dir {
                const MANAGED_FILES: [&str; 2] = ["managed-settings.json", MANAGED_SERVERS];
                places.extend(MANAGED_FILES.map(|name| of_user(folder.join(name))));
                places.extend(json_files(
                    &folder.join("managed-settings.d"),
                    &FileScope::User,
                ));
            }
            let mut projects: Vec<PathBuf> = project.into_iter().map(Path::to_owned).collect();
            if file.project().is_none() {
                projects.extend(projects_with_servers(&file.path));
            }
            projects.dedup();
            for project in projects {
                places.extend(NAMES.iter().map(|name| {
                    let path = project.join(".claude").join(name);
                    (path, FileScope::Project(project.clone()))
                }));
            }
            places
        }
        ClientKind::Cursor => {
            let folder = match &machine.xdg_config_home {
                Some(folder) if machine.system == System::Linux => folder.join("cursor"),
                _ => home.join(".cursor"),
            };
            let mut places = vec![of_user(folder.join("cli-config.json"))];
            places.extend(in_project(&[".cursor/cli.json"]));
            places
        }
        ClientKind::Goose => vec![of_user(file.path.with_file_name("permission.yaml"))],
        ClientKind::Opencode
        | ClientKind::KiloCli
        | ClientKind::GeminiCli
        | ClientKind::QwenCode
        | ClientKind::Zed
        | ClientKind::Crush => {
            let machine = machine.clone().with_project(project.map(Path::to_owned));
            let files = files_of(file.client, &machine).into_iter();
            files.map(|file| (file.path, file.scope)).collect()
        }
        ClientKind::Kiro => {
            let mut places = json_files(&home.join(".kiro/agents"), &FileScope::User);
            for (folder, scope) in in_project(&[".kiro/agents"]) {
                places.extend(json_files(&folder, &scope));
            }
            places
        }
        ClientKind::AmazonQ => {
            let mut places = json_files(&home.join(".aws/amazonq/cli-agents"), &FileScope::User);
            for (folder, scope) in in_project(&[".amazonq/cli-agents"]) {
                places.extend(json_files(&folder, &scope));
            }
            places
        }
        _ => Vec::new(),
    }
}

/// The JSON files in this folder, sorted by name.
fn json_files(folder: &Path, scope: &FileScope) -> Vec<(PathBuf, FileScope)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_json = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_json).take(MAX_FILES).collect();
    paths.sort();
    let places = paths.into_iter().map(|path| (path, scope.clone()));
    places.collect()
}

/// The projects for which Claude Code's file has separate servers.
fn projects_with_servers(path: &Path) -> Vec<PathBuf> {
    let whole = value(ClientKind::ClaudeCode, path).unwrap_or_default();
    let projects = whole.get("projects").and_then(Value::as_object);
    let has_servers = |project: &Value| {
        let servers = project.get("mcpServers").and_then(Value::as_object);
        servers.is_some_and(|servers| !servers.is_empty())
    };
    let with_servers = projects
        .into_iter()
        .flatten()
        .filter(|(_, project)| has_servers(project));
    let folders = with_servers.map(|(folder, _)| PathBuf::from(folder));
    let whole = folders.filter(|folder| folder.is_absolute());
    whole.take(MAX_PROJECTS).collect()
}

/// The rules for a project in the main file of Claude Code.
fn of_project_of_claude_code(project: &Path, machine: &Machine) -> Option<Choices> {
    let client_file = files_of(ClientKind::ClaudeCode, machine)
        .into_iter()
        .next()?;
    let whole = value(client_file.client, &client_file.path)?;
    let of_project = whole.get("projects")?.get(project.to_str()?)?;
    Some(Choices {
        path: client_file.path,
        scope: FileScope::Project(project.to_owned()),
        whole: with_rules_alone(of_project.clone()),
    })
}

/// Keeps only the keys with rules. Keeps only the names of servers, because their entries may contain
/// secrets.
fn with_rules_alone(whole: Value) -> Value {
    let Value::Object(members) = whole else {
        return Value::Null;
    };
    let mut rules = Map::new();
    for (key, value) in members {
        if !KEYS.contains(&key.as_str()) {
            continue;
        }
        let value = match (key.as_str(), value) {
            ("mcpServers", Value::Object(servers)) => {
                let names = servers.into_iter().map(|(name, _)| (name, Value::Null));
                Value::Object(names.collect())
            }
            ("mcp", Value::Object(members)) => {
                let lists = members.into_iter().filter(|(_, value)| value.is_array());
                Value::Object(lists.collect())
            }
            (_, value) => value,
        };
        rules.insert(key, value);
    }
    Value::Object(rules)
}
