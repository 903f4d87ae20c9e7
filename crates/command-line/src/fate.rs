//! Finds out whether a cancelled call has run.

use std::time::{Duration, SystemTime};

use mainstay_api::Client;
use mainstay_platform::utc;
use tokio::time::{sleep, timeout};

/// Time in which a daemon must record a cancelled call, and the pause between two queries.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(30);

/// The progress of a cancelled call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    NotSent,
    Sent,
    /// The record was not found.
    Unknown,
}

impl Fate {
    pub fn words(self) -> &'static str {
        match self {
            Self::NotSent => "it had not been sent, and did not run",
            Self::Sent => "its server had it, and it may have run in part or as a whole",
            Self::Unknown => "nobody knows whether it ran",
        }
    }
}

/// Finds the record of a call of `what` that started at about `begun`.
pub async fn of_cancelled(client: &Client, what: &str, begun: SystemTime) -> Fate {
    let query = [
        ("text", what.to_owned()),
        ("status", "cancelled".to_owned()),
        ("since", utc::rfc3339(begun)),
        ("limit", "2".to_owned()),
    ];
    let looking = async {
        loop {
            let found = client.call_records(&query).await.ok()?;
            match &found.calls[..] {
                [] => sleep(LOOK).await,
                [call] if call.state == "not_sent" => return Some(Fate::NotSent),
                [_] => return Some(Fate::Sent),
                // Another call was cancelled at the same time.
                _ => return Some(Fate::Unknown),
            }
        }
    };
    let found = timeout(PATIENCE, looking).await;
    found.ok().flatten().unwrap_or(Fate::Unknown)
}
