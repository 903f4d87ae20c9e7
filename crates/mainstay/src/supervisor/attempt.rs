//! One attempt to have a session: its turn, its connection, its end.

use std::{pin::pin, sync::Arc};

use mainstay_core::{era::Eras, ids::Epoch, lifecycle::Loss};
use tokio::sync::mpsc;

use super::{
    Fleet, PrivateId,
    pace::{SLOT_LIMIT, Slot},
};
use crate::transport::{self, Opening, Running, Session, Unopened};

/// Which of the server's sessions something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    Shared,
    Private(PrivateId),
}

/// How an attempt gets on.
pub enum Progress {
    /// Its turn has come.
    Begun,
    Opened(Arc<Session>),
}

/// How an attempt, or the session that came of it, ended.
#[derive(Debug)]
pub struct Ending {
    pub loss: Loss,
    /// What a refusal told of the eras that the server speaks.
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

/// One attempt, from its turn to the end of its session.
pub async fn connect(
    fleet: Arc<Fleet>,
    opening: Opening,
    which: Which,
    epoch: Epoch,
    progress: mpsc::Sender<(Which, Epoch, Progress)>,
) -> Ending {
    let slot = tokio::select! {
        slot = fleet.pace.turn(&opening.launch) => slot,
        () = opening.stop.close.cancelled() => return Loss::Disconnected("stopped".to_owned()).into(),
    };
    // Their reader ends after all connections.
    progress.send((which, epoch, Progress::Begun)).await.ok();
    let log = Arc::clone(&opening.log);
    let (session, running) = match open(opening, slot).await {
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

/// Opens a connection; its slot is free for the next as soon as it is open, or hangs.
async fn open(opening: Opening, slot: Slot) -> Result<(Session, Running), Unopened> {
    let mut opened = pin!(transport::open(opening));
    tokio::select! {
        opened = &mut opened => return opened,
        () = tokio::time::sleep(SLOT_LIMIT) => drop(slot),
    }
    opened.await
}
