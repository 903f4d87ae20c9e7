//! Posts alerts, and retries while that may help.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use mainstay_core::config;
use mainstay_transport::{Webhook, WebhookError};

use super::message::AlertMessage;

/// Retries after 1, 2, 4, … s, with jitter. That suffices for a receiver that restarts.
const RETRIES: usize = 7;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Maximum delay that a receiver may request, because other messages wait behind.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// `None`, with an error in the log, if the URL cannot be used.
pub fn open(webhook: &config::Webhook) -> Option<Webhook> {
    Webhook::new(webhook)
        .inspect_err(|error| tracing::error!(%error, "the URL of an alert cannot be used"))
        .ok()
}

/// Posts until the receiver accepts, or a retry cannot help.
pub async fn post(
    hook: &Webhook,
    message: &AlertMessage,
    limit: Duration,
) -> Result<(), WebhookError> {
    let delays = ExponentialBuilder::default()
        .with_min_delay(FIRST_DELAY)
        .with_max_delay(LONGEST_DELAY)
        .with_max_times(RETRIES)
        .with_jitter();
    (|| hook.post(&message.json, limit))
        .retry(delays)
        .when(WebhookError::is_passing)
        .adjust(|error, delay| {
            let requested = error
                .retry_after()
                .map(|wait| wait.min(LONGEST_RETRY_AFTER));
            // No delay means that no retries are left.
            delay.map(|delay| requested.unwrap_or(delay))
        })
        .notify(|error, delay| tracing::debug!(%error, ?delay, "an alert is posted again"))
        .await
}
