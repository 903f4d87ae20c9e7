//! The thread that writes: what has gathered within a window is one transaction.

use std::{
    mem,
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use mainstay_core::record::State;

use super::{
    JournalError,
    entry::{Call, NotWritten, Outcome, Rest, Waiter},
    objects::Failed,
    queue::{Gathered, Queue},
    retention::Retention,
    store::{Batch, Row, Store},
};

/// A call that is open for longer is written as such.
const SHOWN_OPEN_AFTER: Duration = Duration::from_secs(1);
/// How often statistics are written: each touches two rows for every tool that was called.
const ROLLUPS_EVERY: Duration = Duration::from_secs(1);
/// Frames of the write-ahead log (4 KiB each) from which on it is brought into the database. Fewer,
/// and pages that are written with every commit are copied too often; more, and the pause is felt.
const CHECKPOINT_FRAMES: i64 = 4096;

#[derive(Debug)]
pub struct Writer {
    /// Taken by whoever joins it.
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Writer {
    pub fn start(state: &Path, store: Store, queue: Arc<Queue>) -> Result<Self, JournalError> {
        let mut work = Work {
            retention: Retention::new(&store)?,
            store,
            queue,
            tracked: Vec::new(),
            rolled_up: Instant::now(),
            failing: false,
        };
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || work.run())
            .map_err(|source| JournalError::Io {
                path: state.to_owned(),
                source,
            })?;
        Ok(Self {
            thread: Mutex::new(Some(thread)),
        })
    }

    pub async fn join(&self) {
        let thread = {
            // Held to take it only.
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.take()
        };
        let Some(thread) = thread else { return };
        // Not joined here: a disk that hangs must not hang the runtime.
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread that writes the journal failed");
        }
    }
}

struct Work {
    store: Store,
    retention: Retention,
    queue: Arc<Queue>,
    /// Calls whose last word is not written.
    tracked: Vec<Tracked>,
    rolled_up: Instant,
    /// Told once, until it is over.
    failing: bool,
}

struct Tracked {
    call: Arc<Call>,
    /// Where it was written as open.
    row: Option<Row>,
    /// Nothing more is to be written of it.
    done: bool,
}

/// What a transaction writes of a tracked call.
struct Step {
    index: usize,
    state: State,
    rest: Rest,
}

impl Work {
    fn run(&mut self) {
        let mut idle = 0;
        loop {
            let busy = !self.tracked.is_empty()
                || !self.store.memory.rollups.is_empty()
                || self.retention.is_busy();
            let Gathered {
                begun,
                flushes,
                last,
            } = self.queue.gather(&mut idle, busy);
            self.tracked.extend(begun.into_iter().map(|call| Tracked {
                call,
                row: None,
                done: false,
            }));
            let steps = self.steps(last);
            let written = self.write(steps, last);
            answer(flushes, &written);
            if last {
                break;
            }
            if let Err(error) = self.look_after() {
                tracing::warn!(%error, "the journal could not be looked after");
            }
        }
        for Tracked { call, .. } in &self.tracked {
            call.close();
            answer(call.take().waiters, &Err(NotWritten(None)));
        }
        if let Err(error) = self.checkpoint("TRUNCATE", 0) {
            tracing::warn!(%error, "the journal's log was not brought into its database");
        }
    }

    /// The calls of which there is something to write.
    fn steps(&self, last: bool) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.tracked.len());
        for (index, Tracked { call, row, .. }) in self.tracked.iter().enumerate() {
            let news = call.take_due()
                || match row {
                    Some(row) => call.state().code() > row.state.code(),
                    None => last || call.since.elapsed() >= SHOWN_OPEN_AFTER,
                };
            if news {
                let rest = call.take();
                let mut state = call.state();
                // Whoever waits is about to send it; when this is read again, he may have.
                if rest.ending.is_none() && !rest.waiters.is_empty() && state == State::NotSent {
                    state = State::Sent;
                }
                steps.push(Step { index, state, rest });
            }
        }
        steps
    }

    fn write(&mut self, mut steps: Vec<Step>, last: bool) -> Result<(), NotWritten> {
        let roll_up = !self.store.memory.rollups.is_empty()
            && (last || self.rolled_up.elapsed() >= ROLLUPS_EVERY);
        if steps.is_empty() && !roll_up {
            return Ok(());
        }
        let written = match self.transact(&steps, roll_up) {
            Ok(rows) => {
                self.succeeded(&steps, rows);
                Ok(())
            }
            Err(error) => Err(self.failed(&steps, error)),
        };
        for Step { index, rest, .. } in &mut steps {
            self.queue.release(bytes(rest));
            self.tracked[*index].done = rest.ending.is_some();
            answer(mem::take(&mut rest.waiters), &written);
        }
        self.tracked.retain(|tracked| !tracked.done);
        written
    }

    /// Returns where each call is written now.
    fn transact(&mut self, steps: &[Step], roll_up: bool) -> Result<Vec<Row>, Failed> {
        self.store.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut batch = Batch::new(&mut self.store)?;
        let mut rows = Vec::with_capacity(steps.len());
        for Step { index, state, rest } in steps {
            let Tracked { call, row, .. } = &self.tracked[*index];
            rows.push(match *row {
                None => batch.insert(call, *state, rest)?,
                Some(row) if rest.ending.is_some() => batch.end(call, row, *state, rest)?,
                Some(row) => batch.reached(row, *state)?,
            });
        }
        let file_bytes = batch.settle()?;
        if roll_up {
            self.rolled_up = Instant::now();
            let Store {
                connection, memory, ..
            } = &mut self.store;
            memory.write_rollups(connection)?;
        }
        self.store.connection.execute_batch("COMMIT")?;
        self.retention.grew(file_bytes);
        Ok(rows)
    }

    fn succeeded(&mut self, steps: &[Step], rows: Vec<Row>) {
        self.store.publish();
        let mut recorded = 0;
        for (step, row) in steps.iter().zip(rows) {
            let before = self.tracked[step.index].row.replace(row);
            recorded += u64::from(before.is_none());
        }
        let tally = &self.queue.tally;
        tally.recorded.fetch_add(recorded, Relaxed);
        tally.commits.fetch_add(1, Relaxed);
        if mem::take(&mut self.failing) {
            tracing::info!("the journal is written again");
        }
    }

    /// What could not be written is lost: whoever comes later must not wait behind it.
    fn failed(&mut self, steps: &[Step], error: Failed) -> NotWritten {
        let lost = steps.iter().filter(|step| step.rest.ending.is_some());
        self.queue
            .tally
            .lost
            .fetch_add(lost.count() as u64, Relaxed);
        if !mem::replace(&mut self.failing, true) {
            tracing::error!(%error, "the journal cannot be written; calls are not on record");
        }
        if let Err(error) = self.store.roll_back() {
            tracing::error!(%error, "the journal cannot be read, either");
        }
        NotWritten(Some(Arc::new(error)))
    }

    fn look_after(&mut self) -> Result<(), JournalError> {
        self.checkpoint("PASSIVE", CHECKPOINT_FRAMES)?;
        let series = self.tracked.iter().filter_map(|tracked| tracked.row);
        self.retention
            .step(&mut self.store, series.map(|row| row.series))
    }

    /// Brings the write-ahead log into the database, if it has so many frames.
    fn checkpoint(&self, mode: &str, least: i64) -> rusqlite::Result<()> {
        let frames = |mode: &str| {
            let checkpoint = format!("PRAGMA wal_checkpoint({mode})");
            let connection = &self.store.connection;
            connection.query_row(&checkpoint, [], |row| row.get::<_, i64>(1))
        };
        if frames("NOOP")? >= least {
            frames(mode)?;
        }
        Ok(())
    }
}

/// Of the payloads that a call has handed over.
fn bytes(rest: &Rest) -> usize {
    let finished = rest.ending.as_ref().and_then(|end| end.finished.as_ref());
    let result = match finished.map(|finished| &finished.outcome) {
        Some(Outcome::Answered { result, .. }) => result.as_ref(),
        Some(Outcome::Failed { .. }) | None => None,
    };
    let payloads = rest.arguments.iter().chain(result);
    payloads.map(|text| text.len()).sum()
}

fn answer(waiters: Vec<Waiter>, written: &Result<(), NotWritten>) {
    for waiter in waiters {
        // Whoever no longer waits needs no answer.
        let _ = waiter.send(written.clone());
    }
}
