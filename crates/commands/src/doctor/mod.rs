//! `mainstay doctor`: looks for what is wrong, says why it matters and what mends it.

mod bundle;
mod clients;
mod commands;
mod configuration;
mod credentials;
mod daemon;
mod finding;
mod install;
mod machine;
mod network;
mod servers;
mod tokens;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    listen::{self, Listen},
    output,
    run_command::{CommandFacts, Guard, RunCommand},
    stderr::complain,
};
use mainstay_config::Environment as _;
use mainstay_core::failure::with_causes;
use mainstay_platform::{
    environment::{LoadError, Loaded, Origin, Process},
    state::StateDir,
};

use self::{
    bundle::Material,
    credentials::Credentials,
    finding::{Finding, Level},
    servers::Asked,
};

const EXAMPLES: &str = "\
Examples:
  mainstay doctor
  mainstay doctor --fix                   mend what can be mended safely
  mainstay doctor --bundle report.json    a report for an issue, without secrets
  mainstay doctor --no-start              start no server

The exit code is 1 if there is an error.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// The configuration [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Mend what can be mended safely: permissions, left files, missing folders
    #[arg(long)]
    fix: bool,
    /// Write a report for an issue to this file, as JSON without secrets
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Start no server; without a daemon the servers are not examined
    #[arg(long)]
    no_start: bool,
    /// How long each server may take to start
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Where the daemon is to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420", value_parser = listen::address)]
    listen: Listen,
    /// Print the findings as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

impl RunCommand for Doctor {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            is_quiet: true,
            guard: Guard::Always,
            under_way: Some("looking at everything"),
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let origin = Origin {
            flag: self.config.clone(),
            ..Origin::default()
        };
        let (path, text) = (origin.path(), origin.text().ok().flatten());
        let loaded = origin.load();
        let state = StateDir::locate(&Process);

        let mut findings = configuration::check(&loaded, path.as_deref(), text.as_deref());
        findings.extend(machine::state(&state));
        if self.fix {
            // Before the daemon is looked for: a directory with wrong permissions is not believed.
            findings.iter_mut().for_each(Finding::apply_fix);
        }
        let state = state.ok();
        let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
        findings.extend(state.as_ref().and_then(machine::disk));
        findings.push(machine::files(config));
        if let Some(config) = config {
            findings.extend(commands::check(config, path.as_deref()).await);
            findings.extend(tokens::of_servers(config, path.as_deref()));
            findings.extend(network::unused_proxies(config, |name| Process.var(name)));
        }
        let (client, found) = daemon::find(state.as_ref(), self.listen).await;
        findings.extend(found);
        findings.extend(tokens::of_clients(client.as_ref(), state.as_ref()).await);
        findings.extend(machine::clock(config, !self.no_start).await);
        findings.extend(clients::check());
        let credentials = Credentials::of(path.as_deref(), text.as_deref());
        let asked = match &client {
            Some(client) => servers::ask(client, &credentials).await,
            None => self.start(host, &loaded, &credentials).await,
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error @ CommandError::Interrupted { .. }) => return Err(error),
            Err(error) => {
                let finding = Finding::error("server.unknown", with_causes(&error));
                findings.push(
                    finding
                        .why("the servers could not be examined")
                        .mend("mainstay list  # shows what the daemon knows of them"),
                );
                Asked::default()
            }
        };
        let news = asked.findings.into_iter();
        let news: Vec<_> = news.filter(|it| !is_known(it, &findings)).collect();
        findings.extend(news);

        if let Some(file) = &self.bundle {
            let material = Material {
                findings: &findings,
                config,
                path: path.as_deref(),
                text: text.as_deref(),
                state: state.as_ref(),
                client: client.as_ref(),
                servers: &asked.servers,
            };
            bundle::write(file, &material).await?;
            complain(&format!(
                "the report is {}; look through it before you pass it on",
                file.display()
            ));
        }
        self.tell(&findings)
    }
}

impl Doctor {
    async fn start(
        &self,
        host: &dyn Host,
        loaded: &Result<Loaded, LoadError>,
        credentials: &Credentials<'_>,
    ) -> Result<Asked, CommandError> {
        let Ok(loaded) = loaded else {
            return Ok(Asked::default());
        };
        let servers = &loaded.config.servers;
        let count = servers.iter().filter(|server| server.enabled).count();
        if self.no_start || count == 0 {
            return Ok(Asked::default());
        }
        if !self.json {
            complain(&format!(
                "starting {} to examine them",
                output::count(count, "server")
            ));
        }
        servers::start(host, loaded, Duration::from_secs(self.timeout), credentials).await
    }

    fn tell(&self, findings: &[Finding]) -> Result<Exit, CommandError> {
        let open = findings.iter().filter(|finding| finding.is_open());
        let of = |level| {
            open.clone()
                .filter(|finding| finding.level == level)
                .count()
        };
        let [errors, warnings, notes] = [Level::Error, Level::Warning, Level::Note].map(of);
        if self.json {
            output::json(&findings)?;
        } else {
            let shown: Vec<String> = findings.iter().map(Finding::shown).collect();
            output::text(&shown.join("\n"))?;
            let fixed = findings
                .iter()
                .filter(|finding| finding.fixed.is_some())
                .count();
            let mut counts = vec![
                output::count(errors, "error"),
                output::count(warnings, "warning"),
                output::count(notes, "note"),
            ];
            if fixed > 0 {
                counts.push(format!("{fixed} fixed"));
            }
            output::text(&format!("\n{}", counts.join(", ")))?;
            let can_fix = open.clone().any(|finding| finding.fix.is_some());
            if can_fix {
                complain("  hint: `mainstay doctor --fix` mends what needs no decision");
            }
        }
        Ok(if errors == 0 {
            Exit::DONE
        } else {
            Exit::FAILED
        })
    }
}

/// Whether a server is down for a reason that was found before.
fn is_known(down: &Finding, findings: &[Finding]) -> bool {
    if down.id != "server.down" {
        return false;
    }
    let mut of_server = findings.iter().filter(|it| it.server == down.server);
    of_server.any(|it| match it.id {
        "config.entry" => true,
        "command.missing" => down.what.contains("command not found"),
        _ => false,
    })
}
