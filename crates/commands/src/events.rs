//! `mainstay events`: shows past events of the servers, or follows new ones.

use std::time::Duration;

use chrono::{DateTime, Local};
use clap::Args;
use mainstay_api::{self as api, Client, ClientError, Told};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    happened,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape},
    stderr::complain,
    time,
    trouble::{trouble, word},
};
use mainstay_core::event::EventId;
use serde_json::json;

/// The interval between two attempts to reach a daemon that has stopped.
const RETRY: Duration = Duration::from_secs(1);

const MORE: &str = "\
Events are remembered for 30 minutes, and until the daemon ends.
`mainstay history` shows which servers were down in the last 30 days.";

#[derive(Debug, Args)]
#[command(after_help = MORE)]
pub struct EventsCommand {
    /// Show the status of the servers, then their events, until Ctrl-C; reconnects to a daemon that is
    /// restarted
    #[arg(short, long)]
    follow: bool,
    /// Only what came after the event with this id
    #[arg(long, value_name = "ID")]
    after: Option<EventId>,
    /// Only what happened to this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

impl RunCommand for EventsCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        if self.follow {
            self.shape.followed()?;
            return self.follow(host).await;
        }
        let after = self.after.map(|id| id.to_string());
        let ask = async |client: &Client| {
            let mut recent = client.recent_events(after.as_deref()).await?;
            if let Some(server) = &self.server {
                let is_about = |event: &api::Event| event.server.as_ref() == Some(server);
                recent.events.retain(is_about);
                if recent.events.is_empty() {
                    client.server(server).await?;
                }
            }
            Ok(recent)
        };
        let recent = self.daemon.with(host, ask).await?;
        if recent.missed {
            complain("some events are no longer known");
        }
        let found = ItemList::list::<api::Event>(&recent, &["events"], &["id"]);
        // JSON output has one event on each line.
        if self.is_json() || self.shape.print(false, &found)?.is_some() {
            recent
                .events
                .iter()
                .try_for_each(|event| self.print(event))?;
            if self.after.is_none() && !self.is_json() {
                let name = self
                    .server
                    .as_ref()
                    .map_or_else(String::new, |name| format!(" {name}"));
                let none = if recent.events.is_empty() {
                    "no events are remembered; "
                } else {
                    ""
                };
                complain(&format!(
                    "{none}`mainstay history{name}` shows the last 30 days"
                ));
            }
        }
        Ok(Exit::DONE)
    }
}

impl EventsCommand {
    fn is_json(&self) -> bool {
        self.daemon.json || self.shape.is_json()
    }

    async fn follow(&self, host: &dyn Host) -> Result<Exit, CommandError> {
        let mut place = self.after.map(|id| id.to_string());
        let mut was_there = false;
        let mut gone = false;
        loop {
            let follow = async |client: &Client| {
                if let Some(server) = self.server.as_ref().filter(|_| !was_there) {
                    client.server(server).await?;
                }
                let mut stream = client.follow_events(place.as_deref()).await?;
                (was_there, gone) = (true, false);
                while let Some(message) = stream.next().await? {
                    self.print_message(message)?;
                    place = stream.place().map(str::to_owned);
                }
                Ok(())
            };
            match self.daemon.with(host, follow).await {
                Ok(()) => {}
                Err(CommandError::Client(
                    ClientError::NotRunning { .. } | ClientError::Unreachable { .. },
                )) if was_there => {}
                Err(error) => return Err(error),
            }
            if self.daemon.starts_servers() {
                return Ok(Exit::DONE);
            }
            if !std::mem::replace(&mut gone, true) {
                complain("the daemon is gone; waiting for it");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn print_message(&self, message: Told) -> Result<(), CommandError> {
        match message {
            Told::Event(event) => self.print(&event),
            Told::Missed => {
                complain("some events were missed; this is how the servers are now");
                Ok(())
            }
            Told::Snapshot(servers) if self.is_json() => {
                let chosen: Vec<_> = servers
                    .servers
                    .into_iter()
                    .filter(|server| self.is_about(&server.name))
                    .collect();
                output::json(&json!({"type": api::SNAPSHOT, "servers": chosen}))
            }
            // A snapshot of the servers is not an event, so the item output skips it.
            Told::Snapshot(_) if self.shape.is_of_items() => Ok(()),
            Told::Snapshot(servers) => {
                let now = Local::now();
                let chosen = servers.servers.iter();
                for server in chosen.filter(|server| self.is_about(&server.name)) {
                    let reason = trouble(server).unwrap_or_default();
                    line(now, &server.name, word(server), &reason)?;
                }
                Ok(())
            }
        }
    }

    fn is_about(&self, server: &str) -> bool {
        self.server.as_deref().is_none_or(|chosen| chosen == server)
    }

    fn print(&self, event: &api::Event) -> Result<(), CommandError> {
        if self.server.is_some() && self.server != event.server {
            return Ok(());
        }
        let found = ItemList::one(event, &["id"]);
        if self.shape.print(self.daemon.json, &found)?.is_none() {
            return Ok(());
        }
        let (word, detail) = happened::words(event);
        let at = DateTime::parse_from_rfc3339(&event.created_at);
        let at = at.map_or_else(|_| Local::now(), |at| at.with_timezone(&Local));
        line(at, event.server.as_deref().unwrap_or("-"), word, &detail)
    }
}

/// `2026-11-21 08:30:12  files  reconnecting  process exited unexpectedly (code 3); attempt 1 in 1.0 s`
pub(super) fn line(
    at: DateTime<Local>,
    server: &str,
    word: &str,
    detail: &str,
) -> Result<(), CommandError> {
    let at = time::with_day(at);
    let line = format!("{at}  {server:12}  {word:12}  {detail}");
    output::line(line.trim_end())
}
