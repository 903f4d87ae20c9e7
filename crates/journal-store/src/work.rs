//! Writes calls: tracks incomplete ones, and makes a transaction for each turn.

use std::{
    mem,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime},
};

use mainstay_core::record::{Cid, State};
use mainstay_journal::{
    Gap, Mark, NotWritten,
    store::{Extras, JournalQueue, RecordedCall, Rest, Waiter},
};

use super::{
    StoreError,
    batch::{Batch, WrittenCall},
    database::Database,
    gaps, history,
    objects::Failed,
    retention::Retention,
};

/// Age at which an open call is written, so that it is recorded even if Mainstay is killed. Such
/// long calls are few, and cost a second write.
const OPEN_WRITE_DELAY: Duration = Duration::from_millis(250);
/// Time between two writes of statistics. Each touches two rows for every called tool.
const ROLLUP_INTERVAL: Duration = Duration::from_secs(1);
/// Number of transactions between two checks of the log's length. A transaction usually adds a
/// dozen pages.
const TURNS_BETWEEN_CHECKS: u32 = 16;
/// Time between two attempts to write data after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Approximate size of a call's record without its arguments and result, in bytes.
const RECORD_BYTES: u64 = 512;

/// Number of calls that are written without a pause if no caller waits for them. They take about
/// 0.1 ms. Then the thread yields, so that calls in progress are not delayed by records.
const CALLS_PER_YIELD: usize = 16;
/// Maximum time for which a turn yields. Records must also be written on a busy machine.
const YIELD_TIME_LIMIT: Duration = Duration::from_millis(20);

/// The pace of the writes of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TurnPace {
    /// A caller waits.
    Swift,
    /// No caller waits, so other threads run first.
    Polite,
}

#[derive(Debug)]
pub struct Work {
    database: Database,
    retention: Retention,
    queue: Arc<JournalQueue>,
    /// Calls that are not completely written.
    tracked: Vec<Tracked>,
    rolled_up: Instant,
    /// Transactions since the last check of the log, and the bytes that they wrote.
    turns: u32,
    logged: u64,
    /// The error that makes this journal unwritable.
    broken: Option<Broken>,
    /// A gap that is not written yet.
    gap: Option<Gap>,
    /// Calls that were dropped before `looked_at` and are part of a gap.
    dropped: u64,
    looked_at: SystemTime,
    /// Time of the last attempt to write `owed` data.
    tried: Option<Instant>,
    /// True after failed maintenance. The failure is logged once, until maintenance succeeds.
    neglected: bool,
}

/// An error that makes the journal's files unusable.
pub struct JournalTrouble {
    pub error_text: String,
    /// True if the remaining files are damaged as well.
    pub is_damage: bool,
}

/// The error that revealed the damage of the journal.
#[derive(Debug)]
struct Broken {
    error_text: String,
    error: NotWritten,
}

impl Broken {
    fn from_error(error: Failed) -> Self {
        Self {
            error_text: error.to_string(),
            error: NotWritten::new(error),
        }
    }
}

#[derive(Debug)]
struct Tracked {
    call: Arc<RecordedCall>,
    /// The row of a call that was written as open.
    row: Option<WrittenCall>,
    /// True when the call is completely written.
    done: bool,
}

/// The write of a tracked call in one transaction.
struct Step {
    index: usize,
    state: State,
    rest: Rest,
}

impl Step {
    /// Approximate size of the write, in bytes.
    fn bytes(&self) -> u64 {
        RECORD_BYTES + self.rest.bytes() as u64
    }
}

/// The results of a transaction.
struct Written {
    /// The row of each call.
    rows: Vec<WrittenCall>,
    kept_cids: Vec<Cid>,
}

impl Work {
    pub fn new(database: Database, queue: Arc<JournalQueue>) -> Result<Self, StoreError> {
        let retention = Retention::new(&database)?;
        queue.tally.bytes.store(retention.bytes(), Relaxed);
        Ok(Self {
            retention,
            database,
            dropped: queue.tally.dropped(),
            queue,
            gap: None,
            looked_at: SystemTime::now(),
            tried: None,
            tracked: Vec::new(),
            rolled_up: Instant::now(),
            turns: 0,
            logged: 0,
            broken: None,
            neglected: false,
        })
    }

    /// True while maintenance is due on an idle journal.
    pub fn is_busy(&self) -> bool {
        !self.tracked.is_empty()
            || !self.database.memory.rollups.is_empty()
            || self.retention.is_busy()
            || self.gap.is_some()
            || self.queue.owes()
    }

    /// Writes the progress of these new calls and of tracked ones.
    pub fn turn(
        &mut self,
        new_calls: Vec<Arc<RecordedCall>>,
        extras: Extras,
        pace: TurnPace,
    ) -> Result<(), NotWritten> {
        self.track(new_calls);
        self.write_all(extras, pace, false)
    }

    /// The last turn: writes open calls as open, and checkpoints the log.
    pub fn end(
        &mut self,
        new_calls: Vec<Arc<RecordedCall>>,
        extras: Extras,
    ) -> Result<(), NotWritten> {
        self.track(new_calls);
        let result = self.write_all(extras, TurnPace::Swift, true);
        self.write_gap();
        let waiting_changes = self.queue.take_owed().len() as u64;
        let tally = &self.queue.tally;
        tally
            .transitions_dropped
            .fetch_add(waiting_changes, Relaxed);
        let mark_result =
            history::mark(&self.database.connection, SystemTime::now(), Mark::Stopped);
        if let Err(error) = mark_result {
            tracing::warn!(%error, "the journal does not say that Mainstay stopped");
        }
        if let Err(error) = self.checkpoint("TRUNCATE", 0) {
            tracing::warn!(%error, "the journal's log was not brought into its database");
        }
        result
    }

    /// The error that makes later writes useless. A journal that was damaged while it was open
    /// stays unusable, even if a later commit succeeds.
    pub fn trouble(&mut self) -> Option<JournalTrouble> {
        if self.broken.is_none() {
            let check_result = self.database.opened_files.check(&self.database.connection);
            let error = Failed::Lost(check_result.err()?);
            if !error.is_damage() {
                return Some(JournalTrouble {
                    error_text: error.to_string(),
                    is_damage: false,
                });
            }
            self.broken = Some(Broken::from_error(error));
        }
        let error_text = self.broken.as_ref()?.error_text.clone();
        Some(JournalTrouble {
            error_text,
            is_damage: true,
        })
    }

    /// Stops writing to this journal. The log is checkpointed. Open calls are lost.
    pub fn give_up(mut self) {
        // The log may be missing as well.
        self.checkpoint("PASSIVE", 0).ok();
        let lost_calls = self.tracked.len() as u64;
        self.queue.tally.lost.fetch_add(lost_calls, Relaxed);
        self.close();
    }

    /// Drops all waiters, so that they get an error.
    pub fn close(&mut self) {
        for Tracked { call, .. } in self.tracked.drain(..) {
            call.close();
        }
    }

    fn track(&mut self, new_calls: Vec<Arc<RecordedCall>>) {
        self.tracked
            .extend(new_calls.into_iter().map(|call| Tracked {
                call,
                row: None,
                done: false,
            }));
    }

    /// The writes that are due.
    fn steps(&self, last: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let now = Instant::now();
        for (index, Tracked { call, row, .. }) in self.tracked.iter().enumerate() {
            let is_due = call.take_due()
                || match row {
                    Some(row) => call.state().code() > row.state.code(),
                    None => last || now.duration_since(call.since) >= OPEN_WRITE_DELAY,
                };
            if is_due {
                let rest = call.take();
                let mut state = call.state();
                // The waiting caller is about to send the call. A later reader of the record must
                // assume that the call was sent.
                if rest.ending.is_none() && !rest.waiters.is_empty() && state == State::NotSent {
                    state = State::Sent;
                }
                steps.push(Step { index, state, rest });
            }
        }
        steps
    }

    /// Writes all due steps, in as many transactions as their size needs.
    fn write_all(
        &mut self,
        mut extras: Extras,
        pace: TurnPace,
        last: bool,
    ) -> Result<(), NotWritten> {
        let mut result = Ok(());
        let mut steps = self.steps(last);
        if last
            || self
                .tried
                .is_none_or(|time| time.elapsed() >= RETRY_INTERVAL)
        {
            self.write_owed(&mut extras);
        }
        loop {
            let rest = steps.split_off(self.fitting(&steps));
            let extras = if rest.is_empty() {
                mem::take(&mut extras)
            } else {
                Extras::default()
            };
            let step_result = self.write(steps, extras, pace, last);
            result = result.and(step_result);
            self.look_after();
            if rest.is_empty() {
                break;
            }
            steps = rest;
        }
        self.tracked.retain(|tracked| !tracked.done);
        result
    }

    /// The number of steps that fit into one transaction, at least one.
    fn fitting(&self, steps: &[Step]) -> usize {
        let max_bytes = self.database.bounds.transaction;
        let mut bytes = 0;
        let is_fitting = |step: &&Step| {
            bytes += step.bytes();
            bytes <= max_bytes
        };
        steps
            .iter()
            .take_while(is_fitting)
            .count()
            .max(1)
            .min(steps.len())
    }

    fn write(
        &mut self,
        mut steps: Vec<Step>,
        extras: Extras,
        pace: TurnPace,
        last: bool,
    ) -> Result<(), NotWritten> {
        let writes_rollups = !self.database.memory.rollups.is_empty()
            && (last || self.rolled_up.elapsed() >= ROLLUP_INTERVAL);
        if steps.is_empty() && extras.is_empty() && !writes_rollups {
            return Ok(());
        }
        let transaction_result = match &self.broken {
            Some(Broken { error, .. }) => Err(error.clone()),
            None => self
                .transact(&steps, &extras, pace, writes_rollups)
                .map_err(|error| self.handle_failure(error)),
        };
        let result = match transaction_result {
            Ok(Written { rows, kept_cids }) => {
                self.succeeded(&steps, rows);
                for (keep, cid) in extras.texts.into_iter().zip(kept_cids) {
                    // The caller may have stopped waiting.
                    let _ = keep.waiter.send(Ok(cid));
                }
                Ok(())
            }
            Err(error) => {
                let ended_steps = steps.iter().filter(|step| step.rest.ending.is_some());
                let ended_steps = ended_steps.count() as u64;
                self.queue.tally.lost.fetch_add(ended_steps, Relaxed);
                self.queue.give_back(extras.transitions);
                for keep in extras.texts {
                    let _ = keep.waiter.send(Err(error.clone()));
                }
                Err(error)
            }
        };
        for Step { index, rest, .. } in &mut steps {
            self.queue.release(rest.bytes());
            self.tracked[*index].done = rest.ending.is_some();
            answer(mem::take(&mut rest.waiters), &result);
        }
        result
    }

    fn transact(
        &mut self,
        steps: &[Step],
        extras: &Extras,
        pace: TurnPace,
        roll_up: bool,
    ) -> Result<Written, Failed> {
        let start = Instant::now();
        self.database.begin()?;
        let mut batch = Batch::new(&mut self.database)?;
        let mut rows = Vec::with_capacity(steps.len());
        for piece in steps.chunks(CALLS_PER_YIELD) {
            for Step { index, state, rest } in piece {
                let Tracked { call, row, .. } = &self.tracked[*index];
                rows.push(match *row {
                    None => batch.insert(call, *state, rest)?,
                    Some(row) if rest.ending.is_some() => batch.end(call, row, *state, rest)?,
                    Some(row) => batch.set_state(row, *state)?,
                });
            }
            if pace == TurnPace::Polite && start.elapsed() < YIELD_TIME_LIMIT {
                thread::yield_now();
            }
        }
        let kept_cids = extras.texts.iter().map(|keep| batch.keep(keep));
        let kept_cids = kept_cids.collect::<Result<_, _>>()?;
        for transition in &extras.transitions {
            batch.note(transition)?;
        }
        let file_bytes = batch.settle()?;
        if roll_up {
            self.rolled_up = Instant::now();
            let Database {
                connection, memory, ..
            } = &mut self.database;
            memory.write_rollups(connection)?;
        }
        self.database.commit()?;
        // The files may have been removed since the last check.
        let database = &self.database;
        let check_result = database.opened_files.check(&database.connection);
        check_result.map_err(Failed::Lost)?;
        let bytes = steps.iter().map(Step::bytes).sum::<u64>() + extras.bytes();
        self.logged += bytes;
        self.retention.add_bytes(bytes, file_bytes);
        self.retention.add_history_rows(extras.transitions.len());
        Ok(Written { rows, kept_cids })
    }

    fn succeeded(&mut self, steps: &[Step], rows: Vec<WrittenCall>) {
        self.database.publish();
        let mut recorded_calls = 0;
        for (step, row) in steps.iter().zip(rows) {
            let previous_row = self.tracked[step.index].row.replace(row);
            recorded_calls += u64::from(previous_row.is_none());
        }
        let tally = &self.queue.tally;
        tally.recorded.fetch_add(recorded_calls, Relaxed);
        tally.commits.fetch_add(1, Relaxed);
        if let Some(outage) = tally.succeeding() {
            tracing::info!("the journal is written again");
            self.leave_gap(gaps::from_outage(outage));
        }
    }

    /// Records a gap: a period with unrecorded calls.
    pub fn leave_gap(&mut self, gap: Gap) {
        // The gap includes the calls that were dropped during the period.
        self.dropped = self.queue.tally.dropped();
        if gap.calls > 0 {
            self.gap = Some(gaps::join(self.gap.take(), gap));
            self.tried = None;
        }
    }

    /// The gap that has ended and is not written yet.
    pub fn gap(&self) -> Option<&Gap> {
        self.gap.as_ref()
    }

    /// Adds a gap for calls that were dropped since the last check, although the journal was
    /// writable.
    fn record_dropped(&mut self) {
        let now = SystemTime::now();
        let dropped_since = mem::replace(&mut self.looked_at, now);
        let dropped_calls = self.queue.tally.dropped().saturating_sub(self.dropped);
        if dropped_calls > 0 && self.queue.tally.is_recording() {
            self.leave_gap(gaps::from_dropped_calls(dropped_calls, dropped_since));
        }
    }

    /// Writes data of failed attempts: the gap in a separate transaction, and transitions with
    /// `extras`.
    fn write_owed(&mut self, extras: &mut Extras) {
        self.record_dropped();
        let owed = self.queue.take_owed();
        if owed.is_empty() && self.gap.is_none() {
            return;
        }
        self.tried = Some(Instant::now());
        extras.transitions.splice(0..0, owed);
        self.write_gap();
    }

    fn write_gap(&mut self) {
        let Some(gap) = self.gap.as_ref().filter(|_| self.broken.is_none()) else {
            return;
        };
        match gaps::write(&self.database.connection, gap) {
            Ok(()) => self.gap = None,
            Err(error) => tracing::debug!(%error, "a gap is not on record yet"),
        }
    }

    /// Handles a failed transaction: reports the failure and rolls the transaction back. After
    /// damage, the journal is marked as broken.
    fn handle_failure(&mut self, error: Failed) -> NotWritten {
        if self.queue.tally.failing(&error) {
            tracing::error!(%error, "the journal cannot be written; calls are not on record");
        }
        if let Err(error) = self.database.roll_back() {
            tracing::error!(%error, "the journal cannot be read, either");
        }
        if error.is_damage() {
            self.broken.insert(Broken::from_error(error)).error.clone()
        } else {
            NotWritten::new(error)
        }
    }

    fn look_after(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let maintenance = self.keep_small();
        let was_neglected = mem::replace(&mut self.neglected, maintenance.is_err());
        if let Err(error) = maintenance
            && !was_neglected
        {
            tracing::warn!(%error, "the journal could not be looked after");
        }
    }

    fn keep_small(&mut self) -> Result<(), StoreError> {
        let bounds = self.database.bounds;
        let rows = self.tracked.iter().filter_map(|tracked| tracked.row);
        self.retention.step(&mut self.database, rows)?;
        self.queue
            .tally
            .bytes
            .store(self.retention.bytes(), Relaxed);
        self.turns += 1;
        if self.turns >= TURNS_BETWEEN_CHECKS || self.logged >= bounds.between_looks {
            (self.turns, self.logged) = (0, 0);
            self.checkpoint("PASSIVE", bounds.log_pages)?;
        }
        Ok(())
    }

    /// Checkpoints the write-ahead log if it has at least `min_frames` frames.
    fn checkpoint(&mut self, mode: &str, min_frames: i64) -> rusqlite::Result<()> {
        let frames = |mode: &str| {
            let checkpoint = format!("PRAGMA wal_checkpoint({mode})");
            let connection = &self.database.connection;
            connection.query_row(&checkpoint, [], |row| row.get::<_, i64>(1))
        };
        if frames("NOOP")? >= min_frames {
            frames(mode)?;
            self.database.opened_files.update_size();
        }
        Ok(())
    }
}

pub fn answer(waiters: Vec<Waiter>, result: &Result<(), NotWritten>) {
    for waiter in waiters {
        // The caller may have stopped waiting.
        let _ = waiter.send(result.clone());
    }
}
