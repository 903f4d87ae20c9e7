//! References in a text: `${VAR}`, `${env:VAR}`, `${VAR:-default}`, `${input:id}`, `${file:path}`;
//! `$${` stands for `${` (A32, A37). What a reference yields is never expanded again.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::Secret;

/// What parsing needs from the outside world, so that the core stays pure.
pub trait Surroundings {
    /// A variable of the environment.
    fn var(&self, name: &str) -> Option<String>;
    /// The text of a file that `${file:…}` names.
    fn read_file(&self, path: &Path) -> io::Result<String>;
    fn home_dir(&self) -> Option<PathBuf>;
}

/// What the references of one server's entry may name.
pub(super) struct Scope<'s> {
    pub surroundings: &'s dyn Surroundings,
    /// The configuration file's, against which relative paths are resolved.
    pub folder: &'s Path,
    /// Defaults of the file's `inputs`, by id.
    pub inputs: &'s BTreeMap<String, String>,
    /// The entry's `inputParams`.
    pub params: BTreeMap<String, String>,
    /// The entry's `env`. While it is being read it holds what stands above the current line, so that
    /// `"PATH": "/opt/bin:${PATH}"` means the PATH that is inherited.
    pub env: BTreeMap<String, Secret>,
}

/// Why a text cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("variable {0:?} is not set")]
    Variable(String),
    #[error("input {0:?} has no value")]
    Input(String),
    #[error("cannot read {path:?}: {reason}")]
    File {
        path: PathBuf,
        reason: io::ErrorKind,
    },
    #[error("${{keyring:{0}}} is not supported yet")]
    Keyring(String),
    #[error("unknown kind of reference ${{{0}:…}}")]
    Kind(String),
    #[error("a reference without a name")]
    Nameless,
    #[error("references cannot be nested")]
    Nested,
    #[error("\"${{\" without a closing \"}}\"")]
    Unclosed,
    #[error("the text contains a NUL character")]
    Nul,
    #[error("\"~\" stands for the home folder, which is unknown")]
    Homeless,
}

impl Unresolved {
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Variable(name) => format!("set it, or give a default: ${{{name}:-…}}"),
            Self::Input(id) => {
                format!(
                    "give it in the server's `inputParams`, or as variable {}",
                    input_variable(id)
                )
            }
            Self::Keyring(_) => "use ${env:NAME} or ${file:PATH}".to_owned(),
            Self::Kind(_) => {
                "known are env, input and file; $${ stands for a literal ${".to_owned()
            }
            Self::Unclosed | Self::Nameless => "$${ stands for a literal ${".to_owned(),
            Self::File { .. } | Self::Nested | Self::Nul | Self::Homeless => return None,
        })
    }
}

impl Scope<'_> {
    pub fn expand(&self, text: &str) -> Result<String, Unresolved> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, reference) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                expanded.extend([before, "${"]);
                rest = reference;
                continue;
            }
            let (reference, after) = reference.split_once('}').ok_or(Unresolved::Unclosed)?;
            expanded.push_str(before);
            expanded.push_str(&self.resolve(reference)?);
            rest = after;
        }
        expanded.push_str(rest);
        // No command line, environment or header can carry it.
        if expanded.contains('\0') {
            Err(Unresolved::Nul)
        } else {
            Ok(expanded)
        }
    }

    /// A path: `~/` is the home folder, a relative one starts at the configuration file.
    pub fn path(&self, text: &str) -> Result<PathBuf, Unresolved> {
        Ok(self.folder.join(self.under_home(text)?))
    }

    /// The text with a leading `~` or `~/` replaced.
    pub fn under_home(&self, text: &str) -> Result<PathBuf, Unresolved> {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(std::path::is_separator) => {
                let home = self.surroundings.home_dir().ok_or(Unresolved::Homeless)?;
                Ok(home.join(rest.trim_start_matches(std::path::is_separator)))
            }
            _ => Ok(PathBuf::from(text)),
        }
    }

    fn resolve(&self, reference: &str) -> Result<String, Unresolved> {
        if reference.contains("${") {
            return Err(Unresolved::Nested);
        }
        let (reference, default) = match reference.split_once(":-") {
            Some((reference, default)) => (reference, Some(default)),
            None => (reference, None),
        };
        let (kind, name) = match reference.split_once(':') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, reference),
        };
        if name.is_empty() {
            return Err(Unresolved::Nameless);
        }
        let value = match kind {
            None => self
                .params
                .get(name)
                .cloned()
                .or_else(|| self.variable(name)),
            Some("env") => self.variable(name),
            Some("input") => self.input(name),
            Some("file") => match self.file(name) {
                Err(Unresolved::File {
                    reason: io::ErrorKind::NotFound,
                    ..
                }) if default.is_some() => None,
                read => Some(read?),
            },
            Some("keyring") => return Err(Unresolved::Keyring(name.to_owned())),
            Some(other) => return Err(Unresolved::Kind(other.to_owned())),
        };
        match (value, default) {
            // As in a shell, the default also stands in for an empty value.
            (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) if kind == Some("input") => Err(Unresolved::Input(name.to_owned())),
            (None, None) => Err(Unresolved::Variable(name.to_owned())),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.get(name).map(|value| value.expose().to_owned());
        own.or_else(|| self.surroundings.var(name))
    }

    fn input(&self, id: &str) -> Option<String> {
        let given = self.params.get(id).or_else(|| self.inputs.get(id)).cloned();
        given.or_else(|| self.surroundings.var(&input_variable(id)))
    }

    /// A file's text without its last line break, which editors add.
    fn file(&self, path: &str) -> Result<String, Unresolved> {
        let path = self.path(path)?;
        let mut text = self
            .surroundings
            .read_file(&path)
            .map_err(|error| Unresolved::File {
                path,
                reason: error.kind(),
            })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// The variable that answers `${input:id}` where nobody can be asked.
fn input_variable(id: &str) -> String {
    let tail = id.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    "INPUT_".chars().chain(tail).collect()
}
