//! One TCP connection to an origin, encrypted if the URL asks for it.

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

use super::{connect_error, error::UnusableUrl};

/// A TCP and TLS connection that takes longer counts as a failed attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Keepalive probes: the silence before the first one, the time between two, and their number.
#[cfg(target_os = "linux")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
#[cfg(target_os = "linux")]
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const KEEPALIVE_COUNT: u32 = 3;

/// Sent data must be acknowledged within this time.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_LIMIT_MS: u32 = 30_000;

/// The origin of the connections.
#[derive(Debug)]
pub struct HttpOrigin {
    host: String,
    port: u16,
    tls: Option<ServerName<'static>>,
    /// The address of the last successful connection.
    worked: Mutex<Option<SocketAddr>>,
    /// The host, and the port unless it is the scheme's default.
    pub authority: String,
}

impl HttpOrigin {
    pub fn new(uri: &Uri) -> Result<Self, UnusableUrl> {
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(UnusableUrl("the URL's scheme must be http or https")),
        };
        let authority = uri.authority().ok_or(UnusableUrl("the URL has no host"))?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let tls = if encrypted {
            let name = ServerName::try_from(host.clone());
            Some(name.map_err(|_| UnusableUrl("the URL's host is no name"))?)
        } else {
            None
        };
        let port = authority
            .port_u16()
            .unwrap_or(if encrypted { 443 } else { 80 });
        // Credentials in a URL are not sent. `Host` must not contain them.
        let without_credentials = authority
            .as_str()
            .rsplit_once('@')
            .map_or(authority.as_str(), |(_, host)| host);
        Ok(Self {
            host,
            port,
            tls,
            worked: Mutex::default(),
            authority: without_credentials.to_owned(),
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

    /// Adds a hint to the error if the environment names a proxy for this origin, which Mainstay does not
    /// use.
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

/// Lets the operating system end a connection whose peer has vanished: a machine that was cut off sends no
/// reset. After an error the system's own limits apply.
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

/// The TLS configuration with the system's trust store. It is read once, when the first encrypted server is
/// opened.
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
    /// Bytes that have arrived and were not read yet.
    pub buffer: BytesMut,
    _descriptor: Descriptors,
}

impl Connection {
    /// True if an idle connection can be used: neither data nor its end has arrived.
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

    /// The kind of the connection's end, after the end has been read. The operating system resets a
    /// connection whose peer was closed before it had read everything. If the peer's process first ends its
    /// side and closes the connection a moment later, the end arrives before the reset. `reset_wait` is the
    /// time to wait for that reset.
    pub async fn end(self, reset_wait: Duration) -> io::ErrorKind {
        if !self.buffer.is_empty() {
            return io::ErrorKind::UnexpectedEof;
        }
        let is_reset = async {
            let tcp = self.tcp();
            // The socket stays ready for `Interest::ERROR` even after the error was taken.
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

    /// Ends the writing side.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
        }
    }

    /// Writes out all buffered data.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(context),
        }
    }
}
