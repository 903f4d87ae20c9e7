//! The lines of `serve` about its servers. A line appears when a server comes up, is lost, is stopped, or
//! has failed for good.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use mainstay_command_line::{output, screen::complain};
use mainstay_core::{
    catalog::ListKind, config::Withheld, ids::Epoch, lifecycle::SessionState, trouble,
};
use mainstay_gateway::{
    registry::{Announcement, Registry},
    supervisor::{KeptDown, ServerHandle, ServerView},
};
use parking_lot::Mutex;
use tokio::{
    sync::broadcast::error::RecvError,
    task::JoinSet,
    time::{Instant, interval, sleep},
};

/// The number of stderr lines below a failure.
const SHOWN_STDERR: usize = 5;

/// The delay before the first line about a slow start. Each later delay is three times as long.
const SLOW_START: Duration = Duration::from_secs(3);

/// The interval between two lines about servers that wait for their turn, if little has changed.
const TURNS_AGAIN: Duration = Duration::from_secs(60);

/// Reports on all servers, with one task for each server. The task ends with the server's supervisor.
pub struct ServerReporters {
    registry: Arc<Registry>,
    width: usize,
    /// One reporter for each server. A reload adds and removes reporters. The lock is never held across an
    /// await.
    reporters: Mutex<Vec<Arc<ServerReporter>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl ServerReporters {
    pub fn start(registry: Arc<Registry>) -> Self {
        let servers = registry.servers();
        let width = servers
            .iter()
            .map(|server| server.name.as_str().len())
            .max()
            .unwrap_or_default();
        let reporters = Self {
            registry,
            width,
            reporters: Mutex::default(),
            tasks: Mutex::default(),
        };
        reporters.add(&servers);
        reporters
    }

    /// Adds a reporter for each new server, and removes those of servers that have gone.
    fn add(&self, servers: &[Arc<ServerHandle>]) {
        let mut reporters = self.reporters.lock();
        reporters.retain(|reporter| {
            servers
                .iter()
                .any(|server| Arc::ptr_eq(server, &reporter.server))
        });
        let mut tasks = self.tasks.lock();
        for server in servers {
            let is_same_server =
                |reporter: &Arc<ServerReporter>| Arc::ptr_eq(server, &reporter.server);
            if !reporters.iter().any(is_same_server) {
                let reporter = Arc::new(ServerReporter::new(server, self.width));
                tasks.spawn(Arc::clone(&reporter).run());
                reporters.push(reporter);
            }
        }
    }

    /// Follows the servers: adds reporters for the servers of a reload, and reports servers that wait for
    /// their turn.
    pub async fn follow(&self) {
        let mut announcements = self.registry.listen();
        let mut turns = Turns::default();
        let mut looks = interval(SLOW_START);
        // Skip the first tick. It is immediate, and at that time every server waits.
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

    /// Prints the number of connected servers. First prints the latest change of each server.
    pub fn print_summary(&self) {
        let reporters = self.reporters.lock();
        for reporter in reporters.iter() {
            reporter.print_change(&reporter.server.view());
        }
        let expected: Vec<_> = reporters
            .iter()
            .filter(|reporter| reporter.server.is_desired_up())
            .collect();
        let missing: Vec<&str> = expected
            .iter()
            .filter(|reporter| reporter.server.view().status.state != SessionState::Connected)
            .map(|reporter| reporter.server.name.as_str())
            .collect();
        let all = output::count(expected.len(), "server");
        let mut line = format!(
            "ready: {} of {all} connected",
            expected.len() - missing.len()
        );
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
                tracing::error!(%error, "a server reporter failed");
            }
        }
    }
}

/// One common line for all servers that wait for their turn to start.
#[derive(Default)]
struct Turns {
    /// The number of waiting servers in the last line, and the time of that line.
    last: Option<(usize, Instant)>,
}

impl Turns {
    /// Returns the line if it is the first line, if the number has halved or doubled, or if `TURNS_AGAIN`
    /// has passed.
    fn line(&mut self, waiting: usize, now: Instant) -> Option<String> {
        if waiting == 0 {
            self.last = None;
            return None;
        }
        if let Some((last_count, at)) = self.last {
            let is_other = waiting * 2 <= last_count || waiting >= last_count * 2;
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

struct ServerReporter {
    server: Arc<ServerHandle>,
    width: usize,
    /// The last printed change. The lock is held while a line is printed, so that of two tasks only one
    /// prints a change.
    last_report: Mutex<LastReport>,
}

struct LastReport {
    last: Option<ReportedChange>,
    /// The time of the server's start or loss.
    since: Instant,
    /// True during an attempt to connect, and during the wait for an attempt.
    is_starting: bool,
    /// The problems of the server's entry.
    problems: Vec<String>,
}

/// The change that a line reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedChange {
    /// The server may not be started.
    KeptDown(KeptDown),
    /// The operator does not want the server to run.
    Idle,
    Up(Epoch),
    /// The session was lost. Holds the number of the next attempt.
    Lost(u32),
    Down(SessionState),
}

impl ServerReporter {
    fn new(server: &Arc<ServerHandle>, width: usize) -> Self {
        let last_report = LastReport {
            last: None,
            since: Instant::now(),
            is_starting: false,
            problems: Vec::new(),
        };
        Self {
            server: Arc::clone(server),
            width,
            last_report: Mutex::new(last_report),
        }
    }

    async fn run(self: Arc<Self>) {
        let mut changes = self.server.changes();
        // The current attempt, and the start time of its process.
        let mut attempt = None;
        let mut patience = SLOW_START;
        let slow = sleep(patience);
        tokio::pin!(slow);
        loop {
            let view = changes.borrow_and_update().clone();
            self.print_change(&view);
            let status = &view.status;
            let is_starting = status.attempting
                && match status.state {
                    SessionState::Connecting => true,
                    SessionState::Reconnecting => status.attempt.is_power_of_two(),
                    _ => false,
                };
            let under_way = is_starting.then_some((status.epoch, status.begun_at));
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
                    // Skip servers that wait for their turn, because they share one line.
                    if status.begun_at.is_some() {
                        let words = self.server.start_words();
                        let words = words.unwrap_or_else(|| "an attempt is under way".to_owned());
                        self.print(status.state.as_str(), &words);
                    }
                    patience *= 2;
                    slow.as_mut().reset(Instant::now() + patience);
                }
            }
        }
    }

    /// Prints the change since the last line, if there is one.
    fn print_change(&self, view: &ServerView) {
        let mut last_report = self.last_report.lock();
        self.print_problems(&mut last_report);
        let (state, attempt) = (view.status.state, view.status.attempt);
        let was_up = matches!(last_report.last, Some(ReportedChange::Up(_)));
        let is_starting = matches!(state, SessionState::Connecting | SessionState::Reconnecting);
        if state == SessionState::Connecting && !last_report.is_starting {
            // An operator requested this start. Report its result even if the last line reported the same
            // state.
            last_report.last = None;
            last_report.since = Instant::now();
        } else if was_up && state != SessionState::Connected {
            last_report.since = Instant::now();
        }
        last_report.is_starting = is_starting;
        let change = match state {
            _ if let Some(reason) = self.server.kept_down() => ReportedChange::KeptDown(reason),
            SessionState::Disconnected if !view.is_desired_up => ReportedChange::Idle,
            // Wait for the lists, because the line counts their items.
            SessionState::Connected if view.attempted && view.is_ready(view.status.epoch) => {
                ReportedChange::Up(view.status.epoch)
            }
            // Wait until the time of the next attempt is known. Report only attempts 1, 2, 4, 8 and so on.
            SessionState::Reconnecting
                if view.status.next_retry.is_some() && (was_up || attempt.is_power_of_two()) =>
            {
                ReportedChange::Lost(attempt)
            }
            SessionState::Error | SessionState::Failed | SessionState::Crashed => {
                ReportedChange::Down(state)
            }
            // The session was lost or never opened, and the policy does not retry.
            SessionState::Disconnected if view.status.reason.is_some() => {
                ReportedChange::Down(state)
            }
            _ => return,
        };
        let before = last_report.last.replace(change);
        if before == Some(change) {
            return;
        }
        let step = self.server.step_words(view);
        match change {
            ReportedChange::KeptDown(KeptDown::Disabled) => {
                self.print(KeptDown::Disabled.as_str(), "")
            }
            ReportedChange::KeptDown(reason) => {
                self.print(reason.as_str(), &format!("waits for approval{step}"));
            }
            ReportedChange::Idle => {
                let explanation = match before {
                    None => "not started by itself",
                    Some(_) => "stopped",
                };
                self.print(state.as_str(), &format!("{explanation}{step}"));
            }
            ReportedChange::Up(_) => {
                let elapsed = last_report.since.elapsed();
                self.print(
                    state.as_str(),
                    &offer(view, &self.server.config().withheld, elapsed),
                );
            }
            ReportedChange::Down(_) if !last_report.problems.is_empty() => {
                self.print(state.as_str(), &format!("its entry cannot be used{step}"));
            }
            ReportedChange::Lost(_) | ReportedChange::Down(_) => {
                let wait = view
                    .status
                    .next_retry
                    .map(|at| at.saturating_duration_since(Instant::now().into_std()));
                let reason = view.status.reason.as_deref().unwrap_or_default();
                let trouble = output::trouble(reason, attempt, wait);
                self.print(state.as_str(), &format!("{trouble}{step}"));
                let mut stderr_lines = self.server.log.tail.texts();
                if stderr_lines.is_empty() {
                    stderr_lines.extend(self.server.log.last_stray_line());
                }
                let cause = trouble::telling_line(&stderr_lines);
                let last = stderr_lines.split_off(stderr_lines.len().saturating_sub(SHOWN_STDERR));
                let cause =
                    cause.filter(|line| !last.iter().any(|last_line| last_line.contains(&**line)));
                for line in cause.iter().chain(&last) {
                    complain(&format!("{:width$}  | {line}", "", width = self.width));
                }
            }
        }
    }

    /// Prints the problems of the entry with their places, if they have changed.
    fn print_problems(&self, last_report: &mut LastReport) {
        let problems = self.server.problems();
        if problems != last_report.problems {
            for problem in &problems {
                complain(problem);
            }
            last_report.problems = problems;
        }
    }

    fn print(&self, state: &str, detail: &str) {
        let line = format!(
            "{:width$}  {state:12}  {detail}",
            self.server.name.as_str(),
            width = self.width
        );
        complain(line.trim_end());
    }
}

/// `7 tools, 1 resource, 1 prompt (12 ms)`, and the number of tools that strictToolNames hides.
fn offer(view: &ServerView, withheld: &Withheld, elapsed: Duration) -> String {
    let catalog = view.catalog.as_deref();
    let list = |kind| catalog.map_or(0, |catalog| catalog.visible_items(kind, withheld).count());
    let refused = catalog.map_or(0, |catalog| catalog.refused_names(withheld).count());
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
    .filter(|(count, noun)| *count > 0 || *noun == "tool")
    .map(|(count, noun)| output::count(count, noun))
    .collect();
    format!("{}{hidden} ({})", offers.join(", "), output::span(elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_wait_have_one_line() {
        let mut turns = Turns::default();
        let started_at = Instant::now();
        let mut line =
            |waiting, second| turns.line(waiting, started_at + Duration::from_secs(second));
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
