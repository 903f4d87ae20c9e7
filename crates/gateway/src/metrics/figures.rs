//! Counts and durations of the calls of one server, and of each tool of the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use mainstay_core::message::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Failures, Histogram, Recent, Totals, window::CallWindow};

/// Maximum number of tools of one server that have their own series. Each series has some twenty
/// lines in `/metrics`, which a scraper must store.
const MAX_TOOLS: usize = 64;

/// The label for the calls of all other tools, and of names that no tool has.
const OTHER: &str = "other";

/// Counts and durations of the calls of one method, or of one tool.
#[derive(Debug, Default)]
pub struct Series {
    pub duration: Histogram,
    pub failures: Failures,
    /// Results with `isError` set.
    pub tool_errors: AtomicU64,
    pub request_bytes: AtomicU64,
    pub response_bytes: AtomicU64,
}

/// The tools that have been called and that their server offered at the first call. `None`: the
/// tool is counted in `other`.
type Tools = HashMap<Arc<str>, Option<Arc<Series>>>;

/// Counts and durations of a server's calls.
#[derive(Debug, Default)]
pub struct Figures {
    /// The whole map is replaced when a tool is called for the first time.
    tools: ArcSwap<Tools>,
    other: Arc<Series>,
    resources: Arc<Series>,
    prompts: Arc<Series>,
    /// Number of running calls that have not been sent yet.
    pub(super) waiting: AtomicI64,
    /// Number of running calls that were sent and not answered yet.
    pub(super) in_flight: AtomicI64,
    /// The time from the receipt of a call until it was sent, or until it ended unsent.
    pub queue: Histogram,
    /// The time from the sending of a call until its end.
    pub upstream: Histogram,
    /// Duration of the longest call that ended after the last reading.
    longest_micros: AtomicU64,
    /// Readings of the last minutes. Calls never lock it, only queries and the task that takes the
    /// readings.
    window: Mutex<CallWindow>,
}

impl Figures {
    pub fn waiting(&self) -> u64 {
        depth(&self.waiting)
    }

    pub fn in_flight(&self) -> u64 {
        depth(&self.in_flight)
    }

    /// All series that have calls, with the method and the tool. The tool is empty for methods other
    /// than `tools/call`.
    pub fn series(&self) -> Vec<(Method, Arc<str>, Arc<Series>)> {
        let tools = self.tools.load();
        let called = tools
            .iter()
            .filter_map(|(tool, series)| Some((tool, series.as_ref()?)))
            .map(|(tool, series)| (Method::ToolsCall, Arc::clone(tool), Arc::clone(series)));
        let other_series = [
            (Method::ToolsCall, OTHER, &self.other),
            (Method::ResourcesRead, "", &self.resources),
            (Method::PromptsGet, "", &self.prompts),
        ];
        let others = other_series
            .into_iter()
            .filter(|(.., series)| series.duration.read().count > 0)
            .map(|(method, tool, series)| (method, Arc::from(tool), Arc::clone(series)));
        let mut all: Vec<_> = called.chain(others).collect();
        all.sort_by(|one, other| (one.0.name(), &one.1).cmp(&(other.0.name(), &other.1)));
        all
    }

    /// The totals of all calls, and the calls of the last minute. `now` must not be earlier than the
    /// last reading.
    pub fn recent(&self, now: Instant) -> (Totals, Recent) {
        let window = self.window.lock();
        let mut totals = self.totals();
        totals.longest_micros = self.longest_micros.load(Relaxed);
        (totals, window.recent(now, &totals))
    }

    /// Adds a reading to the window. Must be called every [`STEP`](super::STEP).
    pub(super) fn take_reading(&self, now: Instant) {
        let mut window = self.window.lock();
        let mut totals = self.totals();
        totals.longest_micros = self.longest_micros.swap(0, Relaxed);
        window.read(now, &totals);
    }

    /// Updates the longest duration with the duration of a call.
    pub(super) fn record_longest(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if micros > self.longest_micros.load(Relaxed) {
            self.longest_micros.fetch_max(micros, Relaxed);
        }
    }

    /// The totals of all calls.
    fn totals(&self) -> Totals {
        let tools = self.tools.load();
        let mut totals = Totals::default();
        for series in tools
            .values()
            .flatten()
            .chain([&self.other, &self.resources, &self.prompts])
        {
            // Read the errors before the calls. A call is counted after its error, so there are
            // never more errors than calls.
            let failures: u64 = series.failures.read().map(|(_, count)| count).sum();
            totals.errors += failures + series.tool_errors.load(Relaxed);
            series.duration.add_to(&mut totals.durations);
        }
        totals.calls = totals.durations.iter().sum();
        totals
    }

    /// The series of a call. `is_offered` returns true if the server has a tool of this name, so that
    /// names that a client makes up get no series. It is used only for the first call of a tool.
    pub(super) fn series_of(
        &self,
        method: Method,
        tool: &str,
        is_offered: impl Fn(&str) -> bool,
    ) -> Arc<Series> {
        match method {
            Method::ResourcesRead => Arc::clone(&self.resources),
            Method::PromptsGet => Arc::clone(&self.prompts),
            _ => {
                let series = match self.tools.load().get(tool) {
                    Some(series) => series.clone(),
                    None => self.add_tool(tool, is_offered),
                };
                series.unwrap_or_else(|| Arc::clone(&self.other))
            }
        }
    }

    /// True if the series belongs to one tool.
    pub(super) fn is_series_of_tool(&self, series: &Arc<Series>) -> bool {
        let others = [&self.other, &self.resources, &self.prompts];
        !others.iter().any(|other| Arc::ptr_eq(other, series))
    }

    #[cold]
    fn add_tool(&self, tool: &str, is_offered: impl Fn(&str) -> bool) -> Option<Arc<Series>> {
        if tool == OTHER || !is_offered(tool) {
            return None;
        }
        self.tools.rcu(|tools| {
            let mut tools = Tools::clone(tools);
            let labels = |tools: &Tools| tools.values().flatten().count();
            if labels(&tools) >= MAX_TOOLS {
                // Remove tools that the server does not offer any more.
                tools.retain(|tool, _| is_offered(tool));
                if labels(&tools) < MAX_TOOLS {
                    // Forget the tools that found no room, so that they can get a series now.
                    tools.retain(|_, series| series.is_some());
                }
            }
            let has_room = labels(&tools) < MAX_TOOLS;
            tools
                .entry(Arc::from(tool))
                .or_insert_with(|| has_room.then(Arc::default));
            tools
        });
        self.tools.load().get(tool).cloned().flatten()
    }
}

/// The number of calls in this state. Can be off by one while a call changes its state.
fn depth(calls: &AtomicI64) -> u64 {
    u64::try_from(calls.load(Relaxed)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Method = Method::ToolsCall;

    #[test]
    fn the_number_of_labels_has_a_bound() {
        let figures = Figures::default();
        let tool = |number: usize| format!("tool_{number}");
        for number in 0..MAX_TOOLS * 2 {
            figures.series_of(CALL, &tool(number), |_| true);
        }
        let other = figures.series_of(CALL, &tool(MAX_TOOLS), |_| true);
        assert!(Arc::ptr_eq(&other, &figures.other));
        assert_eq!(figures.series().len(), MAX_TOOLS);
        let first = figures.series_of(CALL, &tool(0), |_| true);
        assert!(Arc::ptr_eq(
            &first,
            &figures.series_of(CALL, &tool(0), |_| true)
        ));
        assert!(!Arc::ptr_eq(
            &first,
            &figures.series_of(CALL, &tool(1), |_| true)
        ));
    }

    #[test]
    fn the_places_of_tools_that_are_gone_are_free() {
        let figures = Figures::default();
        for number in 0..MAX_TOOLS {
            figures.series_of(CALL, &format!("old_{number}"), |_| true);
        }
        let new = figures.series_of(CALL, "new", |tool| tool == "new");
        assert!(!Arc::ptr_eq(&new, &figures.other));
        assert_eq!(figures.series().len(), 1);
    }

    /// A tool that found no room gets a series when another tool's series is removed.
    #[test]
    fn who_found_no_place_is_not_without_one_for_ever() {
        let figures = Figures::default();
        for number in 0..MAX_TOOLS {
            figures.series_of(CALL, &format!("old_{number}"), |_| true);
        }
        let late = || figures.series_of(CALL, "late", |_| true);
        assert!(Arc::ptr_eq(&late(), &figures.other));
        let is_present = |tool: &str| ["new", "late"].contains(&tool);
        figures.series_of(CALL, "new", is_present);
        assert!(!Arc::ptr_eq(&late(), &figures.other));
        assert_eq!(figures.series().len(), 2);
    }

    #[test]
    fn what_a_client_makes_up_is_no_label() {
        let figures = Figures::default();
        for name in ["made up", OTHER] {
            let series = figures.series_of(CALL, name, |tool| tool == OTHER);
            assert!(Arc::ptr_eq(&series, &figures.other), "{name}");
        }
        assert!(figures.series().is_empty(), "nothing has ended");
        figures.other.duration.observe(std::time::Duration::ZERO);
        let all = figures.series();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].0, &*all[0].1), (CALL, OTHER));
    }
}
