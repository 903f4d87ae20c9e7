//! One TCP connection to an origin, encrypted where the URL asks for it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use http::Uri;
use mainstay_config::Environment as _;
use mainstay_core::proxy::{self, Place};
use mainstay_platform::{
    descriptors::{self, Descriptors},
    dial,
    environment::Process,
    scratch,
};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncWrite, Interest},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{connect_error, error::Unusable};

/// A TCP and TLS connection that takes longer counts as a failed attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A silent connection is asked after this time, so often, so many times.
#[cfg(target_os = "linux")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
#[cfg(target_os = "linux")]
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const KEEPALIVE_COUNT: u32 = 3;

/// What was sent and not acknowledged for so long will not be.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_LIMIT_MS: u32 = 30_000;

/// Where connections go.
#[derive(Debug)]
pub struct Endpoint {
    host: String,
    port: u16,
    tls: Option<ServerName<'static>>,
    /// The address that answered last.
    worked: Mutex<Option<SocketAddr>>,
    /// Host, and port where it is not the scheme's own.
    pub authority: String,
}

impl Endpoint {
    pub fn new(uri: &Uri) -> Result<Self, Unusable> {
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(Unusable("the URL's scheme must be http or https")),
        };
        let authority = uri.authority().ok_or(Unusable("the URL has no host"))?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let tls = if encrypted {
            let name = ServerName::try_from(host.clone());
            Some(name.map_err(|_| Unusable("the URL's host is no name"))?)
        } else {
            None
        };
        let port = authority
            .port_u16()
            .unwrap_or(if encrypted { 443 } else { 80 });
        // Credentials in a URL are not sent; `Host` never holds them.
        let shown = authority
            .as_str()
            .rsplit_once('@')
            .map_or(authority.as_str(), |(_, host)| host);
        Ok(Self {
            host,
            port,
            tls,
            worked: Mutex::default(),
            authority: shown.to_owned(),
        })
    }

    pub async fn connect(&self) -> io::Result<Connection> {
        let descriptor = descriptors::take(1)?;
        let (host, authority) = (self.host.as_str(), self.authority.as_str());
        let connecting = async {
            let found = lookup_host((host, self.port)).await;
            let found: Vec<_> = found
                .map_err(|error| self.unproxied(connect_error::unresolved(host, &error)))?
                .collect();
            let worked = *self.worked.lock();
            let (tcp, address) = dial::connect(&found, worked)
                .await
                .map_err(|error| self.unproxied(connect_error::unconnected(authority, &error)))?;
            *self.worked.lock() = Some(address);
            tcp.set_nodelay(true)?;
            watch(&tcp);
            let Some(name) = &self.tls else {
                return Ok(Stream::Plain(tcp));
            };
            let tls = TlsConnector::from(tls_config());
            let tls = tls.connect(name.clone(), tcp).await;
            let tls = tls.map_err(|error| {
                self.unproxied(connect_error::unencrypted(host, authority, &error))
            })?;
            Ok(Stream::Tls(Box::new(tls)))
        };
        let stream = timeout(CONNECT_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| {
                *self.worked.lock() = None;
                Err(self.unproxied(connect_error::too_late(authority, CONNECT_LIMIT)))
            })?;
        Ok(Connection {
            stream,
            buffer: BytesMut::new(),
            _descriptor: descriptor,
        })
    }

    /// The error with a word on the proxy that the environment names for this place, if it does.
    fn unproxied(&self, error: io::Error) -> io::Error {
        let place = Place {
            is_encrypted: self.tls.is_some(),
            host: &self.host,
            port: self.port,
        };
        match proxy::unused(place, |name| Process.var(name)) {
            Some(variable) => connect_error::unproxied(&error, variable),
            None => error,
        }
    }
}

/// Has the system end a connection whose other side has vanished without a word: a machine that was
/// cut off sends no reset. An error leaves the system's own limits in force.
#[cfg(target_os = "linux")]
fn watch(tcp: &TcpStream) {
    use rustix::net::sockopt;
    let watched = sockopt::set_socket_keepalive(tcp, true)
        .and_then(|()| sockopt::set_tcp_keepidle(tcp, KEEPALIVE_IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(tcp, KEEPALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(tcp, KEEPALIVE_COUNT))
        .and_then(|()| sockopt::set_tcp_user_timeout(tcp, UNACKNOWLEDGED_LIMIT_MS));
    if let Err(error) = watched {
        tracing::debug!(%error, "a connection is not watched");
    }
}

#[cfg(not(target_os = "linux"))]
fn watch(_tcp: &TcpStream) {}

/// The system's trust store, read once, when the first encrypted server is opened.
fn tls_config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    Arc::clone(CONFIG.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "a system certificate could not be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        let config =
            ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()
                .expect("ring supports the default protocol versions")
                .with_root_certificates(roots)
                .with_no_client_auth();
        Arc::new(config)
    }))
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// What has arrived and was not taken yet.
    pub buffer: BytesMut,
    _descriptor: Descriptors,
}

impl Connection {
    /// Whether an idle connection still may be used: nothing has come, not even its end.
    pub fn is_quiet(&self) -> bool {
        let mut probe = [0];
        matches!(self.tcp().try_read(&mut probe), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    /// How the connection ended, of which the end has been read. The system resets a connection whose other
    /// end was closed before it had read all. A process that ends its side of the connection first and
    /// closes it a moment later makes the end arrive before the reset, which is waited for this long.
    pub async fn end(self, reset_wait: Duration) -> io::ErrorKind {
        if !self.buffer.is_empty() {
            return io::ErrorKind::UnexpectedEof;
        }
        let is_reset = async {
            let tcp = self.tcp();
            // The error stays in the readiness, whoever has taken it.
            matches!(tcp.take_error(), Ok(Some(_))) || tcp.ready(Interest::ERROR).await.is_ok()
        };
        match timeout(reset_wait, is_reset).await {
            Ok(true) => io::ErrorKind::ConnectionReset,
            Ok(false) | Err(_) => io::ErrorKind::UnexpectedEof,
        }
    }

    pub fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffer = &mut self.buffer;
        let take = |piece: &[u8]| {
            buffer.extend_from_slice(piece);
            piece.len()
        };
        match &mut self.stream {
            Stream::Plain(tcp) => scratch::poll_read(tcp, context, take),
            Stream::Tls(tls) => scratch::poll_read(tls.as_mut(), context, take),
        }
    }

    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(context, data),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write(context, data),
        }
    }

    /// Ends what is written.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
        }
    }

    /// Sees to it that what was written leaves.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(context),
        }
    }
}
