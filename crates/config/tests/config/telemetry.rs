//! Tests of `telemetry`: the collector of traces.

use insta::assert_snapshot;
use mainstay_config::{ConfigSource, parse, telemetry_of_environment};
use mainstay_core::config::{Secret, Telemetry, Webhook};

use crate::world::{ConfigWorld, findings, read};

fn text(telemetry: &str) -> String {
    format!("{{\"mcpServers\": {{}}, \"telemetry\":\n{telemetry}}}")
}

/// The telemetry of a file, with these variables in the environment.
fn with_variables(vars: &[(&'static str, &'static str)], file: &str) -> Option<Telemetry> {
    let world = ConfigWorld {
        vars: vars.iter().copied().collect(),
        ..ConfigWorld::default()
    };
    let source = ConfigSource::file("/etc/mainstay/c.json".as_ref());
    parse(file, &source, &world).unwrap().config.telemetry
}

fn telemetry(
    url: &str,
    headers: &[(&str, &str)],
    service_name: &str,
    sample_ratio: f64,
) -> Telemetry {
    Telemetry {
        collector: Webhook {
            url: Secret::new(url),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
                .collect(),
        },
        service_name: service_name.to_owned(),
        sample_ratio,
        attributes: Vec::new(),
        other_protocol: None,
    }
}

const NOTHING: &str = r#"{"mcpServers": {}}"#;

#[test]
fn there_are_no_traces_unless_somebody_says_where() {
    assert_eq!(with_variables(&[], NOTHING), None);
    assert_eq!(with_variables(&[], &text(r#"{"enabled": false}"#)), None);
    let off = r#"{"enabled": false, "endpoint": "http://h:4318"}"#;
    assert_eq!(with_variables(&[], &text(off)), None);
}

#[test]
fn all_of_it_can_be_said() {
    let written = text(
        r#"{"endpoint": "http://127.0.0.1:4318/", "headers": {"Authorization": "Bearer ${TOKEN}"},
            "serviceName": "gate", "sampleRatio": 0.25}"#,
    );
    assert_eq!(findings(&written), "");
    let found = read("c.json", &written).unwrap().config.telemetry;
    let url = "http://127.0.0.1:4318/v1/traces";
    let expected = telemetry(url, &[("authorization", "Bearer t0ken")], "gate", 0.25);
    assert_eq!(found, Some(expected));
    let debug = format!("{found:?}");
    assert!(!debug.contains("t0ken"), "{debug}");
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
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
    ];
    let url = "https://c:4318/otlp/v1/traces";
    let headers = [("api-key", "a b"), ("x", "y")];
    let expected = telemetry(url, &headers, "here", 0.5);
    assert_eq!(with_variables(&vars, NOTHING), Some(expected.clone()));
    assert_eq!(with_variables(&vars, &text("{}")), Some(expected));
    // Settings for one collector are not used for another.
    let elsewhere = text(r#"{"endpoint": "http://d:4318", "sampleRatio": 1}"#);
    let expected = telemetry("http://d:4318/v1/traces", &[], "here", 1.0);
    assert_eq!(with_variables(&vars, &elsewhere), Some(expected));
    let other = text(r#"{"headers": {"x": "z"}}"#);
    let expected = telemetry(url, &[("x", "z")], "here", 0.5);
    assert_eq!(with_variables(&vars, &other), Some(expected));
    assert_eq!(with_variables(&vars, &text(r#"{"enabled": false}"#)), None);
}

/// The standard variables, each together with an endpoint. The resulting settings are rendered as `URL
/// headers name ratio attributes protocol`.
#[test]
fn each_standard_variable_says_what_it_says_elsewhere() {
    const ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
    const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    const NAME: &str = "OTEL_SERVICE_NAME";
    const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "http://c/v1/traces [] mainstay 1 [] -"),
        (&[("OTEL_SDK_DISABLED", "true")], "none"),
        (
            &[("OTEL_SDK_DISABLED", "false")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x")],
            "http://t/x [] mainstay 1 [] -",
        ),
        (&[(EXPORTER, "none")], "none"),
        (&[(EXPORTER, "console")], "none"),
        (
            &[(EXPORTER, "console, otlp")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (&[(SAMPLER, "always_off")], "none"),
        (
            &[(SAMPLER, "always_on"), (ARG, "0.5")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (
            &[(SAMPLER, "parentbased_always_on"), (ARG, "0.5")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (
            &[(SAMPLER, "parentbased_always_off")],
            "http://c/v1/traces [] mainstay 0 [] -",
        ),
        (
            &[(SAMPLER, "traceidratio"), (ARG, "0.5")],
            "http://c/v1/traces [] mainstay 0.5 [] -",
        ),
        (
            &[(SAMPLER, "parentbased_traceidratio"), (ARG, "2")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (
            &[(SAMPLER, "parentbased_traceidratio")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        // The default sampler takes no ratio.
        (&[(ARG, "0.5")], "http://c/v1/traces [] mainstay 1 [] -"),
        (
            &[(HEADERS, "a=b,c=d%20e")],
            "http://c/v1/traces [a=b c=d e] mainstay 1 [] -",
        ),
        (
            &[
                (HEADERS, "a=b"),
                ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=y"),
            ],
            "http://c/v1/traces [x=y] mainstay 1 [] -",
        ),
        (
            &[(PROTOCOL, "http/json")],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (
            &[(PROTOCOL, "grpc")],
            "http://c/v1/traces [] mainstay 1 [] grpc",
        ),
        (
            &[
                (PROTOCOL, "grpc"),
                ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ],
            "http://c/v1/traces [] mainstay 1 [] -",
        ),
        (&[(NAME, "here")], "http://c/v1/traces [] here 1 [] -"),
        (
            &[(ATTRIBUTES, "service.name=there,host.name=h%2C1,,=x")],
            "http://c/v1/traces [] there 1 [host.name=h,1] -",
        ),
        (
            &[(ATTRIBUTES, "service.name=there"), (NAME, "here")],
            "http://c/v1/traces [] here 1 [] -",
        ),
    ];
    for (vars, expected) in cases {
        let world = ConfigWorld {
            vars: vars
                .iter()
                .copied()
                .chain([(ENDPOINT, "http://c")])
                .collect(),
            ..ConfigWorld::default()
        };
        assert_eq!(
            summary(telemetry_of_environment(&world)),
            *expected,
            "{vars:?}"
        );
    }
    // The sampler of the environment also applies to a collector of the file. The protocol and the switch
    // of the environment do not.
    let file = text(r#"{"endpoint": "http://f"}"#);
    for (var, expected) in [
        ((SAMPLER, "always_off"), "none"),
        ((EXPORTER, "none"), "http://f/v1/traces [] mainstay 1 [] -"),
        ((PROTOCOL, "grpc"), "http://f/v1/traces [] mainstay 1 [] -"),
        (
            (ATTRIBUTES, "a=b"),
            "http://f/v1/traces [] mainstay 1 [a=b] -",
        ),
    ] {
        assert_eq!(summary(with_variables(&[var], &file)), expected, "{var:?}");
    }
}

fn summary(telemetry: Option<Telemetry>) -> String {
    let Some(telemetry) = telemetry else {
        return "none".to_owned();
    };
    let pair = |(name, value): (&String, &str)| format!("{name}={value}");
    let headers = &telemetry.collector.headers;
    let header_pairs = headers
        .iter()
        .map(|(name, value)| pair((name, value.expose())));
    let attributes = &telemetry.attributes;
    let attribute_pairs = attributes.iter().map(|(name, value)| pair((name, value)));
    format!(
        "{} [{}] {} {} [{}] {}",
        telemetry.collector.url.expose(),
        header_pairs.collect::<Vec<_>>().join(" "),
        telemetry.service_name,
        telemetry.sample_ratio,
        attribute_pairs.collect::<Vec<_>>().join(" "),
        telemetry.other_protocol.as_deref().unwrap_or("-"),
    )
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
