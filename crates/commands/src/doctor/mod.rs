//! `mainstay doctor`: looks for problems. Prints the consequence of each problem and the command that
//! solves it.

mod bundle;
mod certificate;
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
mod vault;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    listen::{self, ListenAddress},
    output,
    run_command::{CommandFacts, Guard, RunCommand},
    stderr::complain,
};
use mainstay_core::failure::with_causes;
use mainstay_platform::{
    environment::{self, ConfigurationSource, LoadError, Loaded, Process},
    state::StateDir,
};

use self::{
    bundle::Material,
    credentials::Credentials,
    finding::{DoctorFinding, Level},
    servers::ServerReport,
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
    /// Time limit for the start of each server
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Address that the daemon is to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420", value_parser = listen::address)]
    listen: ListenAddress,
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
        let origin = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        let (path, text) = (origin.path(), origin.text().ok().flatten());
        let loaded = origin.load();
        let state = StateDir::locate(&Process);

        let mut findings = configuration::check(&loaded, path.as_deref(), text.as_deref());
        findings.extend(machine::state(&state));
        findings.extend(state.iter().flat_map(vault::check));
        if self.fix {
            // Apply fixes before the search for the daemon, because Mainstay does not trust a directory
            // with wrong permissions.
            findings.iter_mut().for_each(DoctorFinding::apply_fix);
        }
        let state = state.ok();
        let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
        findings.extend(state.as_ref().and_then(machine::disk));
        findings.push(machine::files(config));
        if let Some(config) = config {
            findings.extend(commands::check(config, path.as_deref()).await);
            findings.extend(tokens::check_servers(config, path.as_deref()));
            findings.extend(network::proxies(config, environment::proxy_variables()));
            findings.extend(certificate::check(config));
        }
        let (client, found) = daemon::find(state.as_ref(), self.listen).await;
        findings.extend(found);
        findings.extend(tokens::check_clients(client.as_ref(), state.as_ref()).await);
        findings.extend(machine::clock(config, !self.no_start).await);
        findings.extend(clients::check());
        let credentials = Credentials::read(path.as_deref(), text.as_deref());
        let report = match &client {
            Some(client) => servers::ask(client, &credentials).await,
            None => self.start(host, &loaded, &credentials).await,
        };
        let report = match report {
            Ok(report) => report,
            Err(error @ CommandError::Interrupted { .. }) => return Err(error),
            Err(error) => {
                let finding = DoctorFinding::error("server.unknown", with_causes(&error));
                findings.push(
                    finding
                        .consequence("the servers could not be examined")
                        .mend("mainstay list  # shows what the daemon knows of them"),
                );
                ServerReport::default()
            }
        };
        let news = report.findings.into_iter();
        let news: Vec<_> = news
            .filter(|finding| !is_known(finding, &findings))
            .collect();
        findings.extend(news);

        if let Some(file) = &self.bundle {
            let material = Material {
                findings: &findings,
                config,
                path: path.as_deref(),
                text: text.as_deref(),
                state: state.as_ref(),
                client: client.as_ref(),
                servers: &report.servers,
            };
            bundle::write(file, &material).await?;
            complain(&format!(
                "the report is {}; look through it before you pass it on",
                file.display()
            ));
        }
        self.print(&findings)
    }
}

impl Doctor {
    async fn start(
        &self,
        host: &dyn Host,
        loaded: &Result<Loaded, LoadError>,
        credentials: &Credentials<'_>,
    ) -> Result<ServerReport, CommandError> {
        let Ok(loaded) = loaded else {
            return Ok(ServerReport::default());
        };
        let servers = &loaded.config.servers;
        let count = servers.iter().filter(|server| server.enabled).count();
        if self.no_start || count == 0 {
            return Ok(ServerReport::default());
        }
        if !self.json {
            complain(&format!(
                "starting {} to examine them",
                output::count(count, "server")
            ));
        }
        servers::start(host, loaded, Duration::from_secs(self.timeout), credentials).await
    }

    fn print(&self, findings: &[DoctorFinding]) -> Result<Exit, CommandError> {
        let open = findings.iter().filter(|finding| finding.is_open());
        let count_of = |level| {
            open.clone()
                .filter(|finding| finding.level == level)
                .count()
        };
        let [errors, warnings, notes] = [Level::Error, Level::Warning, Level::Note].map(count_of);
        if self.json {
            output::json(&findings)?;
        } else {
            let texts: Vec<String> = findings.iter().map(DoctorFinding::text).collect();
            output::text(&texts.join("\n"))?;
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

/// True if another finding already gives the reason why a server is down.
fn is_known(down: &DoctorFinding, findings: &[DoctorFinding]) -> bool {
    if down.id != "server.down" {
        return false;
    }
    let mut findings_of_server = findings
        .iter()
        .filter(|finding| finding.server == down.server);
    findings_of_server.any(|finding| match finding.id {
        "config.entry" => true,
        "command.missing" => down.message.contains("command not found"),
        _ => false,
    })
}
