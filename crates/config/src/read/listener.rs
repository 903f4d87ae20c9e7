//! Reads the listener's TLS and the proxies in front of it (`http.tls`, `http.trustedProxies`).

use std::path::{Path, PathBuf};

use mainstay_core::config::{AddressRange, ListenerTls};
use serde_json::{Map, Value, json};

use crate::{
    read::{
        expand::Environment,
        fields::Fields,
        node::Node,
        report::{FindingReport, KeyPath},
    },
    words::settings::SettingValue,
};

/// The key of the certificate's file in the configuration.
pub const CERTIFICATE_KEY: &str = "cert";
/// The key of the private key's file.
pub const PRIVATE_KEY_KEY: &str = "key";
/// The key of the file of client authorities.
pub const CLIENT_CA_KEY: &str = "clientCa";

/// `http.tls`. The paths are read as they are written.
impl SettingValue for ListenerTls {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let mut fields = Fields::open(node, report)?;
        let mut path = |key| {
            let node = fields.take(key)?;
            let text = node.string(report)?;
            check_path(text, &node.place, report)
        };
        let (certificate, key, client_ca) = (
            path(CERTIFICATE_KEY),
            path(PRIVATE_KEY_KEY),
            path(CLIENT_CA_KEY),
        );
        if certificate.is_none() && node.member(CERTIFICATE_KEY).is_none() {
            let hint = "the file of the certificate; \"key\" names that of its private key";
            report.error_with_hint(&node.place, "`tls` needs a `cert`", hint);
        }
        fields.finish(report);
        Some(Self {
            certificate: certificate?,
            key,
            client_ca,
        })
    }

    fn file_value(&self) -> Value {
        let Self {
            certificate,
            key,
            client_ca,
        } = self;
        let paths = [
            (CERTIFICATE_KEY, Some(certificate)),
            (PRIVATE_KEY_KEY, key.as_ref()),
            (CLIENT_CA_KEY, client_ca.as_ref()),
        ];
        let members = paths
            .into_iter()
            .filter_map(|(key, path)| Some((key.to_owned(), json!(path?))));
        Value::Object(members.collect::<Map<_, _>>())
    }
}

/// `http.trustedProxies`. Each bad element is a finding of its own.
impl SettingValue for Vec<AddressRange> {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let mut ranges = Self::new();
        for element in node.array(report) {
            let Some(text) = element.string(report) else {
                continue;
            };
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(fault) => report.error_about(&element.place, &fault, None),
            }
        }
        Some(ranges)
    }

    fn file_value(&self) -> Value {
        self.iter().map(ToString::to_string).collect()
    }
}

fn check_path(text: &str, place: &KeyPath, report: &mut FindingReport<'_>) -> Option<PathBuf> {
    if text.is_empty() {
        report.error(place, "expected the path of a file");
        return None;
    }
    if text.contains("-----BEGIN") {
        let hint = "write it to a file that only you can read, and name that file here";
        report.error_with_hint(
            place,
            "expected the path of a file, found its content",
            hint,
        );
        return None;
    }
    if text.contains("${") {
        report.error(
            place,
            "references are not replaced here; write the path itself",
        );
        return None;
    }
    Some(PathBuf::from(text))
}

/// Makes the paths absolute. They begin at the folder of the configuration, or with `~` at the home folder.
pub(crate) fn resolve(tls: &mut ListenerTls, folder: &Path, environment: &dyn Environment) {
    let ListenerTls {
        certificate,
        key,
        client_ca,
    } = tls;
    for path in [Some(certificate), key.as_mut(), client_ca.as_mut()]
        .into_iter()
        .flatten()
    {
        let under_home = path.strip_prefix("~").ok().map(Path::to_owned);
        *path = match under_home.zip(environment.home_dir()) {
            Some((rest, home)) => home.join(rest),
            None => folder.join(&path),
        };
    }
}
