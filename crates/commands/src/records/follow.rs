//! `mainstay records --follow`: calls as they end, and as they begin. The daemon is asked again and again for
//! what is new. Where nothing is, that is one page of the calls of the last seconds, which the journal finds by
//! their time; and while calls are open, a few of them by their numbers, or the list of all of them.

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
    when::When,
};
use mainstay_core::{
    display,
    record::{RecordId, Status},
};
use mainstay_platform::utc;
use tokio::time::{interval, sleep};

use super::{Records, StoreHost, by, follow_text::Searched, status, took};
use crate::watch::is_gone;

/// How often the daemon is asked.
const LOOK: Duration = Duration::from_millis(300);

/// A daemon that is gone is looked for so often.
const RETRY: Duration = Duration::from_secs(1);

/// Calls begin in about the order of their numbers.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// Records in a page.
pub(super) const PAGE: usize = 200;

/// So many open calls are asked for one by one, each by its number. Of more, the list of open calls tells which
/// have ended.
const FEW: usize = 8;

/// What was seen so far.
#[derive(Default)]
struct Seen {
    /// The newest call.
    newest: Option<RecordId>,
    /// Calls that have not ended, and when they began.
    open: BTreeMap<i64, SystemTime>,
    /// Those that were open before the first look are among them.
    has_earlier: bool,
    /// When the calls began that are looked for.
    since: Option<SystemTime>,
}

impl Records {
    pub(super) async fn follow(&self, host: &dyn StoreHost) -> Result<Exit, CommandError> {
        let mut seen = Seen {
            since: Some(self.since.map_or_else(SystemTime::now, When::at)),
            ..Seen::default()
        };
        let mut searched = self.text.is_some().then(|| Searched::new(self));
        let (mut was_there, mut gone) = (false, false);
        loop {
            let told = async |client: &Client| {
                let mut looks = interval(LOOK);
                loop {
                    match &mut searched {
                        Some(searched) => self.look_for_text(client, searched).await?,
                        None => self.look(client, &mut seen).await?,
                    }
                    (was_there, gone) = (true, false);
                    looks.tick().await;
                }
            };
            match self.daemon.with(host, told).await {
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

    /// Notes the calls that began earlier, and have not ended.
    async fn note_earlier(&self, client: &Client, seen: &mut Seen) -> Result<(), CommandError> {
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
            let calls = page.calls.iter();
            let earlier = calls.filter(|call| utc::parse(&call.started_at) < seen.since);
            seen.open.extend(earlier.filter_map(begun));
            before = page.next;
            if before.is_none() {
                seen.has_earlier = true;
                return Ok(());
            }
        }
    }

    /// Shows what is new since the last look.
    async fn look(&self, client: &Client, seen: &mut Seen) -> Result<(), CommandError> {
        if !seen.has_earlier {
            self.note_earlier(client, seen).await?;
        }
        let began = seen.since.and_then(|since| since.checked_sub(SLACK));
        // Those that are asked for from the beginning are not older.
        let since = if seen.newest.is_some() {
            began
        } else {
            seen.since
        };
        let mut new = Vec::new();
        let mut before = None;
        loop {
            let mut query = self.query(before.as_deref());
            // A call that is open has another status later.
            query.retain(|(name, _)| !matches!(*name, "status" | "since"));
            query.extend(since.map(|since| ("since", utc::rfc3339(since))));
            query.push(("limit", PAGE.to_string()));
            query.push(("count", "false".to_owned()));
            let page = client.call_records(&query).await?;
            let all = page.calls.len();
            let fresh = page.calls.into_iter().filter(|call| {
                let id: Option<RecordId> = call.id.parse().ok();
                id.is_some_and(|id| seen.newest.is_none_or(|newest| id.0 > newest.0))
            });
            let before_it = new.len();
            new.extend(fresh);
            before = page.next.filter(|_| new.len() - before_it == all);
            if before.is_none() {
                break;
            }
        }
        for id in self.maybe_ended(client, &seen.open).await? {
            match client.call_record(&id.to_string()).await {
                Ok(record) if record.call.status == Status::Open.as_str() => {}
                Ok(record) => {
                    seen.open.remove(&id);
                    self.tell(&record.call)?;
                }
                // It was too old to be kept.
                Err(ClientError::Refused { status, .. }) if status.as_u16() == 404 => {
                    seen.open.remove(&id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        for call in new.iter().rev() {
            let id: Option<RecordId> = call.id.parse().ok();
            let is_open = call.status == Status::Open.as_str();
            if let Some(id) = id {
                seen.newest = Some(id);
                if is_open {
                    seen.open.extend(begun(call));
                }
            }
            seen.since = utc::parse(&call.started_at).or(seen.since);
            if !is_open || self.begun {
                self.tell(call)?;
            }
        }
        Ok(())
    }

    /// Those of the open calls that may have ended.
    async fn maybe_ended(
        &self,
        client: &Client,
        open: &BTreeMap<i64, SystemTime>,
    ) -> Result<Vec<i64>, CommandError> {
        let mut ended = open.clone();
        let first = open.values().min().filter(|_| open.len() > FEW);
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
            for (id, _) in page.calls.iter().filter_map(begun) {
                ended.remove(&id);
            }
            before = page.next;
            if before.is_none() {
                return Ok(ended.into_keys().collect());
            }
        }
    }

    pub(super) fn tell(&self, call: &CallRecord) -> Result<(), CommandError> {
        if self
            .status
            .as_deref()
            .is_some_and(|wanted| wanted != call.status)
        {
            return Ok(());
        }
        if self.daemon.json {
            return output::json(call);
        }
        screen::escaped(&[line(call)])
    }
}

/// The number of a call, and when it began.
pub(super) fn begun(call: &CallRecord) -> Option<(i64, SystemTime)> {
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
        palette.paint(&part(&status(call)), Tone::of(&call.status)),
        took(call.duration_ms),
        part(&by(call)),
    ];
    let error = call.error.iter().map(|error| part(&error.message));
    parts
        .into_iter()
        .chain(error)
        .collect::<Vec<_>>()
        .join("  ")
}
