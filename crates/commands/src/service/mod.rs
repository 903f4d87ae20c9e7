//! `mainstay service`: makes the daemon a service of the user's session.

mod definition;
mod launchd;
mod steps;
mod systemd;

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand, ValueEnum};
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    listen::{self, ListenAddress},
    output,
    run_command::{CommandFacts, RunCommand},
    starting,
    stderr::complain,
};
use mainstay_platform::{
    environment::{self, Process},
    state::{self, StateDir, StateError},
};
use serde_json::{Value, json};

use self::{
    definition::{Definition, WRITTEN_BY},
    steps::{ProgramRun, Step},
};
use super::import;

const EXAMPLES: &str = "\
Examples:
  mainstay service install                start it now, and whenever you log in
  mainstay service install --dry-run      show what would be written and run
  mainstay service status
  mainstay service uninstall

The service is a user unit of systemd on Linux, and an agent of launchd on
macOS. It is started again when it fails.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Service {
    #[command(subcommand)]
    action: ServiceAction,
    /// Print the outcome as JSON on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// The service manager [default: the one of this system]
    #[arg(long, global = true, hide = true)]
    manager: Option<Manager>,
}

#[derive(Debug, Subcommand)]
enum ServiceAction {
    /// Start the daemon now and whenever you log in
    Install {
        /// The configuration that the service reads [default: the one that `mainstay serve` reads]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Address that the service listens on [default: 127.0.0.1:7420]
        #[arg(long, value_name = "ADDR", value_parser = listen::address)]
        listen: Option<ListenAddress>,
        /// Write the file, and run nothing
        #[arg(long)]
        write_only: bool,
        /// Show what would be written and run, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop the service and remove it
    Uninstall {
        /// Show what would be removed and run, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show whether the service is installed and runs
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Manager {
    Systemd,
    Launchd,
}

/// The status of the service.
#[derive(Debug)]
struct ServiceStatus {
    is_running: bool,
    /// The state in the service manager's words.
    state: String,
    pid: Option<u32>,
    restarts: Option<u32>,
    /// The start at login, in the service manager's words.
    at_login: Option<String>,
}

impl RunCommand for Service {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            under_way: Some("asking the service manager"),
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let manager = self.manager.map_or_else(Manager::of_this_system, Ok)?;
        match &self.action {
            ServiceAction::Install {
                config,
                listen,
                write_only,
                dry_run,
            } => {
                let request = InstallRequest {
                    config: config.clone(),
                    listen: *listen,
                    write_only: *write_only,
                };
                let steps = manager.installation(&request).await?;
                if *dry_run {
                    return self.show(&steps);
                }
                carry_out(&steps, self.json).await?;
                self.report_installed(manager, &request, &steps)
            }
            ServiceAction::Uninstall { dry_run } => {
                let steps = manager.removal().await?;
                if *dry_run {
                    return self.show(&steps);
                }
                carry_out(&steps, self.json).await?;
                if self.json {
                    output::json(&json!({"success": true, "steps": steps_as_json(&steps)}))?;
                } else if steps.is_empty() {
                    complain("the service is not installed");
                } else {
                    output::line("the service is gone; your configuration and records stay")?;
                }
                Ok(Exit::DONE)
            }
            ServiceAction::Status => self.report_status(manager).await,
        }
    }
}

impl Service {
    /// Prints the steps without running them, with the texts of files.
    fn show(&self, steps: &[Step]) -> Result<Exit, CommandError> {
        if self.json {
            output::json(&json!({"dryRun": true, "steps": steps_as_json(steps)}))?;
            return Ok(Exit::DONE);
        }
        if steps.is_empty() {
            complain("nothing is to be done");
        }
        for step in steps {
            output::line(&step.to_string())?;
            if let Step::Write { text, .. } = step {
                let lines = text.lines().map(output::one_line);
                let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
                output::text(&lines.join("\n"))?;
            }
        }
        Ok(Exit::DONE)
    }

    fn report_installed(
        &self,
        manager: Manager,
        request: &InstallRequest,
        steps: &[Step],
    ) -> Result<Exit, CommandError> {
        if self.json {
            output::json(&json!({"success": true, "steps": steps_as_json(steps)}))?;
            return Ok(Exit::DONE);
        }
        if request.write_only {
            let next = match manager {
                Manager::Systemd => {
                    format!(
                        "`systemctl --user enable --now {}` starts it",
                        systemd::UNIT
                    )
                }
                Manager::Launchd => "it starts at the next login".to_owned(),
            };
            output::line(&format!("the service is written; {next}"))?;
            return Ok(Exit::DONE);
        }
        output::line("Mainstay runs as a service; `mainstay service status` shows it")?;
        if manager == Manager::Systemd {
            complain(
                "it runs while you are logged in; `loginctl enable-linger` keeps it running after that",
            );
        }
        Ok(Exit::DONE)
    }

    async fn report_status(&self, manager: Manager) -> Result<Exit, CommandError> {
        let place = manager.place()?;
        let is_installed = import::read(&place)?.is_some();
        let status = if is_installed {
            Some(manager.status().await?)
        } else {
            None
        };
        let is_running = status.as_ref().is_some_and(|status| status.is_running);
        if self.json {
            output::json(&json!({
                "installed": is_installed,
                "running": is_running,
                "manager": manager.name(),
                "file": place,
                "state": status.as_ref().map(|status| &status.state),
                "pid": status.as_ref().and_then(|status| status.pid),
                "restarts": status.as_ref().and_then(|status| status.restarts),
                "atLogin": status.as_ref().and_then(|status| status.at_login.as_ref()),
            }))?;
        } else if let Some(status) = &status {
            let mut lines = vec![
                format!("state     {}", status.state),
                format!("file      {}", place.display()),
            ];
            lines.extend(status.pid.map(|pid| format!("process   {pid}")));
            lines.extend(status.restarts.map(|count| format!("restarts  {count}")));
            let at_login = status.at_login.as_ref();
            lines.extend(at_login.map(|word| format!("at login  {word}")));
            output::text(&lines.join("\n"))?;
            if !is_running {
                complain(&format!("  hint: {}", manager.log_hint()?));
            }
        } else {
            output::line("the service is not installed")?;
            complain("  hint: `mainstay service install` installs it");
        }
        Ok(if is_running { Exit::DONE } else { Exit::FAILED })
    }
}

/// Installs the service of this system.
pub async fn install(request: &InstallRequest, json: bool) -> Result<(), CommandError> {
    let steps = Manager::of_this_system()?.installation(request).await?;
    carry_out(&steps, json).await
}

/// Removes the service of this system, if it is installed.
pub async fn uninstall(json: bool) -> Result<(), CommandError> {
    let steps = Manager::of_this_system()?.removal().await?;
    carry_out(&steps, json).await
}

/// The options of an installation.
#[derive(Clone, Debug, Default)]
pub struct InstallRequest {
    pub config: Option<PathBuf>,
    pub listen: Option<ListenAddress>,
    /// True to write the file and run nothing.
    pub write_only: bool,
}

impl Manager {
    fn of_this_system() -> Result<Self, CommandError> {
        if cfg!(target_os = "macos") {
            Ok(Self::Launchd)
        } else if cfg!(target_os = "linux") {
            Ok(Self::Systemd)
        } else {
            let program = std::env::current_exe().unwrap_or_else(|_| "mainstay".into());
            let program = program.display();
            let hint = if cfg!(windows) {
                format!(
                    "have the Task Scheduler start it: schtasks /Create /TN Mainstay /SC ONLOGON /TR \"\\\"{program}\\\" serve\""
                )
            } else {
                format!("have your system start: {program} serve")
            };
            Err(CommandError::Cannot {
                code: "no_service_manager",
                message: "services are made for systemd (Linux) and launchd (macOS) only"
                    .to_owned(),
                hint: Some(hint),
            })
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }

    fn place(self) -> Result<PathBuf, CommandError> {
        let place = match self {
            Self::Systemd => systemd::place(&Process),
            Self::Launchd => launchd::place(&Process),
        };
        place.ok_or_else(|| StateError::Nowhere.into())
    }

    /// Runs a harmless command of the service manager. Fails if the service manager cannot be reached.
    async fn reach(self) -> Result<(), CommandError> {
        let ask = match self {
            Self::Systemd => systemd::ask(),
            Self::Launchd => launchd::ask(user()),
        };
        let reason = match ask.output().await {
            Ok(output) if output.success => return Ok(()),
            Ok(output) => output.reason(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "it is not installed".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(unreachable(self, &ask, &reason))
    }

    async fn status(self) -> Result<ServiceStatus, CommandError> {
        self.reach().await?;
        let ask = match self {
            Self::Systemd => systemd::ask_status(),
            Self::Launchd => launchd::ask_status(user()),
        };
        let output = ask.output().await;
        let output = output.map_err(|error| unreachable(self, &ask, &error.to_string()))?;
        let status = match self {
            Self::Systemd => {
                let property = |name| systemd::property(&output.stdout, name);
                let (active, sub) = (property("ActiveState"), property("SubState"));
                let result = match property("Result") {
                    "" | "success" => String::new(),
                    result => format!(", {result}"),
                };
                let word = |name| Some(property(name).to_owned()).filter(|word| !word.is_empty());
                ServiceStatus {
                    is_running: active == "active",
                    state: format!("{active} ({sub}{result})"),
                    pid: property("MainPID").parse().ok().filter(|pid| *pid != 0),
                    restarts: property("NRestarts").parse().ok(),
                    at_login: word("UnitFileState"),
                }
            }
            Self::Launchd => {
                let pid = launchd::pid(&output.stdout).filter(|_| output.success);
                let state = match (output.success, pid) {
                    (true, Some(_)) => "running",
                    (true, None) => "loaded, not running",
                    (false, _) => "not loaded",
                };
                ServiceStatus {
                    is_running: pid.is_some(),
                    state: state.to_owned(),
                    pid,
                    restarts: None,
                    at_login: None,
                }
            }
        };
        Ok(status)
    }

    /// A hint that names the log with the reason of a failure.
    fn log_hint(self) -> Result<String, CommandError> {
        Ok(match self {
            Self::Systemd => format!(
                "`journalctl --user -u {}` shows what it said",
                systemd::UNIT
            ),
            Self::Launchd => format!("{} has what it said", log()?.display()),
        })
    }

    /// The steps that install the service. Fails early if they cannot succeed.
    async fn installation(self, request: &InstallRequest) -> Result<Vec<Step>, CommandError> {
        // Load the configuration, because a service with an unreadable configuration would fail.
        let mut loaded = environment::load(request.config.as_deref())?;
        import::warn_of_unread_rules(&mut loaded);
        starting::print_findings(&loaded);
        let definition =
            Definition::here(request.config.as_deref(), request.listen, &loaded, &Process)?;
        let place = self.place()?;
        let found = read_own_file(&place)?;
        let text = match self {
            Self::Systemd => {
                if let Some(message) = systemd::refusal(&definition) {
                    return Err(CommandError::Cannot {
                        code: "service_failed",
                        message,
                        hint: Some("move the program, or rename its folder".to_owned()),
                    });
                }
                systemd::text(&definition)
            }
            Self::Launchd => launchd::text(&definition, &log()?),
        };
        if request.write_only {
            let write = Step::Write {
                path: place,
                text: text.clone(),
            };
            let has_changed = found.as_deref() != Some(&text);
            return Ok(has_changed.then_some(write).into_iter().collect());
        }
        let status = self.status().await?;
        let state = StateDir::locate(&Process)?;
        if !status.is_running
            && let Some(daemon) = state.daemon()?
        {
            return Err(CommandError::Cannot {
                code: "already_running",
                message: format!(
                    "a daemon that is no service runs already (pid {}, {})",
                    daemon.pid,
                    daemon.client_url()
                ),
                hint: Some(format!("stop it first: kill {}", daemon.pid)),
            });
        }
        Ok(match self {
            Self::Systemd => systemd::install(&place, &text, found.as_deref(), status.is_running),
            Self::Launchd => {
                // launchd opens the log in this folder before the daemon starts.
                state::private_dir(state.path()).map_err(|error| CommandError::Cannot {
                    code: "state_unusable",
                    message: format!("cannot use {}: {error}", state.path().display()),
                    hint: error.hint(),
                })?;
                let is_loaded = status.state != "not loaded";
                launchd::install(user(), &place, &text, found.as_deref(), is_loaded)
            }
        })
    }

    /// The steps that remove the service. Empty if it is not installed.
    async fn removal(self) -> Result<Vec<Step>, CommandError> {
        let place = self.place()?;
        if read_own_file(&place)?.is_none() {
            return Ok(Vec::new());
        }
        let status = self.status().await?;
        Ok(match self {
            Self::Systemd => systemd::uninstall(&place),
            Self::Launchd => launchd::uninstall(user(), &place, status.state != "not loaded"),
        })
    }
}

/// The file to which launchd writes the daemon's stderr.
fn log() -> Result<PathBuf, CommandError> {
    Ok(StateDir::locate(&Process)?.path().join("service.log"))
}

/// The error about a service manager that cannot be reached, with a hint to run the daemon without one.
fn unreachable(manager: Manager, ask: &ProgramRun, reason: &str) -> CommandError {
    let program = std::env::current_exe().unwrap_or_else(|_| "mainstay".into());
    let program = program.display();
    let session = match manager {
        Manager::Systemd => {
            "log in by ssh or on a seat instead of with su or sudo, or run `sudo loginctl enable-linger $USER`"
        }
        Manager::Launchd => "log in on the screen",
    };
    CommandError::Cannot {
        code: "no_service_manager",
        message: format!(
            "{} cannot be reached in this session (`{ask}`: {reason})",
            manager.name()
        ),
        hint: Some(format!(
            "{session}; without it, have what starts your programs run `{program} serve`, such as a line `@reboot {program} serve` in `crontab -e`"
        )),
    }
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(not(unix))]
fn user() -> u32 {
    0
}

/// The text of the file, if `mainstay service install` wrote it. Fails if another author wrote the file.
fn read_own_file(path: &Path) -> Result<Option<String>, CommandError> {
    let found = import::read(path)?;
    match &found {
        Some(text) if !text.contains(WRITTEN_BY) => Err(CommandError::Cannot {
            code: "not_ours",
            message: format!("{} was not written by Mainstay", path.display()),
            hint: Some("manage that service yourself, or move its file away first".to_owned()),
        }),
        _ => Ok(found),
    }
}

/// The steps as JSON objects.
fn steps_as_json(steps: &[Step]) -> Vec<Value> {
    let as_json = |step: &Step| match step {
        Step::Write { path, text } => json!({"write": path, "text": text}),
        Step::Remove(path) => json!({"remove": path}),
        Step::Run(run) => json!({"run": run.to_string()}),
        Step::Until(run) => json!({"until": run.to_string()}),
    };
    steps.iter().map(as_json).collect()
}

/// Runs the steps in order, and prints each after it is done.
async fn carry_out(steps: &[Step], json: bool) -> Result<(), CommandError> {
    for step in steps {
        step.carry_out().await?;
        if !json {
            complain(&format!("done: {step}"));
        }
    }
    Ok(())
}
