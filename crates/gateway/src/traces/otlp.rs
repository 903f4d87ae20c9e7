//! Spans as OTLP/JSON (opentelemetry-proto, `trace/v1/trace.proto`). Ids are hexadecimal, and 64-bit
//! numbers are strings. The attributes have the names of OpenTelemetry's semantic conventions for
//! MCP.

use std::{
    borrow::Cow,
    time::{SystemTime, UNIX_EPOCH},
};

use mainstay_core::{
    config::Telemetry,
    message::{self, Method},
    trace::SpanId,
};
use serde::Serialize;

use super::call_trace::{CallTrace, Hop, SpanTimes};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;
/// Span flags: the trace is sampled (W3C), `HAS_IS_REMOTE` and `IS_REMOTE`. `HAS_IS_REMOTE` means
/// that `IS_REMOTE` is valid. `IS_REMOTE` means that the parent span is in another process.
const SAMPLED: u32 = 0x01;
const REMOTE_IS_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The OTLP resource: the attributes of the program that sends the spans.
#[derive(Debug)]
pub struct OtlpResource {
    /// The configured attributes come first. They override Mainstay's own attributes.
    attributes: Vec<(String, String)>,
}

impl OtlpResource {
    pub fn new(settings: &Telemetry, seed: u64) -> Self {
        let mut attributes = settings.attributes.clone();
        let ours = [
            ("service.name", settings.service_name.clone()),
            ("service.version", VERSION.to_owned()),
            ("service.instance.id", format!("{seed:016x}")),
        ];
        for (key, value) in ours {
            if attributes.iter().all(|(name, _)| name != key) {
                attributes.push((key.to_owned(), value));
            }
        }
        Self { attributes }
    }

    /// The body of a POST to `/v1/traces`.
    pub fn request(&self, calls: &[CallTrace]) -> String {
        let request = Request {
            resource_spans: [ResourceSpans {
                resource: Attributes {
                    attributes: self
                        .attributes
                        .iter()
                        .map(|(key, value)| text(key, value))
                        .collect(),
                },
                scope_spans: [ScopeSpans {
                    scope: Scope {
                        name: "mainstay",
                        version: VERSION,
                    },
                    spans: calls.iter().flat_map(spans).collect(),
                }],
            }],
        };
        // Serialization cannot fail: all keys are strings.
        serde_json::to_string(&request).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Attributes<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Attributes<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Span<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names are OTLP's")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    flags: u32,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<SpanStatus<'a>>,
}

#[derive(Serialize)]
struct SpanStatus<'a> {
    code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value<'a> {
    StringValue(Cow<'a, str>),
}

fn text<'a>(key: &'a str, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
    Attribute {
        key,
        value: Value::StringValue(value.into()),
    }
}

/// The span of the call, and the spans of the requests to its server.
fn spans(call: &CallTrace) -> impl Iterator<Item = Span<'_>> {
    let hop_spans = call.hops.iter().map(|hop| hop_span(call, hop));
    [call_span(call)].into_iter().chain(hop_spans)
}

fn call_span(call: &CallTrace) -> Span<'_> {
    let subject = &call.subject;
    let origin = &subject.origin;
    let mut attributes = common(call);
    attributes.push(text("mcp.protocol.version", subject.revision.as_str()));
    attributes.push(text("jsonrpc.request.id", id(&subject.request_id)));
    attributes.push(text("mainstay.door", origin.door.as_str()));
    let optional = [
        ("mainstay.profile", &origin.profile),
        ("mainstay.principal", &origin.principal),
        // The session's name in records. Its id is a secret, because it gives access to the
        // session.
        ("mainstay.session", &origin.session),
    ];
    for (key, value) in optional {
        attributes.extend(value.as_deref().map(|value| text(key, value)));
    }
    if let Some(client) = &origin.client {
        attributes.push(text("mainstay.client.name", client.name.as_str()));
        attributes.push(text("mainstay.client.version", client.version.as_str()));
    }
    let status = call.error.as_ref().map(|error| {
        attributes.push(text("error.type", &*error.kind));
        if error.is_rpc {
            attributes.push(text("rpc.response.status_code", &*error.kind));
        }
        SpanStatus {
            code: ERROR,
            message: error.message.as_deref(),
        }
    });
    let is_remote = call.parent.map_or(0, |_| IS_REMOTE);
    Span {
        flags: SAMPLED | REMOTE_IS_KNOWN | is_remote,
        attributes,
        status,
        ..span(call, call.id, call.parent, SERVER, call.times)
    }
}

fn hop_span<'a>(call: &'a CallTrace, hop: &'a Hop) -> Span<'a> {
    let mut attributes = common(call);
    attributes.push(text("mcp.protocol.version", hop.revision.as_str()));
    let transport = if call.subject.is_piped { "pipe" } else { "tcp" };
    attributes.push(text("network.transport", transport));
    if !call.subject.is_piped {
        attributes.push(text("network.protocol.name", "http"));
    }
    let status = hop.failed.map(|kind| {
        attributes.push(text("error.type", kind));
        SpanStatus {
            code: ERROR,
            message: None,
        }
    });
    Span {
        flags: SAMPLED | REMOTE_IS_KNOWN,
        attributes,
        status,
        ..span(call, hop.id, Some(call.id), CLIENT, hop.times)
    }
}

fn span(
    call: &CallTrace,
    id: SpanId,
    parent: Option<SpanId>,
    kind: u8,
    times: SpanTimes,
) -> Span<'_> {
    let subject = &call.subject;
    let method = subject.method.name();
    Span {
        trace_id: call.trace.to_string(),
        span_id: id.to_string(),
        parent_span_id: parent.map(|parent| parent.to_string()),
        trace_state: call.state.as_deref(),
        flags: 0,
        // Span names have no URIs, because there may be very many.
        name: match subject.method {
            Method::ResourcesRead => method.to_owned(),
            _ => format!("{method} {}", subject.name),
        },
        kind,
        start_time_unix_nano: nanos(times.started),
        end_time_unix_nano: nanos(times.ended),
        attributes: Vec::new(),
        status: None,
    }
}

fn common(call: &CallTrace) -> Vec<Attribute<'_>> {
    let subject = &call.subject;
    let mut attributes = vec![
        text("mcp.method.name", subject.method.name()),
        text("mainstay.server", subject.server.as_str()),
    ];
    let key = match subject.method {
        Method::ResourcesRead => "mcp.resource.uri",
        Method::PromptsGet => "gen_ai.prompt.name",
        _ => {
            attributes.push(text("gen_ai.operation.name", "execute_tool"));
            "gen_ai.tool.name"
        }
    };
    attributes.push(text(key, &*subject.name));
    attributes
}

/// A JSON-RPC id as text: a number as it is written, or a string without its quotes.
fn id(json: &str) -> Cow<'_, str> {
    message::shown_text(json).unwrap_or(Cow::Borrowed(json))
}

fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}
