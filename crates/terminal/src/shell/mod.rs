//! `mainstay shell`: runs the program's commands from a prompt or a script.

mod commands;
mod complete;
mod history;
mod line;
mod notices;
mod prompt;
mod run;
mod typed_ahead;
mod watch;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use mainstay_api::Client;
use mainstay_command_line::{
    CommandError, Exit,
    clients::ClientsArgs,
    connect::DaemonArgs,
    host::Host,
    news::ProgressLine,
    output, progress,
    run_command::{CommandFacts, Guard, RunCommand},
    screen,
    signals::{Signal, Signals},
    starting::HealthInterval,
    stderr::complain,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::interval,
};

use self::{
    history::LineHistory,
    notices::Notices,
    prompt::{Input, Prompt},
    run::{LineOutcome, Runner, command},
    typed_ahead::TypedAhead,
    watch::{Names, WatchTasks},
};

/// The interval of checks that the terminal still exists.
const TERMINAL_LOOK: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  mainstay shell                                        at the daemon that runs
  mainstay shell --config servers.json                  with servers of its own
  mainstay shell -c '/call alpha/echo text=hello'
  mainstay shell < commands.txt                         one command on each line

/help shows the commands. Without a terminal on stdin there is no prompt, and
the exit code is the highest of the commands'.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Shell {
    /// Run this command, and no other; may be repeated
    #[arg(short, long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Do without a daemon: start the servers of this configuration
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    config: Option<PathBuf>,
    #[command(flatten)]
    clients: ClientsArgs,
    #[command(flatten)]
    health: HealthInterval,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

impl Shell {
    /// True if the shell starts servers of its own.
    pub fn starts_servers(&self) -> bool {
        self.config.is_some() || self.clients.are_given()
    }
}

impl RunCommand for Shell {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            guard: Guard::of_servers(self.starts_servers()),
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let has_own_servers = self.starts_servers();
        if !has_own_servers && self.health.is_given() {
            return Err(CommandError::Usage {
                message: "--health-interval is for servers of the shell's own".to_owned(),
                hint: Some(
                    "name them with --config or --mcp-client, or give it to `mainstay serve`"
                        .to_owned(),
                ),
            });
        }
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        if !has_own_servers {
            let daemon = DaemonArgs::at(self.url.clone(), self.json);
            // Fail early: without a daemon the shell is useless.
            let client = daemon.find()?;
            client.servers().await?;
            return self.serve_person(host, daemon, &mut signals).await;
        }
        let origin = self
            .health
            .origin(self.config.clone(), self.clients.clone().into());
        let occasion = host.start(&origin, true)?;
        let daemon = DaemonArgs::for_client(Client::clone(occasion.client()), self.json);
        let outcome = async {
            if !self.is_interactive() {
                occasion.settled().await;
            }
            self.serve_person(host, daemon, &mut signals).await
        }
        .await;
        let stopped = occasion.stop(&mut signals).await;
        outcome.and_then(|exit| stopped.map(|_| exit))
    }
}

impl Shell {
    fn is_interactive(&self) -> bool {
        self.commands.is_empty() && io::stdin().is_terminal() && screen::stdout_is_terminal()
    }

    async fn serve_person(
        &self,
        host: &dyn Host,
        daemon: DaemonArgs,
        signals: &mut Signals,
    ) -> Result<Exit, CommandError> {
        let session = Session {
            host,
            daemon,
            has_own_servers: self.starts_servers(),
            json: self.json,
            signals,
        };
        if self.is_interactive() {
            session.converse().await
        } else {
            session.read_script(&self.commands).await
        }
    }
}

struct Session<'s> {
    host: &'s dyn Host,
    daemon: DaemonArgs,
    has_own_servers: bool,
    json: bool,
    signals: &'s mut Signals,
}

/// The effect of a line on the shell.
enum End {
    Done(Exit),
    Quit,
    Signal(Signal),
}

impl Session<'_> {
    /// Runs each command of a script, and continues after a failure.
    async fn read_script(mut self, commands: &[String]) -> Result<Exit, CommandError> {
        let mut worst = Exit::DONE;
        let mut stdin = BufReader::new(tokio::io::stdin()).lines();
        let mut scripted = commands.iter();
        let reads_stdin = scripted.len() == 0;
        let mut history = Vec::new();
        loop {
            let line = if reads_stdin {
                tokio::select! {
                    line = stdin.next_line() => line.map_err(|source| CommandError::Read {
                        path: "stdin".to_owned(),
                        source,
                    })?,
                    signal = self.signals.next() => return Err(interrupted(signal)),
                }
            } else {
                scripted.next().cloned()
            };
            let Some(line) = line else { return Ok(worst) };
            history.push(line.clone());
            match self.carry_out(&line, &history, false).await {
                End::Done(exit) => worst.0 = worst.0.max(exit.0),
                End::Quit => return Ok(worst),
                End::Signal(signal) => return Err(interrupted(signal)),
            }
        }
    }

    /// Shows a prompt until the user leaves.
    async fn converse(mut self) -> Result<Exit, CommandError> {
        let (names, notices) = (Names::default(), Notices::default());
        let mut history = LineHistory::open();
        let watch = WatchTasks::start(&self.daemon, &names, &notices);
        let unusable = |error| CommandError::Read {
            path: "the terminal".to_owned(),
            source: error,
        };
        let _typed_ahead = TypedAhead::keep().map_err(unusable)?;
        let mut prompt = Prompt::start(history.lines(), names, &notices).map_err(unusable)?;
        complain("Mainstay's shell: /help shows the commands, Tab completes, Ctrl-D leaves");
        let outcome = loop {
            let input = tokio::select! {
                input = prompt.line() => input,
                () = terminal_gone() => break Ok(Exit::DONE),
                signal = self.signals.next() => {
                    // Ignore a Ctrl-C that arrives after its command has ended.
                    if signal.is_interrupt() {
                        continue;
                    }
                    break Err(interrupted(signal));
                }
            };
            let text = match input {
                Input::Line(text) => text,
                Input::Cleared => continue,
                Input::End => break Ok(Exit::DONE),
                Input::Failed(error) => break Err(unusable(error)),
            };
            let mut end = None;
            for line in line::commands(&text) {
                history.add(line);
                match self.carry_out(line, history.lines(), true).await {
                    End::Done(_) => {}
                    End::Quit => end = Some(Ok(Exit::DONE)),
                    End::Signal(signal) if signal.is_interrupt() => {
                        self.signals.was_no_end();
                        break;
                    }
                    End::Signal(signal) => end = Some(Err(interrupted(signal))),
                }
                if end.is_some() {
                    break;
                }
            }
            if let Some(end) = end {
                break end;
            }
        };
        prompt.end();
        watch.end().await;
        outcome
    }

    /// Runs a line, and prints its errors. A signal cancels the command.
    async fn carry_out(&mut self, text: &str, history: &[String], is_interactive: bool) -> End {
        let line = match line::parse(text) {
            Ok(Some(line)) => line,
            Ok(None) => return End::Done(Exit::DONE),
            Err(error) => {
                let error = CommandError::Usage {
                    message: error.to_string(),
                    hint: Some(error.hint()),
                };
                error.report(self.json);
                return End::Done(error.exit());
            }
        };
        let command = match command(&line) {
            Ok(command) => command,
            Err(error) => {
                error.report(self.json);
                return End::Done(error.exit());
            }
        };
        let subject = line.words.first().map_or("", |word| word.text.as_str());
        let subject_line = format!("/{} {subject}", command.word);
        let progress_line = ProgressLine::new(&output::one_line(subject_line.trim_end()));
        let runner = Runner {
            host: self.host,
            daemon: self.daemon.clone().showing(Some(progress_line.clone())),
            has_own_servers: self.has_own_servers,
            history,
        };
        // These commands print their output themselves, line by line.
        let is_stream = line
            .words
            .iter()
            .any(|word| matches!(&*word.text, "--follow" | "-f"));
        let ended = {
            let work = progress::ticking(Box::pin(runner.run(command, &line.words)), |_| {
                if is_interactive && !is_stream {
                    progress_line.tick();
                }
            });
            tokio::select! {
                ended = work => Ok(ended),
                signal = self.signals.next() => Err(signal),
            }
        };
        match ended {
            Ok(Ok(LineOutcome::Done(exit))) => End::Done(exit),
            Ok(Ok(LineOutcome::Quit)) => End::Quit,
            Ok(Err(error)) => {
                error.report(self.json);
                End::Done(error.exit())
            }
            Err(signal) => {
                if is_interactive && !is_stream {
                    complain(match command.name {
                        commands::Name::Call | commands::Name::Read | commands::Name::Prompt => {
                            "cancelled"
                        }
                        _ => "not waited for",
                    });
                }
                End::Signal(signal)
            }
        }
    }
}

/// Waits until the terminal has gone. Without this check, a process that gets no signal from its closed
/// terminal would poll the terminal forever.
async fn terminal_gone() {
    let mut looks = interval(TERMINAL_LOOK);
    while !is_gone() {
        looks.tick().await;
    }
}

#[cfg(unix)]
fn is_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

#[cfg(not(unix))]
fn is_gone() -> bool {
    false
}

fn interrupted(signal: Signal) -> CommandError {
    CommandError::Interrupted {
        name: signal.name,
        exit: signal.exit_code(),
    }
}
