//! Certificate authorities, servers and proxies for tests.

use std::{
    io,
    sync::{Arc, Mutex},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// The name of servers in tests. Only the test proxy can resolve it.
pub const HOST: &str = "server.test";

/// An authority that issues certificates.
pub struct Authority {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// A certificate and its key.
pub struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
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

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Issues a certificate for clients and for servers with these names.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.certificate, &self.key);
        Identity {
            certificate: certificate.expect("a certificate"),
            key,
        }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a root");
        roots.into()
    }
}

impl Identity {
    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Creates an acceptor for TLS. With `clients`, a client must show a certificate of that
    /// authority.
    pub fn acceptor(
        &self,
        clients: Option<&Authority>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(authority.roots(), provider)
                    .build()
                    .expect("a verifier"),
            ),
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let chain = vec![self.certificate.der().clone()];
        let config = builder.with_single_cert(chain, key).expect("a fitting key");
        TlsAcceptor::from(Arc::new(config))
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Reads the head of a message, and its body by `Content-Length`. `None` at the end of the stream.
async fn message(stream: &mut BufReader<Box<dyn Stream>>) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("text");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

async fn accepted(listener: &TcpListener, tls: Option<&TlsAcceptor>) -> Option<Box<dyn Stream>> {
    let (tcp, _) = listener.accept().await.expect("a connection");
    match tls {
        None => Some(Box::new(tcp)),
        // A client that does not trust the certificate closes the connection.
        Some(tls) => match tls.accept(tcp).await {
            Ok(tls) => Some(Box::new(tls)),
            Err(_) => None,
        },
    }
}

/// Starts a server that answers each request with its head. Returns its port.
pub async fn echo_server(tls: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        loop {
            let Some(stream) = accepted(&listener, tls.as_ref()).await else {
                continue;
            };
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some((head, _)) = message(&mut stream).await {
                    let length = head.len();
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}");
                    let written = stream.write_all(answer.as_bytes()).await;
                    if written.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A proxy that resolves every name to this machine.
#[derive(Default)]
pub struct TestProxy {
    /// The value of `Proxy-Authorization` that the proxy requires.
    pub credentials: Option<&'static str>,
    /// The answer to every request. `None` to serve the requests.
    pub answer: Option<&'static str>,
    pub tls: Option<TlsAcceptor>,
}

/// The heads of all requests of all connections, and the number of connections.
pub type ProxyRequests = Arc<Mutex<(Vec<String>, usize)>>;

impl TestProxy {
    /// Starts the proxy. Returns its port, and the requests that it receives.
    pub async fn start(self) -> (u16, ProxyRequests) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = ProxyRequests::default();
        let (proxy, recorded_requests) = (Arc::new(self), Arc::clone(&requests));
        tokio::spawn(async move {
            loop {
                let Some(stream) = accepted(&listener, proxy.tls.as_ref()).await else {
                    continue;
                };
                recorded_requests.lock().expect("no panic").1 += 1;
                let (proxy, recorded_requests) =
                    (Arc::clone(&proxy), Arc::clone(&recorded_requests));
                tokio::spawn(async move {
                    // The client may close the connection at any time.
                    let _ = proxy.serve(stream, &recorded_requests).await;
                });
            }
        });
        (port, requests)
    }

    async fn serve(
        &self,
        stream: Box<dyn Stream>,
        recorded_requests: &ProxyRequests,
    ) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some((head, body)) = message(&mut stream).await {
            recorded_requests
                .lock()
                .expect("no panic")
                .0
                .push(head.clone());
            let expected = self
                .credentials
                .map(|value| format!("\r\nproxy-authorization: {value}\r\n"));
            if let Some(answer) = self.answer {
                stream.write_all(answer.as_bytes()).await?;
                stream.flush().await?;
                return Ok(());
            }
            if expected.is_some_and(|line| !head.contains(&line)) {
                let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer.as_bytes()).await?;
                stream.flush().await?;
                continue;
            }
            let (method, rest) = head.split_once(' ').expect("a method");
            let (target, rest) = rest.split_once(' ').expect("a target");
            if method == "CONNECT" {
                let mut origin = connect(target).await?;
                stream
                    .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    .await?;
                stream.flush().await?;
                tokio::io::copy_bidirectional(&mut stream, &mut origin).await?;
                return Ok(());
            }
            let target = target.strip_prefix("http://").expect("an absolute target");
            let (authority, path) = target.split_once('/').expect("a path");
            let rest: String = rest
                .split_inclusive('\n')
                .filter(|line| !line.starts_with("proxy-authorization"))
                .collect();
            let origin: Box<dyn Stream> = Box::new(connect(authority).await?);
            let mut origin = BufReader::new(origin);
            origin
                .write_all(format!("{method} /{path} {rest}").as_bytes())
                .await?;
            origin.write_all(&body).await?;
            let (head, body) = message(&mut origin).await.ok_or(io::ErrorKind::Other)?;
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
            stream.flush().await?;
        }
        Ok(())
    }
}

async fn connect(authority: &str) -> io::Result<TcpStream> {
    let (_, port) = authority.rsplit_once(':').expect("a port");
    TcpStream::connect(format!("127.0.0.1:{port}")).await
}
