//! The files of the listener's TLS: reads and checks them, and makes a TLS configuration of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use mainstay_config::{
    CERTIFICATE_KEY, CLIENT_CA_KEY, PRIVATE_KEY_KEY, Syntax, UnreadableFile, position_of,
};
use mainstay_core::{
    certificate::{CertificateAge, CertificateFacts},
    config::{ConfigError, ConfigErrors, ListenerTls},
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier},
};
use sha2::{Digest as _, Sha256};

use crate::{
    environment::{LoadError, Loaded},
    files, utc,
};

/// The protocol that the listener offers (ALPN, RFC 7301).
const PROTOCOL: &[u8] = b"http/1.1";

/// Sessions that clients may resume without a whole handshake. The oldest is dropped.
const MAX_RESUMABLE: usize = 1024;

/// The content of the files of one [`ListenerTls`].
pub struct TlsTexts {
    files: ListenerTls,
    texts: BTreeMap<PathBuf, Result<String, UnreadableFile>>,
}

/// A digest of the content of the files. It is the same as long as the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsDigest([u8; 32]);

/// A TLS configuration for new connections, and the facts of its certificate.
#[derive(Clone, Debug)]
pub struct UsableTls {
    pub config: Arc<ServerConfig>,
    pub facts: CertificateFacts,
}

/// The reason that the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct UnusableTls {
    /// The key of the file within `http.tls`.
    pub key: &'static str,
    pub path: PathBuf,
    pub fault: TlsFault,
}

/// The fault of a file of the listener's TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    #[error("{0}")]
    Unreadable(UnreadableFile),
    #[error("the file is empty")]
    Empty,
    #[error("it has no certificate in PEM")]
    NoCertificate,
    #[error("a certificate in it cannot be read")]
    BadCertificate,
    #[error("it has no private key in PEM")]
    NoKey,
    #[error("the private key has a passphrase")]
    EncryptedKey,
    #[error("the private key is of a kind that cannot be used")]
    UnusableKey,
    #[error("the private key does not fit the certificate in {}", .0.display())]
    OtherKey(PathBuf),
    #[error("the certificate has expired, at {0}")]
    Expired(String),
    #[error("the certificate is valid from {0} only")]
    NotYetValid(String),
}

impl TlsFault {
    /// The way to mend it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable(reason) => reason.hint(),
            Self::Empty | Self::NoCertificate | Self::BadCertificate => {
                "a certificate is text from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----; check it with openssl x509 -in FILE -noout -text"
            }
            Self::NoKey => "name the file of the private key by `key`",
            Self::EncryptedKey => "write it without one: openssl pkey -in KEY -out PLAIN",
            Self::UnusableKey => "use an ECDSA key (P-256, P-384), an Ed25519 key or an RSA key",
            Self::OtherKey(_) => "name the private key with which the certificate was issued",
            Self::Expired(_) => "renew the certificate",
            Self::NotYetValid(_) => "check the clock of this machine",
        }
    }
}

impl fmt::Debug for TlsTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The texts hold the private key.
        f.debug_struct("TlsTexts")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl TlsTexts {
    /// Reads the files. Blocks for up to [`files::PATIENCE`].
    pub fn read(tls: &ListenerTls) -> Self {
        let ListenerTls {
            certificate,
            key,
            client_ca,
        } = tls;
        let paths = [Some(certificate), key.as_ref(), client_ca.as_ref()];
        let paths: BTreeSet<PathBuf> = paths.into_iter().flatten().cloned().collect();
        Self {
            texts: files::referenced(&paths),
            files: tls.clone(),
        }
    }

    pub fn digest(&self) -> TlsDigest {
        let mut digest = Sha256::new();
        for (path, text) in &self.texts {
            let text = match text {
                Ok(text) => text.clone(),
                Err(reason) => reason.to_string(),
            };
            for part in [path.as_os_str().as_encoded_bytes(), text.as_bytes()] {
                digest.update(part.len().to_be_bytes());
                digest.update(part);
            }
        }
        TlsDigest(digest.finalize().into())
    }

    /// Checks the files, and makes a TLS configuration of them.
    pub fn usable(&self, now: SystemTime) -> Result<UsableTls, UnusableTls> {
        let ListenerTls {
            certificate,
            key,
            client_ca,
        } = &self.files;
        let chain = self.certificates(CERTIFICATE_KEY, certificate)?;
        let unusable = |key, path: &Path, fault| UnusableTls {
            key,
            path: path.to_owned(),
            fault,
        };
        let bad = |fault| unusable(CERTIFICATE_KEY, certificate, fault);
        let first = chain.first().map(|first| CertificateFacts::read(first));
        let Some(Ok(facts)) = first else {
            return Err(bad(TlsFault::BadCertificate));
        };
        let (key_key, key_path) = match key {
            Some(path) => (PRIVATE_KEY_KEY, path),
            None => (CERTIFICATE_KEY, certificate),
        };
        let key = private_key(self.text(key_key, key_path)?)
            .map_err(|fault| unusable(key_key, key_path, fault))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default protocol versions");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let authorities = self.certificates(CLIENT_CA_KEY, path)?;
                let verifier = client_verifier(authorities, &provider);
                let bad = unusable(CLIENT_CA_KEY, path, TlsFault::BadCertificate);
                builder.with_client_cert_verifier(verifier.ok_or(bad)?)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    let fault = TlsFault::OtherKey(certificate.clone());
                    unusable(key_key, key_path, fault)
                }
                rustls::Error::InvalidCertificate(_) => bad(TlsFault::BadCertificate),
                _ => unusable(key_key, key_path, TlsFault::UnusableKey),
            })?;
        match facts.age(now) {
            CertificateAge::Expired => {
                let at = utc::rfc3339(facts.not_after);
                return Err(bad(TlsFault::Expired(at)));
            }
            CertificateAge::NotYetValid => {
                let at = utc::rfc3339(facts.not_before);
                return Err(bad(TlsFault::NotYetValid(at)));
            }
            CertificateAge::Fresh | CertificateAge::EndsSoon | CertificateAge::EndsVerySoon => {}
        }
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session repeats no check of a client's certificate.
        config.session_storage = match client_ca {
            None => ServerSessionMemoryCache::new(MAX_RESUMABLE),
            Some(_) => Arc::new(NoServerSessionStorage {}),
        };
        Ok(UsableTls {
            config: Arc::new(config),
            facts,
        })
    }

    fn text(&self, key: &'static str, path: &Path) -> Result<&str, UnusableTls> {
        let fault = match self.texts.get(path) {
            Some(Ok(text)) if text.trim().is_empty() => TlsFault::Empty,
            Some(Ok(text)) => return Ok(text),
            Some(Err(reason)) => TlsFault::Unreadable(reason.clone()),
            None => TlsFault::Unreadable(UnreadableFile::Late(files::PATIENCE)),
        };
        Err(UnusableTls {
            key,
            path: path.to_owned(),
            fault,
        })
    }

    fn certificates(
        &self,
        key: &'static str,
        path: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, UnusableTls> {
        let text = self.text(key, path)?;
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let fault = match read {
            Ok(none) if none.is_empty() => TlsFault::NoCertificate,
            Ok(certificates) => return Ok(certificates),
            Err(_) => TlsFault::BadCertificate,
        };
        Err(UnusableTls {
            key,
            path: path.to_owned(),
            fault,
        })
    }
}

fn private_key(text: &str) -> Result<PrivateKeyDer<'static>, TlsFault> {
    let is_encrypted =
        text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED");
    if is_encrypted {
        return Err(TlsFault::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| TlsFault::NoKey)
}

/// Demands certificates of these authorities. `None` if one of the authorities cannot be read: its clients would
/// be refused.
fn client_verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(authorities);
    if ignored > 0 {
        return None;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    verifier.build().ok()
}

/// The TLS of a loaded configuration, and a digest of its files. `None` if the configuration has none. Reads the
/// files.
///
/// # Errors
///
/// The files cannot be used. The error has their place in the configuration.
pub fn of_loaded(loaded: &Loaded) -> Result<Option<(UsableTls, TlsDigest)>, LoadError> {
    let Some(tls) = &loaded.config.tls else {
        return Ok(None);
    };
    let texts = TlsTexts::read(tls);
    match texts.usable(SystemTime::now()) {
        Ok(usable) => Ok(Some((usable, texts.digest()))),
        Err(error) => {
            let path = loaded.path.clone().unwrap_or_default();
            let errors = ConfigErrors(vec![finding(&error, &path)]);
            Err(LoadError::Invalid { path, errors })
        }
    }
}

/// The finding about unusable files, with their place in the configuration of this path.
fn finding(error: &UnusableTls, path: &Path) -> ConfigError {
    let text = files::own_configuration(path).unwrap_or_default();
    let keys = ["http", "tls", error.key];
    ConfigError {
        path: keys.join("."),
        message: error.to_string(),
        hint: Some(error.fault.hint().to_owned()),
        position: position_of(&text, Syntax::of_path(path), &keys),
        awaits_file: false,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use mainstay_testkit::certificates::{Authority, Identity};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn tls(folder: &Path, identity: &Identity) -> ListenerTls {
        let [certificate, key] = identity.write(folder);
        ListenerTls {
            certificate,
            key: Some(key),
            client_ca: None,
        }
    }

    fn fault(tls: &ListenerTls) -> String {
        match TlsTexts::read(tls).usable(SystemTime::now()) {
            Ok(usable) => format!("usable: {:?}", usable.facts.names),
            Err(error) => {
                assert!(!error.fault.hint().is_empty());
                format!("{} {error}", error.key)
            }
        }
    }

    #[test]
    fn a_certificate_and_its_key_are_usable() {
        let folder = tempfile::tempdir().expect("a folder");
        let end = SystemTime::now() + 9 * DAY;
        let identity = Authority::new("corp").issue_until(&["gate.example", "192.0.2.1"], end);
        let mut tls = tls(folder.path(), &identity);
        let usable = TlsTexts::read(&tls).usable(SystemTime::now());
        let usable = usable.expect("usable");
        assert!(usable.facts.covers("gate.example") && usable.facts.covers("192.0.2.1"));
        assert_eq!(usable.facts.days_left(SystemTime::now() + DAY), 7);
        assert_eq!(
            usable.facts.age(SystemTime::now()),
            CertificateAge::EndsSoon
        );
        // Both in one file.
        let both = format!("{}{}", identity.certificate, identity.key);
        fs::write(&tls.certificate, both).expect("written");
        tls.key = None;
        TlsTexts::read(&tls)
            .usable(SystemTime::now())
            .expect("usable");
    }

    #[test]
    fn unusable_files_are_named_with_their_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("corp");
        let (identity, other) = (authority.issue(&["a"]), authority.issue(&["b"]));
        let yesterday = SystemTime::now() - DAY;
        let expired = authority.issue_until(&["a"], yesterday);
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let with = |certificate: &str, key: &str, client_ca: Option<&str>| {
            let identity = Identity {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            };
            let ca_path = folder.path().join("ca.pem");
            let client_ca = client_ca.map(|text| {
                fs::write(&ca_path, text).expect("written");
                ca_path
            });
            let tls = ListenerTls {
                client_ca,
                ..tls(folder.path(), &identity)
            };
            let fault = fault(&tls);
            fault.replace(folder.path().to_str().expect("UTF-8"), "DIR")
        };
        let (certificate, key) = (&*identity.certificate, &*identity.key);
        for (found, expected) in [
            (with("", key, None), "cert DIR/cert.pem: the file is empty"),
            (
                with(key, key, None),
                "cert DIR/cert.pem: it has no certificate in PEM",
            ),
            (
                with(broken, key, None),
                "cert DIR/cert.pem: a certificate in it cannot be read",
            ),
            (
                with(certificate, certificate, None),
                "key DIR/key.pem: it has no private key in PEM",
            ),
            (
                with(certificate, encrypted, None),
                "key DIR/key.pem: the private key has a passphrase",
            ),
            (
                with(certificate, &other.key, None),
                "key DIR/key.pem: the private key does not fit the certificate in DIR/cert.pem",
            ),
            (
                with(certificate, key, Some(key)),
                "clientCa DIR/ca.pem: it has no certificate in PEM",
            ),
            (
                with(certificate, key, Some(broken)),
                "clientCa DIR/ca.pem: a certificate in it cannot be read",
            ),
            (
                with(certificate, key, Some(&authority.pem())),
                "usable: [Dns(\"a\")]",
            ),
        ] {
            assert_eq!(found, expected);
        }
        let found = with(&expired.certificate, &expired.key, None);
        let expected = "cert DIR/cert.pem: the certificate has expired, at 20";
        assert!(found.starts_with(expected), "{found}");
        let mut tls = tls(folder.path(), &identity);
        tls.key = Some(folder.path().join("missing.pem"));
        assert!(fault(&tls).ends_with("missing.pem: there is no such file"));
        let early = TlsTexts::read(&self::tls(folder.path(), &identity))
            .usable(std::time::UNIX_EPOCH)
            .expect_err("it is not yet valid");
        assert!(matches!(early.fault, TlsFault::NotYetValid(_)), "{early}");
    }

    #[test]
    fn a_digest_changes_with_each_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("corp");
        let tls = tls(folder.path(), &authority.issue(&["a"]));
        let digest = || TlsTexts::read(&tls).digest();
        let first = digest();
        assert_eq!(first, digest());
        authority.issue(&["a"]).write(folder.path());
        let second = digest();
        assert_ne!(first, second);
        fs::remove_file(&tls.certificate).expect("removed");
        assert_ne!(second, digest());
        assert!(!format!("{:?}", TlsTexts::read(&tls)).contains("PRIVATE"));
    }
}
