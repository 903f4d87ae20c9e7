//! Posts alerts, and repeats a post while that may help.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use mainstay_core::config;
use mainstay_transport::{NotTaken, Webhook};

use super::message::Message;

/// Retries after 1, 2, 4, … s, jittered: a receiver that restarts is back within them.
const RETRIES: usize = 7;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// A receiver that asks to be left alone for longer is asked again after this: others wait behind.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// `None`, with a word in the log, for what cannot be posted to.
pub fn open(webhook: &config::Webhook) -> Option<Webhook> {
    Webhook::new(webhook)
        .inspect_err(|error| tracing::error!(%error, "the URL of an alert cannot be used"))
        .ok()
}

/// Posts until it is taken, or nothing more is to be hoped for.
pub async fn post(hook: &Webhook, message: &Message, limit: Duration) -> Result<(), NotTaken> {
    let delays = ExponentialBuilder::default()
        .with_min_delay(FIRST_DELAY)
        .with_max_delay(LONGEST_DELAY)
        .with_max_times(RETRIES)
        .with_jitter();
    (|| hook.post(&message.json, limit))
        .retry(delays)
        .when(NotTaken::is_passing)
        .adjust(|error, delay| {
            let asked = error
                .retry_after()
                .map(|wait| wait.min(LONGEST_RETRY_AFTER));
            // No delay means that the retries are spent.
            delay.map(|delay| asked.unwrap_or(delay))
        })
        .notify(|error, delay| tracing::debug!(%error, ?delay, "an alert is posted again"))
        .await
}
