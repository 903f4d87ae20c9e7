//! Where each client keeps its servers: its files on each system, and where in them the servers stand.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    client::Client,
    format::Format,
    machine::{Machine, System},
};

/// Whose servers a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of all projects of a user.
    User,
    /// Of the project in this folder.
    Project(PathBuf),
}

/// A file in which a client may keep servers, whether it is there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub path: PathBuf,
    pub format: Format,
    pub scope: Scope,
    /// Whether the client itself writes new servers here. Several such files are those of several
    /// installations, such as an extension in several editors; the usual one is the first.
    pub is_main: bool,
}

/// Where servers stand in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The keys that lead to it, from the top.
    pub keys: Vec<String>,
    /// Whether it is a list whose elements have a `name`, instead of an object.
    pub is_list: bool,
    /// The project to which its servers belong, if not to that of the file.
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
    fn new(client: Client, path: PathBuf, scope: Scope) -> Self {
        let format = format_of(client, &path);
        Self {
            client,
            path,
            format,
            scope,
            is_main: true,
        }
    }

    /// A file that a person names. `None` where neither its place nor its content (`text`) tells whose it
    /// is.
    pub fn recognize(path: &Path, text: &str, machine: &Machine) -> Option<Self> {
        let files = Client::ALL
            .into_iter()
            .flat_map(|client| files_of(client, machine));
        let mut known = files.filter(|file| file.path == path);
        known.next().or_else(|| {
            let client = client_of(path, text)?;
            Some(Self::of_client(client, path, machine))
        })
    }

    /// A file of this client at an unusual place.
    pub fn of_client(client: Client, path: &Path, machine: &Machine) -> Self {
        let project = project_of(client, path).filter(|folder| *folder != machine.home);
        let scope = project.map_or(Scope::User, Scope::Project);
        Self::new(client, path.to_owned(), scope)
    }

    /// The folder against which the client resolves relative paths, if it is known.
    pub fn project(&self) -> Option<&Path> {
        match &self.scope {
            Scope::User => None,
            Scope::Project(folder) => Some(folder),
        }
    }

    /// Where servers stand in this file. The first is where the client itself adds servers; it may not be
    /// there yet.
    pub fn sections(&self, whole: &Value) -> Vec<Section> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        match self.client {
            Client::VsCode | Client::VsCodeInsiders => match name {
                Some("settings.json") => vec![Section::at(&["mcp", "servers"])],
                _ => vec![Section::at(&["servers"])],
            },
            Client::Codex => vec![Section::at(&["mcp_servers"])],
            Client::Zed => vec![Section::at(&["context_servers"])],
            Client::Opencode => vec![opencode(whole)],
            Client::Goose => vec![Section::at(&["extensions"])],
            Client::Continue => vec![Section {
                is_list: !whole.get("mcpServers").is_some_and(Value::is_object),
                ..Section::at(&["mcpServers"])
            }],
            Client::ClaudeCode => {
                let mut sections = vec![Section::at(&["mcpServers"])];
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
            _ => vec![Section::at(&["mcpServers"])],
        }
    }
}

/// The second version has `mcp.servers`, the first had the servers in `mcp` itself.
fn opencode(whole: &Value) -> Section {
    let servers = whole.get("mcp").and_then(|mcp| mcp.get("servers"));
    let is_entry = |it: &Value| it.get("type").is_some() || it.get("command").is_some();
    match servers {
        Some(servers) if servers.is_object() && !is_entry(servers) => {
            Section::at(&["mcp", "servers"])
        }
        _ => Section::at(&["mcp"]),
    }
}

fn format_of(client: Client, path: &Path) -> Format {
    let ending = path.extension().and_then(|it| it.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("toml") => Format::Toml,
        Some("yaml" | "yml") => Format::Yaml,
        Some(_) => Format::Json,
        None => match client {
            Client::Codex => Format::Toml,
            Client::Goose | Client::Continue | Client::LibreChat => Format::Yaml,
            _ => Format::Json,
        },
    }
}

/// The files of a client on this machine, the main one first. Pure: nothing is looked at.
pub fn files_of(client: Client, machine: &Machine) -> Vec<ClientFile> {
    let Places { main, others } = user_files(client, machine);
    let user = |path, is_main| ClientFile {
        is_main,
        ..ClientFile::new(client, path, Scope::User)
    };
    let mut files: Vec<ClientFile> = main.into_iter().map(|path| user(path, true)).collect();
    files.extend(others.into_iter().map(|path| user(path, false)));
    if let Some(project) = &machine.project {
        let scope = Scope::Project(project.clone());
        let paths = project_files(client).iter();
        files.extend(paths.map(|path| {
            let path = path.split('/').fold(project.clone(), |at, it| at.join(it));
            ClientFile {
                is_main: false,
                ..ClientFile::new(client, path, scope.clone())
            }
        }));
    }
    files
}

struct Places {
    /// Where each installation writes, the usual place first.
    main: Vec<PathBuf>,
    /// Where it reads, too, or did once.
    others: Vec<PathBuf>,
}

fn user_files(client: Client, machine: &Machine) -> Places {
    let home = |path: &str| {
        path.split('/')
            .fold(machine.home.clone(), |at, it| at.join(it))
    };
    let settings = |path: &str| {
        path.split('/')
            .fold(machine.settings(), |at, it| at.join(it))
    };
    let config = |path: &str| path.split('/').fold(machine.config(), |at, it| at.join(it));
    let one = |path: PathBuf| Places {
        main: vec![path],
        others: Vec::new(),
    };
    let is_windows = machine.system == System::Windows;
    match client {
        Client::ClaudeDesktop => one(settings("Claude/claude_desktop_config.json")),
        Client::ClaudeCode => one(match &machine.claude_config_dir {
            Some(folder) => folder.join(".claude.json"),
            None => home(".claude.json"),
        }),
        Client::Cursor => one(home(".cursor/mcp.json")),
        Client::VsCode => Places {
            main: vec![settings("Code/User/mcp.json")],
            others: vec![settings("Code/User/settings.json")],
        },
        Client::VsCodeInsiders => Places {
            main: vec![settings("Code - Insiders/User/mcp.json")],
            others: vec![settings("Code - Insiders/User/settings.json")],
        },
        Client::Codex => one(match &machine.codex_home {
            Some(folder) => folder.join("config.toml"),
            None => home(".codex/config.toml"),
        }),
        Client::GeminiCli => one(home(".gemini/settings.json")),
        Client::Windsurf => Places {
            main: vec![
                home(".codeium/windsurf/mcp_config.json"),
                // Its plugins for other editors.
                home(".codeium/mcp_config.json"),
            ],
            others: Vec::new(),
        },
        Client::Zed => one(if is_windows {
            machine.roaming().join("Zed").join("settings.json")
        } else {
            config("zed/settings.json")
        }),
        Client::Cline => {
            let file = "saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
            let mut places = of_extension(&settings, file);
            places
                .main
                .push(home(".cline/data/settings/cline_mcp_settings.json"));
            places
        }
        Client::Roo => of_extension(
            &settings,
            "rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ),
        Client::Opencode => Places {
            main: vec![config("opencode/opencode.json")],
            others: vec![
                config("opencode/opencode.jsonc"),
                config("opencode/config.json"),
            ],
        },
        Client::Goose => one(if is_windows {
            let folder = machine.roaming().join("Block").join("goose");
            folder.join("config").join("config.yaml")
        } else {
            config("goose/config.yaml")
        }),
        Client::Continue => Places {
            main: vec![home(".continue/config.yaml")],
            others: Vec::new(),
        },
        Client::LibreChat => one(home("LibreChat/librechat.yaml")),
        Client::AmazonQ => Places {
            main: vec![home(".aws/amazonq/mcp.json")],
            others: vec![
                home(".aws/amazonq/default.json"),
                home(".aws/amazonq/agents/default.json"),
                home(".aws/amazonq/cli-agents/default.json"),
            ],
        },
        Client::JetBrains => one(home(".junie/mcp/mcp.json")),
        Client::LmStudio => Places {
            main: vec![home(".lmstudio/mcp.json")],
            others: vec![home(".cache/lm-studio/mcp.json")],
        },
        Client::Warp => one(home(".warp/.mcp.json")),
    }
}

/// The files of an extension of VS Code: in VS Code, and in the editors that are made of it.
fn of_extension(settings: &dyn Fn(&str) -> PathBuf, file: &str) -> Places {
    let path = |editor: &str| settings(&format!("{editor}/User/globalStorage/{file}"));
    let editors = ["Code", "Code - Insiders", "Cursor", "Windsurf", "VSCodium"];
    Places {
        main: editors.map(path).into(),
        others: Vec::new(),
    }
}

/// What a client reads in a project.
fn project_files(client: Client) -> &'static [&'static str] {
    match client {
        Client::ClaudeCode => &[".mcp.json"],
        Client::Cursor => &[".cursor/mcp.json"],
        Client::VsCode => &[".vscode/mcp.json", ".vscode/settings.json"],
        Client::Codex => &[".codex/config.toml"],
        Client::GeminiCli => &[".gemini/settings.json"],
        Client::Zed => &[".zed/settings.json"],
        Client::Roo => &[".roo/mcp.json"],
        Client::Opencode => &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ],
        Client::LibreChat => &["librechat.yaml"],
        Client::AmazonQ => &[".amazonq/mcp.json"],
        Client::JetBrains => &[".junie/mcp/mcp.json"],
        Client::Warp => &[".warp/.mcp.json"],
        Client::ClaudeDesktop
        | Client::VsCodeInsiders
        | Client::Windsurf
        | Client::Cline
        | Client::Goose
        | Client::Continue
        | Client::LmStudio => &[],
    }
}

/// The project to which a file at this path belongs, if it lies where projects have theirs.
fn project_of(client: Client, path: &Path) -> Option<PathBuf> {
    project_files(client).iter().find_map(|known| {
        let folder = known.split('/').rev().try_fold(path, |at, it| {
            (at.file_name()? == it).then(|| at.parent()).flatten()
        })?;
        // A folder of settings is no project.
        let of_settings = ["opencode", ".opencode"]
            .iter()
            .any(|it| folder.ends_with(it));
        (folder.is_absolute() && !of_settings).then(|| folder.to_owned())
    })
}

/// Whose file it is: by its name and its folder, else by what only one client writes.
fn client_of(path: &Path, text: &str) -> Option<Client> {
    let name = path.file_name()?.to_str()?;
    let parts: Vec<&str> = path.iter().filter_map(|it| it.to_str()).collect();
    let is_in = |folder: &str| parts.iter().rev().skip(1).any(|it| *it == folder);
    let by_name = match name {
        "claude_desktop_config.json" => Some(Client::ClaudeDesktop),
        ".claude.json" => Some(Client::ClaudeCode),
        "cline_mcp_settings.json" => Some(Client::Cline),
        "mcp_settings.json" => Some(Client::Roo),
        "mcp_config.json" => Some(Client::Windsurf),
        "opencode.json" | "opencode.jsonc" => Some(Client::Opencode),
        "librechat.yaml" | "librechat.yml" => Some(Client::LibreChat),
        _ => None,
    };
    let folders = [
        (".cursor", Client::Cursor),
        ("Code - Insiders", Client::VsCodeInsiders),
        (".vscode", Client::VsCode),
        ("Code", Client::VsCode),
        (".codex", Client::Codex),
        (".gemini", Client::GeminiCli),
        (".zed", Client::Zed),
        ("zed", Client::Zed),
        ("Zed", Client::Zed),
        (".roo", Client::Roo),
        ("opencode", Client::Opencode),
        ("goose", Client::Goose),
        (".continue", Client::Continue),
        ("amazonq", Client::AmazonQ),
        (".amazonq", Client::AmazonQ),
        (".junie", Client::JetBrains),
        (".lmstudio", Client::LmStudio),
        ("lm-studio", Client::LmStudio),
        (".warp", Client::Warp),
    ];
    let by_folder = || {
        let mut folders = folders.into_iter();
        folders
            .find(|(folder, _)| is_in(folder))
            .map(|(_, client)| client)
    };
    let last = || (name == ".mcp.json").then_some(Client::ClaudeCode);
    by_name
        .or_else(by_folder)
        .or_else(last)
        .or_else(|| by_content(path, text))
}

/// What a file is whose place says nothing.
fn by_content(path: &Path, text: &str) -> Option<Client> {
    let format = format_of(Client::ClaudeDesktop, path);
    let whole = crate::document::value(format, text).ok()?;
    let has = |key: &str| {
        whole
            .get(key)
            .is_some_and(|it| it.is_object() || it.is_array())
    };
    if format == Format::Toml {
        return has("mcp_servers").then_some(Client::Codex);
    }
    if has("context_servers") {
        return Some(Client::Zed);
    }
    if format == Format::Yaml {
        return match whole.get("mcpServers") {
            Some(Value::Array(_)) => Some(Client::Continue),
            Some(_) => Some(Client::LibreChat),
            None => has("extensions").then_some(Client::Goose),
        };
    }
    if has("servers") {
        return Some(Client::VsCode);
    }
    if has("projects") {
        return Some(Client::ClaudeCode);
    }
    let mcp = whole.get("mcp");
    if mcp.is_some_and(|it| it.get("servers").is_some() && whole.get("$schema").is_none()) {
        return Some(Client::VsCode);
    }
    if has("mcp") && !has("mcpServers") {
        return Some(Client::Opencode);
    }
    // What most clients write, in the words that most of them have.
    has("mcpServers").then_some(Client::ClaudeDesktop)
}
