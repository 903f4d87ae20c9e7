//! The definition of the service: the program, its arguments, its variables and the time that it needs to
//! stop.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use mainstay_command_line::{CommandError, listen::ListenAddress};
use mainstay_config::Environment;
use mainstay_gateway::SERVERS_LIMIT;
use mainstay_platform::environment::Loaded;

/// A comment in the files that Mainstay writes.
pub const WRITTEN_BY: &str = "Written by `mainstay service install`";

/// The time for a stop beyond the limits of calls and servers.
const MARGIN: Duration = Duration::from_secs(10);

/// Variables with the places of the configuration and the state. Service managers set none of them.
const PLACES: [&str; 3] = ["MAINSTAY_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

/// The daemon as a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The absolute path of the program.
    pub program: String,
    pub arguments: Vec<String>,
    /// Names and values, in the order of the file.
    pub variables: Vec<(String, String)>,
    /// Time after which the service manager kills the process.
    pub stop_limit: Duration,
}

impl Definition {
    /// The service that runs `mainstay serve` as this command line and environment would run it. Relative
    /// paths become absolute, because a service starts in another folder.
    pub fn here(
        config: Option<&Path>,
        listen: Option<ListenAddress>,
        loaded: &Loaded,
        environment: &dyn Environment,
    ) -> Result<Self, CommandError> {
        let program = env::current_exe().map_err(|source| CommandError::Read {
            path: "the path of this program".to_owned(),
            source,
        })?;
        let var = |name: &str| environment.var(name).filter(|value| !value.is_empty());
        let mut arguments = vec!["serve".to_owned()];
        let config = config.map(Path::to_owned);
        if let Some(config) = config.or_else(|| var("MAINSTAY_CONFIG").map(PathBuf::from)) {
            arguments.extend(["--config".to_owned(), absolute(&config)?]);
        }
        if let Some(listen) = listen {
            arguments.extend(["--listen".to_owned(), listen.to_string()]);
        }
        let mut variables = Vec::new();
        // Launchers such as npx and uvx are found in the user's PATH.
        if let Some(path) = env::var_os("PATH").filter(|path| !path.is_empty()) {
            variables.push(("PATH".to_owned(), text(&path)?));
        }
        for name in PLACES {
            if let Some(value) = var(name) {
                variables.push((name.to_owned(), absolute(Path::new(&value))?));
            }
        }
        Ok(Self {
            program: absolute(&program)?,
            arguments,
            variables,
            stop_limit: loaded.config.shutdown_grace + SERVERS_LIMIT + MARGIN,
        })
    }
}

fn absolute(path: &Path) -> Result<String, CommandError> {
    let absolute = std::path::absolute(path).map_err(|source| CommandError::Read {
        path: path.display().to_string(),
        source,
    })?;
    text(absolute.as_os_str())
}

/// The value as text without control characters, as files of service managers need it.
fn text(value: &OsStr) -> Result<String, CommandError> {
    let fault = |fault_text: &str| CommandError::Read {
        path: value.to_string_lossy().into_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, fault_text.to_owned()),
    };
    let text = value.to_str().ok_or_else(|| fault("it is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(fault("it holds a control character"));
    }
    Ok(text.to_owned())
}
