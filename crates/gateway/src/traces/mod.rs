//! Traces: a span for each call, and a child span for each request to its server. They are sent to a
//! collector over OTLP/HTTP (OpenTelemetry). Without `telemetry` in the configuration, nothing is
//! traced.
//!
//! Ended spans wait in a bounded queue. If the queue is full, spans are dropped and counted. One task
//! sends the spans, and no call waits for it.

mod call_trace;
mod exporter;
mod otlp;
mod span;
mod tracer;

use std::{sync::Arc, time::Instant};

use mainstay_core::{config, redact::Redactor};
use mainstay_transport::Webhook;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::exporter::Exporter;
pub use self::{
    call_trace::{SpanError, Subject},
    span::Span,
    tracer::{Tally, Tracer},
};

/// Maximum number of ended calls in the queue: those of some seconds at full load. The queue takes
/// about 2 MB, and at most 10 MB, because long texts are cut ([`call_trace`]).
const MAX_WAITING: usize = 4096;

/// The tracer and the exporter's task, until [`Traces::stop`].
#[derive(Debug)]
pub struct Traces {
    tracer: Arc<Tracer>,
    exporter: JoinHandle<()>,
    stop: CancellationToken,
}

impl Traces {
    /// Starts the exporter. Spans are redacted by the `rules` for records. If the settings cannot be
    /// used, logs an error and returns `None`.
    pub fn start(settings: &config::Telemetry, rules: &config::Redact) -> Option<Self> {
        let redactor = Redactor::new(rules, Instant::now)
            .inspect_err(
                |error| tracing::error!(%error, "no traces: a pattern of `journal.redact` is none"),
            )
            .ok()?;
        let collector = Webhook::new(&settings.collector)
            .inspect_err(
                |error| tracing::error!(%error, "no traces: the URL of `telemetry` cannot be used"),
            )
            .ok()?;
        if let Some(other) = &settings.other_protocol {
            tracing::warn!(
                "spans are sent as http/json, though OTEL_EXPORTER_OTLP_PROTOCOL asks for {other:?}: \
                 the endpoint must be one for OTLP over HTTP"
            );
        }
        let seed = getrandom::u64()
            .inspect_err(|error| tracing::error!(%error, "no traces: there are no random numbers"))
            .ok()?;
        let (queue, inbox) = mpsc::channel(MAX_WAITING);
        let tracer = Arc::new(Tracer::new(settings.sample_ratio, seed, queue));
        let stop = CancellationToken::new();
        let exporter = Exporter {
            inbox,
            collector,
            resource: otlp::OtlpResource::new(settings, seed),
            redactor,
            tracer: Arc::clone(&tracer),
            stop: stop.clone(),
        };
        Some(Self {
            tracer,
            exporter: tokio::spawn(exporter.run()),
            stop,
        })
    }

    pub fn tracer(&self) -> Arc<Tracer> {
        Arc::clone(&self.tracer)
    }

    /// Sends the remaining spans, within `exporter::FLUSH_LIMIT`, and ends the exporter.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let flushed = tokio::time::timeout(exporter::FLUSH_LIMIT, &mut self.exporter).await;
        let result = match flushed {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!("the last spans were not taken in time");
                self.exporter.abort();
                self.exporter.await
            }
        };
        if let Err(error) = result
            && !error.is_cancelled()
        {
            tracing::error!(%error, "the exporter of spans failed");
        }
    }
}
