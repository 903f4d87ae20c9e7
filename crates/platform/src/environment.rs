//! The process's environment, home folder, files and secrets, and the configuration found there.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env, io,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use mainstay_config::{
    ConfigSource, Environment, Inline, Location, ParsedEntry, References, UnreadableFile,
    UnreadableSecret,
    edit::{self, Entry},
    locate, locate_clients, parse, parse_as, parse_entry,
};
use mainstay_core::{
    config::{Config, ConfigError, ConfigErrors, Secret},
    failure::{Failure, FailureKind},
    ids::ServerName,
    proxy::ProxyVariables,
};

use crate::{files, state::StateDir, vault};

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Environment for Process {
    /// The value of a variable. A value that is not UTF-8 counts as unset, because a configuration cannot
    /// contain it.
    fn var(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        let mut read = files::referenced(&BTreeSet::from([path.to_owned()]));
        let late = Err(UnreadableFile::Late(files::PATIENCE));
        read.remove(path).unwrap_or(late)
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        let absent = Err(UnreadableSecret::Absent);
        secrets(&BTreeSet::from([name.to_owned()]))
            .remove(name)
            .unwrap_or(absent)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        env::home_dir().filter(|home| home.is_absolute())
    }
}

/// The proxy variables in the environment of this process. They are read once.
pub fn proxy_variables() -> &'static ProxyVariables {
    static VARIABLES: OnceLock<ProxyVariables> = OnceLock::new();
    VARIABLES.get_or_init(|| ProxyVariables::read(|name| Process.var(name)))
}

/// Reads the secrets with these names from the vault of the state directory.
fn secrets(names: &BTreeSet<String>) -> BTreeMap<String, Result<Secret, UnreadableSecret>> {
    match StateDir::locate(&Process) {
        Ok(state) => vault::secrets(&vault::shared(&state), names),
        Err(error) => {
            let failure = Err(UnreadableSecret::Vault(error.to_string()));
            let failed = names.iter().map(|name| (name.clone(), failure.clone()));
            failed.collect()
        }
    }
}

/// The environment of this process, with files and secrets that have been read already.
struct WithFiles {
    files: BTreeMap<PathBuf, Result<String, UnreadableFile>>,
    secrets: BTreeMap<String, Result<Secret, UnreadableSecret>>,
    missing_folders: BTreeSet<PathBuf>,
}

impl Environment for WithFiles {
    fn var(&self, name: &str) -> Option<String> {
        Process.var(name)
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        match self.files.get(path) {
            Some(read) => read.clone(),
            None => Process.read_file(path),
        }
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        match self.secrets.get(name) {
            Some(read) => read.clone(),
            None => Process.secret(name),
        }
    }

    fn home_dir(&self) -> Option<PathBuf> {
        Process.home_dir()
    }

    fn has_folder(&self, path: &Path) -> bool {
        !self.missing_folders.contains(path)
    }
}

/// An environment in which every file and secret is empty and every folder exists. It records the files, secrets
/// and folders that are used.
#[derive(Default)]
struct PathProbe {
    files: RefCell<BTreeSet<PathBuf>>,
    secrets: RefCell<BTreeSet<String>>,
    folders: RefCell<BTreeSet<PathBuf>>,
}

impl Environment for PathProbe {
    fn var(&self, name: &str) -> Option<String> {
        Process.var(name)
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        self.files.borrow_mut().insert(path.to_owned());
        Ok(String::new())
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        self.secrets.borrow_mut().insert(name.to_owned());
        Ok(Secret::new(""))
    }

    fn home_dir(&self) -> Option<PathBuf> {
        Process.home_dir()
    }

    fn has_folder(&self, path: &Path) -> bool {
        self.folders.borrow_mut().insert(path.to_owned());
        true
    }
}

/// Parses with the files and secrets that references name, and the folders that must exist. A first pass
/// collects their paths and names. They are then read concurrently, and a second pass uses them. Reading
/// takes at most [`files::PATIENCE`], even if many files hang, and [`vault::PATIENCE`] if a keyring asks a
/// person.
fn with_files<T>(parse: impl Fn(&dyn Environment) -> T) -> T {
    let probe = PathProbe::default();
    let parsed = parse(&probe);
    let (files, folders) = (probe.files.into_inner(), probe.folders.into_inner());
    let names = probe.secrets.into_inner();
    let missing_folders = files::missing_folders(&folders);
    if files.is_empty() && names.is_empty() && missing_folders.is_empty() {
        return parsed;
    }
    parse(&WithFiles {
        files: files::referenced(&files),
        secrets: secrets(&names),
        missing_folders,
    })
}

/// A valid configuration and its path.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// `None` without a file. There are no servers then.
    pub path: Option<PathBuf>,
    pub warnings: Vec<ConfigError>,
}

/// The reason that a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        source: UnreadableFile,
    },
    /// The usual file existed before, and was deleted.
    #[error("{} has gone", path.display())]
    Gone { path: PathBuf },
    #[error("{} is no usable configuration", path.display())]
    Invalid { path: PathBuf, errors: ConfigErrors },
}

/// The hint for a file that was deleted.
const GONE: &str = "bring it back, or do without it by \"mainstay reload\"";

impl LoadError {
    /// One line for each finding: `FILE:LINE:COLUMN: PATH: MESSAGE` if its place is known.
    pub fn findings(&self) -> Vec<String> {
        match self {
            Self::Unreadable { source, .. } => {
                vec![format!("{self}: {source} ({})", source.hint())]
            }
            Self::Gone { .. } => vec![format!("{self} ({GONE})")],
            Self::Invalid { path, errors } => errors
                .0
                .iter()
                .map(|error| error.at(path.display()).to_string())
                .collect(),
        }
    }
}

impl LoadError {
    /// The errors in a form for programs.
    pub fn errors(&self) -> Vec<ConfigError> {
        let whole = |message, hint: &str| ConfigError {
            path: String::new(),
            message,
            hint: Some(hint.to_owned()),
            position: None,
            awaits_file: false,
        };
        match self {
            Self::Unreadable { source, .. } => {
                vec![whole(format!("{self}: {source}"), source.hint())]
            }
            Self::Gone { .. } => vec![whole(self.to_string(), GONE)],
            Self::Invalid { errors, .. } => errors.0.clone(),
        }
    }

    /// The error as a kind of failure, in fixed words (requirement A24).
    pub fn failure(&self) -> Failure {
        let message = match self {
            Self::Unreadable { source, .. } => format!("{self}: {source}"),
            Self::Gone { .. } => self.to_string(),
            Self::Invalid { errors, .. } => match errors.0.first() {
                Some(first) => format!("Invalid configuration: {}", first.message),
                None => self.to_string(),
            },
        };
        let findings: Vec<_> = self.errors().iter().map(ConfigError::to_json).collect();
        Failure::new(FailureKind::InvalidConfig, message).with("findings", findings)
    }
}

impl Loaded {
    fn empty() -> Self {
        Self {
            config: Config {
                telemetry: mainstay_config::telemetry_of_environment(&Process),
                ..Config::default()
            },
            path: None,
            warnings: Vec::new(),
        }
    }

    /// All findings, one line each. A problem is `FILE:LINE:COLUMN: PATH: MESSAGE`, and a warning begins with
    /// `warning:`.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        let file = self.file();
        self.config
            .problems()
            .map(move |(_, problem)| problem.at(&file).to_string())
            .chain(self.told_warnings())
    }

    /// The warnings, one line each, beginning with `warning:`.
    pub fn told_warnings(&self) -> impl Iterator<Item = String> {
        let file = self.file();
        self.warnings
            .iter()
            .map(move |warning| format!("warning: {}", warning.at(&file)))
    }

    fn file(&self) -> String {
        let path = self.path.as_deref();
        path.map(|path| path.display().to_string())
            .unwrap_or_default()
    }
}

/// The file of a configuration, and the additions of the command line. They can be read again.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationSource {
    pub flag: Option<PathBuf>,
    /// The value of `--health-interval`; `Some(None)` disables health checks.
    pub health_interval: Option<Option<Duration>>,
    pub clients: ClientsFlags,
}

/// The values of `--mcp-clients` and related flags.
#[derive(Clone, Debug, Default)]
pub struct ClientsFlags {
    /// `--mcp-clients`: the usual file of another program.
    pub usual: bool,
    /// `--mcp-clients-config`
    pub file: Option<PathBuf>,
    /// `--mcp-client`. Each entry overrides the file.
    pub inline: Vec<Inline>,
}

impl ConfigurationSource {
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let text = self.text()?;
        self.parse(text.as_deref())
    }

    /// The text of the file. `None` if the usual file is missing or its path is unknown. An error if a file
    /// is missing that was named explicitly.
    pub fn text(&self) -> Result<Option<String>, LoadError> {
        let Some(location) = self.location() else {
            return Ok(None);
        };
        match (files::own_configuration(location.path()), location) {
            (Ok(text), _) => Ok(Some(text)),
            (Err(UnreadableFile::Absent), Location::Usual(_)) => Ok(None),
            (Err(source), Location::Named(path) | Location::Usual(path)) => {
                Err(LoadError::Unreadable { path, source })
            }
        }
    }

    /// Parses this text as the file's content, together with the command line.
    pub fn parse(&self, text: Option<&str>) -> Result<Loaded, LoadError> {
        let mut loaded = match text.zip(self.path()) {
            None => Loaded::empty(),
            Some((text, path)) => self.parse_file(text, path)?,
        };
        for Inline { name, entry } in &self.clients.inline {
            let replaced = References::Replaced;
            let ParsedEntry { config, warnings } = self.parse_entry(name, entry, text, replaced)?;
            loaded.config = loaded.config.with_inline([config]);
            loaded.warnings.extend(warnings);
        }
        if let Some(interval) = self.health_interval {
            loaded.config = loaded.config.with_health_interval(interval);
        }
        Ok(loaded)
    }

    /// Parses the file's text without resolving its references: no file or variable that they name is read.
    pub fn parse_kept(&self, text: &str) -> Result<Loaded, LoadError> {
        let path = self.path().unwrap_or_default();
        let absolute = absolute(&path)?;
        let source = ConfigSource {
            is_of_clients: self.is_of_clients(),
            ..ConfigSource::file(&absolute)
        };
        match parse_as(text, &source, &Process, References::Kept) {
            Ok(parsed) => Ok(Loaded {
                config: parsed.config,
                path: Some(path),
                warnings: parsed.warnings,
            }),
            Err(errors) => Err(LoadError::Invalid { path, errors }),
        }
    }

    fn parse_file(&self, text: &str, path: PathBuf) -> Result<Loaded, LoadError> {
        let absolute = absolute(&path)?;
        let source = ConfigSource {
            is_of_clients: self.is_of_clients(),
            ..ConfigSource::file(&absolute)
        };
        match with_files(|environment| parse(text, &source, environment)) {
            Ok(parsed) => Ok(Loaded {
                config: parsed.config,
                path: Some(path),
                warnings: parsed.warnings,
            }),
            Err(errors) => Err(LoadError::Invalid { path, errors }),
        }
    }

    /// Parses an entry as if it stood in the file. `text` is the text of the file.
    pub fn entry(
        &self,
        name: &ServerName,
        entry: &Entry,
        text: Option<&str>,
        references: References,
    ) -> Result<ParsedEntry, LoadError> {
        let mut parsed = self.parse_entry(name, entry, text, references)?;
        if let Some(interval) = self.health_interval
            && !parsed.config.health_interval_stated
        {
            parsed.config.policy.health.interval = interval;
        }
        Ok(parsed)
    }

    fn parse_entry(
        &self,
        name: &ServerName,
        entry: &Entry,
        text: Option<&str>,
        references: References,
    ) -> Result<ParsedEntry, LoadError> {
        let Some(path) = self.path() else {
            return entry_alone(name, entry, references);
        };
        let (text, absolute) = (text.unwrap_or(edit::EMPTY), absolute(&path)?);
        let source = ConfigSource {
            is_of_clients: self.is_of_clients(),
            ..ConfigSource::file(&absolute)
        };
        with_files(|world| parse_entry(name.clone(), entry, text, &source, world, references))
            .map_err(|errors| LoadError::Invalid { path, errors })
    }

    /// The path of the file, which may not exist.
    pub fn path(&self) -> Option<PathBuf> {
        self.location().map(|location| location.path().to_owned())
    }

    /// The servers whose entries are on the command line.
    pub fn inline(&self) -> BTreeSet<ServerName> {
        let servers = self.clients.inline.iter();
        servers.map(|server| server.name.clone()).collect()
    }

    /// True if a flag defines the servers, even without a file.
    pub fn is_stated(&self) -> bool {
        let ClientsFlags {
            usual,
            file,
            inline,
        } = &self.clients;
        *usual || file.is_some() || !inline.is_empty()
    }

    /// True if the file comes from `--mcp-clients` or `--mcp-clients-config`.
    pub fn is_of_clients(&self) -> bool {
        self.clients.file.is_some() || self.of_clients().is_some()
    }

    fn location(&self) -> Option<Location> {
        let path = self.flag.as_ref().or(self.clients.file.as_ref());
        match path {
            Some(path) => Some(Location::Named(path.clone())),
            None => self.of_clients().or_else(|| locate(None, &Process)),
        }
    }

    /// The other program's file, if only `--mcp-clients` selects a file. `None` if its usual file is missing.
    fn of_clients(&self) -> Option<Location> {
        let usual = self.flag.is_none() && self.clients.file.is_none() && self.clients.usual;
        let location = usual.then(|| locate_clients(&Process)).flatten()?;
        let there = matches!(location, Location::Named(_)) || location.path().exists();
        there.then_some(location)
    }
}

/// Loads the configuration: the file of `flag`, else the file that the environment names, else the user's own
/// file.
pub fn load(flag: Option<&Path>) -> Result<Loaded, LoadError> {
    let origin = ConfigurationSource {
        flag: flag.map(Path::to_owned),
        ..ConfigurationSource::default()
    };
    origin.load()
}

/// Parses an entry that belongs to no file.
pub fn entry_alone(
    name: &ServerName,
    entry: &Entry,
    references: References,
) -> Result<ParsedEntry, LoadError> {
    let path = PathBuf::new();
    let (text, source) = (edit::EMPTY, ConfigSource::file(&path));
    with_files(|world| parse_entry(name.clone(), entry, text, &source, world, references))
        .map_err(|errors| LoadError::Invalid { path, errors })
}

/// Makes a path absolute, because relative paths inside a file are relative to its folder, not to the working
/// directory.
fn absolute(path: &Path) -> Result<PathBuf, LoadError> {
    std::path::absolute(path).map_err(|error: io::Error| LoadError::Unreadable {
        path: path.to_owned(),
        source: error.into(),
    })
}
