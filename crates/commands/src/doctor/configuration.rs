//! The configuration: whether it can be read, what is odd in it, and who else can read it.

use std::{io::ErrorKind, path::Path};

use mainstay_command_line::output;
use mainstay_config::{Syntax, UnreadableFile, edit::Document, masking::masked};
use mainstay_core::config::ConfigError;
use mainstay_platform::environment::{LoadError, Loaded};

use super::finding::{Finding, Fix, quoted};

/// The permissions of a file that only its owner uses.
const PRIVATE: u32 = 0o600;

pub fn check(
    loaded: &Result<Loaded, LoadError>,
    path: Option<&Path>,
    text: Option<&str>,
) -> Vec<Finding> {
    let mut findings = match loaded {
        Ok(loaded) => of_loaded(loaded),
        Err(error) => of_error(error),
    };
    if let (Some(path), Some(text)) = (path, text) {
        findings.extend(permissions(path, text));
    }
    findings
}

fn of_loaded(loaded: &Loaded) -> Vec<Finding> {
    let Some(path) = &loaded.path else {
        return vec![
            Finding::note("config.missing", "there is no configuration")
                .why("there are no servers, but those of a daemon's command line")
                .mend("mainstay setup  # or `mainstay add NAME -- COMMAND`"),
        ];
    };
    let servers = &loaded.config.servers;
    let mut findings = vec![Finding::ok(
        "config.read",
        format!(
            "{}: {}",
            path.display(),
            output::count(servers.len(), "server")
        ),
    )];
    for (name, problem) in loaded.config.problems() {
        let finding = Finding::error("config.entry", problem.at(path.display()).to_string())
            .of(name.as_str())
            .why("the server is not started");
        findings.push(finding.mend(correct(path, problem)));
    }
    for warning in &loaded.warnings {
        let is_unknown = warning.message.contains("unknown key");
        let id = if is_unknown {
            "config.unknown_key"
        } else {
            "config.warning"
        };
        let finding = Finding::warning(id, warning.at(path.display()).to_string());
        let finding = finding.why(if is_unknown {
            "the key has no effect"
        } else {
            "it may not be what you mean"
        });
        findings.push(finding.mend(correct(path, warning)));
    }
    if servers.is_empty() {
        findings.push(
            Finding::note("config.no_servers", "the configuration has no servers")
                .why("clients get no tools")
                .mend("mainstay setup  # or `mainstay add NAME -- COMMAND`"),
        );
    }
    findings
}

fn of_error(error: &LoadError) -> Vec<Finding> {
    let why = "no server is started";
    match error {
        LoadError::Invalid { path, errors } => {
            let finding = |error: &ConfigError| {
                Finding::error("config.invalid", error.at(path.display()).to_string())
                    .why(why)
                    .mend(correct(path, error))
            };
            errors.0.iter().map(finding).collect()
        }
        LoadError::Unreadable {
            path,
            source: UnreadableFile::Untrusted(_),
        } => vec![of_untrusted(path, error)],
        LoadError::Unreadable { path, source } => vec![
            Finding::error("config.unreadable", format!("{error}: {source}"))
                .why(why)
                .mend(match source {
                    UnreadableFile::System(ErrorKind::PermissionDenied) => {
                        format!("chmod u+r {}", quoted(path))
                    }
                    _ => format!("ls -l {}  # {}", quoted(path), source.hint()),
                }),
        ],
        LoadError::Gone { .. } => {
            vec![
                Finding::error("config.unreadable", error.to_string())
                    .why(why)
                    .mend("mainstay reload  # does without it; or bring the file back"),
            ]
        }
    }
}

/// Opens the file where the error stands, then checks it.
fn correct(path: &Path, error: &ConfigError) -> String {
    let path = quoted(path);
    let place = error.position.map(|(line, _)| format!("+{line} "));
    format!(
        "${{EDITOR:-vi}} {}{path} && mainstay validate {path}",
        place.unwrap_or_default()
    )
}

/// A configuration decides which programs are run.
fn of_untrusted(path: &Path, error: &LoadError) -> Finding {
    let finding = Finding::error("config.writable", error.findings().join("\n"))
        .why("no server is started: they can have Mainstay run any program as you");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).map(|found| found.permissions().mode() & 0o7777);
        if let Ok(mode) = mode
            && mode & 0o022 != 0
        {
            return finding.fix(Fix::Restrict {
                path: path.to_owned(),
                mode: mode & !0o022,
            });
        }
    }
    finding.mend(format!("ls -ld {}  # whose is it?", quoted(path)))
}

/// A configuration may hold secrets.
#[cfg(unix)]
fn permissions(path: &Path, text: &str) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    let restrict = |mode| Fix::Restrict {
        path: path.to_owned(),
        mode,
    };
    let has_secrets = has_secrets(path, text);
    (has_secrets && mode & 0o044 != 0).then(|| {
        Finding::warning(
            "config.readable",
            format!("{} holds secrets and can be read by others", path.display()),
        )
        .why("other users of this machine can use these secrets")
        .fix(restrict(PRIVATE))
    })
}

#[cfg(not(unix))]
fn permissions(_path: &Path, _text: &str) -> Option<Finding> {
    None
}

/// Whether the file itself has secrets, and not only references to them.
fn has_secrets(path: &Path, text: &str) -> bool {
    let document = Document::read(text, Syntax::of_path(path));
    let value = document.and_then(|document| document.value());
    // What cannot be read as JSON is reported elsewhere.
    value.is_ok_and(|value| masked(&value, "") != value)
}
