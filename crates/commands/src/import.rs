//! `mainstay import`: copies servers from the files of other MCP clients to the configuration.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use mainstay_client_files::{
    ClientFile, ClientKind, FoundFile, FoundServer, ImportNote, LeftOut, Machine, MergeStatus,
    Merged, ProjectFile, UnknownClient, find, find_in_project, find_replaced, merge, read_file,
    servers, with_choices,
};
use mainstay_command_line::{
    CommandError, Exit, connect,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::complain,
};
use mainstay_config::{
    Syntax,
    edit::{self, Document, Entry},
    masking,
};
use mainstay_core::{config::Launch, display::word, ids::ServerName};
use mainstay_gateway::reload::{FileChange, change_file, create_file};
use mainstay_platform::{
    environment::{ConfigurationSource, Loaded, Process},
    files,
    state::{DaemonFile, StateDir},
};
use serde_json::{Value, json};

use super::{
    moved_secrets::{self, MovedSecret, SecretsPlace, SecretsTarget},
    probe::{self, ProbeRefusal},
    programs,
};

const EXAMPLES: &str = "\
Examples:
  mainstay import --dry-run                      what would be imported
  mainstay import                                import it
  mainstay import --from cursor                  from one client
  mainstay import --from ./team/.mcp.json        from a file
  mainstay import --project                      from this project's files, too

Clients: claude-desktop, claude-code, cursor, vscode, vscode-insiders, codex,
gemini-cli, windsurf, zed, cline, roo, opencode, goose, continue, librechat,
amazon-q, jetbrains, lm-studio, warp, kiro, copilot-cli, antigravity,
qwen-code, kilo, kilo-cli, crush, trae.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// Import from this client or file only; may be repeated [default: all clients found]
    #[arg(long, value_name = "CLIENT|FILE")]
    from: Vec<String>,
    /// Read the files that clients have in this project as well [default: this folder]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Keep plain secrets in the configuration, or store them encrypted [default: asks on a terminal, else keep]
    #[arg(long, value_name = "WHAT", hide_possible_values = false)]
    secrets: Option<SecretsPlace>,
    /// The configuration to write [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the plan as JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

/// A client's file and its servers, or the reason why the file cannot be read.
struct ImportSource {
    file: ClientFile,
    servers: Result<Vec<FoundServer>, String>,
}

impl ImportSource {
    fn read(found: FoundFile) -> Self {
        let FoundFile { file, text } = found;
        let servers = match text {
            Ok(text) => servers(&file, &text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        Self { file, servers }
    }
}

impl RunCommand for Import {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let origin = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        let path = origin.path().ok_or_else(|| no_home("the configuration"))?;
        let text = match origin.text() {
            // `--config` may name a file that does not exist yet. This command creates the file.
            Err(_) if !path.exists() => None,
            text => text?,
        };
        let text = text.unwrap_or_else(|| edit::NEW.to_owned());
        let document = Document::read(&text, Syntax::of_path(&path))
            .map_err(|error| unusable(&path, &error))?;
        let sources = self.sources()?;
        let all: Vec<FoundServer> = sources
            .iter()
            .filter_map(|source| source.servers.as_ref().ok())
            .flatten()
            .cloned()
            .collect();
        let present = moved_secrets::with_values(document.entries());
        let merged = merge(&all, &present);
        let mut new: Vec<(ServerName, Entry)> = merged
            .iter()
            .filter(|server| server.standing == MergeStatus::New)
            .map(|server| (server.name.clone(), server.entry.clone()))
            .collect();
        let before = document.value().map_err(|error| unusable(&path, &error))?;
        for (name, entry) in &new {
            document
                .put(name, entry)
                .map_err(|error| unusable(&path, &error))?;
        }
        let applied = !self.dry_run && !new.is_empty();
        let mut findings = obstacles(&origin, &document.to_string(), &new).await;
        let target = SecretsTarget::open()?;
        let secrets = self.move_secrets(&target, &mut new).await?;
        for (name, entry) in &new {
            document
                .put(name, entry)
                .map_err(|error| unusable(&path, &error))?;
        }
        let after = document.value().map_err(|error| unusable(&path, &error))?;
        if applied {
            if !path.exists() {
                // `--config` names a file that does not exist yet.
                create_file(&path)?;
            }
            let stored = target.store(&secrets).await?;
            let changed = change_file(&origin, FileChange::Import(new.clone()));
            let loaded = changed.inspect_err(|_| target.remove(&stored))?;
            let names: Vec<&ServerName> = new.iter().map(|(name, _)| name).collect();
            let all_problems = loaded.config.problems();
            let new_problems = all_problems.filter(|(name, _)| names.contains(name));
            findings
                .extend(new_problems.map(|(_, problem)| problem.at(path.display()).to_string()));
        }
        if self.json {
            let mut plan = report(&path, applied, &sources, &merged, &findings);
            let names: Vec<&str> = secrets.iter().map(|secret| secret.name.as_str()).collect();
            plan["storedSecrets"] = names.into();
            output::json(&plan)?;
        } else {
            print_plan(&path, &sources, &merged, &difference(&before, &after))?;
            for finding in &findings {
                complain(&format!("warning: {finding}"));
            }
            if self.from.is_empty() && self.project.is_none() {
                for note in unread_here("import") {
                    complain(&format!("note: {note}"));
                }
            }
            if !secrets.is_empty() {
                let stored = if applied { "kept" } else { "would be kept" };
                complain(&format!(
                    "note: in the vault are {stored}: {}",
                    moved_secrets::names(&secrets)
                ));
            }
            let count = output::count(new.len(), "server");
            output::line(&match (new.is_empty(), self.dry_run) {
                (true, _) if merged.is_empty() => {
                    "nothing to import: no server was found that could be taken".to_owned()
                }
                (true, _) => format!("nothing to import: {} has all of them", path.display()),
                (false, true) => format!(
                    "{count} would be added to {}; nothing was written",
                    path.display()
                ),
                (false, false) => format!("{count} added to {}", path.display()),
            })?;
        }
        if applied {
            let names: Vec<&ServerName> = new.iter().map(|(name, _)| name).collect();
            reload_daemon(&names, &path).await;
        }
        Ok(Exit::DONE)
    }
}

impl Import {
    /// Replaces plain secrets in the new entries by references, if the command line or the person agrees.
    async fn move_secrets(
        &self,
        target: &SecretsTarget,
        new: &mut Vec<(ServerName, Entry)>,
    ) -> Result<Vec<MovedSecret>, CommandError> {
        let mut used = target.names()?;
        let (mut replaced, mut secrets) = (Vec::new(), Vec::new());
        for (name, entry) in &*new {
            let (entry, of_entry) = moved_secrets::moved(name, entry, &mut used);
            replaced.push((name.clone(), entry));
            secrets.extend(of_entry);
        }
        let may_ask = !self.dry_run && !self.json;
        match moved_secrets::choice(self.secrets, &secrets, may_ask).await? {
            SecretsPlace::Keep => Ok(Vec::new()),
            SecretsPlace::Store => {
                *new = replaced;
                Ok(secrets)
            }
        }
    }

    /// Reads the files to import from.
    fn sources(&self) -> Result<Vec<ImportSource>, CommandError> {
        let project = self.project.as_deref().map(absolute).transpose()?;
        let machine = this_machine().ok_or_else(|| no_home("the files of clients"))?;
        let machine = machine.with_project(project);
        let mut sources = Vec::new();
        if self.from.is_empty() {
            let found = find(&machine).into_iter().flat_map(|found| found.files);
            let found = found.chain(find_replaced(&machine));
            sources.extend(found.map(ImportSource::read));
            for source in &sources {
                if let (Err(reason), false) = (&source.servers, self.json) {
                    let path = source.file.path.display();
                    complain(&format!(
                        "warning: {} ({path}) is left out: {reason}",
                        source.file.client
                    ));
                }
            }
        }
        for from in &self.from {
            let named = Path::new(from);
            match from.parse::<ClientKind>() {
                Ok(client) if !named.is_file() => {
                    sources.extend(read_files_of_client(client, &machine)?);
                }
                Err(_) if !named.exists() && !from.contains(['/', '\\', '.']) => {
                    return Err(unknown(from));
                }
                _ => sources.push(read_file_at(&absolute(named)?, &machine)?),
            }
        }
        Ok(sources)
    }
}

/// This machine, with the address of its daemon. An entry with that address belongs to Mainstay itself.
pub(super) fn this_machine() -> Option<Machine> {
    // Without a usable state directory the daemon is unknown.
    let daemon = StateDir::locate(&Process).and_then(|state| state.daemon());
    let daemon = daemon.ok().flatten();
    let url = daemon.as_ref().map(DaemonFile::client_url);
    Some(Machine::from_environment(&Process)?.with_daemon(url))
}

/// Reasons why new servers with valid entries cannot start on this machine, one sentence each. `text` is the
/// configuration with the new servers.
async fn obstacles(
    origin: &ConfigurationSource,
    text: &str,
    new: &[(ServerName, Entry)],
) -> Vec<String> {
    let servers = match origin.parse(Some(text)) {
        Ok(loaded) => loaded.config.servers,
        // Ignore the error. Writing the file reports it.
        Err(_) => Vec::new(),
    };
    let refusals = probe::refusals_of(new.iter().map(|(_, entry)| entry)).await;
    let found = new.iter().filter_map(|(name, entry)| {
        let server = servers
            .iter()
            .find(|server| server.enabled && server.name == *name)?;
        let obstacle = match &server.launch {
            Launch::Stdio(launch) => programs::obstacle(launch)?,
            Launch::Http(_) => match refusals.get(probe::plain_url(entry)?)? {
                ProbeRefusal::NeedsLogin => {
                    return Some(format!(
                        "{name} needs a login: `mainstay auth login {name}`"
                    ));
                }
                ProbeRefusal::Refused(reason) => format!("`url`: {reason}"),
            },
            Launch::Broken(_) | Launch::Unapproved => return None,
        };
        Some(format!("{name} cannot start here: {obstacle}"))
    });
    found.collect()
}

/// A sentence about a running daemon that reads another configuration, with the command to run.
pub(super) async fn other_configuration(path: &Path) -> Option<String> {
    let about = connect::running(None).ok()?.about().await.ok()?;
    let read = about.configuration.path?;
    let same = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (path, read) = (absolute(path).ok()?, PathBuf::from(read));
    (same(&path) != same(&read)).then(|| {
        format!(
            "the daemon that runs reads {}, and the servers would go into {}: `mainstay setup --config {}` puts them where it reads them",
            read.display(),
            path.display(),
            word(&read.display().to_string())
        )
    })
}

/// Adds warnings about restrictions in a client's file, if this file is the configuration.
pub fn warn_of_unread_rules(loaded: &mut Loaded) {
    if let Some(machine) = this_machine() {
        mainstay_client_files::warn_of_unread_rules(loaded, &machine);
    }
}

/// A sentence about each client's file in the project of the current folder. These files are read only on
/// request, because a cloned repository must not be able to start commands.
pub(super) fn unread_here(command: &str) -> Vec<String> {
    let here = env::current_dir().ok();
    let Some(machine) = this_machine().filter(|_| here.is_some()) else {
        return Vec::new();
    };
    let found = find_in_project(&machine.with_project(here)).into_iter();
    let note = |found: ProjectFile| {
        format!(
            "{} of {} has servers of this project, which are left alone: {}; `mainstay {command} --project` takes them, too",
            found.file.path.display(),
            found.file.client,
            found.labels.join(", ")
        )
    };
    found.map(note).collect()
}

/// Reads the files of one client. An unreadable file is an error, because the command line names the client.
fn read_files_of_client(
    client: ClientKind,
    machine: &Machine,
) -> Result<Vec<ImportSource>, CommandError> {
    let files = mainstay_client_files::files_of(client, machine);
    let main = files.first().map(|file| file.path.display().to_string());
    let sources: Vec<ImportSource> = files
        .into_iter()
        .map(|file| with_choices(file, machine))
        .filter_map(read_file)
        .map(ImportSource::read)
        .collect();
    if sources.is_empty() {
        return Err(CommandError::NotFound {
            subject: format!("a file of {client}"),
            hint: format!(
                "it would be {}; name another with --from FILE",
                main.unwrap_or_default()
            ),
        });
    }
    for source in &sources {
        if let Err(reason) = &source.servers {
            return Err(unreadable(&source.file.path, reason));
        }
    }
    Ok(sources)
}

fn read_file_at(path: &Path, machine: &Machine) -> Result<ImportSource, CommandError> {
    let text = files::configuration(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let file = ClientFile::recognize(path, &text, machine);
    let file = file.ok_or_else(|| unrecognized(path, &text, machine))?;
    let file = with_choices(file, machine);
    let source = ImportSource::read(FoundFile {
        file,
        text: Ok(text),
    });
    match &source.servers {
        Err(reason) => Err(unreadable(path, reason)),
        Ok(_) => Ok(source),
    }
}

fn unreadable(path: &Path, reason: &str) -> CommandError {
    CommandError::Usage {
        message: format!("cannot read {}: {reason}", path.display()),
        hint: Some("correct it, or name another file with --from FILE".to_owned()),
    }
}

/// The error about a file whose client is unknown, because the file is broken or has no servers.
fn unrecognized(path: &Path, text: &str, machine: &Machine) -> CommandError {
    // The file's extension decides its format.
    let file = ClientFile::of_client(ClientKind::Unknown, path, machine);
    match mainstay_client_files::value(file.format, text) {
        Err(reason) => unreadable(path, &reason.to_string()),
        Ok(_) => CommandError::Usage {
            message: format!("{} is no file of a client that is known", path.display()),
            hint: Some(
                "its servers stand in `mcpServers`, `servers`, `mcp_servers` or the like; see \
                 docs/cli.md"
                    .to_owned(),
            ),
        },
    }
}

pub(super) fn unusable(path: &Path, error: &edit::EditError) -> CommandError {
    CommandError::Usage {
        message: format!("{}: {error}", path.display()),
        hint: Some(format!(
            "mainstay validate {}",
            word(&path.display().to_string())
        )),
    }
}

pub(super) fn no_home(missing: &str) -> CommandError {
    CommandError::Usage {
        message: format!("there is no place for {missing}: no home folder is known"),
        hint: Some("set HOME".to_owned()),
    }
}

/// The text of a file, or `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, CommandError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CommandError::Read {
            path: path.display().to_string(),
            source,
        }),
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|source| CommandError::Read {
        path: path.display().to_string(),
        source,
    })
}

/// Parses the name of a client. The error suggests a similar name.
pub(super) fn client(name: &str) -> Result<ClientKind, String> {
    name.parse()
        .map_err(|error: UnknownClient| match nearest(name) {
            Some(id) => format!("{error}; did you mean {id}?"),
            None => error.to_string(),
        })
}

fn nearest(client: &str) -> Option<&'static str> {
    let ids = ClientKind::ALL.map(ClientKind::id).into_iter();
    let likeness = ids.map(|id| (strsim::jaro_winkler(id, client), id));
    let (likeness, id) = likeness.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness > 0.8).then_some(id)
}

pub(super) fn unknown(client: &str) -> CommandError {
    CommandError::Usage {
        message: format!("{client:?} is neither a client that is known nor a file"),
        hint: Some(match nearest(client) {
            Some(id) => format!("did you mean {id}?"),
            None => format!(
                "known are {}",
                ClientKind::ALL.map(ClientKind::id).join(", ")
            ),
        }),
    }
}

/// Makes a running daemon read its configuration, and warns if it reads another one.
pub(super) async fn reload_daemon(new: &[&ServerName], path: &Path) {
    let Ok(client) = connect::running(None) else {
        return;
    };
    let listed = match client.reload(false).await {
        Ok(_) => client.servers().await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(listed) => {
            let names: Vec<&str> = listed
                .servers
                .iter()
                .map(|server| server.name.as_str())
                .collect();
            if !new.iter().all(|name| names.contains(&name.as_str())) {
                complain(&format!(
                    "warning: the running daemon does not read {}; name its own file with --config",
                    path.display()
                ));
            }
        }
        Err(error) => complain(&format!(
            "warning: the running daemon has not taken them: {error}"
        )),
    }
}

/// The changed lines of the configuration, and the lines around them. Secrets are masked.
fn difference(before: &Value, after: &Value) -> Vec<String> {
    const AROUND: usize = 2;
    let lines = |value: &Value| -> Vec<String> {
        let text = format!("{:#}", masking::masked(value, ""));
        text.lines().map(str::to_owned).collect()
    };
    let (old, new) = (lines(before), lines(after));
    let first = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let room = old.len().min(new.len()) - first;
    let ends = old.iter().rev().zip(new.iter().rev()).take(room);
    let last = ends.take_while(|(old, new)| old == new).count();
    if first == old.len() && first == new.len() {
        return Vec::new();
    }
    let mut rendered = Vec::new();
    let start = first.saturating_sub(AROUND);
    rendered.extend(old[start..first].iter().map(|line| format!("  {line}")));
    rendered.extend(
        old[first..old.len() - last]
            .iter()
            .map(|line| format!("- {line}")),
    );
    rendered.extend(
        new[first..new.len() - last]
            .iter()
            .map(|line| format!("+ {line}")),
    );
    let tail = &new[new.len() - last..];
    rendered.extend(tail.iter().take(AROUND).map(|line| format!("  {line}")));
    rendered
}

fn print_plan(
    path: &Path,
    sources: &[ImportSource],
    merged: &[Merged],
    difference: &[String],
) -> Result<(), CommandError> {
    for source in sources {
        if let Ok(servers) = &source.servers {
            let count = output::count(servers.len(), "server");
            output::sentence(&format!(
                "{}: {count} in {}",
                source.file.client,
                source.file.path.display()
            ))?;
        }
    }
    if !difference.is_empty() {
        output::line(&format!("changes of {}:", path.display()))?;
        for line in difference {
            output::line(line)?;
        }
    }
    for server in merged {
        if server.standing == MergeStatus::Present {
            let from = client_names(server);
            output::sentence(&format!("{}: is there already (from {from})", server.name))?;
            continue;
        }
        if server.sources.len() > 1 {
            output::sentence(&format!(
                "{}: the same in {}",
                server.name,
                client_names(server)
            ))?;
        }
        for note in all_notes(server) {
            output::sentence(&format!(
                "note: {}: {}: {}",
                server.name, note.key, note.text
            ))?;
        }
    }
    for (server, reason) in left_out(sources) {
        let label = match &*server.label {
            "" => "an entry without a name".to_owned(),
            label => word(label),
        };
        output::sentence(&format!("left out: {label} of {}: {reason}", server.client))?;
    }
    Ok(())
}

/// The clients that have this server. Adds the client's name for the server if it differs.
pub(super) fn client_names(server: &Merged) -> String {
    let name = |source: &FoundServer| {
        if source.label == server.name.as_str() {
            source.client.to_string()
        } else {
            format!("{} as {}", source.client, source.label)
        }
    };
    let mut names: Vec<String> = server.sources.iter().map(name).collect();
    names.dedup();
    names.join(", ")
}

/// The notes about a server, and the reports of its first source.
fn all_notes(server: &Merged) -> impl Iterator<Item = &ImportNote> {
    let reports = server.sources.iter().take(1).flat_map(FoundServer::reports);
    server.notes.iter().chain(reports)
}

fn left_out(sources: &[ImportSource]) -> impl Iterator<Item = (&FoundServer, &LeftOut)> {
    let servers = sources
        .iter()
        .filter_map(|source| source.servers.as_ref().ok())
        .flatten();
    servers.filter_map(|server| Some((server, server.left_out.as_ref()?)))
}

fn report(
    path: &Path,
    applied: bool,
    sources: &[ImportSource],
    merged: &[Merged],
    findings: &[String],
) -> Value {
    let note = |note: &ImportNote| json!({"key": note.key, "text": note.text});
    json!({
        "applied": applied,
        "file": path,
        "clients": sources.iter().map(|source| json!({
            "client": source.file.client.id(),
            "file": source.file.path,
            "servers": source.servers.as_ref().map_or(0, Vec::len),
            "error": source.servers.as_ref().err(),
        })).collect::<Vec<_>>(),
        "servers": merged.iter().map(|server| json!({
            "name": server.name.as_str(),
            "new": server.standing == MergeStatus::New,
            "from": server.sources.iter().map(|source| json!({
                "client": source.client.id(),
                "file": source.file,
                "name": source.label,
                "notes": source.notes.iter().filter(|note| !note.text.is_empty()).map(note).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "entry": masking::masked_entry(&server.entry, &format!("/mcpServers/{}", server.name)),
            "notes": server.notes.iter().map(note).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "leftOut": left_out(sources).map(|(server, reason)| json!({
            "client": server.client.id(),
            "file": server.file,
            "name": server.label,
            "reason": reason.to_string(),
        })).collect::<Vec<_>>(),
        "problems": findings,
    })
}
