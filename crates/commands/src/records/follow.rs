//! `mainstay records --follow`: prints calls when they end, and with `--begun` also when they begin. Polls
//! the daemon for new calls. Each poll reads the calls of the last seconds, which the journal finds by their
//! time. While calls are open, a poll also reads a few of them by id, or the list of all open calls.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use mainstay_api::{CallRecord, Client, ClientError};
use mainstay_command_line::{
    CommandError, Exit, output,
    screen::{self, complain},
    style::Tone,
    time::local,
    when::TypedTime,
};
use mainstay_core::{
    display,
    record::{RecordId, Status},
};
use mainstay_platform::utc;
use tokio::time::{interval, sleep};

use super::{Records, StoreHost, by, duration_text, follow_text::TextFollowState, status};
use crate::watch::is_gone;

/// The interval between two polls of the daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The interval between two attempts to reach a daemon that has stopped.
const RETRY: Duration = Duration::from_secs(1);

/// The tolerance for calls whose ids and start times have a different order.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// The number of records in a page.
pub(super) const PAGE: usize = 200;

/// The maximum number of open calls that are read one by one. Above it, one request for the list of open
/// calls shows which calls have ended.
const MAX_SINGLE_READS: usize = 8;

/// The state of the polls.
#[derive(Default)]
struct FollowState {
    /// The id of the newest call so far.
    newest: Option<RecordId>,
    /// Calls that have not ended, with their start times.
    open: BTreeMap<i64, SystemTime>,
    /// True if `open` holds the calls that were open before the first poll.
    has_earlier: bool,
    /// The start time of the oldest call that may be new.
    since: Option<SystemTime>,
}

impl Records {
    pub(super) async fn follow(&self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let mut state = FollowState {
            since: Some(self.since.map_or_else(SystemTime::now, TypedTime::at)),
            ..FollowState::default()
        };
        let mut searched = self.text.is_some().then(|| TextFollowState::new(self));
        let (mut was_there, mut gone) = (false, false);
        loop {
            let poll = async |client: &Client| {
                let mut looks = interval(POLL_INTERVAL);
                loop {
                    match &mut searched {
                        Some(searched) => self.look_for_text(client, searched).await?,
                        None => self.look(client, &mut state).await?,
                    }
                    (was_there, gone) = (true, false);
                    looks.tick().await;
                }
            };
            match self.daemon.with(host, poll).await {
                Ok(()) => {}
                Err(CommandError::Client(error)) if was_there && is_gone(&error) => {}
                Err(error) => return Err(error),
            }
            if !std::mem::replace(&mut gone, true) {
                complain("the daemon is gone; waiting for it");
            }
            sleep(RETRY).await;
        }
    }

    /// Adds the calls that were open before the first poll to the state.
    async fn add_earlier(
        &self,
        client: &Client,
        state: &mut FollowState,
    ) -> Result<(), CommandError> {
        let mut before = None;
        loop {
            let mut query = self.query(before.as_deref());
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.extend([
                ("status", Status::Open.as_str().to_owned()),
                ("limit", PAGE.to_string()),
                ("count", "false".to_owned()),
            ]);
            let page = client.call_records(&query).await?;
            let earlier = page
                .calls
                .iter()
                .filter(|call| utc::parse(&call.started_at) < state.since);
            state.open.extend(earlier.filter_map(id_and_start));
            before = page.next;
            if before.is_none() {
                state.has_earlier = true;
                return Ok(());
            }
        }
    }

    /// Prints the calls that are new since the last poll.
    async fn look(&self, client: &Client, state: &mut FollowState) -> Result<(), CommandError> {
        if !state.has_earlier {
            self.add_earlier(client, state).await?;
        }
        let earliest = state.since.and_then(|since| since.checked_sub(SLACK));
        // The first poll reads exactly the requested period.
        let since = if state.newest.is_some() {
            earliest
        } else {
            state.since
        };
        let mut new = Vec::new();
        let mut before = None;
        loop {
            let mut query = self.query(before.as_deref());
            // Apply the filter by status later, because the status of an open call changes.
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.extend(since.map(|since| ("since", utc::rfc3339(since))));
            query.push(("limit", PAGE.to_string()));
            query.push(("count", "false".to_owned()));
            let page = client.call_records(&query).await?;
            let all = page.calls.len();
            let fresh = page.calls.into_iter().filter(|call| {
                let id: Option<RecordId> = call.id.parse().ok();
                id.is_some_and(|id| state.newest.is_none_or(|newest| id.0 > newest.0))
            });
            let count_before = new.len();
            new.extend(fresh);
            before = page.next.filter(|_| new.len() - count_before == all);
            if before.is_none() {
                break;
            }
        }
        for id in self.maybe_ended(client, &state.open).await? {
            match client.call_record(&id.to_string()).await {
                Ok(record) if record.call.status == Status::Open.as_str() => {}
                Ok(record) => {
                    state.open.remove(&id);
                    self.print_call(&record.call)?;
                }
                Err(ClientError::Refused { status, .. }) if status.as_u16() == 404 => {
                    state.open.remove(&id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        for call in new.iter().rev() {
            let id: Option<RecordId> = call.id.parse().ok();
            let is_open = call.status == Status::Open.as_str();
            if let Some(id) = id {
                state.newest = Some(id);
                if is_open {
                    state.open.extend(id_and_start(call));
                }
            }
            state.since = utc::parse(&call.started_at).or(state.since);
            if !is_open || self.prints_starts {
                self.print_call(call)?;
            }
        }
        Ok(())
    }

    /// The ids of open calls that may have ended.
    async fn maybe_ended(
        &self,
        client: &Client,
        open: &BTreeMap<i64, SystemTime>,
    ) -> Result<Vec<i64>, CommandError> {
        let mut ended = open.clone();
        let first = open
            .values()
            .min()
            .filter(|_| open.len() > MAX_SINGLE_READS);
        let Some(since) = first.and_then(|first| first.checked_sub(SLACK)) else {
            return Ok(ended.into_keys().collect());
        };
        let mut before = None;
        loop {
            let mut query = self.query(before.as_deref());
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.extend([
                ("status", Status::Open.as_str().to_owned()),
                ("since", utc::rfc3339(since)),
                ("limit", PAGE.to_string()),
                ("count", "false".to_owned()),
            ]);
            let page = client.call_records(&query).await?;
            for (id, _) in page.calls.iter().filter_map(id_and_start) {
                ended.remove(&id);
            }
            before = page.next;
            if before.is_none() {
                return Ok(ended.into_keys().collect());
            }
        }
    }

    pub(super) fn print_call(&self, call: &CallRecord) -> Result<(), CommandError> {
        if self
            .status
            .as_deref()
            .is_some_and(|status| status != call.status)
        {
            return Ok(());
        }
        if self.daemon.json {
            return output::json(call);
        }
        screen::escaped(&[line(call)])
    }
}

/// The id of a call, and its start time.
pub(super) fn id_and_start(call: &CallRecord) -> Option<(i64, SystemTime)> {
    let id: RecordId = call.id.parse().ok()?;
    Some((id.0, utc::parse(&call.started_at)?))
}

/// `14:03:12.345  4711  files/read  ok  12 ms  claude-code`
fn line(call: &CallRecord) -> String {
    let part = |text: &str| display::line(text).into_owned();
    let palette = screen::palette();
    let parts = [
        local(&call.started_at),
        part(&call.id),
        part(&call.name),
        palette.paint(&part(&status(call)), Tone::for_status(&call.status)),
        duration_text(call.duration_ms),
        part(&by(call)),
    ];
    let error_message = call.error.iter().map(|error| part(&error.message));
    parts
        .into_iter()
        .chain(error_message)
        .collect::<Vec<_>>()
        .join("  ")
}
