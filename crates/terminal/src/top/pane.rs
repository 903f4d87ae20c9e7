//! The pane below the servers: the log, the events, the calls or the status of the selected server.

use std::collections::VecDeque;

use mainstay_api::{CallRecord, Event, LogLine};
use mainstay_command_line::{happened, output, time};

/// The maximum number of lines in the pane. More than fit on a screen.
pub const LINES: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Log,
    Events,
    Calls,
    /// The complete status. It may be longer than the server's line.
    Status,
}

impl Topic {
    pub const ALL: [Self; 4] = [Self::Log, Self::Events, Self::Calls, Self::Status];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Events => "events",
            Self::Calls => "calls",
            Self::Status => "status",
        }
    }

    pub const fn next(self, is_back: bool) -> Self {
        match (self, is_back) {
            (Self::Log, false) | (Self::Calls, true) => Self::Events,
            (Self::Events, false) | (Self::Status, true) => Self::Calls,
            (Self::Calls, false) | (Self::Log, true) => Self::Status,
            (Self::Status, false) | (Self::Events, true) => Self::Log,
        }
    }

    /// The text that an empty pane shows.
    pub const fn nothing(self) -> &'static str {
        match self {
            Self::Log => "it has not said anything",
            Self::Events => "nothing has happened to it lately",
            Self::Calls => "no calls on record",
            Self::Status => "no server is chosen",
        }
    }
}

/// An escaped line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneLine {
    pub text: String,
    pub is_bad: bool,
}

impl PaneLine {
    fn new(text: &str, is_bad: bool) -> Self {
        Self {
            text: output::one_line(text).into_owned(),
            is_bad,
        }
    }

    /// A line with a remark of Mainstay itself.
    pub fn remark(text: &str) -> Self {
        Self::new(text, true)
    }

    pub fn of_log(line: &LogLine) -> Self {
        let (at, source) = (time::local(&line.time), &line.source);
        // Replace tabs, because they would look like columns.
        let text = line.text.replace('\t', "  ");
        Self::new(&format!("{at} {source:8} {text}"), false)
    }

    pub fn of_event(event: &Event) -> Self {
        let (word, detail) = happened::words(event);
        let is_bad = matches!(
            word,
            "lost" | "failed" | "crashed" | "degraded" | "refused" | "error"
        );
        let at = time::local(&event.created_at);
        Self::new(format!("{at} {word:12} {detail}").trim_end(), is_bad)
    }

    pub fn of_call(call: &CallRecord) -> Self {
        let at = time::local(&call.started_at);
        let duration = call
            .duration_ms
            .map_or_else(String::new, super::columns::millis);
        let error = call.error.as_ref().map_or("", |error| &*error.message);
        let by = call.client.as_ref().map_or("", |client| &*client.name);
        let text = format!(
            "{at} {:8} {duration:>6}  {}  {by}  {error}",
            call.status, call.tool
        );
        Self::new(
            text.trim_end(),
            call.status != "ok" && call.status != "open",
        )
    }
}

#[derive(Debug)]
pub struct Pane {
    pub topic: Topic,
    /// The topic and server of the lines. `None` until the selection is at rest.
    pub followed: Option<(Topic, String)>,
    pub lines: VecDeque<PaneLine>,
    /// True if the first answer has arrived.
    pub is_loaded: bool,
}

impl Pane {
    pub fn new(topic: Topic) -> Self {
        Self {
            topic,
            followed: None,
            lines: VecDeque::new(),
            is_loaded: false,
        }
    }

    pub fn begin(&mut self, target: (Topic, String)) {
        self.followed = Some(target);
        self.lines.clear();
        self.is_loaded = false;
    }

    /// Adds lines. If `is_whole`, replaces all lines.
    pub fn add(&mut self, lines: Vec<PaneLine>, is_whole: bool) {
        if is_whole {
            self.lines.clear();
        }
        self.is_loaded = true;
        self.lines.extend(lines);
        let surplus = self.lines.len().saturating_sub(LINES);
        self.lines.drain(..surplus);
    }
}
