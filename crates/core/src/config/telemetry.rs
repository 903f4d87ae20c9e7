//! Export of traces of calls over OTLP/HTTP (OpenTelemetry).

use super::Webhook;

/// The collector of traces, and the attributes of their spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The full URL of the collector, and the headers for its authentication.
    pub collector: Webhook,
    /// `service.name` of all spans (`serviceName`, default `mainstay`).
    pub service_name: String,
    /// Fraction of recorded traces among those that Mainstay begins (`sampleRatio`, 0 to 1, default
    /// 1).
    pub sample_ratio: f64,
    /// Additional resource attributes (`OTEL_RESOURCE_ATTRIBUTES`).
    pub attributes: Vec<(String, String)>,
    /// The value of `OTEL_EXPORTER_OTLP_PROTOCOL`, if Mainstay does not support this protocol.
    pub other_protocol: Option<String>,
}
