//! `mainstay config edit`: opens a copy of the configuration in an editor, and saves the copy if it is
//! valid.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use mainstay_api as api;
use mainstay_command_line::{CommandError, connect, output, screen::complain};
use mainstay_config::{ReloadPlan, edit};
use mainstay_core::config::{ConfigError, ConfigErrors};
use mainstay_gateway::reload::{change_with_history, schema_beside};
use mainstay_platform::{
    encoding::Encoding,
    environment::{ConfigurationSource, LoadError, Loaded},
    state,
};
use serde_json::json;
use tokio::process::Command;

use super::super::{import, person::Person};

/// The editor if no variable names one. POSIX names vi.
const DEFAULT_EDITOR: &str = if cfg!(windows) { "notepad" } else { "vi" };

pub async fn run(origin: &ConfigurationSource, json: bool) -> Result<(), CommandError> {
    let path = origin
        .path()
        .ok_or_else(|| import::no_home("the configuration"))?;
    let before = match origin.text() {
        // `--config` may name a file that does not exist yet. This command creates the file.
        Err(_) if !path.exists() => None,
        text => text?,
    };
    if before.is_some() {
        refresh_schema(&path, before.as_deref());
    }
    let mut editing = Editing::begin(path, before)?;
    loop {
        let text = editing.edited().await?;
        if text == editing.original() {
            return editing.report_unchanged(json);
        }
        let (loaded, findings) = editing.check(origin, &text);
        if findings.is_empty() {
            return editing.save(origin, &text, loaded.as_ref(), json);
        }
        match editing.ask(loaded.is_some(), &findings, json).await? {
            Choice::Again => {}
            Choice::Save => return editing.save(origin, &text, loaded.as_ref(), json),
            Choice::Discard => return Err(editing.rejected(findings, json)),
        }
    }
}

/// Writes the schema of this version if the file refers to one.
fn refresh_schema(path: &Path, text: Option<&str>) {
    if text.is_some_and(|text| text.contains(edit::SCHEMA_FILE)) {
        schema_beside(path);
    }
}

/// A file, and the copy that the editor has open.
struct Editing {
    path: PathBuf,
    /// The file's text, or `None` if there is no file yet.
    before: Option<String>,
    /// The folder of the copy, private because the copy may hold secrets.
    folder: tempfile::TempDir,
    copy: PathBuf,
    person: Person,
}

/// A person's choice after an edit with errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Again,
    Save,
    Discard,
}

impl Editing {
    fn begin(path: PathBuf, before: Option<String>) -> Result<Self, CommandError> {
        let folder = private_folder().map_err(|source| CommandError::Write {
            path: env::temp_dir().display().to_string(),
            source,
        })?;
        // Give the copy the file's name, because editors detect the syntax by the name.
        let copy = folder.path().join(path.file_name().unwrap_or_default());
        let this = Self {
            path,
            before,
            folder,
            copy,
            person: Person::new()?,
        };
        let written = fs::write(&this.copy, this.original());
        written.map_err(|source| CommandError::Write {
            path: this.copy.display().to_string(),
            source,
        })?;
        Ok(this)
    }

    fn original(&self) -> &str {
        self.before.as_deref().unwrap_or(edit::NEW)
    }

    /// Runs the editor. Returns the text that it leaves.
    async fn edited(&mut self) -> Result<String, CommandError> {
        let editor = editor();
        let mut child = command(&editor, &self.copy)
            .spawn()
            .map_err(|error| unopened(&editor, &error.to_string()))?;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                // Ignore SIGINT. The editor receives it as well and handles it.
                signal = self.person.signals.next() => if !signal.is_interrupt() {
                    let exit = signal.exit_code();
                    self.folder.disable_cleanup(true);
                    return Err(CommandError::Interrupted { name: signal.name, exit });
                }
            }
        };
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(unopened(&editor, &status.to_string())),
            Err(error) => return Err(unopened(&editor, &error.to_string())),
        }
        fs::read_to_string(&self.copy).map_err(|source| CommandError::Read {
            path: self.copy.display().to_string(),
            source,
        })
    }

    /// Parses the text, and returns its errors. Leaves out errors of a server that the file had before the
    /// edit.
    fn check(
        &self,
        origin: &ConfigurationSource,
        text: &str,
    ) -> (Option<Loaded>, Vec<ConfigError>) {
        let loaded = match origin.parse(Some(text)) {
            Ok(loaded) => loaded,
            Err(LoadError::Invalid { errors, .. }) => return (None, errors.0),
            Err(error) => {
                let finding = ConfigError {
                    path: String::new(),
                    message: error.to_string(),
                    hint: None,
                    position: None,
                    awaits_file: false,
                };
                return (None, vec![finding]);
            }
        };
        let before = self.loaded_before(origin);
        let is_old = |finding: &ConfigError| {
            let mut old_problems = before.iter().flat_map(|before| before.config.problems());
            old_problems.any(|(_, old)| old.path == finding.path && old.message == finding.message)
        };
        let problems = loaded.config.problems().map(|(_, problem)| problem);
        let findings = problems
            .filter(|finding| !is_old(finding))
            .cloned()
            .collect();
        (Some(loaded), findings)
    }

    /// The configuration before the edit, if it is valid.
    fn loaded_before(&self, origin: &ConfigurationSource) -> Option<Loaded> {
        let text = self.before.as_deref().unwrap_or(edit::EMPTY);
        origin.parse(Some(text)).ok()
    }

    async fn ask(
        &mut self,
        is_usable: bool,
        findings: &[ConfigError],
        json: bool,
    ) -> Result<Choice, CommandError> {
        if json || !self.person.is_there() {
            return Ok(Choice::Discard);
        }
        for finding in findings {
            complain(&finding.at(self.path.display()).to_string());
        }
        let question = if is_usable {
            "[e]dit again, [s]ave it nevertheless, or [d]iscard it?"
        } else {
            "[e]dit again, or [d]iscard it?"
        };
        loop {
            let answer = self.person.ask(question).await?;
            let answer = answer.map(|answer| answer.trim().to_ascii_lowercase());
            match answer.as_deref() {
                Some("e" | "edit" | "") => return Ok(Choice::Again),
                Some("s" | "save") if is_usable => return Ok(Choice::Save),
                Some("d" | "discard") | None => return Ok(Choice::Discard),
                Some(_) => {}
            }
        }
    }

    /// The error about a text that was not saved. Keeps the copy.
    fn rejected(mut self, findings: Vec<ConfigError>, json: bool) -> CommandError {
        self.folder.disable_cleanup(true);
        let copy_note = format!("the new text is in {}", self.copy.display());
        if !json && self.person.is_there() {
            // The findings are printed already.
            return CommandError::Usage {
                message: format!("{} stays as it was", self.path.display()),
                hint: Some(copy_note),
            };
        }
        if !json {
            complain(&format!(
                "{} stays as it was; {copy_note}",
                self.path.display()
            ));
        }
        let errors = ConfigErrors(findings);
        let path = self.path;
        LoadError::Invalid { path, errors }.into()
    }

    fn report_unchanged(&self, json: bool) -> Result<(), CommandError> {
        if json {
            return output::json(&json!({"file": self.path, "changed": false}));
        }
        complain("nothing was changed");
        Ok(())
    }

    fn save(
        mut self,
        origin: &ConfigurationSource,
        text: &str,
        loaded: Option<&Loaded>,
        json: bool,
    ) -> Result<(), CommandError> {
        let now = fs::read(&self.path).ok().and_then(Encoding::decode);
        if now != self.before {
            self.folder.disable_cleanup(true);
            return Err(CommandError::Cannot {
                code: "changed_meanwhile",
                message: format!("{} was changed meanwhile, and stays", self.path.display()),
                hint: Some(format!("the new text is in {}", self.copy.display())),
            });
        }
        let before = self.loaded_before(origin);
        let written = self.write(text);
        if written.is_err() {
            self.folder.disable_cleanup(true);
        }
        written.map_err(|source| CommandError::Write {
            path: self.path.display().to_string(),
            source,
        })?;
        refresh_schema(&self.path, Some(text));
        let plan = before.zip(loaded);
        let plan = plan.map(|(before, after)| ReloadPlan::between(&before.config, &after.config));
        let daemon = connect::locate(None).ok().and_then(|found| found.file);
        let served = daemon.and_then(|file| file.config);
        let is_served = served.is_some_and(|config| super::is_same(Path::new(&config), &self.path));
        if json {
            return output::json(&json!({
                "file": self.path,
                "changed": true,
                "summary": plan.as_ref().map(ToString::to_string),
                "plan": plan.as_ref().map(api::Plan::from),
                "servedByDaemon": is_served,
            }));
        }
        if let Some(loaded) = loaded {
            for warning in loaded.told_warnings() {
                complain(&warning);
            }
        }
        if let Some(plan) = &plan {
            output::text(&plan.to_string())?;
        }
        complain(&format!("{} was saved", self.path.display()));
        if is_served {
            complain("the running daemon takes it into force by itself");
        }
        Ok(())
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if let (None, Some(folder)) = (&self.before, self.path.parent())
            && !folder.as_os_str().is_empty()
        {
            state::create_private_dir(folder)?;
        }
        change_with_history(&self.path, || {
            mainstay_client_files::write(&self.path, text)
        })
    }
}

/// A temporary folder that is private to its owner.
fn private_folder() -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("mainstay-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

/// The editor of `$VISUAL`, or else of `$EDITOR`.
fn editor() -> String {
    let var = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
    var("VISUAL")
        .or_else(|| var("EDITOR"))
        .unwrap_or_else(|| DEFAULT_EDITOR.to_owned())
}

/// The command of the editor. The variable holds a command with arguments, such as `code --wait`, so a shell
/// runs it.
#[cfg(unix)]
fn command(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg("sh")
        .arg(file);
    command
}

#[cfg(not(unix))]
fn command(editor: &str, file: &Path) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(DEFAULT_EDITOR));
    command.args(words).arg(file);
    command
}

fn unopened(editor: &str, reason: &str) -> CommandError {
    CommandError::Cannot {
        code: "editor_failed",
        message: format!("nothing was changed: the editor {editor:?} failed: {reason}"),
        hint: Some("VISUAL or EDITOR name another one, such as EDITOR='code --wait'".to_owned()),
    }
}
