//! Queries about records, and pages of records.

use std::time::SystemTime;

use mainstay_core::record::{Door, Record, RecordId, State, Status, TraceId};

use super::history::Gap;

/// A filter of records. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Selects calls to any of these servers. An empty list selects all, here and in other lists.
    pub servers: Vec<String>,
    /// Original names of tools or prompts, URIs, or `server/tool`.
    pub tools: Vec<String>,
    pub statuses: Vec<Status>,
    pub states: Vec<State>,
    pub door: Option<Door>,
    /// The names of clients, as they declared themselves.
    pub clients: Vec<String>,
    pub session: Option<String>,
    /// A filter by trace reads calls: see [`RecordFilter::reads_calls`].
    pub trace: Option<TraceId>,
    pub principal: PrincipalFilter,
    /// Earliest start of a call, inclusive. `until` is the latest, inclusive.
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
    /// A part of `server/tool`, of the error's kind or message, or of the arguments in the database
    /// (up to 64 KiB). The case of ASCII letters is ignored. The filter reads calls: see
    /// [`RecordFilter::reads_calls`].
    pub text: Option<String>,
    /// Selects records older than this one: the [`RecordPage::next`] of the previous page.
    pub before: Option<RecordId>,
    /// True if the total count is not needed. The cost of a page is then independent of the number
    /// of records.
    pub uncounted: bool,
}

impl RecordFilter {
    /// True if the filter must read each call that passes its other conditions. Such a search is
    /// [uncounted](RecordFilter::uncounted) and ends after a time limit: see
    /// [`RecordPage::searched_back_to`].
    pub fn reads_calls(&self) -> bool {
        self.trace.is_some() || self.text.as_ref().is_some_and(|text| !text.is_empty())
    }
}

/// Selects calls by the principal of their token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrincipalFilter {
    #[default]
    Anybodys,
    /// Calls of this principal. `None` selects calls without a token.
    Of(Option<String>),
}

/// A page of records, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    pub calls: Vec<Record>,
    /// Number of records that match the filter, on all pages. For an
    /// [uncounted](RecordFilter::uncounted) filter, the number of examined records.
    pub total_count: u64,
    /// True if older records were left out.
    pub truncated: bool,
    /// The value of [`RecordFilter::before`] for the next page. `None` on the last page.
    pub next: Option<RecordId>,
    /// The start of the last examined call, if the time limit ended the search before the page was
    /// full. Earlier calls, from `next` on, were not searched.
    pub searched_back_to: Option<SystemTime>,
    /// Gaps between these calls, oldest first.
    pub gaps: Vec<Gap>,
}

/// The number and age of recorded calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsSpan {
    /// Number of ids from the oldest call to the newest. Skipped ids are counted.
    pub records: u64,
    /// Start of the oldest call.
    pub oldest: Option<SystemTime>,
}
