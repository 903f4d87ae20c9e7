//! `mainstay import`: takes servers from the files of other MCP clients into the configuration.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use mainstay_client_files::{
    Client, ClientFile, FoundFile, FoundServer, ImportNote, LeftOut, Machine, MergeStatus, Merged,
    ProjectFile, UnknownClient, find, find_in_project, find_replaced, merge, read_file, servers,
    with_choices,
};
use mainstay_command_line::{CommandError, Exit, connect, output, screen::complain};
use mainstay_config::{
    Syntax,
    edit::{self, Document, Entry},
    masking,
};
use mainstay_core::{config::Launch, display::word, ids::ServerName};
use mainstay_gateway::reload::{Change, change_file, create_file};
use mainstay_platform::{
    environment::{Loaded, Origin, Process},
    files,
    state::StateDir,
};
use serde_json::{Value, json};

use super::{asked, programs};

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
    /// The configuration to write [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the plan as JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

/// A file that was read, or why it could not be.
struct Source {
    file: ClientFile,
    servers: Result<Vec<FoundServer>, String>,
}

impl Source {
    fn of(found: FoundFile) -> Self {
        let FoundFile { file, text } = found;
        let servers = match text {
            Ok(text) => servers(&file, &text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        Self { file, servers }
    }
}

impl Import {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let origin = Origin {
            flag: self.config.clone(),
            ..Origin::default()
        };
        let path = origin.path().ok_or_else(|| no_home("the configuration"))?;
        let text = match origin.text() {
            // A file that is named and not there is made.
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
        let merged = merge(&all, &document.entries());
        let new: Vec<(ServerName, Entry)> = merged
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
        let after = document.value().map_err(|error| unusable(&path, &error))?;
        let applied = !self.dry_run && !new.is_empty();
        let mut findings = obstacles(&origin, &document.to_string(), &new).await;
        if applied {
            if !path.exists() {
                // `--config` names a file that is to be made.
                create_file(&path)?;
            }
            let loaded = change_file(&origin, Change::Import(new.clone()))?;
            let names: Vec<&ServerName> = new.iter().map(|(name, _)| name).collect();
            let problems = loaded.config.problems();
            let problems = problems.filter(|(name, _)| names.contains(name));
            findings.extend(problems.map(|(_, problem)| problem.at(path.display()).to_string()));
        }
        if self.json {
            output::json(&report(&path, applied, &sources, &merged, &findings))?;
        } else {
            tell(&path, &sources, &merged, &difference(&before, &after))?;
            for finding in &findings {
                complain(&format!("warning: {finding}"));
            }
            if self.from.is_empty() && self.project.is_none() {
                for note in unread_here("import") {
                    complain(&format!("note: {note}"));
                }
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
            hand_over(&names, &path).await;
        }
        Ok(Exit::DONE)
    }

    /// The files to import from, read.
    fn sources(&self) -> Result<Vec<Source>, CommandError> {
        let project = self.project.as_deref().map(absolute).transpose()?;
        let machine = this_machine().ok_or_else(|| no_home("the files of clients"))?;
        let machine = machine.with_project(project);
        let mut sources = Vec::new();
        if self.from.is_empty() {
            let found = find(&machine).into_iter().flat_map(|found| found.files);
            let found = found.chain(find_replaced(&machine));
            sources.extend(found.map(Source::of));
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
            match from.parse::<Client>() {
                Ok(client) if !named.is_file() => sources.extend(of_client(client, &machine)?),
                Err(_) if !named.exists() && !from.contains(['/', '\\', '.']) => {
                    return Err(unknown(from));
                }
                _ => sources.push(of_file(&absolute(named)?, &machine)?),
            }
        }
        Ok(sources)
    }
}

/// This machine, with the address of the daemon that runs here: what leads there is Mainstay itself.
pub(super) fn this_machine() -> Option<Machine> {
    // Without a state directory, or with one that cannot be used, no daemon is known.
    let daemon = StateDir::locate(&Process).and_then(|state| state.daemon());
    let daemon = daemon.ok().flatten();
    let url = daemon.as_ref().map(|daemon| daemon.url.as_str());
    Some(Machine::from_environment(&Process)?.with_daemon(url))
}

/// Why new servers would not start here, though their entries are right: a sentence for each. `text` is the
/// configuration with them.
async fn obstacles(origin: &Origin, text: &str, new: &[(ServerName, Entry)]) -> Vec<String> {
    let servers = match origin.parse(Some(text)) {
        Ok(loaded) => loaded.config.servers,
        // It is told when the file is written.
        Err(_) => Vec::new(),
    };
    let refusals = asked::refusals_of(new.iter().map(|(_, entry)| entry)).await;
    let found = new.iter().filter_map(|(name, entry)| {
        let mut servers = servers.iter();
        let server = servers.find(|it| it.enabled && it.name == *name)?;
        let obstacle = match &server.launch {
            Launch::Stdio(launch) => programs::obstacle(launch)?,
            Launch::Http(_) => format!("`url`: {}", refusals.get(asked::plain_url(entry)?)?),
            Launch::Broken(_) | Launch::Unapproved => return None,
        };
        Some(format!("{name} cannot start here: {obstacle}"))
    });
    found.collect()
}

/// Says that the daemon that runs reads another configuration than this one, and how to go on.
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

/// Adds warnings of what a client restricts in its file, where this file is the configuration.
pub fn warn_of_unread_rules(loaded: &mut Loaded) {
    if let Some(machine) = this_machine() {
        mainstay_client_files::warn_of_unread_rules(loaded, &machine);
    }
}

/// What clients have in the project in this folder, a sentence for each file. It is not taken unasked: a
/// cloned repository must not be able to start commands.
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

/// The files of one client. What cannot be read is an error, for the client was asked for.
fn of_client(client: Client, machine: &Machine) -> Result<Vec<Source>, CommandError> {
    let files = mainstay_client_files::files_of(client, machine);
    let main = files.first().map(|file| file.path.display().to_string());
    let sources: Vec<Source> = files
        .into_iter()
        .map(|file| with_choices(file, machine))
        .filter_map(read_file)
        .map(Source::of)
        .collect();
    if sources.is_empty() {
        return Err(CommandError::NotFound {
            what: format!("a file of {client}"),
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

fn of_file(path: &Path, machine: &Machine) -> Result<Source, CommandError> {
    let text = files::configuration(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let file = ClientFile::recognize(path, &text, machine);
    let file = file.ok_or_else(|| unrecognized(path, &text, machine))?;
    let file = with_choices(file, machine);
    let source = Source::of(FoundFile {
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

/// Nothing tells whose file it is, because it is broken, or because it has no servers.
fn unrecognized(path: &Path, text: &str, machine: &Machine) -> CommandError {
    // By its ending alone.
    let file = ClientFile::of_client(Client::Unknown, path, machine);
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

pub(super) fn no_home(what: &str) -> CommandError {
    CommandError::Usage {
        message: format!("there is no place for {what}: no home folder is known"),
        hint: Some("set HOME".to_owned()),
    }
}

/// The text of a file, if there is one.
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

/// The client of this name on a command line.
pub(super) fn client(name: &str) -> Result<Client, String> {
    name.parse()
        .map_err(|error: UnknownClient| match nearest(name) {
            Some(id) => format!("{error}; did you mean {id}?"),
            None => error.to_string(),
        })
}

fn nearest(client: &str) -> Option<&'static str> {
    let ids = Client::ALL.map(Client::id).into_iter();
    let likeness = ids.map(|id| (strsim::jaro_winkler(id, client), id));
    let (likeness, id) = likeness.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness > 0.8).then_some(id)
}

pub(super) fn unknown(client: &str) -> CommandError {
    CommandError::Usage {
        message: format!("{client:?} is neither a client that is known nor a file"),
        hint: Some(match nearest(client) {
            Some(id) => format!("did you mean {id}?"),
            None => format!("known are {}", Client::ALL.map(Client::id).join(", ")),
        }),
    }
}

/// Has a running daemon read its configuration, and says so where it reads another one.
pub(super) async fn hand_over(new: &[&ServerName], path: &Path) {
    let Ok(client) = connect::running(None) else {
        return;
    };
    let known = match client.reload(false).await {
        Ok(_) => client.servers().await,
        Err(error) => Err(error),
    };
    match known {
        Ok(known) => {
            let known: Vec<&str> = known.servers.iter().map(|it| it.name.as_str()).collect();
            if !new.iter().all(|name| known.contains(&name.as_str())) {
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

/// The changed lines of the configuration, with a few around them. Secrets are masked.
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
    let mut shown = Vec::new();
    let start = first.saturating_sub(AROUND);
    shown.extend(old[start..first].iter().map(|line| format!("  {line}")));
    shown.extend(
        old[first..old.len() - last]
            .iter()
            .map(|line| format!("- {line}")),
    );
    shown.extend(
        new[first..new.len() - last]
            .iter()
            .map(|line| format!("+ {line}")),
    );
    let tail = &new[new.len() - last..];
    shown.extend(tail.iter().take(AROUND).map(|line| format!("  {line}")));
    shown
}

fn tell(
    path: &Path,
    sources: &[Source],
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
            let from = clients_of(server);
            output::sentence(&format!("{}: is there already (from {from})", server.name))?;
            continue;
        }
        if server.sources.len() > 1 {
            output::sentence(&format!(
                "{}: the same in {}",
                server.name,
                clients_of(server)
            ))?;
        }
        for note in notes_of(server) {
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

/// The clients that have this server, with the name that it has there if that is another.
pub(super) fn clients_of(server: &Merged) -> String {
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

/// What a person has to know of a server.
fn notes_of(server: &Merged) -> impl Iterator<Item = &ImportNote> {
    let reports = server.sources.iter().take(1).flat_map(FoundServer::reports);
    server.notes.iter().chain(reports)
}

fn left_out(sources: &[Source]) -> impl Iterator<Item = (&FoundServer, &LeftOut)> {
    let servers = sources
        .iter()
        .filter_map(|source| source.servers.as_ref().ok());
    let servers = servers.flatten();
    servers.filter_map(|server| Some((server, server.left_out.as_ref()?)))
}

fn report(
    path: &Path,
    applied: bool,
    sources: &[Source],
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
            "from": server.sources.iter().map(|it| json!({
                "client": it.client.id(),
                "file": it.file,
                "name": it.label,
                "notes": it.notes.iter().filter(|it| !it.text.is_empty()).map(note).collect::<Vec<_>>(),
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
