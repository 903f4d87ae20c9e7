//! `telemetry`: where traces are sent.

use insta::assert_snapshot;
use mainstay_core::config::{Secret, Source, Telemetry, Webhook, parse};

use crate::world::{World, findings, read};

fn text(telemetry: &str) -> String {
    format!("{{\"mcpServers\": {{}}, \"telemetry\":\n{telemetry}}}")
}

/// What becomes of a file where these variables are set.
fn among(vars: &[(&'static str, &'static str)], file: &str) -> Option<Telemetry> {
    let world = World {
        vars: vars.iter().copied().collect(),
        ..World::default()
    };
    let source = Source::file("/etc/mainstay/c.json".as_ref());
    parse(file, &source, &world).unwrap().config.telemetry
}

fn telemetry(
    url: &str,
    headers: &[(&str, &str)],
    service_name: &str,
    sample_ratio: f64,
) -> Telemetry {
    let headers = headers.iter();
    Telemetry {
        collector: Webhook {
            url: Secret::new(url),
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
                .collect(),
        },
        service_name: service_name.to_owned(),
        sample_ratio,
    }
}

const NOTHING: &str = r#"{"mcpServers": {}}"#;

#[test]
fn there_are_no_traces_unless_somebody_says_where() {
    assert_eq!(among(&[], NOTHING), None);
    assert_eq!(among(&[], &text(r#"{"enabled": false}"#)), None);
    let off = r#"{"enabled": false, "endpoint": "http://h:4318"}"#;
    assert_eq!(among(&[], &text(off)), None);
}

#[test]
fn all_of_it_can_be_said() {
    let written = text(
        r#"{"endpoint": "http://127.0.0.1:4318/", "headers": {"Authorization": "Bearer ${TOKEN}"},
            "serviceName": "gate", "sampleRatio": 0.25}"#,
    );
    assert_eq!(findings(&written), "");
    let said = read("c.json", &written).unwrap().config.telemetry;
    let url = "http://127.0.0.1:4318/v1/traces";
    let expected = telemetry(url, &[("authorization", "Bearer t0ken")], "gate", 0.25);
    assert_eq!(said, Some(expected));
    let shown = format!("{said:?}");
    assert!(!shown.contains("t0ken"), "{shown}");
}

#[test]
fn the_standard_variables_say_it_where_the_file_does_not() {
    let vars = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4318/otlp"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "api-key=a%20b,x = y ,broken,host=no",
        ),
        ("OTEL_SERVICE_NAME", "here"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
    ];
    let url = "https://c:4318/otlp/v1/traces";
    let headers = [("api-key", "a b"), ("x", "y")];
    let expected = telemetry(url, &headers, "here", 0.5);
    assert_eq!(among(&vars, NOTHING), Some(expected.clone()));
    assert_eq!(among(&vars, &text("{}")), Some(expected));
    // What is meant for one collector goes to no other.
    let elsewhere = text(r#"{"endpoint": "http://d:4318", "sampleRatio": 1}"#);
    let expected = telemetry("http://d:4318/v1/traces", &[], "here", 1.0);
    assert_eq!(among(&vars, &elsewhere), Some(expected));
    let other = text(r#"{"headers": {"x": "z"}}"#);
    let expected = telemetry(url, &[("x", "z")], "here", 0.5);
    assert_eq!(among(&vars, &other), Some(expected));
    assert_eq!(among(&vars, &text(r#"{"enabled": false}"#)), None);

    let more = |name, value| among(&[vars[0], (name, value)], NOTHING);
    let whole = more("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x").expect("traces");
    assert_eq!(whole.collector.url.expose(), "http://t/x");
    assert_eq!(more("OTEL_SDK_DISABLED", "true"), None);
    assert_eq!(
        more("OTEL_TRACES_SAMPLER_ARG", "2").map(|it| it.sample_ratio),
        Some(1.0)
    );
}

#[test]
fn what_cannot_be_meant_fails_the_file() {
    let all = [
        "{}",
        r#"{"endpoint": "c:4318"}"#,
        r#"{"endpoint": "http://c", "sampleRatio": 2, "headres": {}}"#,
    ]
    .map(|telemetry| findings(&text(telemetry)))
    .concat();
    assert_snapshot!(all, @r"
    error config.json:2:1: telemetry: `telemetry` needs an `endpoint`: the URL of an OTLP/HTTP collector
    error config.json:2:14: telemetry.endpoint: the URL must begin with http:// or https://
    error config.json:2:41: telemetry.sampleRatio: expected a number from 0 to 1
    ");
}
