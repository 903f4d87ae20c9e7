//! The lines of `serve` about its servers: one when a server comes up, is lost, is stopped, or is given up.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use mainstay_command_line::{output, screen::complain};
use mainstay_core::{catalog::ListKind, config::Withheld, ids::Epoch, lifecycle::State, trouble};
use mainstay_gateway::{
    registry::{Announcement, Registry},
    supervisor::{KeptDown, Server, ServerView},
};
use parking_lot::Mutex;
use tokio::{
    sync::broadcast::error::RecvError,
    task::JoinSet,
    time::{Instant, interval, sleep},
};

/// Lines of stderr shown beside a failure.
const SHOWN_STDERR: usize = 5;

/// A start that takes longer is told of; again when it has taken three times as long, and so on.
const SLOW_START: Duration = Duration::from_secs(3);

/// Servers that wait for their turn are told of again after this time.
const TURNS_AGAIN: Duration = Duration::from_secs(60);

/// Tells of all servers, each in a task that ends with the server's supervisor.
pub struct Tellers {
    registry: Arc<Registry>,
    width: usize,
    /// Locked for the time of a loop; a reload adds to them.
    each: Mutex<Vec<Arc<Teller>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Tellers {
    pub fn start(registry: Arc<Registry>) -> Self {
        let servers = registry.servers();
        let width = servers
            .iter()
            .map(|server| server.name.as_str().len())
            .max()
            .unwrap_or_default();
        let tellers = Self {
            registry,
            width,
            each: Mutex::default(),
            tasks: Mutex::default(),
        };
        tellers.add(&servers);
        tellers
    }

    /// Reports on servers that are not reported on yet.
    fn add(&self, servers: &[Arc<Server>]) {
        let mut tellers = self.each.lock();
        tellers.retain(|teller| {
            servers
                .iter()
                .any(|server| Arc::ptr_eq(server, &teller.server))
        });
        let mut tasks = self.tasks.lock();
        for server in servers {
            let known = |teller: &Arc<Teller>| Arc::ptr_eq(server, &teller.server);
            if !tellers.iter().any(known) {
                let teller = Arc::new(Teller::new(server, self.width));
                tasks.spawn(Arc::clone(&teller).run());
                tellers.push(teller);
            }
        }
    }

    /// Tells of the servers that a reload brings, too.
    pub async fn follow(&self) {
        let mut announcements = self.registry.listen();
        let mut turns = Turns::default();
        let mut looks = interval(SLOW_START);
        // The first look is at once, when every server waits.
        looks.tick().await;
        loop {
            let announced = tokio::select! {
                announced = announcements.recv() => announced,
                _ = looks.tick() => {
                    let servers = self.registry.servers();
                    let waiting = servers.iter().filter(|server| server.waits_for_its_turn());
                    turns.line(waiting.count(), Instant::now()).iter().for_each(|line| complain(line));
                    continue;
                }
            };
            match announced {
                Ok(Announcement::ServersChanged) | Err(RecvError::Lagged(_)) => {
                    self.add(&self.registry.servers());
                }
                Ok(_) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }

    /// Says how many servers are up, after what there is to say of each.
    pub fn sum_up(&self) {
        let tellers = self.each.lock();
        for teller in tellers.iter() {
            teller.look(&teller.server.view());
        }
        let wanted: Vec<_> = tellers
            .iter()
            .filter(|teller| teller.server.is_wanted())
            .collect();
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|teller| teller.server.view().status.state != State::Connected)
            .map(|teller| teller.server.name.as_str())
            .collect();
        let all = output::count(wanted.len(), "server");
        let mut line = format!("ready: {} of {all} connected", wanted.len() - missing.len());
        if !missing.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(line, " (not: {})", missing.join(", "));
        }
        complain(&line);
    }

    /// Resolves when all supervisors have ended.
    pub async fn end(self) {
        let mut tasks = self.tasks.into_inner();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a teller failed");
            }
        }
    }
}

/// The line about servers that wait for their turn to start: one for all of them.
#[derive(Default)]
struct Turns {
    /// How many waited when the last line was written, and when that was.
    last: Option<(usize, Instant)>,
}

impl Turns {
    /// The line, if it is the first, the number has halved or doubled, or a while has passed.
    fn line(&mut self, waiting: usize, now: Instant) -> Option<String> {
        if waiting == 0 {
            self.last = None;
            return None;
        }
        if let Some((told, at)) = self.last {
            let is_other = waiting * 2 <= told || waiting >= told * 2;
            if !is_other && now.duration_since(at) < TURNS_AGAIN {
                return None;
            }
        }
        self.last = Some((waiting, now));
        Some(match waiting {
            1 => "1 server waits for its turn".to_owned(),
            many => format!("{many} servers wait for their turn"),
        })
    }
}

struct Teller {
    server: Arc<Server>,
    width: usize,
    /// Locked for the time of a line: two tasks look, and each thing is reported once.
    said: Mutex<LastReport>,
}

struct LastReport {
    last: Option<News>,
    /// When the server was started or lost.
    since: Instant,
    /// Whether an attempt to connect it, or the wait for one, goes on.
    is_starting: bool,
    /// What is wrong with its entry.
    problems: Vec<String>,
}

/// What a line has told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// Nothing may start it.
    KeptDown(KeptDown),
    /// Its operator does not want it up.
    Idle,
    Up(Epoch),
    /// Lost, with the number of the attempt that follows.
    Lost(u32),
    Down(State),
}

impl Teller {
    fn new(server: &Arc<Server>, width: usize) -> Self {
        let said = LastReport {
            last: None,
            since: Instant::now(),
            is_starting: false,
            problems: Vec::new(),
        };
        Self {
            server: Arc::clone(server),
            width,
            said: Mutex::new(said),
        }
    }

    async fn run(self: Arc<Self>) {
        let mut changes = self.server.changes();
        // The attempt that is waited for, and when its process was started.
        let mut attempt = None;
        let mut patience = SLOW_START;
        let slow = sleep(patience);
        tokio::pin!(slow);
        loop {
            let view = changes.borrow_and_update().clone();
            self.look(&view);
            let status = &view.status;
            let is_starting = status.attempting
                && match status.state {
                    State::Connecting => true,
                    State::Reconnecting => status.attempt.is_power_of_two(),
                    _ => false,
                };
            let under_way = is_starting.then_some((status.epoch, status.begun));
            if under_way != attempt {
                attempt = under_way;
                patience = SLOW_START;
                slow.as_mut().reset(Instant::now() + patience);
            }
            tokio::select! {
                ended = changes.changed() => {
                    if ended.is_err() {
                        return;
                    }
                }
                () = &mut slow, if is_starting => {
                    // Those that wait for their turn are told of together.
                    if status.begun.is_some() {
                        let words = self.server.start_words();
                        let words = words.unwrap_or_else(|| "an attempt is under way".to_owned());
                        self.say(status.state.as_str(), &words);
                    }
                    patience *= 2;
                    slow.as_mut().reset(Instant::now() + patience);
                }
            }
        }
    }

    /// Says what is new.
    fn look(&self, view: &ServerView) {
        let mut said = self.said.lock();
        self.tell_problems(&mut said);
        let (state, attempt) = (view.status.state, view.status.attempt);
        let was_up = matches!(said.last, Some(News::Up(_)));
        let is_starting = matches!(state, State::Connecting | State::Reconnecting);
        if state == State::Connecting && !said.is_starting {
            // A start that somebody asked for: whatever comes of it is news.
            said.last = None;
            said.since = Instant::now();
        } else if was_up && state != State::Connected {
            said.since = Instant::now();
        }
        said.is_starting = is_starting;
        let news = match state {
            _ if let Some(why) = self.server.kept_down() => News::KeptDown(why),
            State::Disconnected if !view.wanted => News::Idle,
            // Its lists are part of the news.
            State::Connected if view.attempted && view.is_ready(view.status.epoch) => {
                News::Up(view.status.epoch)
            }
            // Said when it is known what comes next, and of long absences ever less.
            State::Reconnecting
                if view.status.next_retry.is_some() && (was_up || attempt.is_power_of_two()) =>
            {
                News::Lost(attempt)
            }
            State::Error | State::Failed | State::Crashed => News::Down(state),
            // Lost, or never up, under a policy that does not try again.
            State::Disconnected if view.status.reason.is_some() => News::Down(state),
            _ => return,
        };
        let before = said.last.replace(news);
        if before == Some(news) {
            return;
        }
        let step = self.server.step_words(view);
        match news {
            News::KeptDown(KeptDown::Disabled) => self.say(KeptDown::Disabled.as_str(), ""),
            News::KeptDown(why) => {
                self.say(why.as_str(), &format!("waits for approval{step}"));
            }
            News::Idle => {
                let why = match before {
                    None => "not started by itself",
                    Some(_) => "stopped",
                };
                self.say(state.as_str(), &format!("{why}{step}"));
            }
            News::Up(_) => {
                let took = said.since.elapsed();
                self.say(
                    state.as_str(),
                    &offer(view, &self.server.config().withheld, took),
                );
            }
            News::Down(_) if !said.problems.is_empty() => {
                self.say(state.as_str(), &format!("its entry cannot be used{step}"));
            }
            News::Lost(_) | News::Down(_) => {
                let wait = view
                    .status
                    .next_retry
                    .map(|at| at.saturating_duration_since(Instant::now().into_std()));
                let reason = view.status.reason.as_deref().unwrap_or_default();
                let trouble = output::trouble(reason, attempt, wait);
                self.say(state.as_str(), &format!("{trouble}{step}"));
                let mut said = self.server.log.tail.texts();
                if said.is_empty() {
                    said.extend(self.server.log.last_stray_line());
                }
                let telling = trouble::telling_line(&said);
                let last = said.split_off(said.len().saturating_sub(SHOWN_STDERR));
                let telling = telling.filter(|line| !last.iter().any(|it| it.contains(&**line)));
                for line in telling.iter().chain(&last) {
                    complain(&format!("{:width$}  | {line}", "", width = self.width));
                }
            }
        }
    }

    /// Says what is wrong with the entry, and where, when the entry is new or has changed.
    fn tell_problems(&self, said: &mut LastReport) {
        let problems = self.server.problems();
        if problems != said.problems {
            for problem in &problems {
                complain(problem);
            }
            said.problems = problems;
        }
    }

    fn say(&self, state: &str, detail: &str) {
        let line = format!(
            "{:width$}  {state:12}  {detail}",
            self.server.name.as_str(),
            width = self.width
        );
        complain(line.trim_end());
    }
}

/// `7 tools, 1 resource, 1 prompt (12 ms)`, and how many tools are hidden for their names.
fn offer(view: &ServerView, withheld: &Withheld, took: Duration) -> String {
    let catalog = view.catalog.as_deref();
    let list = |kind| catalog.map_or(0, |it| it.shown(kind, withheld).count());
    let refused = catalog.map_or(0, |it| it.refused_names(withheld).count());
    let hidden = output::count(refused, "tool");
    let hidden = match refused {
        0 => String::new(),
        _ => format!("; {hidden} hidden by strictToolNames"),
    };
    let offers: Vec<String> = [
        (list(ListKind::Tools), "tool"),
        (
            list(ListKind::Resources) + list(ListKind::Templates),
            "resource",
        ),
        (list(ListKind::Prompts), "prompt"),
    ]
    .into_iter()
    .filter(|(count, what)| *count > 0 || *what == "tool")
    .map(|(count, what)| output::count(count, what))
    .collect();
    format!("{}{hidden} ({})", offers.join(", "), output::span(took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_wait_have_one_line() {
        let mut turns = Turns::default();
        let begun = Instant::now();
        let mut line = |waiting, second| turns.line(waiting, begun + Duration::from_secs(second));
        let many = |count: usize| Some(format!("{count} servers wait for their turn"));
        assert_eq!(line(0, 0), None);
        assert_eq!(line(40, 3), many(40));
        assert_eq!(line(38, 6), None);
        assert_eq!(line(20, 9), many(20));
        assert_eq!(line(19, 12), None);
        assert_eq!(line(19, 69), many(19));
        assert_eq!(line(1, 72), Some("1 server waits for its turn".to_owned()));
        assert_eq!(line(0, 75), None);
        assert_eq!(line(1, 78), Some("1 server waits for its turn".to_owned()));
    }
}
