//! Where traces of calls are sent, over OTLP/HTTP (OpenTelemetry).

use super::Webhook;

/// What is sent to which collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The whole URL of the collector, and what it takes to be let in.
    pub collector: Webhook,
    /// `service.name` of all spans (`serviceName`, default `mainstay`).
    pub service_name: String,
    /// Which part of the traces that begin here is recorded (`sampleRatio`, 0 to 1, default 1).
    pub sample_ratio: f64,
    /// Further attributes of this process (`OTEL_RESOURCE_ATTRIBUTES`).
    pub attributes: Vec<(String, String)>,
    /// The protocol that the environment wants for its collector, where it is not the one we speak.
    pub other_protocol: Option<String>,
}
