//! Bundles (`.mcpb`, `.dxt`): where they are unpacked, and when that folder goes.
//!
//! `STATE/bundles/NAME/DIGEST` is one version of one server. A new version stands beside the old one until
//! its entry is saved.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mainstay_command_line::{CommandError, output, screen::complain};
use mainstay_config::{Environment as _, edit::Entry};
use mainstay_install::{
    manifest::Folders,
    question::Answers,
    system::System,
    unpack::{Bundle, sha256},
};
use mainstay_platform::{
    environment::Process,
    state::{StateDir, create_private_dir},
};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{
    super::person::Person,
    prepared::{Prepared, in_clear},
    registry::short_name,
    shown::Shown,
};

/// The most bytes of a bundle that is downloaded.
pub const MAX_DOWNLOAD: usize = 256 * 1024 * 1024;

/// The folder of all bundles in the state directory.
const BUNDLES: &str = "bundles";

/// Whether an argument of the command line is the file of a bundle.
pub fn is_file(argument: &str) -> bool {
    let extension = Path::new(argument).extension();
    extension.is_some_and(|it| it.eq_ignore_ascii_case("mcpb") || it.eq_ignore_ascii_case("dxt"))
}

/// Where bundles are unpacked.
pub struct Place {
    /// The name that the server is to have.
    pub name: Option<String>,
}

/// A folder that was unpacked for a server that is not saved yet.
pub struct Unpacked {
    folder: PathBuf,
    /// Whether it was there before, and so may be in use.
    is_old: bool,
    is_kept: bool,
}

impl Unpacked {
    /// The entry was saved: the folder stays, and older versions go.
    pub fn keep(mut self) {
        self.is_kept = true;
        let siblings = self
            .folder
            .parent()
            .and_then(|parent| fs::read_dir(parent).ok());
        for sibling in siblings.into_iter().flatten().flatten() {
            if sibling.path() != self.folder {
                remove_folder(&sibling.path());
            }
        }
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        if !self.is_kept && !self.is_old {
            remove_folder(&self.folder);
            if let Some(parent) = self.folder.parent() {
                // It stays where there is another version.
                fs::remove_dir(parent).ok();
            }
        }
    }
}

impl Place {
    fn folder(name: &str) -> Result<PathBuf, CommandError> {
        let state = StateDir::locate(&Process)?;
        let bundles = state.path().join(BUNDLES);
        let write = |source| CommandError::Write {
            path: bundles.display().to_string(),
            source,
        };
        create_private_dir(state.path()).map_err(write)?;
        state.check()?;
        create_private_dir(&bundles).map_err(write)?;
        Ok(bundles.join(name))
    }

    /// Keeps a downloaded bundle, if it is the one that the registry names.
    pub fn keep(bytes: &[u8], wanted: &str) -> Result<NamedTempFile, CommandError> {
        let write = |source| CommandError::Write {
            path: "a temporary file".to_owned(),
            source,
        };
        let digest = sha256(&mut io::Cursor::new(bytes)).map_err(write)?;
        if !digest.eq_ignore_ascii_case(wanted) {
            return Err(CommandError::Usage {
                message: format!(
                    "the bundle is not the one that the registry names: its SHA-256 is {digest}, not {wanted}"
                ),
                hint: Some("nothing was unpacked; tell its publisher".to_owned()),
            });
        }
        let mut file = NamedTempFile::with_suffix(".mcpb").map_err(write)?;
        io::Write::write_all(&mut file, bytes).map_err(write)?;
        Ok(file)
    }

    /// Checks a bundle, asks for its settings, and unpacks it.
    pub async fn prepare(
        &self,
        path: &Path,
        answers: &mut Answers,
        env: &[(String, String)],
        person: &mut Person,
    ) -> Result<Prepared, CommandError> {
        let mut bundle = Bundle::open(path, System::HERE)?;
        let home = Process.home_dir().ok_or_else(|| CommandError::Usage {
            message: "the home folder is unknown, which bundles refer to".to_owned(),
            hint: Some("set HOME".to_owned()),
        })?;
        let folders = Folders { home };
        let questions = bundle.manifest.questions(&folders);
        let manifest = &bundle.manifest;
        complain(&format!(
            "{} {}: {}",
            manifest.display_name.as_deref().unwrap_or(&manifest.name),
            manifest.version,
            output::headline(&manifest.description)
        ));
        if bundle.is_signed {
            complain("warning: the bundle is signed; Mainstay does not check the signature");
        }
        for runtime in manifest.runtimes() {
            complain(&format!("it needs {runtime}"));
        }
        person.complete(&questions, answers).await?;
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| short_name(&manifest.name));
        super::legal(&name)?;
        let folder = Self::folder(&name)?.join(&bundle.digest);
        let recipe = bundle
            .manifest
            .recipe(&folder, &folders, answers, System::HERE);
        let recipe = recipe.map_err(|error| CommandError::Unusable {
            server: name.clone(),
            reasons: vec![error.to_string()],
            hint: None,
        })?;
        let is_old = folder.exists();
        let shown = Shown::of_recipe(&recipe).and(format!(
            "from the bundle {} ({}, {} KiB), unpacked into {}",
            path.display(),
            output::count(bundle.files(), "file"),
            bundle.bytes().div_ceil(1024),
            folder.display()
        ));
        bundle.unpack(&folder)?;
        Ok(Prepared {
            name,
            entry: recipe.entry(),
            in_clear: in_clear(&questions, answers),
            shown,
            unpacked: Some(Unpacked {
                folder,
                is_old,
                is_kept: false,
            }),
        }
        .with_env(env))
    }
}

/// The bundle's folder that an entry starts its server in.
pub fn folder_of(entry: &Entry, name: &str) -> Option<PathBuf> {
    let bundles = StateDir::locate(&Process)
        .ok()?
        .path()
        .join(BUNDLES)
        .join(name);
    let cwd = PathBuf::from(entry.get("cwd").and_then(Value::as_str)?);
    (cwd.parent() == Some(&*bundles)).then_some(bundles)
}

/// Removes a folder with all that is in it, where there is one.
pub fn remove_folder(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            complain(&format!(
                "warning: cannot remove {}: {error}",
                folder.display()
            ));
        }
        _ => {}
    }
}
