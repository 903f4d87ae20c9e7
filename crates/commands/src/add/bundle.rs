//! Unpacks bundles (`.mcpb`, `.dxt`) and removes their folders.
//!
//! The folder `STATE/bundles/NAME/DIGEST` holds one version of one server. The folder of the old version
//! remains until the entry of the new version is saved.

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
    preview::LaunchPreview,
    registry::short_name,
};

/// The maximum size of a downloaded bundle in bytes.
pub const MAX_DOWNLOAD: usize = 256 * 1024 * 1024;

/// The folder of all bundles in the state directory.
const BUNDLES: &str = "bundles";

/// True if an argument of the command line names the file of a bundle.
pub fn is_file(argument: &str) -> bool {
    let extension = Path::new(argument).extension();
    extension.is_some_and(|extension| {
        extension.eq_ignore_ascii_case("mcpb") || extension.eq_ignore_ascii_case("dxt")
    })
}

/// Unpacks the bundle of one server.
pub struct Place {
    /// The name of the server, if the command line gives one.
    pub name: Option<String>,
}

/// The folder of a bundle whose server is not saved yet. Dropping it removes a new folder.
pub struct Unpacked {
    folder: PathBuf,
    /// True if the folder existed before. It may be in use.
    is_old: bool,
    is_kept: bool,
}

impl Unpacked {
    /// Keeps the folder after its entry was saved, and removes older versions.
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
                // This fails if the parent holds another version.
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

    /// Stores a downloaded bundle in a temporary file. Fails if its SHA-256 is not the one in the
    /// registry.
    pub fn keep(bytes: &[u8], expected_digest: &str) -> Result<NamedTempFile, CommandError> {
        let write = |source| CommandError::Write {
            path: "a temporary file".to_owned(),
            source,
        };
        let digest = sha256(&mut io::Cursor::new(bytes)).map_err(write)?;
        if !digest.eq_ignore_ascii_case(expected_digest) {
            return Err(CommandError::Usage {
                message: format!(
                    "the bundle is not the one that the registry names: its SHA-256 is {digest}, not {expected_digest}"
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
        let preview = LaunchPreview::from_recipe(&recipe).with_line(format!(
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
            preview,
            unpacked: Some(Unpacked {
                folder,
                is_old,
                is_kept: false,
            }),
        }
        .with_env(env))
    }
}

/// The folder of the bundles of a server, if its entry starts in one of them.
pub fn folder_of(entry: &Entry, name: &str) -> Option<PathBuf> {
    let bundles = StateDir::locate(&Process)
        .ok()?
        .path()
        .join(BUNDLES)
        .join(name);
    let cwd = PathBuf::from(entry.get("cwd").and_then(Value::as_str)?);
    (cwd.parent() == Some(&*bundles)).then_some(bundles)
}

/// Removes a folder and its content, if it exists.
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
