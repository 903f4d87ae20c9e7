//! The figures of one server, and of each of its tools.

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

use super::{Failures, Histogram, Recent, Totals, window::Window};

/// Tools of one server that have figures of their own. Each is some twenty lines of `/metrics`, which a
/// scraper has to store. A server with more tools is mostly described by its busiest ones.
const MAX_TOOLS: usize = 64;

/// The label of all other tools together, and of names that no tool has.
const OTHER: &str = "other";

/// Figures of the calls of one method and, for `tools/call`, of one tool.
#[derive(Debug, Default)]
pub struct Series {
    pub duration: Histogram,
    pub failures: Failures,
    /// Results that say that they are errors.
    pub tool_errors: AtomicU64,
    pub request_bytes: AtomicU64,
    pub response_bytes: AtomicU64,
}

/// The tools that have been called, all of which their server has or had; `None` is counted with the
/// others.
type Tools = HashMap<Arc<str>, Option<Arc<Series>>>;

/// What is counted of a server's calls.
#[derive(Debug, Default)]
pub struct Figures {
    /// Replaced as a whole when a tool is called for the first time.
    tools: ArcSwap<Tools>,
    other: Arc<Series>,
    resources: Arc<Series>,
    prompts: Arc<Series>,
    /// Calls that have not been sent.
    pub(super) waiting: AtomicI64,
    /// Calls that the server has.
    pub(super) in_flight: AtomicI64,
    /// How long calls waited for the server to be there.
    pub queue: Histogram,
    /// How long the server had them.
    pub upstream: Histogram,
    /// The longest call that ended after the last reading.
    longest_micros: AtomicU64,
    /// What was read of them before. Locked by the task that reads and by those who ask, never by calls.
    window: Mutex<Window>,
}

impl Figures {
    pub fn waiting(&self) -> u64 {
        depth(&self.waiting)
    }

    pub fn in_flight(&self) -> u64 {
        depth(&self.in_flight)
    }

    /// Every series with its method and its tool, which other methods have not. What was never called
    /// has none.
    pub fn series(&self) -> Vec<(Method, Arc<str>, Arc<Series>)> {
        let tools = self.tools.load();
        let tools = tools
            .iter()
            .filter_map(|(tool, series)| Some((tool, series.as_ref()?)))
            .map(|(tool, series)| (Method::ToolsCall, Arc::clone(tool), Arc::clone(series)));
        let rest = [
            (Method::ToolsCall, OTHER, &self.other),
            (Method::ResourcesRead, "", &self.resources),
            (Method::PromptsGet, "", &self.prompts),
        ];
        let rest = rest
            .into_iter()
            .filter(|(.., series)| series.duration.read().count > 0)
            .map(|(method, tool, series)| (method, Arc::from(tool), Arc::clone(series)));
        let mut all: Vec<_> = tools.chain(rest).collect();
        all.sort_by(|one, other| (one.0.name(), &one.1).cmp(&(other.0.name(), &other.1)));
        all
    }

    /// What was counted of all calls, and what of it in the last minute. `now` is not earlier than the last
    /// reading.
    pub fn recent(&self, now: Instant) -> (Totals, Recent) {
        let window = self.window.lock();
        let mut totals = self.totals();
        totals.longest_micros = self.longest_micros.load(Relaxed);
        (totals, window.recent(now, &totals))
    }

    /// Reads what was counted, for the last minutes. Due every [`STEP`](super::STEP).
    pub(super) fn take_reading(&self, now: Instant) {
        let mut window = self.window.lock();
        let mut totals = self.totals();
        totals.longest_micros = self.longest_micros.swap(0, Relaxed);
        window.read(now, &totals);
    }

    /// A call has taken so long.
    pub(super) fn keep_longest(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if micros > self.longest_micros.load(Relaxed) {
            self.longest_micros.fetch_max(micros, Relaxed);
        }
    }

    /// What was counted of all calls.
    fn totals(&self) -> Totals {
        let tools = self.tools.load();
        let tools = tools.values().flatten();
        let mut totals = Totals::default();
        for series in tools.chain([&self.other, &self.resources, &self.prompts]) {
            // Before the calls, each of which is counted after its error.
            let failures: u64 = series.failures.read().map(|(_, count)| count).sum();
            totals.errors += failures + series.tool_errors.load(Relaxed);
            series.duration.add_to(&mut totals.durations);
        }
        totals.calls = totals.durations.iter().sum();
        totals
    }

    /// The series that a call belongs to; `is_offered` says whether the server has a tool of a name,
    /// and is asked when that is called for the first time: what a client makes up has no series.
    pub(super) fn of(
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
                    Some(known) => known.clone(),
                    None => self.first(tool, is_offered),
                };
                series.unwrap_or_else(|| Arc::clone(&self.other))
            }
        }
    }

    /// Whether a series is a tool's own.
    pub(super) fn is_of_tool(&self, series: &Arc<Series>) -> bool {
        let rest = [&self.other, &self.resources, &self.prompts];
        !rest.iter().any(|rest| Arc::ptr_eq(rest, series))
    }

    #[cold]
    fn first(&self, tool: &str, is_offered: impl Fn(&str) -> bool) -> Option<Arc<Series>> {
        if tool == OTHER || !is_offered(tool) {
            return None;
        }
        self.tools.rcu(|tools| {
            let mut tools = Tools::clone(tools);
            let labels = |tools: &Tools| tools.values().flatten().count();
            if labels(&tools) >= MAX_TOOLS {
                // A server that changes its tools does not fill the places with those that are gone.
                tools.retain(|tool, _| is_offered(tool));
                if labels(&tools) < MAX_TOOLS {
                    // A tool without a place may ask for one again.
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

/// A reader between two steps of a call may see one of them.
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
            figures.of(CALL, &tool(number), |_| true);
        }
        let other = figures.of(CALL, &tool(MAX_TOOLS), |_| true);
        assert!(Arc::ptr_eq(&other, &figures.other));
        assert_eq!(figures.series().len(), MAX_TOOLS);
        let first = figures.of(CALL, &tool(0), |_| true);
        assert!(Arc::ptr_eq(&first, &figures.of(CALL, &tool(0), |_| true)));
        assert!(!Arc::ptr_eq(&first, &figures.of(CALL, &tool(1), |_| true)));
    }

    #[test]
    fn the_places_of_tools_that_are_gone_are_free() {
        let figures = Figures::default();
        for number in 0..MAX_TOOLS {
            figures.of(CALL, &format!("old_{number}"), |_| true);
        }
        let new = figures.of(CALL, "new", |tool| tool == "new");
        assert!(!Arc::ptr_eq(&new, &figures.other));
        assert_eq!(figures.series().len(), 1);
    }

    /// A tool that came when there was no place has one of those that become free.
    #[test]
    fn who_found_no_place_is_not_without_one_for_ever() {
        let figures = Figures::default();
        for number in 0..MAX_TOOLS {
            figures.of(CALL, &format!("old_{number}"), |_| true);
        }
        let late = || figures.of(CALL, "late", |_| true);
        assert!(Arc::ptr_eq(&late(), &figures.other));
        let stays = |tool: &str| ["new", "late"].contains(&tool);
        figures.of(CALL, "new", stays);
        assert!(!Arc::ptr_eq(&late(), &figures.other));
        assert_eq!(figures.series().len(), 2);
    }

    #[test]
    fn what_a_client_makes_up_is_no_label() {
        let figures = Figures::default();
        for name in ["made up", OTHER] {
            let series = figures.of(CALL, name, |tool| tool == OTHER);
            assert!(Arc::ptr_eq(&series, &figures.other), "{name}");
        }
        assert!(figures.series().is_empty(), "nothing has ended");
        figures.other.duration.observe(std::time::Duration::ZERO);
        let all = figures.series();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].0, &*all[0].1), (CALL, OTHER));
    }
}
