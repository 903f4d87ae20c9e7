//! `mainstay setup`: moves the servers of all clients to Mainstay, or back.

mod backup;
mod hidden;
mod plan;
mod undo;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use mainstay_client_files::{ClientKind, DEFAULT_URL, MergeStatus, OwnEntry};
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::ask,
    stderr::complain,
};
use mainstay_core::ids::ServerName;
use mainstay_platform::{
    environment::{ConfigurationSource, Process},
    state::StateDir,
};
use serde_json::json;

use self::plan::{SetupNote, SetupPlan};
use super::{
    import,
    moved_secrets::{self, SecretsPlace, SecretsTarget},
    own_entry, probe,
    service::{self, InstallRequest},
};

const EXAMPLES: &str = "\
Examples:
  mainstay setup --dry-run        show what would be changed, and change nothing
  mainstay setup                  show it, and ask
  mainstay setup --yes            do it
  mainstay setup --undo           put every file back as it was

It reads the servers of the clients on this machine, writes them into the
configuration of Mainstay, and has the clients use Mainstay.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Setup {
    /// Do it without asking
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put every file back as it was; what others changed since stays
    #[arg(long)]
    undo: bool,
    /// With --undo: overwrite what others changed since
    #[arg(long, requires = "undo")]
    force: bool,
    /// Only this client; may be repeated
    #[arg(long, value_name = "CLIENT", conflicts_with = "undo", value_parser = import::client)]
    client: Vec<ClientKind>,
    /// Take the servers out of the files that clients have in this project as well, which others may
    /// share [default: this folder]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".", conflicts_with = "undo")]
    project: Option<PathBuf>,
    /// Connect clients by `mainstay connect`, which needs no token, or by the URL (http)
    #[arg(long, value_name = "WAY", default_value = "connect")]
    via: Via,
    /// Keep plain secrets in the configuration, or store them encrypted [default: asks, keep with --yes]
    #[arg(long, value_name = "WHAT", conflicts_with = "undo")]
    secrets: Option<SecretsPlace>,
    /// Do not install the service
    #[arg(long)]
    no_service: bool,
    /// The configuration to write to [default: the one that `mainstay serve` reads]
    #[arg(long, value_name = "FILE", conflicts_with = "undo")]
    config: Option<PathBuf>,
    /// Print the outcome as JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    Connect,
    Http,
}

impl RunCommand for Setup {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            under_way: Some("setting up"),
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let state = StateDir::locate(&Process)?;
        if self.undo {
            return self.undo(&state).await;
        }
        let origin = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        let project = self.project.as_deref().map(import::absolute).transpose()?;
        let found = plan::clients(project);
        let own_entry = self.own_entry()?;
        let is_named = |client| self.client.is_empty() || self.client.contains(&client);
        let refusals = probe::refusals(&found, is_named).await;
        let other = match origin.path() {
            Some(path) => import::other_configuration(&path).await,
            None => None,
        };
        let make_plan = |chosen: &[ClientKind]| {
            let mut plan =
                SetupPlan::for_clients(&found, &origin, &own_entry, &refusals, |client| {
                    chosen.contains(&client)
                })?;
            plan.note_all(other.iter().cloned().collect());
            if self.project.is_none() {
                plan.note_all(import::unread_here("setup"));
            }
            Ok(plan)
        };
        let mut plan = make_plan(match &*self.client {
            [] => &ClientKind::ALL,
            named => named,
        })?;
        if plan.changes.is_empty() {
            return self.report_unchanged(&plan);
        }
        let target = SecretsTarget::open()?;
        if self.secrets == Some(SecretsPlace::Store) {
            self.store_secrets(&target, &mut plan)?;
        }
        if self.dry_run {
            self.print(&plan)?;
            return self.report(&plan, None);
        }
        if !self.yes {
            plan = match self.confirm(plan, &make_plan)? {
                Some(plan) => plan,
                None => {
                    complain("nothing was changed");
                    return Ok(Exit::FAILED);
                }
            };
        }
        self.store_secrets(&target, &mut plan)?;
        let with_service = !self.no_service
            && (self.yes || answer("start Mainstay now and whenever you log in? [y/n]")? == 'y');
        let stored = target.store(&plan.stored).await?;
        let done = backup::apply(&state, &plan.changes).inspect_err(|_| target.remove(&stored))?;
        let service = if with_service {
            let request = InstallRequest {
                config: self.config.clone(),
                ..InstallRequest::default()
            };
            match service::install(&request, self.json).await {
                Ok(()) => {
                    done.with_service()?;
                    Some(true)
                }
                // There may be no service manager, or a daemon may already run.
                Err(error @ CommandError::Cannot { code, .. }) if code != "service_failed" => {
                    plan.note(format!(
                        "no service is installed: {error}; without one start Mainstay by `mainstay serve`"
                    ));
                    Some(false)
                }
                Err(error) => {
                    service::uninstall(self.json).await.ok();
                    done.back_out()?;
                    target.remove(&stored);
                    return Err(error);
                }
            }
        } else {
            None
        };
        let outcome = self.report(&plan, service);
        let new: Vec<&ServerName> = plan.new_servers().map(|server| &server.name).collect();
        let ours = plan.changes.iter().find(|change| change.client.is_none());
        if let Some(ours) = ours {
            import::reload_daemon(&new, &ours.path).await;
        }
        outcome
    }
}

impl Setup {
    /// Plans to move plain secrets into the vault, if the command line or the person says so.
    fn store_secrets(
        &self,
        target: &SecretsTarget,
        plan: &mut SetupPlan,
    ) -> Result<(), CommandError> {
        if !plan.stored.is_empty() {
            return Ok(());
        }
        let (entries, secrets) = plan.plain_secrets(target.names()?);
        let is_stored = match self.secrets {
            Some(place) => place == SecretsPlace::Store,
            None if self.yes || secrets.is_empty() => false,
            None => answer(&moved_secrets::question(&secrets))? == 'y',
        };
        if is_stored {
            plan.store(&entries, secrets)?;
        }
        Ok(())
    }

    /// Prints the plan, and asks a person to accept it, refuse it, or choose its clients.
    fn confirm(
        &self,
        mut plan: SetupPlan,
        make_plan: &dyn Fn(&[ClientKind]) -> Result<SetupPlan, CommandError>,
    ) -> Result<Option<SetupPlan>, CommandError> {
        if !io::stdin().is_terminal() || self.json {
            return Err(CommandError::Usage {
                message: "nobody can be asked: stdin is no terminal".to_owned(),
                hint: Some(
                    "`mainstay setup --dry-run` shows what would be done, --yes does it".to_owned(),
                ),
            });
        }
        let clients = plan.clients.clone();
        loop {
            self.print(&plan)?;
            print_notes(&plan);
            match answer("go on? [y]es, [n]o, [c]hoose the clients")? {
                'y' => break,
                'c' => {}
                _ => return Ok(None),
            }
            let mut chosen = Vec::new();
            for client in &clients {
                if answer(&format!("have {client} use Mainstay? [y/n]"))? == 'y' {
                    chosen.push(*client);
                }
            }
            plan = make_plan(&chosen)?;
            if plan.changes.is_empty() {
                return Ok(None);
            }
        }
        // The notes are printed already.
        plan.notes.clear();
        Ok(Some(plan))
    }

    async fn undo(&self, state: &StateDir) -> Result<Exit, CommandError> {
        let undone = undo::undo(state, self.force, self.dry_run)?;
        if undone.service && !self.dry_run {
            service::uninstall(self.json).await?;
        }
        if !self.dry_run && undone.files.iter().any(|file| file.is_configuration) {
            // The daemon drops the servers that setup added.
            import::reload_daemon(&[], Path::new("")).await;
        }
        if self.json {
            let merged = undone.files.iter().filter(|file| file.is_merged);
            let restored = undone.files.iter().filter(|file| !file.is_merged);
            output::json(&json!({
                "dryRun": self.dry_run,
                "restored": restored.map(|file| &file.path).collect::<Vec<_>>(),
                "merged": merged.map(|file| json!({"file": file.path, "kept": file.retained})).collect::<Vec<_>>(),
                "service": undone.service,
            }))?;
            return Ok(Exit::DONE);
        }
        if undone.files.is_empty() {
            complain("there is nothing to undo");
            return Ok(Exit::DONE);
        }
        for file in &undone.files {
            let path = file.path.display();
            output::line(&file.sentence(self.dry_run))?;
            if file.is_merged {
                complain(&format!(
                    "note: {path} was changed since `mainstay setup`; these changes stay"
                ));
            }
            for server in &file.retained {
                complain(&format!(
                    "note: {path}: {server} was changed since and stays as it is"
                ));
            }
        }
        Ok(Exit::DONE)
    }

    fn own_entry(&self) -> Result<OwnEntry, CommandError> {
        match self.via {
            Via::Http => Ok(OwnEntry::Http {
                url: DEFAULT_URL.to_owned(),
            }),
            Via::Connect => own_entry::connect(),
        }
    }

    fn print(&self, plan: &SetupPlan) -> Result<(), CommandError> {
        if self.json {
            return Ok(());
        }
        let rows = plan.servers.iter().map(|server| {
            let standing = match server.standing {
                MergeStatus::New => "new",
                MergeStatus::Present => "there already",
            };
            [
                server.name.to_string(),
                standing.to_owned(),
                import::client_names(server),
            ]
        });
        output::table(["SERVER", "STANDING", "FROM"], rows)?;
        for change in &plan.changes {
            output::text(&format!("\n{}", plan.difference(change).trim_end()))?;
        }
        Ok(())
    }

    fn report_unchanged(&self, plan: &SetupPlan) -> Result<Exit, CommandError> {
        if self.json {
            return self.report(plan, None);
        }
        print_notes(plan);
        output::line(if plan.clients.is_empty() {
            "no client was found whose servers Mainstay could take"
        } else {
            "nothing is to be changed: the clients use Mainstay"
        })?;
        Ok(Exit::DONE)
    }

    fn report(&self, plan: &SetupPlan, service: Option<bool>) -> Result<Exit, CommandError> {
        if self.json {
            let views = plan.servers.iter().map(|server| {
                json!({
                    "name": server.name.as_str(),
                    "new": server.standing == MergeStatus::New,
                    "from": server.sources.iter().map(|source| source.client.id()).collect::<Vec<_>>(),
                })
            });
            output::json(&json!({
                "dryRun": self.dry_run,
                "servers": views.collect::<Vec<_>>(),
                "clients": plan.clients.iter().map(|client| client.id()).collect::<Vec<_>>(),
                "changed": plan.changes.iter().map(|change| &change.path).collect::<Vec<_>>(),
                "notes": plan.notes.iter().map(SetupNote::to_string).collect::<Vec<_>>(),
                "service": service,
                "storedSecrets": plan.stored.iter().map(|secret| &secret.name).collect::<Vec<_>>(),
            }))?;
            return Ok(Exit::DONE);
        }
        print_notes(plan);
        if !plan.stored.is_empty() {
            let stored = if self.dry_run {
                "would be kept"
            } else {
                "kept"
            };
            complain(&format!(
                "note: in the vault are {stored}: {}",
                moved_secrets::names(&plan.stored)
            ));
        }
        if self.dry_run {
            complain("nothing was changed; `mainstay setup` does it");
            return Ok(Exit::DONE);
        }
        let new = plan.new_servers().count();
        let added = format!(
            "{} added to the configuration",
            output::count(new, "server")
        );
        let clients: Vec<&str> = plan.clients.iter().map(|client| client.name()).collect();
        if clients.is_empty() {
            output::text(&added)?;
            complain("`mainstay setup --undo` puts every file back");
            return Ok(Exit::DONE);
        }
        let clients = clients.join(", ");
        output::text(&format!(
            "{added}; these clients use Mainstay now: {clients}"
        ))?;
        complain("restart the clients; `mainstay setup --undo` puts every file back");
        Ok(Exit::DONE)
    }
}

fn print_notes(plan: &SetupPlan) {
    for note in &plan.notes {
        complain(&format!("note: {}", note.sentence()));
        note.block().lines().for_each(complain);
    }
}

/// Asks a question, and returns the first letter of the answer.
fn answer(question: &str) -> Result<char, CommandError> {
    ask(question);
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|source| CommandError::Read {
        path: "stdin".to_owned(),
        source,
    })?;
    let first = answer.trim().chars().next();
    Ok(first.map_or('n', |letter| letter.to_ascii_lowercase()))
}
