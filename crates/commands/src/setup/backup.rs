//! Copies the files that `setup` changes, and changes all of them or none. [`super::undo`] puts them back.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use mainstay_client_files as client_files;
use mainstay_command_line::CommandError;
use mainstay_platform::{
    config_history::{ChangedBy, ConfigHistory},
    encoding::Encoding,
    state::{self, StateDir},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::plan::FileChange;

pub const MANIFEST: &str = "manifest.json";

/// The changes of the files, in the order in which they were made.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub files: Vec<ChangedFile>,
    /// True if setup also installed the service.
    #[serde(default)]
    pub service: bool,
}

/// A file that setup changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    pub path: PathBuf,
    /// The client whose file it is. `None` for Mainstay's configuration.
    pub client: Option<String>,
    /// The content before the change. `None` if there was no file.
    pub before: Option<Copy>,
    pub after: Copy,
    /// The folder that setup made for the file.
    #[serde(rename = "made")]
    pub new_folder: Option<PathBuf>,
    /// The encoding of the file before the change.
    #[serde(default)]
    pub encoding: Encoding,
}

/// A copy of a file's content, in the manifest's folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copy {
    name: String,
    sha256: String,
}

impl Copy {
    fn make(folder: &Path, name: String, text: &str) -> Result<Self, CommandError> {
        let path = folder.join(&name);
        state::write_private(&path, text.as_bytes()).map_err(failed(&path))?;
        Ok(Self {
            name,
            sha256: digest(text.as_bytes()),
        })
    }

    pub fn is_of(&self, text: &str) -> bool {
        self.sha256 == digest(text.as_bytes())
    }

    pub fn text(&self, folder: &Path) -> Result<String, CommandError> {
        let path = folder.join(&self.name);
        let bytes = state::read_private(&path).map_err(|error| damaged(&path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| damaged(&path, &error))?;
        if !self.is_of(&text) {
            return Err(damaged(&path, &"it is not what `mainstay setup` copied"));
        }
        Ok(text)
    }
}

/// A setup that can be undone.
pub struct SetupRecord {
    pub state: StateDir,
    /// The folder of the copies.
    pub folder: PathBuf,
    pub manifest: Manifest,
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

/// The text of a file. `None` if there is no file.
pub fn current(path: &Path) -> io::Result<Option<String>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let no_text = || io::Error::new(io::ErrorKind::InvalidData, "it is no text");
    Encoding::decode(bytes).ok_or_else(no_text).map(Some)
}

pub fn failed(path: &Path) -> impl Fn(io::Error) -> CommandError {
    let path = path.display().to_string();
    move |error| CommandError::Cannot {
        code: "cannot_write",
        message: format!("cannot write {path}: {error}"),
        hint: None,
    }
}

/// The error about a copy or a manifest that cannot be used.
pub fn damaged(path: &Path, reason: &dyn fmt::Display) -> CommandError {
    let folder = path.parent().unwrap_or(path).display().to_string();
    CommandError::Cannot {
        code: "copy_damaged",
        message: format!(
            "{} cannot be used, and nothing is put back: {reason}",
            path.display()
        ),
        hint: Some(format!(
            "take Mainstay out of the clients' files by hand, with what is left in {folder}; then remove that folder"
        )),
    }
}

pub fn folder(state: &StateDir) -> PathBuf {
    state.path().join("setup")
}

/// The folders of setups that can be undone, the newest first.
pub fn earlier(state: &StateDir) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = match fs::read_dir(folder(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut earlier = Vec::new();
    for entry in entries {
        let entry = entry?;
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(number) = number
            && entry.path().join(MANIFEST).is_file()
        {
            earlier.push((number, entry.path()));
        }
    }
    earlier.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(earlier)
}

/// Copies the files, writes the manifest, and makes the changes. After an error no file is changed.
pub fn apply(state: &StateDir, changes: &[FileChange]) -> Result<SetupRecord, CommandError> {
    state.check()?;
    let all = folder(state);
    let number = earlier(state)
        .map_err(failed(&all))?
        .first()
        .map_or(0, |(number, _)| *number)
        + 1;
    let folder = all.join(number.to_string());
    state::private_dir(&folder).map_err(|error| failed(&folder)(error.into()))?;
    let mut manifest = Manifest::default();
    for (index, change) in changes.iter().enumerate() {
        let before = change.before.as_ref();
        let before = before.map(|text| Copy::make(&folder, format!("{index}-before"), text));
        let parent = change.path.parent().filter(|parent| !parent.exists());
        manifest.files.push(ChangedFile {
            path: change.path.clone(),
            client: change.client.map(|client| client.id().to_owned()),
            before: before.transpose()?,
            after: Copy::make(&folder, format!("{index}-after"), &change.after)?,
            new_folder: parent.map(Path::to_owned),
            encoding: Encoding::of_file(&change.path).map_err(failed(&change.path))?,
        });
    }
    let done = SetupRecord {
        state: state.clone(),
        folder,
        manifest,
    };
    // Save the manifest before the first change, so that an interrupted setup can be undone.
    done.save()?;
    for change in changes {
        if let Err(error) = put(state, change) {
            done.back_out()?;
            return Err(error);
        }
    }
    Ok(done)
}

/// Writes one file, unless it has changed since it was read.
fn put(state: &StateDir, change: &FileChange) -> Result<(), CommandError> {
    if current(&change.path).map_err(failed(&change.path))? != change.before {
        return Err(changed_meanwhile(&change.path, "mainstay setup"));
    }
    let write = || client_files::write(&change.path, &change.after);
    let written = match change.client {
        Some(_) => write(),
        None => ConfigHistory::for_file(state, &change.path).around(ChangedBy::Command, write),
    };
    written.map_err(failed(&change.path))
}

/// The error about a file that another program wrote after it was read.
pub fn changed_meanwhile(path: &Path, command: &str) -> CommandError {
    CommandError::Cannot {
        code: "changed_meanwhile",
        message: format!(
            "{} was changed meanwhile; nothing is changed",
            path.display()
        ),
        hint: Some(format!(
            "close the program that writes it, and run `{command}` again"
        )),
    }
}

impl SetupRecord {
    fn save(&self) -> Result<(), CommandError> {
        let path = self.folder.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&self.manifest)
            .map_err(|error| failed(&path)(error.into()))?;
        state::write_private(&path, &text).map_err(failed(&path))
    }

    /// Records in the manifest that setup installed the service, and saves the manifest.
    pub fn with_service(mut self) -> Result<(), CommandError> {
        self.manifest.service = true;
        self.save()
    }

    /// Undoes the changes that were made. Skips files that were not written yet.
    pub fn back_out(&self) -> Result<(), CommandError> {
        for file in self.manifest.files.iter().rev() {
            let found = current(&file.path).map_err(failed(&file.path))?;
            if found.is_some_and(|text| file.after.is_of(&text)) {
                let before = file.before.as_ref();
                let before = before.map(|copy| copy.text(&self.folder)).transpose()?;
                let new_folder = file.new_folder.as_deref();
                let put_back =
                    || write_back(&file.path, before.as_deref(), new_folder, file.encoding);
                match file.client {
                    Some(_) => put_back(),
                    None => ConfigHistory::for_file(&self.state, &file.path)
                        .around(ChangedBy::Command, put_back),
                }?;
            }
        }
        self.forget()
    }

    /// Removes the copies.
    pub fn forget(&self) -> Result<(), CommandError> {
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }
}

/// Restores a file to `content`. Without content, removes the file and the folder that setup made for it.
pub fn write_back(
    path: &Path,
    content: Option<&str>,
    new_folder: Option<&Path>,
    encoding: Encoding,
) -> Result<(), CommandError> {
    if let Some(text) = content {
        return client_files::write_in(path, text, encoding).map_err(failed(path));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path)(error)),
        _ => {}
    }
    // `remove_dir` keeps a folder that holds other files. Its error is ignored.
    new_folder.map(fs::remove_dir);
    Ok(())
}
