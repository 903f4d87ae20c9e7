//! `mainstay records --follow --text`. A call may match by its error, which exists only when the call has
//! ended. By then later calls may already be printed. So each poll reads all open calls, and searches the new
//! calls and those that have ended since the last poll. Without open or new calls, a poll is one request for
//! the newest call.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use mainstay_api::{CallRecord, Client};
use mainstay_command_line::{CommandError, when::TypedTime};
use mainstay_core::record::Status;
use mainstay_platform::utc;

use super::{
    Records,
    follow::{PAGE, SLACK, id_and_start},
};

/// The precision of times in records: milliseconds or finer.
const ROUNDING: Duration = Duration::from_millis(1);

/// The state of the polls: calls that earlier polls found.
pub(super) struct TextFollowState {
    /// Start of the period. An earlier call is printed only if it was open at the first poll.
    from: SystemTime,
    /// The id of the newest call at the last poll, whether it matched or not.
    newest: Option<String>,
    /// The start time of that call.
    since: SystemTime,
    /// Calls that had not ended, with their start times.
    open: BTreeMap<i64, SystemTime>,
    /// Printed calls that a search may find again, with their start times. The flag is true if the call had
    /// ended.
    printed: BTreeMap<i64, (SystemTime, bool)>,
}

impl TextFollowState {
    pub fn new(records: &Records) -> Self {
        let from = records.since.map_or_else(SystemTime::now, TypedTime::at);
        Self {
            from,
            newest: None,
            since: from,
            open: BTreeMap::new(),
            printed: BTreeMap::new(),
        }
    }
}

impl Records {
    /// Prints the calls that are new since the last poll and contain the text.
    pub(super) async fn look_for_text(
        &self,
        client: &Client,
        state: &mut TextFollowState,
    ) -> Result<(), CommandError> {
        let one = [("limit", "1".to_owned())];
        let newest = self.pages_of(client, &one, false, |_| false).await?;
        let newest = newest.into_iter().next();
        let id = newest.as_ref().map(|call| call.id.clone());
        let is_first = state.newest.is_none();
        if id.is_none() || id == state.newest && state.open.is_empty() {
            return Ok(());
        }
        // Read the open calls before the search. A call that ends in between is then found by at least one of
        // the two.
        let open = self.open_calls(client, state).await?;
        let since = if is_first {
            state.from
        } else {
            back(state.since, SLACK)
        };
        let query = [("since", utc::rfc3339(since)), ("limit", PAGE.to_string())];
        let printed = &state.printed;
        let is_new =
            |call: &CallRecord| id_and_start(call).is_none_or(|(id, _)| !printed.contains_key(&id));
        let found = self
            .pages_of(client, &query, true, |page| page.iter().all(is_new))
            .await?;
        for call in found.iter().rev() {
            let is_late = utc::parse(&call.started_at).is_none_or(|at| at >= state.from);
            if is_late {
                self.print_found(call, state)?;
            }
        }
        self.print_ended(client, state, &open).await?;

        let started = newest.and_then(|call| utc::parse(&call.started_at));
        state.since = started.unwrap_or(state.since).max(state.since);
        state.newest = id;
        let reach = back(state.since, 2 * SLACK);
        state
            .printed
            .retain(|id, (started_at, _)| *started_at >= reach || open.contains_key(id));
        state.open = open;
        Ok(())
    }

    /// Prints the matching calls that were open at the last poll and have ended since.
    async fn print_ended(
        &self,
        client: &Client,
        state: &mut TextFollowState,
        open: &BTreeMap<i64, SystemTime>,
    ) -> Result<(), CommandError> {
        let mut ended = state.open.clone();
        ended.retain(|id, _| !open.contains_key(id));
        let (Some(first), Some(last)) = (ended.values().min(), ended.values().max()) else {
            return Ok(());
        };
        let query = [
            ("since", utc::rfc3339(back(*first, ROUNDING))),
            ("until", utc::rfc3339(*last + ROUNDING)),
            ("limit", PAGE.to_string()),
        ];
        let found = self.pages_of(client, &query, true, |_| true).await?;
        let has_ended =
            |call: &&CallRecord| id_and_start(call).is_some_and(|(id, _)| ended.contains_key(&id));
        for call in found.iter().rev().filter(has_ended) {
            self.print_found(call, state)?;
        }
        Ok(())
    }

    /// Prints a call once after its end, and with `--begun` once after its start.
    fn print_found(
        &self,
        call: &CallRecord,
        state: &mut TextFollowState,
    ) -> Result<(), CommandError> {
        let Some((id, started_at)) = id_and_start(call) else {
            return Ok(());
        };
        let is_over = call.status != Status::Open.as_str();
        let before = state.printed.get(&id).map(|(_, was_over)| *was_over);
        if before == Some(true) || before == Some(is_over) {
            return Ok(());
        }
        state.printed.insert(id, (started_at, is_over));
        if is_over || self.prints_starts {
            self.print_call(call)?;
        }
        Ok(())
    }

    /// All open calls, with or without the text.
    async fn open_calls(
        &self,
        client: &Client,
        state: &TextFollowState,
    ) -> Result<BTreeMap<i64, SystemTime>, CommandError> {
        let mut query = vec![
            ("status", Status::Open.as_str().to_owned()),
            ("limit", PAGE.to_string()),
        ];
        if state.newest.is_some() {
            let first = state.open.values().min().unwrap_or(&state.since);
            let first = back(*first.min(&state.since), SLACK);
            query.push(("since", utc::rfc3339(first)));
        }
        let calls = self.pages_of(client, &query, false, |_| true).await?;
        Ok(calls.iter().filter_map(id_and_start).collect())
    }

    /// The matching calls of any status. Reads pages while `continues` returns true. Ignores the text unless
    /// `is_searched`.
    async fn pages_of(
        &self,
        client: &Client,
        more: &[(&'static str, String)],
        is_searched: bool,
        continues: impl Fn(&[CallRecord]) -> bool,
    ) -> Result<Vec<CallRecord>, CommandError> {
        let (mut calls, mut before) = (Vec::new(), None);
        loop {
            let mut query = self.query(before.as_deref());
            // Do not filter by status here, because the status of an open call changes.
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.retain(|(name, _)| is_searched || *name != "text");
            query.extend_from_slice(more);
            query.push(("count", "false".to_owned()));
            let page = client.call_records(&query).await?;
            before = page.next.filter(|_| continues(&page.calls));
            calls.extend(page.calls);
            if before.is_none() {
                return Ok(calls);
            }
        }
    }
}

fn back(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH)
}
