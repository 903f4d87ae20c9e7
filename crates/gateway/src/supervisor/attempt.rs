//! One attempt to open a session: its turn, its connection, its end.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    config::ServerConfig,
    era::Eras,
    ids::Epoch,
    lifecycle::Loss,
    start::{Sight, Watch},
};
use mainstay_transport::{self as transport, Opening, Running, Session, SignsOfWork, Unopened};
use tokio::{sync::mpsc, time::Instant};

use super::{
    entries::{Known, Reread},
    fleet::Fleet,
    pace::{Slot, Wish},
    session_key::SessionKey,
};

/// How an attempt gets on.
pub enum Progress {
    /// The files that its entry names have other values than this configuration had.
    Refreshed(Arc<ServerConfig>, Box<ServerConfig>),
    /// Its turn has come.
    Begun,
    /// Its processes were seen at work.
    AtWork(Instant),
    Opened(Arc<Session>),
}

/// How an attempt, or the session that came of it, ended.
#[derive(Debug)]
pub struct Ending {
    pub loss: Loss,
    /// The eras of the server, as far as a refusal shows them.
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

/// What an attempt is to open, and how.
pub struct Attempt {
    pub known: Known,
    pub opening: Opening,
    pub wish: Wish,
    /// The supervisor ends a start after this time without a sign of work.
    pub silence: Duration,
}

/// One attempt, from its turn to the end of its session.
pub async fn connect(
    fleet: Arc<Fleet>,
    attempt: Attempt,
    which: SessionKey,
    epoch: Epoch,
    progress: mpsc::Sender<(SessionKey, Epoch, Progress)>,
) -> Ending {
    let Attempt {
        known,
        mut opening,
        wish,
        silence,
    } = attempt;
    let stopped = || Loss::Disconnected("stopped".to_owned()).into();
    let reread = tokio::select! {
        reread = known.reread() => reread,
        () = opening.stop.close.cancelled() => return stopped(),
    };
    match reread {
        Reread::Same => {}
        Reread::Other(read) => {
            opening.log.protect_both(&read, Some(&known.config));
            opening
                .log
                .note("the files that its entry names have other values now");
            opening.launch = read.launch.clone();
            let read = Progress::Refreshed(Arc::clone(&known.config), Box::new(read));
            progress.send((which, epoch, read)).await.ok();
        }
        // An old value is not used: where it was withdrawn, the reason would be another one.
        Reread::Broken(read) => {
            // The problem is shown as it is.
            opening.log.protect_both(&read, Some(&known.config));
            let problem = read.problems().next().map(ToString::to_string);
            let reason = problem.unwrap_or_default();
            let loss = Loss::CannotSpawn(reason);
            opening.log.ended(&loss);
            return loss.into();
        }
    }
    drop(known);
    if fleet.pace.package_is_taken(&opening.launch) {
        opening
            .log
            .note("waits for another start that fetches the same package");
    }
    let slot = tokio::select! {
        slot = fleet.pace.turn(&opening.launch, wish) => slot,
        () = opening.stop.close.cancelled() => return stopped(),
    };
    // Their reader ends after all connections.
    progress.send((which, epoch, Progress::Begun)).await.ok();
    let log = Arc::clone(&opening.log);
    let opened = match slot {
        Some(slot) => {
            let at_work = |at| {
                // Where the queue is full, the next sign of work follows soon.
                progress.try_send((which, epoch, Progress::AtWork(at))).ok();
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
        .send((which, epoch, Progress::Opened(Arc::new(session))))
        .await
        .ok();
    let loss = running.await;
    log.ended(&loss);
    loss.into()
}

/// Starts a process, and observes it until its handshake is done or it has ended. It keeps its slot
/// until then, or until it waits or hangs.
async fn start(
    opening: Opening,
    mut slot: Slot,
    silence: Duration,
    at_work: impl Fn(Instant),
) -> Result<(Session, Running), Unopened> {
    let signs = Arc::clone(&opening.signs);
    let mut watch = Watch::new(silence, Instant::now().into_std());
    // On the heap, which it leaves when it is done: the attempt lasts as long as its session.
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

async fn look(signs: &SignsOfWork, due: Instant) -> Sight {
    tokio::time::sleep_until(due).await;
    signs.look().await
}
