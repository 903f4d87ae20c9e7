//! Plans a setup: the servers to add, and the new text of each file. Writes no file.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use mainstay_client_files::{
    self as client_files, ClientKind, EditError, EntryChange, FoundClient, FoundFile, FoundServer,
    LeftOut, MergeStatus, Merged, NotReadable, OwnEntry,
};
use mainstay_command_line::CommandError;
use mainstay_config::{
    Syntax,
    edit::{self, Document, Entry},
    masking,
};
use mainstay_core::{
    config::{ConfigError, Launch, ServerConfig},
    ids::ServerName,
};
use mainstay_platform::environment::ConfigurationSource;
use serde_json::Value;
use similar::TextDiff;

use super::{
    super::{
        import,
        moved_secrets::{self, MovedSecret},
        probe::{ProbeRefusal, Refusals, plain_url},
        programs,
    },
    hidden::without_secrets,
};

/// A file with its old and its new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: PathBuf,
    /// The client whose file it is. `None` for Mainstay's configuration.
    pub client: Option<ClientKind>,
    /// The old text. `None` if there is no file yet.
    pub before: Option<String>,
    pub after: String,
}

/// A sentence for a person, and the servers or files that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupNote {
    about: Vec<String>,
    text: String,
    /// Lines to paste into a file, unchanged.
    block: String,
}

impl SetupNote {
    /// The note as one sentence. The servers or files come first.
    pub fn sentence(&self) -> String {
        match &*self.about {
            [] => self.text.clone(),
            about => format!("{}: {}", about.join(", "), self.text),
        }
    }

    /// The lines to paste. Empty if there are none.
    pub fn block(&self) -> &str {
        &self.block
    }
}

impl fmt::Display for SetupNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        if !self.block.is_empty() {
            write!(f, "\n{}", self.block)?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub struct SetupPlan {
    /// The change of Mainstay's configuration first, then those of the clients' files.
    pub changes: Vec<FileChange>,
    pub servers: Vec<Merged>,
    /// The clients whose files get an entry of Mainstay.
    pub clients: Vec<ClientKind>,
    /// Notes that are printed with the plan.
    pub notes: Vec<SetupNote>,
    /// Servers that stay with their clients.
    staying: Vec<FoundServer>,
    secrets: BTreeSet<String>,
    /// The secrets that go into the vault.
    pub stored: Vec<MovedSecret>,
}

impl SetupPlan {
    /// Makes the plan for the chosen clients.
    pub fn for_clients(
        found: &[FoundClient],
        origin: &ConfigurationSource,
        own_entry: &OwnEntry,
        refusals: &Refusals,
        is_chosen: impl Fn(ClientKind) -> bool,
    ) -> Result<Self, CommandError> {
        let mut plan = Self::default();
        let chosen = found.iter().filter(|found| is_chosen(found.client));
        let reached: Vec<&FoundClient> = chosen
            .filter(|found| plan.is_reached(found, own_entry))
            .collect();
        let mut servers = Vec::new();
        for file in reached.iter().flat_map(|found| &found.files) {
            plan.read(file, &mut servers);
        }
        let servers = plan.without_unsupported(servers, refusals);
        plan.configure(origin, &servers)?;
        for found in reached {
            plan.point(found, own_entry);
        }
        plan.report();
        plan.report_logins(refusals);
        Ok(plan)
    }

    /// Adds a note without a server or a file.
    pub fn note(&mut self, text: String) {
        self.note_with_block(text, String::new());
    }

    fn note_with_block(&mut self, text: String, block: String) {
        self.notes.push(SetupNote {
            about: Vec::new(),
            text,
            block,
        });
    }

    pub fn note_all(&mut self, texts: Vec<String>) {
        for text in texts {
            self.note(text);
        }
    }

    /// Adds a note about a server or a file. Notes with the same text become one note.
    fn note_about(&mut self, about: String, text: String) {
        let is_same = |note: &&mut SetupNote| !note.about.is_empty() && note.text == text;
        match self.notes.iter_mut().find(is_same) {
            Some(note) if note.about.contains(&about) => {}
            Some(note) => note.about.push(about),
            None => self.notes.push(SetupNote {
                about: vec![about],
                text,
                block: String::new(),
            }),
        }
    }

    /// The plain secrets of the new servers, and the entries without them.
    pub fn plain_secrets(
        &self,
        mut used: BTreeSet<String>,
    ) -> (Vec<(ServerName, Entry)>, Vec<MovedSecret>) {
        let (mut entries, mut secrets) = (Vec::new(), Vec::new());
        for server in self.new_servers() {
            let (entry, of_entry) = moved_secrets::moved(&server.name, &server.entry, &mut used);
            entries.push((server.name.clone(), entry));
            secrets.extend(of_entry);
        }
        (entries, secrets)
    }

    /// Replaces the values of these secrets in the new configuration by references to the vault.
    pub fn store(
        &mut self,
        entries: &[(ServerName, Entry)],
        secrets: Vec<MovedSecret>,
    ) -> Result<(), CommandError> {
        let ours = self
            .changes
            .iter_mut()
            .find(|change| change.client.is_none());
        let Some(change) = ours else {
            return Ok(());
        };
        let unusable = |error: edit::EditError| import::unusable(&change.path, &error);
        let document =
            Document::read(&change.after, Syntax::of_path(&change.path)).map_err(unusable)?;
        for (name, entry) in entries {
            document.put(name, entry).map_err(unusable)?;
        }
        change.after = document.to_string();
        self.stored = secrets;
        Ok(())
    }

    pub fn new_servers(&self) -> impl Iterator<Item = &Merged> {
        self.servers
            .iter()
            .filter(|server| server.standing == MergeStatus::New)
    }

    /// True if the client would get the tools of Mainstay. A client whose own list excludes Mainstay would
    /// lose all its servers, so none of its files is changed.
    fn is_reached(&mut self, found: &FoundClient, own_entry: &OwnEntry) -> bool {
        let left_out = main_files(found).into_iter().filter_map(|file| {
            let text = file.text.as_ref().ok()?;
            let pointed = client_files::point_at_mainstay(&file.file, text, own_entry, |_| true);
            Some((
                file.file.path.display().to_string(),
                pointed.ok()?.left_out?,
            ))
        });
        let left_out: Vec<_> = left_out.collect();
        for (path, note) in &left_out {
            let text = format!(
                "left alone; {}: {}, then run `mainstay setup` again",
                note.key, note.text
            );
            self.note_about(path.clone(), text);
        }
        left_out.is_empty()
    }

    fn read(&mut self, file: &FoundFile, servers: &mut Vec<FoundServer>) {
        let path = file.file.path.display().to_string();
        let text = match &file.text {
            Ok(text) => text,
            Err(error) => {
                let hint = error.hint();
                return self.note_about(path, format!("left alone, for {error}; {hint}"));
            }
        };
        if let Ok(value) = client_files::value(file.file.format, text) {
            self.add_secrets(&value);
        }
        match client_files::servers(&file.file, text) {
            Ok(read) => {
                for server in &read {
                    self.add_secrets(&Value::Object(server.entry.clone()));
                    self.note_unread(server);
                }
                servers.extend(read);
            }
            Err(error) => self.note_about(path, left_alone(&error)),
        }
    }

    /// Removes the servers that Mainstay does not support and those that refuse Mainstay. They may work in
    /// their clients, so they stay there.
    fn without_unsupported(
        &mut self,
        servers: Vec<FoundServer>,
        refusals: &Refusals,
    ) -> Vec<FoundServer> {
        let refusal = |server: &FoundServer| match refusals.get(plain_url(&server.entry)?)? {
            ProbeRefusal::Refused(reason) => Some(reason),
            ProbeRefusal::NeedsLogin => None,
        };
        let cannot_move = |server: &FoundServer| {
            server.left_out.is_none() && (!server.is_movable() || refusal(server).is_some())
        };
        let (staying, others) = servers.into_iter().partition(cannot_move);
        self.staying = staying;
        let notes = self.staying.iter().map(|server| {
            let reasons = server
                .unsupported()
                .map(|note| format!("`{}`: {}", note.key, note.text));
            let refusal = refusal(server).map(|reason| format!("`url`: {reason}"));
            let reasons: Vec<String> = reasons.chain(refusal).collect();
            let text = format!("stays in {}, {}", server.client, reasons.join("; "));
            (server.label.clone(), text)
        });
        for (about, text) in notes.collect::<Vec<_>>() {
            self.note_about(about, text);
        }
        others
    }

    /// Adds a note about an entry that cannot be read and stays with its client.
    fn note_unread(&mut self, server: &FoundServer) {
        if let Some(LeftOut::NotUnderstood(reason)) = &server.left_out {
            let text = format!(
                "stays in {}, for its entry cannot be read: {reason}",
                server.client
            );
            self.note_about(server.label.clone(), text);
        }
    }

    /// Collects the secrets of a file, so that no diff shows them.
    fn add_secrets(&mut self, value: &Value) {
        let masked = masking::masked(value, "");
        gather(value, &masked, &mut self.secrets);
    }

    /// Adds the new servers to Mainstay's configuration.
    fn configure(
        &mut self,
        origin: &ConfigurationSource,
        servers: &[FoundServer],
    ) -> Result<(), CommandError> {
        let path = origin
            .path()
            .ok_or(mainstay_platform::state::StateError::Nowhere)?;
        let before = import::read(&path)?;
        // Fail early if the configuration is invalid.
        origin.parse(before.as_deref())?;
        let text = before.as_deref().filter(|text| !text.trim().is_empty());
        let invalid = |error: edit::EditError| CommandError::Cannot {
            code: "cannot_write",
            message: format!("{} cannot be changed: {error}", path.display()),
            hint: Some("correct it, or name another with --config".to_owned()),
        };
        let text = text.unwrap_or(edit::NEW);
        let document = Document::read(text, Syntax::of_path(&path)).map_err(invalid)?;
        if let Ok(value) = document.value() {
            self.add_secrets(&value);
        }
        let present = moved_secrets::with_values(document.entries());
        self.servers = client_files::merge(servers, &present);
        let with_new = |plan: &Self| {
            let document = Document::read(text, Syntax::of_path(&path)).map_err(invalid)?;
            for server in plan.new_servers() {
                document.put(&server.name, &server.entry).map_err(invalid)?;
            }
            Ok::<_, CommandError>(document.to_string())
        };
        let loaded = origin.parse(Some(&with_new(self)?))?;
        for (name, problem) in loaded.config.problems() {
            self.leave(name, &problem_words(name, problem));
        }
        let new: BTreeSet<ServerName> = self
            .new_servers()
            .map(|server| server.name.clone())
            .collect();
        let is_enabled = |server: &&ServerConfig| server.enabled && new.contains(&server.name);
        for server in loaded.config.servers.iter().filter(is_enabled) {
            if let Launch::Stdio(launch) = &server.launch
                && let Some(obstacle) = programs::obstacle(launch)
            {
                self.leave(&server.name, &obstacle);
            }
        }
        if self.new_servers().next().is_none() {
            return Ok(());
        }
        let after = with_new(self)?;
        let is_new = before.as_deref().is_none_or(|text| text.trim().is_empty());
        let schema = path.with_file_name(edit::SCHEMA_FILE);
        self.change(FileChange {
            path,
            client: None,
            before,
            after,
        });
        if is_new {
            self.change(FileChange {
                client: None,
                before: import::read(&schema)?,
                after: mainstay_config::schema_text(),
                path: schema,
            });
        }
        Ok(())
    }

    /// Leaves a new server with its clients, because it cannot start on this machine.
    fn leave(&mut self, name: &ServerName, problem: &str) {
        let is_named =
            |server: &mut Merged| server.standing == MergeStatus::New && server.name == *name;
        let staying: Vec<Merged> = self.servers.extract_if(.., is_named).collect();
        for server in staying {
            let clients: BTreeSet<&str> = server
                .sources
                .iter()
                .map(|source| source.client.name())
                .collect();
            let clients: Vec<&str> = clients.into_iter().collect();
            let clients = clients.join(", ");
            self.note_about(
                name.to_string(),
                format!("stays in {clients}, for Mainstay cannot start it: {problem}"),
            );
            self.staying.extend(server.sources);
        }
    }

    /// True if the server moves from its client to Mainstay.
    fn moves(&self, server: &FoundServer) -> bool {
        !self.staying.contains(server)
    }

    /// Replaces the servers that move, in a client's files, by an entry of Mainstay.
    fn point(&mut self, found: &FoundClient, own_entry: &OwnEntry) {
        let main = main_files(found);
        let mut is_pointed = false;
        for file in found.files.iter().filter(|file| is_readable(file)) {
            let Ok(text) = &file.text else { continue };
            let is_main = main.contains(&file);
            let after = if is_main {
                let pointed =
                    client_files::point_at_mainstay(&file.file, text, own_entry, |server| {
                        self.moves(server)
                    });
                pointed.map(|pointed| pointed.text)
            } else {
                self.without_servers(file, text)
            };
            match after {
                Ok(after) => {
                    is_pointed |= is_main;
                    self.change(FileChange {
                        path: file.file.path.clone(),
                        client: Some(found.client),
                        before: Some(text.clone()),
                        after,
                    });
                }
                Err(EditError::Unwritable {
                    reason,
                    block,
                    remove,
                }) => {
                    let path = file.file.path.display();
                    let remove = if remove.is_empty() {
                        String::new()
                    } else {
                        format!(", and take these servers out: {}", remove.join(", "))
                    };
                    let text = format!(
                        "{path} cannot be changed in place ({reason}); paste this into it{remove}:"
                    );
                    self.note_with_block(text, block.trim_end().to_owned());
                }
                Err(EditError::NotReadable(error)) => {
                    self.note_about(file.file.path.display().to_string(), left_alone(&error));
                }
            }
        }
        if is_pointed {
            self.clients.push(found.client);
        }
    }

    /// The text of a client's secondary file without the servers that move.
    fn without_servers(&self, file: &FoundFile, text: &str) -> Result<String, EditError> {
        let servers = client_files::servers(&file.file, text)?.into_iter();
        let ours = servers.filter(|server| match &server.left_out {
            None => self.moves(server),
            Some(reason) => !reason.stays_in_file(),
        });
        let changes: Vec<EntryChange> = ours
            .map(|server| EntryChange::Remove {
                section: server.section,
                label: server.label,
            })
            .collect();
        if changes.is_empty() {
            return Ok(text.to_owned());
        }
        client_files::apply(&file.file, text, &changes)
    }

    fn change(&mut self, change: FileChange) {
        if change.before.as_deref() != Some(&change.after) {
            self.changes.push(change);
        }
    }

    /// Adds a note for each key that Mainstay honours only in part.
    fn report(&mut self) {
        let notes = self.servers.iter().flat_map(|server| {
            let reports = server.sources.iter().flat_map(FoundServer::reports);
            let all_notes = server.notes.iter().chain(reports);
            all_notes.map(|note| {
                (
                    server.name.to_string(),
                    format!("{}: {}", note.key, note.text),
                )
            })
        });
        for (name, text) in notes.collect::<Vec<_>>() {
            self.note_about(name, text);
        }
    }

    /// Adds a note about each server that needs a login.
    fn report_logins(&mut self, refusals: &Refusals) {
        let needs_login = |source: &FoundServer| {
            let url = plain_url(&source.entry);
            url.and_then(|url| refusals.get(url)) == Some(&ProbeRefusal::NeedsLogin)
        };
        let names = self.servers.iter().filter_map(|server| {
            let name = || server.name.to_string();
            server.sources.iter().any(needs_login).then(name)
        });
        for name in names.collect::<Vec<_>>() {
            let text = format!("needs a login: `mainstay auth login {name}`");
            self.note_about(name, text);
        }
    }

    /// The diff of a file, with the secrets hidden.
    pub fn difference(&self, change: &FileChange) -> String {
        // Do not print the schema: it is long, and Mainstay generates it.
        if change.path.ends_with(edit::SCHEMA_FILE) {
            let path = change.path.display();
            return format!("+++ {path}: the schema of the configuration, for editors\n");
        }
        let hide = |text: &str| without_secrets(text, &self.secrets);
        let (before, after) = (
            hide(change.before.as_deref().unwrap_or_default()),
            hide(&change.after),
        );
        let path = change.path.display().to_string();
        let old = if change.before.is_some() {
            path.clone()
        } else {
            "(no file)".to_owned()
        };
        let diff = TextDiff::from_lines(&before, &after);
        diff.unified_diff()
            .context_radius(2)
            .header(&old, &path)
            .to_string()
    }
}

fn is_readable(file: &FoundFile) -> bool {
    let text = file.text.as_ref().ok();
    text.is_some_and(|text| client_files::servers(&file.file, text).is_ok())
}

/// The files that get an entry of Mainstay: the main file of each installation of the client.
fn main_files(found: &FoundClient) -> Vec<&FoundFile> {
    let readable = || found.files.iter().filter(|file| is_readable(file));
    let main: Vec<&FoundFile> = readable().filter(|file| file.file.is_main).collect();
    if main.is_empty() {
        return readable().take(1).collect();
    }
    main
}

fn left_alone(error: &NotReadable) -> String {
    format!("left alone, for it cannot be read: {error}")
}

/// Collects the texts that masking replaces: the secrets.
fn gather(value: &Value, masked: &Value, secrets: &mut BTreeSet<String>) {
    match (value, masked) {
        (Value::Object(members), Value::Object(masked)) => {
            for (key, value) in members {
                if let Some(masked) = masked.get(key) {
                    gather(value, masked, secrets);
                }
            }
        }
        (Value::Array(elements), Value::Array(masked)) => {
            for (value, masked) in elements.iter().zip(masked) {
                gather(value, masked, secrets);
            }
        }
        (Value::String(text), masked) if !text.is_empty() && masked.as_str() != Some(text) => {
            secrets.insert(text.clone());
        }
        _ => {}
    }
}

/// The clients on this machine, with their files in a project.
pub fn clients(project: Option<PathBuf>) -> Vec<FoundClient> {
    import::this_machine()
        .map(|machine| client_files::find(&machine.with_project(project)))
        .unwrap_or_default()
}

/// A problem of a server's entry, with its place in the entry. The entry is in no file yet.
fn problem_words(name: &ServerName, problem: &ConfigError) -> String {
    let within = format!("{name}.");
    let place = problem.path.split_once(&within);
    let place = place.map_or_else(String::new, |(_, place)| format!("`{place}`: "));
    let hint = problem.hint.as_ref();
    let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
    format!("{place}{}{hint}", problem.message)
}
