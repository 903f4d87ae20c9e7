//! Questions about records, and pages of them.

use std::time::SystemTime;

use mainstay_core::record::{Door, Record, RecordId, State, Status, TraceId};

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
    /// Each call that the rest of the filter lets through is read for it, so that a span of time makes it cheap.
    pub trace: Option<TraceId>,
    pub whose: Whose,
    /// When the call started; both included.
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
    /// A part of `server/tool`; ASCII letters match in either case.
    pub text: Option<String>,
    /// Only what was recorded before this one: [`Page::next`] of the page before.
    pub before: Option<RecordId>,
    /// Whether nobody asks how many there are: then a page costs what it holds, however many there are.
    pub uncounted: bool,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub calls: Vec<Record>,
    /// How many the filter lets through, wherever the page begins; how many were looked at if the filter is
    /// [uncounted](Filter::uncounted).
    pub total_count: u64,
    /// Whether older ones were left out.
    pub truncated: bool,
    /// Where the next page begins.
    pub next: Option<RecordId>,
}

/// Which calls are on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Counted by their numbers, of which few are left out.
    pub records: u64,
    /// When the oldest started.
    pub oldest: Option<SystemTime>,
}
