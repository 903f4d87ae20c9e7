//! HTTP servers that are away for five seconds and come back as new ones: they know no session.
//!
//! There is a server for each outage, so that none suffers from the backoff of the one before.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use fake_server::{Fake, Script};
use mainstay_bench::gateway::{Gateway, PATIENCE};
use mainstay_bench::http::Endpoint;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::{Milliseconds, load::Load};

const DOWN: Duration = Duration::from_secs(5);

/// Each is away for so much longer than the one before, so that ports open at all times between two
/// attempts.
const STEP: Duration = Duration::from_millis(50);

/// Between the beginnings of outages.
const STAGGER: Duration = Duration::from_millis(100);

const PAUSE: Duration = Duration::from_millis(20);

/// How often to check whether a server without calls was found again.
const GLANCE: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Calls {
    Steady,
    None,
}

#[derive(Debug, Serialize)]
pub struct Outages {
    calls: Calls,
    down_ms: u128,
    down_ms_most: u128,
    /// From the opening of the port to the first answer to a call; without calls, to the end of the
    /// handshake.
    recovery_ms: Milliseconds,
}

pub async fn measure(mainstay: &Path, outages: u32, calls: Calls) -> anyhow::Result<Outages> {
    let mut fakes = Vec::new();
    for _ in 0..outages {
        fakes.push(Fake::http(Script::default()).await?);
    }
    let entries = fakes.iter().enumerate();
    let entries = entries.map(|(number, fake)| (format!("s{number}"), json!({"url": fake.url()})));
    let gateway = Gateway::start(mainstay, entries.collect(), json!({})).await?;
    let mut going = JoinSet::new();
    for (number, fake) in (0..outages).zip(fakes) {
        let endpoint = gateway.endpoint.clone();
        going.spawn(one(number, fake, calls, endpoint));
    }
    let mut times = Vec::new();
    while let Some(time) = going.join_next().await {
        times.push(time??);
    }
    gateway.stop().await?;
    Ok(Outages {
        calls,
        down_ms: DOWN.as_millis(),
        down_ms_most: (DOWN + STEP * outages.saturating_sub(1)).as_millis(),
        recovery_ms: Milliseconds::of(&times),
    })
}

async fn one(
    number: u32,
    fake: Fake,
    calls: Calls,
    endpoint: Endpoint,
) -> anyhow::Result<Duration> {
    let mut load = match calls {
        Calls::Steady => Some(Load::start(&endpoint, &format!("s{number}__echo"), 1, PAUSE).await?),
        Calls::None => None,
    };
    if let Some(load) = &mut load {
        load.success(|_| true).await?;
    }
    sleep(STAGGER * number).await;
    fake.refuse(true).await?;
    fake.expire_sessions();
    let before = greeted(&fake);
    sleep(DOWN + STEP * number).await;
    // What was answered before it went.
    let opening = Instant::now();
    fake.refuse(false).await?;
    let opened = Instant::now();
    let back = match &mut load {
        Some(load) => load.success(|it| it.ended > opening).await?.ended,
        None => {
            let mut glance = interval(GLANCE);
            let found = async {
                while greeted(&fake) == before {
                    glance.tick().await;
                }
            };
            timeout(PATIENCE, found)
                .await
                .context("it is not found again")?;
            Instant::now()
        }
    };
    if let Some(load) = load {
        load.end().await?;
    }
    fake.stop().await?;
    Ok(back.saturating_duration_since(opened))
}

fn greeted(fake: &Fake) -> usize {
    fake.count("notifications/initialized")
}
