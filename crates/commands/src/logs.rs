//! `mainstay logs`: shows a server's log.

use std::path::Path;

use clap::Args;
use mainstay_api::{self as api, Client, ClientError, LogEvent};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    stderr::complain,
    time,
};
use mainstay_core::ids::ServerName;
use mainstay_doorway::json_views;
use mainstay_transport::logs;

#[derive(Debug, Args)]
pub struct LogsCommand {
    /// The server
    #[arg(value_name = "NAME")]
    name: String,
    /// Go on with what comes, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Lines to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    tail: usize,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl RunCommand for LogsCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let server = ServerName::new(&self.name).map_err(|_| self.unknown())?;
        match self
            .daemon
            .with(host, async |client| self.ask(client).await)
            .await
        {
            // Read the log file, which remains after its daemon has stopped.
            Err(CommandError::Client(ClientError::NotRunning { dir })) => {
                self.print(&self.stored_log(&dir, &server)?)?;
                if self.follow {
                    return Err(ClientError::NotRunning { dir }.into());
                }
            }
            answer => answer?,
        }
        Ok(Exit::DONE)
    }
}

impl LogsCommand {
    async fn ask(&self, client: &Client) -> Result<(), CommandError> {
        if !self.follow {
            return self.print(&client.logs(&self.name, self.tail).await?);
        }
        let mut events = client.follow_logs(&self.name, self.tail).await?;
        while let Some(event) = events.next().await? {
            match event {
                LogEvent::Line(line) if self.daemon.json => output::json(&line)?,
                LogEvent::Line(line) => output::text(&text_of(&line))?,
                LogEvent::TailEnd(_) => {}
                LogEvent::Missed(missed) => {
                    complain(&format!("… {} lines came too fast", missed.lines));
                }
            }
        }
        Ok(())
    }

    fn stored_log(&self, state: &Path, server: &ServerName) -> Result<api::Logs, CommandError> {
        let lines =
            logs::left_behind(state, server, self.tail).map_err(|source| CommandError::Read {
                path: format!("the log of {server}"),
                source,
            })?;
        let lines = lines.ok_or_else(|| self.unknown())?;
        Ok(api::Logs {
            lines: json_views::logs::lines(lines),
        })
    }

    fn print(&self, logs: &api::Logs) -> Result<(), CommandError> {
        if self.daemon.json {
            return output::json(logs);
        }
        if logs.lines.is_empty() {
            if self.tail > 0 {
                complain(&format!("{} has not said anything", self.name));
            }
            return Ok(());
        }
        let lines: Vec<String> = logs.lines.iter().map(text_of).collect();
        output::text(&lines.join("\n"))
    }

    fn unknown(&self) -> CommandError {
        CommandError::NotFound {
            subject: format!("the log of server '{}'", self.name),
            hint: "`mainstay list` lists the configured servers".to_owned(),
        }
    }
}

fn text_of(line: &api::LogLine) -> String {
    format!(
        "{} {:8} {}",
        time::local(&line.time),
        line.source,
        line.text
    )
}
