//! Sends POST requests to a webhook.

use std::time::{Duration, SystemTime};

use mainstay_core::config::{self, HttpLaunch};

use crate::http::{
    http_client::{self, HttpTarget, retry_after},
    http1,
};

/// The receiver of a webhook. `Debug` does not show the URL and the headers, because both may be secret.
#[derive(Debug)]
pub struct Webhook(HttpTarget);

/// The reason that a POST was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("it cannot be reached: {0}")]
    Lost(#[from] http1::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("status {status}")]
    Refused {
        status: u16,
        /// The time for which the receiver wants no further requests.
        retry_after: Option<Duration>,
    },
}

impl WebhookError {
    /// True if the same POST may succeed later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Late(_) => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..600),
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Lost(_) | Self::Late(_) => None,
        }
    }
}

impl Webhook {
    pub fn new(webhook: &config::Webhook) -> Result<Self, http1::UnusableUrl> {
        HttpTarget::new(&HttpLaunch {
            url: webhook.url.expose().to_owned(),
            headers: webhook.headers.clone(),
            ..HttpLaunch::default()
        })
        .map(Self)
    }

    /// Posts JSON text. Gives up after `limit`.
    pub async fn post(&self, json: &str, limit: Duration) -> Result<(), WebhookError> {
        // Each message is sent to the configured URL first, not to the target of an earlier redirect.
        let target = self.0.at((*self.0.uri()).clone());
        let template = target.template("POST", &[("content-type", "application/json")]);
        let exchange = async {
            let response = target.follow(&template, Some(json)).await?;
            let (status, is_accepted) = (response.head.status, response.head.is_success());
            let wait = response.head.get("retry-after");
            let retry_after = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
            // Read the body to its end, so that the connection can be reused.
            http_client::error_text(response).await;
            if is_accepted {
                return Ok(());
            }
            Err(WebhookError::Refused {
                status,
                retry_after,
            })
        };
        tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or(Err(WebhookError::Late(limit)))
    }
}
