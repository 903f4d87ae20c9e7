//! The copies of the files that `setup` changes, and the way back. All files are changed, or none.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mainstay_client_files as client_files;
use mainstay_platform::state::{self, StateDir};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{super::CommandError, plan::FileChange};

const MANIFEST: &str = "manifest.json";

/// What was done to the files, in the order in which it was done.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    files: Vec<Kept>,
    /// Whether the service was installed, too.
    #[serde(default)]
    service: bool,
}

/// One file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    path: PathBuf,
    /// SHA-256 of the content before. `None` where there was no file.
    before: Option<String>,
    /// SHA-256 of the content after.
    after: String,
    /// The name of the copy beside the manifest.
    copy: Option<String>,
    /// The folder that was made for the file.
    made: Option<PathBuf>,
}

/// Changes that can be undone.
pub struct Done {
    folder: PathBuf,
    manifest: Manifest,
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

fn current(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CommandError {
    let path = path.display().to_string();
    move |error| CommandError::Cannot {
        code: "cannot_write",
        message: format!("cannot write {path}: {error}"),
        hint: None,
    }
}

fn folder(state: &StateDir) -> PathBuf {
    state.path().join("setup")
}

/// The folders of earlier setups that were not undone, the newest first.
fn earlier(state: &StateDir) -> io::Result<Vec<(u32, PathBuf)>> {
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

/// Copies the files, writes down what is about to be done, and does it. After an error nothing is changed.
pub fn apply(state: &StateDir, changes: &[FileChange]) -> Result<Done, CommandError> {
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
        let copy = change.before.as_ref().map(|_| index.to_string());
        if let (Some(copy), Some(before)) = (&copy, &change.before) {
            let copy = folder.join(copy);
            state::write_private(&copy, before.as_bytes()).map_err(failed(&copy))?;
        }
        let parent = change.path.parent().filter(|parent| !parent.exists());
        manifest.files.push(Kept {
            path: change.path.clone(),
            before: change.before.as_ref().map(|text| digest(text.as_bytes())),
            after: digest(change.after.as_bytes()),
            copy,
            made: parent.map(Path::to_owned),
        });
    }
    let done = Done { folder, manifest };
    // Before the first change: what is interrupted can be undone.
    done.save()?;
    for change in changes {
        if let Err(error) = put(change) {
            done.back_out()?;
            return Err(error);
        }
    }
    Ok(done)
}

/// Writes one file, unless it has changed since it was read.
fn put(change: &FileChange) -> Result<(), CommandError> {
    let found = current(&change.path).map_err(failed(&change.path))?;
    if found.as_deref() != change.before.as_ref().map(String::as_bytes) {
        return Err(CommandError::Cannot {
            code: "changed_meanwhile",
            message: format!(
                "{} was changed meanwhile; nothing is changed",
                change.path.display()
            ),
            hint: Some(
                "close the program that writes it, and run `mainstay setup` again".to_owned(),
            ),
        });
    }
    client_files::write(&change.path, &change.after).map_err(failed(&change.path))
}

impl Done {
    fn save(&self) -> Result<(), CommandError> {
        let path = self.folder.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&self.manifest)
            .map_err(|error| failed(&path)(error.into()))?;
        state::write_private(&path, &text).map_err(failed(&path))
    }

    /// Notes that the service is part of it.
    pub fn with_service(mut self) -> Result<(), CommandError> {
        self.manifest.service = true;
        self.save()
    }

    /// Undoes what was done so far. Files that were not written yet are as they were.
    pub fn back_out(&self) -> Result<(), CommandError> {
        for kept in self.manifest.files.iter().rev() {
            if kept.standing()? == Standing::Ours {
                kept.restore(&self.folder)?;
            }
        }
        fs::remove_dir_all(&self.folder).map_err(failed(&self.folder))
    }
}

/// How a file stands to what was done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is as setup left it.
    Ours,
    /// It is as it was before.
    Before,
    /// Somebody has changed it since.
    Changed,
}

impl Kept {
    fn standing(&self) -> Result<Standing, CommandError> {
        let found = current(&self.path).map_err(failed(&self.path))?;
        let found = found.map(|bytes| digest(&bytes));
        Ok(if found == self.before {
            Standing::Before
        } else if found.as_ref() == Some(&self.after) {
            Standing::Ours
        } else {
            Standing::Changed
        })
    }

    fn restore(&self, folder: &Path) -> Result<(), CommandError> {
        let Some(copy) = &self.copy else {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&self.path)(error));
                }
                _ => {}
            }
            // Other files may have come into it.
            self.made.as_ref().map(fs::remove_dir);
            return Ok(());
        };
        let copy = folder.join(copy);
        let bytes = state::read_private(&copy).map_err(|error| failed(&copy)(error.into()))?;
        let text = String::from_utf8(bytes)
            .map_err(|error| failed(&copy)(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        client_files::write(&self.path, &text).map_err(failed(&self.path))
    }
}

/// What undoing has done.
#[derive(Debug, Default)]
pub struct Undone {
    pub files: Vec<PathBuf>,
    /// Whether the service is to be removed.
    pub service: bool,
}

/// Puts everything back, the newest setup first. Where a file was changed since, nothing is done unless it
/// is forced.
pub fn undo(state: &StateDir, force: bool, dry_run: bool) -> Result<Undone, CommandError> {
    state.check()?;
    let earlier = earlier(state).map_err(failed(&folder(state)))?;
    let mut manifests = Vec::new();
    for (_, folder) in earlier {
        let path = folder.join(MANIFEST);
        let text = state::read_private(&path).map_err(|error| failed(&path)(error.into()))?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| failed(&path)(error.into()))?;
        manifests.push(Done { folder, manifest });
    }
    // A file of several setups counts as the newest one left it.
    let mut seen: Vec<&Path> = Vec::new();
    let mut changed = Vec::new();
    for kept in manifests.iter().flat_map(|done| &done.manifest.files) {
        if !seen.contains(&kept.path.as_path()) {
            seen.push(&kept.path);
            if kept.standing()? == Standing::Changed {
                changed.push(kept.path.display().to_string());
            }
        }
    }
    if !changed.is_empty() && !force {
        return Err(CommandError::Cannot {
            code: "changed_since",
            message: format!(
                "changed since `mainstay setup`: {}; nothing is put back",
                changed.join(", ")
            ),
            hint: Some(format!(
                "`mainstay setup --undo --force` overwrites these changes; the old files are in {}",
                folder(state).display()
            )),
        });
    }
    let undone = Undone {
        files: seen.into_iter().map(Path::to_owned).collect(),
        service: manifests.iter().any(|done| done.manifest.service),
    };
    if dry_run {
        return Ok(undone);
    }
    for done in &manifests {
        for kept in done.manifest.files.iter().rev() {
            if kept.standing()? != Standing::Before {
                kept.restore(&done.folder)?;
            }
        }
    }
    // Only when all is back: an error leaves the copies.
    for done in &manifests {
        fs::remove_dir_all(&done.folder).map_err(failed(&done.folder))?;
    }
    Ok(undone)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        state: StateDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let state = StateDir::new(folder.path().join("state"));
            Self { folder, state }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn change(&self, name: &str, before: Option<&str>, after: &str) -> FileChange {
            FileChange {
                path: self.path(name),
                before: before.map(str::to_owned),
                after: after.to_owned(),
            }
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }
    }

    #[test]
    fn a_failure_in_the_middle_undoes_what_was_done() {
        let world = World::new();
        fs::write(world.path("a"), "old a").expect("written");
        fs::write(world.path("b"), "somebody else's").expect("written");
        let changes = [
            world.change("a", Some("old a"), "new a"),
            world.change("made/new", None, "new"),
            world.change("b", Some("old b"), "new b"),
        ];
        let error = apply(&world.state, &changes)
            .map(|_| ())
            .expect_err("b has changed");
        assert!(
            error.to_string().contains("was changed meanwhile"),
            "{error}"
        );
        assert_eq!(world.text("a").as_deref(), Some("old a"));
        assert_eq!(world.text("b").as_deref(), Some("somebody else's"));
        assert!(!world.path("made").exists());
        assert!(
            undo(&world.state, false, false)
                .expect("nothing")
                .files
                .is_empty()
        );
    }

    #[test]
    fn setups_are_undone_to_the_first() {
        let world = World::new();
        fs::write(world.path("a"), "1").expect("written");
        for (before, after) in [("1", "2"), ("2", "3")] {
            apply(&world.state, &[world.change("a", Some(before), after)])
                .map(|_| ())
                .expect("done");
        }
        assert_eq!(
            undo(&world.state, false, true).expect("shown").files,
            [world.path("a")]
        );
        assert_eq!(world.text("a").as_deref(), Some("3"));
        fs::write(world.path("a"), "4").expect("written");
        let error = undo(&world.state, false, false).expect_err("it has changed");
        assert!(error.to_string().contains("changed since"), "{error}");
        assert_eq!(world.text("a").as_deref(), Some("4"));
        undo(&world.state, true, false).expect("forced");
        assert_eq!(world.text("a").as_deref(), Some("1"));
        assert!(
            undo(&world.state, false, false)
                .expect("nothing")
                .files
                .is_empty()
        );
    }

    /// A setup that was killed has changed some files and not the others.
    #[test]
    fn what_was_interrupted_can_be_undone() {
        let world = World::new();
        fs::write(world.path("a"), "old a").expect("written");
        fs::write(world.path("b"), "old b").expect("written");
        let changes = [
            world.change("a", Some("old a"), "new a"),
            world.change("b", Some("old b"), "new b"),
        ];
        apply(&world.state, &changes).map(|_| ()).expect("done");
        fs::write(world.path("b"), "old b").expect("written");
        undo(&world.state, false, false).expect("undone");
        assert_eq!(world.text("a").as_deref(), Some("old a"));
        assert_eq!(world.text("b").as_deref(), Some("old b"));
    }
}
