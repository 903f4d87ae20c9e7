//! Posts alerts to webhooks, and retries failed posts.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use mainstay_core::config;
use mainstay_transport::{Webhook, WebhookError};

use super::message::AlertMessage;

/// Retries follow after 1, 2, 4, … s, with jitter, which suffices for a receiver that restarts.
const RETRIES: usize = 7;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Maximum delay that a receiver may request. Later messages to the receiver wait, too.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The webhook of an alert. If its URL cannot be used, logs an error and returns `None`.
pub fn open(webhook: &config::Webhook) -> Option<Webhook> {
    Webhook::new(webhook)
        .inspect_err(|error| tracing::error!(%error, "the URL of an alert cannot be used"))
        .ok()
}

/// Posts until the receiver accepts, the error is permanent, or the retries are used up.
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
            delay.map(|delay| requested.map_or(delay, |requested| requested.max(delay)))
        })
        .notify(|error, delay| tracing::debug!(%error, ?delay, "an alert is posted again"))
        .await
}
