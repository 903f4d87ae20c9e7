//! `mainstay records --follow --text`. A call that fits by its error fits once it has ended, and others that began
//! later may have been shown by then. So each look notes all calls that are open, and searches among those that
//! have ended since, and among the new ones. Where nothing is new and nothing is open, a look is one question for
//! the newest call.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use mainstay_api::{CallRecord, Client};
use mainstay_command_line::{CommandError, when::When};
use mainstay_core::record::Status;
use mainstay_platform::utc;

use super::{
    Records,
    follow::{PAGE, SLACK, begun},
};

/// Times of records are written to the millisecond or finer.
const ROUNDING: Duration = Duration::from_millis(1);

/// The calls that earlier looks found.
pub(super) struct Searched {
    /// Calls that began earlier are shown only if they were open at the first look.
    from: SystemTime,
    /// The newest call of all, as the last look found it.
    newest: Option<String>,
    /// When that call began.
    since: SystemTime,
    /// Calls that had not ended, and when they began.
    open: BTreeMap<i64, SystemTime>,
    /// Calls that were shown and may be found again, when they began, and whether they had ended.
    shown: BTreeMap<i64, (SystemTime, bool)>,
}

impl Searched {
    pub fn new(records: &Records) -> Self {
        let from = records.since.map_or_else(SystemTime::now, When::at);
        Self {
            from,
            newest: None,
            since: from,
            open: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }
}

impl Records {
    /// Shows what is new since the last look.
    pub(super) async fn look_for_text(
        &self,
        client: &Client,
        seen: &mut Searched,
    ) -> Result<(), CommandError> {
        let one = [("limit", "1".to_owned())];
        let newest = self.pages_of(client, &one, false, |_| false).await?;
        let newest = newest.into_iter().next();
        let id = newest.as_ref().map(|call| call.id.clone());
        let is_first = seen.newest.is_none();
        if id.is_none() || id == seen.newest && seen.open.is_empty() {
            return Ok(());
        }
        // Before the search: what has ended by then is found by one of both.
        let open = self.open_calls(client, seen).await?;
        let since = if is_first {
            seen.from
        } else {
            back(seen.since, SLACK)
        };
        let query = [("since", utc::rfc3339(since)), ("limit", PAGE.to_string())];
        let shown = &seen.shown;
        let is_new = |call: &CallRecord| begun(call).is_none_or(|(id, _)| !shown.contains_key(&id));
        let found = self
            .pages_of(client, &query, true, |page| page.iter().all(is_new))
            .await?;
        for call in found.iter().rev() {
            let is_late = utc::parse(&call.started_at).is_none_or(|at| at >= seen.from);
            if is_late {
                self.show_found(call, seen)?;
            }
        }
        self.show_ended(client, seen, &open).await?;

        let started = newest.and_then(|call| utc::parse(&call.started_at));
        seen.since = started.unwrap_or(seen.since).max(seen.since);
        seen.newest = id;
        let reach = back(seen.since, 2 * SLACK);
        seen.shown
            .retain(|id, (began, _)| *began >= reach || open.contains_key(id));
        seen.open = open;
        Ok(())
    }

    /// Shows those of the calls that were open at the last look, are not any more, and fit.
    async fn show_ended(
        &self,
        client: &Client,
        seen: &mut Searched,
        open: &BTreeMap<i64, SystemTime>,
    ) -> Result<(), CommandError> {
        let mut ended = seen.open.clone();
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
        let found = found.iter().rev();
        for call in found.filter(|call| begun(call).is_some_and(|(id, _)| ended.contains_key(&id)))
        {
            self.show_found(call, seen)?;
        }
        Ok(())
    }

    /// Shows a call once when it ends, and once when it begins if that is wanted.
    fn show_found(&self, call: &CallRecord, seen: &mut Searched) -> Result<(), CommandError> {
        let Some((id, began)) = begun(call) else {
            return Ok(());
        };
        let is_over = call.status != Status::Open.as_str();
        let before = seen.shown.get(&id).map(|(_, was_over)| *was_over);
        if before == Some(true) || before == Some(is_over) {
            return Ok(());
        }
        seen.shown.insert(id, (began, is_over));
        if is_over || self.begun {
            self.tell(call)?;
        }
        Ok(())
    }

    /// All calls that are open, whatever they say.
    async fn open_calls(
        &self,
        client: &Client,
        seen: &Searched,
    ) -> Result<BTreeMap<i64, SystemTime>, CommandError> {
        let mut query = vec![
            ("status", Status::Open.as_str().to_owned()),
            ("limit", PAGE.to_string()),
        ];
        if seen.newest.is_some() {
            let first = seen.open.values().min().unwrap_or(&seen.since);
            let first = back(*first.min(&seen.since), SLACK);
            query.push(("since", utc::rfc3339(first)));
        }
        let calls = self.pages_of(client, &query, false, |_| true).await?;
        Ok(calls.iter().filter_map(begun).collect())
    }

    /// The calls that fit, page by page, as long as the pages are `wanted`; whatever their status, and without
    /// `is_searched` whatever they say.
    async fn pages_of(
        &self,
        client: &Client,
        more: &[(&'static str, String)],
        is_searched: bool,
        wanted: impl Fn(&[CallRecord]) -> bool,
    ) -> Result<Vec<CallRecord>, CommandError> {
        let (mut calls, mut before) = (Vec::new(), None);
        loop {
            let mut query = self.query(before.as_deref());
            // A call that is open has another status later.
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.retain(|(name, _)| is_searched || *name != "text");
            query.extend_from_slice(more);
            query.push(("count", "false".to_owned()));
            let page = client.call_records(&query).await?;
            before = page.next.filter(|_| wanted(&page.calls));
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
