//! TLS to servers and proxies: trusted certificates, and the certificate of the client.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use mainstay_config::UnreadableFile;
use mainstay_core::config::NetworkSettings;
use mainstay_platform::{blocking, files};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// The maximum number of stored configurations with files. Sessions of one server share a stored
/// configuration.
const MAX_STORED: usize = 32;

/// The PEM files for connections to one server or proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    ca_file: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

/// The reason that a file with certificates cannot be used.
#[derive(Debug, thiserror::Error)]
enum UnusableFile {
    #[error("`{setting}` {}: {reason} ({})", path.display(), reason.hint())]
    Unreadable {
        setting: &'static str,
        path: PathBuf,
        reason: UnreadableFile,
    },
    #[error("`{setting}` {}: the file is empty", path.display())]
    Empty {
        setting: &'static str,
        path: PathBuf,
    },
    #[error(
        "`{setting}` {}: it has no certificate in PEM (lines from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----)",
        path.display()
    )]
    NoCertificate {
        setting: &'static str,
        path: PathBuf,
    },
    #[error("`{setting}` {}: a certificate in it cannot be read", path.display())]
    BadCertificate {
        setting: &'static str,
        path: PathBuf,
    },
    #[error(
        "`{setting}` {}: it has no private key in PEM; name the file of the key by `clientKey`",
        path.display()
    )]
    NoKey {
        setting: &'static str,
        path: PathBuf,
    },
    #[error(
        "`{setting}` {}: the key has a passphrase; write it without one: openssl pkey -in KEY -out PLAIN",
        path.display()
    )]
    EncryptedKey {
        setting: &'static str,
        path: PathBuf,
    },
    #[error("`{setting}` {}: the key is of a kind that cannot be used", path.display())]
    UnusableKey {
        setting: &'static str,
        path: PathBuf,
    },
    #[error(
        "the key of `{setting}` {} does not fit the certificate of `clientCert` {}",
        path.display(),
        certificate.display()
    )]
    OtherKey {
        setting: &'static str,
        path: PathBuf,
        certificate: PathBuf,
    },
}

/// The files of one configuration and their texts.
#[derive(PartialEq, Eq)]
struct FileTexts {
    files: CertificateFiles,
    texts: BTreeMap<PathBuf, String>,
}

impl CertificateFiles {
    pub fn of_server(network: &NetworkSettings) -> Self {
        Self {
            ca_file: network.ca_file.clone(),
            client_cert: network.client_cert.clone(),
            client_key: network.client_key.clone(),
        }
    }

    /// The files for a connection to a proxy. The proxy must not get the client's certificate.
    pub fn of_proxy(network: &NetworkSettings) -> Self {
        Self::of_server(&network.without_client_certificate())
    }

    /// True if the client shows a certificate.
    pub fn has_client_certificate(&self) -> bool {
        self.client_cert.is_some()
    }

    /// The TLS configuration with the current content of the files. Returns the stored configuration if the
    /// files have not changed, so that TLS sessions are resumed.
    pub async fn config(&self) -> io::Result<Arc<ClientConfig>> {
        static OF_SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        let has_files = self.ca_file.is_some() || self.client_cert.is_some();
        if has_files {
            let files = self.clone();
            let read = blocking::off_the_runtime(move || files.read()).await;
            return read.map_err(io::Error::other);
        }
        if let Some(config) = OF_SYSTEM.get() {
            return Ok(Arc::clone(config));
        }
        let config = blocking::off_the_runtime(|| {
            let make = || Arc::new(without_certificate(system_roots()));
            Arc::clone(OF_SYSTEM.get_or_init(make))
        });
        Ok(config.await)
    }

    /// Reads the files and returns their configuration, which is the stored one if the files have not
    /// changed. Blocks for up to [`files::PATIENCE`].
    fn read(self) -> Result<Arc<ClientConfig>, UnusableFile> {
        static STORED: Mutex<Vec<(FileTexts, Arc<ClientConfig>)>> = Mutex::new(Vec::new());
        let read = self.texts()?;
        let stored = {
            let stored = STORED.lock();
            let mut equal = stored.iter().filter(|(texts, _)| *texts == read);
            equal.next().map(|(_, config)| Arc::clone(config))
        };
        if let Some(config) = stored {
            return Ok(config);
        }
        let config = Arc::new(read.config()?);
        let mut stored = STORED.lock();
        // Drop the configuration with the earlier content of these files.
        stored.retain(|(texts, _)| texts.files != read.files);
        if stored.len() == MAX_STORED {
            stored.remove(0);
        }
        stored.push((read, Arc::clone(&config)));
        Ok(config)
    }

    fn texts(self) -> Result<FileTexts, UnusableFile> {
        let settings = [
            ("caFile", &self.ca_file),
            ("clientCert", &self.client_cert),
            ("clientKey", &self.client_key),
        ];
        let set = settings.map(|(setting, path)| Some((setting, path.clone()?)));
        let paths: BTreeSet<PathBuf> = set.iter().flatten().map(|(_, path)| path.clone()).collect();
        let mut texts = BTreeMap::new();
        for (path, text) in files::referenced(&paths) {
            let mut of_file = set.iter().flatten().filter(|(_, named)| *named == path);
            let setting = of_file.next().map_or("caFile", |(setting, _)| setting);
            match text {
                Ok(text) if text.trim().is_empty() => {
                    return Err(UnusableFile::Empty { setting, path });
                }
                Ok(text) => texts.insert(path, text),
                Err(reason) => {
                    return Err(UnusableFile::Unreadable {
                        setting,
                        path,
                        reason,
                    });
                }
            };
        }
        Ok(FileTexts { files: self, texts })
    }
}

impl FileTexts {
    fn text(&self, path: &Path) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }

    fn config(&self) -> Result<ClientConfig, UnusableFile> {
        let roots = match &self.files.ca_file {
            Some(path) => Arc::new(self.roots(path)?),
            None => system_roots(),
        };
        let Some(path) = &self.files.client_cert else {
            return Ok(without_certificate(roots));
        };
        let chain = certificates("clientCert", path, self.text(path))?;
        let (setting, key_path) = match &self.files.client_key {
            Some(path) => ("clientKey", path),
            None => ("clientCert", path),
        };
        let key = private_key(setting, key_path, self.text(key_path))?;
        let config = builder().with_root_certificates(roots);
        config
            .with_client_auth_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => UnusableFile::OtherKey {
                    setting,
                    path: key_path.clone(),
                    certificate: path.clone(),
                },
                rustls::Error::InvalidCertificate(_) => UnusableFile::BadCertificate {
                    setting: "clientCert",
                    path: path.clone(),
                },
                _ => UnusableFile::UnusableKey {
                    setting,
                    path: key_path.clone(),
                },
            })
    }

    /// The system's certificates together with those of this file.
    fn roots(&self, path: &Path) -> Result<RootCertStore, UnusableFile> {
        let (setting, path) = ("caFile", path.to_owned());
        let authorities = certificates(setting, &path, self.text(&path))?;
        let mut roots = RootCertStore::clone(&system_roots());
        match roots.add_parsable_certificates(authorities) {
            (0, _) => return Err(UnusableFile::BadCertificate { setting, path }),
            (_, 0) => {}
            (_, ignored) => {
                tracing::warn!(file = %path.display(), ignored, "certificates of `caFile` cannot be read");
            }
        }
        Ok(roots)
    }
}

fn certificates(
    setting: &'static str,
    path: &Path,
    text: &str,
) -> Result<Vec<CertificateDer<'static>>, UnusableFile> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let path = path.to_owned();
    match read {
        Ok(none) if none.is_empty() => Err(UnusableFile::NoCertificate { setting, path }),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(UnusableFile::BadCertificate { setting, path }),
    }
}

fn private_key(
    setting: &'static str,
    path: &Path,
    text: &str,
) -> Result<PrivateKeyDer<'static>, UnusableFile> {
    let is_encrypted =
        text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED");
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| {
        let path = path.to_owned();
        if is_encrypted {
            UnusableFile::EncryptedKey { setting, path }
        } else {
            UnusableFile::NoKey { setting, path }
        }
    })
}

/// The system's trust store. It is read once, when the first encrypted connection is opened.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    Arc::clone(ROOTS.get_or_init(|| {
        let loaded = rustls_native_certs::load_native_certs();
        for error in &loaded.errors {
            tracing::warn!(%error, "a system certificate could not be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(loaded.certs);
        Arc::new(roots)
    }))
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
}

fn without_certificate(roots: Arc<RootCertStore>) -> ClientConfig {
    builder()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
