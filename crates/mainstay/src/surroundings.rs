//! The process's own environment, home folder and files, and the configuration found in them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use mainstay_core::config::{
    Config, ConfigError, ConfigErrors, Location, Source, Surroundings, locate, parse,
};

/// The world of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Surroundings for Process {
    /// A value that is not UTF-8 is as good as none: no configuration could hold it.
    fn var(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        env::home_dir().filter(|home| home.is_absolute())
    }
}

/// A configuration that can be used, and where it was found.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// `None` without a file: then there are no servers (A7).
    pub path: Option<PathBuf>,
    pub warnings: Vec<ConfigError>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no usable configuration", path.display())]
    Invalid { path: PathBuf, errors: ConfigErrors },
}

impl LoadError {
    /// A line each, as `FILE:LINE:COLUMN: PATH: MESSAGE` where there is a place.
    pub fn findings(&self) -> Vec<String> {
        match self {
            Self::Unreadable { source, .. } => vec![format!("{self}: {source}")],
            Self::Invalid { path, errors } => errors
                .0
                .iter()
                .map(|error| error.at(path.display()).to_string())
                .collect(),
        }
    }
}

impl Loaded {
    fn empty() -> Self {
        Self {
            config: Config::default(),
            path: None,
            warnings: Vec::new(),
        }
    }

    /// Everything found, a line each: problems as `FILE:LINE:COLUMN: PATH: MESSAGE`, warnings marked
    /// as such.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        let file = self
            .path
            .as_deref()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        let warnings = self.warnings.iter().map({
            let file = file.clone();
            move |warning| format!("warning: {}", warning.at(&file))
        });
        self.config
            .problems()
            .map(move |(_, problem)| problem.at(&file).to_string())
            .chain(warnings)
    }
}

/// Where a configuration comes from, and what the command line says beside it: it can be read again.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub flag: Option<PathBuf>,
    /// `--health-interval`, if it was given (B13); `Some(None)` never asks.
    pub health_interval: Option<Option<Duration>>,
}

impl Origin {
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let mut loaded = load(self.flag.as_deref())?;
        if let Some(interval) = self.health_interval {
            loaded.config = loaded.config.with_health_interval(interval);
        }
        Ok(loaded)
    }

    /// The file, whether it is there or not.
    pub fn path(&self) -> Option<PathBuf> {
        locate(self.flag.as_deref(), &Process).map(|location| location.path().to_owned())
    }
}

/// Reads the configuration: the file named by `flag`, else the one of the environment, else the
/// user's own (A5–A8).
pub fn load(flag: Option<&Path>) -> Result<Loaded, LoadError> {
    match locate(flag, &Process) {
        None => Ok(Loaded::empty()),
        Some(Location::Usual(path)) if !path.exists() => Ok(Loaded::empty()),
        Some(location) => read(location.path()),
    }
}

fn read(path: &Path) -> Result<Loaded, LoadError> {
    let unreadable = |source| LoadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    // Relative paths inside mean the file's own folder, wherever we are started.
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    match parse(&text, &Source::file(&absolute), &Process) {
        Ok(parsed) => Ok(Loaded {
            config: parsed.config,
            path: Some(path.to_owned()),
            warnings: parsed.warnings,
        }),
        Err(errors) => Err(LoadError::Invalid {
            path: path.to_owned(),
            errors,
        }),
    }
}
