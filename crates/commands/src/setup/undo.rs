//! `setup --undo`: restores each file. If a file was changed after setup, only the changes of setup are
//! undone.

use std::path::{Path, PathBuf};

use mainstay_client_files::{self as client_files, ClientFile, Machine};
use mainstay_command_line::CommandError;
use mainstay_config::{
    Syntax,
    edit::{self, Document},
};
use mainstay_platform::{
    config_history::{ChangedBy, ConfigHistory},
    encoding::Encoding,
    environment::Process,
    state::{self, StateDir},
};

use super::backup::{self, ChangedFile, MANIFEST, Manifest, SetupRecord, damaged, failed};

/// The result of an undo.
#[derive(Debug, Default)]
pub struct UndoResult {
    pub files: Vec<RestoredFile>,
    /// True if the service has to be removed.
    pub service: bool,
}

/// A file to restore.
#[derive(Debug)]
pub struct RestoredFile {
    pub path: PathBuf,
    /// True for Mainstay's configuration, false for a client's file.
    pub is_configuration: bool,
    /// The content now. `None` if there is no file.
    now: Option<String>,
    /// The content after the undo. `None` if the undo removes the file.
    content: Option<String>,
    /// The folder that setup made for the file.
    new_folder: Option<PathBuf>,
    encoding: Encoding,
    /// True if other programs changed the file after setup. Their changes stay.
    pub is_merged: bool,
    /// Servers that other programs changed after setup. They are not restored.
    pub retained: Vec<String>,
}

/// Undoes all setups, the newest first. Keeps the changes of other programs, unless `force` restores the
/// whole file. Restores no file if one of them cannot be restored.
pub fn undo(state: &StateDir, force: bool, dry_run: bool) -> Result<UndoResult, CommandError> {
    state.check()?;
    let setups = setups(state)?;
    let mut undone = UndoResult {
        files: Vec::new(),
        service: setups.iter().any(|done| done.manifest.service),
    };
    let mut refused = Vec::new();
    for done in &setups {
        for changed in done.manifest.files.iter().rev() {
            let position = undone
                .files
                .iter()
                .position(|file| file.path == changed.path);
            let index = match position {
                Some(index) => index,
                None => {
                    undone.files.push(RestoredFile::read(changed, force)?);
                    undone.files.len() - 1
                }
            };
            let file = &mut undone.files[index];
            if let Err(reason) = file.step_back(changed, &done.folder, force)? {
                refused.push(format!("{}: {reason}", changed.path.display()));
            }
        }
    }
    if !refused.is_empty() {
        return Err(CommandError::Cannot {
            code: "changed_since",
            message: format!(
                "changed since `mainstay setup`, and nothing is put back: {}",
                refused.join("; ")
            ),
            hint: Some(format!(
                "`mainstay setup --undo --force` overwrites these changes; the old files are in {}",
                backup::folder(state).display()
            )),
        });
    }
    if dry_run {
        return Ok(undone);
    }
    for file in &undone.files {
        file.write(state, force)?;
    }
    // Remove the copies last, so that they remain after an error.
    for done in &setups {
        done.forget()?;
    }
    Ok(undone)
}

/// The setups that can be undone, the newest first.
fn setups(state: &StateDir) -> Result<Vec<SetupRecord>, CommandError> {
    let earlier = backup::earlier(state).map_err(failed(&backup::folder(state)))?;
    let setups = earlier.into_iter().map(|(_, folder)| {
        let path = folder.join(MANIFEST);
        let text = state::read_private(&path).map_err(|error| damaged(&path, &error))?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| damaged(&path, &error))?;
        let state = state.clone();
        Ok(SetupRecord {
            state,
            folder,
            manifest,
        })
    });
    setups.collect()
}

impl RestoredFile {
    fn read(changed: &ChangedFile, force: bool) -> Result<Self, CommandError> {
        let path = &changed.path;
        let now = match backup::current(path) {
            // With `force` the present content does not matter.
            Err(_) if force => None,
            read => read.map_err(failed(path))?,
        };
        Ok(Self {
            path: path.to_owned(),
            is_configuration: changed.client.is_none(),
            content: now.clone(),
            now,
            new_folder: None,
            encoding: changed.encoding,
            is_merged: false,
            retained: Vec::new(),
        })
    }

    /// Undoes one setup in this file. The inner error is the reason why the setup cannot be undone.
    fn step_back(
        &mut self,
        changed: &ChangedFile,
        folder: &Path,
        force: bool,
    ) -> Result<Result<(), String>, CommandError> {
        let before = changed.before.as_ref();
        let is_before = match (before, &self.content) {
            (Some(copy), Some(text)) => copy.is_of(text),
            (None, None) => true,
            _ => false,
        };
        self.new_folder.clone_from(&changed.new_folder);
        self.encoding = changed.encoding;
        if is_before {
            return Ok(Ok(()));
        }
        let before = before.map(|copy| copy.text(folder)).transpose()?;
        let edited = self
            .content
            .take()
            .filter(|text| !changed.after.is_of(text));
        let Some(now) = edited.filter(|_| !force) else {
            self.content = before;
            return Ok(Ok(()));
        };
        let after = changed.after.text(folder)?;
        self.is_merged = true;
        let reverted = match &changed.client {
            Some(client) => match client_file(client, &changed.path) {
                Some(file) => {
                    let before = before.as_deref().unwrap_or_default();
                    client_files::revert(&file, before, &after, &now)
                        .map(|reverted| (Some(reverted.text), reverted.changed_since))
                        .map_err(|error| error.to_string())
                }
                None => Err(format!("{client} is not known")),
            },
            None => configuration(&changed.path, before.as_deref(), &after, &now)
                .map_err(|error| error.to_string()),
        };
        Ok(reverted.map(|(text, servers)| {
            self.content = text;
            self.retained.extend(servers);
        }))
    }

    /// A sentence about the change of this file, or with `dry_run` about the change that would be made.
    pub fn sentence(&self, dry_run: bool) -> String {
        let path = self.path.display();
        let would = if dry_run { "would be " } else { "" };
        if !self.is_merged {
            return format!("{path} {would}restored");
        }
        match (self.is_configuration, self.content == self.now) {
            (_, true) => format!("{path} stays as it is"),
            (true, false) => format!("{path}: the servers that setup added {would}taken out"),
            (false, false) => format!("{path}: its servers {would}put back"),
        }
    }

    fn write(&self, state: &StateDir, force: bool) -> Result<(), CommandError> {
        if self.content == self.now && !force {
            return Ok(());
        }
        if !force && backup::current(&self.path).map_err(failed(&self.path))? != self.now {
            return Err(backup::changed_meanwhile(
                &self.path,
                "mainstay setup --undo",
            ));
        }
        let (content, new_folder) = (self.content.as_deref(), self.new_folder.as_deref());
        let put_back = || backup::write_back(&self.path, content, new_folder, self.encoding);
        if self.is_configuration {
            ConfigHistory::for_file(state, &self.path).around(ChangedBy::Command, put_back)
        } else {
            put_back()
        }
    }
}

fn client_file(client: &str, path: &Path) -> Option<ClientFile> {
    let machine = Machine::from_environment(&Process)?;
    Some(ClientFile::of_client(client.parse().ok()?, path, &machine))
}

/// Mainstay's configuration without the servers that setup added. Also returns the names of added servers
/// that were changed later.
fn configuration(
    path: &Path,
    before: Option<&str>,
    after: &str,
    now: &str,
) -> Result<(Option<String>, Vec<String>), edit::EditError> {
    let read = |text: &str| Document::read(text, Syntax::of_path(path));
    let (old, new, document) = (
        read(before.unwrap_or(edit::EMPTY))?,
        read(after)?,
        read(now)?,
    );
    let mut retained = Vec::new();
    for (name, entry) in new.entries() {
        if old.entry(&name).is_some() {
            continue;
        }
        match document.entry(&name) {
            Some(found) if found == entry => document.remove(&name)?,
            Some(_) => retained.push(name.to_string()),
            None => {}
        }
    }
    let text = document.to_string();
    let expected = document.value().ok();
    if before.is_none() && expected == read(edit::EMPTY)?.value().ok() {
        return Ok((None, retained));
    }
    let lines = client_files::unpatched(before.unwrap_or_default(), after, now);
    let is_right =
        |text: &String| read(text).is_ok_and(|document| document.value().ok() == expected);
    Ok((Some(lines.filter(is_right).unwrap_or(text)), retained))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mainstay_client_files::ClientKind;

    use super::{
        super::{backup::apply, plan::FileChange},
        *,
    };

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

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).expect("written");
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }

        fn change(&self, name: &str, before: Option<&str>, after: &str) -> FileChange {
            FileChange {
                path: self.path(name),
                client: Some(ClientKind::Cursor),
                before: before.map(str::to_owned),
                after: after.to_owned(),
            }
        }

        fn apply(&self, changes: &[FileChange]) -> Result<(), CommandError> {
            apply(&self.state, changes).map(|_| ())
        }

        fn undo(&self) -> UndoResult {
            undo(&self.state, false, false).expect("undone")
        }
    }

    /// A file of Cursor with this server, and with another key.
    fn cursor(server: &str, other: u8) -> String {
        format!(
            "{{\n  \"mcpServers\": {{\n    \"{server}\": {{\"command\": \"{server}\", \"args\": [\"connect\"]}}\n  }},\n  \"x\": 0,\n  \"other\": {other}\n}}\n"
        )
    }

    #[test]
    fn a_failure_in_the_middle_undoes_what_was_done() {
        let world = World::new();
        world.write("a", "old a");
        world.write("b", "somebody else's");
        let changes = [
            world.change("a", Some("old a"), "new a"),
            world.change("made/new", None, "new"),
            world.change("b", Some("old b"), "new b"),
        ];
        let error = world.apply(&changes).expect_err("b has changed");
        assert!(
            error.to_string().contains("was changed meanwhile"),
            "{error}"
        );
        assert_eq!(world.text("a").as_deref(), Some("old a"));
        assert_eq!(world.text("b").as_deref(), Some("somebody else's"));
        assert!(!world.path("made").exists());
        assert!(world.undo().files.is_empty());
    }

    #[test]
    fn setups_are_undone_to_the_first() {
        let world = World::new();
        world.write("a", "1");
        for (before, after) in [("1", "2"), ("2", "3")] {
            let changes = [world.change("a", Some(before), after)];
            world.apply(&changes).expect("done");
        }
        let preview = undo(&world.state, false, true).expect("shown");
        assert_eq!(preview.files[0].path, world.path("a"));
        assert_eq!(world.text("a").as_deref(), Some("3"));
        world.write("a", "4");
        let error = undo(&world.state, false, false).expect_err("it is no JSON");
        assert!(error.to_string().contains("changed since"), "{error}");
        assert_eq!(world.text("a").as_deref(), Some("4"));
        undo(&world.state, true, false).expect("forced");
        assert_eq!(world.text("a").as_deref(), Some("1"));
        assert!(world.undo().files.is_empty());
    }

    /// A client may write its file between two setups and after both. The undo keeps these changes.
    #[test]
    fn changes_of_others_stay() {
        let world = World::new();
        world.write("a", &cursor("mine", 1));
        let first = [world.change("a", Some(&cursor("mine", 1)), &cursor("mainstay", 1))];
        world.apply(&first).expect("done");
        world.write("a", &cursor("new", 2));
        let second = [world.change("a", Some(&cursor("new", 2)), &cursor("mainstay", 2))];
        world.apply(&second).expect("done");
        world.write("a", &cursor("mainstay", 3));
        let undone = world.undo();
        assert!(undone.files[0].is_merged);
        assert_eq!(undone.files[0].retained, [""; 0]);
        let text = world.text("a").expect("there");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["other"], 3);
        let servers = value["mcpServers"].as_object().expect("a map");
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["new", "mine"]);
    }

    #[test]
    fn a_copy_that_is_cut_off_puts_nothing_back() {
        let world = World::new();
        world.write("a", "old a");
        world.write("b", "old b");
        let changes = [
            world.change("a", Some("old a"), "new a"),
            world.change("b", Some("old b"), "new b"),
        ];
        world.apply(&changes).expect("done");
        let folder = backup::folder(&world.state).join("1");
        for (name, cut) in [("0-before", "ol"), (MANIFEST, "{\"files\": [")] {
            state::write_private(&folder.join(name), cut.as_bytes()).expect("cut");
            for force in [false, true] {
                let error = undo(&world.state, force, false).expect_err("damaged");
                let text = error.to_string();
                assert!(
                    text.contains(name) && text.contains("nothing is put back"),
                    "{text}"
                );
            }
        }
        assert_eq!(world.text("a").as_deref(), Some("new a"));
        assert_eq!(world.text("b").as_deref(), Some("new b"));
        assert!(folder.join("1-before").exists());
    }

    /// An undo also restores the files if setup was killed after it had changed only some of them.
    #[test]
    fn what_was_interrupted_can_be_undone() {
        let world = World::new();
        world.write("a", "old a");
        world.write("b", "old b");
        let changes = [
            world.change("a", Some("old a"), "new a"),
            world.change("b", Some("old b"), "new b"),
        ];
        world.apply(&changes).expect("done");
        world.write("b", "old b");
        world.undo();
        assert_eq!(world.text("a").as_deref(), Some("old a"));
        assert_eq!(world.text("b").as_deref(), Some("old b"));
    }

    #[test]
    fn a_file_that_was_removed_since_comes_back() {
        let world = World::new();
        world.write("a", "old");
        let changes = [world.change("a", Some("old"), "new")];
        world.apply(&changes).expect("done");
        fs::remove_file(world.path("a")).expect("removed");
        world.undo();
        assert_eq!(world.text("a").as_deref(), Some("old"));
    }

    #[test]
    fn the_configuration_loses_what_setup_added() {
        let path = Path::new("config.json");
        let server = |name: &str| format!("    \"{name}\": {{\"command\": \"{name}\"}}");
        let text = |names: &[&str]| {
            let servers: Vec<String> = names.iter().map(|name| server(name)).collect();
            format!(
                "{{\n  \"mcpServers\": {{\n{}\n  }}\n}}\n",
                servers.join(",\n")
            )
        };
        let check = |before: Option<&str>, now: &str| {
            configuration(path, before, &text(&["mine", "added"]), now).expect("read")
        };
        let mine = text(&["mine"]);
        let names = |text: &str| {
            let document = Document::read(text, Syntax::of_path(path)).expect("read");
            let entries = document.entries().into_iter();
            entries
                .map(|(name, _)| name.to_string())
                .collect::<Vec<_>>()
        };
        // Another server was added since.
        let (left, retained) = check(Some(&mine), &text(&["mine", "added", "later"]));
        assert_eq!(names(&left.expect("a file")), ["mine", "later"]);
        assert!(retained.is_empty());
        // One of the added servers was changed since.
        let changed = text(&["mine", "added"]).replace("\"added\"}", "\"other\"}");
        let (left, retained) = check(Some(&mine), &changed);
        assert_eq!(left.as_deref(), Some(changed.as_str()));
        assert_eq!(retained, ["added"]);
        // There was no file, and the present one holds only added servers.
        let (left, _) = check(None, &text(&["added", "mine"]));
        assert_eq!(left, None);
        let (left, _) = check(None, &text(&["added", "later"]));
        assert_eq!(names(&left.expect("a file")), ["later"]);
    }
}
