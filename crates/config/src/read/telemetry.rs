//! Reads `telemetry`: the collector for traces of calls, over OTLP/HTTP (OpenTelemetry).
//!
//! ```json
//! {"endpoint": "http://127.0.0.1:4318", "headers": {"authorization": "${OTLP_AUTH}"}, "sampleRatio": 0.1}
//! ```
//!
//! The standard variables provide the keys that are missing (OpenTelemetry, "Environment Variable Specification").

use mainstay_core::config::{Secret, Telemetry, Webhook};

use crate::{
    Environment,
    read::{
        entry::{Context, EntryReader},
        fields::Fields,
        http,
        node::Node,
        report::FindingReport,
    },
};

const SERVICE_NAME: &str = "mainstay";
/// The path that completes an endpoint (OTLP specification, "OTLP/HTTP Request").
const TRACES: &str = "/v1/traces";
/// The encoding of spans.
const PROTOCOL: &str = "http/json";
/// The resource attribute that has its own variable.
const NAME: &str = "service.name";

/// The standard variables. An empty variable counts as unset.
#[derive(Clone, Copy)]
struct Variables<'s>(&'s dyn Environment);

/// The telemetry settings of the standard variables, for a file without `telemetry`. `None` if no traces are sent,
/// because no variable names an endpoint or because tracing is off.
pub fn telemetry_of_environment(environment: &dyn Environment) -> Option<Telemetry> {
    let variables = Variables(environment);
    let (collector, other_protocol) = variables.collector()?;
    Some(Telemetry {
        collector,
        service_name: variables.service_name(),
        sample_ratio: variables.sample_ratio()?,
        attributes: variables.attributes(),
        other_protocol,
    })
}

impl Variables<'_> {
    fn get(self, name: &str) -> Option<String> {
        let value = self.0.var(name)?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    /// Returns the variable for traces, or else the one for all exporters.
    fn of_exporter(self, name: &str) -> Option<String> {
        let for_traces = self.get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        for_traces.or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    /// Returns the collector of traces, and the protocol that it expects if that is not [`PROTOCOL`].
    fn collector(self) -> Option<(Webhook, Option<String>)> {
        let is_off = |value: String| value.eq_ignore_ascii_case("true");
        let exporters = self.get("OTEL_TRACES_EXPORTER");
        let is_elsewhere = |names: String| !names.split(',').any(|name| name.trim() == "otlp");
        if self.get("OTEL_SDK_DISABLED").is_some_and(is_off) || exporters.is_some_and(is_elsewhere)
        {
            return None;
        }
        let whole = self.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = || self.get("OTEL_EXPORTER_OTLP_ENDPOINT");
        let url = whole.or_else(|| base().map(|base| traces_of(&base)))?;
        let headers = self.of_exporter("HEADERS").unwrap_or_default();
        let collector = Webhook {
            url: Secret::new(url),
            headers: headers_of(&headers),
        };
        let protocol = self.of_exporter("PROTOCOL");
        Some((collector, protocol.filter(|protocol| protocol != PROTOCOL)))
    }

    fn service_name(self) -> String {
        let named = || pairs(&self.get("OTEL_RESOURCE_ATTRIBUTES")?).find(|(key, _)| key == NAME);
        self.get("OTEL_SERVICE_NAME")
            .or_else(|| named().map(|(_, name)| name))
            .unwrap_or_else(|| SERVICE_NAME.to_owned())
    }

    fn attributes(self) -> Vec<(String, String)> {
        let resource = self.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        pairs(&resource).filter(|(key, _)| key != NAME).collect()
    }

    /// The ratio of recorded traces among those that begin in Mainstay. Without a usable setting, the ratio is 1.
    /// `None` records no traces, not even those that clients began.
    fn sample_ratio(self) -> Option<f64> {
        match self.get("OTEL_TRACES_SAMPLER").as_deref() {
            Some("always_off") => None,
            Some("parentbased_always_off") => Some(0.0),
            Some("traceidratio" | "parentbased_traceidratio") => {
                let ratio = self.get("OTEL_TRACES_SAMPLER_ARG");
                let ratio = ratio.and_then(|ratio| ratio.parse().ok());
                Some(
                    ratio
                        .filter(|ratio| (0.0..=1.0).contains(ratio))
                        .unwrap_or(1.0),
                )
            }
            _ => Some(1.0),
        }
    }
}

/// The URL for traces at an endpoint.
fn traces_of(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    if endpoint.ends_with(TRACES) {
        return endpoint.to_owned();
    }
    format!("{endpoint}{TRACES}")
}

/// Reads `name=value,name=value` with percent-encoded values (OpenTelemetry, "OTLP exporter" and "Resource SDK").
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())));
    pairs.filter(|(name, _)| !name.is_empty())
}

/// Reads headers, and ignores illegal ones, as the SDKs do.
fn headers_of(text: &str) -> Vec<(String, Secret)> {
    pairs(text)
        .filter_map(|(name, value)| {
            let name = http::check_header(&name, &value).ok()?;
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

/// Reads `telemetry`, with the environment's settings as defaults. Headers of the environment go to the
/// environment's endpoint only. `None` sends no traces.
pub(crate) fn read<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> Option<Telemetry> {
    let fields = Fields::open(node, report)?;
    let mut entry = EntryReader::new("", fields, context, report);
    let enabled = entry.fields.take("enabled");
    let is_enabled = enabled.is_none_or(|node| node.boolean(entry.report) != Some(false));
    let has_headers = entry.fields.has("headers");
    let (endpoint, headers) = (entry.fields.take("endpoint"), entry.headers());
    let name = entry.fields.take("serviceName");
    let name = name.and_then(|node| entry.text(&node));
    let ratio = entry.fields.take("sampleRatio");
    let ratio = ratio.and_then(|node| node.number(0.0..=1.0, "from 0 to 1", entry.report));
    let variables = Variables(context.environment);
    let (collector, other_protocol) = match (endpoint, variables.collector()) {
        (None, Some((inherited, protocol))) => {
            let headers = if has_headers {
                headers
            } else {
                inherited.headers
            };
            let url = inherited.url;
            (Some(Webhook { url, headers }), protocol)
        }
        // A disabled section needs no endpoint.
        (None, None) if !is_enabled => (None, None),
        (endpoint, _) => {
            let absent = "`telemetry` needs an `endpoint`: the URL of an OTLP/HTTP collector";
            let url = entry.required(endpoint, &["endpoint"], absent);
            let url = url.and_then(|(place, url)| entry.checked_url(&place, traces_of(&url)));
            let collector = url.map(Secret::new).map(|url| Webhook { url, headers });
            (collector, None)
        }
    };
    entry.fields.finish(entry.report);
    Some(Telemetry {
        collector: collector.filter(|_| is_enabled)?,
        service_name: name.unwrap_or_else(|| variables.service_name()),
        sample_ratio: ratio.or_else(|| variables.sample_ratio())?,
        attributes: variables.attributes(),
        other_protocol,
    })
}
