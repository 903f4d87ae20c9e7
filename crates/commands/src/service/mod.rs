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
    listen::{self, Listen},
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
    steps::{Run, Step},
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
    action: Action,
    /// Print the outcome as JSON on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// The service manager [default: the one of this system]
    #[arg(long, global = true, hide = true)]
    manager: Option<Manager>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the daemon now and whenever you log in
    Install {
        /// The configuration that the service reads [default: the one that `mainstay serve` reads]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Where the service listens [default: 127.0.0.1:7420]
        #[arg(long, value_name = "ADDR", value_parser = listen::address)]
        listen: Option<Listen>,
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

/// How the service is.
#[derive(Debug)]
struct Status {
    is_running: bool,
    /// In the words of the service manager.
    state: String,
    pid: Option<u32>,
    restarts: Option<u32>,
    /// Whether it starts at login, in the words of the service manager.
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
            Action::Install {
                config,
                listen,
                write_only,
                dry_run,
            } => {
                let wanted = Wanted {
                    config: config.clone(),
                    listen: *listen,
                    write_only: *write_only,
                };
                let steps = manager.installation(&wanted).await?;
                if *dry_run {
                    return self.show(&steps);
                }
                carry_out(&steps, self.json).await?;
                self.tell_installed(manager, &wanted, &steps)
            }
            Action::Uninstall { dry_run } => {
                let steps = manager.removal().await?;
                if *dry_run {
                    return self.show(&steps);
                }
                carry_out(&steps, self.json).await?;
                if self.json {
                    output::json(&json!({"success": true, "steps": told(&steps)}))?;
                } else if steps.is_empty() {
                    complain("the service is not installed");
                } else {
                    output::line("the service is gone; your configuration and records stay")?;
                }
                Ok(Exit::DONE)
            }
            Action::Status => self.tell_status(manager).await,
        }
    }
}

impl Service {
    /// What would be done, with the texts that would be written.
    fn show(&self, steps: &[Step]) -> Result<Exit, CommandError> {
        if self.json {
            output::json(&json!({"dryRun": true, "steps": told(steps)}))?;
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

    fn tell_installed(
        &self,
        manager: Manager,
        wanted: &Wanted,
        steps: &[Step],
    ) -> Result<Exit, CommandError> {
        if self.json {
            output::json(&json!({"success": true, "steps": told(steps)}))?;
            return Ok(Exit::DONE);
        }
        if wanted.write_only {
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

    async fn tell_status(&self, manager: Manager) -> Result<Exit, CommandError> {
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
                "state": status.as_ref().map(|it| &it.state),
                "pid": status.as_ref().and_then(|it| it.pid),
                "restarts": status.as_ref().and_then(|it| it.restarts),
                "atLogin": status.as_ref().and_then(|it| it.at_login.as_ref()),
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
pub async fn install(wanted: &Wanted, json: bool) -> Result<(), CommandError> {
    let steps = Manager::of_this_system()?.installation(wanted).await?;
    carry_out(&steps, json).await
}

/// Removes the service of this system, where there is one.
pub async fn uninstall(json: bool) -> Result<(), CommandError> {
    let steps = Manager::of_this_system()?.removal().await?;
    carry_out(&steps, json).await
}

/// What is to be installed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub config: Option<PathBuf>,
    pub listen: Option<Listen>,
    /// Run nothing.
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

    /// Asks the service manager something that changes nothing; an error where it cannot be reached.
    async fn reach(self) -> Result<(), CommandError> {
        let ask = match self {
            Self::Systemd => systemd::ask(),
            Self::Launchd => launchd::ask(user()),
        };
        let why = match ask.output().await {
            Ok(ran) if ran.success => return Ok(()),
            Ok(ran) => ran.reason(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "it is not installed".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(unreachable(self, &ask, &why))
    }

    async fn status(self) -> Result<Status, CommandError> {
        self.reach().await?;
        let ask = match self {
            Self::Systemd => systemd::ask_status(),
            Self::Launchd => launchd::ask_status(user()),
        };
        let ran = ask.output().await;
        let ran = ran.map_err(|error| unreachable(self, &ask, &error.to_string()))?;
        let status = match self {
            Self::Systemd => {
                let of = |name| systemd::property(&ran.stdout, name);
                let (active, sub) = (of("ActiveState"), of("SubState"));
                let result = match of("Result") {
                    "" | "success" => String::new(),
                    result => format!(", {result}"),
                };
                let word = |name| Some(of(name).to_owned()).filter(|word| !word.is_empty());
                Status {
                    is_running: active == "active",
                    state: format!("{active} ({sub}{result})"),
                    pid: of("MainPID").parse().ok().filter(|pid| *pid != 0),
                    restarts: of("NRestarts").parse().ok(),
                    at_login: word("UnitFileState"),
                }
            }
            Self::Launchd => {
                let pid = launchd::pid(&ran.stdout).filter(|_| ran.success);
                let state = match (ran.success, pid) {
                    (true, Some(_)) => "running",
                    (true, None) => "loaded, not running",
                    (false, _) => "not loaded",
                };
                Status {
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

    /// Where to read why it does not run.
    fn log_hint(self) -> Result<String, CommandError> {
        Ok(match self {
            Self::Systemd => format!(
                "`journalctl --user -u {}` shows what it said",
                systemd::UNIT
            ),
            Self::Launchd => format!("{} has what it said", log()?.display()),
        })
    }

    /// The steps that install the service, after a look at whether they can succeed.
    async fn installation(self, wanted: &Wanted) -> Result<Vec<Step>, CommandError> {
        // A service that cannot read its configuration would only fail.
        let mut loaded = environment::load(wanted.config.as_deref())?;
        import::warn_of_unread_rules(&mut loaded);
        starting::tell_findings(&loaded);
        let definition =
            Definition::here(wanted.config.as_deref(), wanted.listen, &loaded, &Process)?;
        let place = self.place()?;
        let found = ours(&place)?;
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
        if wanted.write_only {
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
                    daemon.pid, daemon.url
                ),
                hint: Some(format!("stop it first: kill {}", daemon.pid)),
            });
        }
        Ok(match self {
            Self::Systemd => systemd::install(&place, &text, found.as_deref(), status.is_running),
            Self::Launchd => {
                // launchd writes the log there before we run.
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

    /// The steps that remove the service; none where there is none.
    async fn removal(self) -> Result<Vec<Step>, CommandError> {
        let place = self.place()?;
        if ours(&place)?.is_none() {
            return Ok(Vec::new());
        }
        let status = self.status().await?;
        Ok(match self {
            Self::Systemd => systemd::uninstall(&place),
            Self::Launchd => launchd::uninstall(user(), &place, status.state != "not loaded"),
        })
    }
}

/// Where launchd keeps what the daemon says.
fn log() -> Result<PathBuf, CommandError> {
    Ok(StateDir::locate(&Process)?.path().join("service.log"))
}

/// Says why there is no service manager to speak to, and how to run the daemon without one.
fn unreachable(manager: Manager, ask: &Run, why: &str) -> CommandError {
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
            "{} cannot be reached in this session (`{ask}`: {why})",
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

/// The file that an earlier `mainstay service install` has written. A person's own file is refused.
fn ours(path: &Path) -> Result<Option<String>, CommandError> {
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

/// Each step as an object.
fn told(steps: &[Step]) -> Vec<Value> {
    let told = |step: &Step| match step {
        Step::Write { path, text } => json!({"write": path, "text": text}),
        Step::Remove(path) => json!({"remove": path}),
        Step::Run(run) => json!({"run": run.to_string()}),
        Step::Until(run) => json!({"until": run.to_string()}),
    };
    steps.iter().map(told).collect()
}

/// Carries the steps out, and says which one is done.
async fn carry_out(steps: &[Step], json: bool) -> Result<(), CommandError> {
    for step in steps {
        step.carry_out().await?;
        if !json {
            complain(&format!("done: {step}"));
        }
    }
    Ok(())
}
