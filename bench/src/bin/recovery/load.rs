//! Calls that go on whether they are answered or not.

use std::time::{Duration, Instant};

use anyhow::Context;
use mainstay_bench::calls::{Calls, Wrong};
use mainstay_bench::gateway::PATIENCE;
use mainstay_bench::http::{Client, Endpoint, Error};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Bytes of text in a call.
const PAYLOAD: usize = 64;

/// Successes that were not read yet; more delay the callers.
const MAX_WAITING: usize = 4096;

/// A call that was answered by its server.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    pub began: Instant,
    pub ended: Instant,
}

pub struct Load {
    successes: mpsc::Receiver<Success>,
    callers: JoinSet<Result<usize, Error>>,
}

impl Load {
    /// Each connection calls one after the other, no more often than every `pause`.
    pub async fn start(
        endpoint: &Endpoint,
        tool: &str,
        connections: usize,
        pause: Duration,
    ) -> anyhow::Result<Self> {
        let (sender, successes) = mpsc::channel(MAX_WAITING);
        let mut callers = JoinSet::new();
        for worker in 0..connections {
            let mut client = Client::connect(endpoint).await?;
            client.open_session().await?;
            let calls = Calls::new(tool, worker, connections, PAYLOAD);
            callers.spawn(call(client, calls, pause, sender.clone()));
        }
        Ok(Self { successes, callers })
    }

    /// The first success that fits.
    pub async fn success(&mut self, fits: impl Fn(&Success) -> bool) -> anyhow::Result<Success> {
        let fitting = async {
            loop {
                let success = self
                    .successes
                    .recv()
                    .await
                    .context("nobody calls any more")?;
                if fits(&success) {
                    return Ok(success);
                }
            }
        };
        timeout(PATIENCE, fitting)
            .await
            .context("no call is answered")?
    }

    /// How many calls ended in an error that Mainstay told.
    pub async fn end(mut self) -> anyhow::Result<usize> {
        drop(self.successes);
        let mut failed = 0;
        while let Some(caller) = self.callers.join_next().await {
            failed += caller??;
        }
        Ok(failed)
    }
}

/// Calls until the reader is gone.
async fn call(
    mut client: Client,
    mut calls: Calls,
    pause: Duration,
    successes: mpsc::Sender<Success>,
) -> Result<usize, Error> {
    let mut pace = interval(pause);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut body, mut failed) = (Vec::new(), 0);
    while !successes.is_closed() {
        pace.tick().await;
        body.clear();
        calls.write_next(&mut body);
        let began = Instant::now();
        timeout(PATIENCE, client.post(&body)).await??;
        match calls.check(&client.answer()?) {
            Ok(()) => {
                let ended = Instant::now();
                // The reader may be gone.
                successes.send(Success { began, ended }).await.ok();
            }
            Err(Wrong::Tool(_) | Wrong::Refused(_)) => failed += 1,
            Err(wrong) => return Err(wrong.into()),
        }
    }
    client.end_session().await?;
    Ok(failed)
}
