//! What is known of a call that was cancelled: whether it ran.

use std::time::{Duration, SystemTime};

use mainstay_api::Client;
use mainstay_platform::utc;
use tokio::time::{sleep, timeout};

/// How long a daemon may take to put a cancelled call on record, and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(30);

/// How far a cancelled call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    NotSent,
    Sent,
    /// Its record was not found.
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

/// Looks for the record of a call that began then, by what was called.
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
                // Another one was cancelled in this moment.
                _ => return Some(Fate::Unknown),
            }
        }
    };
    let found = timeout(PATIENCE, looking).await;
    found.ok().flatten().unwrap_or(Fate::Unknown)
}
