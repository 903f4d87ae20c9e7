//! `http.tls` and `http.trustedProxies`.

use std::path::PathBuf;

use insta::assert_snapshot;
use mainstay_config::{ReloadPlan, Syntax, position_of};
use mainstay_core::config::{Config, ListenerTls};

use crate::world::{findings, read};

fn config(http: &str) -> Config {
    let text = format!(r#"{{"mcpServers": {{}}, "http": {http}}}"#);
    assert_eq!(findings(&text), "", "{http}");
    read("config.json", &text).unwrap().config
}

#[test]
fn paths_begin_at_the_folder_of_the_configuration() {
    assert_eq!(config("{}").tls, None);
    let tls = config(r#"{"tls": {"cert": "tls/cert.pem"}}"#).tls;
    let expected = ListenerTls {
        certificate: PathBuf::from("/etc/mainstay/tls/cert.pem"),
        key: None,
        client_ca: None,
    };
    assert_eq!(tls, Some(expected));
    let tls =
        config(r#"{"tls": {"cert": "~/c.pem", "key": "/etc/ssl/k.pem", "clientCa": "../ca.pem"}}"#);
    let expected = ListenerTls {
        certificate: PathBuf::from("/home/me/c.pem"),
        key: Some(PathBuf::from("/etc/ssl/k.pem")),
        client_ca: Some(PathBuf::from("/etc/mainstay/../ca.pem")),
    };
    assert_eq!(tls.tls, Some(expected));
}

#[test]
fn a_change_takes_effect_at_the_next_start() {
    let (before, after) = (
        config(r#"{"tls": {"cert": "a.pem"}, "trustedProxies": ["10.0.0.0/8"]}"#),
        config(r#"{"tls": {"cert": "b.pem"}}"#),
    );
    assert_snapshot!(ReloadPlan::between(&before, &after).to_string());
}

#[test]
fn unusable_values_are_located() {
    assert_snapshot!(findings(
        r#"{"mcpServers": {}, "http": {
  "tls": {"key": "k.pem", "clientCA": "x"},
  "trustedProxies": ["10.0.0.0/8", "10.1.0.0/8", "proxy", 7, "::/200"]
}}"#
    ));
    assert_snapshot!(findings(
        r#"{"mcpServers": {}, "http": {
  "tls": {"cert": "", "key": "-----BEGIN PRIVATE KEY-----\nMII", "clientCa": "${CA}"},
  "trustedProxies": "10.0.0.0/8"
}}"#
    ));
    assert_snapshot!(findings(r#"{"mcpServers": {}, "http": {"tls": true}}"#));
}

#[test]
fn a_value_is_found_by_its_keys() {
    let text = "\u{feff}{\n  \"http\": {\n    \"tls\": {\"cert\": \"c.pem\"}}}";
    let position = |keys: &[&str]| position_of(text, Syntax::Json, keys);
    assert_eq!(position(&["http", "tls", "cert"]), Some((3, 21)));
    // The key is in the certificate's file.
    assert_eq!(position(&["http", "tls", "key"]), Some((3, 12)));
    assert_eq!(position(&["nothing"]), Some((1, 1)));
    assert_eq!(position_of("{", Syntax::Json, &["http"]), None);
}
