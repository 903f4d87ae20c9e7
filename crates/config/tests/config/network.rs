//! Tests of proxies and certificates of remote servers.

use std::path::Path;

use insta::assert_snapshot;
use mainstay_config::{
    ConfigSource, Defaults, References, edit::Document, file_view, parse_as, plan::ReloadPlan,
};
use mainstay_core::config::{Config, NetworkSettings, ProxyChoice, Secret};

use crate::world::{ConfigWorld, entry_findings, http, read};

fn network(settings: &str) -> NetworkSettings {
    http(&format!(r#"{{"url": "https://h", {settings}}}"#)).network
}

#[test]
fn a_proxy_is_a_url_or_none() {
    let through = |url: &str| ProxyChoice::Through(Secret::new(url));
    for (setting, expected) in [
        (r#""timeout": 5000"#, ProxyChoice::OfEnvironment),
        (r#""proxy": null"#, ProxyChoice::OfEnvironment),
        (r#""proxy": """#, ProxyChoice::OfEnvironment),
        (r#""proxy": "${NONE:-}""#, ProxyChoice::OfEnvironment),
        (r#""proxy": false"#, ProxyChoice::None),
        (r#""proxy": "None""#, ProxyChoice::None),
        (r#""proxy": "http://p:3128""#, through("http://p:3128")),
        (r#""proxy": "https://p""#, through("https://p")),
        (
            r#""proxy": "http://me:${env:TOKEN}@p:1""#,
            through("http://me:t0ken@p:1"),
        ),
    ] {
        assert_eq!(network(setting).proxy, expected, "{setting}");
    }
}

#[test]
fn paths_of_certificates_start_at_home_or_at_the_file() {
    let settings = network(
        r#""caFile": "ca.pem", "clientCert": "~/me.pem", "clientKey": "/run/${TOKEN}/key.pem""#,
    );
    assert_eq!(
        settings.ca_file.as_deref(),
        Some(Path::new("/etc/mainstay/ca.pem"))
    );
    assert_eq!(
        settings.client_cert.as_deref(),
        Some(Path::new("/home/me/me.pem"))
    );
    assert_eq!(
        settings.client_key.as_deref(),
        Some(Path::new("/run/t0ken/key.pem"))
    );
    assert_eq!(network(r#""caFile": """#), NetworkSettings::default());
}

#[test]
fn what_cannot_be_used_is_reported_without_its_password() {
    let finding =
        |settings: &str| entry_findings(&format!(r#"{{"url": "https://h", {settings}}}"#));
    assert_snapshot!(finding(r#""proxy": "me:s3cret@p:3128""#), @"problem config.json:2:31: mcpServers.s.proxy: the URL of a proxy must begin with http:// or https:// (such as http://proxy.example:3128)");
    assert_snapshot!(finding(r#""proxy": "socks5://p:1080""#), @"problem config.json:2:31: mcpServers.s.proxy: Mainstay speaks no SOCKS; the URL of a proxy must begin with http:// or https:// (such as http://proxy.example:3128)");
    assert_snapshot!(finding(r#""proxy": "http://p:x""#), @"problem config.json:2:31: mcpServers.s.proxy: the port of the proxy is not a number from 1 to 65535 (such as http://proxy.example:3128)");
    assert_snapshot!(finding(r#""proxy": true"#), @"problem config.json:2:31: mcpServers.s.proxy: true names no proxy (the URL of a proxy, or false for none; without the key the environment decides)");
    assert_snapshot!(finding(r#""proxy": 1"#), @"problem config.json:2:31: mcpServers.s.proxy: expected a string, found a number");
    assert_snapshot!(finding(r#""clientKey": "key.pem""#), @"problem config.json:2:35: mcpServers.s.clientKey: a key without its certificate (name the certificate of this key by `clientCert`)");
    assert_snapshot!(finding(r#""caFile": ["a.pem"]"#), @"problem config.json:2:32: mcpServers.s.caFile: expected a string, found an array");
    assert_snapshot!(entry_findings(r#"{"url": "HTTP://h", "clientCert": "a.pem"}"#), @"warning config.json:2:35: mcpServers.s.clientCert: not used: connections to an http:// URL have no certificates");
    assert_snapshot!(
        entry_findings(r#"{"command": "x", "proxy": "http://p:1", "caFile": "a", "clientCert": "b", "clientKey": "c"}"#),
        @"
warning config.json:2:27: mcpServers.s.proxy: not used by a stdio server
warning config.json:2:51: mcpServers.s.caFile: not used by a stdio server
warning config.json:2:70: mcpServers.s.clientCert: not used by a stdio server
warning config.json:2:88: mcpServers.s.clientKey: not used by a stdio server
"
    );
}

fn config(entry: &str) -> Config {
    let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
    read("config.json", &text).unwrap().config
}

#[test]
fn a_plan_names_the_settings_that_differ() {
    let old = config(r#"{"url": "https://h", "proxy": "http://p:1", "caFile": "a"}"#);
    let new = config(
        r#"{"url": "https://h", "proxy": false, "caFile": "a", "clientCert": "b", "clientKey": "c"}"#,
    );
    assert_snapshot!(ReloadPlan::between(&old, &new).to_string(), @"~ s  is restarted if it runs (proxy, clientCert, clientKey)");
    let new = config(r#"{"url": "https://h", "proxy": "http://p:1", "caFile": "b"}"#);
    assert_snapshot!(ReloadPlan::between(&old, &new).to_string(), @"~ s  is restarted if it runs (caFile)");
}

#[test]
fn settings_are_shown_without_passwords() {
    let text = r#"{"mcpServers": {
        "open": {"url": "https://h", "proxy": "http://p:3128", "caFile": "ca.pem"},
        "secret": {"url": "https://h", "proxy": "http://me:s3cret@p:3128", "clientCert": "/me.pem"},
        "reference": {"url": "https://h", "proxy": "${env:P}", "clientKey": "k", "clientCert": "c"},
        "off": {"url": "https://h", "proxy": "none"}
    }}"#;
    let source = ConfigSource::file(Path::new("/etc/mainstay/config.json"));
    let parsed_file = parse_as(text, &source, &ConfigWorld::default(), References::Kept).unwrap();
    let document = Document::read(text, source.syntax).unwrap();
    let view = file_view(&parsed_file.config, &document, Defaults::LeftOut);
    assert_snapshot!(format!("{:#}", view["mcpServers"]), @r#"
{
  "open": {
    "url": "https://h",
    "proxy": "http://p:3128",
    "caFile": "/etc/mainstay/ca.pem"
  },
  "secret": {
    "url": "https://h",
    "proxy": "${secret:/mcpServers/secret/proxy}",
    "clientCert": "/me.pem"
  },
  "reference": {
    "url": "https://h",
    "proxy": "${env:P}",
    "clientCert": "/etc/mainstay/c",
    "clientKey": "/etc/mainstay/k"
  },
  "off": {
    "url": "https://h",
    "proxy": false
  }
}
"#);
    let expanded = http(r#"{"url": "https://h", "proxy": "http://me:s3cret@p:3128"}"#);
    assert!(!format!("{expanded:?}").contains("s3cret"), "{expanded:?}");
}
