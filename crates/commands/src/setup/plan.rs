//! What `setup` would do: the servers that it finds, and the new text of each file. Nothing is written
//! here.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use mainstay_client_files::{
    self as client_files, Client, EditError, EntryChange, FoundClient, FoundFile, FoundServer,
    Front, LeftOut, MergeStatus, Merged, NotReadable,
};
use mainstay_command_line::CommandError;
use mainstay_config::{
    Syntax,
    edit::{self, Document},
    masking,
};
use mainstay_core::{
    config::{ConfigError, Launch},
    ids::ServerName,
};
use mainstay_platform::environment::Origin;
use serde_json::Value;
use similar::TextDiff;

use super::{
    super::{
        asked::{Refusals, plain_url},
        import, programs,
    },
    hidden::without_secrets,
};

/// A file, and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: PathBuf,
    /// The client whose file it is. `None` for our configuration.
    pub client: Option<Client>,
    /// `None` where there is no file yet.
    pub before: Option<String>,
    pub after: String,
}

/// A sentence for a person, and the servers or files that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    about: Vec<String>,
    text: String,
    /// Lines to paste into a file, as they stand.
    block: String,
}

impl Note {
    /// The sentence.
    pub fn sentence(&self) -> String {
        match &*self.about {
            [] => self.text.clone(),
            about => format!("{}: {}", about.join(", "), self.text),
        }
    }

    /// The lines to paste; empty where there are none.
    pub fn block(&self) -> &str {
        &self.block
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        if !self.block.is_empty() {
            write!(f, "\n{}", self.block)?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub struct Plan {
    /// Our configuration first, then the files of clients.
    pub changes: Vec<FileChange>,
    pub servers: Vec<Merged>,
    /// The clients that would use Mainstay.
    pub clients: Vec<Client>,
    /// What a person has to know.
    pub notes: Vec<Note>,
    /// Servers that stay with their clients.
    staying: Vec<FoundServer>,
    secrets: BTreeSet<String>,
}

impl Plan {
    /// The plan for these clients.
    pub fn of(
        found: &[FoundClient],
        origin: &Origin,
        front: &Front,
        refusals: &Refusals,
        is_chosen: impl Fn(Client) -> bool,
    ) -> Result<Self, CommandError> {
        let mut plan = Self::default();
        let chosen = found.iter().filter(|found| is_chosen(found.client));
        let reached: Vec<&FoundClient> = chosen.filter(|it| plan.is_reached(it, front)).collect();
        let mut servers = Vec::new();
        for it in reached.iter().flat_map(|found| &found.files) {
            plan.read(it, &mut servers);
        }
        let servers = plan.without_unsupported(servers, refusals);
        plan.configure(origin, &servers)?;
        for found in reached {
            plan.point(found, front);
        }
        plan.report();
        Ok(plan)
    }

    /// Adds a note that is about nothing in particular.
    pub fn note(&mut self, text: String) {
        self.note_with_block(text, String::new());
    }

    fn note_with_block(&mut self, text: String, block: String) {
        self.notes.push(Note {
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

    /// Adds a note about something. Equal notes become one.
    fn note_about(&mut self, about: String, text: String) {
        let mut known = self.notes.iter_mut();
        match known.find(|note| !note.about.is_empty() && note.text == text) {
            Some(note) if note.about.contains(&about) => {}
            Some(note) => note.about.push(about),
            None => self.notes.push(Note {
                about: vec![about],
                text,
                block: String::new(),
            }),
        }
    }

    pub fn new_servers(&self) -> impl Iterator<Item = &Merged> {
        self.servers
            .iter()
            .filter(|it| it.standing == MergeStatus::New)
    }

    /// Whether the client would have the tools of Mainstay. A client whose own list leaves Mainstay out would have none
    /// at all without its servers: nothing of it is changed.
    fn is_reached(&mut self, found: &FoundClient, front: &Front) -> bool {
        let left_out = main_files(found).into_iter().filter_map(|it| {
            let text = it.text.as_ref().ok()?;
            let pointed = client_files::point_at_mainstay(&it.file, text, front, |_| true);
            Some((it.file.path.display().to_string(), pointed.ok()?.left_out?))
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

    fn read(&mut self, it: &FoundFile, servers: &mut Vec<FoundServer>) {
        let path = it.file.path.display().to_string();
        let text = match &it.text {
            Ok(text) => text,
            Err(error) => {
                let hint = error.hint();
                return self.note_about(path, format!("left alone, for {error}; {hint}"));
            }
        };
        if let Ok(value) = client_files::value(it.file.format, text) {
            self.learn(&value);
        }
        match client_files::servers(&it.file, text) {
            Ok(read) => {
                for server in &read {
                    self.learn(&Value::Object(server.entry.clone()));
                    self.note_unread(server);
                }
                servers.extend(read);
            }
            Err(error) => self.note_about(path, left_alone(&error)),
        }
    }

    /// The servers without those that need what Mainstay has not, or refuse it. They may work for their clients, and
    /// stay there.
    fn without_unsupported(
        &mut self,
        servers: Vec<FoundServer>,
        refusals: &Refusals,
    ) -> Vec<FoundServer> {
        let refusal = |it: &FoundServer| refusals.get(plain_url(&it.entry)?);
        let stays =
            |it: &FoundServer| it.left_out.is_none() && (!it.is_movable() || refusal(it).is_some());
        let (staying, others) = servers.into_iter().partition(stays);
        self.staying = staying;
        let staying = self.staying.iter().map(|server| {
            let reasons = server
                .unsupported()
                .map(|note| format!("`{}`: {}", note.key, note.text));
            let refusal = refusal(server).map(|reason| format!("`url`: {reason}"));
            let reasons: Vec<String> = reasons.chain(refusal).collect();
            let text = format!("stays in {}, {}", server.client, reasons.join("; "));
            (server.label.clone(), text)
        });
        for (about, text) in staying.collect::<Vec<_>>() {
            self.note_about(about, text);
        }
        others
    }

    /// Says why an entry stays with its client that cannot be read.
    fn note_unread(&mut self, server: &FoundServer) {
        if let Some(LeftOut::NotUnderstood(reason)) = &server.left_out {
            let text = format!(
                "stays in {}, for its entry cannot be read: {reason}",
                server.client
            );
            self.note_about(server.label.clone(), text);
        }
    }

    /// Notes which texts of a file are secrets, so that no difference shows them.
    fn learn(&mut self, value: &Value) {
        let masked = masking::masked(value, "");
        gather(value, &masked, &mut self.secrets);
    }

    /// Our own configuration, with the servers that it has not.
    fn configure(&mut self, origin: &Origin, servers: &[FoundServer]) -> Result<(), CommandError> {
        let path = origin
            .path()
            .ok_or(mainstay_platform::state::StateError::Nowhere)?;
        let before = import::read(&path)?;
        // What cannot be used is not built upon.
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
            self.learn(&value);
        }
        self.servers = client_files::merge(servers, &document.entries());
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
        let new: BTreeSet<ServerName> = self.new_servers().map(|it| it.name.clone()).collect();
        let servers = loaded.config.servers.iter();
        for server in servers.filter(|it| it.enabled && new.contains(&it.name)) {
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

    /// A new server that cannot be started here stays where it may work.
    fn leave(&mut self, name: &ServerName, problem: &str) {
        let is_it = |it: &mut Merged| it.standing == MergeStatus::New && it.name == *name;
        let staying: Vec<Merged> = self.servers.extract_if(.., is_it).collect();
        for server in staying {
            let clients: BTreeSet<&str> =
                server.sources.iter().map(|it| it.client.name()).collect();
            let clients: Vec<&str> = clients.into_iter().collect();
            let clients = clients.join(", ");
            self.note_about(
                name.to_string(),
                format!("stays in {clients}, for Mainstay cannot start it: {problem}"),
            );
            self.staying.extend(server.sources);
        }
    }

    /// Whether Mainstay has the server instead of its client.
    fn takes(&self, server: &FoundServer) -> bool {
        !self.staying.contains(server)
    }

    /// Has a client use Mainstay in place of the servers that Mainstay now has.
    fn point(&mut self, found: &FoundClient, front: &Front) {
        let main = main_files(found);
        let mut is_pointed = false;
        for it in found.files.iter().filter(|it| is_readable(it)) {
            let Ok(text) = &it.text else { continue };
            let is_main = main.contains(&it);
            let after = if is_main {
                let pointed =
                    client_files::point_at_mainstay(&it.file, text, front, |it| self.takes(it));
                pointed.map(|pointed| pointed.text)
            } else {
                self.without_servers(it, text)
            };
            match after {
                Ok(after) => {
                    is_pointed |= is_main;
                    self.change(FileChange {
                        path: it.file.path.clone(),
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
                    let path = it.file.path.display();
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
                    self.note_about(it.file.path.display().to_string(), left_alone(&error));
                }
            }
        }
        if is_pointed {
            self.clients.push(found.client);
        }
    }

    /// A file of a client beside its main one: its servers are in our configuration now.
    fn without_servers(&self, it: &FoundFile, text: &str) -> Result<String, EditError> {
        let servers = client_files::servers(&it.file, text)?.into_iter();
        let ours = servers.filter(|server| match &server.left_out {
            None => self.takes(server),
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
        client_files::apply(&it.file, text, &changes)
    }

    fn change(&mut self, change: FileChange) {
        if change.before.as_deref() != Some(&change.after) {
            self.changes.push(change);
        }
    }

    /// What became of keys that are not wholly honoured.
    fn report(&mut self) {
        let notes = self.servers.iter().flat_map(|server| {
            let of_sources = server.sources.iter().flat_map(FoundServer::reports);
            let notes = server.notes.iter().chain(of_sources);
            notes.map(|note| {
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

    /// The difference of a file, without the secrets in it.
    pub fn difference(&self, change: &FileChange) -> String {
        // It is long, and nobody's own.
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

fn is_readable(it: &FoundFile) -> bool {
    let text = it.text.as_ref().ok();
    text.is_some_and(|text| client_files::servers(&it.file, text).is_ok())
}

/// The files into which Mainstay is put: each installation of the client has a main one.
fn main_files(found: &FoundClient) -> Vec<&FoundFile> {
    let readable = || found.files.iter().filter(|it| is_readable(it));
    let main: Vec<&FoundFile> = readable().filter(|it| it.file.is_main).collect();
    if main.is_empty() {
        return readable().take(1).collect();
    }
    main
}

fn left_alone(error: &NotReadable) -> String {
    format!("left alone, for it cannot be read: {error}")
}

/// The texts that masking changes.
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

/// A problem of a server's entry, and where in the entry. Nobody has written the entry yet.
fn problem_words(name: &ServerName, problem: &ConfigError) -> String {
    let within = format!("{name}.");
    let place = problem.path.split_once(&within);
    let place = place.map_or_else(String::new, |(_, place)| format!("`{place}`: "));
    let hint = problem.hint.as_ref();
    let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
    format!("{place}{}{hint}", problem.message)
}
