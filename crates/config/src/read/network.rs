//! Reads the network settings of a remote server: its proxy, and the certificates of its
//! connections.

use std::path::PathBuf;

use mainstay_core::{
    config::{NetworkSettings, ProxyChoice, Secret},
    proxy::Proxy,
};

use crate::read::{entry::EntryReader, node::Node};

pub(crate) const NETWORK_KEYS: [&str; 4] = ["proxy", "caFile", "clientCert", "clientKey"];

/// The value of `proxy` that means no proxy, like `false`.
const NO_PROXY: &str = "none";

impl EntryReader<'_, '_, '_> {
    /// Reads the settings for requests to this URL.
    pub fn network(&mut self, url: &str) -> NetworkSettings {
        let proxy = self.fields.take("proxy");
        let proxy = proxy.and_then(|node| self.proxy(&node));
        let places = ["clientCert", "clientKey"].map(|key| self.fields.peek(key).cloned());
        let settings = NetworkSettings {
            proxy: proxy.unwrap_or_default(),
            ca_file: self.certificate_file("caFile"),
            client_cert: self.certificate_file("clientCert"),
            client_key: self.certificate_file("clientKey"),
        };
        let [certificate, key] = places;
        if let Some(key) = &key
            && settings.client_key.is_some()
            && certificate.is_none()
        {
            let hint = "name the certificate of this key by `clientCert`";
            self.report
                .error_with_hint(&key.place, "a key without its certificate", hint);
        }
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let is_plain = scheme.eq_ignore_ascii_case("http");
        if let Some(certificate) = certificate
            && settings.client_cert.is_some()
            && is_plain
        {
            let message = "not used: connections to an http:// URL have no certificates";
            self.report.warn(&certificate.place, message);
        }
        settings
    }

    fn proxy(&mut self, node: &Node<'_>) -> Option<ProxyChoice> {
        match node.as_bool() {
            Some(false) => return Some(ProxyChoice::None),
            Some(true) => {
                let hint = "the URL of a proxy, or false for none; without the key the environment decides";
                self.report
                    .error_with_hint(&node.place, "true names no proxy", hint);
                return None;
            }
            None => {}
        }
        let url = self.text(node)?;
        if url.is_empty() {
            return None;
        }
        if url.eq_ignore_ascii_case(NO_PROXY) {
            return Some(ProxyChoice::None);
        }
        if !self.scope.is_open(&url)
            && let Err(fault) = Proxy::parse(&url)
        {
            let hint = "such as http://proxy.example:3128";
            self.report
                .error_with_hint(&node.place, fault.to_string(), hint);
            return None;
        }
        Some(ProxyChoice::Through(Secret::new(url)))
    }

    /// Reads the path of a file. The file is read when a connection is opened.
    fn certificate_file(&mut self, key: &'static str) -> Option<PathBuf> {
        let node = self.fields.take(key)?;
        let text = self.text(&node).filter(|text| !text.is_empty())?;
        self.resolved(&node.place, self.scope.path(&text))
    }
}
