//! `telemetry`: where traces of calls are sent, over OTLP/HTTP (OpenTelemetry).
//!
//! ```json
//! {"endpoint": "http://127.0.0.1:4318", "headers": {"authorization": "${OTLP_AUTH}"}, "sampleRatio": 0.1}
//! ```

use super::{
    Secret, Surroundings, Webhook,
    entry::{Context, Entry},
    fields::Fields,
    http,
    node::Node,
    report::Report,
};

const SERVICE_NAME: &str = "mainstay";
/// What an endpoint is completed with (OTLP specification, "OTLP/HTTP Request").
const TRACES: &str = "/v1/traces";

/// What is sent to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The whole URL of the collector, and what it takes to be let in.
    pub collector: Webhook,
    /// `service.name` of all spans (`serviceName`, default `mainstay`).
    pub service_name: String,
    /// Which part of the traces that begin here is recorded (`sampleRatio`, 0 to 1, default 1).
    pub sample_ratio: f64,
}

impl Telemetry {
    /// What the standard variables say, where there is no `telemetry` in a file: without an endpoint
    /// among them there are no traces.
    pub fn of_environment(surroundings: &dyn Surroundings) -> Option<Self> {
        let var = |name: &str| {
            surroundings
                .var(name)
                .filter(|value| !value.trim().is_empty())
        };
        if var("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let whole = var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let url =
            whole.or_else(|| var("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| traces_of(&base)))?;
        let headers = var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        Some(Self {
            collector: Webhook {
                url: Secret::new(url),
                headers: headers_of(&headers),
            },
            service_name: service_name(surroundings),
            sample_ratio: sample_ratio(surroundings),
        })
    }
}

fn service_name(surroundings: &dyn Surroundings) -> String {
    let name = surroundings.var("OTEL_SERVICE_NAME");
    name.filter(|name| !name.trim().is_empty())
        .unwrap_or_else(|| SERVICE_NAME.to_owned())
}

/// Everything, where the variable says nothing that can be used.
fn sample_ratio(surroundings: &dyn Surroundings) -> f64 {
    let ratio = surroundings.var("OTEL_TRACES_SAMPLER_ARG");
    let ratio = ratio.and_then(|ratio| ratio.trim().parse().ok());
    ratio
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .unwrap_or(1.0)
}

/// Where a collector takes traces, below its endpoint.
fn traces_of(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    if endpoint.ends_with(TRACES) {
        return endpoint.to_owned();
    }
    format!("{endpoint}{TRACES}")
}

/// `name=value,name=value`, values percent-encoded (OpenTelemetry, "OTLP exporter"). What is no header
/// is left out, as the SDKs do.
fn headers_of(text: &str) -> Vec<(String, Secret)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .filter_map(|(name, value)| {
            let value = decoded(value.trim());
            let name = http::check_header(name.trim(), &value).ok()?;
            (!http::is_ours(&name)).then(|| (name, Secret::new(value)))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads `telemetry`; what it leaves out is the environment's, whose headers go to the environment's
/// endpoint alone. `None` is no traces.
pub(super) fn read<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut Report<'_>,
) -> Option<Telemetry> {
    let fields = Fields::open(node, report)?;
    let mut entry = Entry::new("", fields, context, report);
    let enabled = entry.fields.take("enabled");
    let is_enabled = enabled.is_none_or(|node| node.boolean(entry.report) != Some(false));
    let has_headers = entry.fields.has("headers");
    let (endpoint, headers) = (entry.fields.take("endpoint"), entry.headers());
    let name = entry.fields.take("serviceName");
    let name = name.and_then(|node| entry.text(&node));
    let ratio = entry.fields.take("sampleRatio");
    let ratio = ratio.and_then(|node| node.number(0.0..=1.0, "from 0 to 1", entry.report));
    let inherited = Telemetry::of_environment(context.surroundings);
    let collector = match (endpoint, inherited) {
        (None, Some(inherited)) if has_headers => Some(Webhook {
            headers,
            ..inherited.collector
        }),
        (None, Some(inherited)) => Some(inherited.collector),
        // Switched off, it need not say where.
        (None, None) if !is_enabled => None,
        (endpoint, _) => {
            let absent = "`telemetry` needs an `endpoint`: the URL of an OTLP/HTTP collector";
            let url = entry.required(endpoint, absent);
            let url = url.and_then(|(place, url)| entry.checked_url(&place, traces_of(&url)));
            url.map(Secret::new).map(|url| Webhook { url, headers })
        }
    };
    entry.fields.finish(entry.report, &[], &[]);
    Some(Telemetry {
        collector: collector.filter(|_| is_enabled)?,
        service_name: name.unwrap_or_else(|| service_name(context.surroundings)),
        sample_ratio: ratio.unwrap_or_else(|| sample_ratio(context.surroundings)),
    })
}
