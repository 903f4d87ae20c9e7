//! Expands references in a text: `${VAR}`, `${env:VAR}`, `${VAR:-default}`, `${input:id}`, `${file:path}`,
//! `${keyring:name}`. `$${` stands for `${`. References cannot be nested, and the value of a reference is not expanded
//! again, so one pass over the text suffices.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mainstay_core::{
    config::Secret,
    display::{LONGEST_NAME, shortened},
};

use crate::{UnreadableFile, UnreadableSecret, foreign::dialect::Dialect};

/// Maximum length of all texts of one server's entry together, in bytes: the plain texts and the values of references.
/// No system starts a process with a longer command line and environment. Without a limit, a few variables that each
/// double the previous one would fill any memory.
pub const MAX_EXPANDED: usize = 1024 * 1024;

/// Maximum length of a path in a message, in characters.
const LONGEST_PATH: usize = 256;

/// Access to the outside world for the parser, so that parsing is pure.
pub trait Environment {
    /// Returns a variable of the environment.
    fn var(&self, name: &str) -> Option<String>;
    /// Returns the text of the file that `${file:…}` names. Must return in bounded time, even for a FIFO or a disk that
    /// hangs.
    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile>;
    /// Returns the secret that `${keyring:…}` names. Must return in bounded time, even if the keyring hangs.
    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret>;
    fn home_dir(&self) -> Option<PathBuf>;
    /// True if this path is a folder, or if the check would take too long.
    fn has_folder(&self, path: &Path) -> bool {
        let _ = path;
        true
    }
}

/// The treatment of references in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// References are replaced by their values.
    Replaced,
    /// References stay unchanged, and no file or secret is read. For entries that are not approved yet.
    Kept,
}

/// The scope of the references in one server's entry: the sources of their values.
pub(crate) struct ReferenceScope<'s> {
    pub environment: &'s dyn Environment,
    pub references: References,
    /// The folder of the configuration file. Relative paths start there.
    pub folder: &'s Path,
    pub dialect: &'s Dialect,
    /// Defaults of the file's `inputs`, by id.
    pub inputs: &'s BTreeMap<String, String>,
    /// The entry's `inputParams`.
    pub params: BTreeMap<String, String>,
    /// The entry's `env`. While `env` is being read, this has only the earlier variables, so that `${PATH}` in the
    /// value of `PATH` refers to the inherited variable.
    pub env: BTreeMap<String, Secret>,
    /// Remaining bytes of [`MAX_EXPANDED`]. `None` after a text has exceeded them.
    pub room: Cell<Option<usize>>,
    /// True once a file or a secret of the vault was read.
    pub reads_files: Cell<bool>,
    /// The secrets of the vault that were read.
    pub vault_secrets: RefCell<Vec<Secret>>,
}

/// The reason that a text cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("variable {0:?} is not set")]
    Variable(String),
    #[error("input {0:?} has no value")]
    Input(String),
    #[error("cannot read {path:?}: {reason}")]
    File {
        path: String,
        reason: UnreadableFile,
    },
    #[error("cannot read secret {name:?}: {reason}")]
    Keyring {
        name: String,
        reason: UnreadableSecret,
    },
    #[error("no secret can be named {0:?}")]
    SecretName(String),
    #[error("unknown kind of reference ${{{0}:…}}")]
    Kind(String),
    /// The name, and its meaning in other programs.
    #[error("{0:?} stands for {1}, which is not known here")]
    Elsewhere(String, &'static str),
    #[error("a reference without a name")]
    Nameless,
    #[error("references cannot be nested")]
    Nested,
    #[error("\"${{\" without a closing \"}}\"")]
    Unclosed,
    #[error("the texts of this entry have more than 1 MiB, with what their references stand for")]
    TooLong,
    /// An earlier text has exceeded [`MAX_EXPANDED`], and this was already reported.
    #[error("no room is left for this text")]
    NoRoom,
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
            Self::File {
                reason: UnreadableFile::Absent,
                ..
            } => "create it, or give a default: ${file:…:-…}".to_owned(),
            Self::File { reason, .. } => reason.hint().to_owned(),
            Self::Keyring { name, reason } => reason.hint(name),
            Self::SecretName(_) => SECRET_NAME_RULE.to_owned(),
            Self::Kind(kind) if EDITORS_KINDS.contains(&kind.as_str()) => {
                "only an editor knows what it stands for; write that itself".to_owned()
            }
            Self::Kind(_) => {
                "known are env, input, file and keyring; $${ stands for a literal ${".to_owned()
            }
            Self::Elsewhere(name, _) if name.starts_with('$') => "write the path itself".to_owned(),
            Self::Elsewhere(name, _) => {
                format!("write what it stands for, or give a default: ${{{name}:-…}}")
            }
            Self::Unclosed | Self::Nameless => "$${ stands for a literal ${".to_owned(),
            Self::TooLong => "have the server read large values from a file itself".to_owned(),
            Self::Nested | Self::NoRoom | Self::Nul | Self::Homeless => return None,
        })
    }
}

/// A part of a text: plain text or a reference.
enum Piece<'t> {
    Plain(&'t str),
    Reference(Reference<'t>),
}

#[derive(Clone, Copy)]
struct Reference<'t> {
    kind: ReferenceKind,
    name: &'t str,
    default: Option<&'t str>,
    /// The text of the reference, without `${` and `}`.
    whole: &'t str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    Any,
    Env,
    Input,
    File,
    Keyring,
}

impl<'t> Reference<'t> {
    fn read(whole: &'t str) -> Result<Self, Unresolved> {
        if whole.contains("${") {
            return Err(Unresolved::Nested);
        }
        let (reference, default) = match whole.split_once(":-") {
            Some((reference, default)) => (reference, Some(default)),
            None => (whole, None),
        };
        let (kind, name) = match reference.split_once(':') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, reference),
        };
        if name.is_empty() {
            return Err(Unresolved::Nameless);
        }
        let kind = match kind {
            None => ReferenceKind::Any,
            Some("env") => ReferenceKind::Env,
            Some("input") => ReferenceKind::Input,
            Some("file") => ReferenceKind::File,
            Some("keyring") if is_secret_name(name) => ReferenceKind::Keyring,
            Some("keyring") => return Err(Unresolved::SecretName(shortened(name, LONGEST_NAME))),
            Some(other) => return Err(Unresolved::Kind(shortened(other, LONGEST_NAME))),
        };
        Ok(Self {
            kind,
            name,
            default,
            whole,
        })
    }
}

/// The names of the secrets of the vault to which a text refers.
pub fn named_secrets(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| match piece {
        Ok(Piece::Reference(reference)) if reference.kind == ReferenceKind::Keyring => {
            Some(reference.name)
        }
        Ok(Piece::Reference(_) | Piece::Plain(_)) | Err(_) => None,
    })
}

/// Splits a text into pieces. Ends after the first malformed piece.
fn pieces(text: &str) -> impl Iterator<Item = Result<Piece<'_>, Unresolved>> {
    let mut rest = text;
    // The reference that follows the plain text.
    let mut next = None;
    std::iter::from_fn(move || {
        if let Some(piece) = next.take() {
            return Some(piece);
        }
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find("${") else {
            return Some(Ok(Piece::Plain(std::mem::take(&mut rest))));
        };
        let (before, from) = rest.split_at(at);
        let from = &from[2..];
        if let Some(before) = before.strip_suffix('$') {
            rest = from;
            next = Some(Ok(Piece::Plain("${")));
            return Some(Ok(Piece::Plain(before)));
        }
        next = Some(match from.split_once('}') {
            Some((reference, after)) => {
                rest = after;
                Reference::read(reference).map(Piece::Reference)
            }
            None => Err(Unresolved::Unclosed),
        });
        if matches!(next, Some(Err(_))) {
            rest = "";
        }
        Some(Ok(Piece::Plain(before)))
    })
}

impl ReferenceScope<'_> {
    /// Returns the text with the values of its references.
    pub fn expand(&self, text: &str) -> Result<String, Unresolved> {
        let mut expanded = String::new();
        for piece in pieces(text) {
            match (piece?, self.references) {
                (Piece::Plain(plain), References::Replaced) => {
                    self.charge(plain.len())?;
                    expanded.push_str(&self.plain(plain)?);
                }
                (Piece::Reference(reference), References::Replaced) => {
                    self.charge("${}".len() + reference.whole.len())?;
                    let value = self.resolve(reference)?;
                    self.charge(value.len())?;
                    expanded.push_str(&value);
                }
                (Piece::Plain(_) | Piece::Reference(_), References::Kept) => {}
            }
        }
        if self.references == References::Kept {
            self.charge(text.len())?;
            expanded.push_str(text);
        }
        // A command line, an environment or a header cannot contain a NUL.
        if expanded.contains('\0') {
            Err(Unresolved::Nul)
        } else {
            Ok(expanded)
        }
    }

    /// True if this expanded text still has references.
    pub fn is_open(&self, expanded: &str) -> bool {
        self.references == References::Kept && expanded.contains("${")
    }

    pub fn charge(&self, bytes: usize) -> Result<(), Unresolved> {
        let room = self.room.get().ok_or(Unresolved::NoRoom)?;
        let left = room.checked_sub(bytes);
        self.room.set(left);
        left.map(|_| ()).ok_or(Unresolved::TooLong)
    }

    /// Resolves a path. `~/` is the home folder. A relative path starts at the folder of the configuration file.
    pub fn path(&self, text: &str) -> Result<PathBuf, Unresolved> {
        Ok(self.folder.join(self.under_home(text)?))
    }

    /// Replaces a leading `~` or `~/` by the home folder.
    pub fn under_home(&self, text: &str) -> Result<PathBuf, Unresolved> {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(std::path::is_separator) => {
                let home = self.environment.home_dir().ok_or(Unresolved::Homeless)?;
                Ok(home.join(rest.trim_start_matches(std::path::is_separator)))
            }
            _ => Ok(PathBuf::from(text)),
        }
    }

    fn resolve<'a>(&'a self, reference: Reference<'a>) -> Result<Cow<'a, str>, Unresolved> {
        let Reference {
            kind,
            name,
            default,
            ..
        } = reference;
        let value = match kind {
            ReferenceKind::Any => match self.params.get(name) {
                Some(value) => Some(Cow::from(value)),
                None => self.variable(name),
            },
            ReferenceKind::Env => self.variable(name),
            ReferenceKind::Input => self.input(name),
            ReferenceKind::File => match self.file(name) {
                Err(Unresolved::File {
                    reason: UnreadableFile::Absent,
                    ..
                }) if default.is_some() => None,
                read => Some(read?.into()),
            },
            ReferenceKind::Keyring => match self.secret(name) {
                Err(UnreadableSecret::Absent) if default.is_some() => None,
                Err(reason) => {
                    let name = name.to_owned();
                    return Err(Unresolved::Keyring { name, reason });
                }
                Ok(secret) => Some(secret.expose().to_owned().into()),
            },
        };
        let value = value.or_else(|| self.place(name).filter(|_| kind == ReferenceKind::Any));
        match (value, default) {
            // As in a shell, the default also replaces an empty value.
            (Some(value), Some(default)) if value.is_empty() => Ok(default.into()),
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.into()),
            (None, None) if kind == ReferenceKind::Input => {
                Err(Unresolved::Input(shortened(name, LONGEST_NAME)))
            }
            (None, None) => Err(match meaning(name).filter(|_| kind == ReferenceKind::Any) {
                Some(meaning) => Unresolved::Elsewhere(shortened(name, LONGEST_NAME), meaning),
                None => Unresolved::Variable(shortened(name, LONGEST_NAME)),
            }),
        }
    }

    /// The value of a predefined variable of VS Code and related editors, such as `workspaceFolder`.
    fn place(&self, name: &str) -> Option<Cow<'_, str>> {
        let project = || self.dialect.project.as_deref();
        let folder = match name {
            "userHome" => self.environment.home_dir()?,
            "workspaceFolder" | "workspaceRoot" => project()?.to_owned(),
            "workspaceFolderBasename" => project()?.file_name()?.into(),
            "pathSeparator" | "/" => return Some(std::path::MAIN_SEPARATOR_STR.into()),
            _ => return None,
        };
        Some(folder.into_os_string().into_string().ok()?.into())
    }

    /// Expands a text without `${…}`. Replaces the variables of other programs: `$PROJECT_DIR$` of JetBrains and, in
    /// files of Gemini CLI, `$NAME`.
    fn plain<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Unresolved> {
        if !text.contains('$') {
            return Ok(text.into());
        }
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once('$') {
            done.push_str(before);
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = from.find(|c: char| !is_of_name(c)).unwrap_or(from.len());
            let (name, after) = from.split_at(end);
            let macro_end = after.strip_prefix('$');
            match (macro_end, macro_meaning(name)) {
                (Some(after), Some(meaning)) => {
                    let whole = || Unresolved::Elsewhere(format!("${name}$"), meaning);
                    let value = match name {
                        "USER_HOME" => self.place("userHome"),
                        "PROJECT_DIR" => self.place("workspaceFolder"),
                        _ => None,
                    };
                    let value = value.ok_or_else(whole)?;
                    self.charge(value.len())?;
                    done.push_str(&value);
                    rest = after;
                }
                _ => {
                    let is_variable = self.dialect.has_plain_variables && !name.is_empty();
                    match is_variable.then(|| self.variable(name)).flatten() {
                        Some(value) => {
                            self.charge(value.len())?;
                            done.push_str(&value);
                        }
                        // Gemini CLI leaves an unset variable unchanged. A text that is only such a variable is an
                        // error here.
                        None if is_variable && text.len() == name.len() + 1 => {
                            return Err(Unresolved::Variable(shortened(name, LONGEST_NAME)));
                        }
                        None => {
                            done.push('$');
                            done.push_str(name);
                        }
                    }
                    rest = after;
                }
            }
        }
        done.push_str(rest);
        Ok(done.into())
    }

    /// True if a text is `$NAME` or begins with `$NAME/`. In other programs, that is a variable.
    pub fn looks_like_a_variable(&self, text: &str) -> bool {
        let Some(from) = text.strip_prefix('$') else {
            return false;
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = from.trim_start_matches(is_of_name);
        let starts_name = from.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        !self.dialect.has_plain_variables
            && starts_name
            && (name.is_empty() || name.starts_with('/'))
    }

    /// True if `$` and a name follow a blank or an `=`, as in `Bearer $TOKEN` and `--t=$TOKEN`. Only names in capitals
    /// count, because a password may contain a `$`.
    pub fn has_variable_within(&self, text: &str) -> bool {
        let is_variable = |(at, _): (usize, &str)| {
            let follows = text[..at].ends_with([' ', '=']);
            let from = &text[at + 1..];
            let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let rest = from.trim_start_matches(is_of_name);
            let starts_name = from.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
            let ends = rest.is_empty() || rest.starts_with([' ', '/', '&', ',', ';', '"']);
            follows && starts_name && ends
        };
        !self.dialect.has_plain_variables && text.match_indices('$').any(is_variable)
    }

    fn variable(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.env.get(name) {
            Some(secret) => Some(secret.expose().into()),
            None => self.environment.var(name).map(Cow::from),
        }
    }

    fn input(&self, id: &str) -> Option<Cow<'_, str>> {
        match self.params.get(id).or_else(|| self.inputs.get(id)) {
            Some(value) => Some(value.into()),
            None => self.environment.var(&input_variable(id)).map(Cow::from),
        }
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        self.reads_files.set(true);
        let secret = self.environment.secret(name)?;
        self.vault_secrets.borrow_mut().push(secret.clone());
        Ok(secret)
    }

    /// Reads a file's text. Removes the last line break, which editors add.
    pub fn file(&self, path: &str) -> Result<String, Unresolved> {
        let path = self.path(path)?;
        self.reads_files.set(true);
        let mut text = self
            .environment
            .read_file(&path)
            .map_err(|reason| Unresolved::File {
                path: shortened(&path.to_string_lossy(), LONGEST_PATH),
                reason,
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

/// Maximum length of a secret's name, in bytes.
const LONGEST_SECRET_NAME: usize = 128;

/// The rule of [`is_secret_name`], in words.
pub const SECRET_NAME_RULE: &str = "a name has 1 to 128 letters, digits, '-', '_', '.', '/' and '@', and begins with none of '-', '.' and '/'";

/// True if a secret of the vault may have this name. Such a name can stand in a reference and on a command line.
pub fn is_secret_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@".contains(&byte);
    (1..=LONGEST_SECRET_NAME).contains(&name.len())
        && name.bytes().all(is_of_name)
        && !name.starts_with(['-', '.', '/'])
}

/// Kinds of references that only an editor can resolve.
const EDITORS_KINDS: [&str; 3] = ["command", "config", "workspaceFolder"];

/// The meaning of a name in files of other programs.
fn meaning(name: &str) -> Option<&'static str> {
    Some(match name {
        "workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename" => {
            "the folder that is open in an editor"
        }
        "cwd"
        | "file"
        | "fileBasename"
        | "fileDirname"
        | "fileWorkspaceFolder"
        | "relativeFile"
        | "execPath" => "something that only VS Code knows",
        "userHome" => "the home folder",
        "extensionPath" => "the folder of an extension of Gemini CLI",
        "CLAUDE_PLUGIN_ROOT" => "the folder of a plugin of Claude Code",
        "CLAUDE_PROJECT_DIR" => "the folder in which Claude Code runs",
        "__dirname" => "the folder of a desktop extension",
        _ if name.starts_with("user_config.") => "a setting of a desktop extension",
        _ if name.starts_with('{') => "a secret of Continue",
        _ => return None,
    })
}

/// The meaning of a JetBrains path macro, such as `PROJECT_DIR` in `$PROJECT_DIR$`.
fn macro_meaning(name: &str) -> Option<&'static str> {
    Some(match name {
        "PROJECT_DIR" | "ProjectFileDir" | "ContentRoot" => "the project's folder",
        "MODULE_DIR" | "ModuleFileDir" => "a module's folder",
        "USER_HOME" => "the home folder",
        _ => return None,
    })
}

/// The name of the environment variable with the answer to `${input:id}`. Mainstay cannot ask a person.
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
