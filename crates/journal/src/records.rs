//! Questions about records, and pages of them.

use std::time::SystemTime;

use mainstay_core::record::{Door, Record, RecordId, State, Status, TraceId};

use super::history::Gap;

/// What records are asked for; nothing asks for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these; as in all lists, none asks for all.
    pub servers: Vec<String>,
    /// Servers' own names of tools or prompts, URIs, or `server/tool`.
    pub tools: Vec<String>,
    pub statuses: Vec<Status>,
    pub states: Vec<State>,
    pub door: Option<Door>,
    /// The names of clients, as they declared themselves.
    pub clients: Vec<String>,
    pub session: Option<String>,
    /// Calls are read for it: see [`Filter::reads_calls`].
    pub trace: Option<TraceId>,
    pub whose: Whose,
    /// When the call started; both included.
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
    /// A part of `server/tool`, of the error's kind or message, or of the arguments as they are kept in the
    /// database (up to 64 KiB); ASCII letters match in either case. Calls are read for it: see
    /// [`Filter::reads_calls`].
    pub text: Option<String>,
    /// Only what was recorded before this one: [`Page::next`] of the page before.
    pub before: Option<RecordId>,
    /// Whether nobody asks how many there are: then a page costs what it holds, however many there are.
    pub uncounted: bool,
}

impl Filter {
    /// Whether each call that the rest of the filter lets through has to be read. Such a search is
    /// [uncounted](Filter::uncounted) and ends after some time: see [`Page::searched_back_to`].
    pub fn reads_calls(&self) -> bool {
        self.trace.is_some() || self.text.as_ref().is_some_and(|text| !text.is_empty())
    }
}

/// By whose token calls came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    #[default]
    Anybodys,
    /// `None`: without a token.
    Of(Option<String>),
}

/// Records, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub calls: Vec<Record>,
    /// How many the filter lets through, wherever the page begins; how many were looked at if the filter is
    /// [uncounted](Filter::uncounted).
    pub total_count: u64,
    /// Whether older ones were left out.
    pub truncated: bool,
    /// Where the next page begins.
    pub next: Option<RecordId>,
    /// When the last call started that a search looked at, where its time was over before the page was full. Those
    /// before it, from `next` on, were not searched.
    pub searched_back_to: Option<SystemTime>,
    /// Times of which calls are missing among these, the oldest first.
    pub gaps: Vec<Gap>,
}

/// Which calls are on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Counted by their numbers, of which few are left out.
    pub records: u64,
    /// When the oldest started.
    pub oldest: Option<SystemTime>,
}
