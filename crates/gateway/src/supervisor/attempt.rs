//! One attempt to open a session. It waits for its turn, connects, and lasts until the session ends.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::ServerConfig,
    era::Eras,
    ids::Epoch,
    lifecycle::Loss,
    start::{StartSample, Watch},
};
use mainstay_transport::{
    self as transport, Opening, RunningConnection, SignsOfWork, Unopened, UpstreamSession,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    entries::{CurrentEntry, Reread},
    fleet::Fleet,
    pace::{Slot, Urgency},
    session_key::SessionKey,
};

/// A report about the progress of an attempt.
pub enum AttemptProgress {
    /// The files that the entry refers to have changed. Has the configuration before and after.
    Refreshed(Arc<ServerConfig>, Box<ServerConfig>),
    /// The attempt has begun to connect, after waiting for its turn.
    Begun,
    /// The starting processes showed a sign of work at this time.
    AtWork(Instant),
    Opened(Arc<UpstreamSession>),
}

/// The end of an attempt, or of the session that it opened.
#[derive(Debug)]
pub struct Ending {
    pub loss: Loss,
    /// The server's eras, as far as a refusal of the handshake shows them.
    pub eras: Eras,
}

impl From<Loss> for Ending {
    fn from(loss: Loss) -> Self {
        Unopened::from(loss).into()
    }
}

impl From<Unopened> for Ending {
    fn from(Unopened { loss, eras }: Unopened) -> Self {
        Self { loss, eras }
    }
}

/// The input of one attempt.
pub struct SessionAttempt {
    pub entry: CurrentEntry,
    pub opening: Opening,
    pub urgency: Urgency,
    /// Time without a sign of work after which the supervisor ends the start of a process.
    pub silence: Duration,
}

/// Runs one attempt, from its turn to the end of its session.
pub async fn connect(
    fleet: Arc<Fleet>,
    attempt: SessionAttempt,
    key: SessionKey,
    epoch: Epoch,
    progress: mpsc::Sender<(SessionKey, Epoch, AttemptProgress)>,
) -> Ending {
    let SessionAttempt {
        entry,
        mut opening,
        urgency,
        silence,
    } = attempt;
    let stopped = || Loss::Disconnected("stopped".to_owned()).into();
    let reread = tokio::select! {
        reread = entry.reread() => reread,
        () = opening.stop.close.cancelled() => return stopped(),
    };
    match reread {
        Reread::Unchanged => {}
        Reread::Changed(read) => {
            opening.log.protect_both(&read, Some(&entry.config));
            opening
                .log
                .note("the files that its entry names have other values now");
            opening.launch = read.launch.clone();
            let read = AttemptProgress::Refreshed(Arc::clone(&entry.config), Box::new(read));
            progress.send((key, epoch, read)).await.ok();
        }
        // Do not use the old values: if a secret was revoked, the attempt would fail with a
        // misleading reason.
        Reread::Broken(read) => {
            // The text of the problem becomes the status's reason, unchanged.
            opening.log.protect_both(&read, Some(&entry.config));
            let problem = read.problems().next().map(ToString::to_string);
            let reason = problem.unwrap_or_default();
            let loss = Loss::CannotSpawn(reason);
            opening.log.ended(&loss);
            return loss.into();
        }
    }
    drop(entry);
    if fleet.pace.package_is_taken(&opening.launch) {
        opening
            .log
            .note("waits for another start that fetches the same package");
    }
    let slot = tokio::select! {
        slot = fleet.pace.turn(&opening.launch, urgency) => slot,
        () = opening.stop.close.cancelled() => return stopped(),
    };
    // The receiver outlives all connections.
    progress
        .send((key, epoch, AttemptProgress::Begun))
        .await
        .ok();
    let log = Arc::clone(&opening.log);
    let opened = match slot {
        Some(slot) => {
            let at_work = |at| {
                // If the channel is full, drop the report. The next sign of work follows soon.
                progress
                    .try_send((key, epoch, AttemptProgress::AtWork(at)))
                    .ok();
            };
            start(opening, slot, silence, at_work).await
        }
        None => Box::pin(transport::open(opening)).await,
    };
    let (session, running) = match opened {
        Ok(opened) => opened,
        Err(unopened) => {
            log.ended(&unopened.loss);
            return unopened.into();
        }
    };
    log.note("connected");
    progress
        .send((key, epoch, AttemptProgress::Opened(Arc::new(session))))
        .await
        .ok();
    let loss = running.await;
    log.ended(&loss);
    loss.into()
}

/// Starts a process, and observes it until its handshake or its end. Updates the load of the slot
/// while the process computes, waits or hangs.
async fn start(
    opening: Opening,
    mut slot: Slot,
    silence: Duration,
    at_work: impl Fn(Instant),
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    let signs = Arc::clone(&opening.signs);
    let mut watch = Watch::new(silence, Instant::now().into_std());
    // Boxed, so that the memory of the handshake is freed after it. The attempt itself lasts as long
    // as its session.
    let mut opened = Box::pin(transport::open(opening));
    loop {
        let sight = tokio::select! {
            opened = &mut opened => {
                if opened.is_ok() {
                    slot.succeeded();
                }
                return opened;
            }
            sight = look(&signs, watch.due().into()) => sight,
        };
        let now = Instant::now();
        let finding = watch.look(sight, now.into_std());
        slot.settle(finding.load);
        if finding.worked {
            at_work(now);
        }
    }
}

async fn look(signs: &SignsOfWork, due: Instant) -> StartSample {
    tokio::time::sleep_until(due).await;
    signs.look().await
}
