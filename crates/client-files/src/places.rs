//! The paths of each client's files on each system, and the places of servers in the files.

use std::path::{Path, PathBuf};

use mainstay_config::is_own_key;
use serde_json::{Map, Value};

use crate::{
    client::ClientKind,
    format::FileFormat,
    machine::{Machine, System},
};

/// The projects to which the servers of a file apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileScope {
    /// All projects of the user.
    User,
    /// The project in this folder.
    Project(PathBuf),
}

/// A file in which a client may keep servers. The file may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    pub client: ClientKind,
    pub path: PathBuf,
    pub format: FileFormat,
    pub scope: FileScope,
    /// True if the client itself writes new servers to this file. Several such files belong to several
    /// installations, such as one extension in several editors. The most common installation comes first.
    pub is_main: bool,
    /// The rules about these servers in other files of the client.
    pub choices: Vec<Choices>,
    /// The addresses of Mainstay ([`Machine::own_addresses`]).
    pub own_addresses: Vec<String>,
}

/// The rules about servers in another file of a client. Other keys of that file are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    pub path: PathBuf,
    pub scope: FileScope,
    pub whole: Value,
}

/// The place of servers in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The keys that lead to it, from the top.
    pub keys: Vec<String>,
    /// True for a list whose elements have a `name`, false for an object.
    pub is_list: bool,
    /// The project of the servers, if it differs from that of the file.
    pub project: Option<PathBuf>,
}

impl Section {
    fn at(keys: &[&str]) -> Self {
        Self {
            keys: keys.iter().map(ToString::to_string).collect(),
            is_list: false,
            project: None,
        }
    }

    pub(crate) fn value<'v>(&self, whole: &'v Value) -> Option<&'v Value> {
        self.keys
            .iter()
            .try_fold(whole, |value, key| value.get(key))
    }
}

impl ClientFile {
    fn new(client: ClientKind, path: PathBuf, scope: FileScope) -> Self {
        let format = format_of(client, &path);
        Self {
            client,
            path,
            format,
            scope,
            is_main: true,
            choices: Vec::new(),
            own_addresses: Vec::new(),
        }
    }

    /// Recognises a file that a person names. Returns `None` if neither its path nor its content (`text`)
    /// identifies the client.
    pub fn recognize(path: &Path, text: &str, machine: &Machine) -> Option<Self> {
        let clients = ClientKind::ALL.into_iter().chain([ClientKind::Unknown]);
        let files = clients.flat_map(|client| files_of(client, machine));
        let mut matching =
            files.filter(|file| file.path == path && !is_of_visual_studio(path, text));
        matching.next().or_else(|| {
            let client = client_of(path, text)?;
            Some(Self::of_client(client, path, machine))
        })
    }

    /// Describes a file of this client at a path that the client does not use by default.
    pub fn of_client(client: ClientKind, path: &Path, machine: &Machine) -> Self {
        let project = project_of(client, path).filter(|folder| *folder != machine.home);
        let scope = project.map_or(FileScope::User, FileScope::Project);
        Self {
            own_addresses: machine.own_addresses.clone(),
            ..Self::new(client, path.to_owned(), scope)
        }
    }

    /// The folder from which the client resolves relative paths, if it is known.
    pub fn project(&self) -> Option<&Path> {
        match &self.scope {
            FileScope::User => None,
            FileScope::Project(folder) => Some(folder),
        }
    }

    /// The places of servers in this file. The client itself adds servers to the first place, which may not
    /// exist yet.
    pub fn sections(&self, whole: &Value) -> Vec<Section> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        match self.client {
            ClientKind::VsCode | ClientKind::VsCodeInsiders => {
                let first = match name {
                    Some("settings.json") => &["mcp", "servers"][..],
                    _ => &["servers"],
                };
                let others = [&["mcp.servers"][..], &["mcp", "servers"]].into_iter();
                let others = others.filter(|keys| *keys != first).map(Section::at);
                let others = others.filter(|section| section.value(whole).is_some_and(is_filled));
                std::iter::once(Section::at(first)).chain(others).collect()
            }
            ClientKind::Codex => vec![Section::at(&["mcp_servers"])],
            ClientKind::Zed => vec![Section::at(&["context_servers"])],
            ClientKind::Opencode | ClientKind::KiloCli => vec![opencode(whole)],
            ClientKind::Crush => vec![Section::at(&["mcp"])],
            ClientKind::Goose => vec![Section::at(&["extensions"])],
            ClientKind::Kiro => {
                let powers = Section::at(&["powers", "mcpServers"]);
                let has_powers = powers.value(whole).is_some_and(Value::is_object);
                let servers = std::iter::once(Section::at(&["mcpServers"]));
                servers.chain(has_powers.then_some(powers)).collect()
            }
            ClientKind::Continue => vec![Section {
                is_list: !whole.get("mcpServers").is_some_and(Value::is_object),
                ..Section::at(&["mcpServers"])
            }],
            ClientKind::ClaudeCode => {
                let mut sections = vec![Section::at(&["mcpServers"])];
                if name == Some(".mcp.json") && has_servers_of_visual_studio(whole) {
                    sections.push(Section::at(&["servers"]));
                }
                let projects = whole.get("projects").and_then(Value::as_object);
                let with_servers = projects.into_iter().flatten().filter(|(_, project)| {
                    let servers = project.get("mcpServers").and_then(Value::as_object);
                    servers.is_some_and(|servers| !servers.is_empty())
                });
                sections.extend(with_servers.map(|(folder, _)| Section {
                    project: Some(PathBuf::from(folder)),
                    ..Section::at(&["projects", folder, "mcpServers"])
                }));
                sections
            }
            // Read both keys, as `serve --config` does.
            ClientKind::Unknown if whole.get("servers").is_some_and(is_filled) => {
                let servers = ["mcpServers", "servers"].into_iter();
                let present = servers.filter(|key| whole.get(key).is_some());
                present.map(|key| Section::at(&[key])).collect()
            }
            _ => vec![Section::at(&["mcpServers"])],
        }
    }
}

fn is_filled(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The place of servers in opencode. The second version uses `mcp.servers`. The first version has the
/// servers in `mcp` itself.
fn opencode(whole: &Value) -> Section {
    let servers = whole.get("mcp").and_then(|mcp| mcp.get("servers"));
    let is_entry = |entry: &Value| entry.get("type").is_some() || entry.get("command").is_some();
    match servers {
        Some(servers) if servers.is_object() && !is_entry(servers) => {
            Section::at(&["mcp", "servers"])
        }
        _ => Section::at(&["mcp"]),
    }
}

pub(crate) fn format_of(client: ClientKind, path: &Path) -> FileFormat {
    let ending = path.extension().and_then(|extension| extension.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("toml") => FileFormat::Toml,
        Some("yaml" | "yml") => FileFormat::Yaml,
        Some(_) => FileFormat::Json,
        None => match client {
            ClientKind::Codex => FileFormat::Toml,
            ClientKind::Goose | ClientKind::Continue | ClientKind::LibreChat => FileFormat::Yaml,
            _ => FileFormat::Json,
        },
    }
}

/// The files of a client on this machine, the main file first. Pure: accesses no file.
pub fn files_of(client: ClientKind, machine: &Machine) -> Vec<ClientFile> {
    let Places { main, others } = user_files(client, machine);
    let user = |path, is_main| ClientFile {
        is_main,
        own_addresses: machine.own_addresses.clone(),
        ..ClientFile::new(client, path, FileScope::User)
    };
    let mut files: Vec<ClientFile> = main.into_iter().map(|path| user(path, true)).collect();
    files.extend(others.into_iter().map(|path| user(path, false)));
    if let Some(project) = &machine.project {
        let scope = FileScope::Project(project.clone());
        let paths = project_files(client).iter();
        files.extend(paths.map(|path| {
            let path = path
                .split('/')
                .fold(project.clone(), |at, part| at.join(part));
            ClientFile {
                is_main: false,
                own_addresses: machine.own_addresses.clone(),
                ..ClientFile::new(client, path, scope.clone())
            }
        }));
    }
    files
}

struct Places {
    /// The main file of each installation. The most common installation comes first.
    main: Vec<PathBuf>,
    /// Other files that the client reads, or that an earlier version wrote.
    others: Vec<PathBuf>,
}

fn user_files(client: ClientKind, machine: &Machine) -> Places {
    let home = |path: &str| {
        path.split('/')
            .fold(machine.home.clone(), |at, part| at.join(part))
    };
    let settings = |path: &str| {
        path.split('/')
            .fold(machine.settings(), |at, part| at.join(part))
    };
    let config = |path: &str| {
        path.split('/')
            .fold(machine.config(), |at, part| at.join(part))
    };
    let one = |path: PathBuf| Places {
        main: vec![path],
        others: Vec::new(),
    };
    let is_windows = machine.system == System::Windows;
    match client {
        ClientKind::ClaudeDesktop => one(settings("Claude/claude_desktop_config.json")),
        ClientKind::ClaudeCode => one(match &machine.claude_config_dir {
            Some(folder) => folder.join(".claude.json"),
            None => home(".claude.json"),
        }),
        ClientKind::Cursor => one(home(".cursor/mcp.json")),
        ClientKind::VsCode => Places {
            main: vec![settings("Code/User/mcp.json")],
            others: vec![settings("Code/User/settings.json")],
        },
        ClientKind::VsCodeInsiders => Places {
            main: vec![settings("Code - Insiders/User/mcp.json")],
            others: vec![settings("Code - Insiders/User/settings.json")],
        },
        ClientKind::Codex => one(match &machine.codex_home {
            Some(folder) => folder.join("config.toml"),
            None => home(".codex/config.toml"),
        }),
        ClientKind::GeminiCli => one(home(".gemini/settings.json")),
        ClientKind::Windsurf => Places {
            main: vec![
                home(".codeium/windsurf/mcp_config.json"),
                // The file of Windsurf's plugins for other editors.
                home(".codeium/mcp_config.json"),
            ],
            others: Vec::new(),
        },
        ClientKind::Zed => one(if is_windows {
            machine.roaming().join("Zed").join("settings.json")
        } else {
            config("zed/settings.json")
        }),
        ClientKind::Cline => {
            let file = "saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
            let mut places = of_extension(&settings, file);
            places
                .main
                .push(home(".cline/data/settings/cline_mcp_settings.json"));
            places
        }
        ClientKind::Roo => of_extension(
            &settings,
            "rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ),
        ClientKind::Opencode => Places {
            main: vec![config("opencode/opencode.json")],
            others: vec![
                config("opencode/opencode.jsonc"),
                config("opencode/config.json"),
            ],
        },
        ClientKind::Goose => one(if is_windows {
            let folder = machine.roaming().join("Block").join("goose");
            folder.join("config").join("config.yaml")
        } else {
            config("goose/config.yaml")
        }),
        ClientKind::Continue => Places {
            main: vec![home(".continue/config.yaml")],
            others: Vec::new(),
        },
        ClientKind::LibreChat => one(home("LibreChat/librechat.yaml")),
        ClientKind::AmazonQ => Places {
            main: vec![home(".aws/amazonq/mcp.json")],
            others: vec![
                home(".aws/amazonq/default.json"),
                home(".aws/amazonq/agents/default.json"),
                home(".aws/amazonq/cli-agents/default.json"),
            ],
        },
        ClientKind::JetBrains => one(home(".junie/mcp/mcp.json")),
        ClientKind::LmStudio => Places {
            main: vec![home(".lmstudio/mcp.json")],
            others: vec![home(".cache/lm-studio/mcp.json")],
        },
        ClientKind::Warp => one(home(".warp/.mcp.json")),
        ClientKind::Kiro => one(home(".kiro/settings/mcp.json")),
        ClientKind::CopilotCli => one(home(".copilot/mcp-config.json")),
        ClientKind::Antigravity => Places {
            main: vec![home(".gemini/antigravity/mcp_config.json")],
            others: vec![home(".gemini/config/mcp_config.json")],
        },
        ClientKind::QwenCode => one(home(".qwen/settings.json")),
        ClientKind::Kilo => {
            of_extension(&settings, "kilocode.kilo-code/settings/mcp_settings.json")
        }
        ClientKind::KiloCli => Places {
            main: vec![config("kilo/kilo.jsonc")],
            others: vec![config("kilo/kilo.json")],
        },
        ClientKind::Crush => one(if is_windows {
            home("AppData/Local/crush/crush.json")
        } else {
            config("crush/crush.json")
        }),
        ClientKind::Trae => one(settings("Trae/User/mcp.json")),
        // The files of programs that Mainstay replaces. Their entries have Mainstay's keys.
        ClientKind::Unknown => Places {
            main: Vec::new(),
            others: vec![
                home(".pagespace/local-mcp-config.json"),
                match &machine.cideldill_clients {
                    Some(path) => path.clone(),
                    None => home(".cideldill/mcp_clients.json"),
                },
            ],
        },
    }
}

/// The files of a VS Code extension, in VS Code and in the editors that are based on it.
fn of_extension(settings: &dyn Fn(&str) -> PathBuf, file: &str) -> Places {
    let path = |editor: &str| settings(&format!("{editor}/User/globalStorage/{file}"));
    let editors = ["Code", "Code - Insiders", "Cursor", "Windsurf", "VSCodium"];
    Places {
        main: editors.map(path).into(),
        others: Vec::new(),
    }
}

/// The files of a client in a project.
fn project_files(client: ClientKind) -> &'static [&'static str] {
    match client {
        ClientKind::ClaudeCode => &[".mcp.json"],
        ClientKind::Cursor => &[".cursor/mcp.json"],
        ClientKind::VsCode => &[".vscode/mcp.json", ".vscode/settings.json"],
        ClientKind::Codex => &[".codex/config.toml"],
        ClientKind::GeminiCli => &[".gemini/settings.json"],
        ClientKind::Zed => &[".zed/settings.json"],
        ClientKind::Roo => &[".roo/mcp.json"],
        ClientKind::Opencode => &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ],
        ClientKind::LibreChat => &["librechat.yaml"],
        ClientKind::AmazonQ => &[".amazonq/mcp.json"],
        ClientKind::JetBrains => &[".junie/mcp/mcp.json"],
        ClientKind::Warp => &[".warp/.mcp.json"],
        ClientKind::Kiro => &[".kiro/settings/mcp.json"],
        ClientKind::QwenCode => &[".qwen/settings.json"],
        ClientKind::Kilo => &[".kilocode/mcp.json"],
        ClientKind::KiloCli => &["kilo.jsonc", "kilo.json", ".kilo/kilo.jsonc"],
        ClientKind::Crush => &["crush.json", ".crush.json"],
        ClientKind::Trae => &[".trae/mcp.json"],
        ClientKind::ClaudeDesktop
        | ClientKind::VsCodeInsiders
        | ClientKind::Windsurf
        | ClientKind::Cline
        | ClientKind::Goose
        | ClientKind::Continue
        | ClientKind::LmStudio
        | ClientKind::CopilotCli
        | ClientKind::Antigravity
        | ClientKind::Unknown => &[],
    }
}

/// The project of a file at this path, if the client keeps such files in projects.
fn project_of(client: ClientKind, path: &Path) -> Option<PathBuf> {
    project_files(client).iter().find_map(|file| {
        let folder = file.split('/').rev().try_fold(path, |at, part| {
            (at.file_name()? == part).then(|| at.parent()).flatten()
        })?;
        // A folder of the user's settings is not a project.
        let of_settings = ["opencode", ".opencode", "kilo", ".kilo", "crush"]
            .iter()
            .any(|name| folder.ends_with(name));
        (folder.is_absolute() && !of_settings).then(|| folder.to_owned())
    })
}

/// Recognises the client of a file by its name and folder. If name and folder do not identify the client,
/// uses keys that only one client writes.
fn client_of(path: &Path, text: &str) -> Option<ClientKind> {
    let by_place = by_place(path).filter(|_| !is_of_visual_studio(path, text));
    by_place.or_else(|| by_content(path, text))
}

/// True for a file of Visual Studio. It has the content of VS Code's file and the name of Claude Code's
/// file.
fn is_of_visual_studio(path: &Path, text: &str) -> bool {
    if path.file_name().is_none_or(|name| name != ".mcp.json") {
        return false;
    }
    let whole = crate::document::value(FileFormat::Json, text).unwrap_or_default();
    has_servers_of_visual_studio(&whole)
}

fn has_servers_of_visual_studio(whole: &Value) -> bool {
    whole.get("servers").is_some_and(is_filled) && whole.get("mcpServers").is_none()
}

/// File names, with the folders above them, that belong to one client. An empty name matches any file.
const PLACES: [(&str, &[&str], ClientKind); 43] = [
    ("local-mcp-config.json", &[], ClientKind::Unknown),
    ("mcp_clients.json", &[], ClientKind::Unknown),
    ("claude_desktop_config.json", &[], ClientKind::ClaudeDesktop),
    (".claude.json", &[], ClientKind::ClaudeCode),
    ("cline_mcp_settings.json", &[], ClientKind::Cline),
    (
        "mcp_settings.json",
        &["kilocode.kilo-code"],
        ClientKind::Kilo,
    ),
    ("mcp_settings.json", &[], ClientKind::Roo),
    ("mcp_config.json", &[".codeium"], ClientKind::Windsurf),
    ("mcp_config.json", &[".gemini"], ClientKind::Antigravity),
    ("opencode.json", &[], ClientKind::Opencode),
    ("opencode.jsonc", &[], ClientKind::Opencode),
    ("kilo.json", &[], ClientKind::KiloCli),
    ("kilo.jsonc", &[], ClientKind::KiloCli),
    ("crush.json", &[], ClientKind::Crush),
    (".crush.json", &[], ClientKind::Crush),
    ("librechat.yaml", &[], ClientKind::LibreChat),
    ("librechat.yml", &[], ClientKind::LibreChat),
    ("mcp-config.json", &[".copilot"], ClientKind::CopilotCli),
    ("", &[".cursor"], ClientKind::Cursor),
    ("", &["Code - Insiders", "User"], ClientKind::VsCodeInsiders),
    ("", &[".vscode"], ClientKind::VsCode),
    ("", &["Code", "User"], ClientKind::VsCode),
    ("", &["Trae", "User"], ClientKind::Trae),
    ("", &[".trae"], ClientKind::Trae),
    ("", &[".codex"], ClientKind::Codex),
    ("settings.json", &[".gemini"], ClientKind::GeminiCli),
    ("settings.json", &[".qwen"], ClientKind::QwenCode),
    ("settings.json", &[".zed"], ClientKind::Zed),
    ("settings.json", &["zed"], ClientKind::Zed),
    ("settings.json", &["Zed"], ClientKind::Zed),
    ("", &[".roo"], ClientKind::Roo),
    ("", &[".kilocode"], ClientKind::Kilo),
    ("", &[".kiro"], ClientKind::Kiro),
    ("config.json", &["opencode"], ClientKind::Opencode),
    ("config.yaml", &["goose"], ClientKind::Goose),
    ("", &[".continue"], ClientKind::Continue),
    ("", &["amazonq"], ClientKind::AmazonQ),
    ("", &[".amazonq"], ClientKind::AmazonQ),
    ("", &[".junie"], ClientKind::JetBrains),
    ("", &[".lmstudio"], ClientKind::LmStudio),
    ("", &["lm-studio"], ClientKind::LmStudio),
    ("", &[".warp"], ClientKind::Warp),
    (".mcp.json", &[], ClientKind::ClaudeCode),
];

fn by_place(path: &Path) -> Option<ClientKind> {
    let name = path.file_name()?.to_str()?;
    let parts: Vec<&str> = path
        .parent()?
        .iter()
        .filter_map(|part| part.to_str())
        .collect();
    let is_in = |folders: &[&str]| {
        folders.is_empty() || parts.windows(folders.len()).any(|parts| parts == folders)
    };
    let mut places = PLACES.into_iter();
    let found = places.find(|(file_name, folders, _)| {
        (file_name.is_empty() || *file_name == name) && is_in(folders)
    });
    found.map(|(_, _, client)| client)
}

/// Recognises a file by its content.
fn by_content(path: &Path, text: &str) -> Option<ClientKind> {
    let format = format_of(ClientKind::Unknown, path);
    let whole = crate::document::value(format, text).ok()?;
    let has = |key: &str| whole.get(key).is_some_and(is_filled);
    if format == FileFormat::Toml {
        return has("mcp_servers").then_some(ClientKind::Codex);
    }
    if has("context_servers") {
        return Some(ClientKind::Zed);
    }
    if format == FileFormat::Yaml {
        return match whole.get("mcpServers") {
            Some(Value::Array(_)) => Some(ClientKind::Continue),
            Some(_) => Some(ClientKind::Unknown),
            None => has("extensions").then_some(ClientKind::Goose),
        };
    }
    if let Some(servers) = whole.get("servers").filter(|servers| is_filled(servers)) {
        let of_mainstay = has_own_keys(servers);
        return Some(if of_mainstay {
            ClientKind::Unknown
        } else {
            ClientKind::VsCode
        });
    }
    if has("mcp.servers") {
        return Some(ClientKind::VsCode);
    }
    if has("projects") {
        return Some(ClientKind::ClaudeCode);
    }
    if has("mcpServers") {
        return Some(ClientKind::Unknown);
    }
    whole.get("mcp").and_then(|mcp| by_mcp(&whole, mcp))
}

/// Decides whether `mcp` belongs to VS Code, opencode or Crush.
fn by_mcp(whole: &Value, mcp: &Value) -> Option<ClientKind> {
    let schema = whole.get("$schema").and_then(Value::as_str);
    let has_schema = |name: &str| schema.is_some_and(|schema| schema.contains(name));
    let is_of_opencode = |entry: &Value| {
        let word = entry.get("type").and_then(Value::as_str);
        let is_list = entry.get("command").is_some_and(Value::is_array);
        is_list || entry.get("enabled").is_some() || matches!(word, Some("local" | "remote"))
    };
    Some(match mcp.as_object()? {
        _ if has_schema("opencode") => ClientKind::Opencode,
        _ if has_schema("kilo") => ClientKind::KiloCli,
        _ if has_schema("crush") => ClientKind::Crush,
        members if members.contains_key("servers") && schema.is_none() => ClientKind::VsCode,
        members if members.values().any(is_of_opencode) => ClientKind::Opencode,
        members if members.contains_key("servers") => ClientKind::Opencode,
        _ => ClientKind::Crush,
    })
}

/// True if an entry of these servers has a key that exists only in our configuration.
fn has_own_keys(servers: &Value) -> bool {
    let members = servers.as_object().into_iter().flat_map(Map::values);
    let elements = servers.as_array().into_iter().flatten();
    let mut entries = members.chain(elements).filter_map(Value::as_object);
    entries.any(|entry| entry.keys().any(|key| is_own_key(key)))
}
