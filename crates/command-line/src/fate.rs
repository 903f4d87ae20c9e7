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
pub enum CallFate {
    NotSent,
    Sent,
    /// The record was not found.
    Unknown,
}

impl CallFate {
    pub fn words(self) -> &'static str {
        match self {
            Self::NotSent => "it had not been sent, and did not run",
            Self::Sent => "its server had it, and it may have run in part or as a whole",
            Self::Unknown => "nobody knows whether it ran",
        }
    }
}

/// Finds the record of a call of `subject` that started at about `started_at`.
pub async fn of_cancelled(client: &Client, subject: &str, started_at: SystemTime) -> CallFate {
    let query = [
        ("text", subject.to_owned()),
        ("status", "cancelled".to_owned()),
        ("since", utc::rfc3339(started_at)),
        ("limit", "2".to_owned()),
    ];
    let looking = async {
        loop {
            let found = client.call_records(&query).await.ok()?;
            match &found.calls[..] {
                [] => sleep(LOOK).await,
                [call] if call.state == "not_sent" => return Some(CallFate::NotSent),
                [_] => return Some(CallFate::Sent),
                // Another call was cancelled at the same time.
                _ => return Some(CallFate::Unknown),
            }
        }
    };
    let found = timeout(PATIENCE, looking).await;
    found.ok().flatten().unwrap_or(CallFate::Unknown)
}
