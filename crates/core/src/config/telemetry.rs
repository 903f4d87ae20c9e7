//! Export of traces of calls over OTLP/HTTP (OpenTelemetry).

use super::Webhook;

/// The collector of traces, and their content.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The full URL of the collector, and the headers for its authentication.
    pub collector: Webhook,
    /// `service.name` of all spans (`serviceName`, default `mainstay`).
    pub service_name: String,
    /// Fraction of the traces begun by Mainstay that is recorded (`sampleRatio`, 0 to 1, default
    /// 1).
    pub sample_ratio: f64,
    /// More attributes of this process (`OTEL_RESOURCE_ATTRIBUTES`).
    pub attributes: Vec<(String, String)>,
    /// The protocol that the environment sets for its collector, if Mainstay does not support it.
    pub other_protocol: Option<String>,
}
