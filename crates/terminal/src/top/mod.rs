//! `mainstay top`: a live screen of the servers. `model` decides, `view` draws, `feed` communicates with
//! the daemon, and the loop in this file connects them.

mod action;
mod columns;
mod feed;
mod job;
mod keys;
mod list;
mod model;
mod pane;
mod questions;
mod rows;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::{
    env, io,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use clap::Args;
use crossterm::event::{Event as Input, EventStream};
use futures_util::StreamExt as _;
use mainstay_api::Client;
use mainstay_command_line::{
    CommandError, Exit, connect,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen,
    signals::{Signal, Signals},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use self::{
    feed::Feed,
    job::{Job, JobControl},
    keys::KeyPress,
    model::{Effect, Model, TopEvent},
    terminal::Screen,
    view::{Look, view},
};

const EXAMPLES: &str = "\
Examples:
  mainstay top                              the servers of the running daemon
  mainstay top --json                       what they do now, once, for programs

Press ? for the keys.";

/// The interval between two updates of countdowns.
const TICK: Duration = Duration::from_millis(250);

/// The minimum time between two frames without a key press. A slow connection can transmit a few frames in
/// a second.
const PICTURE: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print the servers and their figures once, as JSON, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

/// The inputs of the loop.
enum Next {
    Input(Option<io::Result<Input>>),
    Event(TopEvent),
    Signal(Signal),
    Job(Job),
}

impl RunCommand for Top {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            is_quiet: true,
            ..CommandFacts::printing(self.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let client = connect::running(self.url.clone())?;
        if self.json {
            return print(&client).await;
        }
        if !io::stdin().is_terminal() || !screen::stdout_is_terminal() {
            return Err(CommandError::Usage {
                message: "top needs a terminal".to_owned(),
                hint: Some("\"mainstay top --json\" prints what it shows, once".to_owned()),
            });
        }
        // Query before the screen opens, so that an error is printed like that of any other command.
        let servers = client.servers().await?;
        let model = Model::new(servers, Instant::now());
        let mut signals = Signals::listen().map_err(CommandError::Signals)?;
        let jobs = JobControl::listen().map_err(CommandError::Signals)?;
        let feed = Feed::start(client, self.url);
        let screen = Screen::enter().map_err(CommandError::Output)?;
        show(model, feed, screen, &mut signals, jobs).await
    }
}

/// Shows the servers until a key or a signal ends the screen.
async fn show(
    mut model: Model,
    mut feed: Feed,
    mut screen: Screen,
    signals: &mut Signals,
    mut jobs: JobControl,
) -> Result<Exit, CommandError> {
    let look = Look {
        has_colours: screen::palette().colours,
        is_unicode: is_unicode(),
    };
    let mut inputs = EventStream::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drawn_at: Option<Instant> = None;
    let mut is_urgent = true;
    loop {
        let is_time = drawn_at.is_none_or(|at| at.elapsed() >= PICTURE);
        if model.is_dirty && (is_urgent || is_time) {
            let draw = |frame: &mut ratatui::Frame<'_>| view(&mut model, frame, look);
            screen.draw(draw).map_err(CommandError::Output)?;
            model.is_dirty = false;
            is_urgent = false;
            drawn_at = Some(Instant::now());
        }
        let next = tokio::select! {
            input = inputs.next() => Next::Input(input),
            event = feed.next() => Next::Event(event),
            _ = ticks.tick() => Next::Event(TopEvent::Tick),
            signal = signals.next() => Next::Signal(signal),
            job = jobs.next() => Next::Job(job),
        };
        let event = match next {
            Next::Event(event) => event,
            Next::Input(Some(Ok(Input::Key(key)))) => {
                let Some(key) = KeyPress::from_event(key) else {
                    continue;
                };
                is_urgent = true;
                TopEvent::Key(key)
            }
            Next::Input(Some(Ok(Input::Resize(..)))) => {
                (model.is_dirty, is_urgent) = (true, true);
                continue;
            }
            Next::Input(Some(Ok(_))) => continue,
            // The input ends when the terminal has gone.
            Next::Input(None | Some(Err(_))) => return Ok(Exit::DONE),
            Next::Signal(signal) => {
                drop(screen);
                return Err(CommandError::Interrupted {
                    name: signal.name,
                    exit: signal.exit_code(),
                });
            }
            Next::Job(Job::Stop) => {
                terminal::restore();
                job::stop_ourselves();
                continue;
            }
            Next::Job(Job::Continue) => {
                screen.retake().map_err(CommandError::Output)?;
                (model.is_dirty, is_urgent) = (true, true);
                continue;
            }
        };
        for effect in model.update(event, Instant::now()) {
            match effect {
                Effect::Ask(question) => feed.ask(question),
                Effect::Operate { name, action } => feed.operate(name, action),
                Effect::Follow {
                    generation,
                    topic,
                    name,
                } => feed.follow(generation, topic, name),
                Effect::Unfollow => feed.unfollow(),
                Effect::Suspend => job::ask_to_stop(),
                Effect::Redraw => screen.clear().map_err(CommandError::Output)?,
                Effect::Quit => return Ok(Exit::DONE),
            }
        }
    }
}

/// Prints the servers, each with its figures.
async fn print(client: &Client) -> Result<Exit, CommandError> {
    let (servers, figures) = (client.servers().await?, client.figures().await?);
    let rows = servers.servers.iter().map(|server| {
        let figures = figures
            .servers
            .iter()
            .find(|figures| figures.name == server.name);
        json!({"server": server, "figures": figures})
    });
    let rows: Vec<_> = rows.collect();
    output::json(&json!({"servers": rows, "warnings": servers.warnings}))?;
    Ok(Exit::DONE)
}

/// True if the terminal supports more than ASCII, according to the locale.
fn is_unicode() -> bool {
    if cfg!(windows) {
        return true;
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    // Without a locale assume UTF-8, which most terminals support.
    locale.is_none_or(|locale| {
        let locale = locale.to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
