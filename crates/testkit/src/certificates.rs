//! Certificates of authorities, servers and clients, and the files that hold them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// An authority that issues certificates.
pub struct Authority {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, key }
    }

    /// The certificate in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate for servers with these names, and for clients. It is valid for a year.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.issue_until(names, SystemTime::now() + Duration::from_hours(365 * 24))
    }

    /// Like [`Authority::issue`], valid until `end`.
    pub fn issue_until(&self, names: &[&str], end: SystemTime) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_after = end.into();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.certificate, &self.key);
        Identity {
            certificate: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Identity {
    /// Writes `cert.pem` and `key.pem`, and returns their paths. Each file is replaced at once.
    pub fn write(&self, folder: &Path) -> [PathBuf; 2] {
        [("cert.pem", &self.certificate), ("key.pem", &self.key)].map(|(name, text)| {
            let (path, new) = (folder.join(name), folder.join(format!("new-{name}")));
            fs::write(&new, text).expect("written");
            fs::rename(&new, &path).expect("replaced");
            path
        })
    }
}
