//! One server as a row: its escaped data, and values derived from them.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    time::{Duration, Instant},
};

use mainstay_api::{Server, ServerFigures};
use mainstay_command_line::{output, pending, trouble};

/// The number of seconds of calls that a sparkline can show.
pub const SPARKLINE_SECONDS: usize = 60;

/// The state of a server, in the groups that people look for. The worst group comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// The server is enabled and down, and no attempt will follow.
    Broken,
    /// The server is not connected, and an attempt is in progress or will follow.
    Trying,
    /// The server is connected but unhealthy.
    Degraded,
    /// The server waits for approval.
    Pending,
    Well,
    /// An operator has stopped the server.
    Down,
}

impl Mood {
    fn for_server(server: &Server) -> Self {
        if server.pending.is_some() {
            return Self::Pending;
        }
        if !server.enabled {
            return Self::Down;
        }
        let is_degraded = server.health_status.as_deref() == Some("degraded");
        match &*server.status {
            "connected" if is_degraded || server.last_error.is_some() => Self::Degraded,
            "connected" => Self::Well,
            "connecting" | "reconnecting" | "stopping" => Self::Trying,
            _ if server.next_retry_ms.is_some() => Self::Trying,
            "failed" | "crashed" | "error" => Self::Broken,
            _ if server.wanted => Self::Broken,
            _ => Self::Down,
        }
    }
}

/// The data of one server. All of its text is escaped.
#[derive(Debug)]
pub struct Row {
    /// The name. Legal names need no escape, so requests use the same text.
    pub name: String,
    pub word: String,
    pub mood: Mood,
    pub is_enabled: bool,
    /// The reason why the server is not well, and the next step. For a healthy server, a note.
    reason: String,
    attempt: Option<u32>,
    /// The time of the next attempt.
    pub retry_at: Option<Instant>,
    /// The time since the connection, and the time of that report.
    up: Option<(Duration, Instant)>,
    pub crashes: u32,
    pub tools: usize,
    pub pid: Option<u32>,
    pub transport: String,
    pub in_flight: u64,
    pub figures: Option<ServerFigures>,
    /// The number of calls in each second, the newest last.
    pub history: VecDeque<u64>,
}

impl Row {
    /// A row from the daemon's answer, received at `now`.
    pub fn new(mut server: Server, now: Instant) -> Self {
        let safe = |text: &str| output::one_line(text).into_owned();
        let mood = Mood::for_server(&server);
        let word = safe(trouble::word(&server));
        let up = server.uptime_ms.map(|ms| (Duration::from_millis(ms), now));
        // The row counts down by itself from here on.
        let retry_in = server.next_retry_ms.take().map(Duration::from_millis);
        let attempt = server.reconnect_attempt.take();
        let reason = match &server.pending {
            Some(pending) => pending::summary(pending),
            None if mood == Mood::Well => server.unmatched_tools.join("; "),
            None => trouble::detail(&server),
        };
        Self {
            word,
            mood,
            is_enabled: server.enabled,
            reason: safe(&reason),
            attempt,
            retry_at: retry_in.map(|wait| now + wait),
            up,
            crashes: server.crash_count,
            tools: server.tool_count,
            pid: server.pid,
            transport: safe(&server.transport),
            in_flight: server.calls_in_flight.into(),
            figures: None,
            history: VecDeque::new(),
            name: safe(&server.name),
        }
    }

    /// Moves the figures of the server's previous row into this row.
    pub fn with_figures_of(mut self, before: &mut Self) -> Self {
        self.figures = before.figures.take();
        self.history = std::mem::take(&mut before.history);
        self
    }

    /// Sets the figures. The daemon is queried for them about once a second.
    pub fn set_figures(&mut self, figures: ServerFigures) {
        if let Some(before) = &self.figures {
            // The counter starts again at zero after a restart of the daemon.
            let calls = figures.calls.checked_sub(before.calls);
            self.history.push_back(calls.unwrap_or(figures.calls));
            if self.history.len() > SPARKLINE_SECONDS {
                self.history.pop_front();
            }
        }
        self.in_flight = figures.calls_in_flight + figures.calls_waiting;
        self.figures = Some(figures);
    }

    /// The whole seconds until the next attempt.
    pub fn countdown(&self, now: Instant) -> Option<u64> {
        let left = self.retry_at?.saturating_duration_since(now);
        Some(
            left.as_millis()
                .div_ceil(1000)
                .try_into()
                .unwrap_or(u64::MAX),
        )
    }

    /// The text about the status. The countdown comes first, because a narrow screen may cut the reason.
    pub fn detail(&self, now: Instant) -> String {
        let attempt = self.attempt.unwrap_or(1);
        match (self.countdown(now), self.mood, self.attempt) {
            (Some(0), ..) => format!("attempt {attempt} now: {}", self.reason),
            (Some(seconds), ..) => format!("attempt {attempt} in {seconds} s: {}", self.reason),
            (None, Mood::Trying, Some(attempt)) => {
                format!("attempt {attempt} under way: {}", self.reason)
            }
            (None, Mood::Well, _) => match self.up {
                Some((up, at)) => {
                    let up = whole(up + now.saturating_duration_since(at));
                    let note = if self.reason.is_empty() { "" } else { "; " };
                    format!("up {up}{note}{}", self.reason)
                }
                None => self.reason.clone(),
            },
            (None, ..) => self.reason.clone(),
        }
    }

    pub fn rate(&self) -> f64 {
        self.recent(|recent| recent.calls_per_second)
    }

    pub fn errors(&self) -> u64 {
        self.figures
            .as_ref()
            .map_or(0, |figures| figures.recent.errors)
    }

    fn p95(&self) -> f64 {
        self.recent(|recent| recent.p95_ms.unwrap_or_default())
    }

    fn recent(&self, figure: impl FnOnce(&mainstay_api::RecentCalls) -> f64) -> f64 {
        self.figures
            .as_ref()
            .map_or(0.0, |figures| figure(&figures.recent))
    }

    fn memory(&self) -> u64 {
        let memory = self
            .figures
            .as_ref()
            .and_then(|figures| figures.memory_bytes);
        memory.unwrap_or_default()
    }

    /// True if the row contains the text.
    fn has(&self, lowercase: &str) -> bool {
        [&self.name, &self.word, &self.reason]
            .iter()
            .any(|text| text.to_lowercase().contains(lowercase))
    }
}

/// `4 s`, `3 min`, `2 h`: only the largest unit of [`output::span`], because smaller units would change
/// all the time.
fn whole(span: Duration) -> String {
    let seconds = span.as_secs();
    let unit = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3600 => 60,
        3600..86_400 => 3600,
        _ => 86_400,
    };
    output::span(Duration::from_secs(seconds - seconds % unit))
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The order of the configuration.
    Configured,
    Name,
    /// The worst state first.
    State,
    Rate,
    Errors,
    P95,
    Memory,
}

impl Sort {
    const ALL: [Self; 7] = [
        Self::Configured,
        Self::Name,
        Self::State,
        Self::Rate,
        Self::Errors,
        Self::P95,
        Self::Memory,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Configured => "configuration",
            Self::Name => "name",
            Self::State => "state",
            Self::Rate => "calls/s",
            Self::Errors => "errors",
            Self::P95 => "p95",
            Self::Memory => "memory",
        }
    }

    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self);
        Self::ALL[at.map_or(0, |at| (at + 1) % Self::ALL.len())]
    }

    /// Sorts the indices of rows. Rows that compare equal keep the order of the configuration.
    fn order(self, rows: &[Row], indices: &mut [usize]) {
        let largest_first = |figure: fn(&Row) -> f64, indices: &mut [usize]| {
            indices.sort_by(|one, other| figure(&rows[*other]).total_cmp(&figure(&rows[*one])));
        };
        match self {
            Self::Configured => {}
            Self::Name => indices.sort_by(|one, other| rows[*one].name.cmp(&rows[*other].name)),
            Self::State => indices.sort_by_key(|index| rows[*index].mood),
            Self::Rate => largest_first(Row::rate, indices),
            Self::Errors => indices.sort_by_key(|index| Reverse(rows[*index].errors())),
            Self::P95 => largest_first(Row::p95, indices),
            Self::Memory => indices.sort_by_key(|index| Reverse(rows[*index].memory())),
        }
    }
}

/// The filter by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    All,
    /// Servers that need attention.
    Trouble,
    Up,
    Down,
}

impl States {
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Trouble => "in trouble",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    pub const fn next(self) -> Self {
        match self {
            Self::All => Self::Trouble,
            Self::Trouble => Self::Up,
            Self::Up => Self::Down,
            Self::Down => Self::All,
        }
    }

    const fn has(self, mood: Mood) -> bool {
        match self {
            Self::All => true,
            Self::Trouble => !matches!(mood, Mood::Well | Mood::Down),
            Self::Up => matches!(mood, Mood::Well | Mood::Degraded),
            Self::Down => !matches!(mood, Mood::Well | Mood::Degraded),
        }
    }
}

/// The indices of the visible rows, in order.
pub fn visible(
    rows: &[Row],
    sort: Sort,
    is_reversed: bool,
    states: States,
    text: &str,
) -> Vec<usize> {
    let text = text.to_lowercase();
    let mut indices: Vec<usize> = (0..rows.len())
        .filter(|index| {
            states.has(rows[*index].mood) && (text.is_empty() || rows[*index].has(&text))
        })
        .collect();
    sort.order(rows, &mut indices);
    if is_reversed {
        indices.reverse();
    }
    indices
}
