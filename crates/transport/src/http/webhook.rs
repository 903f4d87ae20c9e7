//! POSTs to a receiver that is no MCP server: a webhook.

use std::time::{Duration, SystemTime};

use mainstay_core::config::{self, HttpLaunch, HttpTransport};

use crate::http::{
    http_client::{self, Target, retry_after},
    http1,
};

/// A receiver, and what it takes to reach it. Shows neither URL nor headers: both may be secret.
#[derive(Debug)]
pub struct Webhook(Target);

/// Why a POST was not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error("it cannot be reached: {0}")]
    Lost(#[from] http1::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("status {status}")]
    Refused {
        status: u16,
        /// It asks to be left alone for so long.
        retry_after: Option<Duration>,
    },
}

impl NotTaken {
    /// Whether the same POST may fare better later.
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
    pub fn new(webhook: &config::Webhook) -> Result<Self, http1::Unusable> {
        Target::new(&HttpLaunch {
            url: webhook.url.expose().to_owned(),
            headers: webhook.headers.clone(),
            transport: HttpTransport::StreamableHttp,
        })
        .map(Self)
    }

    /// Posts JSON text; what takes longer than `limit` is given up.
    pub async fn post(&self, json: &str, limit: Duration) -> Result<(), NotTaken> {
        // Each message begins at the configured URL.
        let target = self.0.at((*self.0.uri()).clone());
        let template = target.template("POST", &[("content-type", "application/json")]);
        let exchange = async {
            let response = target.follow(&template, Some(json)).await?;
            let (status, taken) = (response.head.status, response.head.is_success());
            let wait = response.head.get("retry-after");
            let retry_after = wait.and_then(|wait| retry_after(wait, SystemTime::now()));
            // Read to its end, so that the connection can be used again.
            http_client::error_text(response).await;
            if taken {
                return Ok(());
            }
            Err(NotTaken::Refused {
                status,
                retry_after,
            })
        };
        tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or(Err(NotTaken::Late(limit)))
    }
}
